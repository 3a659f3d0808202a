"""Journals of earlier versions are read, verified and replayed by this one."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from addendum.authority.grant import everything
from addendum.clock import SystemClock
from addendum.ports import Sandbox, Store
from addendum.records.certificate import certificate
from addendum.runs.context import Context
from addendum.runs.start import resume
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore
from addendum.testing import MemoryStore
from addendum.testing.demo import CATALOG, DemoProvider

HERE = Path(__file__).parent
HISTORIES = sorted((HERE / "histories").glob("*.json"))


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("histories", HERE / "histories.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["histories"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    found = EmbeddedSandbox()
    yield found
    found.close()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    found: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    yield found
    found.close()


def test_there_are_histories() -> None:
    """An empty folder would prove nothing."""
    assert len(HISTORIES) >= 9


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_an_old_journal_is_verified_and_replayed(path: Path, store: Store, sandbox: Sandbox) -> None:
    """The same chain, no difference, and a resume that ends as it did then and pays for nothing."""
    history: dict[str, Any] = json.loads(path.read_text("utf-8"))
    provider = DemoProvider()
    context = Context(
        store=store, sandbox=sandbox, provider=provider, catalog=CATALOG, clock=SystemClock(), grant=everything(CATALOG)
    )

    chains = _module().read(history, store)

    assert chains == [entry["chain"] for entry in history["entries"]]
    assert certificate(store.entries("kept"), store.blob).differences == []
    result = resume(context, "kept")
    assert (result.status, result.result) == (history["last"], history["result"])
    assert result.dispatched == 0
    assert provider.count == {}
