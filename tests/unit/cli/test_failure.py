"""Every exception leaves as one sentence with a code, or as one line of JSON."""

from __future__ import annotations

import json

import pytest
import typer

from addendum.cli import main as command
from addendum.cli.failure import failure, report
from addendum.errors import CapabilityError, NotFound, RunBusy, Stop


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (NotFound("There is no run x.", hint="Look."), "not_found", 2),
        (RunBusy("Busy."), "run_busy", 4),
        (Stop("divergence", "It differs."), "divergence", 3),
        (CapabilityError("timeout", "late"), "timeout", 3),
        (typer.Abort(), "interrupted", 130),
        (KeyboardInterrupt(), "interrupted", 130),
        (ZeroDivisionError("division by zero"), "internal", 1),
    ],
)
def test_codes(error: BaseException, code: str, exit_code: int) -> None:
    """The code and the exit code follow from the class."""
    found = failure(error)
    assert (found.code, found.exit_code) == (code, exit_code)
    assert found.text().startswith(f"error[{code}]: ")


def test_an_internal_error_says_where_to_report_and_shows_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traceback is for whoever sets ADDENDUM_DEBUG."""
    monkeypatch.delenv("ADDENDUM_DEBUG", raising=False)
    assert report(ValueError("bad\nnews \x1b[1m"), json=False) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "issue tracker" in line
    assert "bad news \\x1b[1m" in line
    monkeypatch.setenv("ADDENDUM_DEBUG", "1")
    report(ValueError("bad"), json=True)
    assert "ValueError: bad" in capsys.readouterr().err


def test_facts_that_json_cannot_say_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """An error's JSON can always be read."""
    assert report(NotFound("No.", hint="Look.", run="x", at=object()), json=True) == 2
    assert json.loads(capsys.readouterr().err) == {
        "error": "not_found", "message": "No.", "hint": "Look.", "facts": {"run": "x"},
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [["frob"], ["run"], ["run", "--frob", "x"], ["plan"], ["revise", "x"], ["step"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A command, an argument or an option that isn't there: one sentence that names the help."""
    assert command.main([*arguments, "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    error = json.loads(captured.err)
    assert error["error"] == "usage"
    assert error["hint"]


def test_an_unexpected_error_in_a_command_is_caught(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is raised leaves through the one funnel."""
    monkeypatch.setattr("addendum.cli.manual.pages", lambda: 1 / 0)
    assert command.main(["rule"]) == 1
    assert capsys.readouterr().err.startswith("error[internal]: ")
