"""The accounts: reserved at the most, settled to what it was, and never above a limit."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.authority.accounts import Accounts, Hold, Later, Over
from addendum.authority.book import Book
from addendum.authority.catalog import Capability
from addendum.authority.grant import METERED, Limit, from_json, of_whole
from addendum.authority.window import Window
from addendum.canon import Json
from addendum.records.history import Dispatch, History, Totals

MAIL = Capability(
    name="mail.send", effect="irreversible", price=10, most=20, max_result=100, most_tokens=7, agentic=True, timeout=5.0
)
PER_CALL = [{"meter": "seconds", "max": 5, "per": "call"}]


def opened(capability: Capability = MAIL, **grant: Any) -> Accounts:
    own = {"limits": [*grant.pop("own", []), *PER_CALL]}
    found = from_json({"capabilities": {capability.name: own}, **grant})
    return Accounts.of(found, History(), {capability.name: capability})


def reserve(accounts: Accounts, *, size: int = 50, payload: Json = None, now: float = 0.0) -> Hold | Over | Later:
    return accounts.reserve(MAIL, size, payload, now)


@pytest.mark.parametrize(
    ("meter", "each"),
    [
        ("calls", 1),
        ("cost_usd", "0.00000002"),
        ("tokens", 7),
        ("bytes_out", 50),
        ("bytes_in", 100),
        ("seconds", 5),
        ("agents", 1),
        ("journal_bytes", 150),
        ("journal_records", 2),
    ],
)
def test_a_call_at_the_limit_goes_and_one_above_it_does_not(meter: str, each: int | str) -> None:
    """On each meter: exactly what a call takes is room for one, and the second is told meter, used, held and asked."""
    accounts = opened(own=[{"meter": meter, "max": each}])
    assert isinstance(reserve(accounts), Hold)
    found = reserve(accounts)
    assert isinstance(found, Over)
    assert found.limit.meter == meter
    assert found.used + found.held == found.limit.most
    assert found.asks == found.limit.most


def test_distinct_targets_are_counted_and_not_calls() -> None:
    """The same target again is free; another one is over; a missing pointer is a target too."""
    accounts = opened(own=[{"meter": "distinct:/to", "max": 1}])
    assert isinstance(reserve(accounts, payload={"to": "a"}), Hold)
    assert isinstance(reserve(accounts, payload={"to": "a"}), Hold)
    assert isinstance(reserve(accounts, payload={"to": "b"}), Over)
    assert isinstance(reserve(accounts, payload={}), Over)


def test_a_target_of_a_call_that_was_not_written_is_none() -> None:
    """A hold that is taken back leaves no target behind, so that it can't pass later as one that was there."""
    accounts = opened(own=[{"meter": "distinct:/to", "max": 1}])
    first = reserve(accounts, payload={"to": "a"})
    assert isinstance(first, Hold)
    accounts.undo(first)
    assert isinstance(reserve(accounts, payload={"to": "b"}), Hold)
    accounts.written()
    assert isinstance(reserve(accounts, payload={"to": "a"}), Over)
    assert isinstance(reserve(accounts, payload={"to": "b"}), Hold)


def test_calls_at_the_same_time_wait_and_go_on() -> None:
    """A call over in_flight waits for one to end; with room for none it is never sent."""
    accounts = opened(own=[{"meter": "in_flight", "max": 1}])
    first = reserve(accounts)
    assert isinstance(first, Hold)
    assert isinstance(reserve(accounts), Later)
    accounts.settle(first)
    assert isinstance(reserve(accounts), Hold)
    assert isinstance(reserve(opened(own=[{"meter": "in_flight", "max": 0}])), Over)


def test_a_grant_that_is_over_bars_every_call() -> None:
    """At its end a grant gives nothing more, and says so."""
    accounts = opened(expires="2027-01-01T00:00:00Z")
    end = accounts.grant.expires
    assert end is not None
    assert isinstance(reserve(accounts, now=end - 1), Hold)
    found = reserve(accounts, now=end)
    assert isinstance(found, Over)
    assert "ends at 2027-01-01" in found.sentence("here")


def test_limits_per_call_bound_what_a_call_may_bring() -> None:
    """A grant's limit per call on results and time tightens the capability itself, so that what is held is enough."""
    bounded = opened(
        own=[{"meter": "bytes_in", "max": 40, "per": "call"}, {"meter": "tokens", "max": 3, "per": "call"}]
    ).bounded(MAIL)
    assert (bounded.max_result, bounded.most_tokens, bounded.timeout) == (40, 3, 5.0)


# --- tokens before a call, values at pointers, the script itself -------------------------------------------------


def test_what_a_prompt_may_have_is_counted_before_it_is_sent() -> None:
    """A token has at least so many bytes: at the limit it goes, above it doesn't; by the catalog, and by a grant."""
    small = Capability(name="mail.send", effect="paid", most_tokens_in=10, token_bytes=4)
    accounts = opened(small)
    assert isinstance(accounts.reserve(small, 40, None, 0.0), Hold)
    found = accounts.reserve(small, 41, None, 0.0)
    assert isinstance(found, Over)
    assert (found.limit.meter, found.asks, found.limit.most) == ("tokens_in", 11, 10)
    accounts = opened(own=[{"meter": "tokens_in", "max": 49, "per": "call"}])
    assert isinstance(reserve(accounts, size=49), Hold)
    assert isinstance(reserve(accounts, size=50), Over)


def test_a_payload_that_bounds_what_comes_back_bounds_what_is_held() -> None:
    """Without a declared maximum: its own tokens by its size, and `max_tokens`; anything else there is no bound."""
    plain = Capability(name="mail.send", effect="paid", token_bytes=2)
    accounts = opened(plain, own=[{"meter": "tokens", "max": 100}])
    first = accounts.reserve(plain, 40, {"max_tokens": 50}, 0.0)
    assert isinstance(first, Hold)
    assert first.tokens == 70
    assert isinstance(accounts.reserve(plain, 40, {"max_tokens": 11}, 0.0), Over)
    assert isinstance(accounts.reserve(plain, 40, {"max_tokens": 10}, 0.0), Hold)
    odd: list[Json] = [{"max_tokens": True}, {"max_tokens": -1}, {"max_tokens": "9"}, {}, []]
    for payload in odd:
        found = opened(plain).reserve(plain, 40, payload, 0.0)
        assert isinstance(found, Hold)
        assert found.tokens == 0
    declared = opened().reserve(MAIL, 40, {"max_tokens": 1}, 0.0)
    assert isinstance(declared, Hold)
    assert declared.tokens == 7


def test_bytes_are_counted_for_each_destination_and_in_sum() -> None:
    """A thousand times a hundred bytes to ten destinations: 60 kB in sum let 600 through, 5 kB for each 50 to each."""
    per = {"meter": "bytes_out", "max": 5_000, "by": "/to"}
    for limits, let in (([{"meter": "bytes_out", "max": 60_000}], 600), ([per], 500)):
        accounts, sent = opened(own=limits), dict[int, int]()
        for number in range(1000):
            if isinstance(reserve(accounts, size=100, payload={"to": number % 10}), Hold):
                sent[number % 10] = sent.get(number % 10, 0) + 1
        assert sum(sent.values()) == let
        assert set(sent.values()) == {let // 10}
    limit = accounts.grant.over("mail.send")[0]
    assert str(limit) == "mail.send: bytes_out <= 5000 per run for each /to"
    assert accounts.level(limit) == (5_000, 0)
    accounts.written()
    assert accounts.level(limit) == (5_000, 0)
    assert isinstance(reserve(accounts, size=1, payload={"to": 3}), Over)
    assert isinstance(reserve(accounts, size=1, payload={"to": "new"}), Hold)


@pytest.mark.parametrize(("meter", "amount"), [("calls", 1), ("cost_usd", "0.00000002")])
def test_calls_and_money_can_be_counted_for_each_value_too(meter: str, amount: int | str) -> None:
    """One each, and a second to the same is over."""
    accounts = opened(own=[{"meter": meter, "max": amount, "by": "/to"}])
    assert isinstance(reserve(accounts, payload={"to": "a"}), Hold)
    assert isinstance(reserve(accounts, payload={"to": "b"}), Hold)
    assert isinstance(reserve(accounts, payload={"to": "a"}), Over)


@pytest.mark.parametrize(("meter", "attribute"), [("script_seconds", "computed"), ("log_bytes", "logged")])
def test_what_the_script_itself_takes_is_a_limit_of_the_run(meter: str, attribute: str) -> None:
    """Looked at before each call: below the limit it goes, at the limit nothing more."""
    accounts = opened(limits=[{"meter": meter, "max": 3}])
    setattr(accounts, attribute, 2)
    assert isinstance(reserve(accounts), Hold)
    setattr(accounts, attribute, 3)
    found = reserve(accounts)
    assert isinstance(found, Over)
    assert found.limit.meter == meter


def test_a_limit_of_a_principal_without_its_book_bars() -> None:
    """Nobody keeps the book: fail closed."""
    accounts = opened(principal="p", limits=[{"meter": "calls", "max": 9, "scope": "principal"}])
    assert isinstance(reserve(accounts), Over)


# --- windows ----------------------------------------------------------------------------------------------------


def test_a_window_waits_until_its_oldest_entry_is_over() -> None:
    """The third call of two per minute waits for the first to be a minute old."""
    accounts = opened(own=[{"meter": "calls", "max": 2, "per": "minute"}])
    assert isinstance(reserve(accounts, now=0), Hold)
    assert isinstance(reserve(accounts, now=10), Hold)
    assert reserve(accounts, now=20) == Later(accounts.grant.over("mail.send")[0], 60)
    assert isinstance(reserve(accounts, now=60), Hold)


def test_a_clock_set_back_refills_nothing() -> None:
    """After a day back, what was full is full, until the clock itself is a window further."""
    accounts = opened(own=[{"meter": "calls", "max": 1, "per": "minute"}])
    assert isinstance(reserve(accounts, now=100_000), Hold)
    later = reserve(accounts, now=100_000 - 86_400)
    assert isinstance(later, Later)
    assert later.at == 100_060


def test_a_clock_set_back_while_a_window_is_wide_refills_nothing() -> None:
    """What was taken meanwhile counts from the latest time that was known, and isn't over when the clock is right."""
    accounts = opened(own=[{"meter": "calls", "max": 4, "per": "minute"}])
    back = 100_000.0 - 86_400
    assert all(isinstance(reserve(accounts, now=now), Hold) for now in (100_000.0, back, back + 1, back + 2))
    later = reserve(accounts, now=back + 3)
    assert isinstance(later, Later)
    assert later.at == 100_060
    assert isinstance(reserve(accounts, now=100_010), Later)
    assert isinstance(reserve(accounts, now=100_060), Hold)


def test_a_clock_that_was_ahead_refills_nothing() -> None:
    """What a window forgot while the clock was ahead counts when it is right again, near the limit and far from it."""
    for most in (3, 100):
        window = Window(60.0)
        for second in range(3):
            window.take(1_000.0 + second, 1)
        window.take(90_000.0, 1)
        assert (window.level, window.knows(90_000.0), window.knows(1_010.0)) == (1, True, False)
        assert window.room(1, most, 1_010.0) == 1_062.0


def test_a_window_that_forgot_is_made_anew_from_what_is_remembered() -> None:
    """The clock was a day ahead for one call: what was sent before is in the journal's fold, and counts again."""
    accounts = opened(own=[{"meter": "calls", "max": 5, "per": "minute"}])
    for now in (1_000.0, 1_001.0, 1_002.0, 90_000.0):
        assert isinstance(reserve(accounts, now=now), Hold)
        accounts.history.recent.append(Dispatch(now, "mail.send", 20, 9))
        accounts.written()
    assert isinstance(reserve(accounts, now=1_010.0), Hold)
    assert isinstance(reserve(accounts, now=1_010.0), Later)


@pytest.mark.parametrize("seed", range(60))
def test_a_clock_that_jumps_refills_nothing(seed: int) -> None:
    """Wherever it jumps: of what was let through, whatever has a time within the last minute or one still to come is
    at most the limit; and accounts that were opened anew let through the same."""
    chance, now = random.Random(seed), 1_000.0
    most = chance.randint(1, 5)
    own = [{"meter": "calls", "max": most, "per": "minute"}]
    kept, said = opened(own=own), set[type]()
    for _ in range(80):
        now = max(0.0, now + chance.choice((0.0, 1.0, 1.0, 20.0, 61.0, 90.0, -1.0, -30.0, -100.0, -300.0)))
        recent = kept.history.recent
        anew = opened(own=own)
        anew.history.recent.extend(recent)
        found = [reserve(accounts, now=now) for accounts in (kept, anew)]
        assert found[0] == found[1] or not any(isinstance(each, Hold) for each in found)
        said.add(type(found[0]))
        if isinstance(found[0], Hold):
            recent.append(Dispatch(now, "mail.send", 20, 9))
            kept.written()
            assert sum(each.at > now - 60.0 for each in recent) <= most
    assert said == {Hold, Later}


def test_a_hold_counts_from_when_it_was_written() -> None:
    """It leaves no window sooner than its attempt's own time says."""
    accounts = opened(own=[{"meter": "calls", "max": 2, "per": "minute"}])
    assert isinstance(reserve(accounts, now=1_000.0), Hold)
    assert isinstance(reserve(accounts, now=1_000.001), Hold)
    accounts.history.recent.extend(Dispatch(at, "mail.send", 20, 9) for at in (1_000.004, 1_000.005))
    accounts.written()
    later = reserve(accounts, now=1_060.002)
    assert isinstance(later, Later)
    assert later.at == 1_060.004


def test_no_call_looks_at_the_holds_of_those_before_it() -> None:
    """A fan-out that is far from its limits has a thousand of them."""

    class Closed(list[Hold]):
        def __iter__(self) -> Any:
            pytest.fail("they are looked at")

    limits = [{"meter": meter, "max": 10**6} for meter in ("calls", "bytes_out", "agents", "journal_bytes")]
    accounts = opened(own=limits, limits=[{"meter": "journal_records", "max": 10**6}])
    accounts.book.unwritten = Closed()
    assert all(isinstance(reserve(accounts), Hold) for _ in range(3))


@pytest.mark.parametrize("meter", METERED)
def test_a_hold_counts_by_each_meter_before_and_after_it_is_written(meter: str) -> None:
    """Until it is in the totals, what it takes is held: of one capability, and of all of them."""
    accounts = opened(own=[{"meter": meter, "max": 10**6}], limits=[{"meter": meter, "max": 10**6}])
    limits = [limit for limit in accounts.grant.every if limit.per == "run" and not of_whole(limit)]
    holds = [each for size in (3, 4) if isinstance(each := reserve(accounts, size=size), Hold)]
    asked = sum(hold.of(meter) for hold in holds)
    assert asked
    for limit in limits:
        assert accounts.level(limit) == (0, asked)
    accounts.written()
    totals = accounts.history.totals.setdefault(MAIL.name, Totals())
    totals.calls, totals.bytes_out = 2, 7
    for limit in limits:
        assert sum(accounts.level(limit)) == asked
    for hold in holds:
        accounts.settle(hold)
    totals.cost, totals.tokens, totals.bytes_in, totals.seconds = 5, 6, 8, 1.5
    came = {"cost_usd": 5, "tokens": 6, "bytes_in": 8, "seconds": 1.5, "in_flight": 0, "journal_bytes": 15}
    for limit in limits:
        assert accounts.level(limit) == (came.get(meter, asked), 0)


@pytest.mark.parametrize("known", [0, 2, 3, 5])
def test_all_holds_at_once_are_written_as_one_after_the_other(known: int) -> None:
    """Whatever is remembered of what was sent: nothing, fewer than the holds, as many, others before them."""
    books = []
    for together in (True, False):
        accounts = opened(own=[{"meter": "calls", "max": 9, "per": "minute"}, {"meter": "distinct:/to", "max": 9}])
        holds = [reserve(accounts, payload={"to": to}, now=now) for now, to in ((1.0, "a"), (2.0, "b"), (2.0, "b"))]
        sent = [Dispatch(at, "mail.send", 20, 9) for at in (0.5, 1.5, 2.5, 1.75, 3.0)][5 - known :]
        book = accounts.book
        if together:
            book.wrote_all(sent)
        else:
            times = [-1.0, -1.0, -1.0, *(each.at for each in sent)][-3:]
            for hold, at in zip(holds, times, strict=True):
                assert isinstance(hold, Hold)
                book.target(hold)
                book.wrote(hold, at)
        assert not book.unwritten
        books.append(book)
    assert books[0] == books[1]
    (window,) = books[0].windows.values()
    assert len(window.entries) == 3


def test_a_level_is_of_now() -> None:
    """What is over isn't shown, though no call looked at the window."""
    accounts = opened(own=[{"meter": "calls", "max": 5, "per": "minute"}])
    assert isinstance(reserve(accounts, now=1_000.0), Hold)
    (limit,) = (each for each in accounts.grant.every if each.per == 60.0)
    assert accounts.level(limit) == (1, 0)
    accounts.at = 1_060.0
    assert accounts.level(limit) == (0, 0)


def test_a_wide_window_forgets_what_is_over() -> None:
    """Nobody has to look at it closely for that."""
    accounts = opened(own=[{"meter": "calls", "max": 10**6, "per": "minute"}])
    for second in range(1000):
        assert isinstance(reserve(accounts, now=float(second)), Hold)
        accounts.written()
    (window,) = accounts.book.windows.values()
    assert len(window.entries) == window.level == 60


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(1, 5)), max_size=40), st.integers(5, 12))
def test_a_window_is_never_above_its_limit(steps: list[tuple[float, int]], most: int) -> None:
    """Against the plain definition: what was let through in any last ten seconds is at most the limit, and what was
    held up would have been above it."""
    window, let, now = Window(10.0), list[tuple[float, int]](), 0.0
    for pause, amount in steps:
        now += pause
        inside = sum(a for at, a in let if at > now - 10.0)
        later = window.room(amount, most, now)
        assert (later is None) is (inside + amount <= most)
        if later is None:
            window.add(now, amount)
            let.append((now, amount))


def test_ten_thousand_entries_do_not_slow_a_window() -> None:
    """The work for a call doesn't grow with what is in the window: steps over entries are counted, not time."""
    window = Window(86_400.0)
    for second in range(10_000):
        window.add(float(second), 1)

    steps = 0

    class Counted(type(window.entries)):  # type: ignore[misc]
        def __iter__(self) -> Any:
            nonlocal steps
            for entry in super().__iter__():
                steps += 1
                yield entry

    window.entries = Counted(window.entries)
    for second in range(10_000, 10_100):
        assert window.room(1, 20_000, float(second)) is None
        window.add(float(second), 1)
    assert window.room(1, window.level, 10_100.0) is not None
    assert steps < 10


# --- the first look ---------------------------------------------------------------------------------------------

PING = Capability(name="a.ping", effect="read", price=1, max_result=7)
NARROW: list[tuple[str, int | str, str | int]] = [
    ("calls", 4, "run"),
    ("calls", 3, 60),
    ("cost_usd", "0.00000009", "run"),
    ("cost_usd", "0.00000004", 60),
    ("tokens", 20, "run"),
    ("bytes_out", 90, "run"),
    ("bytes_out", 40, 60),
    ("bytes_in", 300, "run"),
    ("bytes_out", 30, "call"),
    ("tokens", 6, "call"),
    ("seconds", 20, "run"),
    ("in_flight", 2, "run"),
    ("agents", 3, "run"),
    ("agents", 2, 60),
    ("journal_bytes", 400, "run"),
    ("journal_records", 10, "run"),
]
OWN: list[tuple[str, int | str, str | int]] = [*NARROW, ("distinct:/to", 2, "run")]


class Closely(Accounts):
    """Accounts that look closely at every limit."""

    def _near(self, mine: Any, asked: Hold) -> range:
        return range(len(mine.limits))


def drawn(chance: random.Random) -> dict[str, Any]:
    """Return a grant with some limits of every kind, those of a principal too; narrow ones and wide ones."""

    def limits(among: list[tuple[str, int | str, str | int]], **more: Any) -> list[dict[str, Any]]:
        each = [
            {"meter": meter, "max": most, **({} if per == "run" else {"per": per}), **more}
            for meter, most, per in among
        ]
        found = [limit for limit in each if chance.random() < 0.15]
        return [{**limit, "max": 10**6} if chance.random() < 0.4 else limit for limit in found]

    shared = limits([each for each in NARROW if each[2] != "call"], scope="principal")
    return {
        "capabilities": {name: {"limits": limits(OWN)} for name in ("mail.send", "a.ping")},
        "limits": [*limits([each for each in NARROW if each[2] != "call"]), *shared],
        "principal": "team",
    }


@pytest.mark.parametrize("seed", range(20))
def test_the_levels_of_all_meters_are_those_of_each(seed: int) -> None:
    """The first look takes them together; `level` says them one by one."""
    chance, book = random.Random(seed), Book({}, deque(), frozenset({"mail.send"}))
    book.totals = {"mail.send": Totals(1, 1, *(chance.randint(0, 9) for _ in range(5)))}
    for _ in range(chance.randint(0, 4)):
        hold = Hold(chance.choice(("mail.send", "a.ping")), *(chance.randint(0, 9) for _ in range(4)))
        book.take(hold, 1.0)
        if chance.random() < 0.5:
            book.wrote(hold, 1.0)
    for name in ("mail.send", "a.ping", "a.pong"):
        each = [sum(book.level(Limit(meter, 1, "run", name))) for meter in METERED]
        assert list(book._levels(name)) == each


@pytest.mark.parametrize("seed", range(150))
def test_the_first_look_refuses_and_admits_as_the_close_one(seed: int) -> None:
    """Two accounts of one grant, one of which looks closely at every limit, say the same of every call:
    holds that aren't written yet, calls in flight, more used than was held, windows that empty, another process's."""
    chance = random.Random(seed)
    grant, catalog = from_json(drawn(chance)), {each.name: each for each in (MAIL, PING)}
    both: list[Accounts] = []
    for kind in (Accounts, Closely):
        principal = Book({}, deque(), frozenset({"mail.send"}))
        principal.totals = {}
        both.append(kind.of(grant, History(), catalog, (), principal))
    under_way: list[tuple[Hold, Capability]] = []
    coming: list[Hold] = []
    now, said = 0.0, set[type]()
    for _ in range(60):
        now += chance.choice((0.0, 1.0, 25.0))
        match chance.randrange(5):
            case 0 if under_way:
                hold, _ = under_way.pop(chance.randrange(len(under_way)))
                cost, tokens = chance.randint(0, hold.cost + 5), chance.randint(0, 9)
                for accounts in both:
                    assert accounts.principal is not None
                    for book in (accounts.book, accounts.principal):
                        book.settle(hold)
                        totals = book.totals.setdefault(hold.capability, Totals())  # type: ignore[attr-defined]
                        totals.cost, totals.tokens = totals.cost + cost, totals.tokens + tokens
            case 1:
                for accounts in both:
                    assert accounts.principal is not None
                    for book in (accounts.book, accounts.principal):
                        for hold in coming:
                            totals = book.totals.setdefault(hold.capability, Totals())  # type: ignore[attr-defined]
                            totals.calls, totals.bytes_out = totals.calls + 1, totals.bytes_out + hold.bytes_out
                    accounts.written()
                    for hold in list(accounts.principal.unwritten):
                        accounts.principal.wrote(hold, now)
                coming.clear()
            case 2 if chance.random() < 0.3:
                for accounts in both:
                    assert accounts.principal is not None
                    accounts.principal.sent(Dispatch(now, "mail.send", 20, 9))
            case _:
                capability, size = chance.choice((MAIL, PING)), chance.choice((0, 9, 25, 31))
                payload: Json = {"to": chance.choice("abc")}
                found = [accounts.reserve(capability, size, payload, now) for accounts in both]
                assert found[0] == found[1]
                said.add(type(found[0]))
                if isinstance(found[0], Hold):
                    under_way.append((found[0], capability))
                    coming.append(found[0])
    assert said


# --- conservation -----------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(0, 6), st.integers(0, 120))
def test_used_and_held_are_never_above_a_limit(seed: int, calls: int, cost: int) -> None:
    """Whatever order reservations, settlements and losses come in, used and held stay within each limit."""
    chance, accounts = (
        random.Random(seed),
        opened(own=[{"meter": "calls", "max": calls}], limits=[{"meter": "cost_usd", "max": f"{cost / 1e9:.9f}"}]),
    )
    under_way: list[Hold] = []
    for _ in range(30):
        if under_way and chance.random() < 0.5:
            hold = under_way.pop(chance.randrange(len(under_way)))
            totals = accounts.history.usage("mail.send")
            if chance.random() < 0.7:
                accounts.settle(hold)
                totals.cost += chance.randint(0, 20)
            else:
                accounts.keep(hold)
        else:
            found = reserve(accounts)
            if isinstance(found, Hold):
                under_way.append(found)
                accounts.written()
                accounts.history.usage("mail.send").calls += 1
        for limit in accounts.grant.every:
            if limit.per == "run":
                used, held = accounts.level(limit)
                assert used + held <= limit.most
