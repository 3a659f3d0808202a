"""What a command prints, and the commands that it names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from rich.text import Text

from addendum.cli.main import build
from addendum.cli.output import TAKEN, Output
from addendum.cli.printable import printable
from addendum.runs.advice import Advice


def test_a_command_that_is_named_can_be_copied() -> None:
    """It has the options that this one was given, quoted, as far as it takes them."""
    output = Output(store="my runs.db", sandbox="bwrap", provider=None)
    assert output.exact("addendum resume r") == "addendum resume r --store 'my runs.db' --sandbox bwrap"
    assert output.exact("addendum show r") == "addendum show r --store 'my runs.db'"
    assert Output().advice([Advice("addendum resume r", "why")]) == (Advice("addendum resume r", "why"),)


def _commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    beneath = getattr(command, "commands", {})
    if not beneath:
        yield name, command
    for word, each in beneath.items():
        yield from _commands(each, f"{name} {word}".strip())


def test_a_named_command_gets_only_options_that_it_has_and_each_that_says_where_to_look() -> None:
    """The table of what commands take is held against the commands themselves."""
    found = dict(_commands(build()))
    for name, taken in TAKEN.items():
        reached = [each for full, each in found.items() if full == name or full.split()[0] == name]
        assert reached, name
        for command in reached:
            options = {option for param in command.params for option in param.opts}
            assert options.issuperset(taken), name
            assert "--store" in taken or "--store" not in options, name


def test_beside_a_terminal_nothing_is_cut_padded_or_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    """A program can look for a line in the output."""
    Output().show(Text("x" * 500 + "   ", style="red"))
    assert capsys.readouterr().out == "x" * 500 + "\n"


HOSTILE = "\x1b[2J\x9b2J\u202eabc\u2028\ud800\x7f é 👩\u200d🚀"


def test_json_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A result is shown by people who look at it, too: it is the same value, in characters that nothing obeys."""
    Output().value({HOSTILE: [HOSTILE]})
    shown = capsys.readouterr().out
    assert not [each for each in shown if each != "\n" and printable(each) != each]
    assert "é 👩\u200d🚀" in shown
    assert json.loads(shown) == {HOSTILE: [HOSTILE]}


def test_a_script_is_printed_as_it_is_but_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes to a file is the script; a person who looks at what a model wrote sees what is in it."""
    Output().raw("x = '\x1b[2J\u202e'")
    assert capsys.readouterr().out == "x = '\x1b[2J\u202e'\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Output().raw("x = '\x1b[2J\u202e'")
    assert capsys.readouterr().out == "x = '\\x1b[2J\\u202e'\n"


def test_with_json_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """What is said about the work is left out; the value stands alone on stdout."""
    output = Output(json=True)
    output.say("something")
    output.value({"a": "é"})
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ('{\n  "a": "é"\n}\n', "")
