"""The end of the server over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, cast

import httpx2
import pytest
from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from addendum.mcp import serving
from addendum.mcp.drives import Drives
from addendum.mcp.gate import PATH, address

TOKEN = "a token that nobody guesses"


class Slow:
    """Answers some time after it was asked."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def streamable_http_app(self, **_: Any) -> Starlette:
        return Starlette(routes=[Route(PATH, self._answer, methods=["POST"])])

    async def _answer(self, request: Request) -> PlainTextResponse:
        self.asked.set()
        await asyncio.sleep(0.5)
        return PlainTextResponse("answered")


def test_who_waits_is_answered_before_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes once the runs have ended: a busy machine may need longer than connections are given."""
    monkeypatch.setattr(serving, "CLOSING", 0.05)

    async def main() -> str:
        server = Slow()
        with serving.listener(address("127.0.0.1:0")) as taken:
            where = f"http://{taken.address}{PATH}"
            drives = Drives()
            served = asyncio.create_task(
                serving.over_http(cast("Server[Any]", server), drives, taken, TOKEN, (), lambda _: None)
            )
            async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
                answer = asyncio.create_task(client.post(where))
                await server.asked.wait()
                os.kill(os.getpid(), signal.SIGTERM)
                found: httpx2.Response = await answer
            await served
        return found.text

    assert asyncio.run(main()) == "answered"
