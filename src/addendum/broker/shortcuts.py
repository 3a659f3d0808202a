"""The shortcuts of an execution, for a drive and a plan alike: settled calls travel ahead of the script, and results go
in batches. Nobody can see either of it, and an execution that was led astray by one starts again without."""

from __future__ import annotations

from dataclasses import dataclass

from addendum.broker.feed import Feed, Results, main_strand
from addendum.broker.relay import Counted, Relay
from addendum.kernel import binding
from addendum.kernel.batch import batches
from addendum.kernel.loop import Astray, Loop
from addendum.ports import BatchSession, Clock, Session


@dataclass(slots=True)
class Shortcuts:
    """Which of them the executions of one attempt, or of one plan, have: all, until one was led astray."""

    results: Results
    clock: Clock
    _before: str | None = None
    """Only what comes before this identity travels ahead of the script; nothing if it is empty, all if it is None."""
    _batched: bool = True

    def relay(self, session: Session, loop: Loop, accounts: Counted) -> Relay:
        """Return the relay of a fresh execution, and say in its loop which results go in batches."""
        claims = loop.claims
        if self._batched and isinstance(session, BatchSession):
            loop.batches = batches(claims.sources.candidate, claims.prefix.values(), self.results.size)
        known = main_strand(claims.prefix.values())
        if self._before is not None:
            known = known[: next((at for at, record in enumerate(known) if record.identity == self._before), 0)]
            self._before = self._before if known else ""
        return Relay(session, Feed(self.results, known) if known else None, self.results, accounts, self.clock)

    def without(self, astray: Astray) -> None:
        """Do without what led an execution astray: calls travel ahead as far as the script went with them, and if that
        doesn't help, none does. Raises `ProtocolViolation` where nothing could."""
        if astray.batch and self._batched:
            self._batched = False
        elif not astray.batch and self._before != "":
            self._before = astray.identity if self._before is None else ""
        else:
            what = "says that an answer arrived which was in no batch" if astray.batch else "was answered by nobody"
            binding.refuse(f"it {what}: {astray.identity!r}")
