"""`http.request` against a real server: what is sent, what comes of it, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError
from tests.certificates import certificate
from tests.webserver import Give, Got, WebServer

from addendum.canon import Json
from addendum.credentials import Credentials
from addendum.errors import CapabilityError, ConfigError, UnknownOutcome
from addendum.ports import Reply, Request
from addendum.providers import http
from addendum.providers.service import Tools
from addendum.providers.threads import NoThread
from addendum.testing.memory_artifacts import MemoryArtifacts

KEY = "sk-CANARY-7f3a"


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Serve."""
    with WebServer() as server:
        yield server


def tools(folder: Path = Path(".")) -> Tools:
    """Return what a service is given."""
    return Tools(
        secret=Credentials(
            {"key": "env:KEY", "broken": "env:BROKEN"}, folder, {"KEY": KEY, "BROKEN": "a\r\nHost: evil"}
        ).get,
        artifacts=MemoryArtifacts(),
        folder=folder,
        model=lambda choice: pytest.fail("no model is needed"),
        loop=lambda: pytest.fail("no loop is needed"),
    )


def opened(web: WebServer, host: dict[str, Any] | None = None, **spec: Any) -> http.Service:
    """Open a service for a server."""
    more = {"timeout": 20.0, "retries": 1, **spec}
    return http.open("http.request", http.Spec(kind="http", hosts={web.url: host or {}}, **more), tools())


def ask(service: http.Service, payload: dict[str, Any]) -> Any:
    """Dispatch a payload that fits the schema and return the result, which does, too."""
    (capability,) = service.capabilities
    jsonschema.validate(payload, dict(capability.input))
    request = Request(capability="http.request", payload=payload, key="key-1", run="r", identity="i", attempt=1)
    reply = asyncio.run(service.dispatch(request))
    assert isinstance(reply, Reply)
    jsonschema.validate(reply.value, dict(capability.output))
    return reply.value


def failure(service: http.Service, payload: dict[str, Any]) -> CapabilityError:
    """Return the failure of a dispatch."""
    with pytest.raises(CapabilityError) as caught:
        ask(service, payload)
    return caught.value


# --- requests and results ---------------------------------------------------------------------------------------


def test_a_get(web: WebServer) -> None:
    """A query is added, JSON comes back as a value, and only headers that are shown are."""
    web.answers["/v1/things"] = Give(b'{"n": 1}', headers={"ETag": '"a"', "Set-Cookie": "a=b", "X-Internal": "1"})
    url = f"{web.url}/v1/things?a=1#part"
    found = ask(opened(web), {"url": url, "query": {"q": "ä b", "n": 1.5, "t": True, "l": [1, "2"]}})
    target = "/v1/things?a=1&q=%C3%A4+b&n=1.5&t=true&l=1&l=2"
    assert found == {
        "status": 200,
        "url": web.url + target,
        "headers": {"content-type": "application/json", "etag": '"a"'},
        "json": {"n": 1},
    }
    (got,) = web.got
    assert (got.method, got.target, got.headers["host"]) == ("GET", target, f"127.0.0.1:{web.port}")
    assert got.headers["accept-encoding"] == "identity"
    assert "cookie" not in got.headers


def test_a_post(web: WebServer) -> None:
    """JSON is sent in its canonical form, with the headers that a script may set and those of the host."""
    web.answers["/v1"] = Give(status=201)
    service = opened(
        web, {"headers": {"Authorization": "Bearer {key}", "X-Org": "me"}}, methods=["POST"], idempotency=True
    )
    found = ask(
        service, {"method": "POST", "url": f"{web.url}/v1", "json": {"b": 1, "a": [1.0]}, "headers": {"Accept": "a/b"}}
    )
    (got,) = web.got
    assert found["status"] == 201
    assert got.body == b'{"a":[1],"b":1}'
    assert {name: got.headers[name] for name in ("authorization", "x-org", "idempotency-key", "accept")} == {
        "authorization": f"Bearer {KEY}",
        "x-org": "me",
        "idempotency-key": "key-1",
        "accept": "a/b",
    }
    assert got.headers["content-type"] == "application/json"
    assert KEY not in repr(service) + json.dumps(found)


def test_a_login(web: WebServer) -> None:
    """A login is sent as RFC 7617 says."""
    web.answers["/"] = Give()
    ask(opened(web, {"basic": {"user": "ada", "secret": "key"}}), {"url": web.url})
    assert web.got[0].headers["authorization"] == "Basic YWRhOnNrLUNBTkFSWS03ZjNh"


def test_bodies(web: WebServer) -> None:
    """Text stays text, bytes become an artifact, and JSON that no result can hold is text."""
    web.answers |= {
        "/text": Give("ä".encode("latin-1"), headers={"Content-Type": "text/plain; charset=ISO-8859-1"}),
        "/twice": Give(b'{"a": 1, "a": 2}'),
        "/large": Give(b"[123456789012345678901234567890]"),
        "/image": Give(b"\x89PNG\r\n\x1a\nxyz", headers={"Content-Type": "image/png"}),
        "/lie": Give(b"\xff\xfe", headers={"Content-Type": "text/plain"}),
        "/zip": Give(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
        "/none": Give(b"", 204),
    }
    service = opened(web)
    assert ask(service, {"url": f"{web.url}/text"})["text"] == "ä"
    assert ask(service, {"url": f"{web.url}/twice"})["text"] == '{"a": 1, "a": 2}'
    assert ask(service, {"url": f"{web.url}/large"})["text"].startswith("[123")
    assert ask(service, {"url": f"{web.url}/image"})["media_type"] == "image/png"
    for name in ("lie", "zip"):
        found = ask(service, {"url": f"{web.url}/{name}"})
        assert service.artifacts.get(found["artifact"]) == web.answers[f"/{name}"].body  # type: ignore[union-attr]
    assert set(ask(service, {"url": f"{web.url}/none"})) == {"status", "url", "headers"}
    assert "json" not in ask(opened(web, methods=["GET", "HEAD"]), {"method": "HEAD", "url": f"{web.url}/text"})


def test_sizes(web: WebServer) -> None:
    """A body over the limit isn't sent; an answer over it is a failure, unless what was asked may have had effects."""
    web.answers["/"] = Give(b'"' + b"x" * 100 + b'"')
    payload = {"method": "POST", "url": web.url, "text": "ä" * 10}
    assert "20 bytes" in failure(opened(web, methods=["POST"], max_request=19), payload).message
    assert not web.got
    assert failure(opened(web, max_response=50), {"url": web.url}).code == "provider_error"
    assert ask(opened(web, methods=["POST"], max_response=50), payload)["cut"] is True
    assert "json" in ask(opened(web, max_response=102), {"url": web.url})


def test_no_room(web: WebServer) -> None:
    """An answer that can't be kept is a failure, unless what was asked has had its effect."""
    web.answers["/"] = Give(b"\xff")
    for service, payload in ((opened(web), {"url": web.url}), (opened(web, methods=["POST"]), {"url": web.url})):
        assert isinstance(service.artifacts, MemoryArtifacts)
        service.artifacts.full = True
        if service.spec.methods == ["GET"]:
            assert "can't be kept" in failure(service, payload).message
        else:
            assert ask(service, {**payload, "method": "POST"})["cut"] is True


def test_no_thread_to_keep_it_in(web: WebServer) -> None:
    """What was given up before a thread was free is no failure of a request that has had its effect."""

    class Busy(MemoryArtifacts):
        def put(self, data: bytes, media_type: str) -> dict[str, Json]:
            raise NoThread

    web.answers["/"] = Give(b"\xff")
    service = opened(web, methods=["POST"])
    service.artifacts = Busy()
    assert ask(service, {"url": web.url, "method": "POST"})["cut"] is True
    service = opened(web)
    service.artifacts = Busy()
    assert "no thread was free" in failure(service, {"url": web.url}).message


# --- failures ---------------------------------------------------------------------------------------------------


def test_statuses(web: WebServer) -> None:
    """A status that is no success is a failure with its code, unless it is named as an answer."""
    web.answers |= {f"/{status}": Give(b'{"message": "no"}', status) for status in (404, 403, 500, 503)}
    web.answers["/429"] = Give(b"{}", 429, {"Retry-After": "7"})
    read, write = opened(web), opened(web, methods=["POST"])
    assert (failure(read, {"url": f"{web.url}/404"}).code) == "invalid_input"
    assert failure(read, {"url": f"{web.url}/403"}).code == "refused"
    limited = failure(read, {"url": f"{web.url}/429"})
    assert (limited.code, limited.retryable, limited.retry_after) == ("rate_limited", True, 7.0)
    assert failure(read, {"url": f"{web.url}/500"}).retryable
    with pytest.raises(UnknownOutcome):
        ask(write, {"method": "POST", "url": f"{web.url}/500"})
    assert ask(opened(web, answers=[404]), {"url": f"{web.url}/404"})["json"] == {"message": "no"}


def test_nothing_was_sent() -> None:
    """Where nobody listens, the failure is certain and can be tried again."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        service = http.open("x", http.Spec(kind="http", hosts={url: {}}, methods=["POST"]), tools())
        found = failure(service, {"method": "POST", "url": url})
    assert (found.code, found.retryable) == ("provider_error", True)
    assert "nothing was sent" in found.message


def test_no_whole_answer(web: WebServer) -> None:
    """A connection that ends before the whole answer leaves a request with effects unknown; a read may be repeated."""
    web.answers |= {"/drop": Give(drop=True), "/short": Give(b'{"a": 1}', promised=100)}
    for path in ("/drop", "/short"):
        with pytest.raises(UnknownOutcome):
            ask(opened(web, methods=["POST"]), {"method": "POST", "url": web.url + path})
        found = failure(opened(web), {"url": web.url + path})
        assert (found.code, found.retryable) == ("timeout", True)
        mixed = opened(web, methods=["GET", "POST"])
        assert failure(mixed, {"url": web.url + path}).code == "timeout"
        with pytest.raises(UnknownOutcome):
            ask(opened(web, effect="paid"), {"url": web.url + path})


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = [
    HEAD + b'Content-Length: 11\r\n\r\n{"id":"abc"}'[:-1],
    HEAD + b'Transfer-Encoding: chunked\r\n\r\n6\r\n{"id":\r\n6\r\n"abc"}\r\n0\r\n\r\n',
]


@pytest.mark.parametrize("whole", WHOLE, ids=["length", "chunks"])
def test_an_answer_that_is_cut_at_any_byte(whole: bytes) -> None:
    """Also in its head, where the library takes it for an answer without a body: nobody knows what became of it."""
    with Cut() as server:
        service = http.open("x", http.Spec(kind="http", hosts={server.url: {}}, methods=["POST"]), tools())
        for end in range(whole.index(b"0\r\n\r\n") if b"chunked" in whole else len(whole)):
            server.answer = whole[:end]
            with pytest.raises(UnknownOutcome):
                ask(service, {"method": "POST", "url": server.url})
        server.answer = whole
        assert ask(service, {"method": "POST", "url": server.url})["status"] == 200


CLOSING = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        CLOSING + b'Content-Length: 12\r\n\r\n{"id":"abc"}',
        CLOSING + b'Transfer-Encoding: chunked\r\n\r\n6\r\n{"id":\r\n6\r\n"abc"}\r\n0\r\n\r\n',
        CLOSING + b'\r\n{"id":"abc"}',
        b'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"id":"abc"}',
    ],
    ids=["length", "chunks", "end", "http 1.0"],
)
def test_a_server_that_says_that_it_closes(answer: bytes) -> None:
    """As the request asks it to: the library closes the connection with the answer's last byte, which is no end before
    its time. It was taken for one, and an order that was placed was unresolved."""
    with Cut() as server:
        server.answer = answer
        service = http.open("x", http.Spec(kind="http", hosts={server.url: {}}, methods=["POST"]), tools())
        assert ask(service, {"method": "POST", "url": server.url})["json"] == {"id": "abc"}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 1\r\n\r\n{}",
    ],
    ids=["interim", "coding", "lengths"],
)
def test_an_answer_that_is_read_in_two_ways(answer: bytes) -> None:
    """What was said before the answer is none, and a body that can't be told isn't guessed."""
    with Cut() as server:
        server.answer = answer
        service = http.open("x", http.Spec(kind="http", hosts={server.url: {}}, methods=["POST"]), tools())
        with pytest.raises(UnknownOutcome):
            ask(service, {"method": "POST", "url": server.url})


class Cut:
    """Answers every request with the bytes of `answer`, and closes."""

    def __init__(self) -> None:
        self.answer = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Cut:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                while b"\r\n\r\n" not in connection.recv(65536):
                    pass
                connection.sendall(self.answer)


def test_resent_with_the_same_key(web: WebServer) -> None:
    """Where the hosts honour a key, a request whose answer was lost is sent again with it."""
    answers = iter([Give(drop=True), Give(status=201)])
    web.answers["/"] = lambda got: next(answers)
    found = ask(opened(web, methods=["POST"], idempotency=True), {"method": "POST", "url": web.url})
    assert found["status"] == 201
    assert [got.headers["idempotency-key"] for got in web.got] == ["key-1", "key-1"]


def test_given_up(web: WebServer) -> None:
    """A call that is cancelled lets go of its connection, so that no thread waits for the server."""
    never = threading.Event()
    web.answers["/"] = Give(after=never)
    service = opened(web)

    async def main() -> None:
        request = Request(capability="x", payload={"url": web.url}, key="k", run="r", identity="i", attempt=1)
        task = asyncio.create_task(service.dispatch(request))
        await asyncio.to_thread(web.arrived.acquire)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    never.set()
    with service.threads._changed:
        assert service.threads._changed.wait_for(lambda: service.threads._idle == service.threads._count, 10)


def test_out_of_time(web: WebServer) -> None:
    """An answer that doesn't come in time is told before the broker gives up."""
    never = threading.Event()
    web.answers["/"] = Give(after=never)
    found = failure(opened(web, timeout=0.2), {"url": web.url})
    never.set()
    assert found.code == "timeout"


@pytest.mark.slow
def test_a_server_that_drips() -> None:
    """An answer that comes byte by byte has no more time than any other."""
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                try:
                    while not over.wait(0.02):
                        connection.sendall(b"H" if not over.is_set() else b"")
                except OSError:
                    continue

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=drip, args=(listening,), daemon=True)
        thread.start()
        spec = http.Spec(kind="http", hosts={url: {}}, methods=["GET", "POST"], timeout=1.0)
        service = http.open("x", spec, tools())
        found = failure(service, {"url": url})
        assert (found.code, found.retryable) == ("timeout", True)
        with pytest.raises(UnknownOutcome):
            ask(service, {"method": "POST", "url": url})
        over.set()
        thread.join()


def test_tls(tmp_path: Path) -> None:
    """A certificate has to be trusted, and to be the host's; nothing is sent before it is."""
    ca, context = certificate(tmp_path)
    other, _ = certificate(tmp_path, "other.example")
    with WebServer(tls=context) as web:
        web.answers["/"] = Give(b'"fine"')
        url = f"https://127.0.0.1:{web.port}"
        inside = f"https://inside.example:{web.port}"
        hosts = {url: {}, inside: {"private": True}}
        for trusted, asked in (("", url), (other.name, url), (ca.name, inside)):
            service = http.open("x", http.Spec(kind="http", hosts=hosts, ca=trusted), tools(tmp_path))
            service.resolve = lambda host, port: ["127.0.0.1"]
            found = failure(service, {"url": asked})
            assert (found.code, "certificate" in found.message) == ("refused", True)
        assert not web.got
        spec = http.Spec(kind="http", hosts=hosts, ca=ca.name)
        assert ask(http.open("x", spec, tools(tmp_path)), {"url": url})["json"] == "fine"
        plain = http.Spec(kind="http", hosts={url.replace("https", "http"): {}})
        with pytest.raises(CapabilityError):
            ask(http.open("x", plain, tools()), {"url": url})


# --- redirects --------------------------------------------------------------------------------------------------


def test_redirect_within_the_hosts(web: WebServer) -> None:
    """A read follows redirects, and each origin gets its own secrets only."""
    with WebServer() as other:
        web.answers |= {"/a": Give(b"", 302, {"Location": "/b"}), "/b": Give(b"", 307, {"Location": f"{other.url}/c"})}
        other.answers["/c"] = Give(b'"there"')
        spec = http.Spec(
            kind="http", hosts={web.url: {"headers": {"X-Key": "{key}"}}, other.url: {}}, headers=["Accept", "If-Match"]
        )
        found = ask(
            http.open("x", spec, tools()), {"url": f"{web.url}/a", "headers": {"If-Match": "1", "Accept": "a/b"}}
        )
        assert (found["json"], found["url"]) == ("there", f"{other.url}/c")
        assert [got.headers.get("x-key") for got in (*web.got, *other.got)] == [KEY, KEY, None]
        assert [got.headers.get("if-match") for got in (*web.got, *other.got)] == ["1", "1", None]
        assert other.got[0].headers["accept"] == "a/b"


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://evil.example/", "out of what was named"),
        ("//evil.example/", "out of what was named"),
        ("http://127.0.0.1:1/", "out of what was named"),
        ("http://169.254.169.254/latest", "out of what was named"),
        ("/secret", "out of what was named"),
        ("/a/../secret", "no URL|out of what was named"),
        ("file:///etc/passwd", "no URL"),
        ("http://[::1", "no URL"),
        ("/a/again", "more than 2 times"),
    ],
)
def test_redirect_out(web: WebServer, location: str, why: str) -> None:
    """A redirect to anything that isn't named isn't followed."""
    web.answers |= {"/a": Give(b"", 302, {"Location": location}), "/a/again": Give(b"", 302, {"Location": "/a"})}
    web.answers["/secret"] = Give(b'"secret"')
    found = failure(opened(web, {"paths": ["/a"]}, redirects=2), {"url": f"{web.url}/a"})
    assert found.code == "refused"
    assert re.search(why, found.message)
    assert not [got for got in web.got if got.target == "/secret"]


def test_redirect_of_a_write(web: WebServer) -> None:
    """A write is sent on by a 307 or 308 only; any other redirect is its result, since it may be done."""
    web.answers |= {f"/{status}": Give(b"", status, {"Location": "/done"}) for status in (301, 302, 303, 307, 308)}
    web.answers["/done"] = lambda got: Give(json.dumps([got.method, got.body.decode()]).encode())
    service = opened(web, methods=["GET", "POST"])
    for status in (301, 302, 303):
        found = ask(service, {"method": "POST", "url": f"{web.url}/{status}", "text": "x"})
        assert (found["status"], found["headers"]["location"]) == (status, "/done")
    for status in (307, 308):
        assert ask(service, {"method": "POST", "url": f"{web.url}/{status}", "text": "x"})["json"] == ["POST", "x"]


# --- what a script may say --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Host", "Content-Length", "Transfer-Encoding", "Connection", "Cookie", "Authorization", "X-Forwarded-For"]
)
def test_headers_that_nobody_sets(web: WebServer, name: str) -> None:
    """A script can't set them, and a specification can't allow it to."""
    assert failure(opened(web), {"url": web.url, "headers": {name: "x"}}).code == "invalid_input"
    with pytest.raises(ValidationError, match="can't be allowed"):
        opened(web, headers=[name])
    assert not web.got


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\nb", "a\0b", "ä", "", " a", "a "])
def test_header_values(web: WebServer, value: str) -> None:
    """A value is printable ASCII in one line."""
    assert failure(opened(web), {"url": web.url, "headers": {"Accept": value}}).code == "invalid_input"
    assert not web.got


def test_a_header_twice(web: WebServer) -> None:
    """The same header in two spellings is refused."""
    assert failure(opened(web), {"url": web.url, "headers": {"Accept": "a", "accept": "b"}}).code == "invalid_input"


def test_a_secret_that_is_no_header(web: WebServer) -> None:
    """A secret with a line break isn't sent, and isn't shown."""
    found = failure(opened(web, {"headers": {"X-Key": "{broken}"}}), {"url": web.url})
    assert "evil" not in found.message
    assert not web.got


def test_methods_and_paths(web: WebServer) -> None:
    """A method or a path that isn't named is refused before anything is sent."""
    service = opened(web, {"paths": ["/v1/", "/v2"]})
    with pytest.raises(jsonschema.ValidationError):
        ask(service, {"method": "DELETE", "url": web.url})
    for path in ("/", "/v10", "/v", "/v3/x"):
        assert failure(service, {"url": web.url + path}).code == "refused"
    assert not web.got
    for path in ("/v1", "/v1/x", "/v2/", "/v2"):
        assert failure(service, {"url": web.url + path}).message.startswith("it answered 404")


def test_a_read_has_no_body(web: WebServer) -> None:
    """A GET with a body is refused."""
    assert failure(opened(web), {"url": web.url, "json": 1}).code == "invalid_input"


# --- specifications ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"effect": "read", "methods": ["POST"]}, "doesn't allow POST"),
        ({"effect": "idempotent", "methods": ["PATCH"]}, "doesn't allow PATCH"),
        ({"hosts": {"api.example.com": {}}}, "no origin"),
        ({"hosts": {"ftp://api.example.com": {}}}, "no origin"),
        ({"hosts": {"https://api.example.com/v1": {}}}, "no origin"),
        ({"hosts": {"https://a@api.example.com": {}}}, "no origin"),
        ({"hosts": {"https://A.example": {}, "https://a.example:443": {}}}, "stands twice"),
        ({"hosts": {}}, "at least 1"),
        ({"hosts": {"https://a.example": {"headers": {"Accept": "x"}}}}, "set by the host"),
        ({"hosts": {"https://a.example": {"headers": {"Host": "x"}}}}, "belongs to the connection"),
        ({"hosts": {"https://a.example": {"headers": {"X": "a\nb"}}}}, "pattern"),
        (
            {
                "hosts": {
                    "https://a.example": {"headers": {"authorization": "x"}, "basic": {"user": "a", "secret": "key"}}
                }
            },
            "a login and an Authorization",
        ),
    ],
)
def test_specifications_that_cannot_be(spec: dict[str, Any], why: str) -> None:
    """A specification that contradicts itself is refused when it is read."""
    with pytest.raises(ValidationError, match=why):
        http.Spec(**{"kind": "http", "hosts": {"https://a.example": {}}, **spec})


def test_effects() -> None:
    """Reading methods make a read, any other a side effect; a person may say more."""
    hosts = {"https://a.example": http.Host()}
    assert http.Spec(kind="http", hosts=hosts).effects == "read"
    assert http.Spec(kind="http", hosts=hosts, methods=["GET", "PUT"]).effects == "side_effect"
    assert http.Spec(kind="http", hosts=hosts, methods=["PUT"], effect="idempotent").effects == "idempotent"
    assert http.Spec(kind="http", hosts=hosts, effect="paid").effects == "paid"


def test_handles_and_files(tmp_path: Path) -> None:
    """The secrets that are named are known before they are read; what isn't there is an error."""
    host = http.Host(headers={"A": "x {key} {other}"}, basic=http.Basic(user="u", secret="third"))
    spec = http.Spec(kind="http", hosts={"https://bücher.example": host})
    assert spec.handles() == ("key", "other", "third")
    assert str(http.origin("https://bücher.example")) == "https://xn--bcher-kva.example"
    with pytest.raises(ConfigError, match="no secret 'other'"):
        http.open("x", spec, tools())
    with pytest.raises(ConfigError, match="certificates"):
        http.open("x", http.Spec(kind="http", hosts={"https://a.example": {}}, ca="none.pem"), tools(tmp_path))


def test_nobody_can_say(web: WebServer) -> None:
    """Nothing can be looked up, and closing is nothing."""
    service = opened(web)
    assert asyncio.run(service.lookup("x", "k")) is None
    asyncio.run(service.close())


def test_what_came_is_what_was_asked(web: WebServer) -> None:
    """The server sees the exact path and query."""
    web.answers["/a%20b/%C3%A4"] = lambda got: Give(json.dumps(got.target).encode())
    found: Got
    ask(opened(web), {"url": f"{web.url}/a%20b/ä?x=1%262"})
    (found,) = web.got
    assert found.target == "/a%20b/%C3%A4?x=1%262"
