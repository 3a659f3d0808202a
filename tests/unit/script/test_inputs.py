"""Literal payloads against input schemas: what surely doesn't fit is a warning, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from addendum.script.checker import check, examine
from addendum.testing.demo import CAPABILITIES

CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "scripts").glob("*.py"))
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "minLength": 2, "maxLength": 9},
        "width": {"type": "integer", "minimum": 1, "maximum": 4},
        "style": {"enum": ["flat", "deep", 1]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "seed": {"type": ["integer", "null"]},
        "more": {"type": "object", "properties": {"a/b": {"const": 7}}, "required": ["a/b"]},
        "any": {"anyOf": [{"type": "string"}, {"type": "null"}], "type": "string"},
        "odd": True,
    },
    "required": ["prompt"],
    "additionalProperties": False,
}


def problems(payload: str, before: str = "") -> list[str]:
    """Return what is said of a payload: where in the schema."""
    source = f"async def orchestrate(ctx, args):\n    {before}\n    await ctx.run('a.b', {payload})\n"
    report = check(source, inputs={"a.b": SCHEMA})
    assert report.ok
    assert all(violation.rule == "R12" and violation.severity == "warning" for violation in report.violations)
    return sorted(violation.message.rpartition("(")[2].removesuffix(").") for violation in report.violations)


@pytest.mark.parametrize(
    ("payload", "paths"),
    [
        ("{}", ["#/required"]),
        ("{'promt': 'abc'}", ["#/additionalProperties", "#/required"]),
        ("{'prompt': 7}", ["#/properties/prompt/type"]),
        ("{'prompt': f'{args}', 'width': '3'}", ["#/properties/width/type"]),
        ("{'prompt': ['a']}", ["#/properties/prompt/type"]),
        ("{'prompt': 'a'}", ["#/properties/prompt/minLength"]),
        ("{'prompt': 'a long one'}", ["#/properties/prompt/maxLength"]),
        ("{'prompt': 'abc', 'width': 0}", ["#/properties/width/minimum"]),
        ("{'prompt': 'abc', 'width': -1}", ["#/properties/width/minimum"]),
        ("{'prompt': 'abc', 'width': 9}", ["#/properties/width/maximum"]),
        ("{'prompt': 'abc', 'width': 1.5}", ["#/properties/width/type"]),
        ("{'prompt': 'abc', 'width': True}", ["#/properties/width/type"]),
        ("{'prompt': 'abc', 'style': 'round'}", ["#/properties/style/enum"]),
        ("{'prompt': 'abc', 'style': True}", ["#/properties/style/enum"]),
        ("{'prompt': 'abc', 'tags': ['a', 1, args['x']]}", ["#/properties/tags/items/type"]),
        ("{'prompt': 'abc', 'more': {}}", ["#/properties/more/required"]),
        ("{'prompt': 'abc', 'more': {'a/b': 8}}", ["#/properties/more/properties/a~1b/const"]),
        ("{**args, 'width': 9}", ["#/properties/width/maximum"]),
    ],
)
def test_what_surely_does_not_fit_is_named(payload: str, paths: list[str]) -> None:
    """With the place in the schema."""
    assert problems(payload) == paths


@pytest.mark.parametrize(
    "payload",
    [
        "{'prompt': 'abc', 'width': 4, 'style': 'flat', 'tags': [], 'seed': None, 'more': {'a/b': 7}}",
        "{'prompt': args['x'], 'width': args['y'], 'tags': args['z'], 'odd': {1: 2}['x']}",
        "{'prompt': 'abc', 'width': 3.0, 'style': 1, 'seed': 4}",
        "{'prompt': 'abc', 'tags': [x for x in args]}",
        "{'prompt': 'abc', 'any': 7, 'odd': []}",
        "{**args}",
        "{args['name']: 'abc'}",
        "args",
        "dict(prompt=1)",
        "{'prompt': 'abc', **args}",
        "{'prompt': args['x'] if args else 7}",
    ],
)
def test_what_may_fit_is_not_spoken_of(payload: str) -> None:
    """What is computed, spread in or allowed by a keyword that isn't looked at."""
    assert problems(payload) == []


def test_a_payload_in_a_variable_may_still_change() -> None:
    """So it is left to the dispatch."""
    assert problems("p", "p = {}; p['prompt'] = 'abc'") == []


@pytest.mark.parametrize("schema", [{}, {"type": 7}, {"required": "x"}, {"properties": []}, {"enum": 1}, {"$ref": "#"}])
def test_an_odd_schema_is_no_error(schema: dict[str, Any]) -> None:
    """Whatever a catalog holds, the checker answers."""
    source = "async def orchestrate(ctx, args):\n    await ctx.run('a.b', {'x': {'y': [1]}})\n"
    assert check(source, inputs={"a.b": schema}).violations == ()


def test_a_deep_schema_and_a_deep_payload_end() -> None:
    """The schema may be a cycle of objects in memory."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["x"] = schema
    payload = "{'x': " * 40 + "{}" + "}" * 40
    assert check(f"async def orchestrate(ctx, args):\n    await ctx.run('a.b', {payload})\n", inputs={"a.b": schema}).ok


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: str(path.stem))
def test_scripts_that_models_write_fit_the_demo_capabilities(path: Path) -> None:
    """A warning here would be a false one: these payloads were accepted by the provider."""
    inputs = {capability.name: capability.input for capability in CAPABILITIES}
    report, _ = examine(path.read_text(encoding="utf-8"), inputs=inputs)
    assert [str(violation) for violation in report.warnings] == []


@pytest.mark.parametrize(
    ("payload", "fits"),
    [
        ('{"p": "a" * 65000}', True),
        ('{"p": "a" * 66000}', False),
        ('{"p": ["a"] * 16000}', True),
        ('{"p": ["a"] * 17000}', False),
        ('{"p": "ab" * 30000 + "c" * 5000}', True),
        ('{"p": "ab" * 30000 + "c" * 6000}', False),
        ('{"p": f"{args}" + "x" * 65000}', True),
        ('{"p": f"{args}" + "x" * 66000}', False),
    ],
)
def test_the_size_of_literal_text_is_what_is_sent(payload: str, fits: bool) -> None:
    """A text has its quotes once, however often it is repeated: a third of the limit was said to be above it."""
    report = check(f"async def orchestrate(ctx, args):\n    return await ctx.run('a.b', {payload})\n")
    assert [violation.rule for violation in report.violations] == ([] if fits else ["R12"])
