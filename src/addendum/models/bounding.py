"""A limit on what a model's answer may be: nothing is unpacked, and no more of it is read than any answer has.

An address that speaks a provider's protocol is somebody's server. An answer that never ends, or that unpacks to a
thousand times its size, would take the host's memory, and every other run with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic_ai.models import Model as Client

MOST: Final = 32 * 1024 * 1024
"""Bytes of an answer: a million tokens of it, and more."""


def bound(client: Client, most: int = MOST) -> None:
    """Limit what is read for a client's requests, for those of the SDKs that keep an HTTP client where the usual ones
    do. What is over the limit is left out, so that the rest can't be read: it is an answer in no form."""
    http: Any = getattr(getattr(client, "client", None), "_client", None)
    hooks = getattr(http, "event_hooks", None)
    if not isinstance(hooks, dict):
        return

    async def limited(response: Any) -> None:
        if "content-encoding" in response.headers:
            del response.headers["content-encoding"]  # what was packed unasked stays so
        response.stream = _limited(response.stream, most)

    http.headers["accept-encoding"] = "identity"
    http.event_hooks = {**hooks, "response": [limited, *hooks.get("response", ())]}


def _limited(stream: Any, most: int) -> Any:
    class Limited(type(stream)):  # type: ignore[misc]
        """The stream up to its limit. A client looks at its class."""

        def __init__(self) -> None:
            """Nothing of its own."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            """Yield the pieces."""
            left = most
            async for piece in stream:
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

        async def aclose(self) -> None:
            """Let go of the connection."""
            await stream.aclose()

    return Limited()
