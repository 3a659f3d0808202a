"""Objects that an iteration made and the next one still sees: they become one that stands for all earlier ones."""

from __future__ import annotations

import ast
from collections.abc import Callable

from addendum.script.bounds.machine import Machine
from addendum.script.bounds.rounds import Round
from addendum.script.bounds.state import Cost, State, visit
from addendum.script.bounds.values import Closure, Coro, Obj, V, join_obj


class Aging:
    """Renames the objects that one iteration made to the one that stands for those of all earlier iterations."""

    def __init__(self, machine: Machine, names: dict[int, int]) -> None:
        self.machine = machine
        self.names = names

    def refs(self, refs: frozenset[int]) -> frozenset[int]:
        return refs if self.names.keys().isdisjoint(refs) else frozenset([self.names.get(ref, ref) for ref in refs])

    def value(self, value: V) -> V:
        if not (value.refs or value.seq or value.coros or value.funcs):
            return value
        seq = value.seq
        if seq is not None:
            items = None if seq.items is None else tuple(self.value(item) for item in seq.items)
            made = frozenset(self.closure(closure) for closure in seq.made)
            live, read = self.refs(seq.live), self.refs(seq.read)
            seq = seq._replace(elem=self.value(seq.elem), items=items, live=live, read=read, made=made)
            if seq == value.seq:
                seq = value.seq
        refs = self.refs(value.refs)
        funcs = frozenset(self.closure(closure) for closure in value.funcs) if value.funcs else value.funcs
        coros = frozenset(self.coro(coro) for coro in value.coros) if value.coros else value.coros
        if seq is value.seq and refs == value.refs and funcs == value.funcs and coros == value.coros:
            return value
        return value._replace(seq=seq, refs=refs, funcs=funcs, coros=coros)

    def closure(self, closure: Closure) -> Closure:
        if not closure.defaults:
            return closure
        defaults = self.parts(closure.defaults)
        return closure if defaults == closure.defaults else self.machine.closure(closure.node, closure.act, defaults)

    def coro(self, coro: Coro) -> Coro:
        params = self.parts(coro.params)
        if params == coro.params:
            return coro
        return self.machine.coro(coro.node, coro.closure, coro.act, params)

    def parts(self, parts: tuple[tuple[str, V], ...]) -> tuple[tuple[str, V], ...]:
        return tuple((name, self.value(value)) for name, value in parts)

    def cost(self, cost: Cost) -> Cost:
        out: Cost = {}
        for key, count in cost.items():
            key = self.coro(key) if isinstance(key, Coro) else key
            out[key] = out.get(key, 0) + count
        return out

    def object(self, obj: Obj) -> Obj:
        fields = obj.fields
        if fields is not None:
            fields = tuple([(name, self.value(value)) for name, value in fields])
            fields = obj.fields if fields == obj.fields else fields
        elem, key = self.value(obj.elem), self.value(obj.key)
        if elem is obj.elem and key is obj.key and fields is obj.fields:
            return obj
        return obj._replace(elem=elem, key=key, fields=fields)

    def merged(self, state: State) -> dict[int, Obj]:
        out: dict[int, Obj] = {}
        for ident, target in self.names.items():
            obj = self.object(state.heap[ident])._replace(many=True, glo=0, ghi=0, share=None, rest=None)
            out[target] = obj if target not in out else join_obj(out[target], obj)
        return out


def aging(machine: Machine, start: State, cover: State, run: Round) -> Aging | None:
    """The renaming for the objects that are new in an iteration; None when none outlives it."""
    back = run.back
    fresh = sorted(back.heap.keys() - cover.heap.keys())
    if not fresh:
        return None
    new = set(fresh)
    live: set[int] = set()
    todo: list[int] = []

    def seen(ref: int) -> None:
        if ref in new and ref not in live:
            live.add(ref)
            todo.append(ref)

    # What the iteration didn't change can't lead to what it made.
    begin_vars, begin_heap = run.begin_vars, run.begin_heap
    for value in [value for key, value in back.vars.items() if begin_vars.get(key) is not value]:
        if value.refs or value.seq or value.coros or value.funcs:
            visit(value, seen)
    for ident, obj in [item for item in back.heap.items() if begin_heap.get(item[0]) is not item[1]]:
        if ident not in new:
            _visit_object(obj, seen)
    while todo:
        _visit_object(back.heap[todo.pop()], seen)
    names: dict[int, int] = {}
    by_site: dict[ast.AST | None, int] = {}
    for ident, obj in cover.heap.items():
        if obj.many and obj.site is not None and ident not in start.heap:
            by_site.setdefault(obj.site, ident)
    for ident in fresh:
        if ident in live:
            site = back.heap[ident].site
            target = by_site.get(site) if site is not None else None
            if target is None:
                target = by_site[site] = ident
            names[ident] = target
    for ident in fresh:
        if ident not in live:
            del back.heap[ident]
    return Aging(machine, names) if names else None


def _visit_object(obj: Obj, seen: Callable[[int], None]) -> None:
    visit(obj.elem, seen)
    visit(obj.key, seen)
    for _, value in obj.fields or ():
        visit(value, seen)
