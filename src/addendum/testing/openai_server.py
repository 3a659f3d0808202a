"""A local server that speaks the OpenAI HTTP API, with failures as they are asked for.

It is a real server on a port of 127.0.0.1, so a client's own stack is what is tested: `POST /v1/chat/completions` and
`/v1/responses` (text, JSON Schema output, tool calls), `POST /v1/images/generations` (`b64_json` and `url`),
`GET /files/N` for what an image's `url` names, `GET /v1/models`. Nothing is streamed. Source: OpenAI's API reference;
the handling of `Idempotency-Key` is that of draft-ietf-httpapi-idempotency-key-header.

    python -m addendum.testing.openai_server --port 8080 --key sk-local --answers answers.json
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

from addendum.testing.openai_answers import ToolCall, answered, picture

Answer: TypeAlias = "str | ToolCall | Mapping[str, Any] | list[Any] | Callable[[Any], Any]"
"""What a model says: a text, a tool call, a JSON value (sent as its text), or a function of the request's body that
returns one of these."""

LARGEST = 64 * 1024 * 1024


@dataclass(slots=True)
class Fault:
    """What goes wrong with one request: the first in the list whose `path` and `when` occur in the request's path and
    body is used, `times` times.

    `status` answers with that error, `retry_after` seconds in its header, and `body` (default: OpenAI's error object
    with `message`). `echo` puts the request's key into that message, as careless services do. `slow` answers only after
    so many seconds: the work is done, the client has gone. `cut` sends half of the answer and closes: the work is done
    too. `drop` closes without an answer and without any work."""

    status: int = 0
    message: str = "this request was chosen to fail"
    code: str | None = None
    retry_after: float | str | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    echo: bool = False
    slow: float = 0.0
    cut: bool = False
    drop: bool = False
    path: str = ""
    when: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request as it came. Names of `headers` are in lower case; `body` is the parsed JSON, None if there was none."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class OpenAIServer:
    """Runs while it is entered (`with OpenAIServer("hello") as server:`), in threads that end with it.

    `url` is the base address that clients are given; it ends in `/v1`. `answers` are used up in their order, then
    `answer` is given for ever. `requests` is all that arrived, `worked` the bodies of those whose work was done, also
    when the client never heard of it; `repeats` counts requests with an `Idempotency-Key` that was answered before.
    Files of `expired` (their numbers) are gone: 403, as signed addresses answer when their time is over.
    `key_header` is where the key is looked for: `Authorization` (as `Bearer KEY`), or any other name (the bare key).
    """

    def __init__(
        self,
        answer: Answer = "ok",
        *,
        answers: Iterable[Answer] = (),
        faults: Iterable[Fault] = (),
        key: str = "sk-local-0123456789abcdef",
        key_header: str = "Authorization",
        port: int = 0,
    ) -> None:
        self.answer = answer
        self.answers: deque[Answer] = deque(answers)
        self.faults = list(faults)
        self.key = key
        self.key_header = key_header.lower()
        self.requests: list[Arrived] = []
        self.worked: list[Any] = []
        self.repeats: Counter[str] = Counter()
        self.files: list[bytes] = []
        self.expired: set[int] = set()
        self.tokens: tuple[int, int] | None = None
        """(tokens of the request, tokens of the answer) that are reported; counted from the texts when None."""
        self._remembered: dict[str, tuple[Any, Any]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._http = _Http(("127.0.0.1", port), self)
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def origin(self) -> str:
        """Scheme, address and port."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The base address that an OpenAI client is given."""
        return f"{self.origin}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it: slow answers are let go, every connection is closed."""
        self._closing.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()

    def bodies(self, path: str = "") -> list[Any]:
        """Return the bodies of the requests whose path contains a text."""
        return [request.body for request in self.requests if path in request.path]

    # --- what the handlers ask -----------------------------------------------------------------------------------

    def fault(self, arrived: Arrived) -> Fault | None:
        """Note a request, and take the fault that hits it."""
        text = json.dumps(arrived.body, ensure_ascii=False)
        with self._lock:
            self.requests.append(arrived)
            for fault in self.faults:
                if fault.times > 0 and fault.path in arrived.path and fault.when in text:
                    fault.times -= 1
                    return fault
        return None

    def admitted(self, arrived: Arrived) -> bool:
        """Whether the request shows the key."""
        shown = arrived.headers.get(self.key_header, "")
        return shown == (f"Bearer {self.key}" if self.key_header == "authorization" else self.key)

    def work(self, arrived: Arrived) -> tuple[int, Any]:
        """Do the work of a request once for each `Idempotency-Key`; returns the status and the answer's JSON."""
        name = arrived.headers.get("idempotency-key", "")
        with self._lock:
            if name and name in self._remembered:
                body, answer = self._remembered[name]
                self.repeats[name] += 1
                if body != arrived.body:
                    return 422, failed("this idempotency key was used for another request", "idempotency_error")
                return 200, answer
            status, answer = self._answer(arrived)
            if status == 200:
                self.worked.append(arrived.body)
                if name:
                    self._remembered[name] = (arrived.body, answer)
            return status, answer

    def held(self, seconds: float) -> None:
        """Wait so long, or until the server is closed."""
        self._closing.wait(seconds)

    def _answer(self, arrived: Arrived) -> tuple[int, Any]:
        body = arrived.body
        if not isinstance(body, dict):
            return 400, failed("the body is no JSON object")
        if body.get("stream"):
            return 400, failed("this server doesn't stream")
        if arrived.path == "/v1/images/generations":
            return 200, self._images(body)
        if arrived.path not in ("/v1/chat/completions", "/v1/responses"):
            return 404, failed(f"there is no {arrived.path}", "not_found")
        said: Any = self.answers.popleft() if self.answers else self.answer
        if callable(said):
            said = said(body)
        chat = arrived.path == "/v1/chat/completions"
        return 200, answered(said, body, len(self.worked) + 1, chat=chat, tokens=self.tokens)

    def _images(self, body: Mapping[str, Any]) -> Any:
        data = []
        inline = body.get("response_format", "b64_json" if "gpt-image" in str(body.get("model")) else "url")
        for _ in range(int(body.get("n") or 1)):
            made = picture(f"{body.get('prompt')}/{len(self.files)}")
            self.files.append(made)
            if inline == "b64_json":
                data.append({"b64_json": base64.b64encode(made).decode("ascii")})
            else:
                data.append({"url": f"{self.origin}/files/{len(self.files) - 1}"})
        tokens = {"input_tokens": 10, "output_tokens": 100, "total_tokens": 110}
        details = {"input_tokens_details": {"text_tokens": 10, "image_tokens": 0}}
        return {"created": 1_700_000_000, "data": data, "usage": {**tokens, **details}}


def failed(message: str, code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    """Return OpenAI's error object."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], owner: OpenAIServer) -> None:
        self.owner = owner
        self.open: set[Any] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for request in list(self.open):  # kept-alive connections, whose threads wait for a next request
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _owner(self) -> OpenAIServer:
        assert isinstance(self.server, _Http)
        return self.server.owner

    def do_GET(self) -> None:
        """A file, or the list of models."""
        owner, path = self._owner, urlsplit(self.path).path
        arrived = Arrived("GET", path, self._named(), None)
        fault = owner.fault(arrived)
        if fault is not None and self._failing(fault, arrived):
            return
        if path.startswith("/files/"):
            number = path.removeprefix("/files/")
            if not number.isdigit() or int(number) >= len(owner.files):
                self._send(404, b"no such file", "text/plain")
            elif int(number) in owner.expired:
                self._send(403, b"this address has expired", "text/plain")
            else:
                self._send(200, owner.files[int(number)], "image/png", fault)
        elif not owner.admitted(arrived):
            self._json(401, failed("Incorrect API key provided", "invalid_api_key"))
        elif path == "/v1/models":
            self._json(200, {"object": "list", "data": [{"id": "local", "object": "model", "owned_by": "local"}]})
        else:
            self._json(404, failed(f"there is no {path}", "not_found"))

    def do_POST(self) -> None:
        """A request for work."""
        owner = self._owner
        length = int(self.headers.get("content-length") or 0)
        if length > LARGEST:
            self.close_connection = True
            self._json(413, failed("the body is too large"))
            return
        data = self.rfile.read(length)
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        arrived = Arrived("POST", urlsplit(self.path).path, self._named(), body)
        fault = owner.fault(arrived)
        if fault is not None and self._failing(fault, arrived):
            return
        if not owner.admitted(arrived):
            self._json(401, failed("Incorrect API key provided", "invalid_api_key"))
            return
        status, answer = owner.work(arrived)
        if fault is not None and fault.slow:
            owner.held(fault.slow)
        self._json(status, answer, fault)

    def _named(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _failing(self, fault: Fault, arrived: Arrived) -> bool:
        """Answer a fault that needs no work; False for one that comes with the answer."""
        if fault.drop:
            self.close_connection = True
            return True
        if not fault.status:
            return False
        body = fault.body
        if body is None:
            key = arrived.headers.get(self._owner.key_header, "")
            kind = "server_error" if fault.status >= 500 else "invalid_request_error"
            body = failed(f"{fault.message}: {key}" if fault.echo else fault.message, fault.code, kind)
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        more = dict(fault.headers)
        if fault.retry_after is not None:
            more["retry-after"] = str(fault.retry_after)
        self._send(fault.status, data, "text/plain" if isinstance(body, str) else "application/json", None, more)
        return True

    def _json(self, status: int, value: Any, fault: Fault | None = None) -> None:
        self._send(status, json.dumps(value).encode(), "application/json", fault)

    def _send(
        self,
        status: int,
        data: bytes,
        kind: str,
        fault: Fault | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in {**(fault.headers if fault is not None else {}), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if fault is not None and fault.cut:
            data = data[: len(data) // 2]
            self.close_connection = True
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what arrived is in `requests`."""


def main() -> None:
    """Serve until interrupted. The file of answers is a JSON list of answers, or an object with `answers`, `answer`
    (what is said when they are used up) and `faults` (objects with the fields of `Fault`). An answer with the keys
    `tool` and `arguments` is a tool call."""
    import argparse
    from pathlib import Path

    parser = argparse.ArgumentParser(prog="python -m addendum.testing.openai_server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--key", default="sk-local")
    parser.add_argument("--answers", type=Path)
    given = parser.parse_args()
    try:
        play: Any = json.loads(given.answers.read_text("utf-8")) if given.answers else {}
        if isinstance(play, list):
            play = {"answers": play}
        faults = [Fault(**fault) for fault in play.get("faults", ())]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        parser.error(f"{given.answers} can't be used: {error}")
    try:
        opened = OpenAIServer(
            play.get("answer", "ok"),
            answers=play.get("answers", ()),
            faults=faults,
            key=given.key,
            port=given.port,
        )
    except OSError as error:
        parser.error(f"port {given.port} can't be had: {error.strerror}; name another one with --port")
    with opened as server:
        sys.stdout.write(f"Serving {server.url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
