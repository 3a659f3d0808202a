"""The App's methods of the loop: blocking and awaited, with a model or its name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.repairing import CHANGED, FILM, MENDED, answer, model

from addendum import App, ConfigError, UsageError
from addendum.ports import Sandbox
from addendum.testing import DEMO_CATALOG, DemoProvider, Fault, MemoryStore

ARGS = {"brief": "the sea"}


@pytest.fixture
def app(sandbox: Sandbox) -> Iterator[App]:
    provider = DemoProvider(faults=[Fault("image.generate", "invalid_input", "no", dispatch=3)])
    with App(store=MemoryStore(), sandbox=sandbox, provider=provider, catalog=DEMO_CATALOG, backoff=0.0) as app:
        yield app


def test_a_failed_run_is_mended_and_applied(app: App) -> None:
    """Nothing is executed without `apply`; the candidate waits."""
    app.run(FILM, ARGS, run="r", request="A film")

    outcome = app.repair("r", model(CHANGED, MENDED))
    applied = app.repair("r", model(), apply=True)

    assert (outcome.status, len(outcome.attempts), outcome.cost_usd) == ("accepted", 2, "0.006")
    assert applied.applied is not None
    assert (applied.status, applied.applied.status) == ("applied", "completed")
    assert app.brief("r").request == "A film"


def test_a_script_is_written_and_run(app: App) -> None:
    """By a model's name, too: here a file stands in for one."""
    outcome = app.author("A film", model(FILM), args=ARGS, run="a")
    assert (outcome.status, outcome.revision) == ("accepted", 1)
    assert app.resume("a").status == "failed"
    again = app.author("A film", model(FILM), args=ARGS, run="b", grant={"limits": [{"meter": "calls", "max": 9}]})
    assert again.status == "accepted"
    assert app.show("b").summary.status == "created"


def test_a_model_has_a_name(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`scripted:FILE` answers from a file; nobody is an error that says what to write."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answers.json").write_text(json.dumps([answer(MENDED)]), "utf-8")
    app.run(FILM, ARGS, run="r")

    assert app.repair("r", "scripted:answers.json").status == "accepted"
    with pytest.raises(ConfigError, match="Nobody is named"):
        app.repair("r")
    with pytest.raises(ConfigError, match="names no model"):
        app.repair("r", "gpt")
    with pytest.raises(UsageError):
        app.repair("r", model(MENDED), max_attempts=99)


def test_all_of_it_can_be_awaited(app: App) -> None:
    """On the caller's loop."""

    async def main() -> tuple[str, str]:
        await app.aio.run(FILM, ARGS, run="r")
        mended = await app.aio.repair("r", model(MENDED), apply=True)
        written = await app.aio.author("A film", model(FILM), args=ARGS)
        return mended.status, written.status

    assert asyncio.run(main()) == ("applied", "accepted")
