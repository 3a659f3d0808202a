"""`mail.send`: mails by SMTP, to recipients that were named, from one sender.

A mail can't be taken back, so it matters what is known of it (RFC 5321, 4.1.1.4 and 4.5.3.2.6):

- until the final dot is sent, nothing is delivered: every failure is certain, and a passing one may be tried again;
- a server that answers the final dot has the mail, or says that it hasn't;
- no answer to the final dot is an unknown outcome, and the call stays unresolved.

A mail goes to all of its recipients or to none. Its Message-ID is made from the idempotency key, so that a person can
find out what became of it. A script says recipients, subject and text; every other header is the host's.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.errors import MessageError
from email.header import decode_header, make_header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, field_validator, model_validator

from addendum.authority.catalog import Capability
from addendum.canon import Json
from addendum.credentials import Secret, here
from addendum.errors import CapabilityError, UnknownOutcome
from addendum.ports import Reply, Request
from addendum.providers import service
from addendum.providers.service import Tools
from addendum.providers.threads import NoThread, Threads

_LOCAL: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_DOMAIN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
ADDRESS: Final = rf"^{_LOCAL}@{_DOMAIN}$"
ALLOWED: Final = rf"^(?:{_LOCAL})?@{_DOMAIN}$"
LONGEST_ADDRESS: Final = 254
"""Characters (RFC 5321, 4.5.3.1.3)."""
LONGEST_SUBJECT: Final = 500
Security = Literal["starttls", "tls", "none"]


class Spec(service.Spec):
    """Mails by SMTP."""

    kind: Literal["mail"] = Field(description="Which kind of service it is.")
    host: str = Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:-]+$", description="The SMTP server.")
    port: int = Field(default=587, ge=1, le=65535, description="Its port.")
    security: Security = Field(
        default="starttls", description="starttls, tls (from the beginning), or none (on this machine only)."
    )
    user: str = Field(default="", max_length=200, description="The login's name; no login if empty.")
    secret: str = Field(default="", max_length=64, description="The handle of the login's password.")
    sender: str = Field(max_length=LONGEST_ADDRESS, pattern=ADDRESS, description="The sender's address.")
    sender_name: str = Field(
        default="", max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$", description="The sender's name."
    )
    recipients: list[Annotated[str, Field(max_length=LONGEST_ADDRESS, pattern=ALLOWED)]] = Field(
        min_length=1, max_length=1000, description="Who may get mails: addresses, or @domain for all of a domain."
    )
    max_recipients: int = Field(default=10, ge=1, le=100, description="The most recipients of one mail.")
    max_body: int = Field(default=100_000, ge=1, le=1_000_000, description="The most characters of a text.")
    ca: str = Field(default="", description="A file of certificates to trust, instead of the system's.")

    @field_validator("sender_name")
    @classmethod
    def _printable(cls, name: str) -> str:
        if not name.isprintable():
            raise ValueError("it has a letter that can't be printed")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> Spec:
        if self.effect not in (None, "irreversible"):
            raise ValueError("a mail is irreversible")
        if bool(self.user) != bool(self.secret):
            raise ValueError("a login has a user and a secret")
        # Stricter than what holds for every secret: the text of a mail isn't for anybody on the way either.
        if self.security == "none" and not here(self.host):
            raise ValueError("a mail goes to another machine with starttls or tls only")
        return self


def open(name: str, spec: Spec, tools: Tools) -> Service:
    """Open the service. Raises `ConfigError` for a missing secret, and for certificates that can't be read."""
    secret = tools.secret(spec.secret) if spec.secret else None
    return Service(name, spec, secret, service.trusted(spec.ca, tools.folder))


@dataclass(slots=True)
class Service:
    """The service of one specification."""

    name: str
    spec: Spec
    secret: Secret | None
    tls: ssl.SSLContext
    threads: Threads = field(default_factory=Threads)

    @property
    def capabilities(self) -> Sequence[Capability]:
        """The one capability."""
        return [
            service.offer(
                self.name,
                self.spec,
                effect="irreversible",
                input=schema(self.spec),
                output=OUTPUT,
                about="Send a mail to recipients that were named.",
            )
        ]

    async def dispatch(self, request: Request) -> Reply:
        """Send one mail. Raises `CapabilityError` and `UnknownOutcome`."""
        payload = cast("dict[str, Any]", request.payload)
        recipients = self._recipients(payload)
        mail = message(self.spec, payload, request.key)
        password = self.secret.reveal() if self.secret is not None else ""
        sending = Sending(self.spec, recipients, mail.as_bytes(), password, self.tls)
        try:
            async with asyncio.timeout(self.spec.timeout * (1 + service.MARGIN) / 2):
                await self.threads.run(sending.run)
        except NoThread:
            raise CapabilityError("rate_limited", "no thread was free in time; nothing was sent", True) from None
        except (asyncio.CancelledError, TimeoutError) as error:
            dotted = sending.break_off()
            if isinstance(error, asyncio.CancelledError):
                raise
            # The socket's own time limit begins anew with each byte: a server that drips outlives it.
            if dotted:
                raise UnknownOutcome("the mail was sent, and no answer came in time") from None
            raise CapabilityError("provider_error", "no answer in time; nothing was sent", True) from None
        return Reply({"id": str(mail["Message-ID"]), "recipients": list[Json](recipients)})

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """SMTP can't say what became of a mail."""
        return None

    async def close(self) -> None:
        """Nothing is kept open."""

    def _recipients(self, payload: dict[str, Any]) -> list[str]:
        """Return all recipients, once each. Raises `CapabilityError` (`refused`) for one that wasn't named."""
        found = list(dict.fromkeys([*_listed(payload["to"]), *payload.get("cc", []), *payload.get("bcc", [])]))
        allowed = {each.lower() for each in self.spec.recipients}
        for address in found:
            if not re.fullmatch(ADDRESS, address) or len(address) > LONGEST_ADDRESS or "=?" in address:
                raise CapabilityError("invalid_input", f"{address[:100]!r} is no address; nothing was sent")
            domain = address.rpartition("@")[2]
            if not allowed & {address.lower(), f"@{domain.lower()}"}:
                raise CapabilityError("refused", f"{address} isn't a recipient that was named; nothing was sent")
        if len(found) > self.spec.max_recipients:
            raise CapabilityError("refused", f"a mail has {self.spec.max_recipients} recipients at most")
        return found


def message(spec: Spec, payload: dict[str, Any], key: str) -> EmailMessage:
    """Return the mail. Raises `CapabilityError` (`invalid_input`) for what can't stand in a header."""
    subject: str = payload["subject"]
    if not subject.isprintable() or not _decoded(subject).isprintable():
        raise CapabilityError("invalid_input", "the subject has a line break or a control letter; nothing was sent")
    found = EmailMessage(policy=SMTP)
    user, _, domain = spec.sender.rpartition("@")
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    try:
        found["From"] = Address(spec.sender_name, user, domain)
        found["To"] = _listed(payload["to"])
        if payload.get("cc"):
            found["Cc"] = payload["cc"]
        found["Subject"] = subject
        found["Date"] = formatdate(usegmt=True)
        found["Message-ID"] = f"<{digest}@{domain}>"
        found["Auto-Submitted"] = "auto-generated"  # RFC 3834: so that no holiday notice answers
        found.set_content(payload["body"], cte="quoted-printable")
        if "html" in payload:
            found.add_alternative(payload["html"], subtype="html", cte="quoted-printable")
        data = found.as_bytes()
    except (ValueError, IndexError, MessageError) as error:
        raise CapabilityError("invalid_input", f"the mail can't be written ({type(error).__name__})") from None
    head = data.partition(b"\r\n\r\n")[0].decode("utf-8", "replace").split("\r\n")
    if [line.partition(":")[0] for line in head if not line.startswith((" ", "\t"))] != found.keys():
        # A header's text may be encoded (RFC 2047), and some versions of the library write out the line break in it.
        raise CapabilityError("invalid_input", "a header of the mail has a line break in it; nothing was sent")
    if re.search(rb"\r(?!\n)|(?<!\r)\n", data):
        # What ends a line for one server and not for the next lets a mail hide a second one (SMTP smuggling).
        raise CapabilityError("invalid_input", "the mail has a line break that isn't one; nothing was sent")
    return found


def _decoded(text: str) -> str:
    """Return what a reader makes of a header's text (RFC 2047): it may be text that the header itself can't have."""
    try:
        return str(make_header(decode_header(text)))
    except (MessageError, ValueError, LookupError):
        return text


class Sending:
    """Sends one mail. It blocks, and is meant for a thread; another thread may break it off."""

    def __init__(self, spec: Spec, recipients: Sequence[str], data: bytes, password: str, tls: ssl.SSLContext) -> None:
        self._spec = spec
        self._recipients = recipients
        self._data = data
        self._password = password
        self._tls = tls
        self._deadline = time.monotonic() + spec.timeout * service.MARGIN
        self._lock = threading.Lock()
        self._given_up = False
        self._dotted = False
        self._smtp: smtplib.SMTP | None = None

    def run(self) -> None:
        """Send it. Raises `CapabilityError` when it is certain that nothing was sent, else `UnknownOutcome`."""
        try:
            smtp = self._connected()
            try:
                self._envelope(smtp)
                self._message(smtp)
            finally:
                smtp.close()
        except (smtplib.SMTPException, OSError, ValueError) as error:
            if self._dotted:
                raise UnknownOutcome(f"the mail was sent, and no answer came ({_short(error)})") from None
            raise _failure(error, f"{self._spec.host}:{self._spec.port}") from None

    def break_off(self) -> bool:
        """End it from another thread, and return whether the final dot was sent; it isn't any more if it wasn't yet."""
        with self._lock:
            self._given_up = True
            dotted = self._dotted
            wire = self._smtp.sock if self._smtp is not None else None
        if wire is not None:
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it ended meanwhile
        return dotted

    def _connected(self) -> smtplib.SMTP:
        spec, domain = self._spec, self._spec.sender.rpartition("@")[2]
        if spec.security == "tls":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                spec.host, spec.port, local_hostname=domain, timeout=self._left(), context=self._tls
            )
        else:
            smtp = smtplib.SMTP(spec.host, spec.port, local_hostname=domain, timeout=self._left())
        with self._lock:
            self._smtp = smtp
        try:
            self._ready(smtp)
            if spec.security == "starttls":
                smtp.starttls(context=self._tls)
            if spec.user:
                self._ready(smtp)
                smtp.login(spec.user, self._password)
            smtp.ehlo_or_helo_if_needed()
        except BaseException:
            smtp.close()
            raise
        return smtp

    def _envelope(self, smtp: smtplib.SMTP) -> None:
        """Name sender and recipients; a single one that is refused ends it."""
        for command, address in (("mail", self._spec.sender), *(("rcpt", each) for each in self._recipients)):
            self._ready(smtp)
            code, said = smtp.mail(address) if command == "mail" else smtp.rcpt(address)
            if code not in (250, 251):
                raise smtplib.SMTPResponseException(code, said)

    def _message(self, smtp: smtplib.SMTP) -> None:
        self._ready(smtp)
        code, said = smtp.docmd("data")
        if code != 354:
            raise smtplib.SMTPResponseException(code, said)
        self._ready(smtp)
        smtp.send(re.sub(rb"(?m)^\.", b"..", self._data))
        with self._lock:
            if self._given_up:
                raise OSError("it was given up")
            self._ready(smtp)
            self._dotted = True
        smtp.send(b".\r\n" if self._data.endswith(b"\r\n") else b"\r\n.\r\n")
        code, said = smtp.getreply()
        if code != 250:
            self._dotted = code == -1  # -1: no answer that can be read
            raise smtplib.SMTPResponseException(code, said)

    def _ready(self, smtp: smtplib.SMTP) -> None:
        if smtp.sock is not None:
            smtp.sock.settimeout(self._left())

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("out of time")
        return left


def _failure(error: Exception, server: str) -> CapabilityError:
    """Return the failure of a mail that wasn't sent."""
    match error:
        case smtplib.SMTPAuthenticationError():
            return CapabilityError("refused", f"the login was refused ({_short(error)}); nothing was sent")
        case smtplib.SMTPNotSupportedError():
            return CapabilityError("provider_error", f"the server can't do it ({error}); nothing was sent")
        case smtplib.SMTPResponseException() if error.smtp_code >= 500:
            return CapabilityError("refused", f"the server refused it ({_short(error)}); nothing was sent")
        case smtplib.SMTPResponseException():
            return CapabilityError("provider_error", f"not now ({_short(error)}); nothing was sent", True)
        case ssl.SSLCertVerificationError():
            return CapabilityError("refused", f"its certificate isn't valid ({error.verify_message}); nothing was sent")
        case _:
            return CapabilityError("provider_error", f"{server}: {_short(error)}; nothing was sent", True)


def _short(error: BaseException) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        said = error.smtp_error if isinstance(error.smtp_error, bytes) else str(error.smtp_error).encode()
        return f"{error.smtp_code} {said.decode('utf-8', 'replace')}"
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__


# --- payload and result -----------------------------------------------------------------------------------------

OUTPUT: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "maxLength": 320},
        "recipients": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": LONGEST_ADDRESS}},
    },
    "required": ["id", "recipients"],
    "additionalProperties": False,
}


def schema(spec: Spec) -> dict[str, Json]:
    """Return the schema of a payload."""
    address: dict[str, Json] = {"type": "string", "maxLength": LONGEST_ADDRESS}
    several: dict[str, Json] = {"type": "array", "items": address, "maxItems": spec.max_recipients}
    return {
        "type": "object",
        "properties": {
            "to": {"anyOf": [address, {**several, "minItems": 1}]},
            "cc": several,
            "bcc": several,
            "subject": {"type": "string", "minLength": 1, "maxLength": LONGEST_SUBJECT},
            "body": {"type": "string", "maxLength": spec.max_body},
            "html": {"type": "string", "maxLength": spec.max_body},
        },
        "required": ["to", "subject", "body"],
        "additionalProperties": False,
    }


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
