"""A script tries to make `http.request` ask what it may not: another host, this machine, a network behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.webserver import Give, WebServer

from addendum.credentials import Credentials
from addendum.errors import CapabilityError
from addendum.ports import Request
from addendum.providers import addresses, http
from addendum.providers.service import Tools
from addendum.testing.memory_artifacts import MemoryArtifacts

PUBLIC = "93.184.216.34"


def opened(
    hosts: dict[str, Any], resolve: Callable[[str, int], Sequence[str]] | None = None, **spec: Any
) -> http.Service:
    """Open a service over hosts, with names that lead where `resolve` says."""
    tools = Tools(
        secret=Credentials({"key": "env:KEY"}, Path("."), {"KEY": "sk-CANARY"}).get,
        artifacts=MemoryArtifacts(),
        folder=Path("."),
        model=lambda choice: pytest.fail("no model is needed"),
        loop=lambda: pytest.fail("no loop is needed"),
    )
    service = http.open("x", http.Spec(kind="http", hosts=hosts, timeout=10.0, **spec), tools)
    service.resolve = resolve or (lambda host, port: pytest.fail(f"{host} was looked up"))
    return service


def refused(service: http.Service, url: str, **payload: Any) -> CapabilityError:
    """Return the failure that a URL has to be."""
    request = Request(capability="x", payload={"url": url, **payload}, key="k", run="r", identity="i", attempt=1)
    with pytest.raises(CapabilityError) as caught:
        asyncio.run(service.dispatch(request))
    assert "CANARY" not in caught.value.message
    return caught.value


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Serve something that must not be had."""
    with WebServer() as server:
        server.answers |= {"/": Give(b'"secret"'), "/v1/": Give(b'"fine"'), "/v1/x": Give(b'"fine"')}
        yield server


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[0:0:0:0:0:ffff:7f00:1]/",
        "http://localhost/",
        "http://169.254.169.254/latest/meta-data/",
        "https://api.example.com.evil.example/",
        "https://evil-api.example.com/",
        "https://api.example.com@evil.example/",
        "https://api.example.com:443@evil.example/",
        "https://evil.example#@api.example.com/",
        "https://evil.example?@api.example.com/",
        "https://evil.example/https://api.example.com/",
        "https://evil.example\\@api.example.com/",
        "https://api.example.com\\.evil.example/",
        "https:///api.example.com/",
        "https:api.example.com/",
        "https://api.example.com./",
        "https://api.example.com:8443/",
        "https://api.example.com:0/",
        "https://api.example.com:99999/",
        "https://api.example.com:４４３/",
        "https://ａｐｉ.example.com/",
        "https://аpi.example.com/",
        "https://api。example。com/",
        "https://api.example.com%2eevil.example/",
        "https://api.example.com%00.evil.example/",
        "https://api.example.com\t.evil.example/",
        "https://api.example.com\r\nHost: evil.example/",
        "https://api.ex\u00adample.com/",
        "https://[fe80::1%25eth0]/",
        "http://api.example.com/",
        " https://api.example.com/",
        "HTTPS://EVIL.EXAMPLE/",
        "//evil.example/",
        "file:///etc/passwd",
        "gopher://api.example.com/",
        "ftp://api.example.com/",
        "javascript:alert(1)",
        "https://",
    ],
)
def test_no_way_to_write_another_host(url: str) -> None:
    """However a host is written, only the named one is asked: nothing else is even looked up."""
    found = refused(opened({"https://api.example.com": {}}), url)
    assert found.code in ("refused", "invalid_input")
    assert not found.retryable


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../",
        "/v1/%2e%2e/",
        "/v1/%2E%2E/",
        "/v1/.%2e/",
        "/v1/%252e%252e/",
        "/v1/..%2f",
        "/v1/..;/",
        "/v1/..;a=b/",
        "/v1/%2e%2e%2f",
        "/v1/%5c..%5c",
        "/v1/./x",
        "/v1/%25252525252e./",
        "/V1/x",
        "/v1x",
        "//v1/x",
        "/%76%31/../x",
        "/",
        "/v1/x%00",
    ],
)
def test_no_way_out_of_a_prefix(web: WebServer, path: str) -> None:
    """However a path is written, it stays under what was named."""
    refused(opened({web.url: {"paths": ["/v1/"]}}), web.url + path)
    assert not web.got


def test_a_query_is_not_a_second_host(web: WebServer) -> None:
    """What a script puts into query and headers can't end the request line or begin a header."""
    service = opened({web.url: {}})
    for payload in ({"query": {"a": "x HTTP/1.1\r\nHost: evil\r\n\r\n"}}, {"query": {"a&b=c#": "\0"}}):
        request = Request(
            capability="x", payload={"url": web.url, **payload}, key="k", run="r", identity="i", attempt=1
        )
        asyncio.run(service.dispatch(request))
    assert [got.headers["host"] for got in web.got] == [f"127.0.0.1:{web.port}"] * 2
    assert [got.target for got in web.got] == [
        "/?a=x+HTTP%2F1.1%0D%0AHost%3A+evil%0D%0A%0D%0A",
        "/?a%26b%3Dc%23=%00",
    ]


FORBIDDEN = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.0.0.192",
    "100.100.100.200",
    "168.63.129.16",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    "192.0.2.1",
    "::1",
    "::",
    "::7f00:1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "fec0::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "not an address",
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_a_name_that_leads_inside(address: str) -> None:
    """A named host whose name leads to this machine, a private network or a cloud's metadata isn't asked, not even
    when another address of it is a public one."""
    for found in ([address], [PUBLIC, address], [address, PUBLIC]):
        service = opened({"http://api.example.com": {}}, lambda host, port, found=found: found)
        assert refused(service, "http://api.example.com/").code == "refused"


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254", "0.0.0.0"]
)
def test_private_does_not_mean_metadata(address: str) -> None:
    """A host that may be private may still not be a cloud's metadata service."""
    service = opened({"http://inside.example": {"private": True}}, lambda host, port: [address])
    assert refused(service, "http://inside.example/").code == "refused"
    assert addresses.objection(address, private=True)


@pytest.mark.parametrize("address", [PUBLIC, "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"])
def test_what_is_public(address: str) -> None:
    """An address of the internet is no problem."""
    assert addresses.objection(address, private=False) == ""


def test_a_private_name_that_was_meant(web: WebServer) -> None:
    """A host that is said to be private is asked, and so is an address that was named itself."""
    service = opened({f"http://inside.example:{web.port}": {"private": True}}, lambda host, port: ["127.0.0.1"])
    request = Request(
        capability="x", payload={"url": f"http://inside.example:{web.port}"}, key="k", run="r", identity="i", attempt=1
    )
    reply: Any = asyncio.run(service.dispatch(request))
    assert reply.value["json"] == "secret"
    assert web.got[0].headers["host"] == f"inside.example:{web.port}"


def test_a_name_that_changes_its_mind(web: WebServer) -> None:
    """A name is looked up once, and the connection is made to what was judged (DNS rebinding)."""
    seen: list[str] = []

    def rebinding(host: str, port: int) -> list[str]:
        seen.append(host)
        # 192.0.2.1 is judged and refused; whoever asked again would be led to this machine.
        return ["192.0.2.1"] if len(seen) == 1 else ["127.0.0.1"]

    service = opened({f"http://api.example.com:{web.port}": {}}, rebinding)
    assert refused(service, f"http://api.example.com:{web.port}/").code == "refused"
    assert seen == ["api.example.com"]
    assert not web.got


def test_a_redirect_to_a_name_that_leads_inside(web: WebServer) -> None:
    """A redirect to a named host is judged as the first request was."""
    web.answers["/"] = Give(b"", 302, {"Location": "http://api.example.com/"})
    service = opened({web.url: {}, "http://api.example.com": {}}, lambda host, port: ["10.0.0.1"])
    found = refused(service, web.url)
    assert (found.code, "10.0.0.1" in found.message) == ("refused", True)


def test_an_answer_cannot_be_a_bomb(web: WebServer) -> None:
    """Nothing is decompressed, and what is read has an end, whatever length is claimed."""
    web.answers["/"] = Give(b"\x1f\x8b" + b"\0" * 1000, headers={"Content-Encoding": "gzip"})
    assert refused(opened({web.url: {}}, max_response=100), web.url).code == "provider_error"
    web.answers["/"] = Give(b"x" * 1000, promised=10**15)
    assert refused(opened({web.url: {}}, max_response=100), web.url).code == "provider_error"
    web.answers["/"] = Give(b"[" * 200_000)
    request = Request(capability="x", payload={"url": web.url}, key="k", run="r", identity="i", attempt=1)
    reply: Any = asyncio.run(opened({web.url: {}}).dispatch(request))
    assert reply.value["text"] == "[" * 200_000


def test_a_method_cannot_be_smuggled(web: WebServer) -> None:
    """No header that a server may take for another method or URL can be set, even where a person allows many."""
    service = opened({web.url: {}}, headers=["X-Anything"])
    for name in ("X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method", "X-Original-URL", "X-Rewrite-URL"):
        refused(service, web.url, headers={name: "DELETE"})
        with pytest.raises(ValueError, match="can't be allowed"):
            opened({web.url: {}}, headers=[name])
    assert not web.got
