"""Admission: what is remembered of a source depends on nothing but what was asked."""

from __future__ import annotations

from dataclasses import replace

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import everything, from_json
from addendum.runs.admit import admit

SOURCE = """
async def orchestrate(ctx, args):
    return await ctx.run("mail.send", {"to": 1})
"""
MAIL = Capability(name="mail.send", effect="irreversible")
CATALOG = Catalog([MAIL])


def test_a_source_is_checked_once_for_one_catalog_and_grant() -> None:
    """Planned and then applied, or started again: it is the program that was made the first time."""
    first = admit(SOURCE, CATALOG, everything(CATALOG))
    again = admit(SOURCE, Catalog([MAIL]), everything(CATALOG), revision=True)

    assert first.program is not None
    assert again.program is first.program
    assert again.report is first.report


def test_another_schema_is_another_question() -> None:
    """The same source, and the payload isn't what the capability takes any more."""
    assert admit(SOURCE, CATALOG, everything(CATALOG)).admitted
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    changed = Catalog([replace(MAIL, input=schema)])
    refused = admit(SOURCE, changed, everything(changed))

    assert [violation.rule for violation in refused.report.violations] == ["R12"]
    assert admit(SOURCE, CATALOG, everything(CATALOG)).admitted


def test_another_grant_is_another_question() -> None:
    """What is granted is looked at each time, and so are its limits."""
    assert admit(SOURCE, CATALOG, everything(CATALOG)).admitted
    refused = admit(SOURCE, CATALOG, from_json({"capabilities": {}}))
    assert [violation.rule for violation in refused.report.violations] == ["R08"]

    none = from_json({"capabilities": {"mail.send": {}}, "limits": [{"meter": "calls", "max": 0}]})
    above = admit(SOURCE, CATALOG, none)
    assert not above.admitted
    assert above.excesses
    assert admit(SOURCE, CATALOG, everything(CATALOG)).admitted
