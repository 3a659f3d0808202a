"""Programs of what Python has for every day: closures, defaults, `finally`, `match`, walrus, views, strides, unpacking.

Expressions are templates that are filled in: `@N` is a number, `@L` a list, `@C` a condition, `@I` and `@V` the names
of numbers and lists, `@S` a stride, `@K` a key.
"""

from __future__ import annotations

import re
from random import Random

from lines import Lines

_NUMBERS = (
    *("@N + @N", "@N - @N", "(@N) * 2", "(@N) // @S", "(@N) % @S", "len(@L)", "min(@N, 3)", "max(@N, @N)", "abs(@N)"),
    *("min(args['n'], 3)", "sum([1, @N])", "(@N if @C else @N)", "sum(1 for q in @L if q)", "divmod(@N, 3)[0]"),
    *("len(str(@N))", "int(@C)", "d.get(@K, @N)", "round(@N / 2)", "(@L).count(@N)", "sum(@V[:2])", "len(d)"),
    *("max(@L, default=@N)", "min(@L or [1])", "int(str(@N))", "(@N or @N)", "(@N and @N)", "-(@N)", "(n := @N)"),
    *("next(iter(@L), @N)", "(@L)[@S]", "(@N % 5) ** 2", "(lambda q, r=@N: q + r)(@N)"),
)
_LISTS = (
    *("(@L)[@N:]", "(@L)[:@N]", "(@L)[::@S]", "(@L)[@N:@N:@S]", "(@L)[@N:][:@N]", "sorted(@L, key=lambda q: -q)"),
    *("sorted(@L, key=str)", "list(zip(@L, @L))", "[a for a, b in zip(@L, @L)]", "[i for i, b in enumerate(@L, @N)]"),
    *("[*@L, @N]", "@L + @L", "list(d)", "list(d.values())", "list(d.keys())", "[k for k, v in d.items()]"),
    *("[q for q in @L if q]", "[q + 1 for q in @L if isinstance(q, int)]", "[q for q in @L for _ in @L]"),
    *(
        "list(range(min(@N, 6)))",
        "list(range(max(-5, @N), min(@N, 6), @S))",
        "list(reversed(@L))",
        "[@N, @N]",
        "list(map(lambda q: q, @L))",
    ),
    *(
        "list(filter(None, @L))",
        "list(dict.fromkeys(@L))",
        "[@N] * min(@N, 4)",
        "list(@L)",
        "(@L).copy()",
        "list(@L or @L)",
    ),
    *(
        "[@N for _ in range(min(@N, 5))]",
        "sorted(set(@L))",
        "[q for p in [@L, @L] for q in p]",
        "list({q: 1 for q in @L})",
    ),
    *("(@L if @C else @L)", "(xs := (@L)[:6])", "[1 // q for q in @L]", "list(tuple(@L))", "[@L, @L][@N]"),
    *("[q for q in @L if (n := n + 1) < 3]", "[r for q in [@L] for r in q[:@N]]", "(lambda *q: list(q))(*@L)"),
    *("list(dict(zip(@L, @L)))", "list(dict(enumerate(@L)).values())"),
)
_CONDITIONS = (
    *("args['f']", "args['g']", "@N < @N", "@N < @N <= @N", "@N == @N", "@N != @N", "not @V", "@V", "len(@V) > @N"),
    *("len(@V) < 3 and @I < 2", "len(@V) != 2 and @I > 1", "len(@V) == 1 or @I != 2", "@N in @V", "all(@V)"),
    *("any(q for q in @V)", "(n := n + 1) < 3", "@I is None", "not (@I > 2 or @I < 0)", "0 <= @I < 2"),
    *("(q := @N) and q < 3", "@I not in (1, 2)", "1 < len(xs) < 4", "(m := m - 1) > 0"),
)
_SIMPLE = (
    *("@I = @N", "@I += @N", "@I -= 1", "@I += 1", "@X = (@L)[:9]", "@X.append(@N)", "@X = @X[1:]", "@X += (@L)[:4]"),
    *("d[@N] = @N", "d.setdefault(@N, 1)", "d.pop(@N, None)", "@X.extend((@L)[:4])", "xs, ys = ys, xs", "@X.pop()"),
    *("n, *ys = [@N, *(@L)[:5]]", "@X.insert(0, @N)", "@I = @X[0]", "d = {q: q for q in @L}", "d = {**d, @N: 1}"),
    *("@X[0] = @N", "@X[:1] = (@L)[:3]", "@X.sort(key=str)", "@X = [1, *@X, 2]", "@X.remove(@N)"),
)
_HEADS = (
    *("for @F in @L:", "for @F in range(@N):", "for @F, _ in enumerate(@L):", "for @F, _ in zip(@L, @L):"),
    *("for @F in d:", "for @F in d.values():", "for @F, _ in d.items():", "for @F in reversed(@L):", "while @C:"),
    *("for @F in range(@N, @N, @S):", "for @F in (@L)[::@S]:", "while @C:", "while @C:"),
)
_PATTERNS = ("1", "0 | 2", "[]", "[_]", "[@F, *_]", "[_, *@F]", "{}", "None", "True", "@F if @C")
_ERRORS = ("CapabilityError", "(IndexError, KeyError, ValueError)", "Exception", "ZeroDivisionError")
_HEAD = """LIM = 3


async def orchestrate(ctx, args):
    n, m = 0, 2
    xs = [1, 2]
    ys = [0]
    d = {1: 1, "a": 2}
"""


class _Everyday(Lines):
    def __init__(self, random: Random) -> None:
        super().__init__(random, statements=random.randrange(6, 18))
        self.numbers = ["n", "m"]
        self.lists = ["xs", "ys", "args['l'][:4]"]
        self.helpers: list[tuple[str, bool, int]] = []

    def filled(self, template: str, depth: int = 0) -> str:
        """The template with something in its places."""

        def part(found: re.Match[str]) -> str:
            match found[1]:
                case "N":
                    return self.made(_NUMBERS, ("0", "1", "2", "3", "-1", "LIM"), self.numbers, depth + 1)
                case "L":
                    return self.made(_LISTS, self.lists, self.lists, depth + 1)
                case "C":
                    return self.made(_CONDITIONS, ("args['f']", "args['g']", "n", "xs"), ["args['f']"], depth + 1)
                case "I":
                    return self.pick(*self.numbers)
                case "V":
                    return self.pick(*self.lists)
                case "X":
                    return self.pick("xs", "ys")
                case "S":
                    return self.pick("1", "2", "-1", "3", "-2")
                case "K":
                    return self.pick("1", "2", "'a'")
                case _:
                    return self.fresh("i")

        return re.sub("@([A-Z])", part, template)

    def made(self, templates: tuple[str, ...], plain: tuple[str, ...] | list[str], names: list[str], depth: int) -> str:
        roll = self.random.random()
        if roll < 0.3 or depth > 2:
            return self.pick(*plain)
        return self.pick(*names) if roll < 0.55 else self.filled(self.pick(*templates), depth)

    def line(self, indent: int, *templates: str) -> None:
        self.emit(indent, self.filled(self.pick(*templates)))

    def call(self, indent: int) -> None:
        ways = ["await ctx.run('a.x', {})", "await ctx.run('b.x', {})"]
        for name, is_async, takes in self.helpers:
            awaited = "await " if is_async else ""
            ways += [f"{awaited}{name}({'@N' if takes else ''})"] * 2
            ways += [f"{awaited}{name}(*[@N])", f"{awaited}{name}(k=@N)"] if takes else []
        self.line(indent, *ways)

    def block(self, indent: int, loop: bool, inside: bool, depth: int) -> None:
        for _ in range(self.random.randrange(1, 4)):
            if self.left <= 0:
                break
            self.statement(indent, loop, inside, depth)
        if self.random.random() < 0.5 or self.left <= 0:
            self.call(indent)
        self.emit(indent, "n += 0")

    def statement(self, indent: int, loop: bool, inside: bool, depth: int) -> None:
        self.left -= 1
        roll = self.random.random()
        if roll < 0.25 or depth > 3:
            self.line(indent, *_SIMPLE)
        elif roll < 0.37:
            self.call(indent)
        elif roll < 0.47:
            self.line(indent, "if @C:")
            self.block(indent + 1, loop, inside, depth + 1)
            if self.random.random() < 0.5:
                self.line(indent, "elif @C:", "else:", "else:")
                self.block(indent + 1, loop, inside, depth + 1)
        elif roll < 0.55:
            self.attempt(indent, loop, inside, depth)
        elif roll < 0.61:
            self.line(indent, "match @N:", "match @L:", "match d:")
            for _ in range(self.random.randrange(1, 3)):
                self.line(indent + 1, *[f"case {pattern}:" for pattern in _PATTERNS])
                self.block(indent + 2, loop, inside, depth + 2)
            self.emit(indent + 1, "case _:")
            self.block(indent + 2, loop, inside, depth + 2)
        elif roll < 0.66 and loop:
            self.line(indent, "if @C: break", "if @C: continue")
        elif roll < 0.70 and inside:
            self.line(indent, "if @C: return @N")
        elif roll < 0.78 and depth < 3:
            self.helper(indent, depth)
        elif roll < 0.85:
            branches = "[ctx.run('a.x', {}) for _ in @L]", "[ctx.run('b.x', {}) for q in @L if @C]"
            walked = (
                "ys = [(await ctx.run('a.x', {}))['ok'] for q in @L]",
                "n = len([await ctx.run('b.x', {}) for q in @L])",
            )
            self.line(indent, *[f"await ctx.parallel({each}, return_errors=True)" for each in branches], *walked)
        else:
            self.line(indent, *_HEADS)
            self.block(indent + 1, True, inside, depth + 1)
            if self.random.random() < 0.25:
                self.emit(indent, "else:")
                self.block(indent + 1, loop, inside, depth + 1)

    def attempt(self, indent: int, loop: bool, inside: bool, depth: int) -> None:
        self.emit(indent, "try:")
        self.block(indent + 1, loop, inside, depth + 1)
        caught = self.random.random() < 0.7
        if caught:
            self.emit(indent, f"except {self.pick(*_ERRORS)}:")
            self.block(indent + 1, loop, inside, depth + 1)
            if self.random.random() < 0.3:
                self.emit(indent, "else:")
                self.block(indent + 1, loop, inside, depth + 1)
        if not caught or self.random.random() < 0.4:
            self.emit(indent, "finally:")
            self.line(indent + 1, *_SIMPLE)
            if self.random.random() < 0.3:
                self.line(indent + 1, "if @C: n = 0", "if @C: m += 1", "if @C: xs = []")

    def helper(self, indent: int, depth: int) -> None:
        name, is_async, takes = self.fresh("h"), self.random.random() < 0.75, self.random.randrange(2)
        given = self.filled(self.pick("k", "k=@N")) if takes else self.pick("", "*k", "xs=xs")
        own = {"n": self.pick("0", "k" if takes else "1"), "m": "2", "xs": "[1]", "ys": "[1, 2]", "d": "{1: 1}"}
        outer = [
            name for name in self.pick("", "n", "m", "xs", "n xs", "d", "n ys").split() if not given.startswith(name)
        ]
        self.emit(indent, f"{'async ' if is_async else ''}def {name}({given}):")
        if outer:
            self.emit(indent + 1, f"nonlocal {', '.join(outer)}")
        for variable, first in own.items():
            if variable not in outer and not given.startswith(variable):
                self.emit(indent + 1, f"{variable} = {first}")
        before = self.numbers, self.lists
        self.numbers = [*self.numbers, "k"] if takes else self.numbers
        self.lists = [*self.lists, "k"] if given == "*k" else self.lists
        if is_async:
            self.block(indent + 1, False, True, depth + 2)
        else:
            self.line(indent + 1, *_SIMPLE)
        self.line(indent + 1, "return @N")
        self.numbers, self.lists = before
        self.helpers.append((name, is_async, takes))


def everyday(random: Random) -> str:
    """A program of all of these; some have no bound."""
    writer = _Everyday(random)
    while writer.left > 0:
        writer.statement(1, False, True, 0)
    return _HEAD + "\n".join(writer.lines) + "\n    return 1\n"
