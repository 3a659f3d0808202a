"""Edits of a model, as people and models make them. Each returns whether it found something to change.

`PRESERVING` edits leave every call what it was for, with the same payload, in the same order. `CHANGING` ones don't.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

from adversary.programs import (
    CAPABILITIES,
    Assign,
    Branch,
    Call,
    Cat,
    Expr,
    Fan,
    For,
    Helper,
    If,
    Items,
    Lit,
    Maker,
    Model,
    Read,
    Ref,
    Say,
    Stmt,
    Trail,
    Try,
    Use,
    blocks,
    expressions,
    inside,
    lits,
    refs,
    used,
    valid,
)

Edit: TypeAlias = Callable[[Model, random.Random], bool]

PURE = (
    "z = 1",
    "if args: z = 2",
    "for z in [1, 2]: pass",
    "try:\n{0}    z = 1\n{0}except KeyError: z = 2",
    'ctx.log("new line")',
)


def _pick(chance: random.Random, found: list) -> object | None:
    return chance.choice(found) if found else None


def all_of(model: Model, *kinds: type) -> list[tuple[list[Any], int]]:
    """Return every statement of some kinds, as the list that it is in and its number there."""
    return [
        (block, number)
        for block in model.blocks()
        for number, statement in enumerate(block)
        if not kinds or isinstance(statement, kinds)
    ]


# --- meaning stays ------------------------------------------------------------------------------------------------


def rename_variable(model: Model, chance: random.Random) -> bool:
    """Rename one variable everywhere."""
    found = [s.var for s in model.statements() if hasattr(s, "var")]
    found += [var for helper in model.helpers.values() for var in helper.params]
    if not found:
        return False
    model.names[chance.choice(found)] = f"renamed_{model.new()}"
    return True


def rename_helper(model: Model, chance: random.Random) -> bool:
    """Rename one function."""
    if not model.helpers:
        return False
    model.helpers[chance.choice(list(model.helpers))].name = f"f{model.new()}"
    return True


def reformat(model: Model, chance: random.Random) -> bool:
    """Write it otherwise: other quotes, comments."""
    model.style = chance.choice([style for style in (0, 1, 2) if style != model.style])
    return True


def move_function(model: Model, chance: random.Random) -> bool:
    """Move a helper into `orchestrate`, or out of it."""
    number = _pick(chance, list(model.helpers))
    if number is None:
        return False
    helper = model.helpers[number]
    helper.nested = not helper.nested
    return True


def reorder_functions(model: Model, chance: random.Random) -> bool:
    """Write the helpers in another order."""
    if len(model.helpers) < 2:
        return False
    items = list(model.helpers.items())
    chance.shuffle(items)
    model.helpers = dict(items)
    return True


def insert_pure(model: Model, chance: random.Random) -> bool:
    """Insert a statement without a call."""
    block = chance.choice(list(model.blocks()))
    block.insert(chance.randint(0, len(block)), Say(chance.choice(PURE[:3] + PURE[4:])))
    return True


def wrap(model: Model, chance: random.Random, wrapper: Callable[[list[Stmt]], Stmt]) -> bool:
    """Wrap a few statements in another one."""
    block = chance.choice(list(model.blocks()))
    if not block:
        return False
    start = chance.randrange(len(block))
    end = chance.randint(start + 1, min(len(block), start + 2))
    block[start:end] = [wrapper(block[start:end])]
    return True


def wrap_try(model: Model, chance: random.Random) -> bool:
    """Wrap statements in a try that raises its error again."""
    return wrap(model, chance, lambda body: Try(body, None))


def wrap_if(model: Model, chance: random.Random) -> bool:
    """Wrap statements in a condition that holds."""
    return wrap(model, chance, lambda body: If(None, body))


def wrap_loop(model: Model, chance: random.Random) -> bool:
    """Wrap statements in a loop of one iteration."""
    return wrap(model, chance, lambda body: For((), Items([0], [""]), model.new(), body))


def unwrap(model: Model, chance: random.Random) -> bool:
    """Take a wrapper away."""
    found = [
        (block, number)
        for block, number in all_of(model, Try, If, For)
        if (isinstance(block[number], Try) and block[number].handler is None)
        or (isinstance(block[number], If) and block[number].test is None)
        or (isinstance(block[number], For) and not block[number].trail)
    ]
    if not found:
        return False
    block, number = chance.choice(found)
    block[number : number + 1] = block[number].body
    return True


def extract(model: Model, chance: random.Random) -> bool:
    """Move one statement that sets a variable into a helper of its own."""
    found = all_of(model, Call, Use, Fan)
    if not found:
        return False
    block, number = chance.choice(found)
    statement = block[number]
    params: list[int] = []
    for expr in expressions(statement):
        params += [var for var in refs(expr) if var not in params]
    name = model.new()
    # Callees come first, so that the helpers stay in an order that `valid` takes.
    model.helpers[name] = Helper(
        f"made_{name}", params, [statement], Ref(statement.var), nested=uses_nested(model, [statement])
    )
    block[number] = Use((), name, [Ref(var) for var in params], statement.var)
    return True


def uses_nested(model: Model, body: list[Stmt]) -> bool:
    """Whether statements use a helper that is written in `orchestrate`."""
    return any(model.helpers[other].nested for other in used(body))


def inline(model: Model, chance: random.Random) -> bool:
    """Put a helper's statements in the place of one use."""
    found = all_of(model, Use)
    if not found:
        return False
    block, number = chance.choice(found)
    use = block[number]
    assert isinstance(use, Use)
    helper = model.copy().helpers[use.helper]
    fresh = {var: model.new() for inner in blocks(helper.body) for s in inner for var in _sets(s)}
    given: list[Stmt] = []
    values: dict[int, Expr] = {var: Ref(to) for var, to in fresh.items()}
    for param, argument in zip(helper.params, use.args, strict=True):
        values[param] = argument
    _inlined(helper.body, values, fresh, use.trail)
    block[number : number + 1] = [*given, *helper.body, Assign(use.var, _replaced(helper.ret, values))]
    if not any(use.helper in used(body) for body in [model.body, *(h.body for h in model.helpers.values())]):
        if chance.random() < 0.5:
            del model.helpers[use.helper]
    return True


def _inlined(body: list[Stmt], values: dict[int, Expr], fresh: dict[int, int], outer: Trail) -> None:
    for statement in body:
        # What stands in a loop has the outer trail once: the loop's own.
        under = () if isinstance(statement, For) and statement.trail else outer
        _substitute(statement, values, fresh, outer)
        for block in inside(statement):
            _inlined(block, values, fresh, under)


def _sets(statement: Stmt) -> list[int]:
    if isinstance(statement, For):
        return [statement.item]
    return [statement.var] if hasattr(statement, "var") else []


def _replaced(expr: Expr, values: dict[int, Expr]) -> Expr:
    match expr:
        case Ref(var):
            return values.get(var, expr)
        case Cat(parts):
            flat: list[Expr] = []
            for part in parts:
                now = _replaced(part, values)
                flat += now.parts if isinstance(now, Cat) else [now]
            return Cat(flat)
        case _:
            return expr


def _substitute(statement: Stmt, values: dict[int, Expr], fresh: dict[int, int], outer: Trail) -> None:
    match statement:
        case Call():
            statement.expr = _replaced(statement.expr, values)
            if statement.retry is not None:
                statement.retry = outer + statement.retry
            else:
                statement.trail = outer + statement.trail
        case Assign():
            statement.expr = _replaced(statement.expr, values)
        case Use():
            statement.args = [_replaced(a, values) for a in statement.args]
            statement.trail = outer + statement.trail
        case Fan():
            statement.trail = outer + statement.trail
            for branch in statement.branches:
                branch.args = [_replaced(a, values) for a in branch.args]
        case Read():
            statement.trail = outer + statement.trail
        case For():
            if statement.trail:
                statement.trail = outer + statement.trail
        case If(test=int() as test):
            now = values.get(test)
            statement.test = now.var if isinstance(now, Ref) else test
        case _:
            pass
    if hasattr(statement, "var"):
        statement.var = fresh.get(statement.var, statement.var)
    if isinstance(statement, For):
        statement.item = fresh.get(statement.item, statement.item)


def retry_by_helper(model: Model, chance: random.Random) -> bool:
    """Give a call to the retry helper as a lambda, or make one directly that was given to it."""
    found = [s for s in model.statements() if isinstance(s, Call) and not s.times]
    if not found:
        return False
    call = chance.choice(found)
    call.retry = (model.new(),) if call.retry is None else None
    return True


def hoist(model: Model, chance: random.Random) -> bool:
    """Give a literal of a payload a name at the top of the module."""
    found = [lit for s in model.statements() for e in expressions(s) for lit in lits(e) if not lit.const]
    if not found:
        return False
    lit = chance.choice(found)
    lit.const = f"K{model.new()}"
    model.consts[lit.const] = lit.text
    return True


# --- meaning changes ----------------------------------------------------------------------------------------------


def insert_call(model: Model, chance: random.Random) -> bool:
    """Insert a new piece of work."""
    maker = Maker(chance, 2, model)
    block = chance.choice(list(model.blocks()))
    at = chance.randint(0, len(block))
    scope = _scope(block, at)
    kind = chance.choice(["call", "call", "retry", "times", "use", "fan", "sites", "for"])
    if kind in ("use", "fan") and not [h for h in model.helpers.values() if not h.nested]:
        kind = "call"
    block.insert(at, getattr(maker, f"make_{kind}")(scope, 1, True))
    return True


def _scope(block: list[Stmt], at: int) -> list[int]:
    return [statement.var for statement in block[:at] if hasattr(statement, "var")]


def delete(model: Model, chance: random.Random) -> bool:
    """Delete a statement."""
    found = all_of(model)
    if not found:
        return False
    block, number = chance.choice(found)
    gone = block.pop(number)
    if hasattr(gone, "var") and gone.var in model.ret:
        model.ret.remove(gone.var)
    return True


def duplicate(model: Model, chance: random.Random) -> bool:
    """Write a call once more: new work with an equal payload."""
    found = all_of(model, Call, Use)
    if not found:
        return False
    block, number = chance.choice(found)
    statement = block[number]
    twin = Model(body=[statement]).copy().body[0]
    twin.trail = (model.new(),)
    if isinstance(twin, Call) and twin.retry is not None:
        twin.retry = (model.new(),)
    twin.var = model.new()
    block.insert(chance.randint(number, number + 1), twin)
    return True


def swap(model: Model, chance: random.Random) -> bool:
    """Swap two neighbours."""
    found = [block for block in model.blocks() if len(block) > 1]
    if not found:
        return False
    block = chance.choice(found)
    number = chance.randrange(len(block) - 1)
    block[number], block[number + 1] = block[number + 1], block[number]
    return True


def move(model: Model, chance: random.Random) -> bool:
    """Move a statement elsewhere, into another block too."""
    found = all_of(model, Call, Use)
    if not found:
        return False
    block, number = chance.choice(found)
    statement = block.pop(number)
    other = chance.choice(list(model.blocks()))
    other.insert(chance.randint(0, len(other)), statement)
    return True


def change_literal(model: Model, chance: random.Random) -> bool:
    """Change a literal of a payload, or the constant that it comes from."""
    found = [lit for s in model.statements() for e in expressions(s) for lit in lits(e)]
    if not found:
        return False
    lit = chance.choice(found)
    lit.text = chance.choice([word for word in (*model.words, "new") if word != lit.text])
    if lit.const:
        for other in [lit for s in model.statements() for e in expressions(s) for lit in lits(e)]:
            if other.const == lit.const:
                other.text = lit.text
        model.consts[lit.const] = lit.text
    return True


def change_capability(model: Model, chance: random.Random) -> bool:
    """Call another capability: other work."""
    found = all_of(model, Call)
    if not found:
        return False
    block, number = chance.choice(found)
    call = block[number]
    assert isinstance(call, Call)
    call.cap = chance.choice([cap for cap in CAPABILITIES if cap != call.cap])
    return True


def _lists(model: Model) -> list[Items]:
    return [
        statement.items
        for statement in model.statements()
        if isinstance(statement, For | Fan)
        and statement.items is not None
        and (statement.trail or isinstance(statement, Fan))
    ]


def insert_item(model: Model, chance: random.Random) -> bool:
    """Put an item into a list, in front more often than not."""
    found = [items for items in _lists(model) if len(items.keys) < 9]
    if not found:
        return False
    items = chance.choice(found)
    at = chance.choice([0, 0, len(items.keys), chance.randint(0, len(items.keys))])
    items.keys.insert(at, model.new())
    items.values.insert(at, chance.choice([*model.words, *items.values, f"new{model.fresh}"]))
    return True


def remove_item(model: Model, chance: random.Random) -> bool:
    """Take an item out of a list."""
    found = [items for items in _lists(model) if items.keys]
    if not found:
        return False
    items = chance.choice(found)
    at = chance.randrange(len(items.keys))
    del items.keys[at], items.values[at]
    return True


def swap_items(model: Model, chance: random.Random) -> bool:
    """Swap two items of a list."""
    found = [items for items in _lists(model) if len(items.keys) > 1]
    if not found:
        return False
    items = chance.choice(found)
    a, b = chance.sample(range(len(items.keys)), 2)
    for line in (items.keys, items.values):
        line[a], line[b] = line[b], line[a]
    return True


def edit_branches(model: Model, chance: random.Random) -> bool:
    """Add, remove or swap written branches of a fan-out."""
    found = [s for s in model.statements() if isinstance(s, Fan) and s.branches]
    if not found:
        return False
    fan = chance.choice(found)
    match chance.choice(["add", "remove", "swap"]):
        case "add":
            like = chance.choice(fan.branches)
            args = [Lit(chance.choice(model.words)) for _ in like.args]
            fan.branches.insert(chance.randint(0, len(fan.branches)), Branch((model.new(),), like.helper, args))
        case "remove" if len(fan.branches) > 1:
            del fan.branches[chance.randrange(len(fan.branches))]
        case _:
            chance.shuffle(fan.branches)
    return True


def change_times(model: Model, chance: random.Random) -> bool:
    """Widen or narrow a comprehension of equal calls."""
    found = [s for s in model.statements() if isinstance(s, Call) and s.times]
    if not found:
        return False
    call = chance.choice(found)
    call.times = max(1, call.times + chance.choice([-1, 1]))
    return True


def take_two(model: Model, chance: random.Random) -> bool:
    """Ask for a second artifact on purpose."""
    found = [s for s in model.statements() if isinstance(s, Call) and s.take == 1]
    if not found:
        return False
    chance.choice(found).take = 2
    return True


def serve_through(model: Model, chance: random.Random) -> bool:
    """Swap the contents of two blocks of one statement, as when arms of a condition change places."""
    found = [s for s in model.statements() if isinstance(s, If) and s.test is not None and s.orelse]
    if not found:
        return False
    statement = chance.choice(found)
    statement.body, statement.orelse = statement.orelse, statement.body
    return True


PRESERVING: tuple[Edit, ...] = (
    rename_variable,
    rename_helper,
    reformat,
    move_function,
    reorder_functions,
    insert_pure,
    wrap_try,
    wrap_if,
    wrap_loop,
    unwrap,
    extract,
    inline,
    hoist,
)
CHANGING: tuple[Edit, ...] = (
    insert_call,
    insert_call,
    delete,
    duplicate,
    swap,
    move,
    change_literal,
    change_capability,
    insert_item,
    insert_item,
    remove_item,
    swap_items,
    edit_branches,
    change_times,
    take_two,
    serve_through,
)


def edited(model: Model, chance: random.Random, edits: tuple[Edit, ...], count: int) -> tuple[Model, list[str]]:
    """Return a copy with edits, as many as could be made, and their names."""
    names: list[str] = []
    for _ in range(8 * count):
        if len(names) == count:
            break
        edit = chance.choice(edits)
        draft = model.copy()
        if edit(draft, chance) and valid(draft):
            model = draft
            names.append(edit.__name__)
    return model, names


__all__ = ["CHANGING", "PRESERVING", "all_of", "edited", "extract", "inside", "uses_nested", "wrap"]
