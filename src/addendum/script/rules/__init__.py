"""The thirteen rules of DESIGN section 2, one module each; a module's docstring is the rule's manual page."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from addendum.script.rules import (
    r00_source,
    r01_shape,
    r02_ctx,
    r03_loops,
    r04_order,
    r05_fanouts,
    r06_inputs,
    r07_arrival,
    r08_granted,
    r09_worst_case,
    r10_isolation,
    r11_stops,
    r12_payload,
)

RULES: Final[dict[str, ModuleType]] = {
    module.ID: module
    for module in (
        r00_source,
        r01_shape,
        r02_ctx,
        r03_loops,
        r04_order,
        r05_fanouts,
        r06_inputs,
        r07_arrival,
        r08_granted,
        r09_worst_case,
        r10_isolation,
        r11_stops,
        r12_payload,
    )
}
"""Each rule's module by its identifier, in order. A module has ID, TITLE, a docstring and `check(subject)`."""


def page(rule: str) -> str:
    """Return a rule's manual page as Markdown text. Raises `KeyError` for an unknown rule."""
    module = RULES[rule]
    return f"# {module.ID} {module.TITLE}\n\n{(module.__doc__ or '').strip()}\n"
