"""Who gets to the server over HTTP: whoever has the token, from an address that the operator named.

The token is looked at before anything else, in constant time; the transport then checks Host and Origin, so that a page
in a browser can't reach a server on this machine under a name of its own (DNS rebinding).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final

from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from addendum.credentials import here
from addendum.errors import ConfigError

PATH: Final = "/mcp"
SHORTEST: Final = 16
"""Characters of a token."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. `port` 0 stands for any that is free."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return here(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Read `HOST:PORT`, `[ADDRESS]:PORT` or `:PORT` (this machine only). Raises `ConfigError`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if (
        not colon
        or not port.isascii()
        or not port.isdecimal()
        or int(port) > 65535
        or (":" in host and "[" not in text)
    ):
        raise ConfigError(f"{text!r} is no address to listen at.", hint="Write HOST:PORT, as in 127.0.0.1:8765.")
    return Address(host or "127.0.0.1", int(port))


def rules(listening: Address, names: tuple[str, ...]) -> TransportSecuritySettings:
    """Return which Host and Origin are let in: the address itself, this machine's names for a local one, and `names`
    (as in `workflows.example.org` or `workflows.example.org:8443`)."""
    local = ("127.0.0.1", "localhost", "[::1]") if listening.loopback else ()
    here = tuple(f"{name}:{listening.port}" for name in local)
    hosts = tuple(dict.fromkeys((str(listening), *here, *names)))
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=list(hosts),
        allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")],
    )


class Bearer:
    """Lets a request through if it carries the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        if len(token) < SHORTEST:
            raise ConfigError(
                f"The token has {len(token)} characters.", hint=f"Use one of {SHORTEST} or more that nobody can guess."
            )
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http" and not self._carried(scope):
            refusal = JSONResponse(
                {"error": "unauthorized", "message": "The token is missing or wrong.", "hint": "Send it as a bearer."},
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _carried(self, scope: Scope) -> bool:
        found = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        kind, _, token = found[0].partition(b" ") if len(found) == 1 else (b"", b"", b"")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)
