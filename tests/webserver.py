"""A real HTTP server for tests: answers by path, and remembers what came."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Got:
    """What came: `target` is the path with its query, names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Give:
    """What is answered. With `promised`, that is the length it claims; with `cut`, the connection ends after the body.
    `drop` ends it without any answer. `after` is awaited before anything is written."""

    body: bytes = b"{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    promised: int | None = None
    drop: bool = False
    after: threading.Event | None = None


Answer = Give | Callable[[Got], Give]


class WebServer:
    """Serves on a free port of 127.0.0.1 while it is entered."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.got: list[Got] = []
        self.arrived = threading.Semaphore(0)
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                length = int(self.headers.get("content-length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                got = Got(self.command, self.path, headers, self.rfile.read(length))
                server.got.append(got)
                server.arrived.release()
                found = server.answers.get(urlsplit(self.path).path, Give(b"", 404))
                give = found(got) if callable(found) else found
                if give.after is not None:
                    give.after.wait(30)
                self.close_connection = True
                if give.drop:
                    return
                self.send_response(give.status)
                for name, value in {"Content-Type": "application/json", **give.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(give.body) if give.promised is None else give.promised))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(give.body)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _any

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """Say nothing of a client that went away."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        """Its port."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> WebServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
