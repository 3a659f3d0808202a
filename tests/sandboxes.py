"""The backends that the tests try, and what becomes of a test whose backend isn't here.

It is skipped with the reason, since a user's machine may lack it; or it fails, if `ADDENDUM_TEST_REQUIRE` names the
backend (CI does: it has installed them all).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import pytest

from addendum.errors import SandboxError
from addendum.ports import Limits
from addendum.sandbox.acceptance import Subject, descendants
from addendum.sandbox.bwrap import BwrapSandbox
from addendum.sandbox.container import ContainerSandbox
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.sandbox.engine import Engine, Program
from addendum.testing.driving import by_hand, drive
from addendum.testing.process_sandbox import ProcessSandbox

CONFINED = ("embedded", "bwrap", "docker", "podman")
"""What confines a script."""
CONTAINERS: dict[str, Program] = {"docker": "docker", "podman": "podman"}
OPEN: dict[str, Callable[[int], Subject]] = {
    "embedded": lambda spares: EmbeddedSandbox(),
    "bwrap": lambda spares: BwrapSandbox(spares=spares),
    "docker": lambda spares: ContainerSandbox("docker", spares=spares),
    "podman": lambda spares: ContainerSandbox("podman", spares=spares),
    "process": lambda spares: ProcessSandbox(spares=spares),
}
NOTHING = by_hand("async def orchestrate(ctx, args):\n    return None\n")


@lru_cache(maxsize=8)
def lacking(name: str) -> str:
    """Return why a backend isn't here, "" if it is. Asked once per process."""
    sandbox = OPEN[name](0)
    try:
        drive(sandbox, NOTHING, limits=Limits())
    except SandboxError as error:
        return str(error)
    finally:
        sandbox.close()
    return ""


def need(name: str) -> None:
    """Skip the test, or fail it, if a backend isn't here."""
    why = lacking(name)
    if why and name in os.environ.get("ADDENDUM_TEST_REQUIRE", "").split():
        pytest.fail(f"{name} has to be here: {why}")
    if why:
        pytest.skip(f"{name} isn't here: {why}")


@contextmanager
def backend(name: str, *, spares: int = 1) -> Iterator[Subject]:
    """Open a backend that is here, and see that nothing of it is left when it was closed."""
    need(name)
    before = set(descendants(os.getpid()))
    sandbox = OPEN[name](spares)
    try:
        yield sandbox
    finally:
        sandbox.close()
    assert not containers(name, os.getpid())
    assert set(descendants(os.getpid())) <= before


def containers(name: str, pid: int) -> list[str]:
    """Return the containers that a process started and that are there, in any state."""
    if name not in CONTAINERS:
        return []
    engine = Engine.find(CONTAINERS[name])
    listed = engine.ask("ps", "--all", "--no-trunc", "--format", "{{.ID}}", "--filter", f"label={engine.label(pid)}")
    return listed.decode().split()
