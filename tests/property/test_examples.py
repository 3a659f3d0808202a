"""What the search found, and what was thought of beside it, each as the smallest script that shows it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from adversary import oracle
from adversary.programs import Text
from adversary.world import RUN, Faults, Step, World

from addendum.kernel.policy import Allowances

PIC = """
async def pic(ctx, p):
    return (await ctx.run("p.make", {"p": p}))["t"]
"""


def script(body: str, helpers: str = "", args: Any = None) -> Text:
    """Return a script from the body of `orchestrate`."""
    lines = "\n".join(f"    {line}" if line else "" for line in body.strip().splitlines())
    return Text(f"{helpers.strip()}\n\nasync def orchestrate(ctx, args):\n{lines}\n", args or {}, {})


def ran(old: Text, *, fails: int | None = None, schedule: int | None = None) -> World:
    """Run a script; `fails` is the number of the dispatch that fails."""
    world = World()
    world.run(old, schedule=schedule, faults=Faults(fails={} if fails is None else {fails: "provider_error"}))
    return world


def revised(old: Text, new: Text, *, fails: int | None = None, **more: Any) -> Step:
    """Run a script, and revise it."""
    return ran(old, fails=fails).revise(new, **more)


def seen(step: Step) -> tuple[Any, ...]:
    """Return how a step ended: status, stop, dispatches, replays, orphans."""
    assert step.result is not None
    result = step.result
    return (result.status, result.stop, len(step.sent), result.replayed, result.orphans)


# --- equal calls --------------------------------------------------------------------------------------------------


def test_equal_branches_keep_their_results_when_their_fan_out_moves() -> None:
    """A fan-out of equal calls in a helper: each branch has its own result again, so that what follows is the same."""
    fan = 'await ctx.parallel([pic(ctx, "same"), pic(ctx, "same"), pic(ctx, "same")])'
    body = f"v = {fan}\n"
    rest = 'return (await ctx.run("r.read", {"p": "+".join(v)}))["t"]'
    helper = f"{PIC}\nasync def every(ctx):\n    return {fan}"
    for schedule in range(4):
        world = ran(script(body + rest, PIC), schedule=schedule)
        step = world.revise(script("v = await every(ctx)\n" + rest, helper))
        assert seen(step) == ("completed", None, 0, 4, 0)


def test_a_wrapped_loop_of_equal_calls_goes_on_where_it_failed() -> None:
    """The third of three equal calls failed and the loop is wrapped: the place had room for three, so it is no twin."""
    old = 'for x in ["a", "b", "c"]:\n    await ctx.run("s.act", {"p": "same"})\nreturn 1'
    new = 'for y in range(1):\n    for x in ["a", "b", "c"]:\n        await ctx.run("s.act", {"p": "same"})\nreturn 1'
    assert seen(revised(script(old), script(new), fails=2)) == ("completed", None, 1, 2, 0)


def test_a_wrapped_call_that_is_made_twice_is_a_twin() -> None:
    """The old place had room for one: which of the two is the old call can't be told."""
    old = 'a = (await ctx.run("p.make", {"p": "x"}))["t"]\nreturn (await ctx.run("r.read", {"p": "END"}))["t"]'
    new = (
        'for i in range(2):\n    a = (await ctx.run("p.make", {"p": "x"}))["t"]\n'
        'return (await ctx.run("r.read", {"p": "END"}))["t"]'
    )
    step = revised(script(old), script(new), fails=1)
    assert seen(step)[:3] == ("not_admitted", None, 0)


def test_a_helper_written_otherwise_inside_moves_the_records_of_all_its_uses() -> None:
    """Two uses with the same payload, and a try in the helper: each use has its own record."""
    wrapped = """
async def pic(ctx, p):
    try:
        return (await ctx.run("p.make", {"p": p}))["t"]
    except CapabilityError as e:
        return e.code
"""
    body = (
        'a = await pic(ctx, "x")\nn = (await ctx.run("r.read", {"p": a}))["t"]\nb = await pic(ctx, "x")\nreturn [a, b]'
    )
    world = ran(script(body, PIC))
    assert world.steps[0].result is not None
    step = world.revise(script(body, wrapped))
    assert seen(step) == ("completed", None, 0, 3, 0)
    assert step.result is not None
    assert step.result.result == world.steps[0].result.result


def test_a_copy_of_a_use_with_the_number_of_another_use_is_a_twin() -> None:
    """The helper is wrapped, which moves the records of its uses, and the first use is written once more: it has the
    number of a use that asks for something else, which doesn't make it one that was always there."""
    wrapped = PIC.replace("    return", "    if True:\n        return")
    one, other = 'a = await pic(ctx, "x")\n', 'b = await pic(ctx, "y")\nreturn [a, b]'
    assert seen(revised(script(one + other, PIC), script(one + other, wrapped))) == ("completed", None, 0, 2, 0)
    step = revised(script(one + other, PIC), script(one + one + other, wrapped))
    assert seen(step)[:3] == ("not_admitted", None, 0)
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]


def test_a_use_that_is_gone_leaves_its_record_over_when_the_helper_changes_too() -> None:
    """The first of two equal uses is deleted and the helper wrapped: it stops, and serves neither."""
    wrapped = PIC.replace("    return", "    if True:\n        return")
    old = 'a = await pic(ctx, "x")\nb = await pic(ctx, "x")\nreturn [a, b]'
    step = revised(script(old, PIC), script('b = await pic(ctx, "x")\nreturn [b]', wrapped))
    assert seen(step)[:3] == ("not_admitted", None, 0)


def test_a_try_around_a_fan_out_whose_branches_make_equal_calls_at_several_sites() -> None:
    """Which branch a record came from tells it apart from the equal one of another branch."""
    helpers = """
async def one(ctx):
    return (await ctx.run("p.make", {"p": "x"}))["t"]

async def two(ctx):
    return (await ctx.run("p.make", {"p": "x"}))["t"]
"""
    fan = "v = await ctx.parallel([one(ctx), two(ctx)])"
    new = f"try:\n    {fan}\nexcept CapabilityError as e:\n    raise e\nreturn v"
    assert seen(revised(script(f"{fan}\nreturn v", helpers), script(new, helpers))) == ("completed", None, 0, 2, 0)


def test_inlining_in_front_of_an_equal_call_exchanges_nothing() -> None:
    """The inlined call takes the number of its equal neighbour, which takes the next: that can't be told."""
    old = 'x = "same"\na = await pic(ctx, "same")\nb = (await ctx.run("p.make", {"p": x}))["t"]\nreturn [a, b]'
    new = old.replace('await pic(ctx, "same")', '(await ctx.run("p.make", {"p": "same"}))["t"]')
    step = revised(script(old, PIC), script(new, PIC))
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]


def test_the_first_of_two_equal_fan_outs_moved_exchanges_nothing() -> None:
    """What is left takes the first one's number: their order tells that they may have changed places."""
    fan = 'await ctx.parallel([pic(ctx, "x")])'
    helper = f"{PIC}\nasync def every(ctx):\n    return {fan}"
    old, new = f"a = {fan}\nb = {fan}\nreturn [a, b]", f"a = await every(ctx)\nb = {fan}\nreturn [a, b]"
    step = revised(script(old, PIC), script(new, helper))
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]
    last = revised(script(old, PIC), script(f"a = {fan}\nb = await every(ctx)\nreturn [a, b]", helper))
    assert seen(last) == ("completed", None, 0, 2, 0)


def test_hundreds_of_equal_calls_in_a_fan_out_that_moved_are_matched_in_no_time() -> None:
    """Each is found by its branch, not by looking at all the others."""
    fan = 'await ctx.parallel([pic(ctx, "x") for i in range(300)])'
    old, new = f"v = {fan}\nreturn len(v)", f"if True:\n    v = {fan}\nreturn len(v)"
    assert seen(revised(script(old, PIC), script(new, PIC))) == ("completed", None, 0, 300, 0)


def test_two_that_moved_are_not_expected_at_one_place() -> None:
    """Of two equal calls one goes into a helper and one into a block: neither may have the other's."""
    old = (
        'a = (await ctx.run("p.make", {"p": "x"}))["t"]\nb = (await ctx.run("p.make", {"p": "x"}))["t"]\nreturn [a, b]'
    )
    new = 'a = await pic(ctx, "x")\nif True:\n    b = (await ctx.run("p.make", {"p": "x"}))["t"]\nreturn [a, b]'
    step = revised(script(old), script(new, PIC))
    assert seen(step)[:3] == ("not_admitted", None, 0)


def test_a_record_is_kept_for_its_call_behind_new_work() -> None:
    """A renamed helper is used behind new work: an item that is new to a fan-out doesn't take the use's record."""
    old = PIC + "\n"
    new = PIC.replace("pic", "image") + "\n"
    body = 'v = await ctx.parallel([pic(ctx, x) for x in args["xs"][:5]])\nw = await pic(ctx, "a")\nreturn [v, w]'
    first = script(body, old, {"xs": ["b", "a"]})
    second = script(body.replace("pic", "image"), new, {"xs": ["b", "a", "a"]})
    step = revised(first, second)
    assert seen(step) == ("completed", None, 1, 3, 0)
    assert step.result is not None
    w = step.result.result
    assert isinstance(w, list)
    assert step.sent[0].identity.startswith("orchestrate/parallel#0[2]")


def test_expected_is_not_where_another_call_always_was() -> None:
    """A fallback that was always there is no new place for the call that moved into a helper."""
    old = """
try:
    a = (await ctx.run("p.make", {"p": "x"}))["t"]
    b = (await ctx.run("r.read", {"p": "y"}))["t"]
except CapabilityError as e:
    a = (await ctx.run("p.make", {"p": "x"}))["t"]
return a
"""
    new = old.replace('(await ctx.run("p.make", {"p": "x"}))["t"]', 'await pic(ctx, "x")', 1)
    assert seen(revised(script(old), script(new, PIC))) == ("completed", None, 0, 2, 0)


def test_equal_calls_of_one_block_are_told_apart_by_their_order_alone() -> None:
    """A limit, written down: results of equal neighbours follow their order, not the variables they go to."""
    one, two = (f'{name} = (await ctx.run("p.make", {{"p": "x"}}))["t"]\n' for name in ("left", "right"))
    old, new = f"{one}{two}return [left, right]", f"{two}{one}return [left, right]"
    step = revised(script(old), script(new))
    assert seen(step) == ("completed", None, 0, 2, 0)


# --- order --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "new", "used"),
    [
        (["a", "b"], 0, 2),
        (["a", "b", "c", "d"], 1, 3),
        (["z", "a", "b", "c"], 1, 3),
        (["c", "b", "a"], 0, 3),
        ([], 0, 0),
    ],
)
def test_a_fan_out_over_another_list_pays_for_what_is_new(items: list[str], new: int, used: int) -> None:
    """Shrunk, grown, with an item in front, reordered, emptied: each item has its result, wherever it stands now."""
    body = 'return await ctx.parallel([pic(ctx, x) for x in args["xs"][:9]])'
    old, now = script(body, PIC, {"xs": ["a", "b", "c"]}), script(body, PIC, {"xs": items})
    for schedule in range(3):
        world = ran(old, schedule=schedule)
        step = world.revise(now, schedule=schedule)
        assert seen(step) == ("completed", None, new, used, 3 - used)
        again = world.resume()
        assert not again.sent
        assert again.handed == step.handed


@pytest.mark.parametrize(("items", "new"), [(["n", "a", "b"], 0), (["b", "a"], 0), (["a"], 0)])
def test_a_race_keeps_its_winner_when_its_branches_are_renumbered(items: list[str], new: int) -> None:
    """The recorded winner is a number; with an item in front it would be the new branch."""
    body = 'w = await ctx.race([pic(ctx, x) for x in args["xs"][:5]])\n'
    body += 'return [w, (await ctx.run("r.read", {"p": w}))["t"]]'
    world = ran(script(body, PIC, {"xs": ["a", "b"]}))
    step = world.revise(script(body, PIC, {"xs": items}))
    assert step.result is not None
    assert world.steps[0].result is not None
    assert (step.result.status, len(step.sent)) == ("completed", new)
    assert step.result.result == world.steps[0].result.result


def test_a_continuation_behind_a_race_is_made_once() -> None:
    """A branch goes on with a second call while the other one is in flight: one dispatch of each."""
    helpers = (
        PIC
        + '\nasync def chain(ctx):\n    a = await pic(ctx, "a")\n    return (await ctx.run("s.act", {"p": a}))["t"]\n'
    )
    body = 'return await ctx.race([chain(ctx), pic(ctx, "c")])'
    for schedule in range(8):
        world = ran(script(body, helpers), schedule=schedule)
        world.resume(schedule=schedule + 1)
        identities = [sent.identity for sent in world.provider.sent]
        assert len(identities) == len(set(identities))


def test_log_lines_are_told_once_when_what_travelled_ahead_was_anothers() -> None:
    """Changed args: the results that travel ahead are refused, the script starts again, and nothing is told twice."""
    body = (
        'ctx.log("begin")\nfor x in args["xs"][:5]:\n    ctx.log(x)\n    await ctx.run("r.read", {"p": x})\n'
        'ctx.log("end")\nreturn 1'
    )
    world = ran(script(body, "", {"xs": ["a", "b"]}))
    step = world.revise(script(body, "", {"xs": ["a", "n"]}), allowances=Allowances(supersede=True))
    assert step.logs == ["begin", "a", "n", "end"]
    assert [seq for seq, _ in step.handed] == sorted({seq for seq, _ in step.handed})


# --- the ledger ---------------------------------------------------------------------------------------------------


def test_one_function_as_two_stages_of_a_pipeline_repeats_nothing() -> None:
    """Both stages enter it on one path; the second time is no call beyond the bounds."""
    helpers = 'async def stage(ctx, v):\n    return (await ctx.run("s.act", {"p": "same"}))["t"]\n'
    body = 'return await ctx.pipeline(["a", "b"], lambda v, i, n: stage(ctx, v), lambda v, i, n: stage(ctx, v))'
    for fails in range(4):
        world = ran(script(body, helpers), fails=fails)
        step = world.resume()
        assert step.result is not None
        assert step.result.status == "completed"
        assert step.result.repeats == 0


def test_a_widened_comprehension_is_a_repeat() -> None:
    """Beyond the bounds of the record's own source, at its own place: a side effect is not repeated unasked."""
    old = 'v = [(await ctx.run("s.act", {"p": "x"}))["t"] for _ in range(2)]\nreturn v'
    step = revised(script(old), script(old.replace("range(2)", "range(3)")))
    assert seen(step)[:3] == ("stopped", "repeat", 0)


# --- generations --------------------------------------------------------------------------------------------------


def test_wrapped_and_unwrapped_again_a_record_comes_home() -> None:
    """Two generations of moves, and a replay after each."""
    plain = script('a = (await ctx.run("p.make", {"p": "x"}))["t"]\nreturn a')
    wrapped = script('if True:\n    a = (await ctx.run("p.make", {"p": "x"}))["t"]\nreturn a')
    world = ran(plain)
    for text in (wrapped, plain, wrapped, plain):
        step = world.revise(text)
        assert seen(step) == ("completed", None, 0, 1, 0)
        assert not world.resume().sent
    assert world.certified()


def test_a_superseded_version_is_not_served_to_a_later_revision() -> None:
    """Put back to the payload of a version that was replaced: it stops; allowed, it is paid for again, knowingly."""
    red, blue = (
        script('return (await ctx.run("p.make", {"p": "red"}))["t"]'),
        script('return (await ctx.run("p.make", {"p": "blue"}))["t"]'),
    )
    world = ran(red)
    step = world.revise(blue, allowances=Allowances(supersede=True))
    assert seen(step)[:3] == ("completed", None, 1)
    back = world.revise(red)
    assert seen(back)[2] == 0
    assert back.result is not None
    assert back.result.status in ("stopped", "not_admitted")
    paid = world.revise(red, allowances=Allowances(supersede=True))
    assert seen(paid)[:3] == ("completed", None, 1)


def test_an_item_taken_out_and_put_back_finds_its_record() -> None:
    """A record that a revision left over is still claimed by its call when that comes back."""
    body = 'return await ctx.parallel([pic(ctx, x) for x in args["xs"][:9]])'
    world = ran(script(body, PIC, {"xs": ["a", "b", "c"]}))
    for items in (["c"], ["b", "c"], ["a", "b", "c"], ["c", "a"]):
        step = world.revise(script(body, PIC, {"xs": items}))
        assert seen(step)[:4] == ("completed", None, 0, len(items))


def test_a_drop_takes_a_record_out_of_the_matching() -> None:
    """A dropped record is an orphan and serves no call, an equal one neither."""
    body = 'a = await pic(ctx, "x")\nreturn a'
    world = ran(script(body, PIC))
    moved = script('return (await ctx.run("p.make", {"p": "x"}))["t"]')
    step = world.revise(moved, allowances=Allowances(drops=("orchestrate/pic()#0 > pic/p.make#0",)))
    assert seen(step) == ("completed", None, 1, 0, 1)


@pytest.mark.parametrize(("now", "drop"), [("xy", "orchestrate/p.make#0"), ("zx", "orchestrate/p.make#1")])
def test_what_stands_where_a_record_was_dropped_is_not_dropped_by_a_resume(now: str, drop: str) -> None:
    """The dropped call is made again, or another one moves to its place: a resume has what stands there now, and no
    call has the dropped result."""
    calls = {p: f'await ctx.run("p.make", {{"p": "{p}"}})\n' for p in "xyz"}
    late = 'return (await ctx.run("r.read", {"p": "late"}))["t"]'
    world = ran(script(f"{calls['x']}{calls['y']}return 1"))
    dropped = world.history.prefix[drop].seq
    new = script(f"{calls[now[0]]}{calls[now[1]]}{late}")
    step = world.revise(new, allowances=Allowances(drops=(drop,)), faults=Faults(fails={3: "refused"}))
    assert seen(step) == ("failed", None, 2, 1, 0)
    for sent in (1, 0, 0):
        step = world.resume()
        assert seen(step)[:3] == ("completed", None, sent)
        assert dropped not in dict(step.served)


def test_a_declared_move_is_verified_by_the_payload() -> None:
    """`declared`: the named move is made if the payload is equal, and no other is."""
    old = script('return (await ctx.run("p.make", {"p": "x"}))["t"]')
    new = script('return await pic(ctx, "x")', PIC)
    moves = {"orchestrate/p.make#0": "orchestrate/pic()#0 > pic/p.make#0"}
    policy = {"relocation": "declared"}
    assert seen(revised(old, new, policy=policy))[:3] == ("not_admitted", None, 0)
    step = revised(old, new, policy=policy, allowances=Allowances(moves=moves))
    assert seen(step) == ("completed", None, 0, 1, 0)


def test_a_call_that_moved_into_a_helper_makes_room_for_a_new_one() -> None:
    """The helper has the result, and what asks for something else in its old place is new work. Should that ask for the
    same after all, the two are twins, whatever way it is written."""
    old = script('return (await ctx.run("p.make", {"p": "x"}))["t"]')

    def new(payload: str) -> str:
        return script(f'a = await pic(ctx, "x")\nb = await ctx.run("p.make", {payload})\nreturn [a, b["t"]]', PIC)

    assert seen(revised(old, new('{"p": "y"}')))[:4] == ("completed", None, 1, 1)
    twins = revised(old, new('{"p": "".join(["x"])}'))
    assert twins.result is not None
    assert (twins.result.status, twins.result.counterexamples[:1]) == ("not_admitted", ["ambiguous"])


@pytest.mark.parametrize("fails", [None, 2, 3])
def test_a_new_version_replaces_the_old_one_however_often_it_is_tried(fails: int | None) -> None:
    """The second of two calls is superseded at once, after a failure of it, or after one in front of it: in each case
    what it replaced isn't served to an equal call of a later revision."""
    old, new = (
        f'a = (await ctx.run("p.make", {{"p": "{p}1"}}))["t"]\nb = (await ctx.run("p.make", {{"p": "{p}2"}}))["t"]\n'
        for p in "xy"
    )
    world = ran(script(f"{old}return b"))
    faults = Faults(fails={} if fails is None else {fails: "provider_error"})
    step = world.revise(script(f"{new}return b"), faults=faults, allowances=Allowances(supersede=True))
    if fails is not None:
        assert seen(step)[:2] == ("failed", None)
        step = world.resume()
    assert seen(step)[:2] == ("completed", None)
    assert seen(step)[4] == 0
    superseded = [record for record in world.history.records.values() if record.superseded]
    assert [record.seq for record in superseded] == [5, 7]
    more = 'c = (await ctx.run("p.make", {"p": "x2"}))["t"]\n'
    assert seen(world.revise(script(f"{new}{more}return [b, c]"))) == ("completed", None, 1, 2, 0)


def test_a_deleted_call_is_no_new_version_of_what_took_its_number() -> None:
    """The first of two equal calls is deleted and the next one's number shifts: new versions are allowed and there is
    none, so what is left over stops it, as it does without the permission."""
    one, two, three = (f'{v} = (await ctx.run("p.make", {{"p": "{p}"}}))["t"]\n' for v, p in ("ax", "bx", "cy"))
    old, new = script(f"{one}{two}{three}return [a, b, c]"), script(f"{two}{three}return [b, c]")
    for supersede, kind in ((False, "call_changed"), (True, "removed")):
        step = revised(old, new, allowances=Allowances(supersede=supersede))
        assert seen(step)[:3] == ("not_admitted", None, 0)
        assert step.result is not None
        assert step.result.counterexamples == [kind]
    drop = Allowances(supersede=True, drops=("orchestrate/p.make#1",))
    assert seen(revised(old, new, allowances=drop)) == ("completed", None, 0, 2, 1)


def test_a_new_version_is_no_repeat_of_a_result_that_may_still_be_reached() -> None:
    """The first try failed, the second has the result; another revision puts an item in front and is stopped; then the
    first source is put back, with new versions allowed: the first try isn't sent while the second has what it wants."""
    helper = """
async def twice(ctx, call):
    for i in range(2):
        try:
            return await call()
        except CapabilityError as e:
            pass
"""
    old, new = (
        script(f"for x in {xs}:\n    await twice(ctx, lambda: ctx.run('m.send', {{'p': x}}))\nreturn 1", helper)
        for xs in (["a", "b"], ["new", "a", "b"])
    )
    world = ran(old, fails=0)
    assert seen(world.revise(new))[1:3] == ("divergence", 1)
    step = world.revise(old, allowances=Allowances(supersede=True))
    assert seen(step)[:3] == ("not_admitted", None, 0)
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]


def test_a_new_version_that_failed_replaces_nothing_when_the_payload_is_put_back() -> None:
    """The old result is used again, and nothing is paid."""
    old, new = (f'return (await ctx.run("p.make", {{"p": "{p}"}}))["t"]' for p in "xy")
    world = ran(script(old))
    faults = Faults(fails={1: "provider_error"})
    assert seen(world.revise(script(new), faults=faults, allowances=Allowances(supersede=True)))[0] == "failed"
    assert seen(world.revise(script(old))) == ("completed", None, 0, 1, 0)


# --- what the longer search found ---------------------------------------------------------------------------------


def test_what_is_written_otherwise_where_it_stood_is_kept_for_its_own_call() -> None:
    """The use of a helper is written otherwise, and an equal call is new in the helper: it isn't served the result."""
    newer = PIC.replace("    return", '    if len(p) == 1:\n        await ctx.run("p.make", {"p": "x"})\n    return')
    helper, newer = (text.replace('{"p": p}', '{"p": "x"}') for text in (PIC, newer))
    step = revised(script('return await pic(ctx, "a")', helper), script('return await pic(ctx, "b")', newer))
    assert seen(step)[:3] == ("not_admitted", None, 0)
    assert step.result is not None
    assert "ambiguous" in step.result.counterexamples


def test_a_record_is_not_kept_for_a_place_that_is_passed() -> None:
    """A fan-out is inserted in front of another, which is narrower now: it has its results, under its new number."""
    fan = 'v = await ctx.parallel([pic(ctx, "x") for x in args["xs"][:9]])\n'
    first = 'w = await ctx.parallel([ctx.run("r.read", {"p": x}) for x in ["q", "r"]])\n'
    old = script(f"{fan}return v", PIC, {"xs": [1, 2, 3]})
    new = script(f"{first}{fan}return v", PIC, {"xs": [1, 2]})
    assert seen(revised(old, new, fails=0)) == ("completed", None, 2, 2, 0)


def test_a_call_that_failed_where_it_stands_takes_no_equal_neighbours_result() -> None:
    """The first of two equal calls is deleted and what followed it written otherwise: the third had failed, and isn't
    given the result of the second."""
    old = (
        'a = (await ctx.run("p.make", {"p": "x"}))["t"]\nb = (await ctx.run("p.make", {"p": "x"}))["t"]\n'
        'c = await pic(ctx, "x")\nreturn [a, b, c]'
    )
    new = (
        'b = (await ctx.run("p.make", {"p": "x"}))["t"]\nc = await pic(ctx, "x")\n'
        'd = (await ctx.run("p.make", {"p": "y"}))["t"]\nreturn [b, c]'
    )
    step = revised(script(old, PIC), script(new, PIC), fails=2)
    assert "orchestrate/pic()#0 > pic/p.make#0" not in [identity for _, identity in step.served]


def test_new_work_where_a_moved_record_stood_is_not_absolved_by_an_equal_neighbour() -> None:
    """A copy in front, and another payload in the block behind it: which of them is the call that was paid for, the one
    that asks for something else or its neighbour, can't be told."""
    one = 'a = (await ctx.run("p.make", {"p": "x"}))["t"]\n'
    rest = 'try:\n    b = (await ctx.run("p.make", {"p": "x"}))["t"]\nexcept CapabilityError as e:\n    b = 1\n'
    rest += "return [a, b]"
    copy = 'c = (await ctx.run("p.make", {"p": "x"}))["t"]\n'
    step = revised(script(one + rest), script(copy + one + rest.replace('"x"', '"new"')))
    assert step.result is not None
    assert "ambiguous" in step.result.counterexamples
    assert not step.sent


def test_equal_calls_of_two_revisions_change_no_places_unseen() -> None:
    """The one came with a later revision; then what stands before them is wrapped, and their numbers shift."""
    first = 'a = (await ctx.run("p.make", {"p": "first"}))["t"]\n'
    twice = 'b = (await ctx.run("p.make", {"p": a}))["t"]\n'
    world = ran(script(f"{first}{twice}return [a, b]"))
    assert seen(world.revise(script(f"{first}{twice}{twice.replace('b', 'c', 1)}return [a, b, c]")))[:3] == (
        "completed",
        None,
        1,
    )
    wrapped = "if True:\n    " + first
    step = world.revise(script(f"{wrapped}{twice}{twice.replace('b', 'c', 1)}return [a, b, c]"))
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]


def test_a_copy_of_a_later_call_in_front_of_others_does_not_pay_for_the_original_again() -> None:
    """The copy has another number than the original, so it isn't the original for certain; nothing is paid."""
    one, two = (f'{name} = (await ctx.run("p.make", {{"p": "{word}"}}))["t"]\n' for name, word in ("ax", "by"))
    rest = 'd = (await ctx.run("p.make", {"p": "z"}))["t"]\nreturn [a, b, d]'
    step = revised(script(f"{one}{two}{rest}"), script(f"{two.replace('b', 'c', 1)}{one}{two}{rest}"))
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]
    assert not step.sent


def test_a_place_that_was_moved_has_room_for_its_own_record_only() -> None:
    """A call and a copy in front of it are wrapped together: seen through the move both stand where the one stood."""
    fan = 'v = await ctx.parallel([ctx.run("p.make", {"p": x}) for x in ["q"]])\n'
    call = '(await ctx.run("p.make", {"p": "x"}))["t"]'
    new = f"{fan}try:\n    b = {call}\n    a = {call}\nexcept CapabilityError as e:\n    raise e\nreturn a"
    step = revised(script(f"{fan}a = {call}\nreturn a"), script(new))
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]


def test_a_script_that_fails_leaves_what_it_did_not_come_to_reachable() -> None:
    """The first of two equal calls is extracted, and the script breaks before the second: it can't be told yet."""
    call = '(await ctx.run("p.make", {"p": "x"}))["t"]'
    old = f"a = {call}\nb = {call}\nreturn [a, b]"
    new = f'a = await pic(ctx, "x")\nargs["nothing"]["there"]\nb = {call}\nreturn [a, b]'
    step = revised(script(old), script(new, PIC))
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]


def test_one_more_call_of_a_place_takes_no_record_of_another() -> None:
    """A helper is renamed and its loop longer: the calls that are new in a fan-out don't have what a later use made."""
    helper = """
async def each(ctx):
    for i in range(2):
        await ctx.run("p.make", {"p": "x"})
    return 1
"""
    body = "v = await ctx.parallel([each(ctx), each(ctx)])\nw = await each(ctx)\nreturn [v, w]"
    new = body.replace("each", "all_of")
    step = revised(script(body, helper), script(new, helper.replace("each", "all_of").replace("range(2)", "range(3)")))
    assert step.plan is not None
    assert step.plan.plan is not None
    moves = [move for move in step.plan.plan.moves if move.new.startswith("orchestrate/parallel#0")]
    assert len(moves) == 4
    assert all(move.old.startswith("orchestrate/parallel#0") for move in moves)
    assert seen(step)[:3] == ("not_admitted", None, 0)


def test_behind_the_frontier_equal_calls_change_no_places_either() -> None:
    """Arms change places behind new work and an equal call is new: it isn't served what an arm was paid for."""
    helper = """
async def look(ctx, p):
    v = (await ctx.run("r.read", {"p": p}))["t"]
    if p == "n":
        w = (await ctx.run("p.make", {"p": v}))["t"]
    else:
        w = (await ctx.run("p.make", {"p": "x"}))["t"]
    return v
"""
    arms = (
        helper.replace('{"p": v}', '{"p": "-"}').replace('{"p": "x"}', '{"p": v}').replace('{"p": "-"}', '{"p": "x"}')
    )
    body = 'a = (await ctx.run("p.make", {"p": "x"}))["t"]\nb = await look(ctx, "m")\n'
    old = script(f"{body}return [a, b]", helper)
    new = script(f'{body}c = await pic(ctx, "x")\nreturn [a, b, c]', f"{arms}{PIC}")
    step = revised(old, new)
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]
    assert [identity for _, identity in step.served if "pic" in identity] == []


def test_a_record_that_is_found_where_it_was_expected_stops_nothing() -> None:
    """New work stands in front; the call behind it has the only number that it can have, and its result, though an
    equal one is still to come."""
    body = 'a = (await ctx.run("s.act", {"p": "x"}))["t"]\nb = await act(ctx, "x")\nreturn [a, b]'
    helper = PIC.replace("pic", "act").replace("p.make", "s.act")
    new = '(await ctx.run("s.act", {"p": "new"}))["t"]\n' + body
    assert seen(revised(script(body, helper), script(new, helper))) == ("completed", None, 1, 2, 0)


def test_a_read_whose_way_is_written_otherwise_is_kept_by_the_plan_as_a_call_is() -> None:
    """A use has another argument: what it read and what it called are both bound as the revision starts, and what the
    plan shows is all that is written."""
    helper = 'async def stamp(ctx, p):\n    at = await ctx.now()\n    await ctx.run("s.act", {"p": "x"})\n    return at'
    world = ran(script('return await stamp(ctx, "a")', helper))
    before = world.history.seq
    step = world.revise(script('return await stamp(ctx, "b")', helper))
    assert seen(step) == ("completed", None, 0, 1, 0)
    assert step.plan is not None
    assert step.plan.plan is not None
    entries = list(world.store.entries(RUN, after=before))
    bound = [(entry.body["record"], entry.body["identity"]) for entry in entries if entry.kind == "rebind"]
    assert sorted(bound) == sorted(step.plan.plan.bindings)
    assert [entry.kind for entry in entries] == ["revision", "rebind", "rebind", "drive", "end"]


def test_losers_of_a_race_claim_after_the_race() -> None:
    """A branch is taken out of a race and put back: what the losers claim comes after what the winner had, so that they
    get no further in the revision, or a replay of it, than in the plan."""
    helpers = """
async def each(ctx):
    for x in ["a", "b", "c"]:
        v = (await ctx.run("p.make", {"p": "x"}))["t"]
    return v

async def other(ctx):
    return await each(ctx)
"""
    both, one = (script(f"return await ctx.race([{b}])", helpers) for b in ("each(ctx), other(ctx)", "other(ctx)"))
    for schedule in range(8):
        world = ran(both, schedule=schedule)
        for text in (one, both):
            before = world.history
            step = world.revise(text, allowances=Allowances(supersede=True))
            assert seen(step)[:3] == ("completed", None, 0)
            assert oracle.moves_kept(oracle.Facts(world, step, before, world.history)) == []
            assert world.resume().handed == step.handed


def test_a_moved_call_takes_no_result_of_one_that_stands_there_with_another_payload() -> None:
    """A call moves behind a use of a helper that takes a function, and that use asks for something else: two results
    are left, one that came the same way and one with the same number. Behind new work it stops."""
    helper = "async def once(ctx, call):\n    return await call()"
    call = 'a = (await ctx.run("i.put", {"p": "x"}))["t"]\n'
    use = 'b = (await once(ctx, lambda: ctx.run("i.put", {"p": "x"})))["t"]\n'
    old, new = (script(f"{body}return [a, b]", helper) for body in (call + use, use.replace('"x"', '"y"') + call))
    step = revised(old, new, allowances=Allowances(supersede=True))
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]
    assert not step.served


def test_a_copy_beside_a_call_that_a_block_was_put_around_is_a_twin() -> None:
    """The block outside had a call of that number, written otherwise: the copy is none that was made always."""
    call = 'a = (await ctx.run("p.make", {"p": "x"}))["t"]'
    last = 'b = (await ctx.run("p.make", {"p": a}))["t"]\nreturn [a, b]'
    old = script(f"{call}\n{last}")
    step = revised(old, script(f"if True:\n    c{call[1:]}\n    {call}\n{last}"))
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]
    assert not step.sent
    assert seen(revised(old, script(f"if True:\n    {call}\n{last}"))) == ("completed", None, 0, 2, 0)


def test_in_a_block_that_was_put_around_each_call_is_the_one_that_is_written_like_it() -> None:
    """Its number was another call's in the block outside: the call that was always there, and isn't made yet, is no
    twin of the other's moved record."""
    old = """
async def two(ctx, p):
    a = (await ctx.run("p.make", {"p": p}))["t"]
    b = (await ctx.run("p.make", {"p": "x"}))["t"]
    return a + b
"""
    new = old.replace("    b = (", "    if True:\n        b = (")
    body = 'for p in ["u", "v"]:\n    a = await two(ctx, p)\nreturn a'
    assert seen(revised(script(body, old), script(body, new), fails=3)) == ("completed", None, 1, 3, 0)


def test_a_branch_that_is_left_out_is_no_new_calls_where_a_loop_comes_to_its_place_again() -> None:
    """A fan-out in a loop gets narrower, and an equal call stands behind it: the next iteration is to have the result,
    and nobody knows which of the two it is."""
    helper = """
async def some(ctx):
    v = await ctx.parallel([ctx.run("p.make", {"p": "x"}) for i in range(3)])
    return len(v)
"""
    new = helper.replace("range(3)", "range(2)").replace(
        "    return", '    w = await ctx.run("p.make", {"p": "x"})\n    return'
    )
    body = 'for i in range(2):\n    a = await ctx.run("r.read", {"p": f"{i}"})\n    b = await some(ctx)\nreturn b'
    step = revised(script(body, helper), script(body, new), fails=4)
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]
    assert not step.sent
    once = "b = await some(ctx)\nreturn b"
    assert seen(revised(script(once, helper), script(once, new))) == ("completed", None, 0, 3, 0)


@pytest.mark.parametrize("renamed", [False, True])
def test_a_fan_out_with_other_branches_keeps_its_results_from_a_call_in_front(renamed: bool) -> None:
    """Its branches change their order, or their function its name; an equal call in front is new to the source, and
    might be one of them."""
    fan = 'b = await ctx.parallel([pic(ctx, "x"), pic(ctx, "x"), other(ctx)])\nreturn b'
    other = PIC + '\nasync def other(ctx):\n    return (await ctx.run("r.read", {"p": "o"}))["t"]\n'
    front = 'a = (await once(ctx, lambda: ctx.run("p.make", {"p": "x"})))["t"]\n'
    helpers = other + "\nasync def once(ctx, call):\n    return await call()\n"
    if renamed:
        new = script(front + fan.replace("pic(", "image("), helpers.replace("pic(", "image("))
    else:
        moved = fan.replace(", other(ctx)]", "]").replace("parallel([", "parallel([other(ctx), ")
        new = script(front + moved, helpers)
    step = revised(script(fan, other), new)
    assert step.result is not None
    assert "ambiguous" in step.result.counterexamples
    assert not step.sent


def test_fan_outs_that_change_places_do_not_share_their_results_out_anew() -> None:
    """One of two branches, one of one, and their helper is written otherwise inside: as if a branch went from the one
    to the other. Nobody can tell."""
    deep = """
async def deep(ctx, p):
    return (await ctx.run("p.make", {"p": p}))["t"]

async def pic(ctx, p):
    return await deep(ctx, p)
"""
    one, two = 'await ctx.parallel([pic(ctx, "x")])', 'await ctx.parallel([pic(ctx, "x"), pic(ctx, "x")])'
    old = script(f"a = {two}\nb = {one}\nreturn [a, b]", PIC)
    step = revised(old, script(f"b = {one}\na = {two}\nreturn [a, b]", deep))
    assert step.result is not None
    assert step.result.counterexamples == ["ambiguous"]
    assert not step.sent
    assert seen(revised(old, script(f"a = {two}\nb = {one}\nreturn [a, b]", deep))) == ("completed", None, 0, 3, 0)


def test_branches_whose_function_was_renamed_are_expected_behind_new_work() -> None:
    """Their fan-out is written otherwise by that alone: it is the one that it was."""
    fan = 'v = await ctx.parallel([pic(ctx, "x"), pic(ctx, "y")])\nreturn v'
    front = 'a = (await ctx.run("r.read", {"p": "new"}))["t"]\n'
    new = script(front + fan.replace("pic(", "image("), PIC.replace("pic(", "image("))
    assert seen(revised(script(fan, PIC), new)) == ("completed", None, 1, 2, 0)


def test_what_is_made_behind_new_work_where_a_moved_record_stood_is_looked_at_before_it_is_sent() -> None:
    """A record went to a call that is new, while an equal one is in use; what stands where it stood is known only
    behind the frontier. A run that went on would be stopped in each replay."""
    use = """
async def use(ctx):
    a = (await ctx.run("p.make", {"p": "x"}))["t"]
    return a
"""
    new = use.replace("    return a", '    b = await again(ctx, lambda: ctx.run("p.make", {"p": "x"}))\n    return a')
    again = "\nasync def again(ctx, call):\n    return await call()\n"
    rest = 'd = (await ctx.run("p.make", {"p": c}))["t"]\nreturn [a, c, d]'
    body = 'a = await use(ctx)\nc = (await ctx.run("{}", {{"p": "x"}}))["t"]\n' + rest.replace("{", "{{").replace(
        "}", "}}"
    )
    step = revised(script(body.format("p.make"), use), script(body.format("i.put"), new + again))
    assert seen(step)[:3] == ("stopped", "divergence", 1)
    assert [sent.capability for sent in step.sent] == ["i.put"]


# --- an edit that changes nothing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", range(6))
def test_what_a_races_loser_asked_for_has_its_result_though_an_equal_call_comes_later(schedule: int) -> None:
    """A try is put around the call of a helper: what a race's loser asked for is expected where the call stands now, so
    that it needn't wait until nothing equal can come, when the race is over and it never gets there."""
    helper = """
async def pic(ctx, p):
    r = await ctx.run("p.make", {"p": p})
    return r["t"]

async def lose(ctx):
    await pic(ctx, "first")
    await pic(ctx, "same")
    return await ctx.run("s.act", {"p": "last"})
"""
    tried = helper.replace(
        '    r = await ctx.run("p.make", {"p": p})',
        '    try:\n        r = await ctx.run("p.make", {"p": p})\n    except CapabilityError as e:\n        raise e',
    )
    body = """
a = await ctx.race([pic(ctx, "win"), lose(ctx)])
b = await pic(ctx, "same")
return [a, b]
"""
    world = ran(script(body, helper), schedule=schedule)
    paid = len(world.provider.sent)
    step = world.revise(script(body, tried), schedule=schedule)
    assert step.result is not None
    assert (step.result.status, len(step.sent), step.result.orphans) == ("completed", 0, 0)
    assert len(world.provider.sent) == paid


@pytest.mark.parametrize("schedule", range(6))
def test_a_loop_around_what_a_races_loser_asked_for_leaves_nothing_over(schedule: int) -> None:
    """The race is over before the loser could go on: its call has the result where that was expected."""
    helper = """
async def lose(ctx, p):
    a = (await ctx.run("r.read", {"p": "a"}))["t"]
    b = (await ctx.run("r.read", {"p": p}))["t"]
    return a + b

async def win(ctx):
    return (await ctx.run("r.read", {"p": "c"}))["t"]
"""
    around = helper.replace("    a = (", "    for i in range(1):\n        a = (")
    body = 'return await ctx.race([lose(ctx, "b"), win(ctx)])'
    world = ran(script(body, helper), schedule=schedule)
    step = world.revise(script(body, around), schedule=schedule)
    assert step.result is not None
    assert (step.result.status, len(step.sent), step.result.orphans) == ("completed", 0, 0)
    assert world.resume().handed == step.handed


def test_a_race_in_a_new_loop_keeps_its_winner_though_another_race_stands_where_it_stood() -> None:
    """The winner's record stands at the race itself, in no branch of it: it isn't expected by one either."""
    race = "w = await ctx.race([one(ctx), two(ctx)])"
    body = f"for k in range(1):\n    {race}\nx = await ctx.race([three(ctx), three(ctx)])\nreturn w"
    helpers = "\n".join(
        f'async def {name}(ctx):\n    return (await ctx.run("p.make", {{"p": "{name}"}}))["t"]\n'
        for name in ("one", "two", "three")
    )
    step = revised(script(f"{race}\nreturn w", helpers), script(body, helpers))
    assert seen(step) == ("completed", None, 2, 1, 0)


def test_a_plan_shows_a_new_call_that_races_with_a_sleep() -> None:
    """Nobody knows which of the two wins: the call is sent, so it is in the plan, and what stands behind is not."""
    helpers = f"{PIC}\nasync def nap(ctx):\n    await ctx.sleep(60)\n    return 'late'"
    first = 'a = await pic(ctx, "x")\n'
    race = 'b = await ctx.race([pic(ctx, "y"), nap(ctx)])\n'
    step = revised(script(f"{first}return a", helpers), script(f"{first}{race}return await pic(ctx, b)", helpers))
    assert step.result is not None
    assert step.result.status == "completed"
    assert step.plan is not None
    assert step.plan.plan is not None
    assert [call.identity for call in step.plan.plan.frontier] == ["orchestrate/race#0[0] > pic/p.make#0"]
    assert len(step.sent) == 2
    asleep = script(f'{first}await ctx.sleep(60)\nreturn await pic(ctx, "x")', helpers)
    step = revised(script(f"{first}return a", helpers), asleep)
    assert step.plan is not None
    assert step.plan.plan is not None
    assert [call.identity for call in step.plan.plan.frontier] == ["orchestrate/pic()#1 > pic/p.make#0"]


def test_what_a_call_behind_the_frontier_may_still_have_is_no_orphan_yet() -> None:
    """A branch is taken out of a fan-out, and a call behind new work has the result: the plan can't know, and
    says that the record may be left over, not that it is."""
    old = script('return await ctx.parallel([pic(ctx, x) for x in ["a", "b"]])', PIC)
    body = 'v = await ctx.parallel([pic(ctx, x) for x in ["a"]])\nn = await pic(ctx, "new")\n'
    step = revised(old, script(f'{body}return (await ctx.run("p.make", {{"p": "b"}}))["t"]', PIC))
    assert seen(step) == ("completed", None, 1, 2, 0)
    assert step.plan is not None
    assert step.plan.plan is not None
    verdict = step.plan.plan.verdict
    assert ([record.seq for record in verdict.possible], verdict.orphans) == ([7], [])


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_the_only_iteration_of_a_new_loop_is_no_branch(fails: int) -> None:
    """A loop is put around a fan-out of equal calls whose last branch failed and was handled: it has its failure again,
    and not the second result of the first branch, whose number is that of the loop's iteration."""
    helper = """
async def two(ctx, p):
    v = [await ctx.run("p.make", {"p": "same"}) for i in range(2)]
    return await ctx.run("r.read", {"p": p})
"""
    fan = 'v = await ctx.parallel([two(ctx, "a"), two(ctx, "b"), two(ctx, "c")], return_errors=True)'
    rest = '\nawait ctx.run("s.act", {"p": "end"})\nreturn 1'
    step = ran(script(fan + rest, helper), fails=fails).revise(script(f"for i in range(1):\n    {fan}{rest}", helper))
    assert step.result is not None
    assert (step.result.status, len(step.sent), step.result.orphans) == ("completed", 0, 0)


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_a_call_that_failed_and_was_moved_leaves_an_equal_result_to_the_one_it_is_of(fails: int) -> None:
    """A loop is put around a fan-out of loops of equal calls, one of which failed and is tried again: it takes no other
    branch's result, so that each branch goes on from where it was."""
    helper = """
async def three(ctx, p):
    for i in range(3):
        await ctx.run("m.send", {"p": "same"})
    return await ctx.run("i.put", {"p": p})
"""
    fan = 'v = await ctx.parallel([three(ctx, "a"), three(ctx, "b"), three(ctx, "c")])'
    other = '\nw = await ctx.parallel([three(ctx, p) for p in ["d", "e"]])\nreturn 1'
    world = ran(script(f"for i in range(1):\n    {fan}{other}", helper), fails=fails)
    paid = world.history.committed
    step = world.revise(script(f"for i in range(1):\n    for j in range(1):\n        {fan}{other}", helper))
    assert step.result is not None
    assert (step.result.status, step.result.replayed, step.result.orphans) == ("completed", paid, 0)
    assert len(step.sent) == 20 - paid


def test_the_number_of_another_call_makes_no_repeat() -> None:
    """A helper is inlined, and its two equal calls have the number of a call that asks for something else: what an
    equal call elsewhere paid for is no reason to refuse them, as at a place with a new number."""
    helper = """
async def two(ctx, p):
    for i in range(1):
        await ctx.run("m.send", {"p": p})
    v = [await ctx.run("m.send", {"p": "same"}) for i in range(2)]
    return "".join([r["t"] for r in v])
"""
    first = 'a = await ctx.parallel([two(ctx, p) for p in ["x", "y"]])\n'
    rest = '\nreturn (await ctx.run("m.send", {"p": b}))["t"]'
    old = script(f"{first}b = await two(ctx, a[0]){rest}", helper)
    inlined = """for i in range(1):
    await ctx.run("m.send", {"p": a[0]})
v = [await ctx.run("m.send", {"p": "same"}) for i in range(2)]
b = "".join([r["t"] for r in v])"""
    step = ran(old, fails=5).revise(script(f"{first}{inlined}{rest}", helper))
    assert step.result is not None
    assert (step.result.status, step.result.orphans) == ("completed", 0)
    assert step.result.repeats == 1


def test_an_intact_place_that_was_passed_counts_as_one_that_may_be_reached() -> None:
    """A helper is inlined, and its fan-out has the number of the next one, which is written alike. The call that the
    record stood for is left out there, and the next fan-out has another number: the stop is one too many (ADR 8), and
    comes before anything is paid."""
    helper = """
async def maybe(ctx, p):
    if p == "b":
        await ctx.run("p.make", {"p": p})

async def every(ctx):
    await ctx.parallel([maybe(ctx, p) for p in ["a"]])
"""
    one, two = (f'await ctx.parallel([maybe(ctx, p) for p in ["{word}"]])\n' for word in "ab")
    step = revised(script(f"await every(ctx)\n{two}return 1", helper), script(f"{one}{two}return 1", helper))
    assert step.result is not None
    assert seen(step) == ("not_admitted", None, 0, 0, 0)
    assert step.result.counterexamples == ["ambiguous"]


# --- a failure that nobody came to try again -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["loses", "renamed"])
@pytest.mark.parametrize("schedule", range(6))
def test_a_failure_that_lost_its_race_before_it_was_tried_again_is_not_handed_over(schedule: int, name: str) -> None:
    """The other branch asks for less, so that the race is over before the failed call is sent again: the script had no
    answer to it, and has none in a replay, where the failure would come before the race's winner. So it is where the
    failed call was moved."""
    helpers = f"""{PIC}
async def loses(ctx):
    try:
        await ctx.run("s.act", {{"p": "x"}})
    except CapabilityError as e:
        ctx.log("failed")
        raise e

async def wins(ctx):
    a = await pic(ctx, "a")
    for p in ["b"]:
        a = await pic(ctx, p)
    return a
"""
    body = 'w = await ctx.race([loses(ctx), wins(ctx)])\nreturn await pic(ctx, "end")'
    world = World()
    faults = Faults(where=lambda request: "" if request.payload == {"p": "a"} else "refused")
    world.run(script(body, helpers), schedule=schedule, faults=faults)
    assert len(world.history.open_failures) == 2
    less = script(body.replace("loses", name), helpers.replace('["b"]', "[]").replace("loses", name))
    step = world.revise(less, schedule=schedule)
    assert seen(step) == ("completed", None, 1, 1, 0)
    for _ in range(2):
        again = world.resume()
        assert seen(again) == ("completed", None, 0, 2, 0)
        assert (again.handed, again.logs) == (step.handed, step.logs)


def test_a_failure_that_an_attempt_did_not_come_to_is_tried_again_by_the_next() -> None:
    """A revision fails at a new call in front: the failure behind it has had no other try, and is still open."""
    old = 'return await pic(ctx, "x")'
    world = ran(script(old, PIC), fails=0)
    new = script(f'await ctx.run("r.read", {{"p": "new"}})\n{old}', PIC)
    assert seen(world.revise(new, faults=Faults(fails={1: "timeout"}))) == ("failed", None, 1, 0, 0)
    assert seen(world.resume()) == ("completed", None, 2, 0, 0)


# --- dags, recursion, nested fan-outs ------------------------------------------------------------------------------


def test_renamed_nodes_of_a_dag_keep_their_results() -> None:
    """A node's name is part of the path; the payload finds its record under another name."""
    dag = 'd = await ctx.dag({"a": (lambda: pic(ctx, "x"), []), "b": (lambda v: pic(ctx, v), ["a"])})\nreturn d["b"]'
    other = dag.replace('"a"', '"first"').replace('"b"', '"second"')
    assert seen(revised(script(dag, PIC), script(other, PIC))) == ("completed", None, 0, 2, 0)


def test_recursion_replays_and_grows() -> None:
    """Each depth is a path of its own; a deeper recursion pays for the new depth."""
    helper = """
async def down(ctx, n):
    if n >= 3:
        return ""
    t = (await ctx.run("p.make", {"p": f"level {n}"}))["t"]
    return t + await down(ctx, n + 1)
"""
    world = ran(script("return await down(ctx, 0)", helper))
    assert not world.resume().sent
    step = world.revise(script("return await down(ctx, 0)", helper.replace("n >= 3", "n >= 4")))
    assert seen(step) == ("completed", None, 1, 3, 0)
    assert world.provider.sent[-1].payload == '{"p": "level 3"}'


def test_nested_fan_outs_with_equal_payloads_replay_under_any_schedule() -> None:
    """Four equal calls in two fan-outs: each has its own result, whatever order they were answered in."""
    helpers = PIC + '\nasync def pair(ctx):\n    return "+".join(await ctx.parallel([pic(ctx, "x"), pic(ctx, "x")]))\n'
    body = "return await ctx.parallel([pair(ctx), pair(ctx)])"
    for schedule in range(6):
        world = ran(script(body, helpers), schedule=schedule)
        again = world.resume(schedule=schedule + 1)
        assert again.result is not None
        assert world.steps[0].result is not None
        assert again.result.result == world.steps[0].result.result
        assert not again.sent


def test_a_retry_helper_keeps_its_occurrences_when_it_is_renamed() -> None:
    """The failed first try is a failure again, the second one's result is used, under the helper's new name."""
    helper = """
async def with_retry(ctx, call):
    last = None
    for attempt in range(2):
        try:
            return await call()
        except CapabilityError as e:
            last = e
    raise last
"""
    body = 'r = await with_retry(ctx, lambda: ctx.run("p.make", {"p": "x"}))\n'
    body += 'return [r["t"], (await ctx.run("r.read", {"p": "y"}))["t"]]'
    world = ran(script(body, helper), fails=0)
    step = world.revise(script(body.replace("with_retry", "again"), helper.replace("with_retry", "again")))
    assert seen(step) == ("completed", None, 0, 3, 0)


def test_the_other_arm_is_new_work_and_the_first_one_an_orphan() -> None:
    """A condition that is turned round: the arm that is taken now was never paid for."""
    old = 'if args["x"]:\n    a = await pic(ctx, "one")\nelse:\n    a = await pic(ctx, "two")\nreturn a'
    step = revised(script(old, PIC, {"x": True}), script(old, PIC, {"x": False}))
    assert seen(step) == ("completed", None, 1, 0, 1)


def test_what_a_fan_out_in_front_left_without_identity_goes_where_its_sibling_went() -> None:
    """Both results of the last fan-out lose their identity to the new one before they are asked for again."""
    helpers = """
async def first(ctx, p):
    return (await ctx.run("s.act", {"first": p}))["t"]

async def last(ctx, p):
    return (await ctx.run("s.act", {"p": p}))["t"]
"""
    chain = 'await ctx.pipeline(["b", "c"], lambda w, item, i: first(ctx, w), lambda w, item, i: last(ctx, w))\n'
    end = 'return await ctx.pipeline(["a", "a"], lambda w, item, i: last(ctx, w))'
    for schedule in range(6):
        world = ran(script(end, helpers), schedule=schedule)
        world.revise(script(chain + end, helpers), schedule=schedule)
        step = world.revise(script(2 * chain + end, helpers), schedule=schedule)
        assert seen(step)[:2] == ("completed", None)
        assert [sent.payload for sent in step.sent if sent.payload == '{"p": "a"}'] == []
        assert Counter(sent.payload for sent in world.provider.sent)['{"p": "a"}'] == 2


@pytest.mark.parametrize(
    "shape",
    [
        'await ctx.parallel([ctx.run("s.act", {"p": k}) for k in KEYS])\n',
        'for k in KEYS:\n    await ctx.run("s.act", {"p": k})\n',
    ],
)
def test_a_merge_that_is_taken_back_pays_for_nothing_again(shape: str) -> None:
    """What moved into further branches or iterations comes back to where it was made (docs/adr/0060)."""
    first, second, both = (shape.replace("KEYS", str(keys)) for keys in (["a", "b"], ["c", "d"], ["a", "b", "c", "d"]))
    world = ran(script(first + second + "return 1"))
    merged = world.revise(script(both + "return 1"))
    assert seen(merged)[:3] == ("completed", None, 0)
    back = world.revise(script(first + second + "return 1"))
    assert seen(back) == ("completed", None, 0, 4, 0)


def test_a_race_whose_branches_change_places_behind_new_work_has_one_winner() -> None:
    """When its winner is asked for, only some branches have their records: the old number is another branch's."""
    mk = 'async def mk(ctx, p):\n    return (await ctx.run("p.make", {"p": p}))["t"]\n'
    new = 'await ctx.run("s.act", {"n": 1})\n'
    for schedule in range(8):
        for after in ("xxy", "yxx"):
            old, now = (", ".join(f'mk(ctx, "{p}")' for p in order) for order in ("xyx", after))
            world = ran(script(f"return await ctx.race([{old}])", mk), schedule=schedule)
            step = world.revise(script(f"{new}return await ctx.race([{now}])", mk), schedule=schedule)
            again = world.resume(schedule=schedule + 1)
            assert step.result is not None
            assert again.result is not None
            assert again.result.result == step.result.result
            assert not again.sent
