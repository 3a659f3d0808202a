"""What every provider has to do: one suite over each of them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from addendum.authority.catalog import Capability
from addendum.authority.declare import declare
from addendum.canon import canonical
from addendum.errors import CapabilityError
from addendum.ports import Provider, Reply, Request, Usage
from addendum.providers.local import LocalProvider
from addendum.providers.router import Router
from addendum.providers.threads import LoopThread
from addendum.testing import DemoProvider, Fault, ScriptedProvider
from addendum.testing.demo import CAPABILITIES

PAYLOAD: dict[str, Any] = {"url": "mem://1", "criteria": "sharp"}


def demo() -> Provider:
    """The demo provider, whose third dispatch fails."""
    return DemoProvider(faults=[Fault("review.visual", "refused", "no", dispatch=3)])


def scripted() -> Provider:
    """The scripted provider, with answers of each kind."""
    return ScriptedProvider(
        {"review.visual": [{"score": 1}, Reply({"score": 0}), CapabilityError("refused", "no"), lambda request: {}]}
    )


def local(wait: bool) -> Callable[[], Provider]:
    """A provider of registered functions that run on the loop, or in threads."""

    def make() -> Provider:
        count = 0

        def review(url: str, criteria: str) -> dict[str, Any]:
            nonlocal count
            count += 1
            if count == 3:
                raise CapabilityError("refused", "no")
            return {"score": count}

        async def waiting(url: str, criteria: str) -> dict[str, Any]:
            await asyncio.sleep(0)
            return review(url, criteria)

        provider = LocalProvider()
        provider.register(declare("review.visual", effect="read"), waiting if wait else review, scope=globals())
        return provider

    return make


class Offered(DemoProvider):
    """The demo provider as a service of a services file."""

    @property
    def capabilities(self) -> Sequence[Capability]:
        """What it offers."""
        return [each for each in CAPABILITIES if not each.waits]

    async def close(self) -> None:
        """Nothing is open."""


def routed() -> Provider:
    """Services behind a router, on its own loop."""
    service = Offered(faults=[Fault("review.visual", "refused", "no", dispatch=3)])
    return Router([service], LoopThread(), redact=str, redact_value=lambda value: value)


@pytest.fixture(
    params=[demo, scripted, local(False), local(True), routed],
    ids=["demo", "scripted", "local", "local async", "services"],
)
def provider(request: pytest.FixtureRequest) -> Provider:
    """One provider after the other."""
    made: Provider = request.param()
    return made


def review(n: int, capability: str = "review.visual", payload: Any = None) -> Request:
    """Return the n-th dispatch."""
    given = copy.deepcopy(PAYLOAD) if payload is None else payload
    return Request(capability=capability, payload=given, key=f"key-{n}", run="r", identity=f"i-{n}", attempt=n)


def test_answers_a_reply_of_json(provider: Provider) -> None:
    """A dispatch answers a `Reply` with a JSON value and a usage that is an amount, or nothing."""
    for n in (1, 2):
        reply = asyncio.run(provider.dispatch(review(n)))
        assert isinstance(reply, Reply)
        assert canonical(reply.value)
        assert isinstance(reply.usage, Usage)
        assert reply.usage.cost is None or reply.usage.cost >= 0


def test_fails_with_a_capability_error(provider: Provider) -> None:
    """A failure that is certain is a `CapabilityError`, and the next dispatch isn't affected."""

    async def main() -> None:
        await provider.dispatch(review(1))
        await provider.dispatch(review(2))
        with pytest.raises(CapabilityError) as caught:
            await provider.dispatch(review(3))
        assert (caught.value.code, caught.value.retryable) == ("refused", False)
        await provider.dispatch(review(4))

    asyncio.run(main())


def test_unknown_capability(provider: Provider) -> None:
    """A capability that a provider doesn't have is a failure that is certain."""
    with pytest.raises(CapabilityError):
        asyncio.run(provider.dispatch(review(1, "no.such")))


def test_leaves_the_payload_alone(provider: Provider) -> None:
    """A dispatch doesn't change its payload."""
    request = review(1)
    asyncio.run(provider.dispatch(request))
    assert request.payload == PAYLOAD


def test_many_at_the_same_time(provider: Provider) -> None:
    """Dispatches that overlap are answered each, and the failing one fails alone."""

    async def main() -> list[Any]:
        return await asyncio.gather(*(provider.dispatch(review(n)) for n in range(1, 5)), return_exceptions=True)

    answers = asyncio.run(main())
    assert [type(answer) for answer in answers].count(Reply) == 3
    assert [type(answer) for answer in answers].count(CapabilityError) == 1


def test_lookup_has_no_effect(provider: Provider) -> None:
    """A lookup of what was never dispatched answers None, whatever the capability, and counts as nothing."""

    async def main() -> None:
        for _ in range(3):
            assert await provider.lookup("review.visual", "key-1") is None
        assert await provider.lookup("no.such", "key-1") is None
        await provider.dispatch(review(1))
        await provider.dispatch(review(2))

    asyncio.run(main())


def test_lookup_says_what_the_dispatch_said(provider: Provider) -> None:
    """A lookup of a key answers what its dispatch did, or None."""

    async def main() -> None:
        reply = await provider.dispatch(review(1))
        found = await provider.lookup("review.visual", "key-1")
        assert found is None or found.value == reply.value

    asyncio.run(main())


def test_cancelling_gives_up(provider: Provider) -> None:
    """A dispatch that is cancelled ends."""

    async def main() -> None:
        task = asyncio.create_task(provider.dispatch(review(1)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.done()

    asyncio.run(main())
