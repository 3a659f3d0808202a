"""Programs that put texts, numbers, None and containers into each other, take them out again, and ask what they got.

Each question has a capability of its own, so that a branch or a loop that the analysis takes for impossible, or for
shorter than it is, shows as soon as one run gets there.
"""

from __future__ import annotations

from random import Random

from lines import Lines

_SCALARS = (
    *("''", "'a'", "'bb'", "'cccc'", "'a b'", "None", "True", "False"),
    *("0", "1", "2", "3", "5", "-1", "0.5", "2.0", "2.5", "99.5", "-0.5"),
)
_KEYS = ("'a'", "'bb'", "'cccc'", "0", "1", "2", "2.0", "None")
_ERRORS = "(TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, UnboundLocalError)"
_HEAD = """WORDS = ["aaa", "b", 3]
SHARE = 0.5


def keep(value, other="dddd"):
    return value


def either(value, other=2):
    if value:
        return value
    return other


def named(**more):
    return more


async def later(value="ee", item=None, index=0):
    return value


async def orchestrate(ctx, args):
    box = []
    table = {}
"""


class _Mixed(Lines):
    def __init__(self, random: Random) -> None:
        super().__init__(random, statements=random.randrange(4, 16))

    def value(self, names: list[str], depth: int = 0) -> str:
        """A scalar, a variable, data, or a container of these."""
        roll = self.random.random()
        if roll < 0.4 or depth > 2:
            return self.pick(*_SCALARS)
        if roll < 0.65 and names:
            return self.pick(*names)
        if roll < 0.7:
            return self.pick("args['t']", "args['m']", "args['l'][:2]", "WORDS", "SHARE", "box", "table")
        parts = [self.value(names, depth + 1) for _ in range(self.random.randrange(0 if depth else 1, 4))]
        if roll < 0.83:
            return f"[{', '.join(parts)}]"
        if roll < 0.9:
            return f"({''.join(part + ', ' for part in parts)})"
        return "{" + ", ".join(f"{self.pick(*_KEYS)}: {part}" for part in parts) + "}"

    def many(self, names: list[str]) -> str:
        """A container, often a variable that may be none."""
        if names and self.random.random() < 0.5:
            return self.pick(*names)
        parts = [self.value(names, 1) for _ in range(self.random.randrange(1, 4))]
        return self.pick(f"[{', '.join(parts)}]", f"({', '.join(parts)},)", f"dict(a={parts[0]}, bb={parts[-1]})")

    def taken(self, names: list[str]) -> str:
        """Something taken out of, or made of, something else."""
        xs, v, w = self.many(names), self.value(names), self.value(names)
        k = self.pick("0", "1", "-1", "args['k']", "'a'", "args['n']", "'bb'")
        return self.pick(
            f"{xs}[{k}]",
            f"{xs}[args['n']]",
            f"{xs}[{self.pick('1:', ':1', ':2', '-1:', ':args[chr(110)]', '::2', '::-1')}]",
            f"{xs}.get({k}, {v})",
            f"{xs}.get({k})",
            f"{xs}.pop()",
            f"{xs}.pop({self.pick('0', k)})",
            f"{self.pick('min', 'max')}({xs}{self.pick('', ', key=str', ', key=str', ', default=3')})",
            f"{self.pick('min', 'max')}({v}, {w}{self.pick('', '', ', key=str')})",
            f"{v} {self.pick('+', '+', '*', '-', '/', '//', '%', '**', '|', '&')} {w}",
            f"{v} {self.pick('+', '-', '*', '/', '//', '%')} {self.pick('1', '2', '0.5')}",
            f"-{self.pick(*names)}" if names else "-1",
            f"{self.pick('list', 'tuple', 'sorted', 'reversed', 'set', 'dict', 'sum')}({xs})",
            f"sorted({xs}, key=str)",
            f"list(reversed({xs}))",
            f"{self.pick('abs', 'int', 'round', 'str', 'float', 'bool', 'len', 'keep', 'either')}({v})",
            f"{self.pick('keep', 'either')}({v}, {w})",
            f"round({v}, {self.pick('1', '-1')})",
            f"list({xs}.{self.pick('items', 'keys', 'values')}())",
            f"list({self.pick('enumerate', 'keep')}({xs}))",
            f"list(zip({xs}, {self.many(names)}))",
            f"list(map({self.pick('keep', 'either', 'str', 'lambda q: q')}, {xs}))",
            f"list(filter({self.pick('None', 'lambda q: q != 1')}, {xs}))",
            f"dict.fromkeys({xs}, {v})",
            f"[q for q in {xs}]",
            f"[q for q in {xs} if q]",
            f"[r for q in {xs} for r in q]",
            f"{{q: {v} for q in {xs}}}",
            f"{{str(q): q for q in {xs}}}",
            f"[*{xs}, {v}]",
            f"{{**{xs}, {self.pick(*_KEYS)}: {v}}}",
            f"named(a={v}, bbb={w})",
            f"named(**{xs})",
            f"keep(*{xs})",
            f"{v} if args['flag'] else {w}",
            f"{v} {self.pick('or', 'and')} {w}",
            f"{v}.{self.pick('split()', 'rsplit(None, 1)', 'splitlines()', 'upper()', 'partition(chr(32))', 'copy()')}",
            "'a b cc'.split()",
            f"str({v})[:{self.pick('2', '3')}]",
            f"f'{{{self.pick(*names)}}}'[:3]" if names else "f'{args}'[:2]",
            f"', '.join([str(q) for q in {xs}])[:4]",
            f"await later({v})",
            f"await ctx.parallel([later({v}), later({w})])",
            f"await ctx.parallel([later(q) for q in {xs}])",
            f"await ctx.pipeline({xs}, later)",
            "(await ctx.dag({'a': (later, []), 'bbb': (later, ['a'])}))",
            f"{v}.{self.pick('count', 'find', 'index')}({self.pick(chr(39) * 2, repr('a'), w)})",
        )

    def question(self, names: list[str]) -> tuple[str, bool]:
        """What is asked of a value, and whether the answer is a loop."""
        v = self.pick(*names) if names else self.value(names)
        w = self.value(names, 2)
        kind = self.pick("int", "float", "(int, float)", "str", "(list, tuple)", "dict")
        op = self.pick("<", ">", "<=", ">=", "==", "!=")
        n = self.pick("0", "1", "2", "3", "4")
        loop = self.pick(
            f"for _ in {v}:",
            f"for _ in {v}:",
            f"for _ in {v}[:3]:",
            f"for _ in range({v}):",
            f"for _ in range(int({v})):",
            f"for _ in range(len({v})):",
            f"for _ in range({v}, 4):",
            f"for _ in range(0, {v}, 2):",
            f"for _, _ in enumerate({v}):",
            f"for _ in zip({v}, {w}):",
        )
        test = self.pick(
            f"if {v} {op} {n}:",
            f"if {v} {op} {w}:",
            f"if len({v}) {op} {n}:",
            f"if not len({v}) {op} {n}:",
            f"if 0 < {v} < 1:",
            f"if {v}:",
            f"if not {v}:",
            f"if {v} is {self.pick('None', 'not None', 'True', 'not True')}:",
            f"if {v} == {w}:",
            f"if {v} != {w}:",
            f"if isinstance({v}, {kind}) and {v} {op} {n}:",
            f"if isinstance({v}, {kind}) and not {v}:",
            f"if {v} and {v} {op} {n}:",
            f"if {v} {op} {n} or {w}:",
            f"if {v} + 1 {op} {n}:",
        )
        return (loop, True) if self.random.random() < 0.45 else (test, False)

    def ask(self, indent: int, names: list[str]) -> None:
        if self.random.random() < 0.9:
            self.emit(indent, "try:")
            self._asked(indent + 1, names)
            self.emit(indent, f"except {_ERRORS}:")
            self.emit(indent + 1, "pass")
        else:
            self._asked(indent, names)

    def _asked(self, indent: int, names: list[str]) -> None:
        head, loop = self.question(names)
        self.emit(indent, head)
        if not loop and self.random.random() < 0.4:
            self._asked(indent + 1, names)
        else:
            self.emit(indent + 1, f"await ctx.run('c.{self.fresh('a')}', {{}})")
        if not loop and self.random.random() < 0.5:
            self.emit(indent, "else:")
            self.emit(indent + 1, f"await ctx.run('c.{self.fresh('a')}', {{}})")

    def change(self, indent: int, names: list[str]) -> None:
        """Something is bound, or changed in place."""
        v, w = self.value(names), self.value(names)
        old = self.pick("box", "table", *names)
        text = self.pick(
            f"box.append({v})",
            f"box.extend({self.many(names)})",
            f"box.insert(0, {v})",
            f"box += {self.many(names)}",
            f"table[{self.pick(*_KEYS)}] = {v}",
            f"table[{self.pick(*_KEYS, *names)}] = {v}",
            f"table.update({self.many(names)})",
            f"table |= {self.many(names)}",
            f"table.setdefault({self.pick(*_KEYS)}, {v})",
            f"{old} {self.pick('+', '*', '-', '|')}= {self.pick(v, '1', '2', '0.5')}",
            f"{old} = {v}",
            f"{old}.append({v})",
            f"{old}[{self.pick('0', '-1', repr('a'))}] = {w}",
        )
        self.emit(indent, "try:")
        self.emit(indent + 1, text)
        self.emit(indent, f"except {_ERRORS}:")
        self.emit(indent + 1, "pass")

    def bind(self, indent: int, names: list[str]) -> None:
        """Something is taken out and gets a name."""
        name = self.fresh("v")
        out = self.taken(names)
        target = self.pick(name, name, name, f"{name}, *_", f"*_, {name}", f"{name}, _")
        if self.random.random() < 0.93:
            self.emit(indent, f"{name} = {self.value(names)}")
            self.emit(indent, "try:")
            self.emit(indent + 1, f"{target} = {out}")
            self.emit(indent, f"except {_ERRORS}:")
            self.emit(indent + 1, "pass")
        else:
            self.emit(indent, f"{name} = {out}")
        names.append(name)

    def closure(self, indent: int, names: list[str]) -> None:
        """A function that binds or reads a variable of this one, and calls of it."""
        name, held, out = self.fresh("f"), self.pick(*names), self.fresh("v")
        self.emit(indent, f"def {name}(q={self.value(names)}):")
        if self.random.random() < 0.6:
            self.emit(indent + 1, f"nonlocal {held}")
            self.emit(indent + 1, f"{held} = {self.pick('q', f'[{held}, q]', 'q or 3', f'{held} or q')}")
        self.emit(indent + 1, f"return {held}")
        self.emit(indent, f"{out} = 1")
        self.emit(indent, "try:")
        self.emit(indent + 1, f"{out} = {name}({self.pick('', self.value(names), self.value(names))})")
        self.emit(indent + 1, self.pick(f"{name}({self.value(names)})", "pass"))
        self.emit(indent, f"except {_ERRORS}:")
        self.emit(indent + 1, "pass")
        names.append(out)

    def counter(self, indent: int, names: list[str], depth: int) -> None:
        """A loop that counts, by whole numbers or not."""
        name, start = self.fresh("n"), self.pick("0", "0", "0.5", "-1", self.value(names, 2))
        by = self.pick("1", "1", "2", "0.5", "1.5", self.value(names, 2))
        up = self.random.random() < 0.6
        head = self.pick(
            f"while {name} {self.pick('<', '<=', '!=') if up else self.pick('>', '>=', '!=')} {self.pick('2', '3')}:",
            "for _ in range(3):",
            "for _ in range(2):",
        )
        self.emit(indent, "try:")
        self.emit(indent + 1, f"{name} = {start if up else self.pick('3', '4', '3.5')}")
        self.emit(indent + 1, head)
        self.emit(indent + 2, f"{name} {'+' if up else '-'}= {by}")
        inner = [*names, name]
        for _ in range(self.random.randrange(1, 3)):
            self.statement(indent + 2, inner, depth + 1)
        self.emit(indent, f"except {_ERRORS}:")
        self.emit(indent + 1, "pass")
        names.append(name)

    def cases(self, indent: int, names: list[str]) -> None:
        """A `match` that binds what it finds."""
        self.emit(indent, f"match {self.pick(*names)}:")
        patterns = ["None", "str() as q", "[q, *_]", "{'a': q}", "1 | 2 as q", "(q, r)", "True as q", "0.5 as q"]
        for pattern in self.random.sample(patterns, 2):
            self.emit(indent + 1, f"case {pattern}:")
            self.ask(indent + 2, [*names, "q"])
        self.emit(indent + 1, "case q:")
        self.ask(indent + 2, [*names, "q", "q"])

    def statement(self, indent: int, names: list[str], depth: int) -> None:
        self.left -= 1
        if names and self.random.random() < 0.15:
            form = self.random.randrange(3)
            if form == 0:
                self.closure(indent, names)
            elif form == 1:
                self.cases(indent, names)
            elif depth < 3:
                self.counter(indent, names, depth)
            return
        roll = self.random.random()
        if roll < 0.3:
            self.bind(indent, names)
        elif roll < 0.6 or depth > 2:
            self.ask(indent, names)
        elif roll < 0.75:
            self.change(indent, names)
        else:
            name, other = self.fresh("x"), self.fresh("y")
            xs = self.many(names)
            head, more = self.random.choice(
                [
                    (f"for {name} in {xs}:", [name]),
                    (f"for {name} in {xs}:", [name]),
                    (f"for {name}, {other} in {xs}.items():", [name, other]),
                    (f"for {name} in {xs}.values():", [name]),
                    (f"for {name}, {other} in enumerate({xs}):", [name, other]),
                    (f"for {name}, {other} in zip({xs}, {self.many(names)}):", [name, other]),
                    (f"for {name} in reversed({xs}):", [name]),
                    (f"for {name} in sorted({xs}, key=str):", [name]),
                    (f"for {name} in range({self.random.randrange(1, 4)}):", [name]),
                    (f"if args['flag'] or {self.value(names)}:", []),
                    ("if args['flag']:", []),
                ]
            )
            guarded = self.random.random() < 0.9
            if guarded:
                self.emit(indent, "try:")
                indent += 1
            self.emit(indent, head)
            inner = [*names, *more]
            for _ in range(self.random.randrange(1, 4)):
                self.statement(indent + 1, inner, depth + 1)
            if guarded:
                self.emit(indent - 1, f"except {_ERRORS}:")
                self.emit(indent, "pass")


def mixed(random: Random) -> str:
    """A program whose values are of several kinds at once."""
    writer = _Mixed(random)
    names: list[str] = []
    while writer.left > 0:
        writer.statement(1, names, 0)
    return _HEAD + "\n".join(writer.lines) + "\n    return 1\n"
