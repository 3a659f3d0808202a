"""Fetching what an answer names: where a request may go, how much is read, and what is tried again."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from tests.webserver import Give, WebServer

from addendum.providers.download import Downloads, NotFetched, decoded
from addendum.providers.threads import Threads


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Serve."""
    with WebServer() as server:
        yield server


def nowhere(host: str, port: int) -> Sequence[str]:
    """Resolve nothing."""
    raise OSError(host)


LOCAL = Downloads(hosts=frozenset({"127.0.0.1"}), plain=True, most=100, resolve=nowhere, pause=0.0)
PUBLIC = replace(LOCAL, hosts=frozenset(), plain=False)


def fetch(downloads: Downloads, url: str) -> bytes:
    """Fetch."""
    return asyncio.run(downloads.fetch(url, 10.0))


def why(downloads: Downloads, url: str) -> str:
    """Return why something isn't fetched."""
    with pytest.raises(NotFetched) as caught:
        fetch(downloads, url)
    return str(caught.value)


def test_a_file_is_fetched_without_anything_of_ours(web: WebServer) -> None:
    """No key, no cookie, no reference to where we come from; a fragment isn't sent."""
    web.answers["/a"] = Give(b"bytes")
    assert fetch(LOCAL, f"{web.url}/a?sig=1#part") == b"bytes"
    (got,) = web.got
    assert got.target == "/a?sig=1"
    assert set(got.headers) == {"host", "accept-encoding", "connection", "user-agent"}


def test_a_file_that_no_thread_was_free_for(web: WebServer) -> None:
    """Whoever gives up waiting learns that the file wasn't fetched: what it belongs to was paid for all the same."""

    async def main() -> None:
        task = asyncio.create_task(replace(LOCAL, threads=Threads(most=0)).fetch(f"{web.url}/a", 10.0))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(NotFetched, match="no thread was free"):
            await task

    asyncio.run(main())
    assert not web.got


def test_too_many_bytes(web: WebServer) -> None:
    """Reading ends at the limit, however long the answer goes on."""
    web.answers |= {"/fits": Give(b"x" * 100), "/more": Give(b"x" * 101), "/lies": Give(b"x" * 200, promised=200)}
    assert len(fetch(LOCAL, f"{web.url}/fits")) == 100
    assert "more than 100 bytes" in why(LOCAL, f"{web.url}/more")
    assert "more than 100 bytes" in why(LOCAL, f"{web.url}/lies")


@pytest.mark.parametrize("status", [403, 404, 410])
def test_an_address_that_has_expired(web: WebServer, status: int) -> None:
    """It is asked once, and the error shows no address: a signed one is a key of its own."""
    web.answers["/gone"] = Give(b"", status)
    said = why(LOCAL, f"{web.url}/gone?signature=secret")
    assert said == f"its address answered {status}"
    assert len(web.got) == 1


def test_what_may_pass_is_tried_again(web: WebServer) -> None:
    """A server that is busy, a connection that ends: three times in all."""
    answers = [Give(b"", 503), Give(drop=True), Give(b"at last")]
    web.answers["/slow"] = lambda got: answers[len(web.got) - 1]
    assert fetch(LOCAL, f"{web.url}/slow") == b"at last"
    web.got.clear()
    web.answers["/never"] = Give(b"", 500)
    assert why(LOCAL, f"{web.url}/never") == "its address answered 500"
    assert len(web.got) == 3


def test_half_a_file_is_none(web: WebServer) -> None:
    """A connection that ends before the promised length."""
    web.answers["/half"] = Give(b"half", promised=90)
    assert "without a whole answer" in why(LOCAL, f"{web.url}/half")


def test_a_redirect_is_not_followed(web: WebServer) -> None:
    """Wherever it leads."""
    web.answers |= {"/a": Give(b"", 302, {"Location": f"{web.url}/b"}), "/b": Give(b"x")}
    assert why(LOCAL, f"{web.url}/a") == "its address answered 302"
    assert [got.target for got in web.got] == ["/a"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://127.0.0.1/x", "this machine itself"),
        ("https://[::1]/x", "this machine itself"),
        ("https://10.0.0.8/x", "private network"),
        ("https://169.254.169.254/latest/meta-data", "metadata|link-local"),
        ("https://[::ffff:127.0.0.1]/x", "this machine|isn't in use|private"),
        ("https://2130706433/x", "can't be resolved|URL can't be used"),
        ("https://0x7f.1/x", "can't be resolved|URL can't be used"),
        ("https://intern.example/x", "can't be resolved"),
        ("http://93.184.216.34/x", "anybody on the way"),
        ("https://user:pw@93.184.216.34/x", "login"),
        ("ftp://93.184.216.34/x", "has to begin with"),
        ("file:///etc/passwd", "has to begin with"),
        ("javascript:alert(1)", "has to begin with"),
        ("https://a b/x", "blank"),
        ("https://a/" + "x" * 5000, "longer than"),
        ("", "has to begin with"),
    ],
)
def test_where_a_public_services_files_cannot_lie(web: WebServer, url: str, says: str) -> None:
    """The address is a provider's word: it opens no way into this machine, its network, or its cloud's credentials."""
    import re

    assert re.search(says, why(PUBLIC, url))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "100.64.0.1"])
def test_a_public_name_with_a_private_address(address: str) -> None:
    """What a name leads to is judged, not the name."""
    rebinding = replace(PUBLIC, resolve=lambda host, port: ["93.184.216.34", address])
    assert address in why(rebinding, "https://files.example/x")


def test_a_private_service_opens_its_own_host_only(web: WebServer) -> None:
    """What was named, and nothing else of the network."""
    assert "private network" in why(LOCAL, "http://10.0.0.8/x")


def test_bytes_in_the_address_itself() -> None:
    """`data:` needs no request."""
    assert fetch(PUBLIC, "data:image/png;base64," + base64.b64encode(b"hello").decode()) == b"hello"
    assert fetch(PUBLIC, "data:text/plain,he%6cl%6f") == b"hello"
    assert "can't be read" in why(PUBLIC, "data:nothing")
    assert "more than 100 bytes" in why(PUBLIC, "data:image/png;base64," + "A" * 10_000)


def test_base64() -> None:
    """Exactly that, of a bounded size."""
    assert decoded(base64.b64encode(b"x" * 100).decode(), 100) == b"x" * 100
    for text, says in (("$$$$", "no base64"), ("AAA", "no base64"), ("ä", "no base64"), ("A" * 1000, "more than")):
        with pytest.raises(NotFetched, match=says):
            decoded(text, 100)


def test_a_fetch_that_is_given_up_ends_its_connection(web: WebServer) -> None:
    """No thread waits for a server for ever."""
    import threading

    held = threading.Event()
    web.answers["/held"] = Give(b"x", after=held)

    async def give_up() -> None:
        task = asyncio.create_task(LOCAL.fetch(f"{web.url}/held", 30.0))
        await asyncio.to_thread(web.arrived.acquire, timeout=10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    held.set()
