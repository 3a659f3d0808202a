"""What watches a run, as settings and options say."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addendum import App, wiring
from addendum.authority.catalog import Catalog
from addendum.cli.main import main
from addendum.config import Settings, load
from addendum.errors import ConfigError

CANARY = "canary-91d0"
SCRIPT = f"""
async def orchestrate(ctx, args):
    ctx.log("{CANARY}")
    return await ctx.run("image.generate", {{"prompt": "{CANARY}"}})
"""
OTEL = [
    name for name in ("opentelemetry.trace", "opentelemetry.sdk.trace") if importlib.util.find_spec("opentelemetry")
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a script."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    return tmp_path


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry isn't installed."""
    found = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name.startswith("opentelemetry") else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What the process's SDK exports."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    yield memory
    provider.shutdown()


def everything(exported: Any) -> str:
    """All that was exported, as text."""
    return "".join(span.to_json() for span in exported.get_finished_spans())


@pytest.mark.usefixtures("missing")
def test_without_opentelemetry_a_run_is_a_run(folder: Path) -> None:
    """Nothing of it is needed."""
    assert main(["run", "script.py", "--json"]) == 0
    with App(store=folder / "app.db", provider="demo") as app:
        assert app.run(SCRIPT).status == "completed"


@pytest.mark.usefixtures("missing", "folder")
@pytest.mark.parametrize("telemetry", ["on", "content"])
def test_asking_for_what_is_not_installed_names_the_extra(
    telemetry: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a run begins."""
    monkeypatch.setenv("ADDENDUM_TELEMETRY", telemetry)
    assert main(["run", "script.py"]) == 2
    assert "addendum[telemetry]" in " ".join(capsys.readouterr().err.split())


def test_a_command_makes_spans_without_content(folder: Path, exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ids; payloads, results and logged texts only when they are asked for."""
    assert main(["run", "script.py", "--id", "r1", "--json"]) == 0
    names = [span.name for span in exported.get_finished_spans()]
    assert names == ["execute_tool image.generate", "invoke_workflow"]
    assert '"addendum.run": "r1"' in everything(exported)
    assert CANARY not in everything(exported)
    assert [path.name for path in (folder / ".addendum" / "traces").iterdir()]
    monkeypatch.setenv("ADDENDUM_TELEMETRY", "content")
    assert main(["run", "script.py", "--id", "r2", "--json"]) == 0
    assert CANARY in everything(exported)


def test_a_model_that_writes_a_script_is_seen(folder: Path, exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a chat of the run that the script is for; what was asked and answered only when it is asked for."""
    answer = {"script": SCRIPT, "moves": [], "drops": [], "reason": CANARY, "cost_usd": "0.02", "tokens": 500}
    (folder / "answers.json").write_text(json.dumps([answer]), "utf-8")
    command = ["author", f"An image of a {CANARY}", "--model", "scripted:answers.json", "--json"]
    assert main([*command, "--id", "r1"]) == 0
    chat = next(span for span in exported.get_finished_spans() if span.name == "chat answers.json")
    found = dict(chat.attributes)
    assert found["addendum.run"] == "r1"
    assert (found["addendum.purpose"], found["addendum.verdict"]) == ("author", "accepted")
    assert (found["addendum.cost_nano_usd"], found["addendum.tokens"]) == (20_000_000, 500)
    assert CANARY not in everything(exported)
    monkeypatch.setenv("ADDENDUM_TELEMETRY", "content")
    assert main([*command, "--id", "r2"]) == 0
    asked = [span for span in exported.get_finished_spans() if span.name == "chat answers.json"][1]
    assert CANARY in str(asked.attributes["gen_ai.input.messages"])
    assert CANARY in str(asked.attributes["gen_ai.output.messages"])


def test_off_is_off(folder: Path, exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the process has set up."""
    monkeypatch.setenv("ADDENDUM_TELEMETRY", "off")
    assert main(["run", "script.py", "--json"]) == 0
    assert exported.get_finished_spans() == ()


def test_an_app_makes_spans_too(folder: Path, exported: Any) -> None:
    """They are all there when it is closed, also by its own store."""
    with App(store=folder / "app.db", provider="demo") as app:
        app.run(SCRIPT)
    assert "invoke_workflow" in everything(exported)


def test_commands_link_one_drive_to_the_next(folder: Path, exported: Any) -> None:
    """Each is a process of its own; here only as far as the memory of telemetry goes."""
    assert main(["run", "script.py", "--id", "r1", "--json"]) == 0
    assert main(["resume", "r1", "--json"]) == 0
    roots = [span for span in exported.get_finished_spans() if span.name == "invoke_workflow"]
    assert [link.context.span_id for link in roots[1].links] == [roots[0].context.span_id]


def test_a_log_has_a_line_for_each_event(folder: Path) -> None:
    """By the option; by the setting for the App and every command."""
    assert main(["run", "script.py", "--log", "log.jsonl", "--json"]) == 0
    (folder / "addendum.toml").write_text('log = "log.jsonl"\nlog_level = "warning"\n', "utf-8")
    with App(store=folder / "app.db", provider="demo") as app:
        app.run("async def orchestrate(ctx, args):\n    raise ValueError('x')\n")
    text = (folder / "log.jsonl").read_text("utf-8")
    told = [json.loads(line)["event"] for line in text.splitlines()]
    assert told == ["began", "log", "dispatched", "settled", "ended", "ended"]
    assert CANARY not in text


def test_a_log_that_cannot_be_written_stops_before_a_run_begins(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run without the log that was asked for is none that was asked for."""
    assert main(["run", "script.py", "--log", "no/such/log"]) == 2
    assert "can't be written" in capsys.readouterr().err
    assert main(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_settings_have_their_values_and_no_others(folder: Path) -> None:
    """A wrong one is found when settings are read."""
    assert load(folder, {"ADDENDUM_LOG_LEVEL": "debug", "ADDENDUM_TELEMETRY": "off"}).log_level == "debug"
    with pytest.raises(ConfigError, match="telemetry"):
        load(folder, {"ADDENDUM_TELEMETRY": "always"})


def test_nothing_is_watched_where_nothing_asks_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread, no import of OpenTelemetry."""
    for name in OTEL:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert not wiring.open_watchers(Settings(), lambda: Catalog(()))
    assert "opentelemetry.trace" not in sys.modules
