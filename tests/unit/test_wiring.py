"""The composition root: parts by name, and an error with a way out for every other name."""

from __future__ import annotations

from pathlib import Path

import pytest

from addendum.config import Settings
from addendum.errors import ConfigError, StoreUnavailable
from addendum.telemetry.watch import Watchers
from addendum.wiring import Parts, open_author, open_provider, open_sandbox, open_store

CAPABILITIES = """
from addendum import App

app = App(store="memory:")
other = object()


@app.capability("hello.say", effect="read", price_usd="0.001")
def say(name: str) -> dict:
    return {"text": "hello " + name}
"""


def test_an_app_of_a_module_in_this_folder_is_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`module:app` brings what the App has registered, with its catalog."""
    (tmp_path / "own_capabilities.py").write_text(CAPABILITIES, "utf-8")
    monkeypatch.chdir(tmp_path)

    _, catalog = open_provider("own_capabilities:app")

    assert catalog["hello.say"].price == 1_000_000


@pytest.mark.parametrize("name", ["nothing", "no_such_module:app", "json:dumps_all", "json:dumps"])
def test_any_other_provider_is_an_error_that_names_it(name: str) -> None:
    """No name is taken for another, and what is no App isn't taken for one."""
    with pytest.raises(ConfigError, match=name.partition(":")[0]):
        open_provider(name)


def test_an_author_without_its_key_is_an_error_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is made for a request, and attempts that can't be asked for, are no help to anybody."""
    file = tmp_path / "services.toml"
    file.write_text(
        '[secret]\nlocal = "env:NO_SUCH_KEY"\n[author]\nmodel = "openai:gpt-5-mini"\nsecret = "local"\n', "utf-8"
    )
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
        open_author(Settings(provider=str(file)))
    monkeypatch.setenv("NO_SUCH_KEY", "sk-0123456789")
    model, _ = open_author(Settings(provider=str(file)))
    assert model.name == "openai:gpt-5-mini"


def test_unknown_backends_are_errors() -> None:
    """Nothing falls back to something else."""
    with pytest.raises(ConfigError):
        open_sandbox("chroot")
    with pytest.raises(ConfigError):
        open_store("mysql://somewhere")


def test_parts_are_closed_whatever_becomes_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that can't be closed leaves no store open, and no service."""
    ended: list[str] = []
    parts = Parts(str(tmp_path / "store.db"), "monty", lambda own: Watchers(()), lambda: ended.append("services"))
    store, sandbox, _ = parts.opened()
    monkeypatch.setattr(type(sandbox), "close", lambda self: pytest.fail("it hangs"))
    with pytest.raises(pytest.fail.Exception, match="it hangs"):
        parts.close()
    assert ended == ["services"]
    with pytest.raises(StoreUnavailable):
        store.runs()
