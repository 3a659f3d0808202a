"""Admission of a source: the checker's rules, and the worst case against the grant, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from addendum.authority.accounts import Accounts
from addendum.authority.catalog import Catalog
from addendum.authority.envelope import Excess, excesses, new_work, smallest
from addendum.authority.grant import Grant
from addendum.authority.objections import Objection, objections
from addendum.canon import Digest
from addendum.script.checker import Inputs, examine
from addendum.script.program import Program
from addendum.script.report import Facts, Report

KEPT: Final = 4
"""How many sources are remembered with what the checker said of them; one takes some 65 times its own size."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The checker's report, and the limits that the worst case is above. `program` is None unless admitted."""

    report: Report
    excesses: tuple[Excess, ...]
    program: Program | None
    objections: tuple[Objection, ...] = ()
    smallest: Grant | None = None
    """The least grant that would do, where the worst case is above this one."""

    @property
    def admitted(self) -> bool:
        """Whether the source may start."""
        return self.program is not None

    def to_json(self) -> dict[str, Any]:
        """Return the report and the excesses as JSON."""
        return {
            **self.report.to_json(),
            "excesses": [excess.to_json() for excess in self.excesses],
            "objections": [objection.to_json() for objection in self.objections],
            "smallest_grant": self.smallest.to_json() if self.smallest is not None and self.excesses else None,
        }

    @property
    def message(self) -> str:
        """Say in a sentence or two why the source isn't admitted."""
        errors = [violation for violation in self.report.violations if violation.severity == "error"]
        if errors:
            first = errors[0]
            more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
            return f"Line {first.line}: {first.rule} {first.message}{more}"
        return " ".join([str(each) for each in self.objections] + [str(excess) for excess in self.excesses])

    @property
    def hint(self) -> str:
        """Say what to do about it."""
        errors = [violation for violation in self.report.violations if violation.severity == "error"]
        if errors:
            return errors[0].fix
        if self.objections:
            return self.objections[0].hint
        if not self.excesses:
            return ""
        return f'{self._raise}, lower the script\'s bounds, or set worst_case = "at_run_time" in the grant.'

    @property
    def _raise(self) -> str:
        """Say what the least grant that would do has instead."""
        if self.smallest is None:
            return "Give it a bound"
        if len(self.excesses) > 1:
            needs = "; ".join(f"{each.limit.name} {each.limit.amount(each.worst or 0)}" for each in self.excesses)
            return f"Raise the limits ({needs})"
        (only,) = self.excesses
        return f"Raise the limit to {only.limit.amount(only.worst or 0)}"


@dataclass(frozen=True, slots=True)
class _Question:
    """All that the checker's word on a source depends on. The `inputs` are those of the `catalog`, by its digest."""

    source: str
    granted: frozenset[str]
    catalog: Digest
    inputs: Inputs = field(compare=False)


class _Refused(Exception):
    """What a cache of functions has for "not to be kept": its `report` is returned by `admit`."""

    def __init__(self, report: Report) -> None:
        self.report = report


@lru_cache(maxsize=KEPT)
def _passed(question: _Question) -> tuple[Report, Program]:
    """Return what the checker says of a source that may run. The last few are kept: a source is planned and then
    applied, or started again with other args, and checking it takes longer than what else a run does before its script
    begins. A refusal is raised and not kept: it may have come of how deep the stack was."""
    report, program = examine(question.source, granted=question.granted, inputs=question.inputs)
    if program is None:
        raise _Refused(report)
    return report, program


def admit(source: str, catalog: Catalog, grant: Grant, *, revision: bool = False) -> Admission:
    """Check a source against the rules and a grant. Never runs it.

    The worst case of a `revision` is that of new work, which only its plan knows: see `within`."""
    granted = frozenset(name for name in grant.capabilities if name in catalog)
    inputs = {name: catalog[name].input for name in granted}
    try:
        report, program = _passed(_Question(source, granted, catalog.digest, inputs))
    except _Refused as refused:
        return Admission(refused.report, (), None)
    against = (*objections(grant, catalog), *steered(report.facts, catalog, grant))
    found = () if revision else excesses(report.facts.worst_case, catalog, grant)
    if found or against:
        return Admission(report, found, None, against, smallest(grant, found))
    return Admission(report, (), program)


def steered(facts: Facts, catalog: Catalog, grant: Grant) -> Iterator[Objection]:
    """Yield what speaks against a script whose results steer it further than the grant lets them, with the flow."""
    agents = _agents(facts, catalog)
    if agents and grant.influence != "L2":
        message = f"{', '.join(agents)} runs a tool loop of its own (L2): what it does isn't in the source."
        hint = 'Give the agent a grant of its own, or allow influence = "L2".'
        yield Objection("influence", message, hint, agents)
    if grant.influence == "L2":
        return
    for flow in facts.flows:
        if flow.level > grant.influence:
            message = (
                f"Line {flow.line}: a result of {flow.source or 'a call'} (line {flow.source_line}) decides "
                f"{flow.decides} ({flow.level}), and the grant allows {grant.influence}: {flow.expression}"
            )
            hint = "Decide by args or constants, cap the count, or allow a higher influence in the grant."
            yield Objection("influence", message, hint, (flow.source,) if flow.source else ())


def influence(facts: Facts, catalog: Catalog) -> str:
    """Return how far results steer a script: what follows from its source, and L2 where a delegate is an agent."""
    return "L2" if _agents(facts, catalog) else facts.influence


def _agents(facts: Facts, catalog: Catalog) -> tuple[str, ...]:
    names = {site.capability for site in facts.callsites}
    return tuple(sorted(name for name in names if name in catalog and catalog[name].agentic))


def within(
    admission: Admission, catalog: Catalog, accounts: Accounts, replayed: Mapping[str, int]
) -> tuple[Admission, dict[str, int | None]]:
    """Hold the worst case of a revision's new work against what is left, and return that worst case.

    `replayed` are the calls by capability that the plan shows to be replayed.
    """
    worst = new_work(admission.report.facts.worst_case, replayed)
    found = excesses(worst, catalog, accounts.grant, lambda limit: sum(accounts.level(limit)))
    if not found:
        return admission, worst
    return Admission(admission.report, found, None, (), smallest(accounts.grant, found)), worst


def violations(admission: Admission) -> Iterator[dict[str, Any]]:
    """Yield everything that speaks against a source, as violations: the rules' own, limits that its worst case is above
    as R09 (at the first call that counts against the limit), what speaks against the grant itself as R08."""
    for violation in admission.report.violations:
        yield violation.to_json()
    for excess in admission.excesses:
        sites = [s for s in admission.report.facts.callsites if excess.limit.capability in (None, s.capability)]
        line, column = (sites[0].line, sites[0].column) if sites else (1, 1)
        about = excess.limit.capability or ""
        yield {**_of_the_envelope("R09", str(excess), admission.hint, line, column), "capability": about}
    for objection in admission.objections:
        yield _of_the_envelope("R08", objection.message, objection.hint)


def _of_the_envelope(rule: str, message: str, fix: str, line: int = 1, column: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = {"rule": rule, "line": line, "column": column, "message": message, "fix": fix}
    return {**found, "severity": "error", "expression": "", "capability": ""}
