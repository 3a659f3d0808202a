"""The repairs of the corpus: what a plan says of each, under `strict` and `verified`, and what `revise` then does.

    python evaluation/repairs.py [CORPUS]

For each folder of CORPUS/repairs: the original is run with the demo provider and the failure injected at the call that
`failure.json` names (the k-th in start order); each repair is planned and revised on a run of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from addendum.authority.grant import everything
from addendum.clock import SystemClock
from addendum.errors import CapabilityError
from addendum.ports import Reply, Request, Sandbox
from addendum.runs.context import Context
from addendum.runs.operate import approve
from addendum.runs.result import StepResult
from addendum.runs.revise import Drawn, plan, revise
from addendum.runs.start import resume, start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.demo import CATALOG, DemoProvider
from addendum.testing.memory_store import MemoryStore

POLICIES = ("strict", "verified")


@dataclass
class Failing:
    """The demo provider, whose k-th dispatch of all fails."""

    k: int
    code: str
    message: str
    inner: DemoProvider = field(default_factory=DemoProvider)
    dispatched: int = 0

    async def dispatch(self, request: Request) -> Reply:
        """Answer a call, or fail it."""
        self.dispatched += 1
        if self.dispatched == self.k:
            raise CapabilityError(self.code, self.message)
        reply = await self.inner.dispatch(request)
        payload: Any = request.payload
        if request.capability == "text.generate" and payload.get("schema"):
            return Reply({**reply.value, "data": sample(payload["schema"])})  # type: ignore[dict-item]
        return reply

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Remember nothing."""
        return None


def sample(schema: Any) -> Any:
    """Return a value that fits a simple JSON Schema: what a model would answer in structured form."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {name: sample(part) for name, part in schema.get("properties", {}).items()}
        case "array":
            return [sample(schema.get("items", {}))]
        case "boolean":
            return True
        case "integer":
            return max(1, schema.get("minimum", 1))
        case "number":
            return 0.8
        case _:
            return "text"


@dataclass(frozen=True)
class Row:
    """One repair under one policy: the plan in numbers, and how the revision ended."""

    repair: str
    policy: str
    original: str
    status: str
    gate: str | None
    replayed: int
    rebound: int
    superseded: int
    orphans: int
    frontier: int | None
    dispatched: int
    reasons: tuple[str, ...]
    details: tuple[str, ...] = ()
    failed: str = ""
    """Where the original failed: the check that the failure was injected at all."""

    def cells(self) -> list[str]:
        """Return the row as a table shows it."""
        numbers = (self.replayed, self.rebound, self.superseded, self.orphans, self.frontier or 0, self.dispatched)
        return [self.repair, self.policy, self.status, *(str(n) for n in numbers), ", ".join(self.reasons) or "–"]


def rows(corpus: Path, sandbox: Sandbox) -> Iterator[Row]:
    """Yield a row for each repair and policy."""
    for folder in sorted((corpus / "repairs").iterdir()):
        if not (folder / "original.py").exists():
            continue
        for repair in ("unlisted", "listed"):
            for policy in POLICIES:
                yield row(folder, repair, policy, sandbox)


def row(folder: Path, repair: str, policy: str, sandbox: Sandbox) -> Row:
    """Run an original to its failure, then plan and revise one repair."""
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
    first = answered(context, start(context, source, args, run="run"))
    if first.status == "not_admitted":
        return Row(
            f"{folder.name}/{repair}",
            policy,
            "not admitted",
            "not_admitted",
            None,
            0,
            0,
            0,
            0,
            0,
            0,
            tuple(reasons(first)),
        )
    candidate = (folder / f"{repair}.py").read_text("utf-8")
    drawn = plan(context, "run", candidate, policy={"relocation": policy})
    result = answered(context, revise(context, "run", candidate, policy={"relocation": policy}))
    return Row(
        repair=f"{folder.name}/{repair}",
        policy=policy,
        original=f"{first.status} {first.error or ''}".strip(),
        status=result.status,
        gate=result.gate,
        replayed=len(drawn.plan.replayed) if drawn.plan else 0,
        rebound=len(drawn.plan.rebound) if drawn.plan else 0,
        superseded=result.superseded,
        orphans=result.orphans,
        frontier=len(drawn.plan.frontier) if drawn.plan else 0,
        dispatched=result.dispatched,
        reasons=tuple(reasons(result)),
        details=tuple(details(drawn, result)),
        failed=str(first.details["where"].get("identity", "")),
    )


def answered(context: Context, result: StepResult) -> StepResult:
    """Say yes to every question, until the run doesn't wait any more; counts add up."""
    while result.status == "waiting":
        approve(context, "run", approved=True)
        more = resume(context, "run")
        more.dispatched += result.dispatched
        more.orphans += result.orphans
        more.gate = result.gate
        result = more
    return result


def reasons(result: StepResult) -> list[str]:
    """Say why a revision stopped."""
    if result.status == "not_admitted" and result.gate is None:
        admission = result.details["admission"]
        return sorted({v["rule"] for v in admission.get("violations", []) if v["severity"] == "error"}) or ["grant"]
    return result.counterexamples or ([result.stop] if result.stop else [])


def details(drawn: Drawn, result: StepResult) -> Iterator[str]:
    """Say it at length."""
    if drawn.plan is None:
        yield result.message
        return
    for example in drawn.plan.verdict.counterexamples:
        lines = f"committed {example.committed}, now {example.now}"
        yield f"{example.kind}: {example.message} [{example.records} records] {lines}"
    if result.status not in ("completed", "not_admitted"):
        yield result.message


def table(found: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    head = ["repair", "policy", "ended", "replayed", "rebound", "superseded", "orphans", "frontier", "paid", "stops"]
    return markdown(head, [row.cells() for row in found])


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def main(argv: list[str]) -> int:
    """Print the table, and with --details every stop at length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", default="tests/corpus", type=Path)
    parser.add_argument("--details", action="store_true")
    options: Any = parser.parse_args(argv)
    sandbox = EmbeddedSandbox()
    try:
        found = list(rows(options.corpus, sandbox))
    finally:
        sandbox.close()
    sys.stdout.write(table(found) + "\n")
    if options.details:
        for one in found:
            for detail in one.details:
                sys.stdout.write(f"\n{one.repair} {one.policy}: {detail}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
