"""Puts the rig within reach of the tests here, and keeps one sandbox for all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.memory_store import MemoryStore


@pytest.fixture(scope="session")
def sandbox() -> Iterator[EmbeddedSandbox]:
    found = EmbeddedSandbox()
    yield found
    found.close()


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    found = MemoryStore()
    yield found
    found.close()
