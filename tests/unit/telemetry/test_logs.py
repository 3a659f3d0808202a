"""Events as lines of a log."""

from __future__ import annotations

import io
import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from addendum.errors import ConfigError
from addendum.telemetry import logs
from addendum.telemetry.watch import Noted

BEGAN = {"event": "began", "run": "r", "drive": 1, "revision": 2, "how": "resume"}
SETTLED = {"event": "settled", "run": "r", "identity": "f/a#0", "capability": "a", "seq": 3, "cost": 5, "tokens": 0}
SECRET = "sk-canary-0123"
SECRETS = (SECRET, "sk-another-4567")


def written(path: Path, level: str, *events: dict[str, Any], redact: Any = str) -> list[dict[str, Any]]:
    """Return the lines that events make in a file."""
    close = logs.opened(str(path), level, redact)
    try:
        lines = logs.Lines()
        for at, event in enumerate(events):
            lines.take(Noted(event, 1_700_000_000_000_000_000 + at * 1_000_000))
        lines.end()
    finally:
        close()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_an_event_is_a_line_with_its_ids(tmp_path: Path) -> None:
    """The revision is that of the drive."""
    first, second = written(tmp_path / "log", "info", BEGAN, {**SETTLED, "ok": True, "failure": None})
    assert first == {
        "at": "2023-11-14T22:13:20.000Z",
        "level": "info",
        "logger": "addendum.run",
        "event": "began",
        "run": "r",
        "drive": 1,
        "revision": 2,
        "how": "resume",
    }
    assert (second["at"], second["revision"], second["identity"]) == ("2023-11-14T22:13:20.001Z", 2, "f/a#0")


def test_a_line_has_no_content(tmp_path: Path) -> None:
    """Keys that nobody named are left out: payloads, texts, and what may come."""
    event = {**SETTLED, "ok": False, "failure": {"code": "refused", "message": "canary"}, "payload": "canary"}
    (line,) = written(tmp_path / "log", "info", {**event, "text": "canary", "message": "canary", "new": "canary"})
    assert "canary" not in json.dumps(line)
    assert (line["code"], line["level"]) == ("refused", "warning")


def test_levels_choose(tmp_path: Path) -> None:
    """Replays are for those who debug; what nobody knows is an error."""
    replayed = {"event": "replayed", "run": "r", "identity": "f/a#0", "capability": "a", "seq": 1, "ok": True}
    unresolved = {"event": "unresolved", "run": "r", "identity": "f/a#0", "capability": "a", "message": "m"}
    ended = {"event": "ended", "run": "r", "drive": 1, "status": "stopped", "stop": "unresolved", "error": None}
    events = (BEGAN, replayed, unresolved, ended)
    assert [line["event"] for line in written(tmp_path / "1", "debug", *events)] == [str(e["event"]) for e in events]
    assert [line["level"] for line in written(tmp_path / "2", "warning", *events)] == ["error", "warning"]
    assert [line["event"] for line in written(tmp_path / "3", "error", *events)] == ["unresolved"]


def test_secrets_are_taken_out_of_the_whole_line(tmp_path: Path) -> None:
    """Wherever they got in."""
    event = {**BEGAN, "run": f"run-{SECRET}"}
    (line,) = written(tmp_path / "log", "info", event, redact=lambda text: text.replace(SECRET, "[secret s]"))
    assert line["run"] == "run-[secret s]"


def test_a_file_is_appended_to_and_is_its_owners(tmp_path: Path) -> None:
    """Mode 600."""
    path = tmp_path / "log"
    written(path, "info", BEGAN)
    assert len(written(path, "info", BEGAN)) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_found_at_once(tmp_path: Path) -> None:
    """Before a run begins."""
    with pytest.raises(ConfigError, match="can't be written"):
        logs.opened(str(tmp_path / "no" / "log"), "info")


def test_a_full_disk_changes_nothing() -> None:
    """Neither of a run nor of standard error."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError("no space left on device")

    logger = logging.Logger("addendum.run")
    logger.addHandler(logs._Quiet(Full(), "-", logging.NOTSET, logs.JsonFormatter()))
    logs.Lines(logger).take(Noted(BEGAN, 1))


def test_standard_error_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is for results."""
    close = logs.opened("-", "info")
    logs.Lines().take(Noted(BEGAN, 1))
    close()
    logs.Lines().take(Noted(BEGAN, 1))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1


def test_other_records_of_the_package_are_lines_too(tmp_path: Path) -> None:
    """With their message, and the kind of an exception."""
    path = tmp_path / "log"
    close = logs.opened(str(path), "info")
    try:
        raise ValueError("inside")
    except ValueError:
        logging.getLogger("addendum.mcp").warning("run %s", "r", exc_info=True)
    close()
    line = json.loads(path.read_text("utf-8"))
    assert (line["message"], line["exception"], line["logger"]) == ("run r", "ValueError", "addendum.mcp")


def test_processes_with_handlers_of_their_own_get_the_records(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing has to be opened for that."""
    with caplog.at_level(logging.INFO, "addendum.run"):
        logs.Lines().take(Noted(BEGAN, 1))
    assert [record.getMessage() for record in caplog.records] == ["began"]


def test_two_that_name_the_same_file_write_each_line_once(tmp_path: Path) -> None:
    """Two Apps in a process, with the settings of one folder: neither's secrets are in it, whoever opened it first; the
    logger is as it was in the end."""
    path, before = tmp_path / "log", logging.getLogger("addendum").level
    closing = [logs.opened(str(path), "info", lambda text, key=key: text.replace(key, "[secret]")) for key in SECRETS]
    closing.append(logs.opened(str(tmp_path / "other"), "debug"))
    for close in closing:
        logs.Lines().take(Noted({**BEGAN, "run": " ".join(SECRETS)}, 1))
        close()
    logs.Lines().take(Noted(BEGAN, 1))
    assert [json.loads(line)["run"] for line in path.read_text("utf-8").splitlines()] == ["[secret] [secret]"] * 2
    assert len(path.read_text("utf-8").splitlines()) == 2
    assert len((tmp_path / "other").read_text("utf-8").splitlines()) == 3
    assert logging.getLogger("addendum").level == before
