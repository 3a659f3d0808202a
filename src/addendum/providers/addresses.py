"""Which addresses a request may go to: names are resolved once, every address is judged, and the connection is made to
a judged one.

So a name that answers differently the second time (DNS rebinding) gains nothing. An address that holds another one
(IPv4-mapped, 6to4, Teredo, NAT64) is judged by what it holds.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from addendum.errors import CapabilityError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a name, as text. Raises `OSError`."""
_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_SHARED: Final = ipaddress.ip_network("100.64.0.0/10")
_METADATA: Final = frozenset({"100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"})
"""Where clouds tell a machine its credentials, beside 169.254.0.0/16, which is link-local."""


def literal(host: str) -> Address | None:
    """Return the address that a host is written as in the usual form, None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def system(host: str, port: int) -> list[str]:
    """Resolve a name as the system does."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


def judged(host: str, port: int, *, private: bool, resolve: Resolve) -> list[str]:
    """Return the addresses of a host that was named, all of them allowed.

    A host that is written as an address was named with it, so it is allowed whatever it is. `private` allows a name to
    lead to this machine and to private networks; nothing but its address allows a link-local or metadata service.
    Raises `CapabilityError` (`refused`; `provider_error`, retryable, for a name that isn't found).
    """
    if literal(host) is not None:
        return [host]
    try:
        found = resolve(host, port)
    except (OSError, UnicodeError):
        raise CapabilityError("provider_error", f"the name {host} can't be resolved; nothing was sent", True) from None
    if not found:
        raise CapabilityError("provider_error", f"the name {host} has no address; nothing was sent", True)
    for text in found:
        why = objection(text, private=private)
        if why:
            raise CapabilityError("refused", f"the name {host} leads to {text}, {why}; nothing was sent")
    return list(found)


def objection(text: str, *, private: bool) -> str:
    """Return why an address isn't allowed, "" if it is."""
    address = literal(text.partition("%")[0])
    if address is None:
        return "which is no address"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    for each in (mapped or address, *_held(address)):  # a mapped address is IPv4, written otherwise
        why = _objection(each, private)
        if why:
            return why
    return ""


def _objection(address: Address, private: bool) -> str:
    if str(address) in _METADATA:
        return "a cloud's metadata service"
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast:
        return "a multicast address"
    if address.is_unspecified:
        return "no address of a host"
    if address.is_loopback:
        return "" if private else "this machine itself"
    if address.is_private or address in _SHARED or (address.version == 6 and address.is_site_local):
        return "" if private else "an address of a private network"
    if address.is_reserved or not address.is_global:
        return "an address that isn't in use on the internet"
    return ""


def _held(address: Address) -> list[Address]:
    """Return the addresses that an address holds."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    found: list[Address | None] = [address.sixtofour, *(address.teredo or ())]
    number = int(address)
    if any(address in network for network in _NAT64) or (number >> 32 == 0 and number > 1):
        found.append(ipaddress.IPv4Address(number & 0xFFFFFFFF))
    return [each for each in found if each is not None]
