"""What a command prints, and the commands that it names."""

from __future__ import annotations

import pytest
from rich.text import Text

from addendum.cli.output import Output
from addendum.runs.advice import Advice


def test_a_command_that_is_named_can_be_copied() -> None:
    """It has the options that this one was given, quoted, as far as it takes them."""
    output = Output(store="my runs.db", sandbox="bwrap", provider=None)
    assert output.exact("addendum resume r") == "addendum resume r --store 'my runs.db' --sandbox bwrap"
    assert output.exact("addendum show r") == "addendum show r --store 'my runs.db'"
    assert Output().advice([Advice("addendum resume r", "why")]) == (Advice("addendum resume r", "why"),)


def test_beside_a_terminal_nothing_is_cut_padded_or_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    """A program can look for a line in the output."""
    Output().show(Text("x" * 500 + "   ", style="red"))
    assert capsys.readouterr().out == "x" * 500 + "\n"


def test_with_json_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """What is said about the work is left out; the value stands alone on stdout."""
    output = Output(json=True)
    output.say("something")
    output.value({"a": "é"})
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ('{\n  "a": "é"\n}\n', "")
