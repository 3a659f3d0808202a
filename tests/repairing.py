"""A run that failed, and a model that answers as it is told: what the tests of the repair loop share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from addendum.authority.grant import Grant, everything, from_json
from addendum.ports import Sandbox, Store, Usage, Written
from addendum.records.history import History, fold
from addendum.repair.author import author
from addendum.repair.guards import Options
from addendum.repair.loop import Asked, repair
from addendum.repair.outcome import Outcome
from addendum.runs.context import Context
from addendum.runs.result import StepResult
from addendum.runs.start import start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing import DEMO_CATALOG, DemoProvider, Fault, ManualClock, MemoryStore
from addendum.testing.scripted_model import ScriptedModel

FILM = """
async def orchestrate(ctx, args):
    plan = await ctx.run("storyboard.plan", {"brief": args["brief"], "shots": 3})
    urls = []
    for shot in plan["shots"][:3]:
        image = await ctx.run("image.generate", {"prompt": shot["prompt"]})
        urls.append(image["url"])
    film = await ctx.run("video.compose", {"clips": urls, "music_url": None})
    return film["url"]
"""
"""Fails at its third image, with $0.05 paid."""
CALL = '        image = await ctx.run("image.generate", {"prompt": shot["prompt"]})\n'
MENDED = FILM.replace(CALL, f'        if shot["prompt"] == "Prompt 3":\n            shot["prompt"] = "Three"\n{CALL}')
CHANGED = FILM.replace('{"prompt": shot["prompt"]}', '{"prompt": shot["prompt"] + "!"}')
DIVERGING = FILM.replace(CALL, f'        shot["prompt"] = shot["prompt"].upper()\n{CALL}')
CUT_OFF = FILM.partition("    film =")[0] + "    return urls\n"
UNBOUNDED = FILM.replace('plan["shots"][:3]', 'plan["shots"]')
PLACE = "orchestrate/for.0 > orchestrate/for.0/image.generate#0"
MOST = 10_000_000
"""What one answer of the model may cost at most, in nano-dollars; it costs 3,000,000."""


def answer(script: object, **more: Any) -> dict[str, Any]:
    """Return an answer of a model."""
    return {"script": script, "moves": [], "drops": [], "reason": "because", **more}


def model(*answers: Any, most: int = MOST, cost: int | None = 3_000_000, tokens: int = 500) -> ScriptedModel:
    """Return a model with these answers: scripts as text, or whole answers, or exceptions."""
    said = [answer(each) if isinstance(each, str) else each for each in answers]
    usage = Usage(cost, tokens)
    told = [Written(each, usage, "scripted-1") if isinstance(each, dict) else each for each in said]
    return ScriptedModel(told, cost=cost or 0, most=most, most_tokens=1000)


@dataclass
class World:
    """A context with the demo's capabilities, whose third image fails."""

    sandbox: Sandbox
    store: Store = field(default_factory=MemoryStore)
    grant: Grant = field(default_factory=lambda: everything(DEMO_CATALOG))
    faults: Sequence[Fault] = (Fault("image.generate", "invalid_input", "no such picture", dispatch=3),)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    context: Context = field(init=False)
    provider: DemoProvider = field(init=False)

    def __post_init__(self) -> None:
        self.provider = DemoProvider(faults=self.faults)
        self.context = Context(
            store=self.store,
            sandbox=self.sandbox,
            provider=self.provider,
            catalog=DEMO_CATALOG,
            clock=ManualClock(),
            grant=self.grant,
            backoff=0.0,
            observer=lambda event: self.events.append(dict(event)),
        )

    def failed(self, source: str = FILM, request: str = "", **more: Any) -> StepResult:
        """Run the film to its failure, under the name `r`."""
        return start(self.context, source, {"brief": "the sea"}, run="r", request=request, **more)

    def repair(
        self, by: Any, *, attempts: int = 3, again: bool = False, timeout: float = 120.0, **more: Any
    ) -> Outcome:
        """Have the run mended."""
        asked = Asked(options=Options(**more), max_attempts=attempts, again=again, timeout=timeout)
        return repair(self.context, "r", by, asked)

    def author(self, by: Any, request: str = "a film", *, attempts: int = 3, **more: Any) -> Outcome:
        """Have a script written, in a run of the name `a`."""
        args = more.pop("args", {"brief": "the sea"})
        return author(self.context, request, by, Asked(max_attempts=attempts), args=args, run="a", **more)

    def history(self, run: str = "r") -> History:
        """Return a run's history."""
        return fold(self.store.entries(run))

    def kinds(self, run: str = "r") -> list[str]:
        """Return the kinds of a run's entries."""
        return [entry.kind for entry in self.store.entries(run)]

    @property
    def dispatched(self) -> int:
        """How many calls of capabilities were sent."""
        return sum(self.provider.count.values())


@contextmanager
def world(**more: Any) -> Iterator[World]:
    """Open a world with a sandbox of its own."""
    sandbox = EmbeddedSandbox()
    try:
        yield World(sandbox, **more)
    finally:
        sandbox.close()


def granted(**more: Any) -> Grant:
    """Return a grant of everything in the demo's catalog, with limits."""
    data = {"capabilities": {name: {} for name in DEMO_CATALOG}, "worst_case": "at_run_time", **more}
    return from_json(data)


def kinds(outcome: Outcome) -> list[list[tuple[str, str]]]:
    """Return what the guards found in each attempt: guard and kind."""
    return [[(found.guard, found.kind) for found in tried.findings] for tried in outcome.attempts]


Watch = Callable[[Mapping[str, Any]], None]
