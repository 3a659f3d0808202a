"""mcp: serve Addendum to a coding agent, over the Model Context Protocol."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from addendum.cli import opening, options
from addendum.cli.output import Output
from addendum.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from addendum.config import Settings
    from addendum.mcp.gate import Address

TOKEN = "ADDENDUM_MCP_TOKEN"


Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve streamable HTTP at this address, under /mcp, instead of stdio. Clients need a token.",
        show_default=False,
    ),
]
Grant = Annotated[
    str | None,
    typer.Option(
        "--grant",
        metavar="FILE",
        help="The most that a run may use: a TOML or JSON file. Needed unless the provider is `demo`.",
        show_default=False,
    ),
]
Approvals = Annotated[
    str,
    typer.Option(
        "--approvals",
        metavar="off|ask|client",
        help="Who answers approvals through this server: nobody, the person whom the client asks, or any client.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="env:NAME|file:PATH",
        help=f"Where the token of --http is (default: the variable {TOKEN}, else one is made and printed).",
        show_default=False,
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME[:PORT]",
        help="Another name that clients may call the server by, as behind a proxy.",
        show_default=False,
    ),
]


def mcp(
    http: Http = None,
    grant: Grant = None,
    approvals: Approvals = "off",
    token: Token = None,
    hosts: Hosts = None,
    store: options.Store = None,
    sandbox: options.Sandbox = None,
    provider: options.Provider = None,
) -> int:
    """Serve the tools check, run, resume, plan, revise, show, approve and cancel to an MCP client.

    Over stdio, stdout belongs to the protocol and everything that is said goes to stderr. A client that leaves loses
    nothing: over stdio its runs come to a clean end and can be resumed, over HTTP they go on.
    """
    _installed()
    from addendum.mcp import approvals as modes
    from addendum.mcp import gate

    if approvals not in modes.MODES:
        raise ConfigError(f"--approvals can't be {approvals!r}.", hint=f"It is one of {', '.join(modes.MODES)}.")
    if http is None and (token is not None or hosts):
        raise ConfigError("--token and --allow-host are for HTTP.", hint="Name an address with --http too.")
    listening = None if http is None else gate.address(http)
    secret = None if listening is None else _token(token, listening)
    settings = opening.settings(store=store, sandbox=sandbox, provider=provider, grant=grant)
    if not settings.grant and settings.provider != "demo":
        raise ConfigError(
            "No grant is named: a client could use every capability without a limit.",
            hint="Name what runs may use with --grant FILE.",
        )
    exactly = Output(store=store, sandbox=sandbox, provider=provider).exactly
    _serve(settings, listening, secret, tuple(hosts or ()), approvals, exactly)
    return 0


def _serve(
    settings: Settings,
    listening: Address | None,
    token: str | None,
    hosts: tuple[str, ...],
    mode: str,
    exactly: Callable[[str], str],
) -> None:
    """Serve to the end: over stdio, or at an address. A token of None is made, and printed with the address. `exactly`
    makes a hint's commands ones to be copied."""
    import asyncio

    from addendum.cli.version import version
    from addendum.mcp.desk import Desk
    from addendum.mcp.drives import Drives
    from addendum.mcp.server import build
    from addendum.mcp.serving import listener, over_http, over_stdio

    with ExitStack() as opened:
        # The address comes first: who can't have it has said nothing yet, and opened no store.
        taken = None if listening is None else opened.enter_context(listener(listening))
        desk = Desk(opened.enter_context(opening.context(settings)), exactly)
        drives = Drives()
        server = build(desk, drives, mode, version())  # type: ignore[arg-type]

        def leave() -> NoReturn:
            opened.close()
            sys.stderr.flush()
            os._exit(0)

        if taken is None:
            if sys.stdin.isatty():
                _say("Addendum waits for an MCP client on standard input, which is a terminal. Ctrl-C ends it.")
            asyncio.run(over_stdio(server, drives, leave))
            return
        known = token if token is not None else secrets.token_urlsafe(32)

        def say(where: str) -> None:
            _say(where if token is not None else f"The token of this server, until it ends: {known}\n{where}")

        asyncio.run(over_http(server, drives, taken, known, hosts, say))


def _installed() -> None:
    """Raise `ConfigError` that names the extra if the SDK isn't there."""
    try:
        import mcp.server.lowlevel
    except ModuleNotFoundError:
        raise ConfigError("The MCP server isn't installed.", hint="pip install 'addendum[mcp]'") from None
    del mcp


def _token(source: str | None, listening: Address) -> str | None:
    """Return the token: from where it was said to be, or from the environment; None if one is to be made.

    Raises `ConfigError` for none at an address that other machines reach."""
    from pathlib import Path

    from addendum.credentials import Credentials

    if source is None and os.environ.get(TOKEN):
        source = f"env:{TOKEN}"
    if source is not None:
        return Credentials({"token": source}, Path.cwd(), os.environ).get("token").reveal()
    if not listening.loopback:
        raise ConfigError(
            f"{listening} can be reached from other machines, and no token is named.",
            hint=f"Name one with --token env:NAME, or put it into {TOKEN}.",
        )
    return None


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
