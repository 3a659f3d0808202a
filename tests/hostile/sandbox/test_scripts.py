"""Scripts that got past the checker and mean harm: each ends in a typed error or a result, in time, and the next
script runs as if nothing had been."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.sandboxes import CONFINED, backend

from addendum.errors import SandboxError
from addendum.ports import Limits, Raised, Returned, Sandbox
from addendum.testing.driving import by_hand, drive

LIMITS = Limits(turn_seconds=0.5, total_seconds=2.0, memory=64 * 2**20, calls=2000, output=10**5, message=10**6)
SECONDS = 8.0
"""The turn's limit, the wait for a worker that doesn't look at its clock, and what a busy machine adds."""


@pytest.fixture(scope="module", params=CONFINED)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with backend(request.param) as opened:
        yield opened


COMPUTING = {
    "loop": "while True: pass",
    "loop that swallows": "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
    "loop in finally": "try:\n        return 1\n    finally:\n        while True: pass",
    "sum of a long range": "return sum(range(10**12))",
    "squaring for ever": "x = 3\n    while True: x = x * x",
    "factorial": "import math\n    math.factorial(10**7)",
    "regular expression": "import re\n    return re.match('(a+)+$', 'a' * 40 + 'b') is None",
    "nested counts": "import re\n    return re.compile('a{1000}{1000}{1000}') is None",
    "awaits that never wait": "async def f():\n        pass\n    while True: await f()",
}
MEMORY = {
    "long text": "return len('x' * 10**10)",
    "long list": "return len([0] * 10**10)",
    "large power": "return 10 ** (10 ** 8) > 0",
    "large shift": "return 1 << 10**10 > 0",
    "growing list": "x = []\n    while True: x.append('y' * 1000 + str(len(x)))",
    "growing dict": "x = {}\n    while True: x[len(x)] = [0] * 100",
    "doubling text": "x = 'x'\n    while True: x = x + x",
    "growth that is swallowed": "x = []\n    while True:\n        try: x.append('y' * 10**6 + str(len(x)))\n"
    "        except Exception: pass",
    "replacing": "return len(('x' * 10**5).replace('x', 'y' * 10**5))",
    "joining": "return len(','.join(['x' * 1000] * 10**6))",
    "sorting": "return len(sorted([str(n) for n in range(10**7)]))",
    "formatting": "return len(f'{1:{10**9}}')",
    "wide fan-out": "cs = [ctx.run(None, 'orchestrate/a.b#0', 'a.b', {}) for n in range(10**6)]\n"
    "    return await ctx.parallel('', 'orchestrate/parallel#0', cs)",
}
STACK = {
    "recursion": "def f(n):\n        return f(n + 1)\n    return f(0)",
    "recursion of awaits": "async def f(n):\n        return await f(n + 1)\n    return await f(0)",
    "recursion in a key": "def f(n):\n        return sorted([1, 2], key=f)\n    return f(0)",
    "deep list": "x = []\n    for n in range(10**5): x = [x]\n    return x",
    "deep text": "import json\n    return json.loads('[' * 10**5 + ']' * 10**5)",
    "deep comparison": "x, y = [], []\n    for n in range(10**5): x, y = [x], [y]\n    return x == y",
    "deep repr": "x = []\n    for n in range(10**5): x = [x]\n    return len(repr(x))",
}
FLOODS = {
    "log lines": "while True: ctx.log('x')",
    "long log lines": "while True: ctx.log('x' * 10**5)",
    "printing": "while True: print('x' * 1000)",
    "calls in one turn": "cs = [ctx.run(None, 'orchestrate/a.b#0', 'a.b', {'x': 'y' * 10**5}) for n in range(5000)]\n"
    "    return await ctx.parallel('', 'orchestrate/parallel#0', cs)",
    "large payload": "return await ctx.run('', 'orchestrate/a.b#0', 'a.b', {'x': 'y' * 10**7})",
    "large result": "return ['y' * 10**6] * 20",
    "large error": "raise ValueError('x' * 10**7)",
    "many fan-outs": "for n in range(5000): await ctx.parallel('', 'orchestrate/parallel#0', [])",
}
ESCAPES = {
    "exit": "raise SystemExit(1)",
    "interrupt": "raise KeyboardInterrupt()",
    "classes": "return [c.__name__ for c in ().__class__.__base__.__subclasses__()][0]",
    "globals": "return str((lambda: 1).__globals__)[:100]",
    "format": "return '{0.__class__.__init__}'.format(ctx)",
    "files": "return open('/etc/passwd').read()",
    "system": "import os\n    return os.system('true')",
    "names of the guest": "_wf_at[0] = 'x' * 10**6\n    return await ctx.run(None, 'orchestrate/a.b#0', 'a.b', {})",
    "counters of the guest": "for n in [1, 2]:\n        await ctx.run('', 'orchestrate/a.b#0', 'a.b', {})\n"
    "        _wf_used.clear()",
    "waiting for nothing": "import asyncio\n    await asyncio.sleep(10**6)",
    "awaiting a loser": "c = ctx.run(None, 'orchestrate/a.b#0', 'a.b', {})\n    await c\n    await c",
    "compiling": "exec('while True: pass')",
}
REFUSED = {"files", "system", "compiling"}
"""What reaches for the host has to fail: a result would be what it reached."""
ENDS = {
    "regular expression",
    "nested counts",
    "large power",
    "formatting",
    "joining",
    *STACK,
    *FLOODS,
    *ESCAPES,
} - REFUSED
"""What may come to a result: an interpreter can answer it at once, or it costs nobody anything."""
ALL = {**COMPUTING, **MEMORY, **STACK, **FLOODS, **ESCAPES}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_hostile_script_ends_and_harms_nobody(sandbox: Sandbox, name: str) -> None:
    """A typed error within the limits, the host alive, the next run fine."""
    script = by_hand(
        f"async def orchestrate(ctx, args):\n    {ALL[name]}\n", "orchestrate/a.b#0", "orchestrate/parallel#0"
    )
    started = time.monotonic()
    try:
        _, end = drive(sandbox, script, limits=LIMITS)
        assert isinstance(end, Raised) or name in ENDS, end
    except SandboxError:
        pass  # typed, with a sentence: what is wanted
    assert time.monotonic() - started < SECONDS
    again = by_hand(
        'async def orchestrate(ctx, args):\n    return await ctx.run("", "orchestrate/a.b#0", "a.b", {"x": args})\n'
    )
    assert drive(sandbox, again, 1, limits=LIMITS)[1] == Returned({"got": {"x": 1}})
