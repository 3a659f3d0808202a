"""Patterns and replacements of `re` that mean the same to every interpreter (part of R10).

The embedded interpreter has an engine of its own. It has what scripts use, but the end of a text, matches of nothing,
sets of characters and the escapes of a replacement are other than in CPython. Patterns that are put together from data
are looked at as far as they are written in the source.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from addendum.script.report import Violation
from addendum.script.rules.literals import text_of
from addendum.script.rules.subject import Subject

_PATTERNED: Final = frozenset({"match", "search", "fullmatch", "findall", "finditer", "sub", "split", "compile"})
_ALL: Final = frozenset({"findall", "finditer", "sub", "split", "compile"})
"""Functions that go on behind a match of nothing, and what they may be methods of."""
_SEEKING: Final = frozenset({"match", "search", "fullmatch", "findall", "finditer"})
"""Methods of a pattern that take the text, and on some backends nothing else."""
_SETS: Final = ("&&", "--", "~~", "||")
_REPLACED: Final = re.compile(r"\\(?!\\|g<|[1-9](?!\d)).?|\\\\", re.DOTALL)
_UNKNOWN: Final = "x"
_WHOLE = "Write `re.fullmatch(...)` on the stripped text, or `(?![\\s\\S])` for its very end."


def check(subject: Subject) -> Iterator[Violation]:
    """Yield each pattern, replacement and call of `re` that the interpreters read in different ways."""
    if not any(alias.name == "re" for node in subject.nodes(ast.Import) for alias in node.names):
        return  # there are no patterns either
    for call in subject.nodes(ast.Call):
        func = call.func
        if not isinstance(func, ast.Attribute):
            continue
        if isinstance(func.value, ast.Name) and func.value.id == "re" and subject.scope.bindings(func.value) == [None]:
            yield from _function(subject, call, func.attr)
        elif func.attr in _SEEKING and (len(call.args) > 1 or call.keywords):
            what = "{} gives a pattern more than a text, or gives it by name."
            yield _here(subject, call, what, "Cut the text with a slice, and pass it alone.")
        elif func.attr == "groups" and (call.args or call.keywords):
            yield _here(subject, call, "{} gives `groups` a default.", "Write `[g or default for g in m.groups()]`.")
        elif func.attr == "sub":
            replacement = call.args[0] if call.args else {each.arg: each.value for each in call.keywords}.get("repl")
            if replacement is not None:
                yield from _replacement(subject, replacement)


def _function(subject: Subject, call: ast.Call, name: str) -> Iterator[Violation]:
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    pattern = call.args[0] if call.args else named.get("pattern")
    if name in _PATTERNED and pattern is not None:
        lined = any(_by_lines(subject, value) for value in (*call.args[1:], *named.values()))
        yield from _pattern(subject, pattern, name, lined=lined)
    replacement = call.args[1] if len(call.args) > 1 else named.get("repl")
    if name == "sub" and replacement is not None:
        yield from _replacement(subject, replacement)


def _by_lines(subject: Subject, flags: ast.expr) -> bool:
    """Whether flags say that `$` is the end of each line, or a constant among them does."""
    parts = list(ast.walk(flags))
    for name in [part for part in parts if isinstance(part, ast.Name)]:
        bound = subject.scope.bindings(name)
        if bound is not None and len(bound) == 1 and isinstance(bound[0], ast.expr):
            parts += ast.walk(bound[0])
    return any(isinstance(part, ast.Attribute) and part.attr in ("M", "MULTILINE") for part in parts)


def _pattern(subject: Subject, node: ast.expr, function: str, *, lined: bool) -> Iterator[Violation]:
    text = text_of(subject, node)
    whole = text is not None
    text = text_of(subject, node, _UNKNOWN) if text is None else text
    if text is None:
        return
    for message, fix in _odd_letters(text):
        yield _here(subject, node, message, fix)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
            parsed = _parser.parse(text)
    except (re.error, RecursionError, OverflowError) as error:
        if whole:
            yield _here(subject, node, f"{{}} is no pattern: {error}.", "Write one that Python's `re` takes.")
        return
    if parsed.state.flags & (re.ASCII | re.LOCALE):
        yield _here(subject, node, "{} has a flag that isn't on every backend.", "Write `[A-Za-z0-9_]` for `\\w`.")
    ends = {str(what) for name, what in _parts(parsed) if name == "AT"}
    if "AT_END_STRING" in ends and function != "fullmatch":
        yield _here(subject, node, "`\\Z` in {} is not the same place on every backend.", _WHOLE)
    if "AT_END" in ends and function != "fullmatch" and not (lined or parsed.state.flags & re.MULTILINE):
        what = "`$` in {} is before a last line break on some backends, and behind it on others."
        yield _here(subject, node, what, _WHOLE)
    if whole and _hollow(parsed):
        what = (
            "A group in {} is repeated though it may match nothing, and what it is at last is not the same everywhere."
        )
        yield _here(subject, node, what, "Let what is repeated match something, or write `(?:...)` for its groups.")
    least, most = parsed.getwidth()
    if whole and function in _ALL and not least and most:
        what = "{} matches nothing as well as something, and what follows a match isn't the same on every backend."
        yield _here(subject, node, what, "Write `+` for `*`, or `{1,n}` for `{0,n}`, so that it matches something.")


def _odd_letters(text: str) -> Iterator[tuple[str, str]]:
    """Escapes and sets of characters that not every engine has, in a pattern."""
    inside = False
    at = 0
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            if text[at + 1 : at + 2] in ("0", "N") or _OCTAL.match(text, at):
                yield f"`{text[at : at + 2]}` in {{}} is not on every backend.", "Write `\\xhh` or the letter itself."
            elif not inside and text[at + 1 : at + 2] in ("<", ">"):
                yield _EDGE
            at += 2
            continue
        if not inside and letter == "[":
            inside = True
            at += 2 if text[at + 1 : at + 2] != "^" else 3  # what stands first in a set is a member of it
            if text[at - 1 : at] == "\\":
                at += 1
            elif text[at - 1 : at] == "[" or text[at - 1 : at + 1] in (*_SETS, "]-"):
                yield _SET
            continue
        if inside and letter == "]":
            inside = False
        elif inside and (letter == "[" or text[at : at + 2] in _SETS):
            yield _SET
            at += 1
        at += 1


_OCTAL: Final = re.compile(r"\\[1-3][0-7]{2}")
_SET: Final = (
    "A set of characters in {} has `[`, `&&`, `--`, `~~` or `||`, which is another set on some backends.",
    "Escape it with a backslash: `\\[`.",
)
_EDGE: Final = (
    "`\\<` or `\\>` in {} is the edge of a word on some backends.",
    "Write `<` and `>` without a backslash, or `\\b` for the edge of a word.",
)


def _parts(parsed: Any) -> Iterator[tuple[str, Any]]:
    """Yield every part of a parsed pattern: what it is called, and what is in it."""
    todo = [parsed]
    while todo:
        part = todo.pop()
        if not isinstance(part, _parser.SubPattern | list | tuple):
            continue
        if len(part) == 2 and isinstance(part[0], type(_parser.AT)):
            yield str(part[0]), part[1]
        todo += list(part)


def _hollow(parsed: Any) -> bool:
    """Whether something with a group is repeated that may match nothing: engines go round once more, or they don't."""
    for name, inside in _parts(parsed):
        if name not in ("MAX_REPEAT", "MIN_REPEAT"):
            continue
        _, most, body = inside
        grouped = any(each == "SUBPATTERN" and below[0] is not None for each, below in _parts(body))
        if most > 1 and grouped and not body.getwidth()[0]:
            return True
    return False


def _replacement(subject: Subject, node: ast.expr) -> Iterator[Violation]:
    """`re.sub(pattern, "literal", text)`: groups by their number or name, and no other escape."""
    text = text_of(subject, node, _UNKNOWN)
    found = next((part for part in _REPLACED.findall(text or "") if part != "\\\\"), None)
    if found is not None:
        yield _here(
            subject,
            node,
            f"`{found}` in the replacement {{}} is not the same on every backend.",
            'Write the letter itself, as in "\\n", and a group as `\\1` or `\\g<1>`.',
        )


def _here(subject: Subject, node: ast.AST, message: str, fix: str) -> Violation:
    return subject.violation("R10", node, message, fix)
