"""URLs that a script wrote: read strictly, and held against the hosts that were named.

A host is compared as it is written, after lower-casing, so that every other way to write an address (a decimal, octal
or hexadecimal number, a login before it, a dot after it, letters that look alike) is simply not a named host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from addendum.errors import CapabilityError
from addendum.providers.addresses import literal

LONGEST: Final = 4096
"""Characters of a URL."""
PORTS: Final[Mapping[str, int]] = {"https": 443, "http": 80}
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?")
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\<>\"^`{|}]")
_PATH: Final = "/:@!$&'()*+,;=~%-._"
_QUERY: Final = _PATH + "?"


@dataclass(frozen=True, slots=True)
class Origin:
    """A scheme, a host (lower case; an IPv6 address without brackets) and a port."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """What stands in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: an origin, a path that begins with a slash, and a query with its question mark or ""."""

    origin: Origin
    path: str
    query: str = ""

    def __str__(self) -> str:
        return f"{self.origin}{self.path}{self.query}"


def read(url: str, query: str = "") -> Target:
    """Read a URL; `query` is added to its own. Raises `CapabilityError` (`invalid_input`) that says what is wrong."""
    if len(url) + len(query) > LONGEST:
        raise _invalid(f"it is longer than {LONGEST} characters")
    if _UNSAFE.search(url):
        raise _invalid("it has a blank, a backslash or another letter that a URL can't have")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _invalid("it can't be read") from None
    if parts.scheme.lower() not in PORTS:
        raise _invalid("it has to begin with https:// or http://")
    origin = Origin(parts.scheme.lower(), *authority(parts.netloc, PORTS[parts.scheme.lower()]))
    asked = "&".join(part for part in (parts.query, query) if part)
    path = quote(parts.path or "/", safe=_PATH)
    _plain(path)
    return Target(origin, path, f"?{quote(asked, safe=_QUERY)}" if asked else "")


def authority(text: str, usual: int) -> tuple[str, int]:
    """Read a host with an optional port. Raises `CapabilityError` (`invalid_input`)."""
    if "@" in text:
        raise _invalid("it has a login before its host")
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise _invalid("its host isn't written in ASCII letters, digits and dots (xn--… for other letters)")
    host = found["host"].lower()
    if host.startswith("["):
        address = literal(host[1:-1])
        if address is None:
            raise _invalid("its host is no address")
        host = str(address)
    port = int(found["port"] or usual)
    if not 0 < port < 65536:
        raise _invalid("its port is none")
    return host, port


def within(path: str, prefixes: Sequence[str]) -> bool:
    """Whether a path lies under one of the prefixes (`/v1` and `/v1/` mean the same); any path without prefixes."""
    return not prefixes or any(
        path == prefix.rstrip("/") or path.startswith(prefix.rstrip("/") + "/") for prefix in prefixes
    )


def _plain(path: str) -> None:
    """Refuse a path that a server may take for another one: `..` in any spelling."""
    text = path
    for _ in range(4):
        for segment in re.split(r"[/\\]", text):
            if segment.partition(";")[0].strip() in (".", ".."):
                raise _invalid("its path has a . or .. in it")
        if "\\" in text or any(ord(letter) < 32 for letter in text):
            raise _invalid("its path has a backslash or a control letter in it")
        decoded = unquote(text)
        if decoded == text:
            return
        text = decoded
    raise _invalid("its path is encoded several times")


def _invalid(why: str) -> CapabilityError:
    return CapabilityError("invalid_input", f"the URL can't be used: {why}")
