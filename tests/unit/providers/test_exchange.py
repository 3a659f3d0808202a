"""One exchange that is broken off from another thread: whatever it waits for, it ends, and sends nothing afterwards."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator

import pytest

from addendum.errors import CapabilityError
from addendum.providers import urls
from addendum.providers.exchange import Exchange, Sent


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A port of this machine where connections are taken, and nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(10)
        yield found


def exchange(listening: socket.socket, scheme: str) -> Exchange:
    """A request that would have an effect."""
    target = urls.read(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/")
    sent = Sent(method="POST", target=target, addresses=["127.0.0.1"], headers=[], body=b"once")
    return Exchange(sent, deadline=time.monotonic() + 600, most=100, tls=ssl.create_default_context())


def test_a_handshake_is_woken(listening: socket.socket) -> None:
    """A server that says nothing holds no thread: the socket that TLS took over is the one that is shut."""
    found = exchange(listening, "https")
    raised: list[CapabilityError] = []

    def run() -> None:
        with pytest.raises(CapabilityError) as caught:
            found.run()
        raised.append(caught.value)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    with listening.accept()[0] as there:
        there.settimeout(10)
        assert there.recv(1) == b"\x16", "a handshake has begun"
        found.break_off()
        thread.join(10)
    assert [(each.code, each.retryable, "nothing was sent" in each.message) for each in raised] == [
        ("provider_error", True, True)
    ]
    assert not found.asked


def test_what_was_given_up_is_not_asked(listening: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gave it up tells the broker that it may be tried again: it must not leave a moment later."""
    found = exchange(listening, "http")
    left = Exchange._left

    def late(self: Exchange) -> float:
        if self._socket is not None:
            self.break_off()
        return left(self)

    monkeypatch.setattr(Exchange, "_left", late)
    monkeypatch.setattr(socket.socket, "shutdown", lambda self, how: None)
    with pytest.raises(CapabilityError, match="given up, nothing was sent"):
        found.run()
    assert not found.asked
    with listening.accept()[0] as there:
        there.settimeout(10)
        assert there.recv(100) == b""
