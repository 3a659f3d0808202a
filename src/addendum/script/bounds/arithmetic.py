"""Arithmetic on intervals: what an operation on two numbers may give."""

from __future__ import annotations

import ast
import math
from typing import Final

from addendum.script.bounds.values import INF, Count, Num, V, times

_EXACT: Final = 2**52
"""Up to here a float is no farther from a whole number than from the next float; beyond, adding 1 may add nothing."""


def calculated(kind: type[ast.operator], left: V, right: V) -> V:
    """The value of an operation on two numbers.

    Floats are rounded, which no whole end of an interval shows as long as it is exact itself; but the distance between
    two of them may be smaller than what was added. Infinite ones may give the number that has no order.
    """
    assert left.num is not None
    assert right.num is not None
    a, b = left.num, right.num
    real = kind is ast.Div or left.real or right.real or (kind is ast.Pow and b.lo < 0)
    if not real:
        return V(num=_divided(kind, a, b) if kind in (ast.FloorDiv, ast.Mod) else arithmetic(kind, a, b))
    one, two = left.real and endless(a), right.real and endless(b)
    odd = left.odd or right.odd or (one and two if kind in (ast.Add, ast.Sub) else one or two)
    if kind is ast.Mod and (b.lo > 0 or b.hi < 0):
        return V(num=Num(min(0, b.lo), max(0, b.hi)), real=True, odd=odd)
    if kind is ast.Sub and a.sym is not None and a.sym == b.sym:
        a = Num(a.lo, a.hi)
    num = arithmetic(kind, a, b)
    return V(num=num if exact(a) and exact(b) and exact(num) else Num(), real=True, odd=odd)


def endless(num: Num) -> bool:
    """Whether a number may be an infinite one, if it is a float."""
    return num.lo == -INF or num.hi == INF


def exact(num: Num) -> bool:
    """Whether the ends of an interval are among the whole numbers that floats are exact for."""
    return all(abs(end) <= _EXACT or abs(end) == INF for end in (num.lo, num.hi, num.dlo, num.dhi))


def arithmetic(kind: type[ast.operator], a: Num, b: Num) -> Num:
    """Interval arithmetic; a constant offset keeps the symbol."""
    if kind is ast.Add:
        lo, hi = _low(a.lo + b.lo), _high(a.hi + b.hi)
        if a.sym is not None and _offset(b):
            return Num(lo, hi, a.sym, a.dlo + b.lo, a.dhi + b.hi)
        if b.sym is not None and _offset(a):
            return Num(lo, hi, b.sym, b.dlo + a.lo, b.dhi + a.hi)
        return Num(lo, hi)
    if kind is ast.Sub:
        lo, hi = _low(a.lo - b.hi), _high(a.hi - b.lo)
        if a.sym is not None and a.sym == b.sym:
            return Num(max(lo, a.dlo - b.dhi), min(hi, a.dhi - b.dlo))
        if a.sym is not None and _offset(b):
            return Num(lo, hi, a.sym, a.dlo - b.hi, a.dhi - b.lo)
        return Num(lo, hi)
    if kind is ast.Mult:
        ends = [times(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        for x, y in ((a, b), (b, a)):
            if x.sym is not None and y.lo == y.hi and 0 < y.lo < INF:
                factor = int(y.lo)
                sym = (x.sym[0], x.sym[1], x.sym[2] * factor)
                return Num(min(ends), max(ends), sym, x.dlo * factor, x.dhi * factor)
        return Num(min(ends), max(ends))
    if kind in (ast.FloorDiv, ast.Div) and b.hi < 0:
        return arithmetic(kind, Num(-a.hi, -a.lo), Num(-b.hi, -b.lo))
    if kind is ast.FloorDiv and b.lo > 0:
        ends = [_divide(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return Num(min(ends), max(ends))
    if kind is ast.Div and b.lo > 0:
        lows, highs = [_divide(a.lo, end) for end in (b.lo, b.hi)], [-_divide(-a.hi, end) for end in (b.lo, b.hi)]
        return Num(min(lows), max(highs))
    if kind is ast.Mod and b.lo > 0:
        return Num(0, b.hi - 1 if a.lo < 0 or a.hi >= b.lo else a.hi)
    if kind is ast.Mod and b.hi < 0:
        return Num(b.lo + 1 if a.hi > 0 or a.lo <= b.hi else a.lo, 0)
    if kind is ast.Pow and a.lo >= 0 and b.lo >= 0 and b.hi <= 64 and a.hi <= 10**6:
        return Num(int(a.lo) ** int(b.lo) if a.lo else 0, max(1, int(a.hi) ** int(b.hi)))
    return Num()


def _divided(kind: type[ast.operator], a: Num, b: Num) -> Num:
    """`a // b` or `a % b` of whole numbers; by zero it is an error."""
    if b.lo < 0 < b.hi:
        if kind is ast.Mod:
            return Num(b.lo + 1, b.hi - 1)
        most = max(abs(a.lo), abs(a.hi))
        return Num(-most, most)
    return arithmetic(kind, a, Num(b.lo or 1, b.hi or -1) if b.lo or b.hi else b)


def _offset(num: Num) -> bool:
    """Whether a number can be added to a symbol: it is the same in every iteration, or bounded without a symbol."""
    return num.lo != -INF and num.hi != INF and (num.sym is None or num.lo == num.hi)


def _low(x: Count) -> Count:
    return -INF if isinstance(x, float) and math.isnan(x) else x


def _high(x: Count) -> Count:
    return INF if isinstance(x, float) and math.isnan(x) else x


def _divide(x: Count, y: Count) -> Count:
    if abs(y) == INF:
        return 0 if x >= 0 and x != INF else (-1 if x != INF and x != -INF else x)
    return x if abs(x) == INF else x // y
