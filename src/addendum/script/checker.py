"""The checker: thirteen rules and the facts, in one pure pass over a source text (DESIGN section 2).

    report = check(text, granted=frozenset({"text.generate"}))
    report.ok, report.violations, report.facts.worst_case

The source is never run. Any text is answered, a hostile one too: what doesn't parse within the limits is R00, what
is too involved to be bounded is R03.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from addendum.script.bounds import Bounds
from addendum.script.bounds import analyse as bound
from addendum.script.compiles import certain
from addendum.script.facts import gather
from addendum.script.program import Program, build
from addendum.script.report import Facts, Report, Violation
from addendum.script.rules import RULES
from addendum.script.rules.subject import Subject
from addendum.script.scope import Scope, analyse
from addendum.script.source import DEFAULT_LIMITS, Limits, Source, read, revision_of, uncompilable

MAX_VIOLATIONS = 200
"""How many violations a report lists."""


Inputs = Mapping[str, Mapping[str, Any]]
"""JSON Schemas of payloads, by capability."""


def check(
    text: str,
    *,
    granted: frozenset[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    inputs: Inputs | None = None,
) -> Report:
    """Check a source text. Pure, and raises nothing; the violations are in source order.

    `granted` are the capabilities of a grant for R08, None to skip it; `inputs` the schemas that R12 holds literal
    payloads against. For R09 see `rules.r09_worst_case.compare`.
    """
    return _examine(text, granted, limits, inputs)[0]


def examine(
    text: str,
    *,
    granted: frozenset[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    inputs: Inputs | None = None,
) -> tuple[Report, Program | None]:
    """Check a source text as `check` does, and return its program too if it may run: analysed once for both."""
    report, scope, bounds = _examine(text, granted, limits, inputs)
    if not report.ok or scope is None or bounds is None:
        return report, None
    return report, build(text, scope, bounds)


def _examine(
    text: str, granted: frozenset[str] | None, limits: Limits, inputs: Inputs | None
) -> tuple[Report, Scope | None, Bounds | None]:
    source = read(text, limits)
    if isinstance(source, Violation):
        return Report((source,), Facts(), revision_of(text)), None, None
    scope = analyse(source.tree)
    refused = None if certain(scope, text) else uncompilable(source)
    if refused is not None:
        return Report((refused,), Facts(), source.revision), None, None
    if scope.depth > limits.max_depth:
        subject = Subject(source, scope, Bounds(), limits)
        return Report(tuple(RULES["R00"].check(subject))[:1], Facts(), source.revision), None, None
    bounds = bound(scope, limits.max_steps, limits.max_bound)
    return report(source, scope, bounds, granted, limits, inputs), scope, bounds


def report(
    source: Source,
    scope: Scope,
    bounds: Bounds,
    granted: frozenset[str] | None,
    limits: Limits = DEFAULT_LIMITS,
    inputs: Inputs | None = None,
) -> Report:
    """Apply the rules to what was already analysed."""
    subject = Subject(source, scope, bounds, limits, granted, inputs)
    found: list[Violation] = []
    for module in RULES.values():
        found += module.check(subject)
    unique = sorted(set(found), key=lambda v: (v.line, v.column, v.rule, v.message, v.fix, v.severity, v.expression))
    return Report(tuple(unique[:MAX_VIOLATIONS]), gather(scope, bounds), source.revision)


def entry(scope: Scope) -> ast.AsyncFunctionDef | None:
    """Return the definition of `orchestrate`, None when there is none."""
    node = scope.orchestrate.node if scope.orchestrate is not None else None
    return node if isinstance(node, ast.AsyncFunctionDef) else None
