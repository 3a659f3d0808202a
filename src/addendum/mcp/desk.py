"""What the tools do: the use cases that the command line has, under the server's grant.

The grant is the operator's. A run gets it, or one that is narrower; a run that was granted more by somebody else can be
looked at here, and isn't driven: else a client could revise it, and spend what it was never given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from addendum import wiring
from addendum.authority.catalog import Capability
from addendum.authority.ceiling import meet
from addendum.authority.grant import Grant, from_json
from addendum.canon import Digest, Json
from addendum.errors import Rejected, UsageError
from addendum.kernel.policy import Allowances
from addendum.mcp import asked
from addendum.mcp.drives import Job
from addendum.plan import Of
from addendum.runs import asking, given, names, operate, query, revise, start
from addendum.runs.admit import admit, violations
from addendum.runs.advice import Advice
from addendum.runs.context import Context
from addendum.runs.result import StepResult

Observer: TypeAlias = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Task:
    """Something that drives a run: which one, and how."""

    run: str
    job: Job


class Desk:
    """The tools on a context, whose grant is the most that any run gets here. Every method may be called from any
    thread, and raises the errors of the use case that it is.

    `exactly` makes a hint's commands ones that a person can copy: of whoever starts the server with options of its own.
    """

    def __init__(self, context: Context, exactly: Callable[[str], str] = str) -> None:
        within = start.under_ceiling(context, context.grant)
        self.context = replace(context, grant=within, ceiling=within)
        self.exactly = exactly

    @property
    def ceiling(self) -> Grant:
        """The grant of the server."""
        return self.context.grant

    # --- looking ----------------------------------------------------------------------------------------------

    def check(self, ask: asked.Check) -> dict[str, Any]:
        """Return whether a script may run, as `addendum check --json` does."""
        admission = admit(ask.source, self.context.catalog, self._grant(ask.grant))
        found = {**admission.to_json(), "ok": admission.admitted, "path": "script"}
        return {**found, "violations": list(violations(admission))}

    def plan(self, ask: asked.Plan) -> dict[str, Any]:
        """Return what a revision would do, as `addendum plan --json` does."""
        name = self._resolve(ask.run)
        _, result = revise.foresee(
            self.context,
            name,
            ask.source,
            args=self._args(ask),
            policy=ask.policy.chosen(),
            allowances=_allowances(ask),
        )
        return self.told(result)

    def show(self, ask: asked.Show) -> Any:
        """Return what `addendum show --json` prints: the run, or its result, its script, or one call."""
        store, name = self.context.store, self._resolve(ask.run)
        if ask.call is not None:
            return query.call_of(store, name, ask.call)
        if ask.what == "result":
            return query.result_of(store, name)
        if ask.what == "source":
            return {"run": name, "source": query.source_of(store, name)}
        found = query.show(store, name)
        found = replace(found, advice=tuple(self._exact(step) for step in found.advice))
        return {**found.to_json(), "result": None if found.result is None else query.value(store, found.result)}

    def catalog(self) -> dict[str, Any]:
        """Return what may be called here, as `addendum catalog show --json` does, with what each is about."""
        return {
            "digest": self.context.catalog.digest,
            "capabilities": [{**each.to_json(), "about": each.about} for each in self.offered()],
            "grant": self.ceiling.to_json(),
        }

    def offered(self) -> list[Capability]:
        """Return the capabilities that a script may call here: those of the catalog that the server's grant names."""
        catalog = self.context.catalog
        return [catalog[name] for name in sorted(self.ceiling.capabilities) if name in catalog]

    def told(self, result: StepResult) -> dict[str, Any]:
        """Return a result as the command line prints it."""
        if result.run and result.certificate is None and result.stop != "store_unavailable":
            result.certificate = query.certified(self.context.store, result.run)
        return {**result.to_json(), "hint": self.exactly(result.hint)}

    def standing(self, run: str) -> dict[str, Any]:
        """Return how a run stands that goes on while its client has its answer: the keys of its list entry."""
        return query.summarize(query.read(self.context.store, run)).to_json()

    # --- driving ----------------------------------------------------------------------------------------------

    def run(self, ask: asked.Start) -> Task:
        """Return what starts a run."""
        names.check(ask.id)
        grant = self._grant(ask.grant)
        name = ask.id or start.fresh_name(self.context)
        if ask.id and ask.id in {header.run for header in self.context.store.runs()}:
            raise UsageError(
                f"There is a run {ask.id!r} already.", hint="`show` tells how it stands, `resume` goes on.", run=ask.id
            )

        def job(stop: threading.Event, see: Observer) -> StepResult:
            context = self._watched(see)
            label, policy = ask.name, ask.policy.chosen()
            return start.start(
                context, ask.source, ask.args, grant=grant, policy=policy, name=label, run=name, stop=stop
            )

        return Task(name, job)

    def resume(self, ask: asked.Resume) -> Task:
        """Return what goes on with a run."""
        name = self._driven(ask.run)
        allowed = given.allowances(_supersede(ask.supersede), ask.retry)

        def job(stop: threading.Event, see: Observer) -> StepResult:
            context = self._watched(see)
            wiring.recall(context, name)
            return start.resume(context, name, policy=ask.policy.chosen(), allowances=allowed, stop=stop)

        return Task(name, job)

    def revise(self, ask: asked.Revise) -> Task:
        """Return what applies another script, or other args, to a run."""
        if ask.source is None and "args" not in ask.model_fields_set:
            raise UsageError("Which script?", hint="Pass source or args; `resume` goes on with the run's own.")
        name = self._driven(ask.run)
        at, of = (None, None) if ask.at is None else _seen(ask.at)

        def job(stop: threading.Event, see: Observer) -> StepResult:
            context = self._watched(see)
            wiring.recall(context, name)
            return revise.revise(
                context,
                name,
                ask.source,
                args=self._args(ask),
                policy=ask.policy.chosen(),
                allowances=_allowances(ask),
                at=at,
                of=of,
                stop=stop,
            )

        return Task(name, job)

    # --- deciding ---------------------------------------------------------------------------------------------

    def cancel(self, ask: asked.Cancel) -> dict[str, Any]:
        """Ask for the clean end of a run, whoever drives it."""
        name = self._driven(ask.run)
        return {"run": name, "driven": operate.cancel(self.context, name)}

    def approve(self, ask: asked.Approve, by: str) -> dict[str, Any]:
        """Answer what a run asks a person. `by` says who answered, for the record."""
        name = self._driven(ask.run)
        answered = operate.approve(
            self.context, name, approved=ask.approved, note=ask.note, which=tuple(ask.which), by=by
        )
        return {"run": name, "approved": ask.approved, "answered": [each.identity for each in answered]}

    def asks(self, run: str, which: list[str]) -> list[dict[str, Any]]:
        """Return what a run asks a person: identity, capability, payload. Raises `UsageError` when it asks nothing."""
        found = asking.open_asks(self.context.store, self._driven(run))
        chosen = [each for each in found if not which or each["identity"] in which or each["key"] in which]
        if not chosen:
            raise UsageError(f"Nothing in the run {run} waits for an approval.", hint="`show` says what it waits for.")
        return chosen

    # --- inside -----------------------------------------------------------------------------------------------

    def _grant(self, asked_for: Mapping[str, Any] | None) -> Grant:
        """Return the grant of a new run: the server's, or the narrower one that was asked for. Raises `Rejected`."""
        if asked_for is None:
            return self.ceiling
        _plain(asked_for)
        every: dict[str, Any] = {"capabilities": dict.fromkeys(self.ceiling.capabilities)}
        found = given.grant({**every, **asked_for}, self.context.catalog)
        return start.under_ceiling(self.context, found)

    def _resolve(self, run: str) -> str:
        return names.resolve(self.context.store, run)

    def _driven(self, run: str) -> str:
        """Return the run that is meant, if this server may drive it. Raises `Rejected`."""
        name = self._resolve(run)
        granted = query.read(self.context.store, name).history.grant
        if granted is not None and not _holds(from_json(granted), self.ceiling):
            raise Rejected(
                f"The run {name} has another grant than this server may give.",
                hint="It can be looked at here, and driven by the command line.",
                run=name,
            )
        return name

    def _exact(self, step: Advice) -> Advice:
        return replace(step, command=self.exactly(f"`{step.command}`").strip("`"))

    def _watched(self, see: Observer) -> Context:
        others = self.context.observer

        def both(event: Mapping[str, Json]) -> None:
            try:
                see(event)
            finally:
                others(event)

        return replace(self.context, observer=both)

    @staticmethod
    def _args(ask: asked.Plan) -> Json:
        chosen: Json = ask.args if "args" in ask.model_fields_set else revise.UNCHANGED
        return chosen


def _plain(grant: Mapping[str, Any]) -> None:
    """Take limits only: whose accounts a run counts in is the server's to say, and a schema of a client's is a program
    that it would have us run. Raises `UsageError`."""
    capabilities = grant.get("capabilities", {})
    specs = capabilities.values() if isinstance(capabilities, Mapping) else ()
    odd = set(grant) - {"capabilities", "limits", "worst_case", "expires"}
    odd |= {key for spec in specs if isinstance(spec, Mapping) for key in spec} - {"limits"}
    if odd:
        raise UsageError(
            f"A grant that is asked for here has no {sorted(odd)[0]!r}.",
            hint="It has capabilities with limits, limits, worst_case and expires.",
        )


def _holds(granted: Grant, ceiling: Grant) -> bool:
    """Whether a run's grant is within the ceiling already: meeting it with the ceiling takes nothing away."""
    within = meet(granted, ceiling)
    if not isinstance(within, Grant):
        return False
    for name, schema in ceiling.where.items():
        own: Any = granted.where.get(name, {})
        if name in granted.capabilities and schema not in (own, *own.get("allOf", ())[-1:]):
            return False
    return replace(within, where={}).digest == replace(granted, where={}).digest


def _supersede(chosen: str | list[str] | None) -> given.Supersede:
    if isinstance(chosen, str):
        return True
    return chosen if chosen is not None else False


def _seen(at: asked.At) -> tuple[tuple[int, Digest], Of]:
    """Return the journal that a plan was made from, and what it is of."""
    return (at.seq, at.chain), Of(at.revision, at.args_digest, at.terms)


def _allowances(ask: asked.Plan) -> Allowances:
    return given.allowances(_supersede(ask.supersede), ask.retry, ask.drops, ask.moves)
