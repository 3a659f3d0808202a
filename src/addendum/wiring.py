"""The composition root: the only module that knows all backends."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from addendum.authority.catalog import Catalog
from addendum.authority.grant import everything
from addendum.canon import Json
from addendum.clock import SystemClock
from addendum.config import Settings
from addendum.errors import ConfigError, NotFound, UsageError
from addendum.ports import Provider, Sandbox, Store
from addendum.providers.local import LocalProvider
from addendum.providers.router import Router
from addendum.records.history import fold
from addendum.rehearse.runner import Played, Player
from addendum.rehearse.scenario import Scenario
from addendum.runs.context import Context
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.sandbox.keeper import OneProcess
from addendum.store.sqlite import SqliteStore
from addendum.testing import demo

if TYPE_CHECKING:
    from pydantic import BaseModel

    from addendum.artifacts import FileArtifacts
    from addendum.credentials import Credentials
    from addendum.ports import Confinement, Model, ModelChoice
    from addendum.providers.mcp.pinning import Seen
    from addendum.providers.service import Tools
    from addendum.providers.threads import LoopThread
    from addendum.servicesfile import Author, ServicesFile
    from addendum.telemetry.watch import Sink, Watchers
    from addendum.work.bench import Bench
    from addendum.work.proposal import Policy
    from addendum.work.snapshot import Snapshot

CRASH_CHILD = (sys.executable, "-m", "addendum.cli.crash_child")
AGENT_CHILD = (sys.executable, "-m", "addendum.cli.agent_child")
LARGEST_PROMPT = 128 * 1024
"""Bytes of what a model is told to write or mend a script; see `addendum.repair.text`."""
SANDBOXES = ("monty", "bwrap", "docker", "podman")
"""Every backend that a script can be run in, the default first."""
CONTAINERS: Mapping[str, Literal["docker", "podman"]] = {"docker": "docker", "podman": "podman"}
KINDS = ("text", "structured", "image", "review", "storyboard", "http", "agent", "mail", "mcp")
"""The kinds of services; each is a module of `addendum.providers`."""


def open_store(where: str) -> Store:
    """Open a store: a path, or `memory:` for one that ends with the process. Raises `ConfigError`."""
    if where == "memory:":
        from addendum.testing.memory_store import MemoryStore

        return MemoryStore()
    if "://" in where:
        raise ConfigError(f"There is no store {where!r}.", hint="Name a path, as in .addendum/store.db.")
    return SqliteStore(Path(where))


def open_sandbox(name: str, settings: Settings | None = None) -> Sandbox:
    """Open a sandbox by its backend's name. Raises `ConfigError` for an unknown one."""
    settings = settings or Settings()
    if name == "monty":
        return EmbeddedSandbox()
    if name == "bwrap":
        from addendum.sandbox.bwrap import BwrapSandbox

        return BwrapSandbox(spares=settings.warm)
    if name in CONTAINERS:
        from addendum.sandbox.container import ContainerSandbox

        return ContainerSandbox(CONTAINERS[name], image=settings.image, memory=settings.memory, spares=settings.warm)
    raise ConfigError(f"There is no sandbox {name!r}.", hint=f"There are {', '.join(SANDBOXES)}.")


def build_image(name: str, base: str | None = None) -> dict[str, str]:
    """Make the image of a container backend: program, image (its digest), tag, python (its version), base.

    Raises `ConfigError` for a backend without an image, `SandboxMissing`, and `UsageError` for a base that won't do.
    """
    from addendum.sandbox import image
    from addendum.sandbox.engine import Engine

    if name not in CONTAINERS:
        raise ConfigError(f"The sandbox {name!r} has no image.", hint="docker and podman have one.")
    made = image.build(Engine.find(CONTAINERS[name]), base)
    return {
        "program": name,
        "image": made.identity,
        "tag": image.tag(),
        "python": made.version,
        "base": base or "this machine's Python",
    }


def verify_sandbox(name: str, folder: Path, settings: Settings | None = None) -> list[dict[str, str]]:
    """Try the acceptance checks on a backend: check, tried, verdict (passed, failed, not_applicable), detail.

    `folder` is private and empty. Raises `ConfigError` and `SandboxMissing`.
    """
    from addendum.runs import acceptance
    from addendum.sandbox.acceptance import Subject, verify
    from addendum.sandbox.checks import ALL
    from addendum.testing.memory_store import MemoryStore

    sandbox = open_sandbox(name, settings)
    try:
        found = verify(cast("Subject", sandbox), ALL, folder)
        runs = acceptance.verify(sandbox, MemoryStore(), SystemClock())
    finally:
        sandbox.close()
    own = [{"check": f.check, "tried": f.tried, "verdict": f.verdict, "detail": f.detail} for f in found]
    return own + runs


def open_provider(name: str, settings: Settings | None = None) -> tuple[Provider, Catalog]:
    """Open a provider by name, with its catalog: `demo`, `FILE.toml` for the services of a file, or `module:app` for
    what an `addendum.App` of a module has registered (the current folder counts as a place for modules). `settings` say
    where the runs are kept, beside which artifacts lie. Raises `ConfigError` for an unknown one."""
    from addendum import servicesfile

    if name == "demo":
        return demo.DemoProvider(), demo.CATALOG
    if servicesfile.is_named(name):
        router = open_services(services(Path(name)), settings or Settings())
        return router, router.catalog
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(
            f"There is no provider {name!r}.",
            hint="There are demo, FILE.toml for a services file, and module:app for an addendum.App.",
        )
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), attribute or "app")
    except Exception as error:
        raise ConfigError(
            f"The provider {name!r} can't be loaded: {type(error).__name__}: {error}.",
            hint="Name an importable module and its App, as in capabilities:app.",
        ) from error
    finally:
        sys.path.remove("")
    try:
        return found.provider, found.catalog
    except AttributeError:
        raise ConfigError(
            f"{name!r} is no App: it has no provider and no catalog.", hint="Name an addendum.App."
        ) from None


def services(path: Path) -> ServicesFile:
    """Read a services file. Raises `UsageError`, `ConfigError`."""
    from addendum import servicesfile

    def spec(kind: str) -> Callable[[], type[BaseModel]]:
        return lambda: cast("type[BaseModel]", importlib.import_module(f"addendum.providers.{kind}").Spec)

    return servicesfile.load(path, {kind: spec(kind) for kind in KINDS})


def open_credentials(file: ServicesFile) -> Credentials:
    """Return the secrets that a services file names. None is read yet."""
    from addendum.credentials import Credentials

    return Credentials(file.secrets, file.folder, os.environ)


def open_services(file: ServicesFile, settings: Settings) -> Router:
    """Open every service of a file behind one provider. Raises `ConfigError`; what was opened until then is closed."""
    from addendum.providers.router import shut_all
    from addendum.providers.service import Service
    from addendum.providers.threads import LoopThread

    credentials, thread = open_credentials(file), LoopThread()
    tools = _tools(file, settings, credentials, thread)
    opened: list[Service] = []
    try:
        for name, spec in file.capabilities.items():
            module = importlib.import_module(f"addendum.providers.{spec.kind}")
            opened.append(module.open(name, spec, tools))
        return Router(opened, thread, redact=credentials.redact, redact_value=credentials.redact_value)
    except BaseException:
        shut_all(opened, thread)
        raise


def _tools(file: ServicesFile, settings: Settings, credentials: Credentials, thread: LoopThread) -> Tools:
    """Return what the services of a file work with."""
    from addendum.providers.redacting import RedactedArtifacts
    from addendum.providers.service import Tools

    return Tools(
        secret=credentials.later,
        artifacts=RedactedArtifacts(open_artifacts(settings), credentials.redact_bytes),
        folder=file.folder,
        model=lambda choice: open_model(choice, credentials, file.folder),
        loop=thread.loop,
        backoff=settings.backoff,
        kept=_beside(settings),
        agent=AGENT_CHILD,
    )


def look_at_tools(settings: Settings, names: Sequence[str]) -> list[Seen]:
    """Ask the MCP servers of a services file (all of them, if none is named) what they offer, beside what is pinned of
    it. Each is started for that, and none of its tools is called. Raises `UsageError`, `ConfigError`, `NotFound`."""
    from addendum import servicesfile
    from addendum.providers.mcp.pinning import look
    from addendum.providers.threads import LoopThread

    if not servicesfile.is_named(settings.provider):
        raise ConfigError(f"The provider {settings.provider!r} has no MCP servers.", hint="Name a services file.")
    file = services(Path(settings.provider))
    servers = {name: spec for name, spec in file.capabilities.items() if spec.kind == "mcp"}
    for name in names:
        if name not in servers:
            raise NotFound(
                f"{settings.provider} has no MCP server {name!r}.", hint=f"It has {', '.join(servers) or 'none'}."
            )
    credentials, thread = open_credentials(file), LoopThread()
    tools = _tools(file, settings, credentials, thread)
    try:
        chosen = names or servers
        found = [tools.wait(look(name, servers[name], tools), 2 * servers[name].start_timeout + 10) for name in chosen]
        for seen in found:
            said: Json = {name: dict(tool.data) for name, tool in seen.now.items()}
            if credentials.redact_value(said) != said:
                raise ConfigError(
                    f"The MCP server {seen.name} puts a secret into the definition of a tool.",
                    hint="Don't use it: what it says of its tools is kept, and shown to people and models.",
                )
        return found
    except ConfigError as error:
        raise ConfigError(credentials.redact(error.message), hint=error.hint) from None
    finally:
        thread.close()


def open_model(choice: ModelChoice, credentials: Credentials, folder: Path) -> Model:
    """Open a language model; paths are of `folder`. Raises `ConfigError`, also where the extra `models` is missing."""
    if choice.model.startswith("scripted:"):
        from addendum.testing.scripted_model import ScriptedModel

        return ScriptedModel.load(folder / choice.model.removeprefix("scripted:"))
    from addendum.models.later import LaterModel

    return LaterModel(choice, credentials.later(choice.secret) if choice.secret else None)


def open_author(settings: Settings, named: str | None = None) -> tuple[Model, Author]:
    """Open the model that writes and repairs scripts, with what the services file says of it. `named` is another model,
    `provider:model`; it has the file's address and secret if it is of the same provider. Raises `ConfigError`."""
    from addendum import servicesfile
    from addendum.credentials import Credentials

    file = services(Path(settings.provider)) if servicesfile.is_named(settings.provider) else None
    said = file.author if file is not None else None
    if named is not None:
        if not named.partition(":")[2]:
            raise ConfigError(f"{named!r} names no model.", hint="Write PROVIDER:MODEL, as in openai:gpt-5-mini.")
        same = said is not None and said.model.partition(":")[0] == named.partition(":")[0]
        said = (
            said.model_copy(update={"model": named}) if said is not None and same else servicesfile.Author(model=named)
        )
    if said is None:
        raise ConfigError(
            "Nobody is named who writes scripts.",
            hint="Name a model with --model PROVIDER:MODEL, or write [author] in a services file.",
        )
    from addendum.authority.money import nano
    from addendum.ports import ModelChoice

    choice = ModelChoice(
        model=said.model,
        url=said.url,
        secret=said.secret,
        max_tokens=said.max_tokens,
        timeout=said.timeout,
        price=None if said.price_usd is None else nano(said.price_usd),
        max_input=LARGEST_PROMPT,
    )
    credentials = open_credentials(file) if file is not None else Credentials({}, Path.cwd(), os.environ)
    if choice.secret:
        credentials.get(choice.secret)  # it is asked at once: a key that isn't there is said before a run is made
    from addendum.models.redacted import RedactedModel

    model = open_model(choice, credentials, file.folder if file is not None and named is None else Path.cwd())
    return RedactedModel(model, credentials.redact, credentials.redact_value), said


def open_artifacts(settings: Settings) -> FileArtifacts:
    """Open the store of files that results refer to: a folder beside the runs' store. Nothing is made yet."""
    from addendum.artifacts import FOLDER, FileArtifacts

    return FileArtifacts(_beside(settings) / FOLDER)


def _beside(settings: Settings) -> Path:
    """Return the folder that the runs' store lies in."""
    return Path(".addendum") if settings.store == "memory:" else Path(settings.store).absolute().parent


def known(settings: Settings) -> Catalog:
    """Return the catalog that the settings name, with nothing left open behind it. Raises `ConfigError`."""
    provider, catalog = open_provider(settings.provider, settings)
    shut(provider)
    return told(catalog, settings)


def shut(provider: Provider) -> None:
    """Close a provider that was opened here and has something to close: the services of a file."""
    if isinstance(provider, Router):
        provider.close()


def shut_context(context: Context) -> None:
    """Close what `open_context` opened, each part whatever becomes of the others."""
    with ExitStack() as closing:
        closing.callback(context.store.close)
        closing.callback(shut, context.provider)
        closing.callback(context.sandbox.close)


def told(catalog: Catalog, settings: Settings) -> Catalog:
    """Return a provider's catalog with what the settings' file says in its place. Raises `ConfigError`."""
    from addendum.authority import catalogfile
    from addendum.runs import given

    if not settings.catalog:
        return catalog
    return catalogfile.merged(catalog, given.catalog(Path(settings.catalog)))


def open_local(rest: Provider | None = None) -> LocalProvider:
    """Open a provider of registered functions; what none of them takes goes to `rest`."""
    return LocalProvider(rest=rest)


def open_context(
    settings: Settings,
    *,
    provider: Provider | None = None,
    catalog: Catalog | None = None,
    observer: Callable[[Mapping[str, Json]], None] | None = None,
) -> Context:
    """Put the parts together as the settings say. Raises `ConfigError`; what was opened until then is closed."""
    with ExitStack() as opened:
        if provider is None or catalog is None:
            provider, catalog = open_provider(settings.provider, settings)
            opened.callback(shut, provider)
        catalog = told(catalog, settings)
        store = open_store(settings.store)
        opened.callback(store.close)
        context = Context(
            store=store,
            sandbox=open_sandbox(settings.sandbox, settings),
            provider=provider,
            catalog=catalog,
            clock=SystemClock(),
            grant=everything(catalog),
            limits=settings.limits(),
            backoff=settings.backoff,
            operator=settings.operator,
            loop=provider.loop() if isinstance(provider, Router) else None,
        )
        opened.pop_all()
    if observer is not None:
        context.observer = observer
    return context


def open_watchers(
    settings: Settings,
    catalog: Callable[[], Catalog],
    provider: Provider | None = None,
    *,
    own_store: bool = True,
) -> Watchers:
    """Open what watches runs, as the settings say: log lines, spans, metrics. `own_store` says that the runs are in the
    store of the settings, where content can be read. Raises `ConfigError` for a log that can't be written, and where
    OpenTelemetry was asked for and isn't installed."""
    from addendum.telemetry import logs
    from addendum.telemetry.content import Content, Traces
    from addendum.telemetry.watch import Watch, Watchers

    watches: list[Watch] = []
    closing: list[Callable[[], None]] = []
    installed = importlib.util.find_spec("opentelemetry") is not None
    if settings.telemetry in ("on", "content") and not installed:
        raise ConfigError(
            f"The setting telemetry is {settings.telemetry}, and OpenTelemetry isn't installed.",
            hint="Run: pip install 'addendum[telemetry]'",
            extra="telemetry",
        )
    kept = own_store and settings.store != "memory:"
    # Whoever has set OpenTelemetry up in this process has imported it; importing it to ask would cost every command.
    here = "opentelemetry.trace" in sys.modules or "OTEL_PYTHON_TRACER_PROVIDER" in os.environ
    if settings.telemetry in ("on", "content") or (settings.telemetry == "auto" and installed and here):

        def spans() -> Sink:
            from addendum.telemetry.spans import Spans

            content = Content(lambda: open_store(settings.store)) if kept and settings.telemetry == "content" else None
            traces = Traces(Path(settings.store).absolute().parent / "traces" if kept else None)
            return Spans(capability=lambda name: catalog().get(name), content=content, traces=traces)

        def metrics() -> Sink:
            from addendum.telemetry.metrics import Metrics

            return Metrics(capability=lambda name: catalog().get(name))

        watches += [Watch(spans), Watch(metrics)]
    if settings.log:
        closing.append(logs.opened(settings.log, settings.log_level, _redact(provider)))
    if settings.log or logs.wanted():
        watches.append(Watch(logs.Lines))
    return Watchers(tuple(watches), tuple(closing))


def _redact(provider: Provider | None) -> Callable[[str], str]:
    return provider.redact if isinstance(provider, Router) else str


class Parts:
    """The store, the sandbox and what watches runs, opened when they are first needed. What was passed as an object
    stays its owner's. They are of the process that needed them first: a fork's child has none of their threads, and a
    lock that one of these held is held there for ever."""

    def __init__(
        self,
        store: str | Store,
        sandbox: str | Sandbox,
        watch: Callable[[bool], Watchers],
        close: Callable[[], None],
    ) -> None:
        self._lock = threading.Lock()
        self._names = (store, sandbox)
        self._opened: tuple[Store, Sandbox, Watchers] | None = None
        self._watch = watch
        self._close = close
        self._closed = False
        self._process = OneProcess()

    def opened(self) -> tuple[Store, Sandbox, Watchers]:
        """Return all three. Raises `UsageError` once it was closed and in a fork's child, and `ConfigError`."""
        if self._process.elsewhere:
            raise UsageError(
                "This App was opened by the process that forked this one.", hint="Make another one in this process."
            )
        self._process.use()
        with self._lock:
            if self._closed:
                raise UsageError("This App is closed.", hint="Make another one.")
            if self._opened is None:
                store, sandbox = self._names
                watchers = self._watch(isinstance(store, str))
                self._opened = (
                    open_store(store) if isinstance(store, str) else store,
                    open_sandbox(sandbox) if isinstance(sandbox, str) else sandbox,
                    watchers,
                )
            return self._opened

    def close(self) -> None:
        """Close what was opened by name, each part whatever becomes of the others. What another process has opened is
        that one's to close."""
        if self._process.elsewhere:
            return
        with self._lock:
            opened, self._opened, self._closed = self._opened, None, True
        with ExitStack() as closing:
            closing.callback(self._close)
            if opened is not None:
                (store, sandbox, watchers), (store_name, sandbox_name) = opened, self._names
                if isinstance(store_name, str):
                    closing.callback(store.close)
                if isinstance(sandbox_name, str):
                    closing.callback(sandbox.close)
                closing.callback(watchers.close)


def recall(context: Context, run: str) -> None:
    """Let the demo provider count on where earlier processes left a run. It is local and has no memory; without this a
    second process would make `mem://image/1` again, and a new image would look like the old one."""
    if isinstance(context.provider, demo.DemoProvider):
        history = fold(context.store.entries(run))
        context.provider.count.update({name: totals.calls for name, totals in history.totals.items()})


def do_agent_job(data: bytes) -> int:
    """Do one job of an agent, in a process that does nothing else. Returns the exit code: 2 for a job that can't be
    read."""
    from addendum.providers.agentjob import Job, perform

    try:
        job = Job.read(data)
    except (ValueError, KeyError, TypeError):
        return 2
    perform(job, open_confinement)
    return 0


def open_confinement() -> Confinement:
    """Open what commands and validators of work contracts are confined by."""
    from addendum.sandbox.commands import BwrapConfinement

    return BwrapConfinement()


def work_snapshot(settings: Settings, runner: str) -> Callable[[Policy, Path], Snapshot]:
    """Return what takes the present snapshot of a policy in a folder."""
    from addendum.work.files import with_files
    from addendum.work.snapshot import take

    catalog, confinement = with_files(known(settings)), open_confinement()
    return lambda policy, folder: take(policy, folder, catalog, confinement.profile(), runner)


def open_bench(settings: Settings, repository: Path, runner: str) -> Bench:
    """Put together what work contracts need. The runner's key lies beside the store, and is made when first used."""
    from addendum import signing
    from addendum.work.bench import Bench
    from addendum.work.files import with_files
    from addendum.work.objects import Repository

    opened = Repository(repository)
    context = open_context(settings)
    context.catalog = with_files(context.catalog)
    return Bench(
        store=context.store,
        repository=opened,
        confinement=open_confinement(),
        clock=context.clock,
        key=signing.local(Path(settings.store).absolute().parent / "keys" / "runner.pem"),
        scripts=context,
        look=work_snapshot(settings, runner),
        operator=settings.operator,
    )


def rehearsal_context(folder: Path, provider: demo.DemoProvider) -> Context:
    """Put the production parts together around a scenario's provider."""
    settings = Settings(store=str(folder / "store.db"), backoff=0.0, operator="rehearsal")
    return open_context(settings, provider=provider, catalog=demo.CATALOG)


def rehearse(scenario: Scenario, folder: Path) -> Played:
    """Play a scenario in a folder that is its own."""
    return Player(scenario, folder, rehearsal_context, CRASH_CHILD).play()


def demonstration(
    folder: Path, capability: str, dispatch: int, seconds: float, observer: Callable[[Mapping[str, Json]], None]
) -> Context:
    """Put the production parts together for the demonstration: a provider that fails once and takes its time."""
    settings = Settings(store=str(folder / "store.db"))
    provider = demo.DemoProvider(faults=[demo.Fault(capability, "provider_error", dispatch=dispatch)], seconds=seconds)
    return open_context(settings, provider=provider, catalog=demo.CATALOG, observer=observer)
