"""A workshop for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workshop import Workshop, workshop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    """A fresh site with its operator's policy."""
    with workshop(tmp_path) as found:
        yield found
