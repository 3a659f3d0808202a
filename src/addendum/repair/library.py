"""The library's methods of the loop: what `addendum.App` has beside running and revising scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from addendum.canon import Json
from addendum.ports import Model
from addendum.repair import author as authoring
from addendum.repair.brief import Brief
from addendum.repair.guards import Options
from addendum.repair.loop import ATTEMPTS, Asked
from addendum.repair.loop import brief as brief_of
from addendum.repair.loop import repair as mend
from addendum.repair.outcome import Outcome
from addendum.runs import given
from addendum.runs.context import Context
from addendum.runs.driven import Driven
from addendum.runs.given import GrantLike, Supersede


class Writing:
    """What an App can have a model do. Whoever derives from it says where a context and a named model come from."""

    def _context(self) -> Context:
        raise NotImplementedError

    def _author(self, model: str | None) -> tuple[Model, int, float]:
        """Return the model of a name, or the one of the settings: with the most tokens of an answer, and seconds."""
        raise NotImplementedError

    def repair(
        self,
        run: str,
        model: Model | str | None = None,
        *,
        max_attempts: int = ATTEMPTS,
        policy: Mapping[str, object] | None = None,
        supersede: Supersede = False,
        drops: Iterable[str] = (),
        fewer_calls: bool = False,
        again: bool = False,
        apply: bool = False,
        stop: threading.Event | None = None,
    ) -> Outcome:
        """Have a model mend the script of a run that failed, or write the one of a run that has a request only.

        `model` is a `Model`, or a name as in `openai:gpt-5-mini`; None for the one of the services file. What it
        answers passes checker, call count, grant, gate and plan, or goes back with counterexamples, `max_attempts`
        times at most. Nothing is executed without `apply`. `supersede` and `drops` are what a candidate may replace and
        give up; `fewer_calls` lets it make fewer calls; `again` asks the model though an accepted candidate waits. What
        the model costs is the run's money, within its grant. Raises `NotFound`, `RunBusy`, `UsageError`, `ConfigError`,
        and `Rejected` for a run that completed."""
        options = Options(
            policy=dict(policy or {}), allowances=given.allowances(supersede, drops=drops), fewer_calls=fewer_calls
        )
        found, asked = self._asked(model, options, max_attempts, again)

        def job(context: Context, event: threading.Event) -> Outcome:
            outcome = mend(context, run, found, asked, stop=event)
            return authoring.apply(context, outcome, options, stop=event) if apply and outcome.accepted else outcome

        return self._written(job, stop)

    def author(
        self,
        request: str,
        model: Model | str | None = None,
        *,
        args: Json = None,
        grant: GrantLike | None = None,
        max_attempts: int = ATTEMPTS,
        name: str = "",
        run: str = "",
        parent: str = "",
        apply: bool = False,
        stop: threading.Event | None = None,
    ) -> Outcome:
        """Begin a run with a request, and have a model write its script, for these args and within the grant.

        An accepted script is the run's first revision; it is executed with `apply`, or by `resume`. `args` None is {}.
        The grant of a run with a `parent` comes out of that run's, what the model costs too, and has to be said.
        Raises `UsageError`, `ConfigError`, `NotJson`, `Rejected`."""
        found, asked = self._asked(model, Options(), max_attempts, False)

        def job(context: Context, event: threading.Event) -> Outcome:
            chosen = None if grant is None else given.grant(grant, context.catalog)
            outcome = authoring.author(
                context, request, found, asked, args=args, grant=chosen, name=name, run=run, parent=parent, stop=event
            )
            return authoring.apply(context, outcome, stop=event) if apply and outcome.accepted else outcome

        return self._written(job, stop)

    def brief(self, run: str) -> Brief:
        """Return what a model would be told about a run. Raises `NotFound`."""
        return brief_of(self._context(), run)

    def _asked(self, model: Model | str | None, options: Options, attempts: int, again: bool) -> tuple[Model, Asked]:
        if model is None or isinstance(model, str):
            found, tokens, timeout = self._author(model)
            return found, Asked(options=options, max_attempts=attempts, again=again, max_tokens=tokens, timeout=timeout)
        return model, Asked(options=options, max_attempts=attempts, again=again)

    def _written(self, job: Callable[[Context, threading.Event], Outcome], stop: threading.Event | None) -> Outcome:
        """Do it where an interrupt can't tear it, as with a drive."""
        context, event = self._context(), stop or threading.Event()
        if threading.current_thread() is not threading.main_thread():
            return job(context, event)
        return Driven(lambda: job(context, event), event).wait()
