"""The abstract values of the bound analysis, and how two of them are joined.

A value says what is needed for bounds and nothing else: how long a sequence or a text can be at most, which interval
a number lies in, which functions and coroutines it may be or hold. `NONE` is None; `TOP` is unknown JSON data; `V()`
is no value at all. A component that is absent can't be there: losing a function or a coroutine would lose its calls,
losing a text those of the loop over it, so what isn't modelled is mixed into the result, never dropped.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from addendum.script.scope import Function, Names

INF: Final = math.inf
Count = int | float
"""An integer, or plus or minus infinity."""


class Act:
    """One abstract activation of a function, lambda or comprehension: whose names, and where they live.

    Two calls share one only when the call expression and the caller's activation are the same.
    """

    __slots__ = ("function", "key", "names", "parent", "reentered")

    def __init__(self, names: Names, key: int, parent: Act | None, function: Function | None) -> None:
        self.names = names
        self.key = key
        self.parent = parent
        self.function = function
        self.reentered = False


Sym = tuple[int, tuple[int, str], int]
"""A symbol: the loop round, the variable, and the factor it is multiplied with."""


class Num(NamedTuple):
    """An integer in [lo, hi], or a float there where the value is `real`; both ends are whole.

    If `sym` is set, also that symbol's value plus something in [dlo, dhi].
    The symbol stands for a variable's value when the current loop's iteration began.
    """

    lo: Count = -INF
    hi: Count = INF
    sym: Sym | None = None
    dlo: Count = 0
    dhi: Count = 0


class Share(NamedTuple):
    """What a part of a list is: over all iterations of a loop the lengths of its parts add up to no more than `total`.

    `part` is the slice as it was evaluated: another one takes other parts, so its total comes on top.
    """

    loop: int
    total: Count
    part: int


class Seq(NamedTuple):
    """An immutable sequence or an iterator: length in [lo, hi], what the elements may be, each one if known.

    `live` are the lists that a lazy iterator reads while it is walked. The elements, or their first items, are
    integers that rise by at least `step` from one to the next, if it isn't zero.

    A `view` shows what its `live` objects hold when it is walked: their "values" or "items", or each (of an "iter").
    What a lazy iterator yields comes from the `read` objects as well, which end no walk, and from the functions in
    `made`.
    """

    lo: Count
    hi: Count
    elem: V
    items: tuple[V, ...] | None = None
    live: frozenset[int] = frozenset()
    share: Share | None = None
    step: Count = 0
    view: tuple[str, ...] = ()
    read: frozenset[int] = frozenset()
    made: frozenset[Closure] = frozenset()


class Closure:
    """A function or lambda with the activation it was made in and its evaluated defaults. Interned: `is` is equal."""

    __slots__ = ("act", "defaults", "node")

    def __init__(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        act: Act,
        defaults: tuple[tuple[str, V], ...],
    ) -> None:
        self.node = node
        self.act = act
        self.defaults = defaults


class Coro:
    """A coroutine that has not run: of a script function with its arguments, or of a ctx method. Interned."""

    __slots__ = ("act", "closure", "node", "params")

    def __init__(self, node: ast.Call, closure: Closure | None, act: Act, params: tuple[tuple[str, V], ...]) -> None:
        self.node = node
        self.closure = closure
        self.act = act
        self.params = params


Text = str | tuple[Count, Count]
"""A text that is known, or how long one of several is: at least, at most."""


class V(NamedTuple):
    """An abstract value: the join of everything that it may be. `real`: its number may be a float; `odd`: it may be the
    one that is in no order with any other, for which no limit holds."""

    top: bool = False
    num: Num | None = None
    seq: Seq | None = None
    refs: frozenset[int] = frozenset()
    funcs: frozenset[Closure] = frozenset()
    coros: frozenset[Coro] = frozenset()
    text: Text | None = None
    real: bool = False
    null: bool = False
    odd: bool = False


class Obj(NamedTuple):
    """A list, dict or set on the heap: its length and how much it grew since the current loop's iteration began.

    `many` says that it stands for several objects; `foreign`, that the data of a caller may alias it. Objects of one
    `family` are the same object seen with other lengths. `rest` is (loop, variable, k) for `variable[k:]`.
    """

    kind: str
    lo: Count
    hi: Count
    elem: V
    key: V = V()
    fields: tuple[tuple[Any, V], ...] | None = None
    glo: Count = 0
    ghi: Count = 0
    many: bool = False
    foreign: bool = False
    site: ast.AST | None = None
    share: Share | None = None
    family: int | None = None
    rest: tuple[int, tuple[int, str], int] | None = None


_NOTHING: Final[frozenset[Any]] = frozenset()
BOTTOM: Final = V()
NONE: Final = V(null=True)
TOP: Final = V(top=True)
ANY_INT: Final = V(num=Num())
ANY_NUMBER: Final = V(num=Num(), real=True, odd=True)


_new: Final = tuple.__new__
"""What a named tuple's own constructor calls, without its detour; most of the analysis makes values."""


def renumbered(value: V, num: Num | None) -> V:
    """The value with another number in it."""
    top, _, seq, refs, funcs, coros, text, real, null, odd = value
    return _new(V, (top, num, seq, refs, funcs, coros, text, real, null, odd))


def numeric(value: V) -> bool:
    """Whether a value is a number, or None, and nothing else."""
    top, num, seq, refs, funcs, coros, text, _, _, _ = value
    return num is not None and not (top or refs or funcs or coros) and seq is None and text is None


def wordy(value: V) -> bool:
    """Whether a value is a text, or None, and nothing else."""
    top, num, seq, refs, funcs, coros, text, _, _, _ = value
    return text is not None and not (top or refs or funcs or coros) and num is None and seq is None


def said(value: V) -> str | None:
    """The text that a value is, if it is that one and nothing else."""
    top, num, seq, refs, funcs, coros, text, _, null, _ = value
    if type(text) is not str or top or null or refs or funcs or coros or num is not None or seq is not None:
        return None
    return text


def span(text: Text) -> tuple[Count, Count]:
    """How long a text is, at least and at most."""
    return (len(text), len(text)) if isinstance(text, str) else text


def present(value: V) -> V:
    """The value where it isn't None."""
    return value._replace(null=False) if value.null else value


def integer(lo: Count, hi: Count | None = None) -> V:
    """An integer in [lo, hi]; exactly `lo` without `hi`."""
    num = _new(Num, (lo, lo if hi is None else hi, None, 0, 0))
    return _new(V, (False, num, None, _NOTHING, _NOTHING, _NOTHING, None, False, False, False))


def reference(ident: int) -> V:
    """One object on the heap."""
    return _new(V, (False, None, None, frozenset((ident,)), _NOTHING, _NOTHING, None, False, False, False))


def literal(text: str) -> V:
    """A text that is known."""
    return _new(V, (False, None, None, _NOTHING, _NOTHING, _NOTHING, text, False, False, False))


def interval(lo: Count, hi: Count, sym: Sym | None = None, dlo: Count = 0, dhi: Count = 0) -> Num:
    """The same as `Num(...)`, at half its price."""
    return _new(Num, (lo, hi, sym, dlo, dhi))


def join_text(a: Text | None, b: Text | None) -> Text | None:
    if a is None or b is None:
        return b if a is None else a
    one, two = span(a), span(b)
    return min(one[0], two[0]), max(one[1], two[1])


def join_num(a: Num | None, b: Num | None) -> Num | None:
    if a is None or a == b:
        return b
    if b is None:
        return a
    lo, hi = min(a.lo, b.lo), max(a.hi, b.hi)
    if a.sym is not None and a.sym == b.sym:
        return _new(Num, (lo, hi, a.sym, min(a.dlo, b.dlo), max(a.dhi, b.dhi)))
    return _new(Num, (lo, hi, None, 0, 0))


def join_seq(a: Seq | None, b: Seq | None) -> Seq | None:
    if a is None or a == b:
        return b
    if b is None:
        return a
    items = None
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        items = tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True))
    share = a.share if a.share == b.share else None
    return Seq(
        min(a.lo, b.lo),
        max(a.hi, b.hi),
        join(a.elem, b.elem),
        items if a.view == b.view == () else None,
        a.live | b.live,
        share,
        0,
        tuple(sorted({*a.view, *b.view})),
        a.read | b.read,
        a.made | b.made,
    )


def join(a: V, b: V) -> V:
    """The least value that covers both."""
    if a is b or b is BOTTOM:
        return a
    if a is BOTTOM:
        return b
    if a == b or b == BOTTOM:
        return a
    if a == BOTTOM:
        return b
    top, num, seq, refs, funcs, coros, text, real, null, odd = a
    top2, num2, seq2, refs2, funcs2, coros2, text2, real2, null2, odd2 = b
    if num is not None or num2 is not None:
        num = join_num(num, num2)
    if seq is not None or seq2 is not None:
        seq = join_seq(seq, seq2)
    if refs2:
        refs = refs | refs2 if refs else refs2
    if funcs2:
        funcs = funcs | funcs2 if funcs else funcs2
    if coros2:
        coros = coros | coros2 if coros else coros2
    if text != text2:
        text = None if top or top2 else join_text(text, text2)
    return _new(V, (top or top2, num, seq, refs, funcs, coros, text, real or real2, null or null2, odd or odd2))


def join_all(values: Iterable[V]) -> V:
    """The join of several values; `BOTTOM` of none."""
    out = BOTTOM
    for value in values:
        out = join(out, value)
    return out


def has_field(obj: Obj, name: object) -> bool:
    """Whether a dict surely has an entry; one that only some paths made may be None as well."""
    fields = obj.fields or ()
    return any(known == name and (not value.null or obj.lo >= len(fields)) for known, value in fields)


def join_fields(a: Obj, b: Obj) -> tuple[tuple[Any, V], ...] | None:
    if a.fields == b.fields:
        return a.fields
    if a.fields is None or b.fields is None:
        return None
    left, right = dict(a.fields), dict(b.fields)
    if left.keys() == right.keys():
        return tuple([(name, join(left[name], right[name])) for name in left]) if [*left] == [*right] else None
    merged: list[tuple[Any, V]] = []
    for name in left.keys() | right.keys():
        x, y = left.get(name), right.get(name)
        merged.append((name, join(x, y) if x is not None and y is not None else join(x or y or NONE, NONE)))
    merged.sort(key=lambda pair: repr(pair[0]))
    return tuple(merged)


ANY_FAMILY: Final = -1


def join_family(a: int | None, b: int | None) -> int | None:
    """The family of an object that stands for two."""
    if a is None or b is None or a == b:
        return b if a is None else a
    return ANY_FAMILY


def join_obj(a: Obj, b: Obj) -> Obj:
    """The least object that covers both."""
    if a is b or a == b:
        return a
    return Obj(
        a.kind if a.kind == b.kind else "any",
        min(a.lo, b.lo),
        max(a.hi, b.hi),
        join(a.elem, b.elem),
        join(a.key, b.key),
        join_fields(a, b),
        min(a.glo, b.glo),
        max(a.ghi, b.ghi),
        a.many or b.many,
        a.foreign or b.foreign,
        a.site,
        a.share if a.share == b.share else None,
        join_family(a.family, b.family),
        a.rest if a.rest == b.rest else None,
    )


def times(count: Count, each: Count) -> Count:
    """A product in which nothing times infinity is nothing."""
    return 0 if not count or not each else count * each
