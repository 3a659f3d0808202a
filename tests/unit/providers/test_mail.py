"""`mail.send` against a real SMTP server: what arrives, what is refused, and what nobody knows."""

from __future__ import annotations

import asyncio
import email
import email.policy
import socket
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError
from tests.certificates import certificate
from tests.mailserver import MailServer

from addendum.credentials import Credentials
from addendum.errors import CapabilityError, ConfigError, UnknownOutcome
from addendum.ports import Reply, Request
from addendum.providers import mail
from addendum.providers.service import Tools
from addendum.testing.memory_artifacts import MemoryArtifacts

PASSWORD = "CANARY-7f3a"
MAIL = {"to": "ada@example.com", "subject": "Hello", "body": "text"}


def tools(folder: Path = Path(".")) -> Tools:
    """Return what a service is given."""
    return Tools(
        secret=Credentials({"smtp": "env:SMTP"}, folder, {"SMTP": PASSWORD}).later,
        artifacts=MemoryArtifacts(),
        folder=folder,
        model=lambda choice: pytest.fail("no model is needed"),
        loop=lambda: pytest.fail("no loop is needed"),
    )


def opened(server: MailServer | None = None, folder: Path = Path("."), **spec: Any) -> mail.Service:
    """Open a service for a server."""
    more: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": server.port if server else 25,
        "security": "none",
        "sender": "robot@example.com",
        "recipients": ["ada@example.com", "@example.org"],
        "timeout": 20.0,
        **spec,
    }
    return mail.open("mail.send", mail.Spec(kind="mail", **more), tools(folder))


def request(payload: dict[str, Any], key: str = "key-1") -> Request:
    """Return a dispatch."""
    return Request(capability="mail.send", payload=payload, key=key, run="r", identity="i", attempt=1)


def ask(service: mail.Service, **payload: Any) -> Any:
    """Send a mail and return the result, which fits the schema."""
    (capability,) = service.capabilities
    given = {**MAIL, **payload}
    jsonschema.validate(given, dict(capability.input))
    reply = asyncio.run(service.dispatch(request(given)))
    assert isinstance(reply, Reply)
    jsonschema.validate(reply.value, dict(capability.output))
    return reply.value


def failure(service: mail.Service, **payload: Any) -> CapabilityError:
    """Return the failure of a mail: a certain one, which says so."""
    with pytest.raises(CapabilityError) as caught:
        ask(service, **payload)
    return caught.value


def test_a_mail() -> None:
    """A mail arrives as it was said, with an id that is made from the key."""
    with MailServer() as server:
        service = opened(server, sender_name="Røbot, a machine")
        body = "line\n.\n..dots\n" + "long " * 400 + "\nä\u2028end\r\nlast\rone"
        found = ask(
            service, subject="Grüße, Ada", body=body, html="<p>ä</p>", cc=["b@example.org"], bcc=["c@example.org"]
        )
        (sent,) = server.mails
        assert found["recipients"] == ["ada@example.com", "b@example.org", "c@example.org"] == list(sent.recipients)
        assert sent.sender == "robot@example.com"
        read = email.message_from_bytes(sent.data, policy=email.policy.SMTP)
        assert read["subject"] == "Grüße, Ada"
        assert (read["from"], read["to"], read["cc"]) == (
            '"Røbot, a machine" <robot@example.com>',
            "ada@example.com",
            "b@example.org",
        )
        assert read["message-id"] == found["id"]
        assert read["bcc"] is None
        assert b"c@example.org" not in sent.data
        text = read.get_body(("plain",))
        assert text is not None
        assert text.get_content().splitlines()[:3] == ["line", ".", "..dots"]
        assert "ä" in text.get_content()
        assert ask(service)["id"] == found["id"]
        assert asyncio.run(service.dispatch(request(MAIL, "key-2"))).value["id"] != found["id"]  # type: ignore[index]


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_tls_and_login(tmp_path: Path, security: str) -> None:
    """A login is sent under TLS only, to a server whose certificate is trusted."""
    ca, context = certificate(tmp_path)
    with MailServer(tls=context, implicit=security == "tls", login=("me", PASSWORD)) as server:
        login = {"user": "me", "secret": "smtp", "security": security}
        found = failure(opened(server, **login))
        assert (found.code, server.logins) == ("refused", [])
        assert "certificate" in found.message
        service = opened(server, tmp_path, ca=ca.name, **login)
        ask(service)
        assert (len(server.mails), server.logins) == (1, [("me", PASSWORD)])
        assert PASSWORD not in repr(service)
        assert failure(opened(server, tmp_path, ca=ca.name, **{**login, "user": "you"})).code == "refused"
        other, _ = certificate(tmp_path, "other.example")
        assert failure(opened(server, tmp_path, ca=other.name, **login)).code == "refused"


def test_no_tls_where_it_is_asked_for() -> None:
    """A server without STARTTLS gets nothing."""
    with MailServer() as server:
        assert "STARTTLS" in failure(opened(server, security="starttls")).message
        assert not server.mails


# --- what is certain, and what isn't ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "answer", "code", "retryable"),
    [
        ("MAIL", "550 no", "refused", False),
        ("RCPT ada@example.com", "550 no such user", "refused", False),
        ("RCPT ada@example.com", "451 try later", "provider_error", True),
        ("DATA", "554 spam", "refused", False),
        ("DATA", "452 no room", "provider_error", True),
    ],
)
def test_refused_by_the_server(command: str, answer: str, code: str, retryable: bool) -> None:
    """A mail that the server refuses, before or after its text, is certainly not sent."""
    with MailServer() as server:
        server.answers[command] = answer
        found = failure(opened(server))
        assert (found.code, found.retryable) == (code, retryable)
        assert answer in found.message


def test_all_recipients_or_none() -> None:
    """One recipient that is refused ends it for all."""
    with MailServer() as server:
        server.answers["RCPT b@example.org"] = "550 no such user"
        assert failure(opened(server), cc=["b@example.org"]).code == "refused"
        assert not server.mails


def test_nobody_listens() -> None:
    """Where nobody listens, nothing was sent."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        found = failure(opened(port=port))
    assert (found.code, found.retryable) == ("provider_error", True)
    assert f"127.0.0.1:{port}: ConnectionRefusedError" in found.message


@pytest.mark.parametrize("command", ["MAIL", "RCPT ada@example.com"])
def test_dropped_before_the_text(command: str) -> None:
    """A connection that ends before the final dot is a certain failure, which may be tried again."""
    with MailServer() as server:
        server.drop = command
        found = failure(opened(server))
        assert (found.code, found.retryable, server.mails) == ("provider_error", True, [])


def test_dropped_after_the_dot() -> None:
    """A connection that ends instead of the answer to the final dot leaves it unknown."""
    with MailServer() as server:
        server.drop = "DATA"
        with pytest.raises(UnknownOutcome, match="no answer"):
            ask(opened(server))


@pytest.mark.slow
def test_no_answer_in_time() -> None:
    """No answer to the final dot in time is unknown; none to an earlier command is a certain failure."""
    never = threading.Event()
    with MailServer() as server:
        server.wait = never
        with pytest.raises(UnknownOutcome):
            ask(opened(server, timeout=2.0))  # enough to come to the final dot, on a busy machine too
        never.set()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        found = failure(opened(port=silent.getsockname()[1], timeout=0.2))
    assert (found.code, found.retryable) == ("provider_error", True)


def test_a_server_that_drips() -> None:
    """A greeting that comes byte by byte has no more time than any other: nothing was sent."""
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            try:
                while not over.wait(0.02):
                    connection.sendall(b"2")
            except OSError:
                return

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=drip, args=(listening,), daemon=True)
        thread.start()
        found = failure(opened(port=listening.getsockname()[1], timeout=0.4))
        over.set()
        thread.join()
    assert (found.code, found.retryable) == ("provider_error", True)


def test_given_up() -> None:
    """A call that is cancelled lets go of its connection."""
    never = threading.Event()
    with MailServer() as server:
        server.wait = never
        service = opened(server)

        async def main() -> None:
            task = asyncio.create_task(service.dispatch(request(MAIL)))
            await asyncio.to_thread(server.arrived.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        with service.threads._changed:
            assert service.threads._changed.wait_for(lambda: service.threads._idle == service.threads._count, 10)
        never.set()


# --- what a script may say --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "eve@evil.example",
        "ada@example.com.evil.example",
        "ada@sub.example.org",
        "example.org@evil.example",
        "ada+x@example.com",
    ],
)
def test_recipients_that_were_not_named(address: str) -> None:
    """A recipient who wasn't named is refused, wherever it stands, before anything is sent."""
    with MailServer() as server:
        for place in ({"to": address}, {"to": ["ada@example.com", address]}, {"cc": [address]}, {"bcc": [address]}):
            assert failure(opened(server), **place).code == "refused"
        assert not server.mails
        assert ask(opened(server), to="ADA@Example.COM")["recipients"] == ["ADA@Example.COM"]


@pytest.mark.parametrize(
    "address",
    [
        "ada@example.com\r\nBcc: eve@evil.example",
        "ada@example.com, eve@evil.example",
        "<ada@example.com>",
        "Ada <ada@example.com>",
        "ada@example.com>\r\nRCPT TO:<eve@evil.example",
        "ada @example.com",
        '"a@evil.example"@example.com',
        "ädä@example.com",
        "ada@exämple.com",
        "@example.org",
        "a@example.org SIZE=1",
        "ada@example.com\0",
        "",
        "x" * 250 + "@example.org",
        "=?utf-8?q?=0D=0ABcc=3Ax?=@example.org",
        "=?utf-8?q?eve=40evil.example=2C?=@example.org",
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    """What isn't exactly an address is refused."""
    with MailServer() as server:
        given = {**MAIL, "to": [address]}
        with pytest.raises(CapabilityError):
            asyncio.run(opened(server).dispatch(request(given)))
        assert not server.mails


@pytest.mark.parametrize(
    "subject",
    [
        *("a\r\nBcc: eve@evil.example", "a\nb", "a\rb", "a\0b", "a\u2028b", "a\x0bb", "a\x85b", "\udc80"),
        "=?utf-8?q?=0D=0ABcc:eve@evil.example?=",
        "=?utf-8?b?DQpCY2M6IGV2ZUBldmlsLmV4YW1wbGU=?=",
        "a =?utf-8?q?=0D=0A?= =?utf-8?q?Bcc:eve@evil.example?=",
        "=?utf-8?q?=0D=0A=0D=0Aanother text?=",
        "=?us-ascii?q?=0ABcc:eve@evil.example?=",
    ],
)
def test_subjects_that_are_headers(subject: str) -> None:
    """A subject is one line of printable letters."""
    with MailServer() as server:
        assert failure(opened(server), subject=subject).code == "invalid_input"
        assert not server.mails


@pytest.mark.parametrize(
    "body",
    [
        "a\r\n.\r\nMAIL FROM:<x@example.org>\r\nRCPT TO:<eve@evil.example>\r\nDATA\r\nsmuggled\r\n.\r\n",
        "a\n.\nMAIL FROM:<x@example.org>\n",
        "a\r.\rQUIT\r",
        "a\n.\r\nb",
        "\r\n.\r\n",
        ".",
        "\n\n--boundary\nContent-Type: text/html\n\nx",
    ],
)
def test_a_body_is_one_mail(body: str) -> None:
    """Whatever a text has in it, it arrives as one mail, and as text."""
    with MailServer() as server:
        ask(opened(server), body=body)
        (sent,) = server.mails
        assert sent.recipients == ("ada@example.com",)
        read = email.message_from_bytes(sent.data, policy=email.policy.SMTP)
        assert not read.is_multipart()
        assert read.get_content_type() == "text/plain"
        assert read.get_content().split() == body.split()


def test_too_many() -> None:
    """More recipients than are allowed are refused, over all three places together."""
    with MailServer() as server:
        several = [f"a{n}@example.org" for n in range(3)]
        assert failure(opened(server, max_recipients=4), to=several, cc=["b@example.org", "c@example.org"]).code == (
            "refused"
        )
        assert not server.mails


# --- specifications ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"effect": "paid"}, "irreversible"),
        ({"user": "me"}, "a user and a secret"),
        ({"host": "mail.example.com"}, "starttls or tls only"),
        ({"host": "a b"}, "pattern"),
        ({"sender": "Robot <robot@example.com>"}, "pattern"),
        ({"sender_name": "a\nb"}, "pattern|printed"),
        ({"sender_name": "a\u2028b"}, "printed"),
        ({"recipients": []}, "at least 1"),
        ({"recipients": ["*"]}, "pattern"),
        ({"recipients": ["example.com"]}, "pattern"),
    ],
)
def test_specifications_that_cannot_be(spec: dict[str, Any], why: str) -> None:
    """A specification that contradicts itself is refused when it is read."""
    with pytest.raises(ValidationError, match=why):
        opened(**spec)


def test_what_it_is(tmp_path: Path) -> None:
    """It is irreversible and can't be looked up; certificates that can't be read are an error."""
    service = opened()
    (capability,) = service.capabilities
    assert (capability.effect, capability.lookup) == ("irreversible", False)
    assert asyncio.run(service.lookup("mail.send", "k")) is None
    asyncio.run(service.close())
    with pytest.raises(ConfigError, match="certificates"):
        opened(None, tmp_path, ca="none.pem")
