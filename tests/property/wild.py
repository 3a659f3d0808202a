"""Wild programs: aliases, closures, shared state, lists that grow and shrink. Most have no bound.

Nothing here is written to be bounded. What the checker accepts nevertheless has to keep its worst case on every run.
"""

from __future__ import annotations

from random import Random

from lines import Lines

_HEAD = """K = 3
BOX = 2


async def orchestrate(ctx, args):
    xs = ["a", "b"]
    ys = args["items"][:3]
    zs = [1]
    n = 0
    m = 2
    box = {"xs": xs, "ys": [0]}
    jobs = []
    act = lambda: ctx.run("c.z", {})
"""


class _Wild(Lines):
    def __init__(self, random: Random) -> None:
        super().__init__(random, statements=random.randrange(6, 22))
        self.helpers: list[tuple[str, bool]] = []

    def seq(self) -> str:
        return self.pick(
            "xs", "ys", "zs", "xs", "ys", "box['xs']", "box['ys']", "args['q']", "args['items']", "args['many']"
        )

    def num(self) -> str:
        return self.pick(
            "n", "m", "n", str(self.random.randrange(5)), "K", "len(xs)", "len(ys)", "n + 1", "K - n", "args['n']"
        )

    def small(self) -> str:
        return self.pick("1", "2", "K", "BOX", "min(n, 3)", "min(len(ys), 2)", "max(0, m)", "min(args['n'], 2)")

    def cond(self) -> str:
        return self.pick(
            "args['flag']",
            "(await ctx.run('c.c', {}))['ok']",
            f"{self.pick('n', 'm')} {self.pick('<', '>', '>=', '==', '!=', '<=')} {self.small()}",
            f"len({self.pick('xs', 'ys', 'zs')}) {self.pick('<', '>', '>=', '==', '!=')} {self.small()}",
            "xs",
            "not ys",
            "n and xs",
        )

    def simple(self, indent: int) -> None:
        v = self.pick("xs", "ys", "zs")
        k = self.random.randrange(24)
        text = [
            lambda: f"{v} = {self.seq()}",
            lambda: f"{v} = {self.seq()}[:{self.small()}]",
            lambda: f"{v} = {self.seq()}[{self.small()}:]",
            lambda: f"{v} = {v} + {self.seq()}[:2]",
            lambda: f"{v} = list({self.seq()})",
            lambda: f"{v} = [x for x in {self.seq()} if x]",
            lambda: f"{self.seq()}.append(1)",
            lambda: f"{self.seq()}.append(n)",
            lambda: f"{v}.extend({self.seq()}[:2])",
            lambda: f"{v} += [1]",
            lambda: f"{v} += {self.pick('xs', 'ys', 'zs')}[:2]",
            lambda: f"if {v}: {v}.pop()",
            lambda: f"{v}.clear()",
            lambda: f"n = {self.num()}",
            lambda: f"m = {self.num()}",
            lambda: "n += 1",
            lambda: "n -= 1",
            lambda: "m += 1",
            lambda: f"n += {self.small()}",
            lambda: f"box['{self.pick('xs', 'ys')}'] = {self.pick('xs', 'ys', 'zs')}",
            lambda: f"args['q'] = {self.pick('xs', 'ys', 'zs')}",
            lambda: f"box.setdefault('{self.pick('a', 'b')}', []).append(1)",
            lambda: f"{v}[:1] = {self.seq()}[:2]",
            lambda: f"act = {self.pick('lambda: ctx.run(chr(99), {})', 'act', 'lambda a=act: a()')}",
        ][k]()
        if "chr(99)" in text:
            text = "act = lambda: ctx.run('c.y', {})"
        self.emit(indent, text)

    def statement(self, indent: int, loop: bool, depth: int) -> None:
        self.left -= 1
        roll = self.random.random()
        if roll < 0.42 or depth > 3:
            self.simple(indent)
        elif roll < 0.55:
            self.emit(indent, self.pick("await ctx.run('c.a', {})", "await ctx.run('c.b', {})", "await act()"))
        elif roll < 0.62 and self.helpers:
            name, is_async = self.random.choice(self.helpers)
            call = f"{name}({self.pick('xs', 'ys', 'zs')}, {self.num()})"
            self.emit(indent, f"await {call}" if is_async else call)
        elif roll < 0.66 and any(is_async for _, is_async in self.helpers):
            name = self.random.choice([name for name, is_async in self.helpers if is_async])
            width = self.pick(f"for w in range({self.small()})", "for w in ys[:2]", "for w in xs", "for w in (1, 2)")
            self.emit(indent, f"await ctx.parallel([{name}(xs, {self.num()}) {width}], return_errors=True)")
        elif roll < 0.72:
            self.emit(indent, f"if {self.cond()}:")
            self.block(indent + 1, loop, depth + 1)
            if self.random.random() < 0.5:
                self.emit(indent, "else:")
                self.block(indent + 1, loop, depth + 1)
        elif roll < 0.76 and loop:
            self.emit(indent, f"if {self.cond()}: {self.pick('break', 'continue', 'break')}")
        elif roll < 0.80:
            self.emit(indent, "try:")
            self.block(indent + 1, loop, depth + 1)
            self.emit(indent, "except CapabilityError:")
            self.block(indent + 1, loop, depth + 1)
            if self.random.random() < 0.3:
                self.emit(indent, "finally:")
                self.simple(indent + 1)
        elif roll < 0.84 and depth < 2:
            self.helper(indent, depth)
        else:
            i = self.fresh("i")
            head = self.pick(
                f"for {i} in {self.seq()}:",
                f"for {i} in {self.seq()}[:{self.small()}]:",
                f"for {i} in range({self.num()}):",
                f"for {i} in range({self.small()}):",
                f"for {i}, j in enumerate({self.seq()}):",
                f"for {i} in zip(xs, {self.seq()}):",
                f"while {self.cond()}:",
                f"while n < {self.small()}:",
                "while True:",
                "while xs:",
                "while len(zs) < 4:",
            )
            self.emit(indent, head)
            self.block(indent + 1, True, depth + 1)

    def helper(self, indent: int, depth: int) -> None:
        name, is_async = self.fresh("h"), self.random.random() < 0.7
        self.emit(indent, f"{'async ' if is_async else ''}def {name}(xs, k):")
        if self.random.random() < 0.5:
            self.emit(indent + 1, f"nonlocal {self.pick('n', 'm', 'ys', 'zs, n')}")
        else:
            self.emit(indent + 1, "n, m, ys, zs, act = k, 1, list(xs), [k], len")
        if is_async:
            self.block(indent + 1, False, depth + 2)
            if self.random.random() < 0.3:
                self.emit(indent + 1, f"if k < {self.small()}: await {name}(xs, k + {self.pick('1', '1', '0', 'n')})")
        else:
            for _ in range(self.random.randrange(1, 3)):
                self.simple(indent + 1)
        self.emit(indent + 1, f"return {self.pick('xs', 'k', 'None')}")
        self.helpers.append((name, is_async))

    def block(self, indent: int, loop: bool, depth: int) -> None:
        for _ in range(self.random.randrange(1, 4)):
            if self.left <= 0:
                break
            self.statement(indent, loop, depth)
        else:
            return
        self.emit(
            indent, "await ctx.run('c.d', {})" if self.lines[-1].strip().startswith(("for", "while")) else "m += 0"
        )


def wild(random: Random) -> str:
    """A program of which nothing is known."""
    writer = _Wild(random)
    if random.random() < 0.7:
        writer.helper(1, 0)
    while writer.left > 0:
        writer.statement(1, False, 0)
    return _HEAD + "\n".join(writer.lines) + "\n    return 1\n"
