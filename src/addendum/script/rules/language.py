"""The lists behind R10: what of Python is allowed, and what to write instead of the rest.

Measured against the embedded interpreter and CPython (reference on the sandbox, section 9): a name is here only if it
means the same on both.
"""

from __future__ import annotations

import ast
import string
from typing import Final

from addendum.script.rules.r11_stops import CATCHABLE

PLAIN: Final = "Use plain functions, lists and dicts."

ALLOWED: Final[frozenset[type[ast.AST]]] = frozenset(
    {
        *(ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Return, ast.Assign, ast.AugAssign),
        *(ast.AnnAssign, ast.For, ast.While, ast.If, ast.Try, ast.Raise, ast.Assert, ast.Expr, ast.Pass, ast.Break),
        *(ast.Continue, ast.Import, ast.Nonlocal, ast.Match, ast.match_case, ast.MatchValue, ast.MatchSingleton),
        *(ast.MatchSequence, ast.MatchMapping, ast.MatchStar, ast.MatchAs, ast.MatchOr, ast.MatchClass, ast.BoolOp),
        *(ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Dict, ast.Set, ast.ListComp, ast.SetComp),
        *(ast.DictComp, ast.GeneratorExp, ast.Await, ast.Compare, ast.Call, ast.FormattedValue, ast.JoinedStr),
        *(ast.Constant, ast.Attribute, ast.Subscript, ast.Starred, ast.Name, ast.List, ast.Tuple, ast.Slice),
        *(ast.ExceptHandler, ast.arguments, ast.arg, ast.keyword, ast.alias, ast.comprehension),
    }
)

ELSEWHERE: Final[frozenset[type[ast.AST]]] = frozenset({ast.ImportFrom, ast.withitem})
"""What is refused in words of its own, or as a part of what is."""

REFUSED: Final[dict[str, tuple[str, str]]] = {
    "ClassDef": ("{} defines a class.", 'Use a dict for data, and `raise ValueError("...")` for an own error.'),
    "Yield": ("{} makes a generator.", "Collect the values in a list and return it."),
    "YieldFrom": ("{} makes a generator.", "Collect the values in a list and return it."),
    "With": ("{} uses a context manager.", "Leave it out: the host holds all resources."),
    "AsyncWith": ("{} uses a context manager.", "Leave it out: the host holds all resources."),
    "AsyncFor": ("{} walks an async iterator.", "Await the list first, then write `for` without `async`."),
    "Global": ("{} changes module state.", "Pass values as arguments and return them, or use `nonlocal`."),
    "Delete": ("{} deletes.", "Use `pop`, or make a new list or dict without the entry."),
    "TryStar": ("{} handles exception groups.", "Write `except` without the star."),
    "TypeAlias": ("{} defines a type.", "Leave it out."),
    "TemplateStr": ("{} is a template string.", "Write an f-string."),
}

BUILTINS: Final = CATCHABLE | {
    *("abs", "all", "any", "bin", "bool", "chr", "dict", "divmod", "enumerate", "filter", "float", "format"),
    *("frozenset", "hex", "int", "isinstance", "iter", "len", "list", "map", "max", "min", "next", "oct", "ord"),
    *("pow", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip"),
}
"""Names that a script may use without defining them."""

GUEST: Final = frozenset({"asyncio", "csv", "ctx", "args"})
"""Names that the sandbox's own code uses in the script's namespace."""

PATTERN_CLASSES: Final = frozenset({"str", "int", "float", "bool", "list", "dict", "tuple"})

_FRAMES = "It reaches into the interpreter."
UNKNOWN: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(("eval", "exec", "compile"), ("{} runs code that isn't written here.", "Write the code out.")),
    **dict.fromkeys(
        ("globals", "locals", "vars", "dir", "__import__", "breakpoint", "help", "memoryview"),
        ("{} reaches into the interpreter.", "Use variables and dicts."),
    ),
    **dict.fromkeys(
        ("getattr", "setattr", "delattr", "hasattr"),
        ("{} reads attributes by name.", 'Use a dict: `value.get("name")`, `"name" in value`.'),
    ),
    "print": ("{} is not part of the language.", 'Write `ctx.log("text")`.'),
    "callable": ("{} is not part of the language.", "Decide by an argument which function to call."),
    "issubclass": ("{} is not part of the language.", "Use `isinstance`."),
    "super": ("{} needs a class.", PLAIN),
    "property": ("{} needs a class.", PLAIN),
    **dict.fromkeys(("bytes", "bytearray"), ("{} is no JSON value.", "Use text.")),
    "complex": ("{} is no JSON value.", "Use two numbers."),
    "ascii": ("{} is not part of the language.", "Use `repr`, or `json.dumps`."),
    **dict.fromkeys(("open", "input"), ("{} reads a file or a terminal.", "Pass the text in `args`.")),
    **dict.fromkeys(("id", "hash", "object"), ("{} differs from run to run.", "Use the value itself.")),
    **dict.fromkeys(
        ("BaseException", "SystemExit", "KeyboardInterrupt", "GeneratorExit"),
        ("{} is a stop, not an error.", "Use `CapabilityError` or `ValueError`."),
    ),
    **dict.fromkeys(
        ("OSError", "IOError", "ConnectionError", "PermissionError", "FileNotFoundError", "StopIteration", "EOFError"),
        ("{} is no exception of the language.", "Use `CapabilityError`, `ValueError`, `KeyError` or `RuntimeError`."),
    ),
    **dict.fromkeys(
        ("Any", "Dict", "List", "Optional", "Tuple", "Union", "Callable"),
        ("{} is not defined.", "Leave the annotation out, or write `dict`, `list`, `str | None`."),
    ),
    **dict.fromkeys(("exit", "quit"), ("{} ends the interpreter.", "Write `return` in `orchestrate`.")),
}

IMPORTS: Final[dict[str, str]] = {
    "asyncio": "Leave it out; `ctx.parallel`, `ctx.race` and `ctx.sleep` do what it would.",
    "typing": "Leave it out; annotations need no import.",
    "__future__": "Leave it out.",
    "collections": "Use a dict: `counts[k] = counts.get(k, 0) + 1`, `groups.setdefault(k, []).append(v)`.",
    "itertools": "Write the loops or a comprehension out.",
    "functools": "Write a lambda or a function.",
    "dataclasses": "Use a dict.",
    "enum": "Use constants.",
    **dict.fromkeys(("time", "datetime"), "Leave it out; write `await ctx.now()`."),
    **dict.fromkeys(("random", "secrets"), "Leave it out; write `await ctx.random()`."),
    "uuid": "Leave it out; write `await ctx.uuid()`.",
    "logging": 'Leave it out; write `ctx.log("text")`.',
    "copy": "Copy with `list(x)`, `dict(x)` or `{**x}`.",
    "statistics": "Compute it: `sum(xs) / len(xs)`.",
    "string": "Write the characters out.",
    "textwrap": "Use slices and `splitlines`.",
    "heapq": "Use `sorted`.",
}

ONLY: Final = "Only `import json`, `import math` and `import re` are."

FOREIGN: Final[dict[str, str]] = {
    **dict.fromkeys(("asyncio.gather", "asyncio.wait", "asyncio.as_completed"), "Write `await ctx.parallel([...])`."),
    **dict.fromkeys(("asyncio.create_task", "asyncio.ensure_future"), "Write `await ctx.parallel([...])`."),
    "asyncio.TaskGroup": "Write `await ctx.parallel([...])`.",
    **dict.fromkeys(("asyncio.sleep", "time.sleep"), "Write `await ctx.sleep(seconds)`."),
    "asyncio.run": "Leave it out: the host calls `orchestrate`.",
    **dict.fromkeys(("os.environ", "os.getenv", "sys.argv"), "Pass what is needed in `args`."),
}
"""Members of modules that can't be imported, with what to write instead; the others as for the import."""

DATA: Final = frozenset({"code", "message", "retryable"})
"""Attributes that are read: those of a `CapabilityError`."""

METHODS: Final = frozenset(
    {
        *("append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"),
        *("fromkeys", "get", "items", "keys", "popitem", "setdefault", "update", "values"),
        *("add", "discard", "difference", "intersection", "isdisjoint", "issubset", "issuperset"),
        *("symmetric_difference", "union"),
        *("capitalize", "casefold", "center", "encode", "endswith", "expandtabs", "find", "format", "isalnum"),
        *("isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable"),
        *("isspace", "istitle", "isupper", "join", "ljust", "lower", "lstrip", "partition", "removeprefix"),
        *("removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split"),
        *("splitlines", "startswith", "strip", "swapcase", "title", "upper", "zfill", "decode"),
        *("match", "search", "fullmatch", "findall", "finditer", "sub", "group", "groups", "groupdict"),
        *("start", "end", "span"),
    }
)
"""Methods of texts, lists, dicts, sets, patterns and matches, in call position."""

_TRACE = "Use `str(error)`, or `error.code`, `error.message` and `error.retryable` of a `CapabilityError`."
ATTRIBUTES: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(
        ("args", "with_traceback", "add_note", "obj", "name", "exceptions", "errno", "strerror", "value", "msg"),
        ("{} is no attribute that every backend has.", _TRACE + ' For a key of a dict write `value["key"]`.'),
    ),
    **dict.fromkeys(("format_map",), ("{} reaches into a value from a format string.", "Write an f-string.")),
    **dict.fromkeys(
        ("translate", "maketrans"), ("{} is not on every backend.", "Use `replace`, or join a comprehension.")
    ),
    **dict.fromkeys(
        ("intersection_update", "difference_update", "symmetric_difference_update"),
        ("{} is not on every backend.", "Assign the result of `&`, `-` or `^`."),
    ),
    **dict.fromkeys(
        ("is_integer", "bit_length", "bit_count", "as_integer_ratio", "to_bytes", "hex", "fromhex", "real", "imag"),
        ("{} is a method of a number, which not every backend has.", "Compute it: `x == int(x)`."),
    ),
    **dict.fromkeys(
        ("gi_frame", "gi_code", "cr_frame", "cr_code", "ag_frame", "f_globals", "f_locals", "f_back", "tb_frame"),
        ("{} reaches a frame of the interpreter.", "Use variables."),
    ),
    **dict.fromkeys(("send", "throw", "close"), ("{} drives a coroutine or generator by hand.", "Await it.")),
    **dict.fromkeys(("run",), ("{} is not a call of `ctx`.", "Name the parameter `ctx`.")),
}

MODULES: Final[dict[str, frozenset[str]]] = {
    "json": frozenset({"dumps", "loads", "JSONDecodeError"}),
    "math": frozenset(
        {
            *("pi", "e", "tau", "inf", "nan", "floor", "ceil", "trunc", "sqrt", "log", "log2", "log10", "exp", "pow"),
            *("isnan", "isinf", "isfinite", "isclose", "gcd", "lcm", "prod", "fsum", "hypot", "factorial", "comb"),
            *("perm", "fabs", "copysign", "degrees", "radians", "sin", "cos", "tan", "dist"),
        }
    ),
    "re": frozenset(
        {
            *("match", "search", "fullmatch", "findall", "finditer", "sub", "split", "compile", "escape", "error"),
            *("IGNORECASE", "MULTILINE", "DOTALL", "I", "M", "S"),
        }
    ),
}
"""The modules that may be imported, and what of them may be used."""

MEMBERS: Final[dict[str, tuple[str, str]]] = {
    "json.dump": ("{} writes a file.", "Write `json.dumps(value)`."),
    "json.load": ("{} reads a file.", "Write `json.loads(text)`."),
    "re.VERBOSE": ("{} is not on every backend.", "Write the pattern on one line."),
    "re.X": ("{} is not on every backend.", "Write the pattern on one line."),
    "re.subn": ("{} is not on every backend.", "Write `re.sub`."),
}

JSON_KEYWORDS: Final = frozenset({"indent", "sort_keys", "ensure_ascii", "separators"})


def reserved(name: str) -> str | None:
    """Say for whom a name is reserved, None when it is free. `name` is as the parser normalised it (NFKC)."""
    if name[:1] != "_":
        return None
    if name == "_site":
        return "the host"
    if name.startswith("__"):
        return "the interpreter"
    if name.startswith(("_wf", "_host")):
        return "the sandbox"
    return None


def plain_format(text: str, depth: int = 0) -> bool:
    """Whether a format string only inserts its arguments: no attribute, no subscript, in nested fields neither."""
    if depth > 3:
        return False
    try:
        for _, name, spec, conversion in string.Formatter().parse(text):
            if name is not None and ("." in name or "[" in name or "_" in name[:1]):
                return False
            if conversion is not None and conversion not in ("r", "s"):
                return False
            if spec and not plain_format(spec, depth + 1):
                return False
    except ValueError:
        return False
    return True
