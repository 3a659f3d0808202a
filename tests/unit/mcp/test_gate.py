"""Who gets in over HTTP."""

from __future__ import annotations

import pytest

from addendum.errors import ConfigError
from addendum.mcp.gate import Address, Bearer, address, rules


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:80", "127.0.0.1", 80, True),
        (":8765", "127.0.0.1", 8765, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:80", "::1", 80, True),
        ("127.9.9.9:80", "127.9.9.9", 80, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("[::]:80", "::", 80, False),
        ("workflows.example:80", "workflows.example", 80, False),
    ],
)
def test_addresses(text: str, host: str, port: int, loopback: bool) -> None:
    """A host and a port; only this machine's own are loopback."""
    found = address(text)
    assert (found.host, found.port, found.loopback) == (host, port, loopback)


@pytest.mark.parametrize("text", ["", "80", "host", "host:", "host:port", "host:70000", "::1:80", "host:-1", "host:8٣"])
def test_what_is_no_address(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ConfigError):
        address(text)


def test_names_that_are_let_in() -> None:
    """A local server knows its local names with its own port, and what the operator adds."""
    found = rules(Address("127.0.0.1", 99), ("workflows.example",))
    assert set(found.allowed_hosts) == {"127.0.0.1:99", "localhost:99", "[::1]:99", "workflows.example"}
    assert "https://workflows.example" in found.allowed_origins
    assert found.enable_dns_rebinding_protection
    assert set(rules(Address("10.0.0.1", 99), ()).allowed_hosts) == {"10.0.0.1:99"}


def test_a_short_token_is_none() -> None:
    """One that can be guessed protects nothing."""

    async def app(scope: object, receive: object, send: object) -> None:
        raise AssertionError

    with pytest.raises(ConfigError, match="5 characters"):
        Bearer(app, "short")
