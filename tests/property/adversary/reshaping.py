"""Edits that give a part of a model another shape: loops and fan-outs, helpers with more than one use, calls that are
caught, reads in another order. See `adversary.edits`.

`share` and `unshare` keep what every call is for, with the same payload, in the same order. The others keep what a call
is for, but not the order, or what happens after a failure.
"""

from __future__ import annotations

import random
from itertools import pairwise

from adversary.edits import Edit, all_of, extract, uses_nested, wrap
from adversary.programs import (
    Assign,
    Branch,
    Call,
    Fan,
    For,
    Helper,
    If,
    Lit,
    Maker,
    Model,
    Read,
    Ref,
    Stmt,
    Try,
    Use,
    blocks,
    expressions,
    refs,
)


def share(model: Model, chance: random.Random) -> bool:
    """Let two calls of one capability be made by one helper, which is used in both places."""
    found = [
        (block, number)
        for block, number in all_of(model, Call)
        if block[number].retry is None and not block[number].times
    ]
    chance.shuffle(found)
    for first, second in pairwise(found):
        calls = [block[number] for block, number in (first, second)]
        if (calls[0].cap, calls[0].take) != (calls[1].cap, calls[1].take):
            continue
        param, var, name = model.new(), model.new(), model.new()
        call = Call((), calls[0].cap, Ref(param), var, calls[0].take)
        # Callees come first, so that the helpers stay in an order that `valid` takes.
        model.helpers = {name: Helper(f"both_{name}", [param], [call], Ref(var)), **model.helpers}
        for block, number in (first, second):
            old = block[number]
            block[number] = Use(old.trail, name, [old.expr], old.var)
        return True
    return False


def unshare(model: Model, chance: random.Random) -> bool:
    """Give one use of a helper a copy of it."""
    found = all_of(model, Use)
    if not found:
        return False
    block, number = chance.choice(found)
    use, name = block[number], model.new()
    copy = model.copy().helpers[use.helper]
    copy.name = f"only_{name}"
    items = list(model.helpers.items())
    at = next(at for at, (other, _) in enumerate(items) if other == use.helper)
    items.insert(at + 1, (name, copy))
    model.helpers = dict(items)
    use.helper = name
    return True


def fan_out(model: Model, chance: random.Random) -> bool:
    """Turn a loop into a fan-out, if nothing in it comes from outside but the item."""
    found = []
    for block, number in all_of(model, For):
        loop = block[number]
        if loop.trail and _free(loop.body) <= {loop.item}:
            found.append((block, number))
    if not found:
        return False
    block, number = chance.choice(found)
    loop, name = block[number], model.new()
    model.helpers[name] = Helper(
        f"each_{name}", [loop.item], loop.body, Ref(loop.item), nested=uses_nested(model, loop.body)
    )
    method = chance.choice(["map", "map", "pipeline"])
    block[number] = Fan(loop.trail, method, model.new(), loop.items, helper=name, stages=[name])
    return True


def loop_over(model: Model, chance: random.Random) -> bool:
    """Turn a fan-out over items into a loop, if nobody uses what it returns."""
    used = {var for statement in model.statements() for expr in expressions(statement) for var in refs(expr)}
    used |= {var for helper in model.helpers.values() for var in refs(helper.ret)}
    found = []
    for block, number in all_of(model, Fan):
        fan = block[number]
        if fan.var not in used and (fan.method == "map" or (fan.method == "pipeline" and len(fan.stages) == 1)):
            found.append((block, number))
    if not found:
        return False
    block, number = chance.choice(found)
    fan, item = block[number], model.new()
    helper = fan.helper if fan.method == "map" else fan.stages[0]
    block[number] = For(fan.trail, fan.items, item, [Use((), helper, [Ref(item)], model.new())])
    model.ret = [var for var in model.ret if var != fan.var]
    return True


def _free(body: list[Stmt]) -> set[int]:
    """Return the variables that statements use and don't set."""
    named = {var for block in blocks(body) for s in block for expr in expressions(s) for var in refs(expr)}
    made = {s.var for block in blocks(body) for s in block if hasattr(s, "var")}
    made |= {s.item for block in blocks(body) for s in block if isinstance(s, For)}
    return named - made


def split_loop(model: Model, chance: random.Random) -> bool:
    """Make two loops of one: each has a part of its statements."""
    found = [(b, n) for b, n in all_of(model, For) if b[n].trail and len(b[n].body) > 1]
    if not found:
        return False
    block, number = chance.choice(found)
    loop = block[number]
    other = Model(body=[loop]).copy().body[0]
    assert isinstance(other, For)
    if other.items.name:
        other.items.name = f"xs{model.new()}"
    at = chance.randint(1, len(loop.body) - 1)
    other.body, loop.body = other.body[at:], loop.body[:at]
    block.insert(number + 1, other)
    return True


def catch(model: Model, chance: random.Random) -> bool:
    """Catch what a statement raises, and go on with something else in its place."""
    found = all_of(model, Call, Use, Fan)
    if not found:
        return False
    block, number = chance.choice(found)
    statement = block[number]
    block[number] = Try([statement], [Assign(statement.var, Lit("!"))])
    return True


def uncatch(model: Model, chance: random.Random) -> bool:
    """Let what was caught be raised."""
    found = [(block, number) for block, number in all_of(model, Try) if block[number].handler is not None]
    if not found:
        return False
    block, number = chance.choice(found)
    block[number : number + 1] = block[number].body
    return True


def move_read(model: Model, chance: random.Random) -> bool:
    """Move a recorded read across what stands beside it, or into another block."""
    found = all_of(model, Read)
    if not found:
        return False
    block, number = chance.choice(found)
    read = block.pop(number)
    other = block if chance.random() < 0.7 else chance.choice(list(model.blocks()))
    other.insert(chance.randint(0, len(other)), read)
    return True


def insert_read(model: Model, chance: random.Random) -> bool:
    """Read a clock or a number where nothing was read, and use it in no call."""
    block = chance.choice(list(model.blocks()))
    read = Read((model.new(),), chance.choice(["now", "random", "uuid", "sleep"]), model.new())
    block.insert(chance.randint(0, len(block)), read)
    return True


def change_method(model: Model, chance: random.Random) -> bool:
    """Run written branches by another kind of fan-out."""
    found = [s for s in model.statements() if isinstance(s, Fan) and s.branches]
    if not found:
        return False
    fan = chance.choice(found)
    fan.method = chance.choice([m for m in ("parallel", "dag", "race") if m != fan.method])
    fan.chained = chance.random() < 0.5
    return True


def duplicate_fan(model: Model, chance: random.Random) -> bool:
    """Write a fan-out once more: new work with equal payloads."""
    found = all_of(model, Fan)
    if not found:
        return False
    block, number = chance.choice(found)
    twin = Model(body=[block[number]]).copy().body[0]
    assert isinstance(twin, Fan)
    twin.trail, twin.var = (model.new(),), model.new()
    if twin.items is not None and twin.items.name:
        twin.items.name = f"xs{model.new()}"
    twin.branches = [Branch((model.new(),), b.helper, b.args) for b in twin.branches]
    block.insert(chance.randint(number, number + 1), twin)
    return True


# --- as models repair scripts -------------------------------------------------------------------------------------


def try_again(model: Model, chance: random.Random) -> bool:
    """Put a loop around statements that tries them once more when they fail."""
    return wrap(model, chance, lambda body: Try(body, None, again=True))


def prepare(model: Model, chance: random.Random) -> bool:
    """Let a helper make a call, behind new work that prepares it."""
    found = all_of(model, Call, Use, Fan)
    if not found or not extract(model, chance):
        return False
    helper = list(model.helpers.values())[-1]
    made = Maker(chance, model=model).make_call(list(helper.params), 0, False)
    helper.body.insert(0, made if chance.random() < 0.5 else If(helper.params[0] if helper.params else None, [made]))
    return True


def copy_and_change(model: Model, chance: random.Random) -> bool:
    """Give one use of a helper a copy of it, and change the copy, or the helper."""
    before = set(model.helpers)
    if not unshare(model, chance):
        return False
    copy = next(number for number in model.helpers if number not in before)
    at = list(model.helpers).index(copy)
    helper = model.helpers[copy] if chance.random() < 0.5 else list(model.helpers.values())[at - 1]
    block = chance.choice(list(blocks(helper.body)))
    number = chance.randint(0, len(block))
    if block and chance.random() < 0.4:
        del block[min(number, len(block) - 1)]
    else:
        block.insert(number, Maker(chance, model=model).make_call(list(helper.params), 0, False))
    return True


REPAIRING: tuple[Edit, ...] = (try_again, prepare, copy_and_change)
RESHAPING: tuple[Edit, ...] = (
    share,
    unshare,
    fan_out,
    loop_over,
    split_loop,
    catch,
    uncatch,
    move_read,
    insert_read,
    change_method,
    duplicate_fan,
)
