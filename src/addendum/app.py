"""The library: register what a script may call, run scripts, revise them.

    app = App(store="runs.db")

    @app.capability("image.generate", effect="paid", price_usd="0.02")
    def image(prompt: str, size: Literal["1K", "2K"] = "1K") -> Image: ...

    result = app.run(source, args={"brief": "a lighthouse"})

Methods block; `app.aio` has the same ones to await. Everything here is thin over `addendum.runs`, which the command
line and the service use too: the rules are there.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import os
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

from addendum import config, wiring
from addendum.authority import permit as permitting
from addendum.authority.approval import APPROVE
from addendum.authority.catalog import MAX_PAYLOAD, MAX_RESULT, Capability, Catalog
from addendum.authority.declare import declare
from addendum.authority.grant import everything
from addendum.authority.money import nano, usd
from addendum.broker.principal import Ledgers
from addendum.broker.reconcile import Question
from addendum.broker.schema import Schemas
from addendum.canon import Json
from addendum.clock import SystemClock
from addendum.config import Settings
from addendum.errors import ConfigError, UsageError
from addendum.kernel.policy import Retry
from addendum.plan import NewCall, Plan
from addendum.ports import Clock, Limits, Model, Observer, Provider, Reply, Sandbox, Store, Usage
from addendum.records.certificate import Certificate
from addendum.records.entries import Attempt, Effect
from addendum.repair.library import Writing
from addendum.runs import driven, given, names, operate, query
from addendum.runs import revise as revising
from addendum.runs import start as starting
from addendum.runs.context import Context
from addendum.runs.driven import Driven
from addendum.runs.events import Event, finished
from addendum.runs.given import GrantLike, Source, Supersede
from addendum.runs.query import RunView, Summary
from addendum.runs.result import StepResult
from addendum.telemetry.watch import Watchers

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

NO_ARGS: Final[dict[str, Json]] = {}
UNSET: Final[Any] = object()
"""Stands for: nothing was passed."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What a revision would do. `plan` has the details; None for a source that the checker or the grant refuses.

    `result` has the counts and the reason, as the revision itself would report them."""

    result: StepResult
    plan: Plan | None

    @property
    def status(self) -> str:
        """`planned`, `stopped` or `not_admitted`."""
        return self.result.status

    @property
    def frontier(self) -> list[NewCall]:
        """The new calls that it found, with their payloads and prices."""
        return self.plan.frontier if self.plan is not None else []

    @property
    def price_usd(self) -> str:
        """What the frontier costs at most, in US dollars."""
        return usd(self.plan.price if self.plan is not None else 0)

    @property
    def saved_usd(self) -> str:
        """What was paid for the calls that are replayed, in US dollars."""
        return usd(self.plan.saved if self.plan is not None else 0)

    def __str__(self) -> str:
        """Say it in a sentence."""
        if self.status != "planned":
            return f"{self.status}: {self.result.message} {self.result.hint}".strip()
        return f"planned: {self.result.replayed} replayed, {len(self.frontier)} new for ${self.price_usd}"


def reply(value: object, *, cost_usd: object = None, tokens: int = 0) -> Reply:
    """Return a result together with what it cost, from a handler whose price isn't fixed.

    `cost_usd` is the amount charged in US dollars (text, int or Decimal; None for the catalog's price).

    >>> reply({"text": "hi"}, cost_usd="0.0031", tokens=812).usage.cost
    3100000
    """
    return Reply(value, Usage(None if cost_usd is None else nano(cost_usd), tokens))


def _watchers(settings: Settings, app: weakref.ref[App], provider: Provider | None, own_store: bool) -> Watchers:
    """Open what watches an App's runs; it doesn't keep the App from being collected."""

    def catalog() -> Catalog:
        found = app()
        return Catalog(()) if found is None else found.catalog

    return wiring.open_watchers(settings, catalog, provider, own_store=own_store)


def _close(local: Callable[[], None], opened: Provider | None, ledgers: Ledgers) -> None:
    """Close the loop of registered handlers, and a provider that was opened by name; let go of kept accounts."""
    ledgers.close()
    local()
    if opened is not None:
        wiring.shut(opened)


class App(Writing):
    """Capabilities, and the runs of scripts that call them.

    Settings come from `addendum.toml` in the current folder and the environment, as for the command line; what is
    passed goes first. `store` is a path (or a `Store`), `sandbox` is `monty` or `bwrap` (or a `Sandbox`). `provider`
    does the work of the capabilities in `catalog` that have no registered handler; `"demo"` and the name of a services
    file (`"services.toml"`) bring their own catalog.
    `grant` is what a run gets when none is given, everything without limits if it is None. `backoff` is the pause
    before a first retry, in seconds. Raises `ConfigError`.

    Safe to use from several threads; one run is driven by one caller at a time (`RunBusy`). It is of the process that
    used it first: a child that was forked later makes its own (`UsageError`), and has no Monty (`SandboxMissing`).
    """

    def __init__(
        self,
        *,
        store: str | os.PathLike[str] | Store | None = None,
        sandbox: str | Sandbox | None = None,
        provider: str | Provider | None = None,
        catalog: Iterable[Capability] | Mapping[str, Capability] | None = None,
        grant: GrantLike | None = None,
        observer: Observer | None = None,
        clock: Clock | None = None,
        limits: Limits | None = None,
        backoff: float | None = None,
        operator: str | None = None,
    ) -> None:
        where = os.fspath(store) if isinstance(store, str | os.PathLike) else None
        named = {
            "store": where,
            "sandbox": sandbox if isinstance(sandbox, str) else None,
            "backoff": backoff,
            "operator": operator,
        }
        self._settings = config.load(overrides=named)
        opened: Provider | None = None
        if isinstance(provider, str):
            provider, known = wiring.open_provider(provider, self._settings)
            catalog, opened = known if catalog is None else catalog, provider
        elif provider is not None and catalog is None:
            raise ConfigError("A provider was passed without a catalog.", hint="Pass catalog= with what it can do.")
        self._known = Catalog(catalog.values() if isinstance(catalog, Mapping) else catalog or ())
        for each in self._known.values():
            given.schemas(each)
        self._local = wiring.open_local(provider)
        self._made: tuple[list[Capability], Catalog] | None = None
        """What was registered, and the catalog of it: for all runs one, so that its digest is computed once."""
        self._schemas = Schemas()
        self._ledgers = Ledgers()
        self._grant = grant if grant is not None else self._settings.grant or None
        self._observer = observer
        self._clock = clock or SystemClock()
        self._limits = limits or self._settings.limits()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._parts = wiring.Parts(
            self._settings.store if where is not None or store is None else cast("Store", store),
            self._settings.sandbox if sandbox is None or isinstance(sandbox, str) else sandbox,
            functools.partial(_watchers, self._settings, weakref.ref(self), opened),
            functools.partial(_close, self._local.close, opened, self._ledgers),
        )
        self._keeps: App | None = None
        """Of a view: the App whose parts it uses. They are closed when that one is collected."""
        self._end = weakref.finalize(self, self._parts.close)

    # --- capabilities ------------------------------------------------------------------------------------------

    def capability(
        self,
        name: str,
        *,
        effect: Effect,
        price_usd: object = 0,
        most_usd: object = None,
        input: object = None,
        output: object = None,
        version: str = "1",
        timeout: float = 600.0,
        retries: int = 2,
        waits: bool = False,
        lookup: Callable[[str], Any] | None = None,
        max_payload: int = MAX_PAYLOAD,
        max_result: int = MAX_RESULT,
        about: str = "",
    ) -> Callable[[F], F]:
        """Register the decorated function as a capability's handler, and return it unchanged.

        Its parameters are the payload's properties; one named `payload` gets all of it; one annotated `Request` gets
        the dispatch with its idempotency key; `**rest` allows other properties. Annotations are the schemas of payload
        and result, unless `input` or `output` (a JSON Schema, or a type) stand in their place. A coroutine function
        runs on the event loop, any other in a thread. It may return `reply(value, cost_usd=…, tokens=…)`.

        `price_usd` is text, an int, a Decimal, or a float as it is printed; `most_usd` what a call may cost at most.
        `lookup` takes an idempotency key and returns what became of that dispatch, or None. With `waits` a person
        answers, and the capability is registered with or without a function. Raises `ConfigError`.
        """
        scope = sys._getframe(1).f_locals
        declared = declare(
            name,
            effect=effect,
            price_usd=price_usd,
            most_usd=most_usd,
            version=version,
            timeout=timeout,
            retries=retries,
            waits=waits,
            lookup=lookup is not None,
            max_payload=max_payload,
            max_result=max_result,
            about=about,
        )
        register = functools.partial(self._local.register, declared, given=input, returned=output, lookup=lookup)
        if waits:
            register(None, scope=scope)

        def decorate(function: F) -> F:
            if not callable(function):
                raise ConfigError(f"{name} is registered with {function!r}.", hint="Decorate a function.")
            register(function, scope=scope)
            given.schemas(self.catalog[name])
            return function

        return decorate

    @property
    def catalog(self) -> Catalog:
        """Every capability that a script may call: registered ones go before those of `catalog=`, and `human.approve`
        is there unless it was registered otherwise."""
        registered = self._local.capabilities
        if self._made is None or self._made[0] != registered:
            found = {APPROVE.name: APPROVE, **self._known}
            found.update({each.name: each for each in registered})
            self._made = registered, Catalog(found.values())
        return self._made[1]

    @property
    def provider(self) -> Provider:
        """Whoever does the work: the registered handlers, and the provider that was passed."""
        return self._local

    # --- driving -----------------------------------------------------------------------------------------------

    def run(
        self,
        source: Source,
        args: Json = NO_ARGS,
        *,
        grant: GrantLike | None = None,
        policy: Mapping[str, object] | None = None,
        name: str = "",
        run: str = "",
        request: str = "",
        parent: str = "",
        stop: threading.Event | None = None,
    ) -> StepResult:
        """Start a run, and drive it to its end, a stop, or a wait.

        `source` is a script's text or a `Path`; `run` names the run, else it gets a name; `request` says what it is
        for, for whoever repairs it. A script that isn't admitted, and one that fails, is a result with its reason.
        Setting `stop` from elsewhere asks for a clean end. The grant of a run with a `parent` comes out of that
        run's, and what it doesn't use goes back at its end. Raises `UsageError`, `ConfigError`, `NotJson`, and
        `Rejected` for a grant that asks for more than there is."""
        names.check(run)
        text = given.text(source)
        chosen = None if grant is None else given.grant(grant, self.catalog)
        how: dict[str, Any] = {"policy": policy, "name": name, "run": run, "request": request, "parent": parent}
        return self._drive(
            lambda context, event: starting.start(context, text, args, grant=chosen, stop=event, **how), stop
        )

    def resume(
        self,
        run: str,
        *,
        policy: Mapping[str, object] | None = None,
        supersede: Supersede = False,
        retry: Retry = "open",
        stop: threading.Event | None = None,
    ) -> StepResult:
        """Go on with a run, with the source and args that it has. Raises `NotFound`, `RunBusy`, `ConfigError`."""
        allowed = given.allowances(supersede, retry)
        return self._drive(
            lambda context, event: starting.resume(context, run, policy=policy, allowances=allowed, stop=event), stop
        )

    def plan(
        self,
        run: str,
        source: Source | None = None,
        *,
        args: Json = revising.UNCHANGED,
        policy: Mapping[str, object] | None = None,
        supersede: Supersede = False,
        retry: Retry = "open",
        drops: Iterable[str] = (),
        moves: Mapping[str, str] | None = None,
    ) -> Planned:
        """Say what a revision would do; sends and writes nothing. `source` None is the run's own. Raises `NotFound`."""
        text = None if source is None else given.text(source)
        allowed = given.allowances(supersede, retry, drops, moves)
        drawn = revising.plan(self._context(), run, text, args=args, policy=policy, allowances=allowed)
        return Planned(revising.planned(drawn), drawn.plan)

    def revise(
        self,
        run: str,
        source: Source | None = None,
        *,
        args: Json = revising.UNCHANGED,
        policy: Mapping[str, object] | None = None,
        supersede: Supersede = False,
        retry: Retry = "open",
        drops: Iterable[str] = (),
        moves: Mapping[str, str] | None = None,
        at: Planned | None = None,
        stop: threading.Event | None = None,
    ) -> StepResult:
        """Revise a run: plan, and go on with the new source if the plan is admitted.

        `at` is a plan that was looked at before: if the run, script, args, allowances or catalog are others now,
        nothing is done (`Rejected`). Raises `NotFound`, `RunBusy`, `ConfigError`, `UsageError` for another run's."""
        text = None if source is None else given.text(source)
        allowed = given.allowances(supersede, retry, drops, moves)
        if at is not None and at.result.run != run:
            raise UsageError(f"This is no plan of the run {run}.", hint=f"Pass what app.plan({run!r}, …) returned.")
        if at is not None and at.plan is None:
            return at.result
        seen, of = (None, None) if at is None or at.plan is None else (at.plan.at, at.plan.of)
        return self._drive(
            lambda context, event: revising.revise(
                context, run, text, args=args, policy=policy, allowances=allowed, at=seen, of=of, stop=event
            ),
            stop,
        )

    def events(
        self, method: Callable[P, StepResult], *args: P.args, **kwargs: P.kwargs
    ) -> Generator[Event, None, None]:
        """Call `run`, `resume` or `revise`, and yield what happens while it goes on; the last event has the result.

        `for event in app.events(app.run, source, {"brief": "…"})`. It starts with the first step of the iteration, and
        raises what the method raises; an iteration that is left asks for a clean end and waits for it."""
        found = driven.events(self._watched(method, args, kwargs, None), finished)
        return cast("Generator[Event, None, None]", found)

    @property
    def aio(self) -> Aio:
        """The same methods to await, with async handlers on the caller's event loop."""
        return Aio(self)

    # --- operating and looking ---------------------------------------------------------------------------------

    def reconcile(
        self,
        run: str,
        *,
        result: Json = UNSET,
        abandon: bool = False,
        which: Sequence[str] = (),
        reason: str = "",
        by: str = "",
    ) -> list[Attempt]:
        """Close unresolved attempts: with the known `result`, or as abandoned, which allows each call once more.

        `which` are identities or idempotency keys, all if it is empty. Raises `UsageError`, `NotFound`, `RunBusy`,
        `NotJson`.
        """
        if abandon == (result is not UNSET):
            raise UsageError("An attempt is closed in one of two ways.", hint="Pass result=… or abandon=True.")
        known = operate.UNKNOWN if abandon else result
        return operate.reconcile(self._context(), run, result=known, abandon=abandon, which=which, reason=reason, by=by)

    def approve(
        self, run: str, approved: bool = True, *, note: str = "", which: Sequence[str] = (), by: str = ""
    ) -> list[Attempt | Question]:
        """Answer a run's open approvals, or those at the identities `which`. Raises `UsageError` if nothing waits."""
        return operate.approve(self._context(), run, approved=approved, note=note, which=which, by=by)

    def permit(
        self,
        run: str,
        capability: str,
        *,
        count: int | None = None,
        payloads: Iterable[Json] = (),
        where: Mapping[str, Any] | None = None,
        most_usd: object = None,
        expires: float | None = None,
        note: str = "",
        by: str = "",
    ) -> int:
        """Allow a number of calls that the grant's rules would ask about one by one: these payloads, or as many as
        `count` that fit the schema `where`; `expires` in seconds since 1970. Returns the permit's number. Raises
        `UsageError`, `ConfigError`, `NotFound`."""
        given = permitting.permit(
            capability, count=count, payloads=payloads, where=where, most_usd=most_usd, expires=expires
        )
        return operate.permit(self._context(), run, given, note=note, by=by)

    def grant(self, run: str, grant: GrantLike, *, by: str = "") -> None:
        """Give a run another grant, from its next attempt on. Raises `NotFound`, `RunBusy`, `ConfigError`."""
        operate.set_grant(self._context(), run, given.grant(grant, self.catalog), by=by)

    def cancel(self, run: str, *, by: str = "") -> bool:
        """Ask for the end of a run, and return whether it is driven now. Raises `NotFound`."""
        return operate.cancel(self._context(), run, by=by)

    def show(self, run: str) -> RunView:
        """Return everything about a run: how it stands, its calls, what it cost, what to do next. Raises `NotFound`."""
        return query.show(self._context().store, run)

    def runs(self) -> list[Summary]:
        """Return all runs, newest first."""
        return query.listing(self._context().store)

    def certificate(self, run: str) -> Certificate:
        """Recompute a run's certificate from the store, with any differences (DESIGN section 4). Raises `NotFound`."""
        return query.certify(self._context().store, run)

    # --- parts -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the store and the sandbox, unless they were passed. Without it, they are closed at the end."""
        self._end()

    def __enter__(self) -> Self:
        """Return the App itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def _context(self) -> Context:
        store, sandbox, watchers = self._parts.opened()
        catalog = self.catalog
        context = Context(
            store=store,
            sandbox=sandbox,
            provider=self._local,
            catalog=catalog,
            clock=self._clock,
            grant=everything(catalog) if self._grant is None else given.grant(self._grant, catalog),
            loop=self._loop or self._local.loop(),
            limits=self._limits,
            backoff=self._settings.backoff,
            operator=self._settings.operator,
            schemas=self._schemas,
            ledgers=self._ledgers,
        )
        if self._observer is not None:
            context.observer = self._observer
        context.observer = watchers.behind(context.observer)
        return context

    def _author(self, model: str | None) -> tuple[Model, int, float]:
        found, said = wiring.open_author(self._settings, model)
        return found, said.max_tokens, said.timeout

    def _drive(self, job: Callable[[Context, threading.Event], StepResult], stop: threading.Event | None) -> StepResult:
        """Drive a run where an interrupt can't tear it: only the main thread gets one, so it doesn't drive itself."""
        context, stop = self._context(), stop or threading.Event()
        if threading.current_thread() is not threading.main_thread():
            return job(context, stop)
        return Driven(lambda: job(context, stop), stop).wait()

    def _watched(
        self, method: Callable[..., StepResult], args: Any, kwargs: Any, loop: asyncio.AbstractEventLoop | None
    ) -> Callable[[Callable[[Mapping[str, Any]], None]], Driven[StepResult]]:
        """Return what starts one of the driving methods with an observer."""
        function: Callable[..., StepResult] = getattr(method, "__func__", method)
        if getattr(method, "__self__", None) is not self or function not in (App.run, App.resume, App.revise):
            raise UsageError(
                f"{method!r} has no events.", hint="Pass app.run, app.resume or app.revise, and what it takes."
            )

        def start(see: Callable[[Mapping[str, Any]], None]) -> Driven[StepResult]:
            stop = kwargs.get("stop") or threading.Event()
            view = self._view(loop, see)
            return Driven(lambda: function(view, *args, **{**kwargs, "stop": stop}), stop)

        return start

    def _view(
        self, loop: asyncio.AbstractEventLoop | None, see: Callable[[Mapping[str, Any]], None] | None = None
    ) -> App:
        """Return this App as it is for one call: handlers on another loop, one more observer."""
        view = copy.copy(self)
        view._keeps, view._loop = self, loop or self._loop
        if see is None:
            return view
        seen, mine = see, self._observer

        def both(event: Mapping[str, Json]) -> None:
            seen(event)
            if mine is not None:
                mine(event)

        view._observer = both
        return view


class Aio:
    """An App's methods to await. Each one runs in a thread of its own, and async handlers on the caller's loop.

    Cancelling the task asks for a clean end: nothing new is sent, calls in flight land and are committed, and then the
    cancellation goes on its way."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.run = _awaited(app, App.run, stops=True)
        self.resume = _awaited(app, App.resume, stops=True)
        self.revise = _awaited(app, App.revise, stops=True)
        self.repair = _awaited(app, App.repair, stops=True)
        self.author = _awaited(app, App.author, stops=True)
        self.plan = _awaited(app, App.plan)
        self.reconcile = _awaited(app, App.reconcile)
        self.approve = _awaited(app, App.approve)
        self.grant = _awaited(app, App.grant)
        self.cancel = _awaited(app, App.cancel)
        self.show = _awaited(app, App.show)
        self.runs = _awaited(app, App.runs)
        self.certificate = _awaited(app, App.certificate)

    def events(self, method: Callable[P, StepResult], *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Event, None]:
        """As `App.events`, for `async for`; `method` is the App's: `app.aio.events(app.run, source)`."""
        start = self._app._watched(method, args, kwargs, asyncio.get_running_loop())
        return cast("AsyncGenerator[Event, None]", driven.events_ahead(start, finished))


def _awaited(
    app: App, method: Callable[Concatenate[App, P], T], *, stops: bool = False
) -> Callable[P, Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        view = app._view(asyncio.get_running_loop())
        given_stop = kwargs.get("stop")
        stop = given_stop if isinstance(given_stop, threading.Event) else threading.Event()
        if stops:
            kwargs["stop"] = stop
        return await Driven(lambda: method(view, *args, **kwargs), stop).ended()

    return call
