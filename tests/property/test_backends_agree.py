"""One meaning on every backend: the whole corpus, with failures and completion orders of all kinds, on both."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from addendum.ports import Issued, Raised, Sandbox
from addendum.records.outcome import Failure, Outcome, Success
from addendum.runs.prepare import script
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.script.checker import check
from addendum.script.program import compile_program
from addendum.testing.demo import result
from addendum.testing.driving import drive
from addendum.testing.process_sandbox import ProcessSandbox

CORPUS = Path(__file__).parent.parent / "corpus"
REFUSED = {"scripts/m16", "m16/original", "m16/listed", "m16/unlisted", "s12/unlisted"}
"""What the checker doesn't let run: docs/explanation/corpus-rejections.md says why."""
SOURCES = [
    path
    for path in sorted([*CORPUS.glob("scripts/*.py"), *CORPUS.glob("repairs/*/*.py")])
    if f"{path.parent.name}/{path.stem}" not in REFUSED
]
WORLDS = ((0, 0.0), (1, 0.0), (2, 0.12), (3, 0.3))
"""Seeds of the completion order, and how many calls fail."""


@pytest.fixture(scope="module")
def backends() -> Iterator[tuple[Sandbox, Sandbox]]:
    embedded, worker = EmbeddedSandbox(), ProcessSandbox()
    yield embedded, worker
    embedded.close()
    worker.close()


def sample(schema: dict[str, Any]) -> Any:
    """Return a value that fits a simple schema."""
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
            return 1
        case "number":
            return 0.8
        case _:
            return "text"


def world(seed: int, rate: float) -> tuple[Callable[[Issued], Outcome], Callable[[Sequence[Issued]], int]]:
    """Return who answers calls and who picks the next one: the same for both backends, whatever they do."""
    order = random.Random(seed)

    def answer(call: Issued) -> Outcome:
        payload: Any = call.payload
        own = random.Random(f"{seed} {call.identity}")
        match call.capability:
            case "ctx.race":
                return Success({"winner": payload["winner"]})
            case "ctx.now":
                return Success("2026-11-29T00:00:00+00:00")
            case name if name.startswith("ctx."):
                return Success(0.5)
        if own.random() < rate:
            code = own.choice(["timeout", "refused", "provider_error"])
            return Failure(code, "injected", False, call.identity)
        if call.capability == "human.approve":
            return Success({"approved": own.random() < 0.7, "note": "n"})
        value: Any = result(call.capability, payload, own.randint(1, 99))
        if call.capability == "text.generate" and payload.get("schema"):
            value["data"] = sample(payload["schema"])
        if call.capability == "review.visual":
            value["score"] = round(own.random(), 2)
        return Success(value)

    return answer, lambda waiting: order.randrange(len(waiting))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_script_that_passes_means_the_same_on_both_interpreters(
    path: Path, backends: tuple[Sandbox, Sandbox]
) -> None:
    """Same calls, same order, same log lines, same result or error, with the same frames."""
    source = path.read_text("utf-8")
    assert check(source).ok
    beside = path.with_suffix(".args.json")
    args = json.loads((beside if beside.exists() else path.parent / "args.json").read_text("utf-8"))
    annotated = script(compile_program(source))

    for seed, rate in WORLDS:
        outcomes = []
        for backend in backends:
            answer, pick = world(seed, rate)
            outcomes.append(drive(backend, annotated, args, answer=answer, pick=pick))
        assert outcomes[0] == outcomes[1]


EXPRESSIONS = (Path(__file__).parent / "expressions.txt").read_text("utf-8").splitlines()
"""Bodies of one line each: what models compute with texts, numbers, lists, dicts, sets, patterns and JSON."""
_BEFORE = """import json, math, re
async def orchestrate(ctx, args):
    xs = [1, 2, 3, 4]
    d = {"a": 1, "b": 2}
"""


def _outcome(backend: Sandbox, source: str) -> Any:
    _, end = drive(backend, script(compile_program(source)))
    return end.type if isinstance(end, Raised) else end  # the wording of an error is each interpreter's own


def test_what_is_computed_is_refused_or_the_same_on_both_interpreters(backends: tuple[Sandbox, Sandbox]) -> None:
    """Whatever an expression gives: the same value, or an error of the same type."""
    differ = []
    for line in EXPRESSIONS:
        source = _BEFORE + "".join(f"    {part}\n" for part in line.split("; "))
        if check(source).ok:
            one, other = (_outcome(backend, source) for backend in backends)
            if repr(one) != repr(other):
                differ.append((line, one, other))
    assert not differ
