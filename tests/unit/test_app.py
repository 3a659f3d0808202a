"""The library's App: what is registered, what is called, what comes back."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import addendum
from addendum import App, CapabilityError, ConfigError, Request, UnknownOutcome, UsageError, reply
from addendum.errors import NotFound, Rejected, RunBusy
from addendum.ports import Limits, Reply, Sandbox, Usage
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing import DEMO_CATALOG, DemoProvider, ManualClock, MemoryStore, ScriptedProvider

ONE = """
async def orchestrate(ctx, args):
    return await ctx.run("work.do", args)
"""
CAUGHT = """
async def orchestrate(ctx, args):
    try:
        first = await ctx.run("work.do", {})
    except CapabilityError as error:
        first = [error.code, error.message, error.retryable]
    return [first, await ctx.run("work.other", {})]
"""
BESIDE = """
async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("work.do", {}), ctx.run("work.other", {})], return_errors=False)
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One sandbox for all tests of this module."""
    sandbox = EmbeddedSandbox()
    yield sandbox
    sandbox.close()


@pytest.fixture
def app(sandbox: Sandbox) -> Iterator[App]:
    """An App with a store of its own."""
    with App(store=MemoryStore(), sandbox=sandbox, backoff=0.0) as app:
        yield app


def failing(app: App, handler: Callable[..., Any], effect: Any = "paid") -> Any:
    """Run a script that calls a broken handler, catches its failure and goes on; return the run's result."""
    app.capability("work.do", effect=effect, price_usd="0.02")(handler)

    @app.capability("work.other", effect="read")
    def other() -> str:
        return "fine"

    return app.run(CAUGHT)


# --- names --------------------------------------------------------------------------------------------------------


def test_public_names() -> None:
    """The public names are these, each can be imported, and there is no other."""
    assert addendum.__all__ == [
        "App", "Planned", "reply", "Request", "Reply", "Usage", "Provider", "Capability", "Catalog", "Grant", "Limit",
        "Event", "StepResult", "AddendumError", "CapabilityError", "ConfigError", "NotFound", "NotJson", "Rejected",
        "RunBusy", "UnknownOutcome", "UsageError",
    ]  # fmt: skip
    assert dir(addendum) == sorted(addendum.__all__)
    for name in addendum.__all__:
        assert getattr(addendum, name).__module__.startswith("addendum") or name == "Event"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        getattr(addendum, "Nothing")  # noqa: B009


def test_import_is_light() -> None:
    """`import addendum` loads nothing but itself."""
    code = "import sys, addendum; print(*sorted(n for n in sys.modules if n.startswith(('addendum', 'pydantic'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["addendum"]


# --- declaring ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ({"effect": "write"}, "effect 'write'.*read, idempotent, paid, side_effect, irreversible"),
        ({"effect": "paid", "price_usd": "two cents"}, "price_usd 'two cents'"),
        ({"effect": "paid", "price_usd": -1}, "negative"),
        ({"effect": "paid", "price_usd": "0.02", "most_usd": "0.01"}, "at most 0.01"),
        ({"effect": "paid", "timeout": 0}, "timeout = 0"),
        ({"effect": "paid", "timeout": float("inf")}, "timeout = inf"),
        ({"effect": "paid", "retries": -1}, "retries = -1"),
        ({"effect": "paid", "version": ""}, "version ''"),
        ({"effect": "paid", "input": {"type": "objekt"}}, "no JSON Schema"),
        ({"effect": "paid", "input": {"type": {1, 2}}}, "no JSON Schema.*set"),
        ({"effect": "paid", "output": {"$ref": "https://example.com/image.json"}}, "isn't in it"),
        ({"effect": "paid", "output": {"$ref": "#/$defs/Image"}}, "isn't in it"),
        ({"effect": "paid", "input": {"properties": {"size": {}}}}, "'size', which its handler doesn't take"),
        ({"effect": "paid", "input": {"properties": {}}}, "needs 'prompt'"),
        ({"effect": "paid", "output": threading.Lock}, "type"),
    ],
)
def test_bad_declaration(app: App, declaration: dict[str, Any], message: str) -> None:
    """A declaration that can't be meant is refused where it is written, with what can be written instead."""
    with pytest.raises(ConfigError, match=message) as caught:

        @app.capability("work.do", **declaration)
        def work(prompt: str) -> dict[str, Any]:
            return {}

    assert caught.value.hint


@pytest.mark.parametrize("name", ["", "two words", "ctx.now", "a/b", "a#1", ".do", "work.", "x" * 101, 3])
def test_bad_name(app: App, name: Any) -> None:
    """A name that couldn't be written in a script or in an identity is refused."""
    with pytest.raises(ConfigError, match="no name of a capability"):
        app.capability(name, effect="read")


def test_prices_are_exact(app: App) -> None:
    """A price may be text, an int, a Decimal or a float, and means what is printed."""
    for name, price in {"a": "0.1", "b": 1, "c": Decimal("0.000000001"), "d": 0.07}.items():
        app.capability(name, effect="paid", price_usd=price)(lambda: None)
    assert [app.catalog[name].price for name in "abcd"] == [100_000_000, 1_000_000_000, 1, 70_000_000]


def test_registered_twice(app: App) -> None:
    """Two functions can't have one name; the same function again takes the first one's place."""

    def cell(text: str) -> Any:
        @app.capability("work.do", effect="read")
        def work() -> str:
            return text

        return work

    cell("old")
    cell("new")
    assert app.run(ONE).result == "new"
    with pytest.raises(ConfigError, match="registered twice"):

        @app.capability("work.do", effect="read")
        def other() -> None: ...


def test_decorator_returns_the_function(app: App) -> None:
    """A registered function can still be called as it is."""

    @app.capability("work.do", effect="read")
    def work(n: int) -> int:
        """Double a number.

        And more about it."""
        return 2 * n

    assert work(4) == 8
    assert app.catalog["work.do"].about == "Double a number."


# --- payloads -----------------------------------------------------------------------------------------------------


def test_payload_to_parameters(app: App) -> None:
    """Properties arrive as parameters, converted to their annotations; those left out have their defaults."""

    @dataclass
    class Size:
        width: int
        height: int

    class Style(BaseModel):
        name: str

    seen: list[Any] = []

    @app.capability("work.do", effect="read")
    def work(size: Size, style: Style, kind: Literal["a", "b"] = "b", tags: list[str] | None = None) -> int:
        seen.append((size, style, kind, tags))
        return size.width * size.height

    args: Any = {"size": {"width": 2, "height": 3}, "style": {"name": "oil"}}
    assert app.run(ONE, args).result == 6
    assert seen == [(Size(2, 3), Style(name="oil"), "b", None)]


@pytest.mark.parametrize(
    "args",
    [{}, {"prompt": 1}, {"prompt": "a", "size": "4K"}, {"prompt": "a", "promt": "b"}, {"prompt": None}],
    ids=["missing", "of another type", "no choice", "misspelt", "null"],
)
def test_payload_that_does_not_fit(app: App, args: Any) -> None:
    """A payload that the signature doesn't take is refused before anything is sent, and costs nothing."""

    @app.capability("work.do", effect="paid", price_usd=1)
    def work(prompt: str, size: Literal["1K", "2K"] = "1K") -> None:
        raise AssertionError("it was called")

    result = app.run(ONE, args)
    assert (result.status, result.error, result.dispatched, result.cost) == ("failed", "invalid_input", 0, 0)


def test_whole_payload(app: App) -> None:
    """A parameter named `payload` gets all of it, as it is or as the type that it is annotated with."""

    class Image(BaseModel):
        prompt: str
        schema_: int = 0

    @app.capability("work.do", effect="read")
    def work(payload: dict[str, Any]) -> Any:
        return sorted(payload)

    @app.capability("work.other", effect="read")
    async def other(payload: Image) -> str:
        return payload.prompt

    assert app.run(ONE, {"b": 1, "a": 2}).result == ["a", "b"]
    assert app.run(ONE.replace("work.do", "work.other"), {"prompt": "sea"}).result == "sea"
    assert app.run(ONE.replace("work.do", "work.other"), {}).error == "invalid_input"


def test_open_payload(app: App) -> None:
    """With `**rest` a payload may have more properties than the parameters."""

    @app.capability("work.do", effect="read")
    def work(prompt: str, **rest: Any) -> Any:
        return [prompt, rest]

    assert app.run(ONE, {"prompt": "sea", "seed": 3}).result == ["sea", {"seed": 3}]


def test_payload_of_explicit_schema(app: App) -> None:
    """A JSON Schema in place of the annotations decides what is sent, and what comes back is success."""
    given = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}

    @app.capability("work.do", effect="read", input=given, output={"type": "integer", "maximum": 5})
    def work(n):  # type: ignore[no-untyped-def]
        return n

    assert app.catalog["work.do"].input == given
    assert app.run(ONE, {"n": 2}).error == "invalid_input"
    assert app.run(ONE, {"n": 4}).result == 4
    assert app.run(ONE, {"n": 6}).error == "provider_error"


def test_request(app: App) -> None:
    """A parameter annotated `Request` gets the dispatch: the key is another one for each attempt."""
    keys: list[str] = []

    @app.capability("work.do", effect="paid")
    def work(request: Request, n: int = 0) -> str:
        keys.append(request.key)
        if len(keys) == 1:
            raise CapabilityError("rate_limited", retryable=True)
        return request.capability

    result = app.run(ONE)
    assert (result.result, result.dispatched, len(set(keys))) == ("work.do", 2, 2)
    assert "request" not in str(app.catalog["work.do"].input)


def test_changed_payload_is_its_own(app: App) -> None:
    """A handler that changes its payload changes nobody else's."""

    @app.capability("work.do", effect="read")
    def work(payload: dict[str, Any]) -> Any:
        payload["items"].append("mine")
        payload["new"] = True
        return payload

    source = """
async def orchestrate(ctx, args):
    items = ["a"]
    payload = {"items": items}
    await ctx.run("work.do", payload)
    return [payload, await ctx.run("work.do", payload)]
"""
    assert app.run(source).result == [{"items": ["a"]}, {"items": ["a", "mine"], "new": True}]


# --- results ------------------------------------------------------------------------------------------------------


def test_models_are_written(app: App) -> None:
    """A returned dataclass or pydantic model becomes the object that it declares."""

    @dataclass
    class Part:
        n: int

    class Image(BaseModel):
        url: str
        parts: list[Part]

    @app.capability("work.do", effect="read")
    def work() -> dict[str, Any]:
        return {"images": [Image(url="mem://1", parts=[Part(1)]), (Part(2),)]}

    @app.capability("work.other", effect="read")
    def other() -> Image:
        return Image(url="mem://2", parts=[])

    assert app.run(ONE).result == {"images": [{"url": "mem://1", "parts": [{"n": 1}]}, [{"n": 2}]]}
    assert app.run(ONE.replace("work.do", "work.other")).result == {"url": "mem://2", "parts": []}


def test_reported_cost(app: App) -> None:
    """A handler may say what a call did cost; the catalog's price counts when it doesn't."""

    @app.capability("work.do", effect="paid", price_usd="0.02", most_usd="0.10")
    def work() -> Reply:
        return reply("a", cost_usd="0.0031", tokens=812)

    @app.capability("work.other", effect="paid", price_usd="0.02")
    def other() -> Reply:
        return Reply("b")

    result = app.run(BESIDE)
    assert (result.result, result.cost_usd) == (["a", "b"], "0.0231")
    assert app.show(result.run).totals["work.do"]["tokens"] == 812


def test_cost_of_a_failure(app: App) -> None:
    """A failure costs what its error says the provider charged."""

    def work() -> None:
        raise CapabilityError("refused", "no", cost_usd="0.005")

    result = failing(app, work)
    assert (result.result, result.cost_usd) == ([["refused", "no", False], "fine"], "0.005")


def test_reply_needs_an_amount() -> None:
    """A cost that is no amount is an error in the handler, not a credit."""
    assert reply(1).usage == Usage(None, 0)
    with pytest.raises(ConfigError, match="negative"):
        reply(1, cost_usd="-0.01")


# --- broken handlers ----------------------------------------------------------------------------------------------


def raises(error: BaseException, *, wait: bool = False) -> Callable[[], Any]:
    """Return a handler that raises, in a thread or on the loop."""

    def handler() -> None:
        raise error

    async def waiting() -> None:
        await asyncio.sleep(0)
        raise error

    return waiting if wait else handler


@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CapabilityError("refused", "no"), ["refused", "no", False]),
        (CapabilityError("odd", "no"), ["provider_error", "odd: no", False]),
        (KeyError("x"), ["provider_error", "KeyError: 'x'", False]),
        (SystemExit(3), ["provider_error", "SystemExit: 3", False]),
        (KeyboardInterrupt(), ["provider_error", "KeyboardInterrupt: ", False]),
        (GeneratorExit(), ["provider_error", "GeneratorExit: ", False]),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "ExceptionGroup: two"),
        (StopIteration(1), "StopIteration"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_handler_that_raises(app: App, error: BaseException, expected: Any, wait: bool) -> None:
    """Whatever a handler raises is the failure of its own call, and of no other."""
    result = failing(app, raises(error, wait=wait))
    first, second = result.result
    assert second == "fine"
    assert first == expected if isinstance(expected, list) else expected in first[1]


@pytest.mark.parametrize(
    "error", [UnknownOutcome("the line went dead"), TimeoutError("30 s"), asyncio.CancelledError()]
)
def test_unknown_outcome(app: App, error: BaseException) -> None:
    """A handler that can't tell what became of its request leaves a call unresolved, which is never sent again."""
    result = failing(app, raises(error, wait=True))
    assert (result.status, result.stop, result.exit_code) == ("stopped", "unresolved", 4)
    again = app.resume(result.run)
    assert (again.stop, again.dispatched) == ("unresolved", 0)
    app.reconcile(result.run, result="it was done")
    assert app.resume(result.run).result == ["it was done", "fine"]


def test_unknown_outcome_of_a_read(app: App) -> None:
    """A read whose outcome isn't known is tried again, and is a retryable timeout in the end."""
    result = failing(app, raises(UnknownOutcome("gone")), effect="read")
    assert result.result[0] == ["timeout", "gone", True]
    assert result.dispatched == 3 + 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "nan is no JSON number"),
        (b"x", "a bytes is no JSON value"),
        ({"a", "b"}, "a set is no JSON value"),
        ({1: "x"}, "the key 1 is a int"),
        (2**60, "beyond 2^53"),
        ("\ud800", "lone surrogate"),
        (object(), "a object is no JSON value"),
        ("x" * 10_000_000, "10,000,013 bytes"),
    ],
    ids=["nan", "bytes", "set", "int key", "large int", "surrogate", "object", "10 MB"],
)
def test_result_that_is_no_json(app: App, value: Any, message: str) -> None:
    """A result that can't be kept is a failure of the provider that was paid for, and nothing is converted silently."""
    result = failing(app, lambda: {"deep": [value]})
    assert result.result[0][0] == "provider_error"
    assert message in result.result[0][1]
    assert result.result[1] == "fine"
    assert result.cost_usd == "0.02"


def test_result_that_does_not_fit(app: App) -> None:
    """A result that doesn't fit the return annotation is a failure of the provider."""

    def work() -> list[int]:
        return ["a"]  # type: ignore[list-item]

    assert "'a' is not of type 'integer'" in failing(app, work).result[0][1]


def test_result_that_contains_itself(app: App) -> None:
    """A result without an end is a failure of the provider."""
    endless: list[Any] = []
    endless.append(endless)
    assert failing(app, lambda: endless).result[0][0] == "provider_error"


@pytest.mark.slow
@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
def test_handler_that_hangs(app: App, wait: bool) -> None:
    """A side-effecting handler that doesn't end in time leaves its call unresolved; a call beside it is finished."""
    release = threading.Event()

    async def waiting() -> None:
        await asyncio.Event().wait()

    app.capability("work.do", effect="side_effect", timeout=0.05)(waiting if wait else release.wait)

    @app.capability("work.other", effect="paid", price_usd=1)
    def other() -> str:
        return "fine"

    result = app.run(BESIDE)
    release.set()
    assert (result.stop, result.committed, result.cost_usd) == ("unresolved", 1, "1.00")


def test_blocking_handlers_run_together(app: App) -> None:
    """Handlers that block run side by side, and the loop goes on beside them."""
    together = threading.Barrier(3, timeout=10)

    @app.capability("work.do", effect="read")
    def work(n: int) -> int:
        together.wait()
        return n

    @app.capability("work.other", effect="read")
    async def other() -> str:
        await asyncio.to_thread(together.wait)
        return "loop"

    source = """
async def orchestrate(ctx, args):
    return await ctx.parallel([
        ctx.run("work.do", {"n": 1}), ctx.run("work.do", {"n": 2}), ctx.run("work.other", {})
    ])
"""
    assert app.run(source).result == [1, 2, "loop"]


def test_hung_thread_does_not_hold_the_process(tmp_path: Path) -> None:
    """A process ends although one of its handlers hangs in a thread."""
    script = f"""
import threading
from addendum import App
app = App(store={str(tmp_path / "s.db")!r})
@app.capability("work.do", effect="side_effect", timeout=0.05)
def work() -> None:
    threading.Event().wait()
print(app.run({ONE!r}).stop)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("unresolved\n", "", 0)


# --- lookup, people, providers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
def test_lookup(app: App, wait: bool) -> None:
    """A capability that can be looked up by its key resolves a lost call without a person."""
    done: dict[str, str] = {}

    def lookup(key: str) -> str | None:
        return done.get(key)

    async def waiting(key: str) -> str | None:
        return done.get(key)

    @app.capability("work.do", effect="paid", price_usd="0.02", lookup=waiting if wait else lookup)
    def work(request: Request) -> str:
        done[request.key] = "sent after all"
        raise UnknownOutcome("the line went dead")

    first = app.run(ONE)
    assert first.stop == "unresolved"
    again = app.resume(first.run)
    assert (again.result, again.dispatched, again.total_cost_usd) == ("sent after all", 0, "0.02")


def test_a_revision_asks_the_provider_what_became_of_a_call(app: App) -> None:
    """One that reaches the unresolved call unchanged starts, so the lookup has its turn; any other doesn't start."""
    keys: list[str] = []

    @app.capability("work.do", effect="paid", lookup=lambda key: "found" if key in keys else None)
    def work(request: Request) -> str:
        keys.append(request.key)
        raise UnknownOutcome("the line went dead")

    run = app.run(ONE).run
    other = app.revise(run, ONE.replace('"work.do", args', '"work.do", {"other": 1}'))
    assert (other.stop, other.revision) == ("unresolved", 1)
    same = app.revise(run, ONE + "# the same call\n")
    assert (same.status, same.result, same.dispatched, same.revision) == ("completed", "found", 0, 2)


def test_a_plan_that_a_changed_catalog_stops_as_well_does_not_apply(sandbox: Sandbox) -> None:
    """It reaches its unresolved call unchanged; but that call has another price by now, which nobody has accepted."""
    store = MemoryStore()
    for price, applies in (("0.01", True), ("0.02", False)):
        with App(store=store, sandbox=sandbox) as app:

            @app.capability("work.do", effect="paid", price_usd=price)
            def work() -> str:
                raise UnknownOutcome("the line went dead")

            if applies:
                app.run(ONE, run="r")
            plan = app.plan("r", ONE + "# the same call\n").plan
            assert plan is not None
            assert plan.applies is applies


def test_approval(app: App) -> None:
    """Every App can ask a person; the answer is the call's result."""
    source = ONE.replace("work.do", "human.approve")
    waiting = app.run(source, {"question": "Go on?"})
    assert waiting.status == "waiting"
    app.approve(waiting.run, note="fine")
    assert app.resume(waiting.run).result == {"approved": True, "note": "fine"}
    with pytest.raises(UsageError, match="waits"):
        app.approve(waiting.run)


def test_own_approval(app: App) -> None:
    """A capability that a person answers needs no handler; a function gives it a schema."""
    app.capability("legal.review", effect="read", waits=True, input={"type": "object", "required": ["text"]})

    @app.capability("human.approve", effect="read", waits=True)
    def ask(question: str, urgent: bool = False) -> None: ...

    assert app.catalog["legal.review"].waits
    assert app.run(ONE.replace("work.do", "legal.review"), {}).error == "invalid_input"
    assert app.run(ONE.replace("work.do", "human.approve"), {"question": "?", "urgent": True}).status == "waiting"


def test_own_provider(sandbox: Sandbox) -> None:
    """A provider with a catalog of its own does what no handler was registered for."""
    provider = ScriptedProvider({"work.do": ["theirs"]})
    theirs = App(store=MemoryStore(), sandbox=sandbox)
    theirs.capability("work.do", effect="read")(lambda: None)
    with App(store=MemoryStore(), sandbox=sandbox, provider=provider, catalog=theirs.catalog) as app:

        @app.capability("work.other", effect="read")
        def other() -> str:
            return "mine"

        assert app.run(BESIDE).result == ["theirs", "mine"]
        assert [request.capability for request in provider.requests] == ["work.do"]
    theirs.close()
    with pytest.raises(ConfigError, match="without a catalog"):
        App(provider=provider)


def test_demo_provider(sandbox: Sandbox) -> None:
    """The demo capabilities can be had by name, and a registered handler goes before them."""
    with App(store=MemoryStore(), sandbox=sandbox, provider="demo") as app:

        @app.capability("mail.send", effect="irreversible")
        def send(to: str, **rest: Any) -> str:
            return to

        assert set(app.catalog) == set(DEMO_CATALOG)
        assert app.run(ONE.replace("work.do", "mail.send"), {"to": "a"}).result == "a"
        assert app.run(ONE.replace("work.do", "review.visual"), {"url": "u", "criteria": "c"}).result == {
            "score": 0.9,
            "issues": [],
        }
    assert DemoProvider().count == {}


# --- runs ---------------------------------------------------------------------------------------------------------

DRAFT = """
async def orchestrate(ctx, args):
    a = await ctx.run("image.generate", {"prompt": "lighthouse"})
    b = await ctx.run("image.generate", {"prompt": "sea monster"})
    return [a, b]
"""
FIXED = DRAFT.replace("sea monster", "calm sea")


@pytest.fixture
def images(app: App) -> App:
    """An App with a capability that refuses monsters."""

    @app.capability("image.generate", effect="paid", price_usd="0.02")
    def image(prompt: str) -> str:
        if "monster" in prompt:
            raise CapabilityError("refused", "no monsters")
        return f"mem://{prompt}"

    return app


def test_revision(images: App) -> None:
    """A run that failed is planned and revised: what was paid for is served, only the new call is sent."""
    first = images.run(DRAFT)
    assert (first.status, first.error, first.cost_usd) == ("failed", "refused", "0.02")
    plan = images.plan(first.run, FIXED)
    assert (plan.status, plan.price_usd, plan.saved_usd) == ("planned", "0.02", "0.02")
    assert [call.payload for call in plan.frontier] == [{"prompt": "calm sea"}]
    assert str(plan) == "planned: 1 replayed, 1 new for $0.02"
    done = images.revise(first.run, FIXED, at=plan)
    assert (done.status, done.dispatched, done.replayed, done.total_cost_usd) == ("completed", 1, 1, "0.04")
    assert not images.certificate(first.run).differences
    assert [summary.status for summary in images.runs()] == ["completed"]
    with pytest.raises(Rejected, match="has changed since the plan"):
        images.revise(first.run, FIXED, at=plan)


def test_a_plan_is_applied_to_what_it_is_of(images: App) -> None:
    """Another script, other args, another run: nothing is sent."""
    first, other = images.run(DRAFT), images.run(DRAFT)
    plan = images.plan(first.run, FIXED)
    with pytest.raises(Rejected, match="another script"):
        images.revise(first.run, FIXED + "# looked at by nobody\n", at=plan)
    with pytest.raises(Rejected, match="other args"):
        images.revise(first.run, FIXED, args={"more": True}, at=plan)
    with pytest.raises(UsageError, match="no plan of the run"):
        images.revise(other.run, FIXED, at=plan)
    more: tuple[dict[str, Any], ...] = (
        {"supersede": "changed"},
        {"retry": "none"},
        {"drops": ["orchestrate/image.generate#1"]},
        {"policy": {"ledger": "off"}},
    )
    for allowed in more:
        with pytest.raises(Rejected, match="something else allowed"):
            images.revise(first.run, FIXED, at=plan, **allowed)
    with pytest.raises(Rejected, match="something else allowed"):
        images.revise(first.run, FIXED, at=images.plan(first.run, FIXED, supersede="changed"))
    assert images.show(first.run).summary.revision == 1
    assert images.revise(first.run, FIXED, at=plan).status == "completed"


def test_a_run_has_a_name_that_can_be_written_anywhere(images: App) -> None:
    """What stands in commands and addresses: the library takes the names that the command line takes."""
    for odd in ("../x", "a/b", "last", "@ledger", "-x", "a" * 101):
        with pytest.raises(UsageError, match="can't be named"):
            images.run(DRAFT, run=odd)
    assert images.runs() == []
    for name in ("a", "2026-11-30_a.b", "Übung-1"):
        assert images.run(DRAFT, run=name).run == name


def test_plan_that_is_refused(images: App) -> None:
    """A plan of a source that isn't admitted says why, and revising with it does nothing."""
    first = images.run(DRAFT)
    plan = images.plan(first.run, "async def orchestrate(ctx, args):\n    return open('x')\n")
    assert plan.status == "not_admitted"
    assert (plan.plan, plan.frontier, plan.price_usd) == (None, [], "0.00")
    assert str(plan).startswith("not_admitted: ")
    assert images.revise(first.run, FIXED, at=plan).status == "not_admitted"


def test_grants(images: App, tmp_path: Path) -> None:
    """A grant may be data, a file, or a value; a limit pauses the run, which goes on once it is raised."""
    data = {"limits": [{"meter": "calls", "max": 1}], "worst_case": "at_run_time"}
    paused = images.run(FIXED, grant=data)
    assert (paused.status, paused.dispatched) == ("paused", 1)
    path = tmp_path / "grant.toml"
    path.write_text('limits = [{meter = "calls", max = 2}]\nworst_case = "at_run_time"\n')
    images.grant(paused.run, path)
    assert images.resume(paused.run).status == "completed"
    assert images.run(FIXED, grant={"capabilities": {}}).status == "not_admitted"
    with pytest.raises(ConfigError, match=r"'image.generat', which isn't registered"):
        images.run(FIXED, grant={"capabilities": {"image.generat": {}}})
    with pytest.raises(NotFound, match=r"no file .*missing.toml"):
        images.run(FIXED, grant=tmp_path / "missing.toml")


def test_sources(images: App, tmp_path: Path) -> None:
    """A source is a text or a path; a file's name in place of a text is an error that says so."""
    path = tmp_path / "flow.py"
    path.write_text(FIXED)
    assert images.run(path).status == "completed"
    with pytest.raises(UsageError, match=r"Pass pathlib.Path\('flow.py'\)"):
        images.run("flow.py")
    with pytest.raises(NotFound, match="no file"):
        images.run(tmp_path / "other.py")


@pytest.mark.parametrize(
    "wrong", [{"retry": "some"}, {"supersede": "all"}, {"drops": "orchestrate/x#0"}, {"policy": {"ledger": "maybe"}}]
)
def test_wrong_choices(images: App, wrong: dict[str, Any]) -> None:
    """A choice that there isn't is refused with the ones that there are."""
    first = images.run(DRAFT)
    with pytest.raises(ConfigError):
        images.revise(first.run, FIXED, **wrong)


def test_reconcile_says_how(images: App) -> None:
    """An attempt is closed with a result or as abandoned, never by leaving both out."""
    with pytest.raises(UsageError, match="one of two ways"):
        images.reconcile("run")
    with pytest.raises(UsageError, match="one of two ways"):
        images.reconcile("run", result=None, abandon=True)


def test_closed(sandbox: Sandbox) -> None:
    """A closed App says so; what was passed to it stays open."""
    store = MemoryStore()
    app = App(store=store, sandbox=sandbox)
    app.runs()
    app.close()
    app.close()
    with pytest.raises(UsageError, match="closed"):
        app.runs()
    assert store.runs() == []


def test_a_closed_app_lets_go_of_its_store(sandbox: Sandbox, tmp_path: Path) -> None:
    """The accounts of a principal, which were kept for its next run, are no reason to hold it."""
    app = App(store=str(tmp_path / "store.db"), sandbox=sandbox)

    @app.capability("a.f", effect="read")
    def double(n: int) -> int:
        return 2 * n

    script = 'async def orchestrate(ctx, args):\n    return await ctx.run("a.f", {"n": 1})\n'
    assert app.run(script, grant={"principal": "team", "capabilities": {"a.f": {}}}).status == "completed"
    store = weakref.ref(app._context().store)
    app.close()
    gc.collect()
    assert store() is None


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings come from the file and the environment as for the command line; what is passed goes first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "addendum.toml").write_text('store = "from_file.db"\n')
    with App() as app:
        assert app.runs() == []
    assert (tmp_path / "from_file.db").exists()
    with App(store=tmp_path / "passed.db") as app:
        assert app.runs() == []
    assert (tmp_path / "passed.db").exists()
    with pytest.raises(ConfigError, match="no sandbox 'chroot'"), App(sandbox="chroot") as app:
        app.runs()


def test_several_threads(sandbox: Sandbox, tmp_path: Path) -> None:
    """Several threads drive runs of one App at the same time; one run is driven by one of them."""
    together = threading.Barrier(4, timeout=20)
    with App(store=tmp_path / "s.db", sandbox=sandbox) as app:

        @app.capability("work.do", effect="paid")
        def work(n: int) -> int:
            together.wait()
            return n

        results: dict[int, Any] = {}

        def drive(n: int) -> None:
            results[n] = app.run(ONE, {"n": n}, run=f"run-{n}").result

        threads = [threading.Thread(target=drive, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        events = app.events(app.run, ONE, {"n": 3}, run="run-3")
        next(events)
        with pytest.raises(RunBusy):
            app.resume("run-3")
        assert next(iter(list(events)[-1:]))["event"] == "result"
        for thread in threads:
            thread.join()
        assert results == {0: 0, 1: 1, 2: 2}
        assert {summary.status for summary in app.runs()} == {"completed"}


def test_run_within_a_handler(app: App) -> None:
    """A handler may run a script itself."""

    @app.capability("work.do", effect="read")
    def work() -> Any:
        return app.run(ONE.replace("work.do", "work.other")).result

    @app.capability("work.other", effect="read")
    async def other() -> str:
        return "inner"

    assert app.run(ONE).result == "inner"


# --- waiting ------------------------------------------------------------------------------------------------------


def test_events(images: App) -> None:
    """The events of a run come one by one, the result last."""
    events = list(images.events(images.run, FIXED))
    assert [event["event"] for event in events] == [
        "began",
        *["dispatched", "settled", "handed_over"] * 2,
        "ended",
        "result",
    ]
    last = events[-1]
    assert last["event"] == "result"
    assert last["result"].status == "completed"
    again = [event["event"] for event in images.events(images.resume, last["run"])]
    assert again == ["began", "replayed", "replayed", "ended", "result"]


def test_observer(sandbox: Sandbox) -> None:
    """An App's observer sees every run, and an error in it changes nothing."""
    seen: list[str] = []

    def watch(event: Any) -> None:
        seen.append(event["event"])
        raise RuntimeError("in the observer")

    with App(store=MemoryStore(), sandbox=sandbox, observer=watch) as app:
        app.capability("work.do", effect="read")(lambda: 1)
        assert app.run(ONE).result == 1
        assert len(list(app.events(app.run, ONE))) == 6
    assert seen == ["began", "dispatched", "settled", "handed_over", "ended"] * 2


def test_events_of_what_has_none(images: App) -> None:
    """Only what drives a run has events; an error of the run comes out of the iteration."""
    with pytest.raises(UsageError, match="has no events"):
        images.events(images.plan, "run")  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        list(images.events(images.resume, "missing"))


def test_leaving_the_events(app: App) -> None:
    """Leaving an iteration asks for a clean end: the call in flight is kept, no other is sent."""
    entered, stop = threading.Event(), threading.Event()

    @app.capability("work.do", effect="paid")
    def work() -> str:
        entered.set()
        assert stop.wait(10)
        return "kept"

    app.capability("work.other", effect="read")(lambda: "never")
    source = CAUGHT
    events = app.events(app.run, source, stop=stop)
    run = next(events)["run"]
    assert entered.wait(10)
    events.close()
    view = app.show(run)
    assert view.summary.committed == 1
    assert view.summary.status == "stopped"
    assert app.resume(run).result == ["kept", "never"]


def test_stop_from_elsewhere(app: App) -> None:
    """Setting `stop` ends a run before its next call, as cancelled; it can go on later."""
    stop = threading.Event()

    @app.capability("work.do", effect="paid")
    def work() -> str:
        stop.set()
        return "kept"

    app.capability("work.other", effect="read")(lambda: "later")
    result = app.run(CAUGHT, stop=stop)
    assert (result.status, result.stop, result.committed) == ("stopped", "cancelled", 1)
    assert app.resume(result.run).result == ["kept", "later"]


def test_awaiting(images: App) -> None:
    """The same methods can be awaited, and async handlers run on the caller's loop."""
    loops: list[Any] = []

    @images.capability("work.do", effect="read")
    async def work() -> str:
        loops.append(asyncio.get_running_loop())
        return "here"

    async def main() -> None:
        assert (await images.aio.run(ONE)).result == "here"
        assert loops == [asyncio.get_running_loop()]
        first = await images.aio.run(DRAFT)
        plan = await images.aio.plan(first.run, FIXED)
        events = [event["event"] async for event in images.aio.events(images.revise, first.run, FIXED, at=plan)]
        assert events == ["planned", "began", "replayed", "dispatched", "settled", "handed_over", "ended", "result"]
        assert (await images.aio.show(first.run)).summary.status == "completed"
        assert len(await images.aio.runs()) == 2
        with pytest.raises(NotFound):
            await images.aio.resume("missing")

    asyncio.run(main())


def test_cancelled_task(app: App) -> None:
    """Cancelling the task that awaits a run ends it cleanly: the call in flight lands and is kept."""

    async def main() -> None:
        entered = asyncio.Event()

        @app.capability("work.do", effect="paid")
        async def work() -> str:
            entered.set()
            await asyncio.sleep(0.01)
            return "kept"

        app.capability("work.other", effect="read")(lambda: "later")
        task = asyncio.create_task(app.aio.run(CAUGHT, run="mine"))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert app.show("mine").summary.committed == 1
        assert (await app.aio.resume("mine")).result == ["kept", "later"]

    asyncio.run(main())


@pytest.mark.slow
def test_interrupt(tmp_path: Path) -> None:
    """^C ends a blocking run cleanly: the call in flight lands and is kept, then the interrupt goes on its way."""
    script = f"""
import os, signal, threading
from addendum import App
app = App(store={str(tmp_path / "s.db")!r})
stop = threading.Event()
@app.capability("work.do", effect="paid")
def work() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.wait(60)
    return "kept"
@app.capability("work.other", effect="read")
def other() -> None: ...
try:
    app.run({CAUGHT!r}, run="mine", stop=stop)
except KeyboardInterrupt:
    print(app.show("mine").summary.committed, app.show("mine").summary.stop)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("1 cancelled\n", "", 0)


def test_clock_and_limits(sandbox: Sandbox) -> None:
    """An App takes another clock, which is a script's clock too, and other limits for the sandbox."""
    clock = ManualClock(tick=5_000)
    with App(store=MemoryStore(), sandbox=sandbox, clock=clock, limits=Limits(total_seconds=60)) as app:
        source = "async def orchestrate(ctx, args):\n    await ctx.sleep(3600)\n    return await ctx.now()\n"
        result = app.run(source)
    assert str(result.result) > "2026-01-01T01:00:00"


def test_a_sleep_goes_on_where_it_was(sandbox: Sandbox) -> None:
    """A run that is driven again doesn't sleep anew, whatever the first process slept of it."""
    source = """
async def rest(ctx):
    await ctx.sleep(3600)

async def work(ctx):
    return await ctx.run("note.write", {"text": "x"})

async def orchestrate(ctx, args):
    return len(await ctx.parallel([rest(ctx), work(ctx)]))
"""
    store, clock, stop = MemoryStore(), ManualClock(), threading.Event()

    def watch(event: Mapping[str, object]) -> None:
        if event["event"] == "settled":
            stop.set()

    def opened(**more: object) -> App:
        app = App(store=store, sandbox=sandbox, clock=clock, **more)  # type: ignore[arg-type]
        app.capability("note.write", effect="read")(lambda text: text)
        return app

    with opened(observer=watch) as app:
        assert app.run(source, run="r", stop=stop).stop == "cancelled"
    (slept,) = [entry for entry in store.entries("r") if entry.kind == "sleep"]
    assert slept.body["until_ms"] / 1000 - clock.now() == 3600
    clock.advance(3601)
    with opened() as app:
        assert app.resume("r").result == 2
    assert sum(1 for entry in store.entries("r") if entry.kind == "sleep") == 1


def test_a_races_loser_that_fails_later_is_not_tried_again(app: App) -> None:
    """Its failure may pass, and nobody waits for it any more."""
    free, failed, tries = asyncio.Event(), asyncio.Event(), list[int]()

    @app.capability("a.fast", effect="read")
    async def fast() -> int:
        return 1

    @app.capability("a.slow", effect="read")
    async def slow() -> int:
        tries.append(1)
        await free.wait()
        failed.set()
        raise CapabilityError("rate_limited", "busy", retryable=True)

    @app.capability("a.then", effect="read")
    async def then(i: int) -> int:
        free.set()
        await failed.wait()
        return i

    result = app.run(
        """
async def orchestrate(ctx, args):
    found = await ctx.race([ctx.run("a.slow", {}), ctx.run("a.fast", {})])
    for i in range(3):
        await ctx.run("a.then", {"i": i})
    return found
"""
    )
    assert (result.status, result.result, len(tries)) == ("completed", 1, 1)
