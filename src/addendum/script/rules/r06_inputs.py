"""No hidden input: clock, randomness, `id`, `hash`, environment, module state changed at run time.

## What it does
Refuses modules and builtins that read the world outside the script, texts made from a function's or object's
address, and changes of top-level lists and dicts from inside functions.

## Why is this bad?
A replay has to see what the first run saw. Whatever isn't in `args`, in a result or recorded by `ctx` can be
another value the next time, and every call that depends on it diverges.

## Use instead
`await ctx.now()`, `await ctx.random()`, `await ctx.uuid()`, `await ctx.sleep(seconds)`: they are recorded. Pass
state as arguments and return it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from addendum.script.bounds.machine import MUTATORS
from addendum.script.report import Violation
from addendum.script.rules.subject import Subject
from addendum.script.scope import Function

ID = "R06"
TITLE = "No hidden input"

CLOCK: Final = "Write `await ctx.now()`."
SHARED: Final = "Make the list or dict in `orchestrate`, and pass it as an argument."
CHANCE: Final = "Write `await ctx.random()`."
HIDDEN: Final[dict[str, str]] = {
    **dict.fromkeys(("time", "datetime", "date", "timedelta", "timezone", "calendar"), CLOCK),
    **dict.fromkeys(("random", "secrets", "numpy"), CHANCE),
    "uuid": "Write `await ctx.uuid()`.",
    **dict.fromkeys(
        ("os", "sys", "environ", "getenv", "platform", "socket", "locale"), "Pass what is needed in `args`."
    ),
    **dict.fromkeys(("input", "open", "pathlib", "Path"), "Pass the text in `args`."),
    "id": 'Use a key of the data, such as `item["id"]`.',
    "hash": "Use the value itself as a key, or compare values.",
    "object": "Use None or a literal as a marker.",
}


def check(subject: Subject) -> Iterator[Violation]:
    """Yield each hidden input and each change of module state."""
    for name in [name for text in subject.scope.names.keys() & HIDDEN.keys() for name in subject.scope.names[text]]:
        if isinstance(name.ctx, ast.Load) and subject.scope.bindings(name) in (None, [None]):
            if subject.scope.bindings(name) == [None] and not _imported(subject, name.id):
                continue
            above = subject.scope.parent[name]
            waits = isinstance(above, ast.Attribute) and above.attr == "sleep"
            fix = "Write `await ctx.sleep(seconds)`." if waits else HIDDEN[name.id]
            yield subject.violation(ID, name, "{} reads something that isn't recorded.", fix)
    for node in subject.nodes(ast.FormattedValue):
        yield from _address(subject, node.value)
    for call in subject.nodes(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in ("str", "repr", "format"):
            for part in call.args:
                yield from _address(subject, part)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in MUTATORS:
            yield from _module_state(subject, call.func.value, call)
    for subscript in subject.nodes(ast.Subscript):
        if isinstance(subscript.ctx, ast.Store):
            yield from _module_state(subject, subscript.value, subscript)
    for augmented in subject.nodes(ast.AugAssign):
        yield from _module_state(subject, augmented.target, augmented)
    for changed in subject.bounds.changed:
        if not _named(subject, changed):
            yield subject.violation(ID, changed, "{} changes what belongs to the module and not to the run.", SHARED)


def _imported(subject: Subject, name: str) -> bool:
    return any((alias.asname or alias.name) == name for alias in subject.nodes(ast.alias))


def _address(subject: Subject, node: ast.expr) -> Iterator[Violation]:
    """A function as text is its address in memory."""
    if isinstance(node, ast.Lambda):
        found = True
    elif isinstance(node, ast.Name):
        bound = subject.scope.bindings(node)
        found = bool(bound) and all(isinstance(b, Function | ast.Lambda) for b in bound or ())
    else:
        found = False
    if found:
        yield subject.violation(ID, node, "The text of {} is an address in memory.", "Write its name as a string.")


def _module_state(subject: Subject, target: ast.expr, node: ast.AST) -> Iterator[Violation]:
    """A change of something that a top-level name holds, from inside a function."""
    if subject.scope.enclosing(node) is None:
        return
    root = _root(subject, target)
    if root is not None:
        yield subject.violation(
            ID, node, f"{{}} changes `{root.id}`, which belongs to the module and not to the run.", SHARED
        )


def _named(subject: Subject, node: ast.AST) -> bool:
    """Whether a change names the top-level variable, so that `_module_state` says it."""
    target = node.func if isinstance(node, ast.Call) else node.target if isinstance(node, ast.AugAssign) else node
    return isinstance(target, ast.expr) and _root(subject, target) is not None


def _root(subject: Subject, target: ast.expr) -> ast.Name | None:
    """Return the top-level name that a target begins with."""
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    if not isinstance(target, ast.Name) or subject.scope.homes[target] is not subject.scope.module:
        return None
    return None if _imported(subject, target.id) else target
