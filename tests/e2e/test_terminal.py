"""On a terminal: colours, live progress, and a question before anything is paid."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest
from tests.e2e.conftest import COMMAND, Cli

pytestmark = pytest.mark.slow

SCRIPT = """\
async def orchestrate(ctx, args):
    return await ctx.run("image.generate", {"prompt": "a"})
"""
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A command on a terminal of its own, 100 columns wide."""

    def __init__(self, cli: Cli, *arguments: str) -> None:
        self._main, side = pty.openpty()
        environment = cli.environment | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
        self._process = subprocess.Popen(
            [str(COMMAND), *arguments], cwd=cli.folder, env=environment, stdin=side, stdout=side, stderr=side
        )
        os.close(side)
        self.seen = ""

    def _chunks(self) -> Iterator[str]:
        while True:
            try:
                data = os.read(self._main, 4096)
            except OSError:  # Linux says so when the last writer is gone
                return
            if not data:
                return
            yield data.decode("utf-8", "replace")

    def until(self, text: str) -> None:
        """Read until a text was shown."""
        for chunk in self._chunks():
            self.seen += chunk
            if text in self.plain:
                return
        raise AssertionError(f"{text!r} never came:\n{self.plain}")

    def answer(self, text: str) -> None:
        """Type something."""
        os.write(self._main, text.encode())

    def interrupt(self) -> None:
        """Do what ^C does on the terminal that a shell gives its command."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read to the end, and return the exit code."""
        for chunk in self._chunks():
            self.seen += chunk
        os.close(self._main)
        return self._process.wait(timeout=60)

    @property
    def plain(self) -> str:
        """What was shown, without colours and cursor movements."""
        return ESCAPE.sub("", self.seen).replace("\r", "")


def test_a_revision_is_shown_and_asked_for(cli: Cli) -> None:
    """No means that nothing was sent; yes applies what was shown; --yes doesn't ask."""
    cli.write("one.py", SCRIPT)
    assert cli("run", "one.py", "--id", "r").code == 0
    more = (
        SCRIPT.replace("return await", "image = await")
        + '    await ctx.run("text.generate", {"prompt": "b"})\n    return image\n'
    )
    cli.write("two.py", more)

    declined = Terminal(cli, "revise", "r", "two.py")
    declined.until("Apply this plan? [y/N]")
    assert "1 new call for at most $0.005" in declined.plain
    declined.answer("n\n")
    assert declined.end() == 4
    assert "Not applied; nothing was sent." in declined.plain
    assert cli("show", "r", "--json").json["revision"] == 1

    applied = Terminal(cli, "revise", "r", "two.py")
    applied.until("Apply this plan? [y/N]")
    applied.answer("y\n")
    assert applied.end() == 0
    assert "Run r: completed" in applied.plain
    assert "\x1b[3" in applied.seen, "colours on a terminal"
    unasked = Terminal(cli, "revise", "r", "two.py", "--yes")
    assert (unasked.end(), "Apply" in unasked.plain) == (0, False)


def test_what_a_script_says_cannot_control_the_terminal(cli: Cli) -> None:
    """A script that logs an escape sequence is shown doing so."""
    cli.write("evil.py", SCRIPT.replace("    return", '    ctx.log("\\x1b]0;owned\\x07 \\x1b[2J")\n    return'))
    done = Terminal(cli, "run", "evil.py")
    assert done.end() == 0
    assert "\x1b]0;" not in done.seen
    assert "\\x1b]0;owned\\x07" in done.plain


def test_calls_in_flight_are_seen(cli: Cli) -> None:
    """The demonstration's calls take their time; meanwhile they are counted."""
    done = Terminal(cli, "demo", "--seconds", "1")
    done.until("4 in flight, 1 done, $0.01")
    assert done.end() == 0
    assert "verified" in done.plain


def test_a_server_on_a_terminal_says_that_it_waits(cli: Cli) -> None:
    """A person who starts `addendum mcp` by hand sees why nothing happens; ^C ends it."""
    serving = Terminal(cli, "mcp")
    serving.until("waits for an MCP client")
    serving.interrupt()
    assert serving.end() in (0, 130)  # as it serves, or just before
