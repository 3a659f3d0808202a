"""The preservation theorem as a test: random programs, grants, crashes and revisions. What was dispatched is measured
by the provider, and no meter is ever above its limit, no name outside the grant.

It says nothing about any one effect being right: only that their number and size are within what was granted.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from adversary.edits import CHANGING, PRESERVING, edited
from adversary.programs import make, write
from adversary.world import CATALOG, CENT, RUN, Faults, Sent, World
from hypothesis import given, note
from hypothesis import strategies as st

from addendum.authority.accounts import Accounts
from addendum.authority.grant import Grant, Limit, from_json
from addendum.broker.journal import Journal
from addendum.broker.principal import Ledger
from addendum.broker.reconcile import unresolved
from addendum.canon import canonical, parse
from addendum.errors import Rejected
from addendum.runs import operate
from addendum.runs.start import resume, start

seeds = st.integers(0, 2**32)
METERS = ("calls", "cost_usd", "bytes_out", "distinct:/p", "journal_records")


def granted(chance: random.Random) -> Grant:
    """Return a grant of some capabilities with some limits: per capability, run and principal."""

    def amount(meter: str) -> Any:
        most = chance.randint(1, 3 if meter.startswith("distinct") else 12)
        return f"0.0{most}" if meter == "cost_usd" else most * 12 if meter == "bytes_out" else most

    def some(meters: Iterable[str], **more: Any) -> list[dict[str, Any]]:
        return [{"meter": m, "max": amount(m), **more} for m in meters if chance.random() < 0.15]

    def each() -> list[dict[str, Any]]:
        most = chance.choice([{"meter": "bytes_out", "max": 12 * chance.randint(1, 5)}, {"meter": "calls", "max": 2}])
        return [{**most, "by": "/p"}] if chance.random() < 0.15 else []

    names = [name for name in CATALOG if chance.random() < 0.97]
    plain = [meter for meter in METERS if not meter.startswith("distinct")]
    return from_json(
        {
            "capabilities": {name: {"limits": [*some(METERS), *each()]} for name in names},
            "limits": [*some(plain), *some(plain, scope="principal")],
            "principal": "team",
            "worst_case": "refuse" if chance.random() < 0.1 else "at_run_time",
        }
    )


def measured(limit: Limit, sent: Iterable[Sent], failed: set[int]) -> int:
    """Return what the provider saw of a meter; a failure that was certain cost nothing."""
    mine = [each for each in sent if limit.capability in (None, each.capability)]
    if limit.by:
        places = {str(parse(each.payload)) for each in mine}
        plain, values = replace(limit, by=""), [[e for e in mine if str(parse(e.payload)) == place] for place in places]
        return max((measured(plain, value, failed) for value in values), default=0)
    match limit.meter:
        case "calls":
            return len(mine)
        case "journal_records":
            return 2 * len(mine)
        case "cost_usd":
            return sum(CENT for each in mine if each.n not in failed)
        case "bytes_out":
            return sum(len(canonical(parse(each.payload))) for each in mine)
        case _:
            return len({each.payload for each in mine})


def hold(world: World, grant: Grant, before: int, failed: set[int]) -> None:
    """No name outside the grant, no meter above its limit; one that was above before a tighter grant doesn't grow."""
    new = world.provider.sent[before:]
    assert {each.capability for each in new} <= set(grant.capabilities)
    for limit in grant.every:
        now = measured(limit, world.provider.sent, failed)
        assert now <= limit.most or now == measured(limit, world.provider.sent[:before], failed), (str(limit), now)


@given(seeds, seeds)
def test_no_meter_is_ever_above_its_limit_and_no_name_outside_the_grant(seed: int, choice: int) -> None:
    """Runs, kills, resumes, changed grants and revisions in any order keep what the provider saw within the grant."""
    chance = random.Random(choice)
    grant, model = granted(chance), make(seed)
    text = write(model)
    note(f"{text.source}\n{text.args}\n{grant}")
    world, failed, started = World(grant=grant), set[int](), False
    for number in range(chance.randint(2, 5)):
        before = len(world.provider.sent)
        fails = {before + chance.randint(0, 6): "refused" for _ in range(chance.randint(0, 2))}
        unknown = frozenset({before + chance.randint(0, 8)}) - set(fails) if chance.random() < 0.2 else frozenset[int]()
        kinds = ("before attempt", "after attempt", "sent", "before record", "after record")
        crash = (chance.choice(kinds), chance.randint(1, 4)) if chance.random() < 0.4 else None
        faults = Faults(fails=fails, unknown=unknown, crash=crash)
        failed |= set(fails)
        if not started or not world.exists or not world.history.revisions:
            if world.exists:
                break
            world.run(text, schedule=seed + number, faults=faults)
            started = world.exists
        else:
            if unresolved(world.history) and chance.random() < 0.5:
                world.reconcile(abandon=False, result={"t": "known"})
            if chance.random() < 0.3:
                grant = granted(chance)
                world.set_grant(grant)
            if chance.random() < 0.5:
                model, _ = edited(model, chance, PRESERVING + CHANGING, 1)
                text = write(model)
                world.revise(text, schedule=seed + number, faults=faults)
            else:
                world.resume(schedule=seed + number, faults=faults)
        hold(world, grant, before, failed)
        books_agree(world, grant)


def books_agree(world: World, grant: Grant) -> None:
    """The principal's books say what the run's journal says: calls, bytes and money, used and held."""
    if not world.exists or not world.history.revisions:
        return
    history = world.history
    ledger = Ledger(world.store, "team")
    ledger.read()
    accounts = Accounts.of(grant, history, CATALOG)
    for name, totals in history.totals.items():
        theirs = ledger.totals[name]
        assert (theirs.calls, theirs.bytes_out, theirs.cost) == (totals.calls, totals.bytes_out, totals.cost)
        assert ledger.book.held["cost_usd"][name] == accounts.book.held["cost_usd"][name]


def portion(parent: Grant, chance: random.Random) -> Grant:
    """Return a grant for a child: a part of each limit, now and then more than there can be, or none at all."""

    def part(limit: Limit) -> dict[str, Any]:
        most = chance.randint(0, int(limit.most) + (1 if chance.random() < 0.1 else 0))
        return {**limit.to_json(), "max": limit.plain(most)}

    def parts(limits: Iterable[Limit]) -> list[dict[str, Any]]:
        return [part(limit) for limit in limits if not limit.principal and chance.random() < 0.97]

    names = [name for name in parent.capabilities if chance.random() < 0.95]
    return from_json(
        {
            "capabilities": {name: {"limits": parts(parent.capabilities[name])} for name in names},
            "limits": parts(parent.limits),
            "worst_case": "at_run_time",
        }
    )


@given(seeds, seeds)
def test_a_family_of_runs_stays_within_the_first_ones_grant(seed: int, choice: int) -> None:
    """Children and grandchildren that start, die, go on, end and are revoked in any order, beside their parent: what
    all of them sent is within the parent's grant after each step."""
    chance = random.Random(choice)
    grant = granted(chance)
    texts = [write(make(seed + number)) for number in range(3)]
    world, failed = World(grant=grant), set[int]()
    for number in range(chance.randint(4, 9)):
        before = len(world.provider.sent)
        kinds = ("before attempt", "after attempt", "sent", "before end", "after end", "before grant", "after grant")
        crash = (chance.choice(kinds), chance.randint(1, 3)) if chance.random() < 0.4 else None
        fails = {before + chance.randint(0, 4): "refused"} if chance.random() < 0.3 else {}
        unknown = frozenset({before + chance.randint(0, 6)} - set(fails)) if chance.random() < 0.2 else frozenset[int]()
        failed |= set(fails)
        more: dict[str, Any] = {"schedule": seed + number, "faults": Faults(fails=fails, unknown=unknown, crash=crash)}
        runs = [header.run for header in world.store.runs() if Journal(world.store, header.run).read().revisions]
        if RUN not in runs:
            if world.exists:
                break
            world.run(chance.choice(texts), **more)
            hold(world, grant, before, failed)
            continue
        one, text = chance.choice(runs), chance.choice(texts)
        history = Journal(world.store, one).read()
        try:
            match chance.randrange(6):
                case 0 | 1:
                    share = portion(from_json(history.grant or {}), chance)
                    name = f"child-{number}"
                    world._step(
                        text,
                        "run",
                        lambda _, __, a=text, s=share, n=name, p=one: start(  # type: ignore[misc]
                            world.context, a.source, a.args, grant=s, run=n, parent=p
                        ),
                        **more,
                    )
                case 2 if one != RUN or chance.random() < 0.2:
                    operate.revoke(world.context, one)
                case 3:
                    share = portion(from_json(history.grant or {}), chance) if one != RUN else granted(chance)
                    grant = operate.set_grant(world.context, one, share) if one == RUN else grant
                    if one != RUN:
                        operate.set_grant(world.context, one, share)
                case 4 if unresolved(history):
                    operate.reconcile(world.context, one, abandon=False, result={"t": "known"})
                case _:
                    world._step(
                        text,
                        "resume",
                        lambda _, allowances, n=one: resume(world.context, n, allowances=allowances),  # type: ignore[misc]
                        **more,
                    )
        except Rejected as refused:
            note(f"{number}: {refused}")
        hold(world, grant, before, failed)
