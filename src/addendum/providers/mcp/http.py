"""A server at an address, over streamable HTTP: its headers, its limits, and what its answers mean.

The SDK tells a caller little about an HTTP request that failed, and one that can't be sent ends its whole connection.
So what goes wrong below becomes a JSON-RPC error here, which reaches the one call that it is about.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

UNSENT: Final = -32090
"""Code of an error that stands for: the request never left."""
LOST: Final = -32091
"""The request left, and no answer came."""
STATUS: Final = -32092
"""The answer is an HTTP status; `data` has `status`, `headers` and `text`."""
BODY: Final = 64 * 1024
"""Bytes of an error's body that are looked at."""
CONNECT: Final = 10.0
_KEPT: Final = ("retry-after", "retry-after-ms")


@asynccontextmanager
async def transport(url: str, headers: Mapping[str, str], most: int) -> AsyncGenerator[tuple[Any, Any], None]:
    """Connect to a server, with the SDK's two streams. Nothing comes from this process's environment: no proxy, no
    netrc."""
    timeout = httpx2.Timeout(CONNECT, read=None)
    client = httpx2.AsyncClient(
        headers=dict(headers), timeout=timeout, trust_env=False, transport=Told(httpx2.AsyncHTTPTransport(), most)
    )
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=most) as streams:
        yield streams[0], streams[1]


class Told(httpx2.AsyncBaseTransport):
    """Makes an error of the protocol from what goes wrong with a request, and bounds what comes back."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, most: int) -> None:
        self._inner = inner
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        if request.method != "POST":
            response = await self._inner.handle_async_request(request)
            response.stream = Bounded(response.stream, None)  # a stream of notifications has no end
            return response
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError) as error:
            return _failed(request, UNSENT, f"it can't be reached ({type(error).__name__})")
        except httpx2.TransportError as error:
            return _failed(request, LOST, f"the connection ended without an answer ({type(error).__name__})")
        if response.status_code < 400 and not _leads_away(response, request):
            response.stream = Bounded(response.stream, self._most)
            return response
        if 300 <= response.status_code < 400 and response.status_code not in _UNTOUCHED:
            # 301 to 303 may stand for "done, look there": nobody looks, so what was done isn't known.
            await response.aclose()
            return _failed(request, LOST, f"it answered {response.status_code}, which leads away")
        return await _told(request, response)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class Bounded(httpx2.AsyncByteStream):
    """A body of at most so many bytes (None: any), whose failures are all of one kind that the SDK expects."""

    def __init__(self, inner: Any, most: int | None) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        try:
            async for chunk in self._inner:
                taken += len(chunk)
                if self._most is not None and taken > 4 * self._most:
                    raise httpx2.StreamError("the answer is too large")
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the answer was cut ({type(error).__name__})") from None

    async def aclose(self) -> None:
        """Close the body."""
        await self._inner.aclose()


def _leads_away(response: httpx2.Response, request: httpx2.Request) -> bool:
    """Whether an answer is a redirect to another host, which nobody follows."""
    if not 300 <= response.status_code < 400:
        return False
    try:
        there = request.url.join(response.headers.get("location", ""))
    except (httpx2.InvalidURL, ValueError):
        return True
    return there.host != request.url.host


async def _told(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return an error status as an error of the protocol: the server's own if it sent one, else what the status is."""
    body = b""
    try:
        async for chunk in response.stream:  # type: ignore[union-attr]
            body += chunk
            if len(body) > BODY:
                break
    except httpx2.TransportError:
        pass  # the status is known
    finally:
        await response.aclose()
    found = _parsed(body)
    if isinstance(found, dict) and isinstance(found.get("error"), dict) and found.get("jsonrpc") == "2.0":
        return httpx2.Response(response.status_code, headers=_JSON, content=body[:BODY], request=request)
    headers = {name: response.headers[name] for name in _KEPT if name in response.headers}
    data = {"status": response.status_code, "headers": headers, "text": body[:BODY].decode("utf-8", "replace")}
    return _failed(request, STATUS, f"it answered {response.status_code}", data, response.status_code)


def _failed(
    request: httpx2.Request, code: int, message: str, data: Mapping[str, Any] | None = None, status: int = 503
) -> httpx2.Response:
    sent = _parsed(request.content)
    error = {"code": code, "message": message, "data": data}
    body = {"jsonrpc": "2.0", "id": sent.get("id") if isinstance(sent, dict) else None, "error": error}
    return httpx2.Response(status, headers=_JSON, content=json.dumps(body).encode(), request=request)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


_UNTOUCHED: Final = (307, 308)
"""Redirects that say that the request was not acted on (RFC 9110, 15.4.8 and 15.4.9)."""
_JSON: Final = {"content-type": "application/json"}
