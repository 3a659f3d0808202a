"""How far results steer a script: a fixture for each level, with the flow from a call to the decision."""

from __future__ import annotations

import pytest

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import from_json
from addendum.runs.admit import admit
from addendum.script.checker import check
from addendum.script.report import Flow

RUN = 'await ctx.run("text.generate", {"prompt": "x"})'


def flows(*lines: str, above: str = "") -> tuple[Flow, ...]:
    """Return what results decide in a script of these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return check(f"{above}async def orchestrate(ctx, args):\n{body}").facts.flows


@pytest.mark.parametrize(
    "lines",
    [
        (f"r = {RUN}", 'return await ctx.run("mail.send", {"body": r["text"]})'),
        ("for n in range(3):", f"    {RUN}"),
        ("if args.get('more'):", f"    {RUN}"),
        (f"r = {RUN}", "title = 'long' if len(r['text']) > 9 else 'short'", "return title"),
        (f"r = {RUN}", "words = [w for w in r['text'].split() if w]", "return len(words)"),
        ("a = await ctx.parallel([ctx.run('a', {'n': n}) for n in range(3)])", "return a"),
        (
            "tasks = []",
            "for n in range(3):",
            "    tasks.append(ctx.run('a', {'n': n}))",
            "return await ctx.parallel(tasks)",
        ),
    ],
)
def test_results_that_only_travel_decide_nothing(lines: tuple[str, ...]) -> None:
    """In payloads and values of the end, results steer no call: L0."""
    assert flows(*lines) == ()


@pytest.mark.parametrize(
    ("lines", "decides", "line"),
    [
        ((f"r = {RUN}", "if r['ok']:", f"    {RUN}"), "a branch", 3),
        ((f"r = {RUN}", "big = len(r['text']) > 9", "if big:", f"    {RUN}"), "a branch", 4),
        (("try:", f"    {RUN}", "except CapabilityError as e:", f"    {RUN}"), "whether a call fails", 2),
        (("for n in range(3):", f"    r = {RUN}", "    if r['ok']:", "        break"), "a branch", 4),
        ((f"r = {RUN}", "for shot in r['shots'][:3]:", f"    {RUN}"), "how often a loop runs", 3),
        (
            (f"r = {RUN}", "await ctx.parallel([ctx.run('a', {'s': s}) for s in r['shots'][:3]])"),
            "the width of a fan-out",
            3,
        ),
        (
            (
                f"r = {RUN}",
                "tasks = []",
                "for s in r['shots'][:3]:",
                "    tasks.append(ctx.run('a', {'s': s}))",
                "await ctx.parallel(tasks)",
            ),
            "how often a loop runs",
            4,
        ),
        ((f"r = {RUN}", "kind = 'a'", "if r['ok']:", "    kind = 'b'", "if kind == 'a':", f"    {RUN}"), "a branch", 6),
    ],
)
def test_results_that_choose_among_what_is_written_are_l1(lines: tuple[str, ...], decides: str, line: int) -> None:
    """A branch, a failure that is caught, a capped count: L1, with the place."""
    found = flows(*lines)
    assert {flow.level for flow in found} == {"L1"}
    assert (decides, line) in [(flow.decides, flow.line) for flow in found]
    assert all(flow.source == "text.generate" for flow in found)


@pytest.mark.parametrize(
    ("lines", "decides"),
    [
        ((f"r = {RUN}", "for shot in r['shots']:", f"    {RUN}"), "how often a loop runs"),
        ((f"r = {RUN}", "while not r['ok']:", f"    r = {RUN}"), "how often a loop runs"),
        (
            (f"r = {RUN}", "await ctx.parallel([ctx.run('a', {'s': s}) for s in r['shots']])"),
            "the width of a fan-out",
        ),
        ((f"r = {RUN}", "await ctx.run(r['next'], {})"), "the name of a capability"),
        ((f"r = {RUN}", "eval(r['code'])"), "code"),
    ],
)
def test_results_that_decide_a_name_code_or_an_uncapped_count_are_l2(lines: tuple[str, ...], decides: str) -> None:
    """What isn't in the source, or has no cap, is L2."""
    found = [flow for flow in flows(*lines) if flow.level == "L2"]
    assert decides in [flow.decides for flow in found]


def test_a_result_is_followed_through_functions() -> None:
    """What a helper returns, and what it is given, carries the result."""
    helper = f"async def good(ctx):\n    r = {RUN}\n    return r['ok']\n\n"
    assert [flow.level for flow in flows("if await good(ctx):", f"    {RUN}", above=helper)] == ["L1"]
    given = f"async def make(ctx, ok):\n    if ok:\n        {RUN}\n\n"
    assert [flow.line for flow in flows(f"r = {RUN}", "await make(ctx, r['ok'])", above=given)] == [2]
    assert flows("await make(ctx, True)", above=given) == ()


SOURCE = f"""async def orchestrate(ctx, args):
    r = {RUN}
    if r["ok"]:
        return 1
    return 2
"""


@pytest.mark.parametrize(
    ("allowed", "agentic", "admitted"),
    [("L0", False, False), ("L1", False, True), ("L1", True, False), ("L2", True, True)],
)
def test_the_grant_says_how_far(allowed: str, agentic: bool, admitted: bool) -> None:
    """Above the grant's level a script is not admitted, and the objection has the flow; an agent counts as L2."""
    catalog = Catalog([Capability(name="text.generate", effect="read", agentic=agentic)])
    found = admit(SOURCE, catalog, from_json({"capabilities": {"text.generate": {}}, "influence": allowed}))
    assert found.admitted is admitted
    if not admitted:
        assert found.objections[0].code == "influence"
