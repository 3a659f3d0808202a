"""What is seen while a run goes on: a line for each thing that happened, and on a terminal what is in flight.

Lines say capability, outcome, cost and identity; replays are counted, not listed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.text import Text

from addendum.authority.money import usd
from addendum.cli.printable import line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

SHOWN = 6
"""How many calls in flight are shown on a terminal."""
SAID = 600
"""Characters of what is said of a call: a provider's own text has up to 500, and its end is often what helps."""
STYLES = {
    "ok": "green",
    "failed": "red",
    "retry": "yellow",
    "limit": "yellow",
    "asked": "yellow",
    "unresolved": "red",
    "frozen": "red",
    "repeat": "yellow",
    "replayed": "cyan",
    "rebound": "cyan",
    "asking": "cyan",
    "drafted": "cyan",
    "log": "dim",
    "phase": "bold",
}


class Progress:
    """Watches one run. Call it with each event; it prints on a console, or nothing if there is none."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._live: Live | None = None
        self._flying: dict[str, tuple[str, float]] = {}
        self._replayed = self._rebound = self._done = 0
        self._cost = 0
        self.asking = False
        """Whether a model is asked for a script: what is in flight then isn't waited for when the run is stopped."""

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        name = event["event"]
        if name == "replayed":
            self._replayed += 1
            return
        if name == "rebound":
            self._rebound += 1
            return
        if name == "dispatched":
            self._flying[event["identity"]] = (event["capability"], time.monotonic())
        self._flush()
        self._tell(name, event)

    @property
    def flying(self) -> int:
        """How many calls are in flight; a model that is asked for a script isn't one."""
        return len(self._flying) - self.asking

    @contextmanager
    def watching(self) -> Iterator[Progress]:
        """Show what is in flight while the block runs, on a terminal."""
        if self._console is None or not self._console.is_terminal:
            yield self
            self._flush()
            return
        from rich.live import Live

        live = Live(console=self._console, get_renderable=self._status, refresh_per_second=8, transient=True)
        with live as self._live:
            yield self
            self._flush()
        self._live = None

    def restore(self) -> None:
        """Put the terminal back as it was."""
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Say a sentence between the lines."""
        self._print(Text(text, style="bold yellow"))

    def _tell(self, name: str, event: Mapping[str, Any]) -> None:
        capability, at = str(event.get("capability", "")), str(event.get("identity", ""))
        match name:
            case "settled":
                self._flying.pop(at, None)
                self._settled(event, capability, at)
            case "retry":
                self._flying.pop(at, None)
                pause = event["in"]
                then = "not sent again, as the run ends" if pause is None else f"again in {pause:.2g} s"
                self._line("retry", capability, f"{event['code']}, {then}", at)
            case "limit":
                self._line("limit", "", str(event["limit"]), at)
            case "asked":
                question = event["payload"].get("question", "") if isinstance(event["payload"], dict) else ""
                self._line("asked", capability, str(question), at)
            case "repeat":
                self._line("repeat", capability, f"{event['finding']}: paid for before at {event['of']}", at)
            case "unresolved":
                self._flying.pop(at, None)
                self._line("unresolved", capability, str(event["message"]), at)
            case "frozen":
                self._line("frozen", capability, f"more {event['meter']} than declared: nothing more is sent", "")
            case "drafting":
                most = f", at most ${usd(event['price'])}" if event["price"] else ""
                self.asking = True
                self._flying["repair.write"] = ("repair.write", time.monotonic())
                self._line("asking", "repair.write", f"{event['model']}, attempt {event['attempt']}{most}", "")
            case "drafted":
                self.asking = False
                self._flying.pop("repair.write", None)
                self._done += event["verdict"] != "failed"  # there is no draft, and as a rule the model is asked again
                self._cost += event["cost"]
                self._line("drafted", "repair.write", f"{event['verdict']}, ${usd(event['cost'])}", "")
            case "log" | "phase":
                self._line(name, "", str(event["text"]), "")
            case _:
                return

    def _settled(self, event: Mapping[str, Any], capability: str, at: str) -> None:
        self._done += 1
        self._cost += event["cost"]
        if event["ok"]:
            self._line("ok", capability, f"${usd(event['cost'])}", at)
            return
        failure = event.get("failure") or {}
        self._line("failed", capability, f"{failure.get('code')}: {failure.get('message')}", at)

    def _flush(self) -> None:
        """Say how many calls were served from the store since the last line."""
        if self._replayed:
            moved = f", {self._rebound} of them at another place" if self._rebound else ""
            self._line("replayed", "", f"{self._replayed} call{'s' * (self._replayed != 1)} from the store{moved}", "")
            self._replayed = self._rebound = 0

    def _line(self, word: str, capability: str, what: str, at: str) -> None:
        text = Text(f"{word:<10} ", style=STYLES[word])
        if capability:
            text.append(f"{capability:<16} ", style="default")
        text.append(line(what, SAID), style="default")
        if at:
            text.append(f"  {line(at)}", style="dim")
        self._print(text, cut=word == "ok")

    def _print(self, text: Text, *, cut: bool = False) -> None:
        if self._console is None:
            return
        try:
            if self._console.is_terminal and cut:
                self._console.print(text, no_wrap=True, overflow="ellipsis")
            else:
                self._console.print(text, soft_wrap=not self._console.is_terminal)
        except OSError:
            self._console = None  # nobody reads it any more: that is no reason to end a run

    def _status(self) -> RenderableType:
        now = time.monotonic()
        found = list(self._flying.items())
        text = Text()
        for at, (capability, since) in found[:SHOWN]:
            text.append(f"{_SPIN[int(now * 8) % len(_SPIN)]} ", style="yellow")
            text.append(f"{capability:<16} {now - since:5.1f} s  ")
            text.append(f"{line(at) if at != capability else ''}\n", style="dim")
        more = f" ({len(found) - SHOWN} more)" if len(found) > SHOWN else ""
        text.append(f"{len(found)} in flight{more}, {self._done} done, ${usd(self._cost)}", style="dim")
        text.no_wrap = True
        text.overflow = "ellipsis"
        return text


_SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
