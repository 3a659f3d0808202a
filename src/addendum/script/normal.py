"""Normal text of syntax trees: what fingerprints are taken of (DESIGN section 3).

Two expressions have the same normal text when they differ only in what can't change a payload: formatting,
comments, quotes, parentheses, number spelling, implicit concatenation, pieces of f-strings, and the order of
keyword arguments and of constant keys when every value is free of effects. The text is the same on every
supported Python: it is written from an allowlist of fields, constants by value and type, never from `ast.dump`
(whose output differs between versions).

The text is an S-expression. A name stands between \\x01 and \\x02, which no other part of a text contains, so
that a function's own name can be abstracted by a plain replacement (see `without`).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from addendum.errors import UsageError
from addendum.script.scope import FunctionNode


def digest(text: str) -> str:
    """Return the SHA-256 of a normal text, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def without(text: str, name: str) -> str:
    """Return a normal text in which the uses of one name are abstracted."""
    return text.replace(f"\x01{name}\x02", "\x01\x02")


def constant(value: object) -> str:
    """Return the normal text of a constant: its type and value, independent of spelling and Unicode version."""
    if value.__class__ is str:
        return ascii(value)
    if value is None or value is True or value is False or value is Ellipsis:
        return f"({value})"
    if isinstance(value, int):
        return f"i{value:x}"  # decimal digits of long integers have a limit
    return f"{value.__class__.__name__[0]}{value!r}"  # float, complex, bytes


class _Table(dict[type[ast.AST], Callable[[Any], str]]):
    """How each node type is written, by the methods of its owner; any other type isn't part of the language."""

    def __init__(self, owner: Normal) -> None:
        super().__init__()
        self.owner = owner

    def __missing__(self, kind: type[ast.AST]) -> Callable[[Any], str]:
        if kind in _METHODS:
            found: Callable[[Any], str] = getattr(self.owner, _METHODS[kind])
            self[kind] = found
            return found
        raise UsageError(f"{kind.__name__} is not part of the script language.", hint="Write it as plain Python 3.11.")


class Normal:
    """Writes nodes. A subclass may override a method to take note of the nodes it passes.

    `effects` counts the calls, awaits, walruses, stars and yields written so far: what stands between two
    readings of it is free of effects when they are equal.
    """

    def __init__(self) -> None:
        self.effects = 0
        self.table = _Table(self)

    def text(self, node: ast.AST) -> str:
        """Return the normal text of a node."""
        return self.table[node.__class__](node)

    def texts(self, nodes: Iterable[ast.AST]) -> str:
        """Return the normal texts of nodes, as a list."""
        table = self.table
        return f"[{' '.join([table[node.__class__](node) for node in nodes])}]"

    def optional(self, node: ast.AST | None) -> str:
        """Return the normal text of a node that may be missing."""
        return "-" if node is None else self.table[node.__class__](node)

    # --- expressions --------------------------------------------------------------------------------------------

    def name(self, node: ast.Name) -> str:
        return f"\x01{node.id}\x02"

    def constant(self, node: ast.Constant) -> str:
        value = node.value
        return ascii(value) if value.__class__ is str else constant(value)

    def attribute(self, node: ast.Attribute) -> str:
        return f"(.{node.attr} {self.table[node.value.__class__](node.value)})"

    def subscript(self, node: ast.Subscript) -> str:
        table = self.table
        return f"(sub {table[node.value.__class__](node.value)} {table[node.slice.__class__](node.slice)})"

    def call(self, node: ast.Call) -> str:
        table = self.table
        func = table[node.func.__class__](node.func)
        args = [table[arg.__class__](arg) for arg in node.args]
        before = self.effects
        keywords = [f"{word.arg}={table[word.value.__class__](word.value)}" for word in node.keywords]
        if len(keywords) > 1 and self.effects == before and all(word.arg for word in node.keywords):
            keywords.sort()
        self.effects += 1
        return f"(call {func} [{' '.join(args)}] [{' '.join(keywords)}])"

    def mapping(self, node: ast.Dict) -> str:
        table = self.table
        before = self.effects
        entries = [
            f"{'**' if key is None else table[key.__class__](key)}:{table[value.__class__](value)}"
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        if None in node.keys:
            self.effects += 1
        elif len(entries) > 1 and self.effects == before and _distinct(node.keys):
            entries.sort()
        return f"(dict {' '.join(entries)})"

    def joined(self, node: ast.JoinedStr) -> str:
        return self.pieces(node.values)

    def pieces(self, values: Sequence[ast.expr]) -> str:
        """Return the normal text of an f-string: neighbouring constants are one, empty ones are dropped."""
        parts: list[str] = []
        plain = ""
        for value in values:
            if isinstance(value, ast.Constant):
                plain += str(value.value)
                continue
            if plain:
                parts.append(ascii(plain))
                plain = ""
            parts.append(self.table[value.__class__](value))
        if not parts:
            return ascii(plain)
        if plain:
            parts.append(ascii(plain))
        return f"(f {' '.join(parts)})"

    def formatted(self, node: ast.FormattedValue) -> str:
        value = self.table[node.value.__class__](node.value)
        spec = self.pieces(node.format_spec.values) if isinstance(node.format_spec, ast.JoinedStr) else "''"
        return f"({node.conversion} {value} {spec})"

    def binary(self, node: ast.BinOp) -> str:
        table = self.table
        left, right = table[node.left.__class__](node.left), table[node.right.__class__](node.right)
        return f"({node.op.__class__.__name__} {left} {right})"

    def boolean(self, node: ast.BoolOp) -> str:
        values: list[ast.expr] = []
        for value in node.values:  # `(a and b) and c` is `a and b and c`
            same = isinstance(value, ast.BoolOp) and value.op.__class__ is node.op.__class__
            values += value.values if same else [value]  # type: ignore[attr-defined]
        return f"({node.op.__class__.__name__} {self.texts(values)})"

    def unary(self, node: ast.UnaryOp) -> str:
        return f"({node.op.__class__.__name__} {self.text(node.operand)})"

    def compare(self, node: ast.Compare) -> str:
        ops = " ".join([op.__class__.__name__ for op in node.ops])
        return f"({ops} {self.text(node.left)} {self.texts(node.comparators)})"

    def listed(self, node: ast.List) -> str:
        return f"(list {self.texts(node.elts)})"

    def tupled(self, node: ast.Tuple) -> str:
        return f"(tuple {self.texts(node.elts)})"

    def effect(self, node: ast.AST) -> str:
        """Write what has an effect, or hides one: await, walrus, star, yield."""
        self.effects += 1
        return self.plain(node)

    def lambda_(self, node: ast.Lambda) -> str:
        return f"(lambda {self.arguments(node.args)} {self.text(node.body)})"

    def arguments(self, node: ast.arguments) -> str:
        """Write parameters: names, kinds and defaults; annotations change nothing."""
        names = [" ".join([arg.arg for arg in args]) for args in (node.posonlyargs, node.args, node.kwonlyargs)]
        stars = [star.arg if star else "" for star in (node.vararg, node.kwarg)]
        defaults = " ".join([self.optional(default) for default in (*node.defaults, *node.kw_defaults)])
        return f"({names[0]}/{names[1]}*{stars[0]} {names[2]}**{stars[1]} [{defaults}])"

    # --- statements ---------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> str:
        """Return the normal text of the statements of one block."""
        table = self.table
        return f"[{' '.join([table[statement.__class__](statement) for statement in body])}]"

    def expression(self, node: ast.Expr) -> str:
        return self.table[node.value.__class__](node.value)

    def assign(self, node: ast.Assign) -> str:
        return f"(= {self.texts(node.targets)} {self.text(node.value)})"

    def annotated(self, node: ast.AnnAssign) -> str:
        target = self.text(node.target)
        return f"(= [{target}] {self.text(node.value)})" if node.value is not None else f"(local {target})"

    def return_(self, node: ast.Return) -> str:
        return f"(return {self.optional(node.value)})"

    def if_(self, node: ast.If) -> str:
        return f"(if {self.text(node.test)} {self.block(node.body)} {self.block(node.orelse)})"

    def for_(self, node: ast.For | ast.AsyncFor) -> str:
        head = f"{node.__class__.__name__} {self.text(node.target)} {self.text(node.iter)}"
        return f"({head} {self.block(node.body)} {self.block(node.orelse)})"

    def while_(self, node: ast.While) -> str:
        return f"(while {self.text(node.test)} {self.block(node.body)} {self.block(node.orelse)})"

    def try_(self, node: ast.Try) -> str:
        body, handlers = self.block(node.body), " ".join([self.handler(handler) for handler in node.handlers])
        rest = f"{self.block(node.orelse)} {self.block(node.finalbody)}"
        return f"({node.__class__.__name__} {body} [{handlers}] {rest})"

    def handler(self, node: ast.ExceptHandler) -> str:
        return f"({self.optional(node.type)} {node.name or '-'} {self.block(node.body)})"

    def match(self, node: ast.Match) -> str:
        return f"(match {self.text(node.subject)} {' '.join([self.case(case) for case in node.cases])})"

    def case(self, node: ast.match_case) -> str:
        return f"({self.text(node.pattern)} {self.optional(node.guard)} {self.block(node.body)})"

    def function(self, node: FunctionNode) -> str:
        return f"(def {node.name} ({self.head(node)} {self.body(node)}))"

    def head(self, node: FunctionNode) -> str:
        """Return the normal text of what is evaluated where a function is defined, without its name."""
        return f"{node.__class__.__name__} {self.texts(node.decorator_list)} {self.arguments(node.args)}"

    def body(self, node: FunctionNode) -> str:
        """Return the normal text of a function's statements; a docstring changes nothing."""
        return self.block(body_of(node))

    # --- everything else ----------------------------------------------------------------------------------------

    def plain(self, node: ast.AST) -> str:
        """Write a node by the fields that the allowlist names."""
        parts = [node.__class__.__name__]
        for field in _FIELDS[node.__class__]:
            value = getattr(node, field)
            if isinstance(value, ast.AST):
                parts.append(self.text(value))
            elif value.__class__ is list:
                parts.append(f"[{' '.join([self.text(v) if isinstance(v, ast.AST) else str(v) for v in value])}]")
            else:
                parts.append("-" if value is None else str(value))
        return f"({' '.join(parts)})"


def body_of(node: FunctionNode) -> Sequence[ast.stmt]:
    """Return a function's statements without its docstring."""
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return node.body[1:]
    return node.body


def _distinct(keys: Sequence[ast.expr | None]) -> bool:
    """Whether keys are constants and no two are equal (`1`, `1.0` and `True` are)."""
    values = {key.value for key in keys if isinstance(key, ast.Constant)}
    return len(values) == len(keys)


_EFFECTS: Final[dict[type[ast.AST], tuple[str, ...]]] = {
    ast.Await: ("value",),
    ast.NamedExpr: ("target", "value"),
    ast.Starred: ("value",),
    ast.Yield: ("value",),
    ast.YieldFrom: ("value",),
}
_FIELDS: Final[dict[type[ast.AST], tuple[str, ...]]] = {
    **_EFFECTS,
    ast.IfExp: ("test", "body", "orelse"),
    ast.Set: ("elts",),
    ast.Slice: ("lower", "upper", "step"),
    ast.ListComp: ("elt", "generators"),
    ast.SetComp: ("elt", "generators"),
    ast.GeneratorExp: ("elt", "generators"),
    ast.DictComp: ("key", "value", "generators"),
    ast.comprehension: ("is_async", "target", "iter", "ifs"),
    ast.AugAssign: ("target", "op", "value"),
    ast.Raise: ("exc", "cause"),
    ast.Assert: ("test", "msg"),
    ast.Delete: ("targets",),
    ast.Pass: (),
    ast.Break: (),
    ast.Continue: (),
    ast.Global: ("names",),
    ast.Nonlocal: ("names",),
    ast.Import: ("names",),
    ast.ImportFrom: ("module", "names", "level"),
    ast.alias: ("name", "asname"),
    ast.With: ("items", "body"),
    ast.AsyncWith: ("items", "body"),
    ast.withitem: ("context_expr", "optional_vars"),
    ast.ClassDef: ("name", "bases", "keywords", "body", "decorator_list"),
    ast.keyword: ("arg", "value"),
    ast.MatchValue: ("value",),
    ast.MatchSingleton: ("value",),
    ast.MatchSequence: ("patterns",),
    ast.MatchMapping: ("keys", "patterns", "rest"),
    ast.MatchClass: ("cls", "patterns", "kwd_attrs", "kwd_patterns"),
    ast.MatchStar: ("name",),
    ast.MatchAs: ("pattern", "name"),
    ast.MatchOr: ("patterns",),
    **{kind: () for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.operator)},
}
_METHODS: Final[dict[type[ast.AST], str]] = {
    **dict.fromkeys(_FIELDS, "plain"),
    **dict.fromkeys(_EFFECTS, "effect"),
    ast.Name: "name",
    ast.Constant: "constant",
    ast.Attribute: "attribute",
    ast.Subscript: "subscript",
    ast.Call: "call",
    ast.Dict: "mapping",
    ast.JoinedStr: "joined",
    ast.FormattedValue: "formatted",
    ast.BinOp: "binary",
    ast.BoolOp: "boolean",
    ast.UnaryOp: "unary",
    ast.Compare: "compare",
    ast.List: "listed",
    ast.Tuple: "tupled",
    ast.Lambda: "lambda_",
    ast.Expr: "expression",
    ast.Assign: "assign",
    ast.AnnAssign: "annotated",
    ast.Return: "return_",
    ast.If: "if_",
    ast.For: "for_",
    ast.AsyncFor: "for_",
    ast.While: "while_",
    ast.Try: "try_",
    ast.TryStar: "try_",
    ast.Match: "match",
    ast.FunctionDef: "function",
    ast.AsyncFunctionDef: "function",
}
