"""What a specification makes of a kind: prices, effect classes, missing extras, and work while it is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.services import tools

from addendum.errors import ConfigError
from addendum.providers import http, image, mcp
from addendum.providers.asking import ModelSpec
from addendum.providers.service import Spec, Tools, extra, offer
from addendum.providers.threads import LoopThread
from addendum.servicesfile import Author

SCHEMA: Any = {"type": "object"}


def made(price: int = 0, most: int | None = None, **spec: Any) -> Any:
    """Return the capability of a specification, for a kind with its own price and most."""
    return offer(
        "a.b",
        Spec(kind="x", **spec),
        effect="read",
        input=SCHEMA,
        output=SCHEMA,
        about="The kind's own.",
        price=price,
        most=most,
        labels=("x",),
    )


@pytest.mark.parametrize(
    ("price", "most", "spec", "expected"),
    [
        (5, None, {}, (5, 5)),
        (5, 9, {}, (5, 9)),
        (5, 3, {}, (5, 5)),
        (5, 9, {"price_usd": "0.000000007"}, (7, 9)),
        (5, 9, {"price_usd": "0.000000020"}, (20, 20)),
        (5, 9, {"most_usd": "0.000000006"}, (5, 6)),
        (5, 9, {"price_usd": "0.02", "most_usd": "0.05"}, (20_000_000, 50_000_000)),
        (0, None, {}, (0, 0)),
    ],
)
def test_prices(price: int, most: int | None, spec: dict[str, Any], expected: tuple[int, int]) -> None:
    """What a person wrote goes first, and the most is never less than the price."""
    found = made(price, most, **spec)
    assert (found.price, found.reserve) == expected


@pytest.mark.parametrize(
    ("kind", "table", "key"),
    [
        (mcp.Spec, {"kind": "mcp", "url": "ORIGIN/mcp", "secret": "key"}, "url"),
        (mcp.Spec, {"kind": "mcp", "url": "ORIGIN/mcp", "headers": {"X-Key": "key"}}, "url"),
        (image.Spec, {"kind": "image", "model": "m", "url": "ORIGIN/v1", "secret": "key"}, "url"),
        (ModelSpec, {"kind": "text", "model": "openai:m", "url": "ORIGIN/v1", "secret": "key"}, "url"),
        (http.Spec, {"kind": "http", "hosts": {"ORIGIN": http.Host(headers={"X-Key": "{key}"})}}, "hosts"),
        (Author, {"model": "openai:m", "url": "ORIGIN/v1", "secret": "key"}, "url"),
    ],
)
def test_no_specification_sends_a_secret_in_clear_text(kind: Any, table: dict[str, Any], key: str) -> None:
    """Whoever makes it: there needn't be a file. To this machine it may go."""

    def made(origin: str) -> Any:
        return kind.model_validate(_put(table, origin))

    with pytest.raises(ValueError, match=rf"a secret over http:// to another machine, .* \({key}\)"):
        made("http://api.example.com")
    assert made("http://localhost:1")
    assert made("https://api.example.com")


def _put(value: Any, origin: str) -> Any:
    if isinstance(value, dict):
        return {_put(key, origin): _put(each, origin) for key, each in value.items()}
    return value.replace("ORIGIN", origin) if isinstance(value, str) else value


def test_a_most_below_the_price() -> None:
    """It couldn't be reserved."""
    with pytest.raises(ConfigError, match=r"a\.b costs 0\.02 and at most 0\.01"):
        made(price_usd="0.02", most_usd="0.01")


def test_what_is_left_out_is_the_kinds_own() -> None:
    """And what is written goes first."""
    assert (made().effect, made().about, made().retries, made().labels) == ("read", "The kind's own.", 2, ("x",))
    found = made(effect="paid", about="Mine.", retries=0, timeout=7, version="2")
    assert (found.effect, found.about, found.retries, found.timeout, found.version) == ("paid", "Mine.", 0, 7.0, "2")


@pytest.mark.parametrize("name", ["", "a b", "ctx.run", "../x", "a." * 60 + "b"])
def test_a_name_that_no_capability_can_have(name: str) -> None:
    """As for a registered one."""
    with pytest.raises(ConfigError, match="no name of a capability"):
        offer(name, Spec(kind="x"), effect="read", input=SCHEMA, output=SCHEMA, about="")


def test_an_extra_that_is_missing_is_named() -> None:
    """With the command that installs it."""
    with pytest.raises(ConfigError, match="needs no_such_package, which isn't installed") as caught:
        extra("no_such_package.inside", "models", "text")
    assert caught.value.hint == "Run: pip install 'addendum[models]'"
    assert extra("json", "models", "text").dumps(1) == "1"


@pytest.fixture
def given() -> Iterator[Tools]:
    """Tools with a loop of their own."""
    loop = LoopThread()
    yield replace(tools(), loop=loop.loop)
    loop.close()


def test_work_while_a_service_is_opened(given: Tools) -> None:
    """It runs on the loop that calls come in on, and what it raises is raised."""

    async def where() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def broken() -> None:
        raise ConfigError("no")

    assert given.wait(where(), 10) is given.loop()
    with pytest.raises(ConfigError, match="no"):
        given.wait(broken(), 10)


def test_work_that_takes_too_long_is_cancelled(given: Tools) -> None:
    """Nothing goes on behind it."""
    ended: list[str] = []

    async def never() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("cancelled")

    with pytest.raises(TimeoutError, match="no answer within"):
        given.wait(never(), 0.01)

    async def later() -> list[str]:
        return ended

    assert given.wait(later(), 10) == ["cancelled"]
