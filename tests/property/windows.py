"""Programs that walk parts of lists: windows, rests, strides, pairs, lists that get shorter, helpers with an index.

Which part is walked depends on the indexes of the loops around and on data, so that a part that is taken for shorter,
or for another part of the same whole, shows as soon as one run walks it.
"""

from __future__ import annotations

from random import Random

from lines import Lines

_HEAD = """async def orchestrate(ctx, args):
    n = 0
    xs = [1, 2, 3, 4, 5, 6]
    ys = [1, 2, 3]
    zs = [0]
    part = []

    async def sub(k):
        for _ in range(k, 5):
            await ctx.run("a.b", {})
        for _ in xs[k:k + 2]:
            await ctx.run("c.d", {})

    async def walk(q):
        nonlocal n
        n += 1
        for _ in q:
            await ctx.run("a.b", {})

"""


class _Windows(Lines):
    def __init__(self, random: Random) -> None:
        super().__init__(random, statements=random.randrange(5, 14))

    def index(self, indexes: list[str]) -> str:
        """A number, most often made of a loop's index."""
        if not indexes:
            return self.pick("0", "1", "2")
        i, k = self.pick(*indexes), self.random.randrange(4)
        more = (f"max(0, {i} - 1)", f"len(xs) - {i}", f"min({i}, 3)")
        return self.pick(i, i, f"{i} + 1", f"{i} + {k}", f"{i} - {k}", f"{i} * 2", f"2 * {i} + 1", *more)

    def sequence(self, indexes: list[str]) -> str:
        """A part of a list, or a range."""
        xs, a, k = self.pick("xs", "ys", "args['l'][:7]", "zs"), self.index(indexes), self.random.randrange(1, 5)
        end, step, by = (
            self.pick("6", "len(xs)", "len(ys)", "9"),
            self.pick("1", "2", "3"),
            self.pick("", " + 1", " - 1"),
        )
        return self.pick(
            *("part", f"range({k})", f"range({a})", f"range({a}, {end})", f"range({a}, {end}, {step})"),
            *(
                f"{xs}[{a}:]",
                f"{xs}[{a}:{a} + {k}]",
                f"{xs}[:{k}]",
                f"list({xs}[{a}:])",
                f"sorted({xs}[{a}:{a} + {k}])",
            ),
            *(f"[q for q in {xs}[{a}:]]", f"[q for q in range({a}, 6) if q]"),
            f"[(q, w) for q in range({end}) for w in range(q{by}, 5)]",
            f"[(q, w) for e, q in enumerate({xs}) for w in {xs}[e{by}:]]",
            f"[w for q in range(0, 6, {step}) for w in {xs}[q:q + {k}]]",
            f"[w for q in range(3) for w in range({a}, 5)]",
            f"[w for w in range({a}, 5) for q in range(2)]",
            f"[r for r in range({a}, 5) for q in range(r, 5)]",
        )

    def call(self, indent: int, indexes: list[str]) -> None:
        each = f"[ctx.run('a.b', {{}}) for _ in {self.sequence(indexes)}]"
        helper = self.pick(f"sub({self.index(indexes)})", f"walk({self.sequence(indexes)})", f"ctx.parallel({each})")
        self.emit(indent, "await " + self.pick("ctx.run('a.b', {})", "ctx.run('c.d', {})", helper, helper))

    def simple(self, indent: int, indexes: list[str]) -> None:
        one, other = self.sequence(indexes), self.sequence(indexes)
        self.emit(
            indent,
            self.pick(
                *(f"part = {one}", f"part = {one} if args['f'][n % 9] else {other}", "xs, ys = ys, xs", "n += 1"),
                *("ys = ys[1:]", "zs = xs", f"zs = {self.pick('xs', 'ys')}[:{self.random.randrange(5)}]"),
            ),
        )

    def statement(self, indent: int, indexes: list[str], loop: bool, depth: int) -> None:
        self.left -= 1
        roll = self.random.random()
        if depth > 3 or roll < 0.2:
            self.call(indent, indexes)
        elif roll < 0.32:
            self.simple(indent, indexes)
        elif roll < 0.47:
            told = [test for i in indexes for test in (f"{i} == 0", f"args['f'][{i} % 9]")]
            self.emit(indent, f"if {self.pick('args[chr(102)][n % 9]', 'n % 2', *told)}:")
            self.block(indent + 1, indexes, loop, depth + 1)
            if self.random.random() < 0.7:
                self.emit(indent, "else:")
                self.block(indent + 1, indexes, loop, depth + 1)
        elif roll < 0.53 and loop:
            self.emit(indent, f"if args['f'][n % 9]: {self.pick('break', 'continue')}")
        elif roll < 0.58:
            self.emit(indent, "try:")
            self.block(indent + 1, indexes, loop, depth + 1)
            self.emit(indent, "except CapabilityError:")
            self.block(indent + 1, indexes, loop, depth + 1)
        elif roll < 0.66:
            self.shrinking(indent, indexes, depth)
        else:
            self.loop(indent, indexes, depth)

    def shrinking(self, indent: int, indexes: list[str], depth: int) -> None:
        xs = self.pick("xs", "ys", "zs")
        self.emit(indent, f"while len({xs}) > {self.pick('0', '1', '2')}:")
        self.block(indent + 1, indexes, True, depth + 2)
        self.emit(
            indent + 1,
            self.pick(
                *(f"{xs} = {xs}[::2]", f"{xs} = {xs}[1:]", f"{xs} = {xs}[2:]", f"{xs} = {xs}[:-1]", "n += 1"),
                *(f"if args['f'][n % 9]: {xs} = {xs}[1:]", f"{xs} = {xs}[1:] + {xs}[:1]"),
                f"{xs} = [q for q, _ in zip({xs}[::2], {xs}[1::2])]",
                f"{xs} = [{xs}[q:q + 2] for q in range(0, len({xs}), 2)]",
            ),
        )

    def loop(self, indent: int, indexes: list[str], depth: int) -> None:
        i = self.fresh("i")
        ends = ("3", "4", "5", "len(ys)", "1, 5", "0, 8, 2", "2, 7", f"{self.index(indexes)}, 4")
        head, counts = self.random.choice(
            [
                (f"for {i} in range({self.pick(*ends)}):", True),
                (f"for {i} in range({self.pick(*ends)}):", True),
                (
                    f"for {i}, _ in enumerate({self.pick('xs', 'ys', 'args[chr(108)][:5]')}{self.pick('', ', 2')}):",
                    True,
                ),
                (f"for _ in {self.sequence(indexes)}:", False),
                (f"for {i} in {self.sequence(indexes)}:", False),
            ]
        )
        self.emit(indent, head)
        self.block(indent + 1, [*indexes, i] if counts else indexes, True, depth + 1)

    def block(self, indent: int, indexes: list[str], loop: bool, depth: int) -> None:
        for _ in range(self.random.randrange(1, 4)):
            if self.left <= 0:
                break
            self.statement(indent, indexes, loop, depth)
        if self.random.random() < 0.6:
            self.call(indent, indexes)
        else:
            self.emit(indent, "pass")


def windows(random: Random) -> str:
    """A program that walks parts of lists; a few have no bound."""
    writer = _Windows(random)
    while writer.left > 0:
        writer.statement(1, [], False, 0)
    return _HEAD + "\n".join(writer.lines) + "\n    return 1\n"
