"""One HTTP exchange over one connection to an address that was judged before: no proxy, no cookies, no reuse, no
decompression, no redirect. It blocks, and is meant for a thread; another thread may break it off."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from addendum.errors import CapabilityError, UnknownOutcome
from addendum.providers.urls import Target

PIECE: Final = 64 * 1024
CONNECTING: Final = 15.0
"""Seconds for one attempt to connect, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request: what is sent where. `headers` have secrets in them, so they are in no text form."""

    method: str
    target: Target
    addresses: Sequence[str]
    headers: Sequence[tuple[str, str]] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Came:
    """An answer: status, headers by lower-case name (the last of each counts), the body up to a limit, and whether
    there was more of it."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool


class Exchange:
    """Sends one request. `deadline` is a time of `time.monotonic()`; `most` the bytes of an answer that are read."""

    def __init__(self, sent: Sent, *, deadline: float, most: int, tls: ssl.SSLContext) -> None:
        self._sent = sent
        self._deadline = deadline
        self._most = most
        self._tls = tls
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._broken = False
        self.asked = False
        """Whether anything of the request may have been sent."""

    def run(self) -> Came:
        """Send it and read the answer. Raises `CapabilityError` when nothing was sent, `UnknownOutcome` when it was and
        no whole answer came."""
        connection = http.client.HTTPConnection(self._sent.target.origin.host, self._sent.target.origin.port)
        connection.auto_open = 0
        connection.response_class = _Answer
        connection.sock = self._connect()
        try:
            return self._ask(connection)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnknownOutcome(f"the connection ended without a whole answer ({_short(error)})") from None
        finally:
            connection.close()

    def break_off(self) -> None:
        """End it from another thread: what waits for the network is woken, and what wasn't `asked` yet never is."""
        with self._lock:
            self._broken = True
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it ended meanwhile

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return left

    def _connect(self) -> socket.socket:
        """Connect to the first address that answers, with TLS where the scheme asks for it."""
        origin, last = self._sent.target.origin, "no address"
        for address in self._sent.addresses:
            try:
                found = socket.create_connection((address, origin.port), min(CONNECTING, self._left()))
            except OSError as error:
                last = _short(error)
                continue
            with self._lock:
                self._socket = found
                broken = self._broken
            if broken:
                found.close()
                last = "it was broken off"
                break
            found.settimeout(min(CONNECTING, max(0.001, self._deadline - time.monotonic())))
            return self._secured(found) if origin.scheme == "https" else found
        raise CapabilityError("provider_error", f"{origin} can't be reached, nothing was sent ({last})", True)

    def _secured(self, plain: socket.socket) -> socket.socket:
        origin = self._sent.target.origin
        held = plain
        try:
            held = found = self._tls.wrap_socket(plain, server_hostname=origin.host, do_handshake_on_connect=False)
            with self._lock:
                self._socket = found  # the plain one has been taken over: shutting that would wake nobody
            found.do_handshake()
        except ssl.SSLCertVerificationError as error:
            held.close()
            raise CapabilityError(
                "refused", f"the certificate of {origin} isn't valid, nothing was sent ({error.verify_message})"
            ) from None
        except OSError as error:
            held.close()
            raise CapabilityError(
                "provider_error", f"{origin} can't be reached by TLS, nothing was sent ({_short(error)})", True
            ) from None
        return found

    def _ask(self, connection: http.client.HTTPConnection) -> Came:
        sent = self._sent
        connection.sock.settimeout(self._left())
        with self._lock:
            if self._broken:
                raise CapabilityError("timeout", "it was given up, nothing was sent", True)
            self.asked = True
        connection.putrequest(
            sent.method, sent.target.path + sent.target.query, skip_host=True, skip_accept_encoding=True
        )
        connection.putheader("Host", sent.target.origin.authority)
        connection.putheader("Accept-Encoding", "identity")
        connection.putheader("Connection", "close")
        for name, value in sent.headers:
            connection.putheader(name, value)
        if sent.body is not None:
            connection.putheader("Content-Length", str(len(sent.body)))
        connection.endheaders(sent.body)
        wire = connection.sock
        answer = connection.getresponse()
        body = bytearray()
        while len(body) <= self._most and not answer.isclosed():  # with its last byte an answer closes the connection
            wire.settimeout(self._left())
            piece = answer.read(min(PIECE, self._most + 1 - len(body)))
            if not piece:
                break
            body += piece
        cut = len(body) > self._most
        if not cut and answer.length:
            raise http.client.IncompleteRead(b"", answer.length)  # the library returns what came, as if it were all
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Came(answer.status, headers, bytes(body[: self._most]), cut)


class _Answer(http.client.HTTPResponse):
    """An answer whose head came whole. The library takes one that ends in the middle for all of it, and what was said
    before the answer (a status 1xx) for the answer; either way it would have no body, and look like a success or a
    failure that nobody told."""

    def begin(self) -> None:
        """Read status and headers. Raises `HTTPException`."""
        plain: Any = self.fp
        lines: Any = _Lines(plain)
        self.fp = lines
        try:
            super().begin()
        finally:
            if self.fp is lines:
                self.fp = plain
        if lines.last not in (b"\r\n", b"\n"):
            raise http.client.IncompleteRead(b"")
        coding = self.headers.get("transfer-encoding", "chunked").strip().lower()
        if (
            self.status < 200
            or coding not in ("chunked", "identity")
            or len(set(self.headers.get_all("content-length", ()))) > 1
        ):
            raise http.client.UnknownProtocol(str(self.status))


class _Lines:
    """A file that keeps the last line that was read. It is read by lines only, as a head is."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self.last = b""

    def readline(self, most: int = -1) -> bytes:
        """Read a line."""
        self.last = self._file.readline(most)
        return self.last

    def flush(self) -> None:
        """Flush the file, as the library does before it closes it."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _short(error: BaseException) -> str:
    """Return what went wrong; a library's own text may hold what was sent."""
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__
