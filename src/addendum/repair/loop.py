"""The loop of DESIGN section 9: brief, model, guards, again with counterexamples; at most so many times.

It ends with an accepted candidate or without one, and executes neither: applying it is another call, of whoever asked.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from addendum.authority.catalog import WRITE
from addendum.authority.envelope import cost as cost_of
from addendum.authority.money import usd
from addendum.authority.objections import objections
from addendum.broker.journal import Journal, stow
from addendum.broker.outcomes import charged
from addendum.broker.reconcile import questions, unresolved, waiting
from addendum.canon import Digest
from addendum.errors import ConfigError, Rejected, StoreUnavailable, UsageError
from addendum.ports import Model, Request
from addendum.records import entries
from addendum.records.entries import Drafted, Purpose, Ref
from addendum.records.outcome import Failure
from addendum.repair import answer, keep
from addendum.repair import prompt as prompts
from addendum.repair.answer import Candidate
from addendum.repair.asking import Line, Said
from addendum.repair.brief import Brief
from addendum.repair.findings import Finding
from addendum.repair.gather import gather
from addendum.repair.guards import Judgement, Options, judge
from addendum.repair.keep import MAX_ANSWER, Barred, Desked, Reserved
from addendum.repair.outcome import Outcome, Tried
from addendum.runs import delegate
from addendum.runs.context import Context
from addendum.runs.revise import adopt
from addendum.runs.start import catalog_changed, current, driving, granted, policy_of

ATTEMPTS: Final = 3
MOST: Final = 20
"""More attempts than anybody needs: a loop that gets so far is asked for by mistake."""
FINAL: Final = ("invalid_input", "refused")
"""Failures after which the same question gets the same answer. So does a `provider_error` that nothing was charged for;
one that was charged for is an answer that was no good."""
RETRIES: Final = 2
"""How often in one loop the model is asked again, beyond the attempts, after a failure that may pass."""
LONGEST: Final = 60.0
"""Seconds that the loop waits before it asks a model again that said to come back later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What whoever starts the loop asks for. `again`: the model is asked though an accepted candidate waits. The most
    tokens of an answer and the time for it, in seconds, are the model's."""

    options: Options = field(default_factory=Options)
    max_attempts: int = ATTEMPTS
    again: bool = False
    max_tokens: int = 16_000
    timeout: float = 120.0
    retries: int = RETRIES

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= MOST:
            raise UsageError(
                f"A model can't be asked {self.max_attempts} times.", hint=f"Between 1 and {MOST} attempts are made."
            )


def repair(
    context: Context,
    run: str,
    model: Model | None,
    asked: Asked | None = None,
    *,
    stop: threading.Event | None = None,
) -> Outcome:
    """Have a model mend the script of a run that failed, or write the one of a run that has a request only.

    What it answers is judged by every guard; nothing is executed. An accepted first script becomes the run's first
    revision. An accepted candidate that nobody has applied is given again, and the model isn't asked. Raises
    `NotFound`, `RunBusy`, `UsageError`, `Rejected` for a run that completed, and `ConfigError` when somebody has to be
    asked and `model` is None.

    The context's observer is told `drafting` (run, attempt, model, price) before the model is asked and `drafted` (run,
    attempt, model, verdict, cost) after it; money in nano-dollars.
    """
    asked = asked or Asked()
    with driving(context, run) as journal:
        return Loop(context, journal, model, asked, stop or threading.Event()).run()


def brief(context: Context, run: str, options: Options | None = None) -> Brief:
    """Return what a model would be told about a run now. Sends and writes nothing. Raises `NotFound`."""
    options = options or Options()
    context.store.header(run)
    journal = Journal(context.store, run)
    journal.read()
    if journal.history.request is None:
        current(journal)
    return gather(context, journal, policy_of(journal, options.policy), options.allowances)


@dataclass(slots=True)
class Loop:
    """One loop, with the run's lease held."""

    context: Context
    journal: Journal
    model: Model | None
    asked: Asked
    stop: threading.Event
    tried: list[Tried] = field(default_factory=list)
    lost: int = 0
    passing: int = 0
    """Failures that may pass, in this loop."""

    @property
    def purpose(self) -> Purpose:
        """What is asked for: to mend, or to begin."""
        return "repair" if self.journal.history.revisions else "author"

    def run(self) -> Outcome:
        """Go through it."""
        if self.journal.history.request is None:
            current(self.journal)
        self.lost = len(keep.settle_lost(self.journal))
        found = self._early() or (None if self.asked.again else self._pending()) or self._ask_until()
        found.at = (self.journal.history.seq, self.journal.history.chain)
        return found

    # --- before the model is asked -----------------------------------------------------------------------------

    def _early(self) -> Outcome | None:
        """Return how it ends where a model could do nothing."""
        history, run = self.journal.history, self.journal.run
        against = next(objections(granted(self.journal), self.context.catalog), None)
        if against is not None:
            return self._outcome("stopped", against.message, against.hint)
        if not history.revisions:
            return None
        changed = catalog_changed(self.context, self.journal)
        if changed is not None:
            return self._outcome("stopped", changed.message, changed.hint)
        ended = history.ended
        failed = ended is not None and ended.status == "failed" and not history.driving
        sent = [attempt for attempt in unresolved(history) if attempt.side_effecting]
        if sent and not failed:
            first = sent[0]
            return self._outcome(
                "unresolved",
                f"The call {first.identity} of {first.capability} was sent and has no result, and no script says what "
                "became of it.",
                f"`addendum reconcile {run}` with the result, or declare it abandoned.",
            )
        if waiting(history) or any(each.capability != WRITE for each in questions(history)):
            return self._outcome(
                "waiting", "The run waits for a person: nothing has failed.", f"`addendum approve {run}`."
            )
        if ended is not None and ended.status == "completed" and not history.driving:
            raise Rejected(
                f"The run {run} is completed: there is nothing to repair.",
                hint=f"`addendum plan {run} SCRIPT` says what another script would do.",
            )
        if ended is None or history.driving or ended.body.get("stop") in ("cancelled", "store_unavailable"):
            why = "has not been driven yet" if not history.drives else "was interrupted, and its script did not fail"
            return self._outcome("resumable", f"The run {why}.", f"`addendum resume {run}` goes on with it.")
        return None

    def _pending(self) -> Outcome | None:
        """Return the accepted candidate that nobody has applied, if it still holds."""
        history = self.journal.history
        if not history.pending or history.last_draft is None:
            return None
        _, body = history.last_draft
        script = self.context.store.blob(body["candidate"]).decode("utf-8")
        answered: Any = self.journal.value(entries.ref(body["result"]))
        candidate = Candidate(script, dict(body["moves"]), tuple(body["drops"]), str(answered.get("reason") or ""))
        found = judge(self.context, self.journal, candidate, self.asked.options)
        if not found.accepted and self.model is None:
            raise Rejected(
                f"The candidate that was accepted before doesn't hold any more: {found.found[0].message}",
                hint="Say what was allowed then, or have a model asked again with --model PROVIDER:MODEL.",
            )
        if not found.accepted:
            return None
        why = "The candidate that was accepted before still holds; no model was asked."
        return self._accepted(candidate, found, why)

    # --- asking ------------------------------------------------------------------------------------------------

    def _ask_until(self) -> Outcome:
        model = self.model
        if model is None:
            raise ConfigError("Nobody is named who writes scripts.", hint="Name a model with --model PROVIDER:MODEL.")
        delegate.again(self.context, self.journal)
        line = Line(self.context, model, self.stop, self._watch)
        try:
            return self._asked_by(line, Desked(self.context, self.journal, model, self.asked.timeout))
        finally:
            line.close()
            delegate.bring_back(self.context, self.journal)

    def _watch(self) -> str:
        """Say that the run's driver lives, and whether an operator asked for its end. Raises `LeaseLost`."""
        try:
            if self.journal.lease is not None:
                self.context.store.renew(self.journal.lease)
            self.journal.news()
        except StoreUnavailable:
            return ""
        if self.journal.cancelled:
            self.stop.set()
        return "the run was cancelled while the model was asked" if self.journal.cancelled else ""

    def _asked_by(self, line: Line, desk: Desked) -> Outcome:
        options = self.asked.options
        while self._made() < self.asked.max_attempts:
            attempt = self._made() + 1
            self.journal.news()
            if self.stop.is_set() or self.journal.cancelled:
                return self._outcome("stopped", "It was stopped.", f"`addendum repair {self.journal.run}` again.")
            told = gather(self.context, self.journal, policy_of(self.journal, options.policy), options.allowances)
            prompt = prompts.prompt(told, max_tokens=self.asked.max_tokens, timeout=self.asked.timeout)
            reserved = desk.reserve(self.purpose, attempt, prompt)
            if isinstance(reserved, Barred):
                return self._barred(reserved)
            draft = reserved.draft
            self._notice("drafting", attempt, price=draft.hold, seq=draft.seq, purpose=draft.purpose)
            prompt = replace(prompt, key=entries.draft_key(self.journal.run, draft.number, draft.prompt))
            request = Request(
                capability=WRITE,
                payload=None,
                key=prompt.key,
                run=self.journal.run,
                identity=keep.IDENTITY,
                attempt=reserved.draft.number,
            )
            said = line.ask(prompt, request, reserved.timeout)
            ended = self._settled(desk, reserved, said)
            if ended is not None:
                return ended
        last = self.tried[-1]
        why = last.findings[0].message if last.findings else last.failure[1] if last.failure else last.note
        times = "once" if len(self.tried) == 1 else f"{len(self.tried)} times"
        if all(tried.failure is not None for tried in self.tried):
            return self._outcome(
                "failed",
                f"The model was asked {times}, and never answered. The last time: {why}",
                f"Mend what it says, or wait; then `addendum repair {self.journal.run}` asks again.",
            )
        return self._outcome(
            "refused" if last.verdict == "rejected" else "failed",
            f"The model was asked {times}, and no candidate was admitted. The last one: {why}",
            f"`addendum show {self.journal.run} --drafts` has every candidate with its counterexamples; "
            "ask again with more attempts, or write the script yourself.",
        )

    def _made(self) -> int:
        """How many attempts were made. A failure that may pass is none of them, as far as there are retries."""
        return len(self.tried) - min(self.passing, self.asked.retries)

    def _settled(self, desk: Desked, reserved: Reserved, said: Said) -> Outcome | None:
        """Judge what was said, write it down, and return how the loop ends if it ends by that."""
        base = Drafted(
            attempt=reserved.draft.seq,
            verdict="failed",
            cost=reserved.hold.cost if said.cost is None else said.cost,
            tokens=said.tokens,
            seconds=said.seconds,
            model=said.model,
        )
        if said.unknown:
            return self._unknown(desk, reserved, base, said)
        if said.error is not None:
            return self._failed(desk, reserved, base, said)
        candidate, wrong = self._read(said)
        blobs: dict[Digest, bytes] = {}
        drafted = replace(
            base,
            candidate=keep.candidate_blob(candidate, blobs),
            answer=_kept(said, blobs),
            moves=candidate.moves,
            drops=candidate.drops,
        )
        try:
            found = Judgement(found=tuple(wrong)) if wrong else self._judged(candidate, base)
        except Exception:
            # The guards couldn't be asked (a sandbox that isn't here, a store that doesn't answer): the money is spent.
            self._write(desk, reserved, replace(drafted, verdict="rejected", note="it could not be judged"), blobs)
            raise
        drafted = replace(
            drafted,
            verdict="accepted" if found.accepted else "rejected",
            findings=keep.findings_ref(found.found, blobs) if found.found else None,
        )
        self._write(desk, reserved, drafted, blobs)
        self._note(reserved, drafted, candidate=candidate, findings=found.found)
        return self._accepted(candidate, found, "A candidate was accepted.") if found.accepted else None

    def _judged(self, candidate: Candidate, settled: Drafted) -> Judgement:
        """Judge a candidate by what is left once its own answer is settled: at what that took, not at what was held."""
        drafts = self.journal.history.drafts
        drafts[settled.attempt] = replace(drafts[settled.attempt], hold=settled.cost, tokens=settled.tokens)
        return judge(self.context, self.journal, candidate, self.asked.options)

    def _read(self, said: Said) -> tuple[Candidate, list[Finding]]:
        if said.unfit:
            unfit = Finding(
                guard="answer", kind="not_json", message=said.unfit, way_out="Answer with one object of JSON."
            )
            return Candidate(""), [unfit]
        candidate, wrong = answer.read(said.value)
        if not wrong and len(said.data) > MAX_ANSWER:
            wrong = [answer.too_large(len(said.data), MAX_ANSWER)]
        return candidate, wrong

    def _unknown(self, desk: Desked, reserved: Reserved, base: Drafted, said: Said) -> Outcome | None:
        """Nobody knows what it cost: the most that it may have."""
        note = f"{said.unknown}: counted as spent in full"
        drafted = replace(base, verdict="unknown", cost=reserved.hold.cost, tokens=reserved.hold.tokens, note=note)
        self._write(desk, reserved, drafted, {})
        self._note(reserved, drafted)
        if self.stop.is_set():
            return self._outcome(
                "stopped", "It was stopped while the model was asked.", f"`addendum repair {self.journal.run}` again."
            )
        return None

    def _failed(self, desk: Desked, reserved: Reserved, base: Drafted, said: Said) -> Outcome | None:
        """The model said no. What may pass is tried again; an answer that nobody can read goes back as it is."""
        error = said.error
        assert error is not None
        failure = Failure(error.code, error.message, error.retryable)
        drafted = replace(base, cost=charged(error), failure=failure)
        blobs: dict[Digest, bytes] = {}
        unread = failure.code == "provider_error" and not failure.retryable and drafted.cost > 0
        found = _unread(failure) if unread else ()
        if found:
            drafted = replace(drafted, verdict="rejected", failure=None, findings=keep.findings_ref(found, blobs))
        self._write(desk, reserved, drafted, blobs)
        self._note(reserved, drafted, failure=drafted.failure, findings=found)
        self.passing += failure.retryable
        if not failure.retryable and (failure.code in FINAL or not drafted.cost):
            return self._outcome(
                "failed",
                f"The model {reserved.draft.model} failed: {failure.code}: {failure.message}",
                "Nothing was changed. Mend what it says, or name another model with --model.",
            )
        if failure.retryable and self._made() < self.asked.max_attempts:
            pause = max(error.retry_after or 0.0, self.context.backoff * 2 ** (len(self.tried) - 1))
            self.stop.wait(min(pause, LONGEST))
        return None

    def _write(self, desk: Desked, reserved: Reserved, drafted: Drafted, blobs: dict[Digest, bytes]) -> None:
        desk.settle(reserved, drafted, blobs)
        told = {"verdict": drafted.verdict, "cost": drafted.cost, "tokens": drafted.tokens, "answered": drafted.model}
        self._notice("drafted", reserved.draft.attempt, seq=reserved.draft.seq, **told)

    def _note(self, reserved: Reserved, drafted: Drafted, **more: Any) -> None:
        candidate: Candidate | None = more.get("candidate")
        failure: Failure | None = more.get("failure")
        self.tried.append(
            Tried(
                draft=reserved.draft.seq,
                attempt=reserved.draft.attempt,
                verdict=drafted.verdict,
                cost=drafted.cost,
                tokens=drafted.tokens,
                seconds=drafted.seconds,
                model=drafted.model or reserved.draft.model,
                reason=candidate.reason if candidate is not None else "",
                candidate=answer.kept(candidate.script).decode("utf-8") if candidate is not None else None,
                moves=drafted.moves,
                drops=drafted.drops,
                findings=more.get("findings", ()),
                failure=(failure.code, failure.message) if failure is not None else None,
                note=drafted.note,
            )
        )

    # --- how it ends -------------------------------------------------------------------------------------------

    def _accepted(self, candidate: Candidate, found: Judgement, message: str) -> Outcome:
        """Return an accepted candidate. The first script of a run is its first revision from here on."""
        assert found.drawn is not None
        purpose, run = self.purpose, self.journal.run
        if purpose == "author":
            adopt(self.journal, found.drawn, found.allowances)
        hint = f"`addendum resume {run}` runs it." if purpose == "author" else f"`addendum repair {run} --apply`."
        outcome = self._outcome("accepted", message, hint, purpose)
        outcome.candidate, outcome.moves, outcome.drops = candidate.script, candidate.moves, candidate.drops
        outcome.reason, outcome.drawn = candidate.reason, found.drawn
        outcome.revision = self.journal.history.revision if purpose == "author" else 0
        calls = found.drawn.admission.report.facts.worst_case
        most = cost_of(calls, self.context.catalog)
        outcome.worst_case = {"calls": dict(calls), "cost_usd": None if most is None else usd(most)}
        return outcome

    def _barred(self, barred: Barred) -> Outcome:
        outcome = self._outcome(barred.status, barred.message, barred.hint.replace("RUN", self.journal.run))
        outcome.limit = barred.limit
        return outcome

    def _outcome(self, status: Any, message: str, hint: str, purpose: Purpose | None = None) -> Outcome:
        history = self.journal.history
        return Outcome(
            run=self.journal.run,
            purpose=purpose or self.purpose,
            status=status,
            message=message,
            hint=hint,
            attempts=tuple(self.tried),
            lost=self.lost,
            total_cost=sum(totals.cost for totals in history.totals.values()),
        )

    def _notice(self, event: str, attempt: int, **more: Any) -> None:
        name = self.model.name if self.model is not None else ""
        told: Mapping[str, Any] = {"run": self.journal.run, "event": event, "attempt": attempt, "model": name, **more}
        try:
            self.context.observer(told)
        except Exception:  # noqa: BLE001 - whoever watches can't change the run
            return


def _unread(failure: Failure) -> tuple[Finding, ...]:
    """Return what a model is told of an answer that was paid for and couldn't be read."""
    way_out = "Answer with one object of JSON, of the form that was asked for, and nothing around it."
    return (Finding(guard="answer", kind="unreadable", message=failure.message, way_out=way_out),)


def _kept(said: Said, blobs: dict[Digest, bytes]) -> Ref | None:
    """Return the whole answer as it is kept; one that is too large isn't."""
    return stow(said.data, said.value, blobs) if len(said.data) <= MAX_ANSWER else None
