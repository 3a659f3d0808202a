"""reconcile, approve, grant, cancel: what a person decides about a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from addendum.cli import inputs, opening, options
from addendum.cli.output import Output
from addendum.errors import NotFound, UsageError

Which = Annotated[
    list[str] | None,
    typer.Option(
        "--call",
        metavar="IDENTITY|KEY",
        help="Only the one at this identity, or with this idempotency key.",
        show_default=False,
    ),
]
By = Annotated[
    str,
    typer.Option(
        "--by", metavar="NAME", help="Who decides, for the record (default: the operator setting).", show_default=False
    ),
]


def reconcile(
    run: options.Run,
    result: Annotated[
        str | None,
        typer.Option(
            "--result", metavar="FILE|JSON|-", help="The result that the provider has for it.", show_default=False
        ),
    ] = None,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Declare it void, which allows the call once more.")
    ] = False,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.", show_default=False)
    ] = "",
    which: Which = None,
    by: By = "",
    store: options.Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Close attempts that were sent and have no result: with the known result, or as abandoned."""
    from addendum.runs import operate

    if result is not None and abandon:
        raise UsageError("--result and --abandon say different things.", hint="Keep one of them.")
    if result is None and not abandon:
        raise UsageError("What became of it?", hint="Write back --result JSON, or declare it void with --abandon.")
    value = inputs.args(result, None, "result")
    with opening.context(opening.settings(store=store, provider=provider)) as context:
        name = opening.resolve(context.store, run)
        closed = operate.reconcile(
            context,
            name,
            result=operate.UNKNOWN if abandon else value,
            abandon=abandon,
            which=tuple(which or ()),
            reason=reason,
            by=by,
        )
        what = "abandoned" if abandon else "committed with the given result"
        _done(
            Output(json, store=store, provider=provider),
            name,
            {what.split()[0]: [attempt.identity for attempt in closed]},
            what,
            closed,
        )
    return 0


def approve(
    run: options.Run,
    no: Annotated[bool, typer.Option("--no", help="Answer no.")] = False,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="A note that the script gets.", show_default=False)
    ] = "",
    which: Which = None,
    by: By = "",
    store: options.Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Answer what a run asks a person: yes, or no with --no."""
    from addendum.runs import operate

    with opening.context(opening.settings(store=store, provider=provider)) as context:
        name = opening.resolve(context.store, run)
        answered = operate.approve(context, name, approved=not no, note=note, which=tuple(which or ()), by=by)
        what = "declined" if no else "approved"
        _done(
            Output(json, store=store, provider=provider),
            name,
            {"approved": not no, "answered": [a.identity for a in answered]},
            what,
            answered,
        )
    return 0


def permit(
    run: options.Run,
    capability: Annotated[
        str, typer.Argument(metavar="CAPABILITY", help="Whose calls are allowed.", show_default=False)
    ],
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", help="How many; exact payloads once each.", show_default=False),
    ] = None,
    payload: Annotated[
        list[str] | None,
        typer.Option(
            "--payload", metavar="FILE|JSON", help="Exactly this payload; several make a set.", show_default=False
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="FILE|JSON", help="Payloads that fit this JSON Schema; {} is any.", show_default=False
        ),
    ] = None,
    most_usd: Annotated[
        str | None, typer.Option("--most-usd", metavar="USD", help="What they may cost in sum.", show_default=False)
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="Until when, as in 2027-01-01T00:00:00Z.", show_default=False),
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="A note for the record.")] = "",
    by: By = "",
    store: options.Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Allow a number of calls that the grant's rules would ask about one by one; each uses one up.

    They are bound to exact payloads, or to what a schema lets through."""
    from addendum.authority import permit as permits
    from addendum.authority.grant import instant
    from addendum.runs import operate

    given = permits.permit(
        capability,
        count=count,
        payloads=[inputs.args(each, None, "payload") for each in payload or ()],
        where=None if where is None else inputs.args(where, None, "where"),
        most_usd=most_usd,
        expires=instant(expires, "--expires"),
    )
    with opening.context(opening.settings(store=store, provider=provider)) as context:
        name = opening.resolve(context.store, run)
        if capability not in context.catalog:
            raise NotFound(f"The catalog has no {capability!r}.", hint="`addendum catalog show` lists it.")
        seq = operate.permit(context, name, given, note=note, by=by)
    output = Output(json, store=store, provider=provider)
    if json:
        output.value({"run": name, "permit": seq, **given.body()})
    else:
        output.show(f"Permit {seq}: {given.count} of {capability}. Next: {output.exact(f'addendum resume {name}')}")
    return 0


def grant(
    run: options.Run,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The new grant: TOML or JSON, `-` for standard input.", show_default=False),
    ],
    by: By = "",
    store: options.Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Replace what a run may use; it counts from the next attempt on.

    A grant has capabilities, each with limits, limits for the whole run, and worst_case, which is "refuse" or
    "at_run_time". As JSON: {"capabilities": {"image.generate": {"limits": [{"meter": "calls", "max": 10}]}}}
    """
    from addendum.runs import operate

    with opening.context(opening.settings(store=store, provider=provider)) as context:
        name = opening.resolve(context.store, run)
        found = inputs.grant(file, context.catalog)
        operate.set_grant(context, name, found, by=by)
        output = Output(json, store=store, provider=provider)
        if json:
            output.value({"run": name, "grant": found.to_json()})
        else:
            output.show(f"The run {name} has a new grant. Next: {output.exact(f'addendum resume {name}')}")
    return 0


def cancel(
    run: options.Run,
    by: By = "",
    store: options.Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Ask for the end of a run that another process drives: it stops before its next effect.

    Exit code 4 when no process drives it.
    """
    from addendum.runs import operate

    with opening.context(opening.settings(store=store, provider=provider)) as context:
        name = opening.resolve(context.store, run)
        driven = operate.cancel(context, name, by=by)
        output = Output(json, store=store, provider=provider)
        if json:
            output.value({"run": name, "driven": driven})
        elif driven:
            output.show(f"The run {name} was asked to stop; what is in flight is finished and kept.")
        else:
            output.show(f"No process drives the run {name}: there is nothing to stop.")
    return 0 if driven else 4


def _done(output: Output, run: str, data: dict[str, Any], what: str, closed: Any) -> None:
    if output.json:
        output.value({"run": run, **data})
        return
    for attempt in closed:
        output.show(f"{what}: {attempt.capability} at {attempt.identity}")
    output.show(f"Next: {output.exact(f'addendum resume {run}')}")
