"""Isolation: only the parts of Python that are known to mean the same on every backend and to reach nothing
outside.

## What it does
Allows by name: the statements and expressions of the language, builtins, methods, the modules `json`, `math`
and `re` and what they hold. Everything else is refused, by name, with the way to write it instead: other
imports, classes, generators, `with`, `global`, `del`, decorators, dunder names and attributes, format strings
that reach into objects, class patterns.

## Why is this bad?
A script is written by a model and runs with somebody's authority. Attributes of frames, code, globals and
classes lead out of any sandbox written in Python. And what one interpreter understands otherwise than another
makes a run that can't be replayed.

## Use instead
Functions, dicts and lists; capabilities for everything that touches the world.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from addendum.script.report import Violation
from addendum.script.rules import language, lazy, raising, regexes
from addendum.script.rules.literals import text_of
from addendum.script.rules.subject import Subject
from addendum.script.scope import METHODS, Binding, Function

ID = "R10"
TITLE = "Isolation"


def check(subject: Subject) -> Iterator[Violation]:
    """Yield everything that isn't on the lists of `language`."""
    for kind, nodes in subject.scope.index.items():
        if kind in language.ALLOWED or kind in language.ELSEWHERE:
            continue
        what, fix = language.REFUSED.get(
            kind.__name__, (f"`{kind.__name__}` is not part of the language.", language.PLAIN)
        )
        for node in nodes:
            yield subject.violation(ID, node, what, fix)
    yield from _names(subject)
    yield from _imports(subject)
    for attribute in subject.nodes(ast.Attribute):
        yield from _attribute(subject, attribute)
    for call in subject.nodes(ast.Call):
        yield from _call(subject, call)
    yield from _definitions(subject)
    yield from _patterns(subject)
    for constant in subject.nodes(ast.Constant):
        value = constant.value
        if type(value) is str:
            if not value.isascii() and _SURROGATE.search(value):
                yield subject.violation(ID, constant, "{} has half a character.", "Write the whole one: `\\U0001f44d`.")
            continue
        if isinstance(value, complex) or (value is ... and not _stub(subject, constant)):
            yield subject.violation(ID, constant, "{} is not part of the language.", "Write a number, text or None.")
    yield from lazy.check(subject)
    yield from regexes.check(subject)
    yield from _added(subject)
    yield from raising.check(subject)


def _added(subject: Subject) -> Iterator[Violation]:
    """`xs += something` where it is no list: the embedded interpreter only adds lists."""
    if ast.AugAssign not in subject.scope.index:
        return
    unlike = {problem.node for problem in subject.bounds.problems if problem.kind == "unlike"}
    for node in subject.nodes(ast.AugAssign):
        func = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(func, ast.Name) and func.id in lazy.LAZY:
            continue  # that it isn't consumed is said of it, and a list of it can be added
        viewed = isinstance(func, ast.Attribute) and func.attr in ("keys", "values", "items")
        if node in unlike or (viewed and isinstance(node.op, ast.Add)):
            to = subject.text(node.target)
            yield subject.violation(
                ID,
                node.value,
                f"{{}} is no list, and not every backend adds it to `{to}`.",
                f"Write `{to}.extend(...)`.",
            )


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _stub(subject: Subject, node: ast.Constant) -> bool:
    """`...` as an empty body."""
    return isinstance(subject.scope.parent[node], ast.Expr)


def _names(subject: Subject) -> Iterator[Violation]:
    """Reserved names wherever a name can stand, rebound builtins at the top level, and names nobody defines."""
    places: list[tuple[ast.AST, str | None]] = []
    for text, names in subject.scope.names.items():
        reserved = language.reserved(text)
        if reserved:
            fix = "Leave it out: the host calls `orchestrate`." if text == "__name__" else "Use another name."
            for name in names:
                yield subject.violation(ID, name, f"The name {{}} is reserved for {reserved}.", fix)
        elif text not in language.BUILTINS:
            for name in names:
                if subject.scope.homes[name] is None and isinstance(name.ctx, ast.Load):
                    yield _undefined(subject, name)
    for function in subject.scope.functions:
        places.append((function.node, function.node.name))
    places += [(param, param.arg) for param in subject.nodes(ast.arg)]
    places += [(keyword, keyword.arg) for keyword in subject.nodes(ast.keyword)]
    places += [(handler, handler.name) for handler in subject.nodes(ast.ExceptHandler)]
    places += [(alias, alias.asname) for alias in subject.nodes(ast.alias)]
    places += [(pattern, pattern.name) for pattern in subject.nodes(ast.MatchAs)]
    places += [(pattern, pattern.name) for pattern in subject.nodes(ast.MatchStar)]
    places += [(node, node.rest) for node in subject.nodes(ast.MatchMapping)]
    for statement in subject.nodes(ast.Nonlocal):
        places += [(statement, found) for found in statement.names]
    for node, given in places:
        reserved = language.reserved(given) if given else None
        if reserved:
            yield subject.violation(ID, node, f"The name `{given}` is reserved for {reserved}.", "Use another name.")
    for text, bound in subject.scope.module.bindings.items():
        if bound and (text in language.BUILTINS or text in language.GUEST) and not _is_import(subject, text):
            yield subject.violation(
                ID,
                _bound_at(bound[0]) or subject.source.tree,
                f"The top level gives `{text}` another meaning.",
                "Use another name.",
            )
    for name in subject.scope.names.get("CapabilityError", ()):
        if not isinstance(name.ctx, ast.Load):
            yield subject.violation(ID, name, "{} gets another meaning.", "Use another name.")


def _bound_at(value: Binding) -> ast.AST | None:
    return value.node if isinstance(value, Function) else value if isinstance(value, ast.expr) else None


def _is_import(subject: Subject, name: str) -> bool:
    return any(alias.asname is None and alias.name == name for alias in subject.nodes(ast.alias))


def _undefined(subject: Subject, name: ast.Name) -> Violation:
    what, fix = language.UNKNOWN.get(name.id, ("{} is not defined.", "Define it, or use one of the builtins."))
    if name.id == "ctx":
        what, fix = "{} is not defined here.", "Give the function a parameter `ctx`, and pass it on."
    if name.id in language.MODULES:
        what, fix = "{} is not imported.", f"Write `import {name.id}` at the top."
    return subject.violation(ID, name, what, fix)


def _imports(subject: Subject) -> Iterator[Violation]:
    for names in subject.nodes(ast.ImportFrom):
        module = names.module or ""
        fix = _instead(module)
        if module in language.MODULES:
            fix = f"Write `import {module}`, and use `{module}.{names.names[0].name}`."
        yield subject.violation(ID, names, "{} imports names.", fix)
    for alias in subject.nodes(ast.alias):
        statement = subject.scope.parent[alias]
        if isinstance(statement, ast.ImportFrom):
            continue
        if alias.name not in language.MODULES:
            yield subject.violation(
                ID,
                statement,
                f"The import of `{alias.name}` is not allowed.",
                _instead(alias.name),
            )
        elif alias.asname is not None:
            yield subject.violation(ID, statement, "{} gives the module another name.", f"Write `import {alias.name}`.")


def _instead(module: str) -> str:
    """What to write instead of an import."""
    return language.IMPORTS.get(module.split(".")[0], language.ONLY)


def _foreign(subject: Subject, node: ast.Attribute) -> str | None:
    """What to write instead of a member of something that is imported and can't be, None if it isn't one."""
    root: ast.expr = node.value
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id in language.MODULES:
        return None
    names = {alias.asname or alias.name.split(".")[0]: alias.name for alias in subject.nodes(ast.alias)}
    module = names.get(root.id, root.id if root.id in language.IMPORTS else None)
    if module is None or not _module(subject, root):
        return None
    return language.FOREIGN.get(f"{module}.{node.attr}", _instead(module if root.id in names else root.id))


def _attribute(subject: Subject, node: ast.Attribute) -> Iterator[Violation]:
    name = node.attr
    value = node.value
    if name.startswith("_"):
        yield subject.violation(
            ID, node, f"The attribute `{name}` is not part of the language.", "Use the value's own keys and methods."
        )
        return
    if isinstance(value, ast.Name):
        if value.id == "ctx":
            return
        if value.id in language.MODULES and _module(subject, value):
            yield from _member(subject, node, value.id)
            return
        if value.id in ("dict", "str", "list", "int", "float", "set", "tuple", "bytes", "type", "frozenset", "bool"):
            if subject.scope.bindings(value) is None:
                if (value.id, name) != ("dict", "fromkeys"):
                    yield subject.violation(
                        ID,
                        node,
                        "{} is a method of a class, not of a value.",
                        f"Write `value.{name}(...)`, or `lambda x: x.{name}()` where a function is wanted.",
                    )
                return
    parent = subject.scope.parent[node]
    called = isinstance(parent, ast.Call) and parent.func is node
    if name in language.DATA:
        if not isinstance(node.ctx, ast.Load):
            yield subject.violation(ID, node, "{} is changed.", "Raise a new `CapabilityError(code, message)`.")
    elif name in language.METHODS:
        if not called:
            what = f"{value.id}.{name}" if isinstance(value, ast.Name) else name
            yield subject.violation(
                ID,
                node,
                "{} is a method that isn't called where it stands.",
                f"Write `lambda x: {what}(x)` where a function is wanted, or call it.",
            )
    elif name in METHODS and not called:
        yield subject.violation(ID, node, "{} is no attribute that a value has.", 'Write `value["' + name + '"]`.')
    elif (instead := _foreign(subject, node)) is not None:
        yield subject.violation(ID, node, "{} is not part of the language.", instead)
    else:
        what, fix = language.ATTRIBUTES.get(
            name,
            (f"The attribute `{name}` is not part of the language.", f'For a key of a dict write `value["{name}"]`.'),
        )
        yield subject.violation(ID, node, what, fix)


def _module(subject: Subject, name: ast.Name) -> bool:
    bound = subject.scope.bindings(name)
    return bound is None or bound == [None] * len(bound)


def _member(subject: Subject, node: ast.Attribute, module: str) -> Iterator[Violation]:
    if node.attr not in language.MODULES[module]:
        what, fix = language.MEMBERS.get(
            f"{module}.{node.attr}", (f"`{module}.{node.attr}` is not part of the language.", language.PLAIN)
        )
        yield subject.violation(ID, node, what, fix)
    elif not isinstance(node.ctx, ast.Load):
        yield subject.violation(ID, node, "{} changes a module.", "Use a variable.")


def _call(subject: Subject, call: ast.Call) -> Iterator[Violation]:
    func = call.func
    for keyword in call.keywords:
        if keyword.arg is None and subject.scope.ctx_call(call) is not None:
            yield subject.violation(ID, call, "{} passes names that aren't written here.", "Write the arguments out.")
    if isinstance(func, ast.Attribute):
        yield from _method_call(subject, call, func)
    elif isinstance(func, ast.Name) and subject.scope.bindings(func) is None:
        if func.id == "type" and (len(call.args) != 1 or call.keywords):
            yield subject.violation(ID, call, "{} makes a class.", "Use a dict.")
        elif func.id == "iter" and len(call.args) != 1:
            yield subject.violation(ID, call, "{} calls a function until it returns a marker.", "Write a `for` loop.")
        elif func.id in ("map", "filter") and call.args and isinstance(call.args[0], ast.Attribute):
            pass  # the attribute rule names it


def _method_call(subject: Subject, call: ast.Call, func: ast.Attribute) -> Iterator[Violation]:
    name = func.attr
    if name in _ONE or name == "update":
        yield from _other_sets(subject, call, name)
    if name == "format":
        yield from _format(subject, call, func)
    elif isinstance(func.value, ast.Name) and func.value.id == "json" and _module(subject, func.value):
        for keyword in call.keywords:
            if keyword.arg not in language.JSON_KEYWORDS:
                yield subject.violation(
                    ID,
                    keyword.value,
                    f"`json.{name}` doesn't take `{keyword.arg}` on every backend.",
                    "Convert the values before, and pass only `indent`, `sort_keys`, `ensure_ascii` or `separators`.",
                )
    elif name == "sub" and call.args:
        at = 1 if isinstance(func.value, ast.Name) and func.value.id == "re" else 0
        if len(call.args) > at and _callable(subject, call.args[at]):
            yield subject.violation(
                ID, call.args[at], "{} is a function as a replacement.", "Loop over `re.finditer` and join the parts."
            )
    elif name in ("start", "end", "span") and call.args and isinstance(call.args[0], ast.Constant):
        if isinstance(call.args[0].value, str):
            yield subject.violation(ID, call, "{} asks for a group by name.", "Give the group's number.")


_ONE: Final = frozenset({"union", "intersection", "difference", "symmetric_difference"})
"""Methods of sets that take one other, and no more, on every backend."""


def _other_sets(subject: Subject, call: ast.Call, name: str) -> Iterator[Violation]:
    starred = any(isinstance(part, ast.Starred) for part in call.args)
    if starred or len(call.args) > 1 or (name in _ONE and not call.args):
        yield subject.violation(
            ID,
            call,
            f"`{name}` takes one set or list on every backend, {{}} gives it another number.",
            f"Call `{name}` once for each.",
        )


def _callable(subject: Subject, node: ast.expr) -> bool:
    if isinstance(node, ast.Lambda):
        return True
    if isinstance(node, ast.Name):
        bound = subject.scope.bindings(node)
        return bool(bound) and any(isinstance(value, Function | ast.Lambda) for value in bound or ())
    return False


def _format(subject: Subject, call: ast.Call, func: ast.Attribute) -> Iterator[Violation]:
    """`"literal".format(...)`, or that of a constant that is a literal, with plain fields only."""
    text = text_of(subject, func.value)
    if text is None:
        yield subject.violation(
            ID,
            call,
            "{} formats a text that is neither a literal nor a constant.",
            "Write an f-string, or `replace` the placeholders.",
        )
        return
    if not language.plain_format(text):
        yield subject.violation(
            ID, call, "{} reaches into a value from a format string.", "Write an f-string with the value itself."
        )


def _definitions(subject: Subject) -> Iterator[Violation]:
    for function in subject.scope.functions:
        for decorator in function.node.decorator_list:
            yield subject.violation(
                ID,
                decorator,
                f"`@{subject.text(decorator)}` decorates `{function.name}`.",
                f"Call it where it is needed: `wrapped = {subject.text(decorator)}({function.name})`.",
            )
        home = subject.scope.frames[function.node].home(function.name)
        bound = home.bindings.get(function.name, []) if home is not None else []
        if bound and bound[0] is not function and function.name != "orchestrate":
            yield subject.violation(
                ID,
                function.node,
                f"`{function.name}` is defined more than once.",
                "Give each function its own name.",
            )
        if getattr(function.node, "type_params", None):
            yield subject.violation(
                ID, function.node, "Type parameters are not part of the language.", "Leave them out."
            )
    for generator in subject.nodes(ast.comprehension):
        if generator.is_async:
            yield subject.violation(
                ID,
                generator.iter,
                "An async comprehension is not part of the language.",
                "Write `for` without `async`.",
            )


def _patterns(subject: Subject) -> Iterator[Violation]:
    for pattern in subject.nodes(ast.MatchClass):
        plain = isinstance(pattern.cls, ast.Name) and pattern.cls.id in language.PATTERN_CLASSES
        if not plain or pattern.kwd_attrs or len(pattern.patterns) > 1:
            yield subject.violation(
                ID,
                pattern,
                "{} reads attributes of a value.",
                'Match on a literal, a list, a dict such as `{"kind": kind}`, or use `isinstance`.',
            )
