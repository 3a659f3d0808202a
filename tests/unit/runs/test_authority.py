"""What a run may do, from its start to its end: narrowings, approvals, revocation, ceilings, changed catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from addendum.authority.approval import APPROVE
from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import from_json
from addendum.authority.permit import permit
from addendum.broker.journal import Journal
from addendum.broker.principal import Ledgers
from addendum.canon import canonical
from addendum.errors import CapabilityError, ConfigError, NotFound, Rejected, UnknownOutcome, UsageError
from addendum.kernel.policy import Allowances
from addendum.ports import Reply, Request, Sandbox, Usage
from addendum.records.entries import Effect
from addendum.runs import given, meters, operate, query
from addendum.runs.context import Context
from addendum.runs.result import StepResult
from addendum.runs.revise import foresee, revise
from addendum.runs.start import driving, resume, revision_entry, start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.clock import ManualClock
from addendum.testing.memory_store import MemoryStore


class Files:
    """A provider that deletes files, and says what it deleted."""

    def __init__(self) -> None:
        self.deleted: list[Any] = []
        self.usage = Usage()
        self.fails = self.lost = 0

    async def dispatch(self, request: Request) -> Reply:
        self.deleted.append(request.payload)
        self.lost -= 1
        if self.lost >= 0:
            raise UnknownOutcome("gone")
        self.fails -= 1
        if self.fails >= 0:
            raise CapabilityError("rate_limited", "later", retryable=True)
        return Reply({"ok": True}, self.usage)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        return None


def delete(effect: Effect = "irreversible", **more: Any) -> Capability:
    return Capability(name="file.delete", effect=effect, max_result=100, **more)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    opened = EmbeddedSandbox()
    yield opened
    opened.close()


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def context(sandbox: Sandbox, files: Files) -> Context:
    """A context around the provider, with one capability."""
    return Context(
        store=MemoryStore(),
        sandbox=sandbox,
        provider=files,
        catalog=Catalog([delete()]),
        clock=ManualClock(),
        grant=from_json({"capabilities": {"file.delete": {}}}),
        backoff=0.0,
    )


ONE = """async def orchestrate(ctx, args):
    return await ctx.run("file.delete", {"path": "a"})
"""
LOOP = """async def orchestrate(ctx, args):
    for name in ["a", "b", "c"]:
        await ctx.run("file.delete", {"path": name})
    return "gone"
"""


def go(context: Context, source: str, run: str = "r", **grant: Any) -> StepResult:
    own = grant.pop("own", {})
    found = from_json({"capabilities": {"file.delete": own}, "worst_case": "at_run_time", **grant})
    return start(context, source, {}, grant=found, run=run)


def test_deleting_one_and_deleting_in_a_loop_are_told_apart_by_the_grant(context: Context, files: Files) -> None:
    """Both are allowed per call; one target per run lets the first through and stops the second at its second call."""
    own = {"limits": [{"meter": "distinct:/path", "max": 1}]}
    assert go(context, ONE, "one", own=own).status == "completed"
    found = go(context, LOOP, "loop", own=own)
    assert (found.status, found.dispatched) == ("paused", 1)
    assert "distinct:/path <= 1" in found.message
    assert len(files.deleted) == 2
    assert resume(context, "loop").dispatched == 0


def test_a_payload_outside_the_narrowing_stops_before_any_effect(context: Context, files: Files) -> None:
    """Where the grant says which payloads, another one is denied, and nothing of its batch is sent."""
    found = go(context, LOOP, own={"where": {"/path": {"enum": ["b"]}}})
    assert (found.status, found.stop, files.deleted) == ("stopped", "denied", [])


def test_a_grant_that_has_ended_sends_nothing(context: Context, files: Files) -> None:
    """At the deadline the run pauses; a new grant is a person's act, and lets it go on."""
    found = go(context, ONE, expires="2020-01-01T00:00:00Z")
    assert (found.status, files.deleted) == ("paused", [])
    operate.set_grant(context, "r", context.grant)
    assert resume(context, "r").status == "completed"


# --- approval ---------------------------------------------------------------------------------------------------


def test_a_rule_asks_before_the_call_and_an_answer_is_used_once(context: Context, files: Files) -> None:
    """The run waits with nothing sent; after a yes the call goes; a second yes finds nothing open."""
    found = go(context, ONE, approval=[{"when": "irreversible"}])
    assert (found.status, files.deleted) == ("waiting", [])
    assert resume(context, "r").status == "waiting"
    (asked,) = operate.approve(context, "r", approved=True)
    assert asked.capability == "file.delete"
    with pytest.raises(UsageError):
        operate.approve(context, "r", approved=True)
    assert resume(context, "r").status == "completed"
    journal = Journal(context.store, "r")
    assert journal.read().allowed == {}
    assert len(files.deleted) == 1


ASKING = """async def orchestrate(ctx, args):
    ok = await ctx.run("human.approve", {"question": "May it?"})
    return ok["approved"]
"""


@pytest.mark.parametrize("source", [ONE, ASKING], ids=["a rule", "a person's call"])
@pytest.mark.parametrize("principal", ["", "team"])
def test_of_two_answers_at_one_moment_the_second_is_told_so(
    context: Context, monkeypatch: pytest.MonkeyPatch, source: str, principal: str
) -> None:
    """Whoever said no first isn't told that it counts while somebody's yes, looked for before it, is told the same."""
    context.catalog = Catalog([delete(), APPROVE])
    capabilities: dict[str, Any] = {"file.delete": {}, "human.approve": {}}
    rules = [{"when": "always", "capability": "file.delete"}]
    data = {"capabilities": capabilities, "approval": rules, "principal": principal}
    assert start(context, source, {}, grant=from_json(data), run="r").status == "waiting"
    write, first = MemoryStore.append, list[int]()

    def late(store: MemoryStore, run: str, entries: Any, **more: Any) -> Any:
        monkeypatch.setattr(MemoryStore, "append", write)
        if not first:
            first.append(len(operate.approve(context, "r", approved=False)))
        return write(store, run, entries, **more)

    monkeypatch.setattr(MemoryStore, "append", late)
    with pytest.raises(UsageError, match="Nothing in the run r waits"):
        operate.approve(context, "r", approved=True)
    assert first == [1]
    done = resume(context, "r")
    assert (done.status, done.stop, done.result) in [("stopped", "denied", None), ("completed", None, False)]


def test_a_no_stops_the_run(context: Context, files: Files) -> None:
    """Declined is denied; no script can catch it."""
    go(context, ONE, approval=[{"when": "always"}])
    operate.approve(context, "r", approved=False, note="not that one")
    found = resume(context, "r")
    assert (found.status, found.stop, files.deleted) == ("stopped", "denied", [])
    assert "not that one" in found.message


def test_another_payload_is_asked_about_anew_with_the_difference(context: Context, files: Files) -> None:
    """A yes to one payload is none to another one at the same place."""
    from addendum.broker.reconcile import difference, questions

    go(context, ONE, approval=[{"when": "always"}])
    operate.approve(context, "r", approved=True)
    found = revise(context, "r", ONE.replace('"a"', '"b"'))
    assert (found.status, files.deleted) == ("waiting", [])
    journal = Journal(context.store, "r")
    (asked,) = questions(journal.read())
    assert asked.instead is not None
    assert difference(journal.value(asked.instead), journal.value(asked.payload)) == {"/path": ["a", "b"]}
    back = revise(context, "r", ONE)
    assert (back.status, files.deleted) == ("waiting", [])  # the old yes is over


def test_a_payload_with_a_whole_float_beyond_2_53_is_asked_about_again(context: Context, files: Files) -> None:
    """What was asked before is written once more beside it, and a grant with such a number is read back as it was."""
    from addendum.broker.reconcile import difference, questions

    own = {"where": {"/path": {"maximum": 1e20}}}
    found = go(context, ONE.replace('"a"', "1.5e18"), approval=[{"when": "always"}], own=own)
    assert found.status == "waiting"
    assert revise(context, "r", ONE.replace('"a"', "2.5e18")).status == "waiting"
    journal = Journal(context.store, "r")
    (asked,) = questions(journal.read())
    assert repr(difference(journal.value(asked.instead), journal.value(asked.payload))) == repr(
        {"/path": [1.5e18, 2.5e18]}
    )
    assert canonical(journal.history.grant)
    operate.approve(context, "r", approved=True)
    assert resume(context, "r").status == "completed"
    assert repr(files.deleted) == repr([{"path": 2.5e18}])


def test_from_the_nth_call_on_a_person_is_asked(context: Context, files: Files) -> None:
    """The first two go, the third waits."""
    found = go(context, LOOP, approval=[{"when": "nth", "n": 3}])
    assert (found.status, len(files.deleted)) == ("waiting", 2)
    operate.approve(context, "r", approved=True)
    assert (resume(context, "r").result, len(files.deleted)) == ("gone", 3)


# --- permits ----------------------------------------------------------------------------------------------------


def permitted(context: Context, **more: Any) -> int:
    return operate.permit(context, "r", permit("file.delete", **more))


def test_a_counted_aggregate_is_used_up_call_by_call(context: Context, files: Files) -> None:
    """Two of three deletions are allowed ahead: they go without a question, and the third waits for one."""
    go(context, LOOP, approval=[{"when": "always"}])
    permitted(context, count=2, where={"/path": {"enum": ["a", "b", "c"]}})
    found = resume(context, "r")
    assert (found.status, len(files.deleted)) == ("waiting", 2)
    journal = Journal(context.store, "r")
    (left,) = journal.read().permits.values()
    assert left.left == 0
    assert resume(context, "r").dispatched == 0
    operate.approve(context, "r", approved=True)
    assert (resume(context, "r").result, len(files.deleted)) == ("gone", 3)


def test_an_aggregate_of_exact_payloads_lets_nothing_else_through(context: Context, files: Files) -> None:
    """The payloads that were allowed go, another one is asked about, and a second use of one isn't there."""
    go(context, LOOP, approval=[{"when": "always"}])
    permitted(context, payloads=[{"path": "a"}, {"path": "c"}])
    found = resume(context, "r")
    assert (found.status, files.deleted) == ("waiting", [{"path": "a"}])
    twice = LOOP.replace('"b", "c"', '"a", "c"')
    found = revise(context, "r", twice, policy={"ledger": "off"})
    assert (found.status, len(files.deleted)) == ("waiting", 1)


def test_an_aggregate_that_is_over_or_fits_nothing_allows_nothing(context: Context, files: Files) -> None:
    """Its end has passed, its schema is another one, its sum of money is too small, or the grant was revoked."""
    context.catalog = Catalog([delete(price=10)])
    go(context, ONE, approval=[{"when": "always"}])
    permitted(context, count=9, where={}, expires=context.clock.now())
    permitted(context, count=9, where={"/path": {"const": "z"}})
    permitted(context, count=9, where={}, most_usd="0.000000009")
    assert resume(context, "r").status == "waiting"
    permitted(context, count=9, where={})
    operate.revoke(context, "r")
    operate.set_grant(context, "r", from_json({**some_grant(), "approval": [{"when": "always"}]}))
    assert (resume(context, "r").status, files.deleted) == ("waiting", [])
    with pytest.raises(ConfigError):
        permitted(context, count=1, where={"type": "nonsense"})


def some_grant() -> dict[str, Any]:
    return {"capabilities": {"file.delete": {}}, "worst_case": "at_run_time"}


def test_a_next_try_of_the_host_belongs_to_the_call(context: Context, files: Files) -> None:
    """A certain failure that is tried again uses up nothing more of a permit."""
    context.catalog = Catalog([delete(retries=2)])
    files.fails = 2
    go(context, ONE, approval=[{"when": "always"}])
    permitted(context, count=1, where={})
    assert (resume(context, "r").status, len(files.deleted)) == ("completed", 3)
    assert [each.left for each in Journal(context.store, "r").read().permits.values()] == [0]


def test_a_batch_shares_what_a_permit_has_left(context: Context, files: Files) -> None:
    """Three calls at once and a permit for two: two go, one is asked about."""
    wide = """async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("file.delete", {"path": p}) for p in ["a", "b", "c"]])
"""
    go(context, wide, approval=[{"when": "always"}])
    permitted(context, count=2, where={})
    assert (resume(context, "r").status, len(files.deleted)) == ("waiting", 2)


# --- revocation, freezing ---------------------------------------------------------------------------------------


def test_revocation_acts_at_the_next_reservation(context: Context, files: Files) -> None:
    """An operator's word between two calls: the second isn't sent; another grant gives it back."""
    done: list[str] = []

    def watch(event: Any) -> None:
        if event["event"] == "handed_over" and not done:
            done.append(event["identity"])
            operate.revoke(context, "r", reason="enough")

    context.observer = watch
    found = go(context, LOOP)
    assert (found.status, len(files.deleted)) == ("paused", 1)
    assert "revoked" in found.message
    assert resume(context, "r").dispatched == 0
    operate.set_grant(context, "r", context.grant)
    assert resume(context, "r").result == "gone"


def test_a_revoked_principal_ends_all_its_runs(context: Context, files: Files) -> None:
    """No run of the principal sends anything until its authority is given back."""
    go(context, ONE, "first", principal="team")
    operate.revoke_principal(context, "team")
    second = go(context, ONE, "second", principal="team")
    assert (second.status, len(files.deleted)) == ("paused", 1)
    operate.set_grant(context, "second", from_json({"capabilities": {"file.delete": {}}, "principal": "team"}))
    assert resume(context, "second").status == "paused", "another grant of the same principal is none of its own"
    # So what is told to do is what helps.
    assert "the authority of team was revoked" in second.message
    assert "until it is given back" in second.message
    assert "`addendum revoke team --principal --restore`" in second.hint
    advice = query.show(context.store, "second").advice
    assert (advice[0].command, advice[0].why) == ("addendum revoke team --principal --restore", "give it back")
    operate.revoke_principal(context, "team", restore=True)
    assert resume(context, "second").status == "completed"
    with pytest.raises(NotFound, match="principal 'nobody'"):
        operate.revoke_principal(context, "nobody")


def test_a_principals_accounts_stay_open_for_its_next_run(context: Context, files: Files) -> None:
    """The next run finds what the one before and another process wrote, without reading all of it again."""
    limits = [{"meter": "calls", "max": 3, "scope": "principal"}, {"meter": "calls", "max": 9, "per": "P1D"}]
    other = replace(context, ledgers=Ledgers())
    go(context, ONE, "first", principal="team", limits=limits)
    go(other, ONE, "second", principal="team", limits=limits)
    kept = context.ledgers.take(context.store, "team", frozenset(), None, False)
    assert kept.seq == 0  # they know no dispatches from before their window
    go(context, ONE, "third", principal="team", limits=limits)
    kept = context.ledgers.take(context.store, "team", frozenset(), context.clock.now(), False)
    assert kept.seq == context.store.head(kept.name)[0] == 6
    context.ledgers.keep(kept, context.clock.now())
    assert go(context, ONE, "fourth", principal="team", limits=limits).status == "paused"
    assert len(files.deleted) == 3
    kept.verify()


def test_a_provider_that_reports_more_than_its_maximum_is_frozen(context: Context, files: Files) -> None:
    """The overrun is charged, an alarm is told, and nothing more of that capability is sent until a new grant."""
    told: list[Any] = []
    context.observer = told.append
    context.catalog = Catalog([delete(price=10, most=20)])
    files.usage = Usage(cost=200)
    found = go(context, LOOP)
    assert (found.status, len(files.deleted), found.total_cost) == ("paused", 1, 200)
    assert [e for e in told if e["event"] == "frozen"] == [
        {
            "run": "r",
            "event": "frozen",
            "capability": "file.delete",
            "attempt": 4,
            "meter": "cost_usd",
            "reported": 200,
            "declared": 20,
        }
    ]
    assert resume(context, "r").dispatched == 0


# --- ceiling and catalog ----------------------------------------------------------------------------------------


def test_a_grant_outside_the_ceiling_is_rejected_and_one_within_gets_its_limits(context: Context) -> None:
    """Nothing is narrowed in silence, and what isn't mentioned is the ceiling's."""
    context.ceiling = from_json(
        {"capabilities": {"file.delete": {"limits": [{"meter": "calls", "max": 2}]}}, "worst_case": "at_run_time"}
    )
    with pytest.raises(Rejected) as caught:
        go(context, LOOP, own={"limits": [{"meter": "calls", "max": 3}]})
    assert caught.value.facts["outside"][0]["what"] == "calls of file.delete"  # type: ignore[index]
    found = go(context, LOOP)
    assert (found.status, found.dispatched) == ("paused", 2)


def test_a_changed_catalog_stops_until_it_is_accepted(context: Context, files: Files) -> None:
    """Another version of a capability that the run called is reported with its fields; accepted, the run goes on."""
    go(context, LOOP, own={"limits": [{"meter": "calls", "max": 1}]})
    operate.set_grant(context, "r", context.grant)
    context.catalog = Catalog([replace(delete(), version="2", about="told otherwise")])
    found = resume(context, "r")
    assert (found.status, found.stop) == ("stopped", "denied")
    assert found.details["catalog"] == {"file.delete": {"version": ["1", "2"]}}
    assert revise(context, "r", LOOP).stop == "denied"
    operate.accept_catalog(context, "r")
    assert resume(context, "r").status == "completed"


def other_version() -> Catalog:
    return Catalog([replace(delete(), version="2")])


def test_a_completed_run_stays_so_whatever_its_catalog_says(context: Context, files: Files) -> None:
    """It has nothing left to do: its result is returned with the change, and nothing is run, sent or written."""
    first = go(context, LOOP)
    context.catalog, entries = other_version(), len(list(context.store.entries("r")))
    found = resume(context, "r")
    assert (found.status, found.result, found.stop) == ("completed", "gone", None)
    assert (found.committed, found.total_cost, found.revision) == (3, first.total_cost, 1)
    assert found.details["catalog"] == {"file.delete": {"version": ["1", "2"]}}
    assert "file.delete: version" in found.message
    assert "catalog accept" in found.hint
    assert len(list(context.store.entries("r"))) == entries
    assert len(files.deleted) == 3


@pytest.mark.parametrize("allowances", [Allowances(supersede=True), Allowances(retry="all")])
def test_a_completed_run_that_could_send_again_stops_at_a_changed_catalog(
    context: Context, allowances: Allowances
) -> None:
    """Where a new version or another try is asked for, something could be sent: nothing is, until it is accepted."""
    go(context, LOOP)
    context.catalog = other_version()
    assert resume(context, "r", allowances=allowances).stop == "denied"
    assert revise(context, "r", LOOP).stop == "denied"


def test_another_script_since_its_end_stops_at_a_changed_catalog(context: Context) -> None:
    """A revision that was adopted and not begun, as a crash leaves it: the run isn't over."""
    go(context, LOOP)
    with driving(context, "r") as journal:
        entry, blobs, _ = revision_entry(2, ONE, {}, Allowances())
        journal.append(entry, blobs=blobs)
    context.catalog = other_version()
    assert resume(context, "r").stop == "denied"


def test_a_plan_says_that_the_catalog_has_changed(context: Context) -> None:
    """As the revision would meet it: stopped, with the fields and the way out; accepted, it is a plan again."""
    go(context, LOOP)
    context.catalog = other_version()
    _, found = foresee(context, "r", LOOP)
    met = revise(context, "r", LOOP)
    assert (found.status, found.stop, found.message, found.hint) == ("stopped", "denied", met.message, met.hint)
    assert found.exit_code == met.exit_code == 3
    operate.accept_catalog(context, "r")
    assert foresee(context, "r", LOOP)[1].status == "planned"


def test_what_the_run_never_called_may_change(context: Context) -> None:
    """A new capability, and texts, are no change of the run's results."""
    go(context, LOOP, own={"limits": [{"meter": "calls", "max": 1}]})
    operate.set_grant(context, "r", context.grant)
    context.catalog = Catalog([replace(delete(), about="in other words"), Capability(name="new", effect="read")])
    assert resume(context, "r").status == "completed"


def test_meters_say_what_is_used_held_and_left(context: Context) -> None:
    """For each limit of a run, and for a principal over its runs."""
    go(
        context,
        LOOP,
        principal="team",
        own={"limits": [{"meter": "calls", "max": 5}, {"meter": "bytes_out", "max": 99, "per": "call"}]},
        limits=[{"meter": "calls", "max": 9, "scope": "principal"}],
    )
    _, levels = meters.of_run(context.store, "r", context.catalog, context.clock)
    assert [(level.used, level.left) for level in levels] == [(3, 2), (None, None), (3, 6)]
    revoked, (account,) = meters.of_principal(context.store, "team")
    assert (revoked, account.totals.calls, account.held_cost) == (False, 3, 0)


def test_meters_show_a_window_as_it_is_now(context: Context) -> None:
    """What has left it isn't shown as used, of the run's and of the principal's."""
    clock = context.clock
    assert isinstance(clock, ManualClock)
    go(
        context,
        LOOP,
        principal="team",
        own={"limits": [{"meter": "calls", "max": 5, "per": "minute"}]},
        limits=[{"meter": "calls", "max": 9, "per": "minute", "scope": "principal"}],
    )

    def used() -> list[int | float | None]:
        return [level.used for level in meters.of_run(context.store, "r", context.catalog, clock)[1]]

    assert used() == [3, 3]
    clock.advance(61.0)
    assert used() == [0, 0]


def test_a_revision_is_held_against_new_work_only(context: Context, files: Files) -> None:
    """Three are committed; six need three more: with two left it doesn't start, with three left it does."""
    limits = [{"meter": "calls", "max": 5}]
    wide = (
        'async def orchestrate(ctx, args):\n    for n in range(3):\n        await ctx.run("file.delete", {"path": n})\n'
    )
    own = {"capabilities": {"file.delete": {"limits": limits}}}
    assert start(context, wide, {}, grant=from_json(own), run="r").status == "completed"
    wider = wide.replace("range(3)", "range(6)")
    found = revise(context, "r", wider, policy={"ledger": "off"})
    assert (found.status, len(files.deleted)) == ("not_admitted", 3)
    assert found.details["admission"]["excesses"][0]["over"] == 1
    smallest = found.details["admission"]["smallest_grant"]
    assert smallest["capabilities"]["file.delete"]["limits"][0]["max"] == 6
    operate.set_grant(context, "r", from_json(smallest))
    assert revise(context, "r", wider, policy={"ledger": "off"}).status == "completed"
    assert len(files.deleted) == 6


def test_a_narrowing_that_is_no_schema_is_refused_before_anything_starts(context: Context, files: Files) -> None:
    """A wrong schema in a grant is an error of the grant, not of a call in the middle of a run."""
    with pytest.raises(ConfigError, match=r"where of file\.delete"):
        go(context, ONE, own={"where": {"type": "nonsense"}})
    assert files.deleted == []


@pytest.mark.parametrize(
    ("where", "word"),
    [
        ({"path": {"const": "a"}}, "path"),
        ({"/path": {"const": "a"}, "required": ["path"]}, "/path"),
        ({"/path": {"enums": ["a"]}}, "enums"),
        ({"anyOf": [{"properties": {"path": {"constant": "a"}}}]}, "constant"),
    ],
)
def test_a_narrowing_that_would_let_everything_through_is_refused(
    context: Context, files: Files, where: dict[str, Any], word: str
) -> None:
    """JSON Schema ignores what it doesn't know: a pointer without its slash would narrow nothing, and a permit with it
    allow any payload."""
    with pytest.raises(ConfigError, match=f"where of file.delete says '{word}'"):
        go(context, ONE, own={"where": where})
    go(context, ONE, approval=[{"when": "always"}])
    with pytest.raises(ConfigError, match=f"permit says '{word}'"):
        operate.permit(context, "r", permit("file.delete", count=1, where=where))
    assert files.deleted == []


def test_a_narrowing_has_every_word_of_json_schema(context: Context, files: Files) -> None:
    """Names of properties and values are none of its words, whatever they are."""
    where = {
        "properties": {
            "path": {"type": "string", "enum": ["a", "b"], "title": "t"},
            "enums": {"const": {"any": 1}},
            "tags": {"contains": {"const": "t"}, "minContains": 0, "maxContains": 2},
        },
        "required": ["path"],
        "if": {"minProperties": 9},
        "then": False,
        "$defs": {"mine": {"anyOf": [True, {"$ref": "#/$defs/other"}]}, "other": {"dependentRequired": {"x": ["y"]}}},
    }
    assert go(context, ONE, own={"where": where}).status == "completed"


@pytest.mark.parametrize(
    "where",
    [
        {"properties": {"tags": {"contains": {"const": "x"}, "minContains": 1, "maxContains": 2}}},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": True},
        {"$schema": "http://json-schema.org/draft-04/schema#", "id": "x:y", "maximum": 3, "exclusiveMaximum": True},
    ],
)
def test_a_narrowing_has_words_that_others_of_its_schema_look_at(
    context: Context, files: Files, where: dict[str, Any]
) -> None:
    assert go(context, ONE, own={"where": where}).status == "completed"


def test_a_rule_about_nothing_is_refused(context: Context) -> None:
    """A name with a slip in it would never be asked about, and never be held together with another one."""
    catalog = context.catalog
    named = {"capabilities": {"file.delete": {}}}
    with pytest.raises(ConfigError, match=r"names 'file\.delte'"):
        given.grant({**named, "approval": [{"when": "always", "capability": "file.delte"}]}, catalog)
    with pytest.raises(ConfigError, match="forbids 'privat_read'"):
        given.grant({**named, "forbid_together": [["privat_read", "open_world_write"]]}, catalog)
    rules = [{"when": "always", "capability": name} for name in ("file.delete", "repair.write")]
    together = [["agentic", "open_world_write"], ["file.delete", "untrusted_content"]]
    assert given.grant({**named, "approval": rules, "forbid_together": together}, catalog).approvals
    labelled = {"x.y": replace(catalog["file.delete"], name="x.y", labels=("customer_data",))}
    assert given.grant({"capabilities": {}, "forbid_together": [["customer_data"]]}, labelled)


@pytest.mark.parametrize("empty", [{}, {"worst_case": "at_run_time"}, {"principal": "team", "limits": []}])
def test_a_grant_that_says_nothing_grants_nothing(context: Context, empty: dict[str, Any]) -> None:
    """A file that was cut off is no unlimited authority; one with limits alone is about everything under them."""
    with pytest.raises(ConfigError, match="neither capabilities, nor limits"):
        given.grant(empty, context.catalog)
    limits = [{"meter": "calls", "max": 1}]
    assert set(given.grant({**empty, "limits": limits}, context.catalog).capabilities) == set(context.catalog)
    assert given.grant({**empty, "capabilities": {}}, context.catalog).capabilities == {}


def test_a_permit_for_a_capability_that_there_is_not_is_refused(context: Context) -> None:
    """It would allow nothing, and look as if it did."""
    go(context, ONE, approval=[{"when": "always"}])
    with pytest.raises(NotFound, match=r"no capability 'file\.delte'"):
        operate.permit(context, "r", permit("file.delte", count=1, where={}))


def test_a_read_whose_outcome_nobody_knows_counts_at_its_most(context: Context, files: Files) -> None:
    """It is tried again by itself, and what the lost try may have cost is spent."""
    context.catalog = Catalog([delete("read", price=10, most=20, retries=2)])
    files.lost = 1
    found = go(context, ONE, own={"limits": [{"meter": "cost_usd", "max": "0.00000004"}]})
    assert (found.status, len(files.deleted)) == ("completed", 2)
    _, (level,) = meters.of_run(context.store, "r", context.catalog, context.clock)
    assert level.used == 20 + 10


def test_what_a_script_logs_and_computes_is_counted(context: Context, files: Files) -> None:
    """Between two calls it logs too much, and the second isn't sent; a replay's logs are the same ones."""
    talking = """async def orchestrate(ctx, args):
    ctx.log("twelve bytes")
    await ctx.run("file.delete", {"path": "a"})
    ctx.log("twelve bytes")
    await ctx.run("file.delete", {"path": "b"})
"""
    limits = [{"meter": "log_bytes", "max": 24}, {"meter": "script_seconds", "max": 60}]
    found = go(context, talking, limits=limits)
    assert (found.status, len(files.deleted)) == ("paused", 1)
    assert "log_bytes <= 24" in found.message
    _, levels = meters.of_run(context.store, "r", context.catalog, context.clock)
    assert levels[0].used == 24
    assert resume(context, "r").dispatched == 0
    limits[0]["max"] = 25
    operate.set_grant(context, "r", from_json({**some_grant(), "limits": limits}))
    assert resume(context, "r").status == "completed"


def test_a_script_that_logs_on_and_on_is_stopped_by_its_sandbox(context: Context) -> None:
    """The grant's limit is the sandbox's, too: no call has to come for it to hold."""
    talking = """async def orchestrate(ctx, args):
    for n in range(100):
        ctx.log("twelve bytes")
"""
    found = go(context, talking, limits=[{"meter": "log_bytes", "max": 100}])
    assert (found.status, found.error) == ("failed", "sandbox_limit")


def test_a_question_to_a_person_counts_like_any_call(context: Context, files: Files) -> None:
    """Two may be asked; the third isn't, and the run pauses once the others are answered."""
    asking = """async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("human.ask", {"n": n}) for n in range(3)])
"""
    context.catalog = Catalog([Capability(name="human.ask", effect="read", waits=True, max_result=100)])
    limits = [{"meter": "calls", "max": 2}]
    grant = from_json({"capabilities": {"human.ask": {}}, "limits": limits, "worst_case": "at_run_time"})
    assert start(context, asking, {}, grant=grant, run="r").status == "paused"
    _, (level,) = meters.of_run(context.store, "r", context.catalog, context.clock)
    assert (level.used, level.left) == (2, 0)
    operate.approve(context, "r", approved=True)
    assert resume(context, "r").status == "paused"
    operate.set_grant(context, "r", from_json({"capabilities": {"human.ask": {}}}))
    assert resume(context, "r").status == "waiting"
    operate.approve(context, "r", approved=True)
    assert resume(context, "r").status == "completed"
