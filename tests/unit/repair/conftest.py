"""One sandbox for all tests of the repair loop, and a fresh world for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.repairing import World

from addendum.ports import Sandbox
from addendum.sandbox.embedded import EmbeddedSandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    found = EmbeddedSandbox()
    yield found
    found.close()


@pytest.fixture
def world(sandbox: Sandbox) -> World:
    return World(sandbox)
