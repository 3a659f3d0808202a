"""Text of others on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.cli.printable import line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb", "a\\rb"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("\ud800", "\\ud800"),
        ("line\nnext\ttab", "line\nnext\ttab"),
        ("Ünïcödé ✓ 👩‍🚀", "Ünïcödé ✓ 👩‍🚀"),
    ],
)
def test_control_characters_are_written_out(text: str, shown: str) -> None:
    """What moves a cursor, changes a colour or turns the direction of text is shown, not done."""
    assert printable(text) == shown


@given(st.text())
def test_nothing_but_newline_and_tab_controls(text: str) -> None:
    """For any text, what is printed holds no control character but newline and tab, and fits any encoding."""
    shown = printable(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in shown)
    shown.encode("utf-8")


@given(st.text(), st.integers(min_value=3, max_value=50))
def test_a_line_is_one_line_of_at_most_its_width(text: str, width: int) -> None:
    """A text that is cut keeps its beginning and its end."""
    cut = line(text, width)
    assert len(cut) <= width
    assert "\n" not in cut
    assert line(text)[:1] == cut[:1]
