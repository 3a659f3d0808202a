"""Admission: from proposals to a draft, from a draft and what the oracles said to a contract. Pure.

Everything that is against a plan is found, not only the first thing. Nothing is executed, opened or written here.
"""

from __future__ import annotations

import graphlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from addendum import canon
from addendum.authority.catalog import Catalog
from addendum.authority.grant import Grant
from addendum.authority.objections import objections
from addendum.canon import Digest
from addendum.runs.admit import admit as admit_script
from addendum.work import ceiling
from addendum.work.codes import Finding
from addendum.work.contract import Base, Contract, Oracle, Slice, slice_id
from addendum.work.proposal import Plan, Policy, ProposedSlice, Route, Spec, Validator
from addendum.work.snapshot import Snapshot

Colour = Literal["green", "red", "error", "timeout"]
BASE: Final = "base"
REFERENCE: Final = "reference"
_BOUNDS: Final = frozenset({"R03", "R05"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What is to be admitted. `scripts` has the text of each slice's workflow script by slice; `digests` those of the
    three files, as (spec, plan, policy)."""

    spec: Spec
    plan: Plan
    policy: Policy
    snapshot: Snapshot
    catalog: Catalog
    base: Base
    digests: tuple[Digest, Digest, Digest]
    scripts: Mapping[str, str] = field(default_factory=dict)
    supersedes: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """An oracle to ask: what a validator says about the base, the reference or a mutant."""

    validator: str
    about: str


def check(proposal: Proposal) -> list[Finding]:
    """Return everything that is against a proposal, before any oracle is asked."""
    findings = [*_spec(proposal), *_graph(proposal.plan)]
    for asked in proposal.plan.slices:
        findings.extend(_capabilities(asked, proposal))
        findings.extend(_route(asked, proposal))
        findings.extend(ceiling.excesses(asked, proposal.policy.ceiling))
        findings.extend(_objections(asked, proposal))
        findings.extend(_script(asked, proposal))
    grants = [(asked.name, _grant(asked, proposal)) for asked in proposal.plan.slices]
    findings.extend(ceiling.overdrawn(grants, proposal.policy.ceiling.total))
    if not any(finding.code.startswith("graph.") for finding in findings):
        findings.extend(_overlaps(proposal.plan))
    return findings


def draft(proposal: Proposal) -> Contract:
    """Return the contract of a proposal that nothing is against, without oracles."""
    spec, plan, policy = proposal.digests
    order = graphlib.TopologicalSorter({each.name: sorted(each.after) for each in proposal.plan.slices}).static_order()
    by_name = {each.name: each for each in proposal.plan.slices}
    ids: dict[str, str] = {}
    slices: dict[str, Slice] = {}
    for name in order:
        made = _slice(by_name[name], proposal)
        identifier = slice_id(
            made.authority(), [ids[each] for each in made.after], spec, proposal.base, proposal.snapshot.digest
        )
        ids[name] = identifier
        slices[name] = replace(made, id=identifier)
    return Contract(
        spec=spec,
        plan=plan,
        policy=policy,
        base=proposal.base,
        snapshot=proposal.snapshot.value,
        slices=tuple(slices[each.name] for each in proposal.plan.slices),
        supersedes=proposal.supersedes,
        runner=str(proposal.snapshot.value["runner"]),
    )


def questions(contract: Contract, policy: Policy) -> list[Question]:
    """Return the oracles to ask for a draft."""
    found: list[Question] = []
    for name in used(contract):
        validator = policy.validators[name]
        found.append(Question(name, BASE))
        if policy.reference:
            found.append(Question(name, REFERENCE))
        if validator.role == "guard":
            found.extend(Question(name, mutant) for mutant in validator.mutants)
    return found


def used(contract: Contract) -> list[str]:
    """Return the validators that some slice has, each once."""
    return list(dict.fromkeys(name for each in contract.slices for name in each.validators))


def conclude(
    contract: Contract, policy: Policy, said: Mapping[Question, Colour], output: Mapping[Question, str] | None = None
) -> Contract | list[Finding]:
    """Return the contract with its oracles, or what they say against it. `output` is what they printed, for people."""
    findings: list[Finding] = []
    oracles: list[Oracle] = []
    for name in used(contract):
        validator = policy.validators[name]
        findings.extend(_oracle(validator, policy, said, output or {}))
        mutants = {each: said[Question(name, each)] for each in validator.mutants if Question(name, each) in said}
        reference = said.get(Question(name, REFERENCE))
        oracles.append(Oracle(validator=name, base=said[Question(name, BASE)], reference=reference, mutants=mutants))
    for each in contract.slices:
        inside = [name for name in each.validators if policy.validators[name].process == "in"]
        outside = [name for name in each.validators if _outside_guard(policy.validators[name])]
        if inside and not outside:
            text = (
                f"{inside[0]} runs the candidate's code, which could forge its verdict, and no guard outside it does."
            )
            findings.append(Finding("oracle.guard_inert", inside[0], text, {"slice": each.name}))
    return findings or replace(contract, oracles=tuple(oracles))


def _outside_guard(validator: Validator) -> bool:
    return validator.process == "out" and validator.role == "guard"


def _oracle(
    validator: Validator, policy: Policy, said: Mapping[Question, Colour], output: Mapping[Question, str]
) -> Iterator[Finding]:
    name = validator.name
    for question, colour in said.items():
        if question.validator == name and colour in ("error", "timeout"):
            code = "validator.error" if colour == "error" else "validator.timeout"
            facts = {"about": question.about, "said": output.get(question, "")}
            yield Finding(code, name, f"{name} has no verdict on the {question.about}.", facts)
            return
    base, reference = said[Question(name, BASE)], said.get(Question(name, REFERENCE))
    if validator.role == "goal" and base != "red":
        yield Finding("oracle.baseline_not_red", name, f"The goal {name} passes on the base, so it shows nothing.")
    if validator.role == "guard" and base != "green":
        facts = {"said": output.get(Question(name, BASE), "")}
        yield Finding("oracle.baseline_not_green", name, f"The guard {name} doesn't pass on the base.", facts)
    if reference != "green":
        text = f"{name} doesn't pass on the reference." if reference else "The policy names no reference."
        yield Finding(
            "oracle.reference_not_green",
            name,
            text,
            {"reference": policy.reference, "said": output.get(Question(name, REFERENCE), "")},
        )
    if validator.role == "guard" and not any(said[Question(name, mutant)] == "red" for mutant in validator.mutants):
        text = f"The guard {name} turns red on no named mutant."
        yield Finding("oracle.guard_inert", name, text, {"mutants": list(validator.mutants)})


# --- the specification and the graph ------------------------------------------------------------------------------


def _spec(proposal: Proposal) -> Iterator[Finding]:
    policy, roles = proposal.policy, proposal.policy.roles
    for question in proposal.spec.questions:
        if question.blocking and not question.answer.strip():
            yield Finding("spec.unresolved_question", question.id, f"The question {question.id} is open.")
    reviewed = any(_asks_people(each, policy) for each in proposal.plan.slices)
    for criterion in proposal.spec.criteria:
        missing = [name for name in criterion.programs if name not in policy.validators]
        missing += [f"human:{role}" for role in criterion.people if role not in roles]
        if missing:
            why = f"names {missing[0]!r}, which the policy doesn't have"
        elif not criterion.validators:
            why = "is bound to nothing"
        elif criterion.kind == "judgement" and not criterion.people:
            why = "is a judgement, which no program can make"
        elif criterion.people and not reviewed:
            why = "asks a person, and no slice of the plan does"
        else:
            continue
        yield Finding("spec.unbound_criterion", criterion.id, f"The criterion {criterion.id} {why}.")
    named = {criterion.id for criterion in proposal.spec.criteria}
    for asked in proposal.plan.slices:
        for name in asked.criteria:
            if name not in named:
                text = f"The slice {asked.name} names the criterion {name!r}, which isn't in the specification."
                yield Finding("spec.unbound_criterion", name, text)


def _graph(plan: Plan) -> Iterator[Finding]:
    names = {each.name for each in plan.slices}
    for each in plan.slices:
        for other in each.after:
            if other not in names:
                text = f"The slice {each.name} comes after {other!r}, which isn't in the plan."
                yield Finding("graph.unknown_predecessor", each.name, text, {"after": other})
    try:
        graphlib.TopologicalSorter({each.name: each.after for each in plan.slices}).prepare()
    except graphlib.CycleError as error:
        cycle = [str(name) for name in error.args[1]]
        yield Finding(
            "graph.cycle", cycle[0], f"The slices wait for each other: {' → '.join(cycle)}.", {"cycle": [*cycle]}
        )


def _overlaps(plan: Plan) -> Iterator[Finding]:
    """Yield the slices that may run beside each other and ask for the very same file."""
    before: dict[str, set[str]] = {}
    by_name = {each.name: each for each in plan.slices}
    for name in graphlib.TopologicalSorter({each.name: each.after for each in plan.slices}).static_order():
        after = by_name[name].after
        before[name] = set(after).union(*(before[each] for each in after))
    files = {
        each.name: {path for paths in each.edits.values() for path in paths if "*" not in path} for each in plan.slices
    }
    for index, first in enumerate(plan.slices):
        for second in plan.slices[index + 1 :]:
            if first.name in before[second.name] or second.name in before[first.name]:
                continue
            for path in sorted(files[first.name] & files[second.name]):
                text = f"{first.name} and {second.name} both edit {path}, and neither comes after the other."
                yield Finding("graph.merge_conflict", path, text, {"slices": [first.name, second.name]})


# --- capabilities, routes, scripts --------------------------------------------------------------------------------


def _capabilities(asked: ProposedSlice, proposal: Proposal) -> Iterator[Finding]:
    for need in asked.needs:
        name, _, version = need.partition("@")
        there = proposal.snapshot.version(name)
        if there is None:
            text = f"The slice {asked.name} needs {need}, and there is no {name} here."
            yield Finding("capability.missing", need, text, {"slice": asked.name})
        elif there != version:
            text = f"The slice {asked.name} needs {need}, and {name} is at version {there}."
            yield Finding("capability.version", need, text, {"slice": asked.name, "version": there})
        elif name in proposal.catalog and name not in proposal.policy.ceiling.grant.capabilities:
            text = f"The slice {asked.name} needs {need}, which the policy doesn't allow."
            yield Finding("authority.exceeds_ceiling", asked.name, text, {"capability": name})


def route_for(name: str, policy: Policy) -> Route | None:
    """Return the route of a name, the default one for no name."""
    return policy.routes.get(name or policy.default_route)


def unsatisfied(route: Route | None, named: str, needs: tuple[str, ...], script: bool, policy: Policy) -> str:
    """Return why a route can't execute what needs these capabilities; "" if it can."""
    if route is None:
        return f"There is no executor {named!r}." if named else "The policy has no default executor."
    for need in needs:
        tool = policy.tools.get(need.partition("@")[0])
        lacking = sorted(tool.modes - route.modes) if tool is not None else []
        if lacking:
            return f"{need} needs the mode {lacking[0]!r}, which the executor {route.name} doesn't have."
    if script != route.script:
        return f"The executor {route.name} {'runs scripts only' if route.script else 'runs a command, not a script'}."
    return ""


def _route(asked: ProposedSlice, proposal: Proposal) -> Iterator[Finding]:
    policy = proposal.policy
    if _asks_people(asked, policy) and not any(asked.edits.values()):
        return  # people review; nothing is executed
    why = unsatisfied(
        route_for(asked.executor, policy), asked.executor, asked.needs, asked.name in proposal.scripts, policy
    )
    if why:
        yield Finding("route.unsatisfied", asked.name, f"The slice {asked.name} can't be executed: {why}")


def _objections(asked: ProposedSlice, proposal: Proposal) -> Iterator[Finding]:
    """Yield what speaks against a slice's grant as a whole: combinations, and channels without a bound."""
    for objection in objections(_grant(asked, proposal), proposal.catalog):
        code = "bound.unbounded" if objection.code == "additive" else "authority.exceeds_ceiling"
        yield Finding(code, asked.name, f"The slice {asked.name}: {objection}", {"capabilities": [*objection.names]})


def _script(asked: ProposedSlice, proposal: Proposal) -> Iterator[Finding]:
    source = proposal.scripts.get(asked.name)
    if source is None:
        return
    admission = admit_script(source, proposal.catalog, _grant(asked, proposal))
    for violation in admission.report.violations:
        if violation.severity != "error":
            continue
        code = "bound.unbounded" if violation.rule in _BOUNDS else "script.rejected"
        if violation.rule == "R08":
            code = "capability.missing"
        text = f"Line {violation.line} of {asked.script or 'the script'}: {violation.rule} {violation.message}"
        yield Finding(code, asked.name, text, {"rule": violation.rule, "line": violation.line})
    for excess in admission.excesses:
        code = "bound.unbounded" if excess.worst is None else "bound.exceeds_budget"
        yield Finding(code, asked.name, f"The script of {asked.name}: {excess}", {"limit": str(excess.limit)})


# --- a slice ------------------------------------------------------------------------------------------------------


def _asks_people(asked: ProposedSlice, policy: Policy) -> bool:
    tools = [policy.tools.get(need.partition("@")[0]) for need in asked.needs]
    return any(tool is not None and tool.person for tool in tools)


def _grant(asked: ProposedSlice, proposal: Proposal) -> Grant:
    """Return a slice's grant; nothing at all for one that asks for more than it may, which is refused elsewhere."""
    names = [need.partition("@")[0] for need in asked.needs]
    found = ceiling.grant_of(
        asked.grant, proposal.policy.ceiling.grant, [name for name in names if name in proposal.catalog]
    )
    return found if isinstance(found, Grant) else Grant()


def _slice(asked: ProposedSlice, proposal: Proposal) -> Slice:
    policy = proposal.policy
    edits = any(asked.edits.values())
    people = tuple(
        dict.fromkeys(
            role
            for criterion in proposal.spec.criteria
            for role in criterion.people
            if _asks_people(asked, policy) and (not asked.criteria or criterion.id in asked.criteria)
        )
    )
    if _asks_people(asked, policy) and not people:
        people = ("approve",)
    source = proposal.scripts.get(asked.name)
    return Slice(
        id="",
        name=asked.name,
        after=tuple(sorted(asked.after)),
        scope=replace(policy.ceiling.scope, edits={verb: tuple(sorted(p)) for verb, p in asked.edits.items()}),
        needs=tuple(sorted(asked.needs)),
        grant=_grant(asked, proposal),
        attempts=asked.attempts,
        seconds=asked.seconds or policy.ceiling.seconds,
        validators=tuple(_validators(asked, proposal)) if edits else (),
        people=people,
        criteria=_criteria(asked, proposal),
        script="" if source is None else canon.sha256(source.encode("utf-8")),
        args=asked.args,
        intent=asked.intent,
        suggested=asked.executor,
    )


def _criteria(asked: ProposedSlice, proposal: Proposal) -> tuple[str, ...]:
    """Return the criteria that a slice is to meet: those it names, and those that no slice names."""
    named = {name for each in proposal.plan.slices for name in each.criteria}
    return tuple(
        criterion.id
        for criterion in proposal.spec.criteria
        if criterion.id in asked.criteria or (criterion.id not in named and criterion.programs)
    )


def _validators(asked: ProposedSlice, proposal: Proposal) -> Iterator[str]:
    """Yield a slice's validators: every guard of the operator, and the goals of its criteria."""
    criteria = _criteria(asked, proposal)
    bound = {name for each in proposal.spec.criteria if each.id in criteria for name in each.programs}
    for name in sorted(proposal.policy.validators):
        if proposal.policy.validators[name].role == "guard" or name in bound:
            yield name
