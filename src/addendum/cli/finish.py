"""The end of a step: what is printed, and the exit code; and watching it meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from addendum.cli import opening
from addendum.cli.output import Output

if TYPE_CHECKING:
    from addendum.cli.progress import Progress
    from addendum.runs.context import Context
    from addendum.runs.result import StepResult


@contextmanager
def driven(progress: Progress) -> Iterator[threading.Event]:
    """Watch a run, and let ^C stop it."""
    from addendum.cli.interrupt import stoppable

    with (
        progress.watching(),
        stoppable(progress.say, progress.restore, lambda: progress.asking, lambda: progress.flying) as stop,
    ):
        yield stop


def finish(
    output: Output,
    context: Context,
    result: StepResult,
    *,
    source: str | None = None,
    path: str = "",
    planned: bool = False,
) -> int:
    """Print how a step came out; return the exit code."""
    from addendum.runs.query import certified

    if result.run:
        if result.certificate is None and result.stop != "store_unavailable":
            result.certificate = certified(context.store, result.run)
    if output.json:
        output.value(_exact(output, result))
    else:
        present(output, context, result, source, path, planned)
    return result.exit_code


def present(
    output: Output, context: Context, result: StepResult, source: str | None, path: str, planned: bool = True
) -> None:
    from addendum.cli.views import plan as plan_view
    from addendum.cli.views import report as report_view
    from addendum.cli.views import result as result_view
    from addendum.runs import query

    data = _exact(output, result)
    refused = data["details"].get("admission")
    drawn = data["details"].get("plan")
    if refused is not None and refused["violations"]:
        violations = opening.ways_out(output, refused["violations"])
        output.show(report_view.report(path or "script", source or "", violations))
        data["hint"] = next((each["fix"] for each in violations if each["severity"] == "error"), data["hint"])
    if drawn is not None and (planned or not drawn["applies"]):
        records = query.read(context.store, result.run).history.records
        output.show(plan_view.plan(drawn, records, _worst(data["details"].get("worst_case"))))
    if not planned or drawn is None:
        output.show(result_view.result(data, output.advice(_steps(context, result))))


def _exact(output: Output, result: StepResult) -> dict[str, Any]:
    """Return a result as JSON, with hints whose commands can be copied."""
    data = result.to_json()
    data["hint"] = output.exactly(data["hint"])
    drawn = data["details"].get("plan")
    if drawn is not None and drawn["hint"]:
        data["details"] = {**data["details"], "plan": {**drawn, "hint": output.exactly(drawn["hint"])}}
    return data


def _worst(found: Any) -> str:
    if not found or not found["calls"]:
        return ""
    calls = ", ".join(
        f"{name} {'no bound' if most is None else most}" for name, most in sorted(found["calls"].items()) if most != 0
    )
    cost = "no bound" if found["cost_usd"] is None else f"${found['cost_usd']}"
    return f"{cost} for the whole script ({calls})"


def _steps(context: Context, result: StepResult) -> Any:
    from addendum.runs import query

    drawn = result.details.get("plan")
    refused = result.status == "not_admitted" or (drawn is not None and not drawn["applies"])
    undriven = refused or (result.status == "stopped" and "catalog" in result.details)
    if not result.run or undriven or result.stop == "store_unavailable":
        return ()
    return query.show(context.store, result.run).advice
