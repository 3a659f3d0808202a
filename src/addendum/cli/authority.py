"""catalog, meters, asks, revoke: what runs may do, and what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from addendum.cli import opening, options
from addendum.cli.output import Output, dumps
from addendum.cli.printable import line
from addendum.errors import NotFound, UsageError

if TYPE_CHECKING:
    from addendum.authority.catalog import Catalog
    from addendum.rehearse.probe import Verdict
    from addendum.rehearse.probing import Means
    from addendum.runs.meters import Level

app = typer.Typer(no_args_is_help=True, help="What capabilities are, cost and may do to the world.")
Name = Annotated[
    str | None, typer.Argument(metavar="CAPABILITY", help="One of them; all if left out.", show_default=False)
]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides, for the record.", show_default=False)]


def _catalog(provider: str | None) -> Catalog:
    from addendum import wiring

    return wiring.known(opening.settings(provider=provider))


@app.command()
def show(name: Name = None, provider: options.Provider = None, json: options.Json = False) -> int:
    """Show the catalog: versions, effect classes, facts, prices, and the digest that names it."""
    from addendum.authority.money import usd
    from addendum.cli.views.words import table

    catalog, output = _catalog(provider), Output(json)
    chosen = _named(catalog, name)
    if json:
        output.value({"digest": catalog.digest, "capabilities": [catalog[each].to_json() for each in chosen]})
        return 0
    listed = table("capability", "effect", "facts", "price", "at most", "saturation", fold=("facts",))
    for each in chosen:
        capability = catalog[each]
        facts = ", ".join(fact for fact, holds in capability.facts.items() if holds)
        claim: str = capability.saturation.kind if capability.saturation is not None else "additive"
        claim = claim if capability.side_effecting else "-"
        prices = (f"${usd(capability.price)}", f"${usd(capability.reserve)}")
        listed.add_row(f"{each}@{capability.version}", capability.effect, facts, *prices, claim)
    output.show(listed)
    output.show(f"digest  {catalog.digest}")
    return 0


@app.command()
def lint(name: Name = None, provider: options.Provider = None, json: options.Json = False) -> int:
    """Say what a catalog claims that can't be, and what it leaves open. Exit code 3 for the first kind."""
    from addendum.authority.catalogfile import lint as look
    from addendum.cli.views.words import count

    catalog, output = _catalog(provider), Output(json)
    chosen = {each: catalog[each] for each in _named(catalog, name)}
    remarks = list(look(chosen))
    if json:
        output.value(
            [{"capability": r.capability, "message": r.message, "fix": r.fix, "error": r.error} for r in remarks]
        )
    else:
        for remark in remarks:
            output.show(f"{'wrong' if remark.error else 'open '}  {remark.capability}: {remark.message} {remark.fix}")
        on = "1 capability" if len(chosen) == 1 else f"{len(chosen)} capabilities"
        output.show(f"{count(len(remarks), 'remark')} on {on}")
    return 3 if any(remark.error for remark in remarks) else 0


@app.command()
def accept(
    run: options.Run,
    by: By = "",
    store: options.Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Accept that the catalog has changed since a run's last attempt, so that it may go on."""
    from addendum.runs import operate

    with opening.context(opening.settings(store=store, provider=provider)) as context:
        name = opening.resolve(context.store, run)
        digest = operate.accept_catalog(context, name, by=by)
        output = Output(json, store=store, provider=provider)
        if json:
            output.value({"run": name, "catalog": digest})
        else:
            again = output.exact(f"addendum resume {name}")
            output.show(f"The run {name} goes on with the catalog {digest[:12]}. Next: {again}")
    return 0


@app.command()
def probe(
    name: Annotated[str, typer.Argument(metavar="CAPABILITY", help="Whose claim is tried.", show_default=False)],
    payload: Annotated[
        list[str] | None,
        typer.Option("--payload", metavar="FILE|JSON", help="A payload; give several that differ.", show_default=False),
    ] = None,
    trial: Annotated[
        str | None,
        typer.Option(
            "--trial",
            metavar="FILE",
            help="The budget and the means: how effects are seen, how long to wait, what restarts it.",
            show_default=False,
        ),
    ] = None,
    grant: options.Grant = None,
    yes: Annotated[bool, typer.Option("--yes", help="It is really called, within the budget: yes.")] = False,
    store: options.Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Try a capability's saturation claim against its provider, and keep the dated verdict.

    Exit code 0: it holds as far as it was tried; 3: refuted, with the counterexample; 4: unknown. It can hold only with
    a trial that leaves nothing untried.
    """
    from addendum.authority.grant import moment
    from addendum.cli import inputs
    from addendum.rehearse import probing, trialfile

    with opening.context(opening.settings(store=store, provider=provider, grant=grant)) as context:
        _named(context.catalog, name)
        text = inputs.read_text(trial, "a trial") if trial is not None else ""
        found = trialfile.parse(text, context.catalog, trial or "")
        payloads = [*found.payloads, *(inputs.args(each, None) for each in payload or ())]
        where = context.grant.where.get(name, {})
        _consent(name, probing.trials(context.catalog[name], payloads, where).most, found.means, context.catalog, yes)
        verdict = probing.probe(context.provider, context.catalog[name], payloads, context.clock, found.means, where)
        evidence = probing.keep(context.store, verdict, moment(context.clock.now()))
    _verdict(Output(json), name, verdict, evidence)
    return {"holds": 0, "refuted": 3, "unknown": 4}[verdict.outcome]


def _consent(name: str, calls: int, means: Means, catalog: Catalog, yes: bool) -> None:
    """Raise `UsageError`, saying what a probe would do, unless a person said yes to it."""
    from addendum.authority.money import usd

    if yes:
        return
    most = min(calls, means.most_calls)
    cost = most * catalog[name].reserve
    price = usd(cost if means.most_cost is None else min(cost, means.most_cost))
    raise UsageError(
        f"A probe calls {name} for real, up to {most} times for at most ${price}, and its effects stay.",
        hint="Say --yes if that may be, or probe a test twin.",
    )


def _verdict(output: Output, name: str, verdict: Verdict, evidence: str) -> None:
    if output.json:
        output.value({**verdict.to_json(), "evidence": evidence})
        return
    up_to = f" up to {verdict.bound}" if verdict.bound is not None else ""
    output.show(f"{verdict.claim.kind} of {name}: {verdict.outcome}{up_to}")
    if verdict.counterexample is not None:
        said = ", ".join(f"{key} {value}" for key, value in verdict.counterexample.items())
        output.show(f"  counterexample  {said}")
    for word, trials in (("tried", verdict.tried), ("untried", verdict.untried)):
        output.show(f"  {word}  {', '.join(trials) or '-'}")
    output.show(f"  evidence  {evidence}")


def _named(catalog: Catalog, name: str | None) -> list[str]:
    if name is not None and name not in catalog:
        raise NotFound(f"The catalog has no {name!r}.", hint=f"It has {', '.join(sorted(catalog))}.")
    return sorted(catalog) if name is None else [name]


def meters(
    subject: Annotated[
        str, typer.Argument(metavar="RUN|PRINCIPAL", help="A run, or a principal of grants.", show_default=False)
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Of a principal: make the sums of its accounts anew, and compare.")
    ] = False,
    store: options.Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Show what is used, held, delegated and left of each limit of a run, or what a principal used in all its runs."""
    from addendum.clock import SystemClock
    from addendum.runs import meters as found

    catalog, output = _catalog(provider), Output(json)
    with opening.store(opening.settings(store=store)) as opened:
        try:
            run = opening.resolve(opened, subject)
        except NotFound as error:
            try:
                revoked, accounts = found.of_principal(opened, subject, verify=verify)
            except NotFound:
                raise error from None
            _principal(output, subject, revoked, [each.to_json() for each in accounts])
            return 0
        grant, levels = found.of_run(opened, run, catalog, SystemClock())
        parent, children = found.family(opened, run)
    if json:
        data = [level.to_json() for level in levels]
        output.value({"run": run, "principal": grant.principal, "parent": parent, "children": children, "limits": data})
        return 0
    if levels:
        _levels(output, levels)
    else:
        output.show(f"The grant of the run {run} has no limits.")
    if parent:
        output.show(f"It came out of the grant of the run {parent}.")
    for child in children:
        output.show(f"{'given to' if child['living'] else 'back from'} {child['run']}")
    return 0


def _levels(output: Output, levels: list[Level]) -> None:
    from addendum.cli.views.words import table

    keys = ("used", "held", "delegated", "left")
    listed = table("limit", *keys, right=keys, fold=("limit",))
    for level in levels:
        amounts = (level.used, *((None, None) if level.used is None else (level.held, level.delegated)), level.left)
        listed.add_row(str(level.limit), *("-" if each is None else level.limit.amount(each) for each in amounts))
    output.show(listed)


def _principal(output: Output, principal: str, revoked: bool, accounts: list[dict[str, Any]]) -> None:
    from addendum.cli.views.words import table

    if output.json:
        output.value({"principal": principal, "revoked": revoked, "accounts": accounts})
        return
    if not accounts:
        output.show(f"Nothing was called on the account of {principal} yet.")
    keys = ("capability", "calls", "cost_usd", "held_usd", "in_flight", "tokens", "bytes_out", "bytes_in")
    listed = table(*(key.removesuffix("_usd") for key in keys), right=keys[1:])
    for account in accounts:
        listed.add_row(*(f"${account[key]}" if key.endswith("_usd") else str(account[key]) for key in keys))
    if accounts:
        output.show(listed)
    if revoked:
        output.show(f"The authority of {principal} is revoked.")


def asks(run: options.Run, store: options.Store = None, json: options.Json = False) -> int:
    """Show what a person is asked: calls that a person answers, and calls that the grant's rules ask about before they
    are sent, with what differs from what was asked before."""
    from addendum.authority.money import usd
    from addendum.broker.journal import Journal
    from addendum.broker.reconcile import difference, questions, waiting

    output = Output(json, store=store)
    with opening.store(opening.settings(store=store)) as opened:
        journal = Journal(opened, opening.resolve(opened, run))
        history = journal.read()
        listed: list[dict[str, Any]] = [
            {
                "identity": attempt.identity,
                "capability": attempt.capability,
                "rule": "",
                "most_usd": usd(0),
                "payload": journal.value(attempt.payload),
                "changed": {},
            }
            for attempt in waiting(history)
        ]
        for each in questions(history):
            payload = journal.value(each.payload)
            found: dict[str, Any] = {
                "identity": each.identity,
                "capability": each.capability,
                "rule": each.rule,
                "most_usd": usd(each.most),
                "payload": payload,
                "changed": difference(journal.value(each.instead), payload) if each.instead is not None else {},
            }
            listed.append(found)
        permits = [{**each.body, "permit": seq, "left": each.left} for seq, each in journal.history.permits.items()]
        if json:
            output.value({"run": journal.run, "asks": listed, "permits": permits})
            return 0
        for item in listed:
            asked = f"{item['rule']}, at most ${item['most_usd']}" if item["rule"] else "a person answers it"
            output.show(f"{item['capability']} at {item['identity']} ({asked})")
            output.show(f"  payload {_said(item['payload'])}")
            for pointer, (before, after) in item["changed"].items():
                output.show(f"  changed {line(pointer or '/')}: {_said(before)} -> {_said(after)}")
        for item in permits:
            left = f"{item['left']} of {item['count']} left"
            output.show(f"permit {item['permit']}: {left} for {item['capability']}, by {item['by']}")
        if listed:
            output.show(f"Next: {output.exact(f'addendum approve {journal.run}')}, or with --no")
        else:
            output.show("Nothing is asked.")
    return 0


def _said(value: Any) -> str:
    """Return a value that a script made as one line of JSON that can't control a terminal."""
    return line(dumps(value, indent=None))


def revoke(
    subject: Annotated[
        str, typer.Argument(metavar="RUN|PRINCIPAL", help="A run, or a principal of grants.", show_default=False)
    ],
    principal: Annotated[bool, typer.Option("--principal", help="It is a principal: all its runs.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Give a principal's authority back.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")] = "",
    by: By = "",
    store: options.Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """End a run's authority: nothing more is sent, from its next reservation on. Another grant gives it back.

    That of a principal ends for all its runs, also for those that begin later, until it is given back with --restore.
    """
    from addendum.runs import operate

    output = Output(json)
    with opening.context(opening.settings(store=store, provider=provider)) as context:
        if principal or restore:
            operate.revoke_principal(context, subject, restore=restore, reason=reason, by=by)
            word = "given back" if restore else "revoked"
            if json:
                output.value({"principal": subject, "revoked": not restore})
            else:
                output.show(f"The authority of {subject} is {word}.")
            return 0
        name = opening.resolve(context.store, subject)
        held = operate.revoke(context, name, reason=reason, by=by)
        if json:
            output.value({"run": name, "revoked": True, "held": held})
        else:
            calls = "1 call is" if len(held) == 1 else f"{len(held)} calls are"
            output.show(f"The authority of the run {name} is revoked; {calls} under way or unresolved.")
    return 0
