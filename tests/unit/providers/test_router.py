"""One provider for all services: dispatch by name, one loop, and no secret gets past it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from tests.services import CANARY, request

from addendum.authority.approval import APPROVE
from addendum.authority.catalog import Capability
from addendum.credentials import Credentials
from addendum.errors import CapabilityError, ConfigError, UnknownOutcome
from addendum.ports import Reply, Request
from addendum.providers.router import Router
from addendum.providers.threads import LoopThread


class Fake:
    """A service of a name that does what it is told."""

    def __init__(self, name: str, do: Callable[[], Any] = lambda: Reply("ok")) -> None:
        self.capabilities: Sequence[Capability] = (Capability(name=name, effect="read"),)
        self.do = do
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.closed = 0

    async def dispatch(self, request: Request) -> Reply:
        """Do it."""
        self.loops.append(asyncio.get_running_loop())
        found = self.do()
        if isinstance(found, BaseException):
            raise found
        return found if isinstance(found, Reply) else Reply(found)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Know one key."""
        if key == "broken":
            raise ValueError(f"no {CANARY}")
        return Reply(f"found {CANARY}") if key == "known" else None

    async def close(self) -> None:
        """Count."""
        self.closed += 1
        found = self.do()
        if isinstance(found, BaseException):
            raise found


@pytest.fixture
def made() -> Iterator[Callable[..., Router]]:
    """Make routers whose only secret was read, and end their loops."""
    loops: list[LoopThread] = []

    def make(*services: Fake) -> Router:
        credentials = Credentials({"local": "env:KEY"}, Path("."), {"KEY": CANARY})
        credentials.get("local")
        loops.append(LoopThread())
        return Router(services, loops[-1], redact=credentials.redact, redact_value=credentials.redact_value)

    yield make
    for loop in loops:
        loop.close()


def ask(router: Router, name: str = "a.b") -> Reply:
    """Dispatch from a loop that isn't the router's."""
    return asyncio.run(router.dispatch(request(name, {})))


def test_each_call_goes_to_its_service(made: Callable[..., Router]) -> None:
    """By the capability's name; a name that nobody has is a failure."""
    router = made(Fake("a.b", lambda: "first"), Fake("c.d", lambda: "second"))
    assert ask(router, "a.b").value == "first"
    assert ask(router, "c.d").value == "second"
    with pytest.raises(CapabilityError, match=r"nobody does the work of e\.f"):
        ask(router, "e.f")
    assert set(router.catalog) == {"a.b", "c.d", "human.approve"}
    assert router.catalog["human.approve"] == APPROVE


def test_a_file_can_say_what_a_person_is_asked(made: Callable[..., Router]) -> None:
    """A service of that name takes the place of the usual one."""
    assert made(Fake("human.approve")).catalog["human.approve"] != APPROVE


def test_two_services_of_one_name(made: Callable[..., Router]) -> None:
    """Which one would be meant is nobody's guess."""
    with pytest.raises(ConfigError, match="registered twice"):
        made(Fake("a.b"), Fake("a.b"))


def test_every_call_runs_on_the_routers_own_loop(made: Callable[..., Router]) -> None:
    """Whichever loop it comes from, so that clients are kept over runs."""
    service = Fake("a.b")
    router = made(service)
    ask(router)
    ask(router)
    asyncio.run_coroutine_threadsafe(router.dispatch(request("a.b", {})), router.loop()).result(10)
    assert service.loops == [router.loop()] * 3


def test_a_cancelled_call_is_cancelled_in_its_service(made: Callable[..., Router]) -> None:
    """Across the loops."""
    ended = threading.Event()
    started = threading.Event()

    class Slow(Fake):
        async def dispatch(self, request: Request) -> Reply:
            started.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                ended.set()
                raise
            return Reply(None)

    router = made(Slow("a.b"))

    async def give_up() -> None:
        task = asyncio.create_task(router.dispatch(request("a.b", {})))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert ended.wait(10)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (CapabilityError("refused", f"your key {CANARY} is wrong", cost_usd="0.5", retry_after=3.0), CapabilityError),
        (CapabilityError(CANARY, "odd"), CapabilityError),
        (UnknownOutcome(f"lost with {CANARY}"), UnknownOutcome),
        (TimeoutError(CANARY), UnknownOutcome),
        (ConfigError(f"no {CANARY}"), CapabilityError),
        (ValueError(f"Authorization: Bearer {CANARY}"), CapabilityError),
        (SystemExit(CANARY), CapabilityError),
    ],
)
def test_no_failure_carries_a_secret(made: Callable[..., Router], raised: BaseException, kind: type[Exception]) -> None:
    """Whatever a service raises, its text is searched before anybody sees it; what it means stays."""
    with pytest.raises(kind) as caught:
        ask(made(Fake("a.b", lambda: raised)))
    assert CANARY not in f"{caught.value} {caught.value.args} {getattr(caught.value, 'code', '')}"
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    if isinstance(raised, CapabilityError) and raised.cost_usd:
        assert isinstance(caught.value, CapabilityError)
        assert (caught.value.cost_usd, caught.value.retry_after, caught.value.code) == ("0.5", 3.0, "refused")


def test_a_text_is_cut_after_it_was_searched(made: Callable[..., Router]) -> None:
    """Half a secret at the cut would be found by no search."""
    for before in range(480, 510):
        with pytest.raises(CapabilityError) as caught:
            ask(made(Fake("a.b", lambda before=before: CapabilityError("refused", "x" * before + CANARY))))
        assert "sk-" not in caught.value.message
        assert len(caught.value.message) <= 500


def test_an_error_without_a_readable_text(made: Callable[..., Router]) -> None:
    """It stays what it is, a certain failure or not."""

    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with pytest.raises(UnknownOutcome, match="without a readable text"):
        ask(made(Fake("a.b", lambda: UnknownOutcome(Odd()))))
    with pytest.raises(CapabilityError, match="Odd: an error without a readable text"):
        ask(made(Fake("a.b", lambda: Odd())))


def test_no_answer_carries_a_secret(made: Callable[..., Router]) -> None:
    """A service that echoes its key puts it nowhere: not as a value, not as a key, not deep inside."""
    value = {"echo": f"Bearer {CANARY}", CANARY: [{"deep": (CANARY, 1)}]}
    found = ask(made(Fake("a.b", lambda: value)))
    assert CANARY not in repr(found.value)
    assert "[secret local]" in repr(found.value)


def test_an_answer_that_nests_too_deep(made: Callable[..., Router]) -> None:
    """It can't be kept, so it needn't be searched."""
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CapabilityError, match="nests too deep"):
        ask(made(Fake("a.b", lambda: deep)))


def test_a_lookup_goes_to_its_service(made: Callable[..., Router]) -> None:
    """And its answer is searched, too."""
    router = made(Fake("a.b"))
    found = asyncio.run(router.lookup("a.b", "known"))
    assert found is not None
    assert found.value == "found [secret local]"
    assert asyncio.run(router.lookup("a.b", "other")) is None
    assert asyncio.run(router.lookup("none", "known")) is None
    with pytest.raises(CapabilityError, match=r"no \[secret local\]"):
        asyncio.run(router.lookup("a.b", "broken"))


def test_every_service_is_closed_whatever_the_others_do(made: Callable[..., Router]) -> None:
    """One that breaks, one that is fine."""
    services = [Fake("a.b", lambda: ValueError("broken")), Fake("c.d")]
    made(*services).close()
    assert [service.closed for service in services] == [1, 1]


def test_an_interrupted_closing_goes_on_with_the_others(
    made: Callable[..., Router], monkeypatch: pytest.MonkeyPatch
) -> None:
    """^C while one service closes leaves no process of another one behind, and no loop."""
    services = [Fake("a.b"), Fake("c.d"), Fake("e.f")]
    router = made(*services)
    interrupts = iter([KeyboardInterrupt()])
    result = Future.result

    def once(self: Future[Any], timeout: float | None = None) -> Any:
        found = result(self, timeout)
        for interrupt in interrupts:
            raise interrupt
        return found

    monkeypatch.setattr(Future, "result", once)
    loop = router.loop()
    with pytest.raises(KeyboardInterrupt):
        router.close()
    assert [service.closed for service in services] == [1, 1, 1]
    assert loop.is_closed()
