"""`http.request`: requests to named hosts, with named methods, and nowhere else.

A script says method, URL, query, a few headers and a body. The host adds the headers that hold secrets, each for one
origin only, and an idempotency key. What a script can't do, whatever it writes:

- reach an origin, path or method that isn't named, directly or by a redirect;
- reach a private, loopback, link-local or metadata address that isn't named;
- set a header that says who asks, where to, or how the connection is used;
- see a secret header, or have one sent anywhere else than to its origin.

A 2xx answer is the result; other statuses are failures, unless `answers` names them. A redirect that isn't followed
after something was sent that has effects is a result too: nobody knows that nothing was done.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import urlencode, urljoin, urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from addendum import canon, media
from addendum.authority.catalog import Capability
from addendum.canon import Json
from addendum.credentials import Secret
from addendum.errors import CapabilityError, NotJson, StoreError, UnknownOutcome
from addendum.ports import Artifacts, Reply, Request
from addendum.providers import addresses, faults, service, urls
from addendum.providers.addresses import Resolve
from addendum.providers.exchange import Came, Exchange, Sent
from addendum.providers.service import Tools
from addendum.providers.threads import NoThread, Threads
from addendum.providers.urls import Origin, Target
from addendum.records.entries import SIDE_EFFECTING, Effect

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
SAFE: Final = ("GET", "HEAD")
IDEMPOTENT: Final = ("GET", "HEAD", "PUT", "DELETE")
"""RFC 9110, 9.2.2."""
HANDLE: Final = re.compile(r"\{([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\}")
TOKEN: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"
"""A header's name (RFC 9110, 5.6.2)."""
VALUE: Final = r"^[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?$"
USUAL: Final = ("accept", "accept-language", "content-type", "if-match", "if-none-match", "prefer")
"""Headers that a script may set, unless the specification says otherwise."""
SHOWN: Final = ("content-type", "etag", "last-modified", "link", "location", "retry-after")
"""Headers of an answer that a script sees, unless the specification says otherwise."""
FORBIDDEN: Final = re.compile(
    r"(?i)(host|connection|keep-alive|content-length|content-encoding|transfer-encoding|te|trailer|upgrade|expect|via"
    r"|accept-encoding|cookie2?|set-cookie|authorization|forwarded|idempotency-key|date|origin|referer|http2-settings"
    r"|x-(http-)?method(-override)?|x-(original|rewrite)-url|x-(real|client|forwarded).*|proxy-.*|sec-.*|true-client-ip"
    r"|cf-connecting-ip)"
)
REDIRECTS: Final = (301, 302, 303, 307, 308)
KEPT: Final = frozenset({"accept", "accept-language", "content-type"})
"""Headers of a script that go with a redirect to another origin."""
INLINE: Final = 1024 * 1024
"""Bytes of text or JSON that stand in a result; more of it becomes an artifact."""
LETTER: Final = 6
"""The most bytes of a letter as JSON."""
ENVELOPE: Final = 256 * 1024
"""The most bytes of a payload or a result beside the body."""


class Basic(BaseModel):
    """A login (RFC 7617)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    user: str = Field(min_length=1, max_length=200, pattern=r"^[\x20-\x39\x3b-\x7e]+$", description="Its user.")
    secret: str = Field(min_length=1, max_length=64, description="The handle of its password.")


class Host(BaseModel):
    """What is allowed at one origin."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    paths: list[Annotated[str, Field(pattern=r"^/[\x21-\x7e]*$")]] = Field(
        default=[], max_length=100, description="Path prefixes; every path without any."
    )
    private: bool = Field(default=False, description="Whether its name may lead to this machine or a private network.")
    headers: dict[Annotated[str, Field(pattern=TOKEN)], Annotated[str, Field(pattern=VALUE, max_length=4096)]] = Field(
        default={}, max_length=20, description="Headers that the host adds; `{handle}` stands for a secret."
    )
    basic: Basic | None = Field(default=None, description="A login that the host adds.")

    def handles(self) -> list[str]:
        """Return the handles of the secrets that it names."""
        found = [handle for value in self.headers.values() for handle in HANDLE.findall(value)]
        return [*found, self.basic.secret] if self.basic else found


class Spec(service.Spec):
    """Requests to named hosts."""

    kind: Literal["http"] = Field(description="Which kind of service it is.")
    hosts: dict[str, Host] = Field(
        min_length=1, max_length=100, description="What may be asked, by origin, as in https://api.example.com."
    )
    methods: list[Method] = Field(default=["GET"], min_length=1, description="The methods that a script may use.")
    headers: list[Annotated[str, Field(pattern=TOKEN)]] = Field(
        default=list(USUAL), max_length=50, description="The headers that a script may set."
    )
    shown: list[Annotated[str, Field(pattern=TOKEN)]] = Field(
        default=list(SHOWN), max_length=50, description="The headers of an answer that a script sees."
    )
    answers: list[Annotated[int, Field(ge=300, le=599)]] = Field(
        default=[], max_length=50, description="Statuses beyond 2xx that are results, not failures."
    )
    redirects: int = Field(default=3, ge=0, le=10, description="How many redirects are followed, within the hosts.")
    max_request: int = Field(default=1024 * 1024, ge=0, le=16 * 1024 * 1024, description="Bytes of a body sent.")
    max_response: int = Field(
        default=4 * 1024 * 1024, ge=1, le=256 * 1024 * 1024, description="Bytes of an answer that are read."
    )
    idempotency: bool = Field(default=False, description="Whether the hosts honour an idempotency key.")
    idempotency_header: str = Field(default="Idempotency-Key", pattern=TOKEN, description="The header that holds it.")
    ca: str = Field(default="", description="A file of certificates to trust, instead of the system's.")

    @field_validator("hosts")
    @classmethod
    def _origins(cls, hosts: dict[str, Host]) -> dict[str, Host]:
        found = [str(origin(text)) for text in hosts]
        if len(set(found)) != len(found):
            raise ValueError("an origin stands twice")
        return hosts

    @model_validator(mode="after")
    def _consistent(self) -> Spec:
        allowed = {"read": SAFE, "idempotent": IDEMPOTENT}.get(self.effects)
        wrong = [method for method in self.methods if allowed is not None and method not in allowed]
        if wrong:
            raise ValueError(f"the effect {self.effects} doesn't allow {wrong[0]}")
        for name in self.headers:
            if FORBIDDEN.fullmatch(name) or name.lower() == self.idempotency_header.lower():
                raise ValueError(f"a script can't be allowed to set {name}")
        for host in self.hosts.values():
            for name in host.headers:
                if name.lower() in (each.lower() for each in self.headers):
                    raise ValueError(f"{name} is set by the host, so a script can't be allowed to set it")
                if name.lower() in ("host", "connection", "content-length", "transfer-encoding", "accept-encoding"):
                    raise ValueError(f"{name} belongs to the connection")
            if host.basic and any(name.lower() == "authorization" for name in host.headers):
                raise ValueError("a host has a login and an Authorization header")
        return self

    @property
    def effects(self) -> Effect:
        """The effect class of the whole service."""
        return self.effect or ("read" if set(self.methods) <= set(SAFE) else "side_effect")

    def handles(self) -> tuple[str, ...]:
        """Return the handles of secrets that it names."""
        return tuple(handle for host in self.hosts.values() for handle in host.handles())

    def sends(self) -> tuple[tuple[str, str], ...]:
        """Return the origins that are sent secrets: each has its own."""
        return tuple(("hosts", str(origin(text))) for text, host in self.hosts.items() if host.handles())


def origin(text: str) -> Origin:
    """Read an origin that a person named; letters beyond ASCII are written as they are resolved (IDNA). Raises
    `ValueError`, which shows the text only where no login or key can be in it."""
    shown = "what stands there" if re.search(r"[@?#]", text) else repr(text)
    parts = urlsplit(text)
    if parts.scheme not in urls.PORTS or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"{shown} is no origin: write it as in https://api.example.com")
    try:
        netloc = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode("ascii")
        return Origin(parts.scheme, *urls.authority(netloc, urls.PORTS[parts.scheme]))
    except (CapabilityError, UnicodeError):
        raise ValueError(f"{shown} is no origin: write it as in https://api.example.com") from None


def open(name: str, spec: Spec, tools: Tools) -> Service:
    """Open the service. Raises `ConfigError`: for a secret that isn't there, for certificates that can't be read."""
    hosts = {
        origin(text): Allowed(
            paths=tuple(host.paths),
            private=host.private,
            headers=tuple((key, _template(value, tools)) for key, value in host.headers.items()),
            basic=(host.basic.user, tools.secret(host.basic.secret)) if host.basic else None,
        )
        for text, host in spec.hosts.items()
    }
    return Service(name, spec, hosts, tools.artifacts, service.trusted(spec.ca, tools.folder), tools.backoff)


def _template(value: str, tools: Tools) -> tuple[str | Secret, ...]:
    """Return a header's value as texts and secrets."""
    parts = HANDLE.split(value)
    return tuple(tools.secret(part) if n % 2 else part for n, part in enumerate(parts) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What is allowed at one origin, and what the host adds there."""

    paths: tuple[str, ...]
    private: bool
    headers: tuple[tuple[str, tuple[str | Secret, ...]], ...]
    basic: tuple[str, Secret] | None

    def added(self) -> list[tuple[str, str]]:
        """Return the headers with their secrets. Raises `CapabilityError` for one that no header can hold."""
        found = [
            (name, "".join(part if isinstance(part, str) else part.reveal() for part in parts))
            for name, parts in self.headers
        ]
        if self.basic is not None:
            user, secret = self.basic
            login = base64.b64encode(f"{user}:{secret.reveal()}".encode()).decode("ascii")
            found.append(("Authorization", f"Basic {login}"))
        for name, value in found:
            if not re.fullmatch(VALUE, value):
                raise CapabilityError("provider_error", f"the secret in {name} has a letter that no header can hold")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a script asked for, read."""

    method: str
    target: Target
    headers: Mapping[str, str]
    body: bytes | None


@dataclass(slots=True)
class Service:
    """The service of one specification. `backoff` is the pause before a request is sent again with the same key, in
    seconds; `resolve` finds a name's addresses."""

    name: str
    spec: Spec
    hosts: Mapping[Origin, Allowed]
    artifacts: Artifacts
    tls: ssl.SSLContext
    backoff: float = 0.5
    resolve: Resolve = addresses.system
    threads: Threads = field(default_factory=Threads)

    @property
    def capabilities(self) -> Sequence[Capability]:
        """The one capability."""
        spec = self.spec
        return [
            service.offer(
                self.name,
                spec,
                effect=spec.effects,
                input=schema(spec),
                output=OUTPUT,
                about="Send an HTTP request to " + ", ".join(str(each) for each in list(self.hosts)[:3]) + ".",
                provider_key=spec.idempotency,
                open_world=True,
                max_payload=spec.max_request + ENVELOPE,
                max_result=LETTER * INLINE + ENVELOPE,
            )
        ]

    async def dispatch(self, request: Request) -> Reply:
        """Send one request, and what it is redirected to. Raises `CapabilityError` and `UnknownOutcome`."""
        asked = read(cast("dict[str, Any]", request.payload), self.spec)
        tries = 1 + (min(self.spec.retries, service.RESENT) if self.spec.idempotency else 0)
        seconds = self.spec.timeout * service.MARGIN / tries
        return await faults.resent(lambda: self._sent(asked, request.key, seconds), most=tries - 1, pause=self.backoff)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Nobody can say what became of a request."""
        return None

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _sent(self, asked: Asked, key: str, seconds: float) -> Reply:
        deadline = time.monotonic() + seconds
        effects = self._effects(asked.method)
        for left in range(self.spec.redirects, -1, -1):
            came = await self._exchange(asked, key, deadline)
            if came.status in REDIRECTS and "location" in came.headers and came.status not in self.spec.answers:
                onward = self._onward(asked, came, left)
                if isinstance(onward, Asked):
                    asked = onward
                    continue
                if not effects or came.status in (307, 308):
                    raise CapabilityError("refused", onward)
                return Reply(await self._result(asked, came, effects))
            break
        if 200 <= came.status < 300 or came.status in self.spec.answers:
            return Reply(await self._result(asked, came, effects))
        text = came.body[: faults.LOOKED_AT].decode("utf-8", "replace")
        raise faults.refusal(
            faults.Answer(status=came.status, headers=came.headers, text=text),
            side_effecting=effects,
            keyed=self.spec.idempotency,
        )

    def _effects(self, method: str) -> bool:
        """Whether a method has effects here: a safe one hasn't, unless all are safe and the service is said to have."""
        declared = self.spec.effects in SIDE_EFFECTING
        return declared and (method not in SAFE or set(self.spec.methods) <= set(SAFE))

    async def _exchange(self, asked: Asked, key: str, deadline: float) -> Came:
        target = asked.target
        allowed = self.hosts.get(target.origin)
        if allowed is None:
            raise CapabilityError("refused", f"{target.origin} isn't one of {self._named()}; nothing was sent")
        if not urls.within(target.path, allowed.paths):
            raise CapabilityError("refused", f"only {', '.join(allowed.paths)} may be asked of {target.origin}")
        headers = [*asked.headers.items(), *allowed.added()]
        if self.spec.idempotency:
            headers.append((self.spec.idempotency_header, key))
        if "user-agent" not in (name.lower() for name, _ in headers):
            headers.append(("User-Agent", "addendum"))

        def work() -> Came:
            found = addresses.judged(
                target.origin.host, target.origin.port, private=allowed.private, resolve=self.resolve
            )
            sent = Sent(method=asked.method, target=target, addresses=found, headers=headers, body=asked.body)
            exchange = Exchange(sent, deadline=deadline, most=self.spec.max_response, tls=self.tls)
            running.append(exchange)
            if given_up.is_set():
                raise CapabilityError("timeout", "nothing was sent in time", True)
            return exchange.run()

        running: list[Exchange] = []
        given_up = threading.Event()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                return cast("Came", await self.threads.run(work))
        except NoThread:
            raise CapabilityError("rate_limited", "no thread was free in time; nothing was sent", True) from None
        except (asyncio.CancelledError, TimeoutError) as error:
            given_up.set()
            for exchange in running:
                exchange.break_off()
            if isinstance(error, asyncio.CancelledError):
                raise
            # The socket's own time limit begins anew with each byte: a server that drips outlives it.
            if self._effects(asked.method) and any(exchange.asked for exchange in running):
                raise UnknownOutcome("no answer in time") from None
            raise CapabilityError("timeout", "no answer in time", True) from None
        except UnknownOutcome as lost:
            if self._effects(asked.method):
                raise
            raise CapabilityError("timeout", str(lost), True) from None

    def _onward(self, asked: Asked, came: Came, left: int) -> Asked | str:
        """Return the request that a redirect leads to, or why it isn't followed."""
        if not left:
            return f"it was redirected more than {self.spec.redirects} times"
        try:
            target = urls.read(urljoin(str(asked.target), came.headers["location"]).partition("#")[0])
        except (CapabilityError, ValueError):
            return "it was redirected to what is no URL"
        there = self.hosts.get(target.origin)
        if there is None or not urls.within(target.path, there.paths):
            return f"it was redirected to {target.origin}, out of what was named"
        if asked.target.origin.scheme == "https" and target.origin.scheme == "http":
            return f"it was redirected to {target.origin}, without TLS"
        if asked.method not in SAFE and came.status not in (307, 308):
            # It may be done: a failure of what is asked then would be taken for the whole request's.
            return f"a {asked.method} was answered with a redirect ({came.status})"
        headers = dict(asked.headers)
        if target.origin != asked.target.origin:
            headers = {name: value for name, value in headers.items() if name in KEPT}
        return replace(asked, target=target, headers=headers)

    async def _result(self, asked: Asked, came: Came, effects: bool) -> dict[str, Json]:
        """Return an answer as a result. An answer that is too large, or can't be kept, is a failure, but for a request
        with effects, which has had them: that one's body is left out."""
        shown = {name.lower() for name in self.spec.shown}
        found: dict[str, Json] = {
            "status": came.status,
            "url": str(asked.target),
            "headers": {name: _printable(value) for name, value in sorted(came.headers.items()) if name in shown},
        }
        if came.cut:
            if not effects:
                limit = f"{self.spec.max_response:,}"
                raise CapabilityError("provider_error", f"the answer of {asked.target.origin} is over {limit} bytes")
            return {**found, "cut": True}
        if not came.body:
            return found
        text = _text(came)
        if text is not None and len(came.body) <= INLINE:
            value = _json(came, text)
            return {**found, "text": text} if value is None else {**found, "json": value}
        kind = media.kind(came.body)
        try:
            kept = await self.threads.run(lambda: self.artifacts.put(came.body, kind))
        except (StoreError, NoThread) as error:
            if effects:
                return {**found, "cut": True}
            why = str(error) or "no thread was free for it"
            raise CapabilityError("provider_error", f"the answer can't be kept: {why}") from None
        return {**found, **kept}

    def _named(self) -> str:
        return ", ".join(str(each) for each in self.hosts)


# --- payload and result -----------------------------------------------------------------------------------------

OUTPUT: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "status": {"type": "integer", "minimum": 200, "maximum": 599},
        "url": {"type": "string", "maxLength": 12 * urls.LONGEST},
        "headers": {
            "type": "object",
            "maxProperties": 50,
            "additionalProperties": {"type": "string", "maxLength": 4096},
        },
        "json": {},
        "text": {"type": "string", "maxLength": INLINE},
        "artifact": {"type": "string", "maxLength": 71},
        "media_type": {"type": "string", "maxLength": 100},
        "bytes": {"type": "integer", "minimum": 0},
        "cut": {"const": True},
    },
    "required": ["status", "url", "headers"],
    "additionalProperties": False,
}


def schema(spec: Spec) -> dict[str, Json]:
    """Return the schema of a payload."""
    scalar: dict[str, Json] = {"type": ["string", "number", "boolean"], "maxLength": urls.LONGEST}
    return {
        "type": "object",
        "properties": {
            "method": {"enum": list(spec.methods)},
            "url": {"type": "string", "minLength": 8, "maxLength": urls.LONGEST},
            "query": {
                "type": "object",
                "maxProperties": 100,
                "propertyNames": {"maxLength": 200},
                "additionalProperties": {"anyOf": [scalar, {"type": "array", "items": scalar, "maxItems": 100}]},
            },
            "headers": {
                "type": "object",
                "maxProperties": 20,
                "propertyNames": {"maxLength": 100},
                "additionalProperties": {"type": "string", "maxLength": 2000},
            },
            "json": {},
            "text": {"type": "string", "maxLength": spec.max_request},
        },
        "required": ["url"] if spec.methods[0] in SAFE else ["method", "url"],
        "additionalProperties": False,
        "not": {"required": ["json", "text"]},
    }


def read(payload: Mapping[str, Any], spec: Spec) -> Asked:
    """Read a payload that fits its schema. Raises `CapabilityError` (`invalid_input`)."""
    method = payload.get("method", spec.methods[0])
    headers: dict[str, str] = {}
    allowed = {name.lower() for name in spec.headers}
    for name, value in payload.get("headers", {}).items():
        if name.lower() not in allowed:
            raise CapabilityError("invalid_input", f"the header {name!r} can't be set; {', '.join(spec.headers)} can")
        if name.lower() in headers or not re.fullmatch(VALUE, value):
            raise CapabilityError("invalid_input", f"the header {name!r} stands twice, or has a letter it can't have")
        headers[name.lower()] = value
    body: bytes | None = None
    if "json" in payload:
        body = canon.canonical(payload["json"])
        headers.setdefault("content-type", "application/json")
    elif "text" in payload:
        body = payload["text"].encode("utf-8")
        headers.setdefault("content-type", "text/plain; charset=utf-8")
    elif method not in SAFE:
        body = b""
    if body and method in SAFE:
        raise CapabilityError("invalid_input", f"a {method} has no body")
    if body is not None and len(body) > spec.max_request:
        raise CapabilityError("invalid_input", f"the body has {len(body):,} bytes; {spec.max_request:,} are allowed")
    pairs = [(key, each) for key, value in payload.get("query", {}).items() for each in _listed(value)]
    target = urls.read(payload["url"].partition("#")[0], urlencode([(key, _scalar(each)) for key, each in pairs]))
    return Asked(method=method, target=target, headers=headers, body=body if method not in SAFE else None)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text(came: Came) -> str | None:
    """Return a body as text, None if it is none. It has to say that it is text, so that no image is taken for one."""
    kind, _, rest = came.headers.get("content-type", "").lower().partition(";")
    if came.headers.get("content-encoding", "identity").lower() != "identity":
        return None
    if not re.fullmatch(r"text/.*|application/(.*\+)?(json|xml|yaml|javascript|x-www-form-urlencoded)", kind.strip()):
        return None
    found = re.search(r"charset=\"?([a-z0-9_-]{1,40})", rest)
    charset = found[1] if found else "utf-8"
    if charset not in ("utf-8", "utf8", "us-ascii", "iso-8859-1", "latin-1", "windows-1252"):
        return None
    try:
        return came.body.decode(charset)
    except UnicodeDecodeError:
        return None


def _json(came: Came, text: str) -> Json:
    """Return a body's JSON value, None if it is none that a result can hold (it is a text then)."""
    if not came.headers.get("content-type", "").lower().partition(";")[0].strip().endswith("json"):
        return None
    try:
        value = canon.parse(text)
        canon.canonical(value)
    except NotJson:
        return None
    return value


def _printable(value: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in value)[:4096]
