"""What holds for every test: Hypothesis's profiles, and no network beyond this machine."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A failure prints a blob that reproduces it; a slow example is no failure, since the machine may be a small one.
# CI takes the same examples each time: a red build is then about the change. `thorough` is for a night.
settings.register_profile("dev", max_examples=30, deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("dev"), max_examples=60, derandomize=True, database=None)
settings.register_profile("thorough", parent=settings.get_profile("dev"), max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_report_header() -> str:
    """Say which profile is in force, so that a report is enough to run the same again."""
    return f"hypothesis profile: {settings.get_current_profile_name()}"


# --- no network ---------------------------------------------------------------------------------------------------


class NetworkForbidden(RuntimeError):
    """A test tried to reach another machine."""


_attempts: list[str] = []


def _beyond_this_machine(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str) or host in ("", "localhost"):
        return False
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return True  # a name: looking it up is already a request to another machine
    return not (address.is_loopback or address.is_unspecified)


def _no_network(event: str, args: tuple[object, ...]) -> None:
    """Refuse to connect to, send to or look up another machine. An audit hook sees what every library does."""
    if not event.startswith("socket."):
        return
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        if not isinstance(address, tuple):
            return  # a Unix socket, or a socket that is connected already
        host = address[0]
    else:
        return
    if _beyond_this_machine(host):
        _attempts.append(f"{event} {host!r}")
        raise NetworkForbidden(f"{event} {host!r}: tests stay on this machine")


sys.addaudithook(_no_network)


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    """Fail a test that tried to reach another machine, even if the code under test swallowed the error."""
    _attempts.clear()
    yield
    attempts = list(_attempts)
    _attempts.clear()
    assert not attempts, f"tests stay on this machine, but this one tried {attempts}"
