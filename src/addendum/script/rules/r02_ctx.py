"""`ctx` is used only through its methods, with the right signature; every call is awaited or handed to a
container.

## What it does
Checks each use of `ctx`: that it is `ctx.method(...)` with a known method and the right arguments, or a whole
argument bound to a parameter named `ctx`; that a capability name is a string literal; and that no coroutine is
dropped or used as if it were its result. Names from other libraries and older versions get a hint to the right
one.

## Why is this bad?
What is called, where and how often is read off the source before anything runs. An alias, a computed name or a
stored `ctx` hides that. A coroutine that nobody awaits never runs.

## Use instead
`await ctx.run("text.generate", {"prompt": text})`, and `await ctx.parallel([one(x) for x in items[:5]])`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from addendum.script.report import Violation
from addendum.script.rules.awaiting import dropped
from addendum.script.rules.subject import Subject
from addendum.script.scope import METHODS, SHOWN, Function

ID = "R02"
TITLE = "ctx is used only through its methods"

CAPABILITY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")

RUN: Final = 'Write `await ctx.run("capability.name", {...})`.'
PARALLEL: Final = "Write `await ctx.parallel([...])`."
FOREIGN: Final[dict[str, str]] = {
    **dict.fromkeys(("call", "invoke", "execute", "step", "tool", "do", "activity", "task", "agent", "llm"), RUN),
    **dict.fromkeys(("run_tool", "call_tool", "use", "capability", "execute_activity", "run_step", "request"), RUN),
    **dict.fromkeys(("gather", "map", "all", "all_settled", "fan_out", "concurrent", "batch", "wait_all"), PARALLEL),
    **dict.fromkeys(("par", "join", "starmap", "for_each", "foreach"), PARALLEL),
    **dict.fromkeys(("chain", "pipe", "stages", "stream"), "Write `await ctx.pipeline(items, stage1, stage2)`."),
    **dict.fromkeys(("graph", "workflow"), 'Write `await ctx.dag({"a": (fn_a, []), "b": (fn_b, ["a"])})`.'),
    **dict.fromkeys(("any", "first", "select", "fastest", "wait_any"), "Write `await ctx.race([...])`."),
    **dict.fromkeys(
        ("print", "info", "warn", "warning", "debug", "error", "emit", "logger"), 'Write `ctx.log("text")`.'
    ),
    **dict.fromkeys(("progress", "status", "stage", "section"), 'Write `ctx.phase("title")`.'),
    **dict.fromkeys(("time", "timestamp", "utcnow", "today", "clock"), "Write `await ctx.now()`."),
    **dict.fromkeys(("wait", "delay", "timer", "pause"), "Write `await ctx.sleep(seconds)`."),
    **dict.fromkeys(("rand", "randint", "choice", "shuffle", "uniform"), "Write `await ctx.random()`."),
    **dict.fromkeys(("uuid4", "new_id", "guid"), "Write `await ctx.uuid()`."),
    **dict.fromkeys(("fail", "abort", "raise_error"), 'Write `raise ValueError("...")`.'),
    **dict.fromkeys(("retry", "with_retry"), "Write a `for` loop over a literal range; the host has retried already."),
    **dict.fromkeys(("args", "input", "inputs", "params"), "Use the parameter `args`."),
    **dict.fromkeys(("approve", "ask", "confirm"), 'Write `await ctx.run("human.approve", {"question": ...})`.'),
    **dict.fromkeys(("state", "get", "set", "store", "memory", "cache"), "Keep values in variables."),
}
_KNOWN: Final = "The methods are " + ", ".join(sorted(METHODS)) + "."
MODULES: Final[dict[str, str]] = {
    "asyncio": "Write `await ctx.parallel([...])` to run calls at the same time, `await ctx.sleep(seconds)` to wait.",
    "workflow": RUN,
    "context": "The context's name is `ctx`.",
    "client": RUN,
    "agent": RUN,
    "tools": RUN,
}


def check(subject: Subject) -> Iterator[Violation]:
    """Yield every use of `ctx` that isn't a call of its methods or a handing over, and every dropped coroutine."""
    for name in subject.scope.names.get("ctx", ()):
        yield from _use(subject, name)
    for text in subject.scope.names.keys() & MODULES.keys():
        for name in subject.scope.names[text]:
            if isinstance(name.ctx, ast.Load) and subject.scope.bindings(name) is None:
                yield subject.violation(
                    ID, subject.scope.parent[name], "{} is not part of the language.", MODULES[text], at=name
                )
    for function in subject.scope.functions:
        for default in [*function.node.args.defaults, *function.node.args.kw_defaults]:
            if isinstance(default, ast.Name) and default.id == "ctx":
                yield _alias(subject, default)
        if function.name == "ctx":
            yield subject.violation(ID, function.node, "A function is named `ctx`.", "Give it another name.")
    for call in subject.nodes(ast.Call):
        yield from _handed_over(subject, call)
    yield from dropped(subject)


def _use(subject: Subject, name: ast.Name) -> Iterator[Violation]:
    parent = subject.scope.parent[name]
    if not isinstance(name.ctx, ast.Load):
        yield subject.violation(ID, name, "{} is bound to something else.", "Give the variable another name.", at=name)
    elif isinstance(parent, ast.Attribute):
        yield from _attribute(subject, parent)
    elif isinstance(parent, ast.Call) and name in parent.args:
        yield from _argument(subject, name, parent)
    elif isinstance(parent, ast.keyword):
        call = subject.scope.parent[parent]
        if parent.arg != "ctx" or not isinstance(call, ast.Call) or not _script_callee(subject, call):
            yield _alias(subject, name)
    else:
        yield _alias(subject, name)


def _alias(subject: Subject, node: ast.AST) -> Violation:
    return subject.violation(
        ID,
        node,
        "{} is stored, compared or passed on; it may only be used as `ctx.method(...)`.",
        "Use `ctx` of the enclosing function, or pass it to a parameter named `ctx`.",
    )


def _argument(subject: Subject, name: ast.Name, call: ast.Call) -> Iterator[Violation]:
    if not _script_callee(subject, call):
        yield _alias(subject, name)
        return
    callee = subject.scope.callee(call)
    if isinstance(call.func, ast.Lambda):
        spec, called = call.func.args, "the lambda"
    elif isinstance(callee, Function):
        spec, called = callee.node.args, f"`{callee.name}`"
    else:
        return
    params = [param.arg for param in [*spec.posonlyargs, *spec.args]]
    at = call.args.index(name)
    starred = any(isinstance(part, ast.Starred) for part in call.args[:at])
    if not starred and (at >= len(params) or params[at] != "ctx"):
        yield subject.violation(
            ID,
            call,
            f"`ctx` is passed to {called} for a parameter with another name in {{}}.",
            f"Name that parameter of {called} `ctx`.",
            at=name,
        )


def _handed_over(subject: Subject, call: ast.Call) -> Iterator[Violation]:
    """A function's parameter `ctx` gets nothing but `ctx`."""
    callee = subject.scope.callee(call)
    if not isinstance(callee, Function) or "ctx" not in callee.params:
        return
    spec = callee.node.args
    params = [param.arg for param in [*spec.posonlyargs, *spec.args]]
    given: ast.expr | None = None
    for at, part in enumerate(call.args):
        if isinstance(part, ast.Starred):
            return
        if at < len(params) and params[at] == "ctx":
            given = part
    for keyword in call.keywords:
        if keyword.arg == "ctx":
            given = keyword.value
    if given is not None and not (isinstance(given, ast.Name) and given.id == "ctx"):
        yield subject.violation(
            ID,
            given,
            f"`{callee.name}` gets {{}} for its parameter `ctx`.",
            f"Write `{callee.name}(ctx, ...)`.",
        )


def _script_callee(subject: Subject, call: ast.Call) -> bool:
    """Whether a call may be one of a script function: not a method, and not a builtin."""
    func = call.func
    if isinstance(func, ast.Name):
        return subject.scope.bindings(func) is not None
    return not isinstance(func, ast.Attribute)


def _attribute(subject: Subject, node: ast.Attribute) -> Iterator[Violation]:
    parent = subject.scope.parent[node]
    if node.attr not in METHODS:
        yield subject.violation(ID, node, "{} is no method of `ctx`.", FOREIGN.get(node.attr.lower(), _KNOWN))
    elif not (isinstance(parent, ast.Call) and parent.func is node):
        yield subject.violation(
            ID,
            node,
            "{} is not called where it stands, so it is an alias of a method.",
            f"Call it: `{'' if node.attr in SHOWN else 'await '}ctx.{node.attr}(...)`.",
        )
    else:
        yield from _signature(subject, parent, node.attr)


def _signature(subject: Subject, call: ast.Call, method: str) -> Iterator[Violation]:
    wrong = _wrong_arguments(call, method)
    if wrong is not None:
        yield subject.violation(ID, call, "{} " + wrong[0], wrong[1])
        return
    if method != "run":
        if method in SHOWN and isinstance(subject.scope.parent[call], ast.Await):
            yield subject.violation(ID, call, "{} has nothing to await.", f"Write `ctx.{method}(...)` without `await`.")
        return
    first = call.args[0]
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        yield subject.violation(
            ID,
            first,
            "The capability name {} is not a string literal.",
            'Write the name out: `ctx.run("text.generate", {...})`, one call per capability.',
        )
    elif not CAPABILITY.fullmatch(first.value) or len(first.value) > 120:
        yield subject.violation(ID, first, "{} can't be the name of a capability.", "Names look like `text.generate`.")
    for keyword in call.keywords:
        if keyword.arg == "take" and not _positive(keyword.value):
            yield subject.violation(
                ID, keyword.value, "`take` is {}, not a literal integer from 1 on.", "Write `take=2` for a second one."
            )


_SHAPES: Final[dict[str, tuple[int, int, frozenset[str], str]]] = {
    "run": (2, 2, frozenset({"take"}), 'Write `await ctx.run("capability.name", {...})`.'),
    "parallel": (1, 1, frozenset({"return_errors"}), "Write `await ctx.parallel([first, second])`."),
    "race": (1, 1, frozenset(), "Write `await ctx.race([first, second])`."),
    "pipeline": (2, 30, frozenset({"return_errors"}), "Write `await ctx.pipeline(items, stage1, stage2)`."),
    "dag": (1, 1, frozenset({"return_errors"}), 'Write `await ctx.dag({"a": (fn_a, []), "b": (fn_b, ["a"])})`.'),
    "sleep": (1, 1, frozenset(), "Write `await ctx.sleep(seconds)`."),
    "now": (0, 0, frozenset(), "Write `await ctx.now()`."),
    "random": (0, 0, frozenset(), "Write `await ctx.random()`."),
    "uuid": (0, 0, frozenset(), "Write `await ctx.uuid()`."),
    "log": (1, 1, frozenset(), 'Write `ctx.log(f"text {value}")`.'),
    "phase": (1, 1, frozenset(), 'Write `ctx.phase("title")`.'),
}


def _wrong_arguments(call: ast.Call, method: str) -> tuple[str, str] | None:
    least, most, keywords, fix = _SHAPES[method]
    starred = any(isinstance(part, ast.Starred) for part in call.args)
    if starred and method != "pipeline":
        return "spreads its arguments with a star.", fix
    if starred and isinstance(call.args[0], ast.Starred):
        return "spreads its arguments with a star.", fix
    for keyword in call.keywords:
        if keyword.arg not in keywords:
            name = "`**`" if keyword.arg is None else f"the argument `{keyword.arg}`"
            return f"has {name}, which `ctx.{method}` doesn't take.", fix
    if not starred and not least <= len(call.args) <= most:
        return f"has {len(call.args)} argument{'' if len(call.args) == 1 else 's'}.", fix
    if method in ("parallel", "race") and isinstance(call.args[0], ast.Call | ast.Dict | ast.Set | ast.Constant):
        part = call.args[0]
        ok = isinstance(part, ast.Call) and not (isinstance(part.func, ast.Attribute) and part.func.attr in METHODS)
        if not ok:
            return "doesn't get a list.", fix
    if method in ("parallel", "race"):
        parts = _parts(call.args[0])
        if any(isinstance(part, ast.Lambda) for part in parts):
            return "gets functions, not their coroutines.", "Call them: `ctx.parallel([ctx.run(...), ...])`."
    if method == "dag" and isinstance(call.args[0], ast.List | ast.Tuple | ast.ListComp | ast.Constant):
        return "doesn't get a dict.", fix
    return None


def _parts(listed: ast.expr) -> list[ast.expr]:
    """Return what a list is written of: its elements, or what its comprehension makes."""
    if isinstance(listed, ast.List | ast.Tuple):
        return listed.elts
    return [listed.elt] if isinstance(listed, ast.ListComp | ast.GeneratorExp) else []


def _positive(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and 1 <= node.value <= 1000
