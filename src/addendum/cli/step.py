"""step: the loop in the open, one process a step, so that a driver in any language can run a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from addendum.cli import inputs, opening, options
from addendum.cli.output import Output
from addendum.errors import NotFound, Rejected, UsageError

if TYPE_CHECKING:
    from addendum.canon import Json
    from addendum.kernel.step import State, Step


def step(
    k: Annotated[
        str | None,
        typer.Argument(
            metavar="K",
            help="A file with K as JSON, or `-` for standard input; `--script` makes a first one.",
            show_default=False,
        ),
    ] = None,
    script: Annotated[
        str | None,
        typer.Option(
            "--script", metavar="SCRIPT", help="Begin: the K of this script, with nothing settled.", show_default=False
        ),
    ] = None,
    args: options.Args = None,
    result: Annotated[
        str | None,
        typer.Option(
            "--result", metavar="FILE|JSON|-", help="Settle a pending call with this result.", show_default=False
        ),
    ] = None,
    failure: Annotated[
        str | None,
        typer.Option(
            "--failure",
            metavar="FILE|JSON|-",
            help='Settle it with a failure: {"code", "message", "retryable"}.',
            show_default=False,
        ),
    ] = None,
    call: Annotated[
        str | None,
        typer.Option(
            "--call",
            metavar="IDENTITY",
            help="Which call is settled (default: the first that is pending).",
            show_default=False,
        ),
    ] = None,
    sandbox: options.Sandbox = None,
    provider: options.Provider = None,
    grant: options.Grant = None,
    json: options.Json = False,
) -> int:
    """Print the pending calls for a K, or the end; with --result or --failure, settle one first.

    K is the whole state: {"format": 1, "source", "args", "trace"}. What is printed is {"pending", "end", "k"}: pass "k"
    to the next step. Always JSON. Exit code 3: the script failed, or isn't admitted.
    """
    if (k is None) == (script is None):
        raise UsageError("Which K?", hint="Name a file with K, or begin with --script SCRIPT.")
    settles = result is not None or failure is not None
    if (result is not None and failure is not None) or (call is not None and not settles):
        raise UsageError("A call is settled by a result or by a failure.", hint="Give one of --result and --failure.")
    found = _step(_state(k, script, args), sandbox, provider, grant)
    if settles:
        given = None if failure is None else inputs.args(failure, None, "failure")
        found.state.trace.append(_settle(found, call, inputs.args(result, None, "result"), given))
        found = _step(found.state, sandbox, provider, grant)
    data = found.to_json()
    Output(True).value(data)
    return 3 if data["end"] is not None and data["end"]["status"] == "failed" else 0


def _state(k: str | None, script: str | None, args: str | None) -> State:
    from addendum import canon
    from addendum.kernel import step as kernel

    if script is not None:
        return kernel.State(inputs.script(script), inputs.args(args, {}))
    if args is not None:
        raise UsageError("The args are in K already.", hint="--args goes with --script.")
    return kernel.read(canon.doubles(inputs.args("-" if k == "-" else f"@{k}", None, "K")))


def _step(state: State, sandbox: str | None, provider: str | None, grant: str | None) -> Step:
    from addendum import canon
    from addendum.kernel.step import step as advance
    from addendum.runs.admit import admit
    from addendum.runs.prepare import script as for_sandbox

    settings = opening.settings(sandbox=sandbox, provider=provider, grant=grant, store="memory:")
    with opening.context(settings) as context:
        admission = admit(state.source, context.catalog, context.grant)
        if admission.program is None:
            raise Rejected(admission.message, hint=admission.hint, admission=admission.to_json())
        program = admission.program
        return advance(
            state,
            program,
            lambda: context.sandbox.open(
                for_sandbox(program), canon.freeze(state.args), limits=context.limits, nonce=context.clock.token()
            ),
        )


def _settle(found: Step, call: str | None, result: Json, failure: Any) -> dict[str, Any]:
    from addendum.kernel.step import settled

    if not found.pending:
        raise UsageError("Nothing is pending: the script came to its end.", hint="Leave --result and --failure out.")
    names = [pending["identity"] for pending in found.pending]
    if call is not None and call not in names:
        raise NotFound(f"No call is pending at {call!r}.", hint=f"These are: {', '.join(names)}.", pending=names)
    pending = found.pending[names.index(call) if call is not None else 0]
    if failure is not None and not isinstance(failure, dict):
        raise UsageError(
            "A failure is an object.", hint='Write {"code": "timeout", "message": "", "retryable": false}.'
        )
    return settled(pending, result=result, failure=failure)
