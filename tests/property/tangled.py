"""Programs that change things in the middle: of a test, of a statement that fails, of a walk, of a fan-out.

What is read is small most of the time, so that a change that the analysis overlooks shows in the number of calls.
"""

from __future__ import annotations

from random import Random

from lines import Lines

_HEAD = """async def orchestrate(ctx, args):
    xs = [[1], [1]]
    ys = [1]
    d = {"a": [1]}
    n = 0
    m = 1
    t = "ab"
    jobs = []
    p = (0, 1)

    def bump(by=1):
        nonlocal n
        n += by
        return n

    def put(value=1):
        ys.append(value)
        return len(ys)

    def take():
        return ys.pop()

    async def later(by=1):
        nonlocal n, m
        n = by
        await ctx.run("c.w", {})
        n = m
        return n

    async def one(value=1, item=None, index=0):
        await ctx.run("c.o", {})
        return value

    def make(value):
        held = [value]

        def more():
            held.append(1)
            return held

        return more

"""
_ERRORS = "(TypeError, ValueError, KeyError, IndexError, CapabilityError)"


class _Tangled(Lines):
    def __init__(self, random: Random) -> None:
        super().__init__(random, statements=random.randrange(3, 11))

    def small(self) -> str:
        return self.pick("0", "1", "2", "3", "n", "m", "args['n']", "len(ys)", "min(n, 2)", "1.5", "len(t)")

    def items(self) -> str:
        return self.pick(
            *("xs", "ys", "d", "d.values()", "d.items()", "t", "t[1:]", "p", "xs[0]", "xs[-1]", "d['a']", "ys[:2]"),
            *("enumerate(xs)", "zip(xs, ys)", "reversed(xs)", "list(map(len, xs))", "range(n)", "range(min(n, 3))"),
            *("d.get('b', [1, 2])", "ys + ys", "t + 'xy'", "args['l'][:2]", "[*ys, *xs]", "range(int('2'))"),
            *("list(d.values())[0]", "{**d, 'c': 1}", "make(1)()", "[q for q in xs if q]", "range(len(t) * 2)"),
        )

    def effect(self) -> str:
        """An expression that changes something."""
        return self.pick(
            *(
                "bump()",
                "bump(3)",
                "put()",
                "take()",
                "(n := n + 1)",
                "(m := 2)",
                "(n := 0)",
                "ys.append(1)",
                "ys.pop()",
            ),
            *(
                "xs.append([1, 2])",
                "d.setdefault('b', [1, 2, 3])",
                "d.pop('b', 0)",
                "xs[0].append(1)",
                "d.update(z=[1])",
            ),
        )

    def test(self) -> str:
        left = self.pick("n", "m", "len(ys)", "len(xs)", "len(d)", "len(t)", "n + 1", "(n := n + 1)", "bump()", "put()")
        plain = f"{left} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.small()}"
        return self.pick(
            *(plain, plain, plain, f"not {left} < 2", "not ys", "ys", "args['flag']", f"{plain} and {self.effect()}"),
            *(
                f"{self.effect()} and {plain}",
                f"{plain} or {self.effect()}",
                f"n < {self.effect()}",
                f"0 <= n < {self.small()}",
            ),
            f"not ({plain} and {self.effect()})",
        )

    def change(self) -> str:
        return self.pick(
            *(
                "n += 1",
                "n -= 1",
                "m = n",
                "n = 4",
                "n = 0",
                "t += 'z'",
                "t = t[1:]",
                "t = t[:3] * 2",
                "ys += [1]",
                "xs[0] = [1, 2, 3]",
            ),
            *(
                "xs[1] = [1]",
                "d['b'] = [1, 2, 3]",
                "d['a'] = [1]",
                "d['a'] = xs[0]",
                "ys = list(ys)",
                "args['q'] = xs",
                "p = (n, n + 2)",
            ),
            *(
                "args['q'][0] = [1, 2, 3, 4]",
                "xs, ys = [[2]], xs",
                "p = (*p, 1)",
                "jobs.append(one(n))",
                "jobs = []",
                "m = 0.5",
            ),
            f"m = {self.small()} if {self.test()} else {self.small()}",
            f"ys = [{self.effect()} for q in ys[:3]]",
            f"ys = ys[p[0]:p[1]] or [{self.small()}]",
            self.effect(),
        )

    def call(self) -> str:
        return f"await ctx.run('c.{self.pick('a', 'b', 'c')}', {{}})"

    def statement(self, indent: int, depth: int, loop: bool) -> None:
        self.left -= 1
        roll = self.random.random()
        if depth > 2 or roll < 0.3:
            self.emit(indent, self.change())
        elif roll < 0.45:
            self.emit(indent, f"for {self.fresh('i')} in {self.items()}:")
            self.emit(indent + 1, self.call())
            if self.random.random() < 0.4:
                self.statement(indent + 1, depth + 1, True)
        elif roll < 0.6:
            self.emit(indent, f"if {self.test()}:")
            self.block(indent + 1, depth + 1, loop)
            if self.random.random() < 0.4:
                self.emit(indent, "else:")
                self.block(indent + 1, depth + 1, loop)
        elif roll < 0.75:
            self.attempt(indent, depth, loop)
        elif roll < 0.87:
            name = self.fresh("k")
            self.emit(indent, f"for {name} in {self.pick('range(3)', 'range(2)', self.items())}:")
            self.block(indent + 1, depth + 1, True)
            if self.random.random() < 0.5:
                self.emit(indent + 1, f"for {self.fresh('i')} in {self.pick(name, self.items())}:")
                self.emit(indent + 2, self.call())
            if self.random.random() < 0.2:
                self.emit(indent, "else:")
                self.emit(indent + 1, self.change())
        elif roll < 0.94:
            self.fan(indent)
        elif loop:
            self.emit(indent, f"if {self.test()}: {self.pick('break', 'continue')}")
        else:
            self.emit(indent, f"while {self.test()}:")
            self.emit(indent + 1, self.pick("n += 1", "m += 1", self.call()))
            self.block(indent + 1, depth + 1, True)

    def attempt(self, indent: int, depth: int, loop: bool) -> None:
        """A statement that fails after it has changed something, and what is done then."""
        self.emit(indent, "try:")
        if self.random.random() < 0.5:
            self.emit(
                indent + 1,
                f"_ = ({self.effect()}, int({self.pick(chr(39) + 'x' + chr(39), 'args[chr(110)]')}), {self.effect()})",
            )
        self.block(indent + 1, depth + 1, loop)
        self.emit(indent, f"except {_ERRORS}:")
        self.block(indent + 1, depth + 1, loop)
        if self.random.random() < 0.3:
            self.emit(indent, "finally:")
            self.emit(indent + 1, self.pick("n += 1", "m = 2", "ys = [1]", "pass"))

    def fan(self, indent: int) -> None:
        self.emit(
            indent,
            self.pick(
                "await ctx.parallel(jobs)",
                "await ctx.parallel([later(4), later(2)], return_errors=True)",
                "await ctx.parallel([later(3)], return_errors=True)",
                "await ctx.parallel([one(q) for q in ys])",
                "await ctx.race([later(2), one()])",
                "await ctx.pipeline(ys, one)",
                "jobs = [one(q) for q in range(2)]",
            ),
        )

    def block(self, indent: int, depth: int, loop: bool) -> None:
        for _ in range(self.random.randrange(1, 3)):
            self.statement(indent, depth, loop)


def tangled(random: Random) -> str:
    """A program that changes what it reads."""
    writer = _Tangled(random)
    while writer.left > 0:
        writer.statement(1, 0, False)
    writer.emit(1, f"for z in {writer.items()}:")
    writer.emit(2, writer.call())
    return _HEAD + "\n".join(writer.lines) + "\n    return 1\n"
