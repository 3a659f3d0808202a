"""The repair briefs of the corpus: what the loop does with each repair as a model's first answer.

    python evaluation/briefs.py [CORPUS]

Each original is run with the demo provider to the failure that `failure.json` names, as in `repairs.py`. Then the run
is repaired by a scripted model: its first answer is a repair of the corpus, unedited; the next ones are what a model
that reads the counterexamples would answer, written below as edits of that repair. What is accepted is applied.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repairs import Failing, answered, markdown

from addendum.authority.grant import everything
from addendum.clock import SystemClock
from addendum.ports import Prompt, Sandbox
from addendum.repair.author import apply
from addendum.repair.guards import Options
from addendum.repair.loop import Asked, repair
from addendum.repair.outcome import Outcome
from addendum.runs.context import Context
from addendum.runs.operate import approve
from addendum.runs.result import StepResult
from addendum.runs.start import resume, start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.demo import CATALOG
from addendum.testing.memory_store import MemoryStore
from addendum.testing.scripted_model import ScriptedModel

Edit = tuple[str, str]
Answer = dict[str, Any]

POLICIES = ("strict", "verified")
MORE = (("s08/unlisted", "declared"),)
"""Rows of the third policy: it says the same as `strict` unless a model names its moves."""
ATTEMPTS = 4
PRICE = 2_000_000
"""What an answer costs, in nano-dollars: a round number, to see it in the run's accounts."""


def plain_error(text: str, name: str) -> str:
    """Return a script with its own exception class written as the checker says: a named exception of Python."""
    return text.replace(f"class {name}(Exception):\n    pass\n\n\n", "").replace(name, "ValueError")


def as_they_were(text: str) -> str:
    """Return m16's repair with the committed calls as they were written; only the composing is tried again."""
    for old, new in (
        ("await with_retry(ctx, f\"Image '{shot['title']}'\", lambda: ctx.run(", "await ctx.run("),
        ('"size": "2K",\n    }))', '"size": "2K",\n    })'),
        ("await with_retry(ctx, f\"Clip '{shot['title']}'\", lambda: ctx.run(", "await ctx.run("),
        ('"seconds": SHOT_SECONDS,\n    }))', '"seconds": SHOT_SECONDS,\n    })'),
        (
            "    try:\n        plan = await with_retry(ctx, f\"Plan of act '{name}'\", lambda: ctx.run(",
            "    plan = await ctx.run(",
        ),
        ('"shots": SHOTS_PER_ACT,\n        }))', '"shots": SHOTS_PER_ACT,\n    })'),
        (
            "    except CapabilityError as err:\n        raise ValueError(f\"act '{name}' could not be planned",
            "    if not plan:\n        raise ValueError(f\"act '{name}' could not be planned",
        ),
        (': {err.code} {err.message}")\n    shots', '")\n    shots'),
    ):
        text = text.replace(old, new, 1)
    return text


MENDS: dict[tuple[str, str], tuple[Callable[[str], str], ...]] = {
    # The schema of the ten committed calls is put back; the new calls keep theirs.
    ("m09/unlisted", "divergence"): (
        lambda text: text.replace('"point"],\n    "additionalProperties": False,\n', '"point"],\n', 1),
    ),
    # The committed summaries keep their limit; only the call that failed gets the lower one.
    ("s04/unlisted", "call_changed"): (
        lambda text: text.replace(
            '"max_tokens": MAX_TOKENS,\n            "schema": SUMMARY',
            '"max_tokens": 200,\n            "schema": SUMMARY',
        ),
    ),
    # The committed decision stays where it was; only the mail, which failed, is tried again.
    ("s08/unlisted", "removed"): (
        lambda text: text.replace("result = await generate(ctx, {", 'result = await ctx.run("text.generate", {', 1),
    ),
    # What the embedded interpreter hasn't got is written out.
    ("s12/unlisted", "R10"): (
        lambda text: text.replace(
            'return text.translate(ASCII_FOR).encode("ascii", "replace").decode("ascii")',
            'plain = "".join(ASCII_FOR.get(ord(c), c) for c in text)\n'
            '    return "".join(c if ord(c) < 128 else "?" for c in plain)',
        ),
    ),
    # And the committed opening is left alone; the mail is made plain where it is sent.
    ("s12/unlisted", "call_changed"): (
        lambda text: text.replace(
            '"no praise. Plain ASCII characters only.\\n\\n"\n'
            '                      f"Most frequent topics: {top}\\n\\nTickets:\\n"',
            'f"no praise.\\n\\nMost frequent topics: {top}\\n\\nTickets:\\n"',
        ),
    ),
    ("m16/unlisted", "R10"): (lambda text: plain_error(text, "ActFailed"),),
    ("m16/unlisted", "removed"): (lambda text: as_they_were(text),),
    ("m16/listed", "R10"): (lambda text: plain_error(text, "EmptyAct"),),
    # No loop around the acts that are paid for: a planning call that fails ends the trailer with what there is.
    ("m16/listed", "removed"): (
        lambda text: text.replace(
            "act = await render_act_with_retries(ctx, name, brief, look, titles)\n",
            "act = await render_act(ctx, name, brief, look, titles)\n"
            "        except CapabilityError as err:\n"
            '            ctx.log(f"Stopping: {err.code} {err.message}")\n'
            '            return {"ok": False, "error": err.message, "acts": acts, "video_url": None}\n',
        ),
    ),
}
"""What a counterexample of a kind makes of the answer before it."""


@dataclass(frozen=True)
class Row:
    """One brief under one policy: how the loop ended, and what the accepted repair then did."""

    repair: str
    policy: str
    verdict: str
    attempts: int
    found: tuple[str, ...]
    replayed: int
    sent: int
    alike: int
    ended: str
    asked: str
    prompts: tuple[str, ...] = ()

    def cells(self) -> list[str]:
        """Return the row as a table shows it."""
        found = ", ".join(self.found) or "–"
        numbers = (self.attempts, self.replayed, self.sent, self.alike)
        return [self.repair, self.policy, self.verdict, found, *(str(n) for n in numbers), self.asked, self.ended]


def rows(corpus: Path, sandbox: Sandbox) -> Iterator[Row]:
    """Yield a row for each repair and policy."""
    for folder in sorted((corpus / "repairs").iterdir()):
        if not (folder / "original.py").exists():
            continue
        for name in ("unlisted", "listed"):
            repair_name = f"{folder.name}/{name}"
            policies = [*POLICIES, *(policy for which, policy in MORE if which == repair_name)]
            for policy in policies:
                yield row(folder, name, policy, sandbox)


def row(folder: Path, name: str, policy: str, sandbox: Sandbox) -> Row:
    """Run an original to its failure, have it repaired, and apply what was accepted."""
    context = failed(folder, sandbox)
    provider: Any = context.provider
    before = provider.dispatched
    which = f"{folder.name}/{name}"
    model = answering(which, (folder / f"{name}.py").read_text("utf-8"))
    asked = Asked(options=Options(policy={"relocation": policy}), max_attempts=ATTEMPTS)
    outcome = repair(context, "run", model, asked)
    assert provider.dispatched == before, "the loop executes nothing"
    result = applied(context, outcome, asked.options) if outcome.accepted else None
    return Row(
        repair=which,
        policy=policy,
        verdict=verdict(outcome),
        attempts=len(outcome.attempts),
        found=tuple(
            dict.fromkeys(f"{each.guard}: {each.kind}" for tried in outcome.attempts for each in tried.findings)
        ),
        replayed=result.replayed if result is not None else 0,
        sent=provider.dispatched - before,
        alike=result.repeats if result is not None else 0,
        ended=result.status if result is not None else "–",
        asked=f"${outcome.cost_usd}",
        prompts=tuple(prompt.messages[1].text for prompt in model.prompts),
    )


def failed(folder: Path, sandbox: Sandbox) -> Context:
    """Run an original to its failure. m16's own exception class is written as the checker asks."""
    failure = json.loads((folder / "failure.json").read_text("utf-8"))
    code, _, message = failure["line"].rpartition(" -> ")[2].partition(" ")
    context = Context(
        store=MemoryStore(),
        sandbox=sandbox,
        provider=Failing(failure["k"], code, message),
        catalog=CATALOG,
        clock=SystemClock(),
        grant=everything(CATALOG),
        backoff=0.0,
    )
    args = json.loads((folder / "args.json").read_text("utf-8"))
    source = (folder / "original.py").read_text("utf-8")
    source = plain_error(source, "EmptyAct") if folder.name == "m16" else source
    request = (folder / "request.md").read_text("utf-8").partition("\n")[0].removeprefix("Request: ")
    first = answered(context, start(context, source, args, run="run", request=request))
    assert first.status == "failed", (folder.name, first.status, first.message)
    return context


def answering(which: str, first: str) -> ScriptedModel:
    """Return a model whose first answer is a repair, and whose next ones mend the one before by the counterexamples."""
    said = [first]

    def write(prompt: Prompt) -> Answer:
        told = prompt.messages[1].text
        if "## Your last candidate was refused" in told:
            kinds = [kind for (name, kind) in MENDS if name == which and f": {kind} " in told.replace("\n", " ")]
            text = said[-1]
            for kind in kinds:
                for edit in MENDS[which, kind]:
                    text = edit(text)
            moves = declared(which, told)
            said.append(text if not moves else first)
            return {"script": said[-1], "moves": moves, "drops": [], "reason": "As the counterexamples ask."}
        return {"script": first, "moves": [], "drops": [], "reason": "The repair of the corpus."}

    return ScriptedModel(write, cost=PRICE, most=PRICE)


def declared(which: str, told: str) -> list[dict[str, str]]:
    """Return the moves that a model names once it was told which place is gone; only under `declared` it helps."""
    if which != "s08/unlisted" or "name its old and its new place" not in told.partition("was refused")[2]:
        return []
    old = "orchestrate/decide()#0 > decide/text.generate#0"
    new = "orchestrate/decide()#0 > decide/generate()#0 > generate/for.0 > generate/for.0/try.0/text.generate#0"
    return [{"old": old, "new": new}]


def applied(context: Context, outcome: Outcome, options: Options) -> StepResult:
    """Apply what was accepted, and say yes to every question."""
    found = apply(context, outcome, options).applied
    assert found is not None
    replayed = found.replayed
    while found.status == "waiting":
        approve(context, "run", approved=True)
        found = resume(context, "run")
    found.replayed = replayed
    return found


def verdict(outcome: Outcome) -> str:
    """Say when a repair was admitted."""
    if not outcome.accepted:
        return "never"
    return "at the first try" if len(outcome.attempts) == 1 else f"at try {len(outcome.attempts)}"


def table(found: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    head = [
        "repair",
        "policy",
        "admitted",
        "counterexamples",
        "tries",
        "replayed",
        "sent",
        "look-alikes",
        "model",
        "ended",
    ]
    return markdown(head, [row.cells() for row in found])


def main(argv: list[str]) -> int:
    """Print the table, and with --prompts what the model was told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", default="tests/corpus", type=Path)
    parser.add_argument("--prompts", action="store_true")
    options: Any = parser.parse_args(argv)
    sandbox = EmbeddedSandbox()
    try:
        found = list(rows(options.corpus, sandbox))
    finally:
        sandbox.close()
    sys.stdout.write(table(found) + "\n")
    if options.prompts:
        for one in found:
            for number, told in enumerate(one.prompts, 1):
                sys.stdout.write(f"\n=== {one.repair} {one.policy}, try {number}\n\n{told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
