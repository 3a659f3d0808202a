"""Names that may stand in a candidate, and what a pattern covers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.work import paths


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"content/posts/a.md", None),
        ("content/über.md".encode(), None),
        (b".github/workflows/ci.yml", None),
        (b"git/readme", None),
        (b".git/config", "path.reserved"),
        (b"a/.GIT/config", "path.reserved"),
        (b"git~1", "path.reserved"),
        (b".git.", "path.reserved"),
        (b".git ", "path.reserved"),
        (b".git::$INDEX_ALLOCATION/x", "path.reserved"),
        (".g\u200cit".encode(), "path.control"),
        (b".gitmodules", "path.reserved"),
        (b"a\nb", "path.control"),
        ("a\u202eb".encode(), "path.control"),
        ("e\u0301".encode(), "path.not_nfc"),
        (b"\xff", "path.encoding"),
        (b"a.", "path.reserved"),
        (b"a:b", "path.reserved"),
        (b"a\\b", "path.reserved"),
        (b"aux.txt", "path.reserved"),
        (b"a/../b", "path.reserved"),
        (b"/a", "path.reserved"),
    ],
)
def test_h5_h12_a_name_that_can_be_read_in_two_ways_is_refused(path: bytes, code: str | None) -> None:
    """Every spelling of git's folder, and every name that isn't what it seems, has its code."""
    found = paths.fault(path)
    assert (found and found[0]) == code


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("content/posts/*.md", "content/posts/a.md", True),
        ("content/posts/*.md", "content/posts/a/b.md", False),
        ("content/posts/*", "content/posts/a/b/c.md", False),
        ("content/**", "content/posts/a/b/c.md", True),
        ("content/**", "content", False),
        ("**", "anything/at/all", True),
        ("a*c*e", "abcde", True),
        ("a*c*e", "ace", True),
        ("a*a", "a", False),
        ("config.toml", "config.toml", True),
    ],
)
def test_h13_a_star_stays_in_one_name(pattern: str, path: str, covered: bool) -> None:
    """A star never crosses a slash; only `/**` at the end does."""
    assert paths.matches(pattern, path) is covered


@pytest.mark.parametrize("pattern", ["content/posts/../../config.toml", "/etc/passwd", "a/**/b", ".git/**", ""])
def test_h13_a_pattern_that_leads_out_is_refused(pattern: str) -> None:
    """A plan can't reach out of the tree by a pattern."""
    assert paths.pattern_fault(pattern) is not None


names = st.text("ab*", min_size=1, max_size=4)
patterns = st.lists(names, min_size=1, max_size=3).map("/".join)


@given(patterns, patterns, st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3).map("/".join))
def test_a16_what_covers_a_pattern_covers_every_path_of_it(above: str, below: str, path: str) -> None:
    """If a ceiling's pattern covers a plan's, no path that the plan's matches escapes the ceiling."""
    if paths.covers(above, below) and paths.matches(below, path):
        assert paths.matches(above, path)


def test_h12_names_that_differ_by_case_collide_with_their_folders_too() -> None:
    """A file and a folder of the same name but for case are one on some systems."""
    tree = [b"Content/a", b"content/b", b"x"]
    assert list(paths.collisions(tree, [b"Content/a"])) == [(b"Content/a", b"content")]
    assert not list(paths.collisions(tree, [b"x"]))
