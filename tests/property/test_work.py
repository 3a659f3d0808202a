"""Trees, diffs and scopes of work contracts, against what they should be by their definition."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from addendum.work import intake, scope, workspace
from addendum.work.codes import Finding
from addendum.work.objects import EXECUTABLE, FILE, Item, blob_id
from addendum.work.paths import matches
from addendum.work.progress import merge
from addendum.work.scope import Scope

Tree = dict[bytes, tuple[bytes, bool]]
"""Content and whether it is executable, by path."""

names = st.sampled_from(["a", "b", "c.md", "d"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
contents = st.tuples(st.binary(max_size=3), st.booleans())


def real(files: dict[str, tuple[bytes, bool]]) -> Tree:
    """Drop what lies below a file, so that it is a tree."""
    kept = {path: found for path, found in files.items() if not any(path.startswith(f"{other}/") for other in files)}
    return {path.encode(): found for path, found in sorted(kept.items())}


trees = st.dictionaries(paths, contents, max_size=6).map(real)
patterns = st.one_of(paths, paths.map(lambda path: f"{path}/**"), st.just("**"), names.map(lambda name: f"*/{name}"))
grants = st.fixed_dictionaries({verb: st.lists(patterns, max_size=3).map(tuple) for verb in scope.VERBS})


def flat(tree: Tree) -> dict[bytes, Item]:
    """Return a tree as git has it."""
    return {path: Item(EXECUTABLE if run else FILE, blob_id(data)) for path, (data, run) in tree.items()}


def blobs(*all_trees: Tree) -> dict[str, bytes]:
    """Return the contents of trees by their ids."""
    return {blob_id(data): data for tree in all_trees for data, _ in tree.values()}


@given(trees)
def test_export_and_intake_are_inverse(tree: Tree) -> None:
    """What is written out and read in again is the same tree."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "w"
        workspace.export(flat(tree), blobs(tree).__getitem__, place)
        taken = intake.take(place, {}, intake.Bounds())
    assert taken.flat == flat(tree)
    assert taken.blobs == blobs(tree)


@given(trees, trees, grants)
def test_a_candidate_is_in_scope_exactly_if_every_change_is_granted(
    base: Tree, candidate: Tree, edits: dict[str, tuple[str, ...]]
) -> None:
    """The judgement is what the definition says: verb by verb, path by path, with modes and kinds kept."""
    found = scope.judge(flat(base), flat(candidate), Scope(edits=edits), {})
    good = True
    for path in {*base, *candidate}:
        before, after = base.get(path), candidate.get(path)
        if before == after:
            continue
        verb = "create" if before is None else "delete" if after is None else "modify"
        good = good and any(matches(pattern, path.decode()) for pattern in edits[verb])
        if after is not None:
            good = good and after[1] == (before[1] if before is not None else False)
        if before is None:
            parents = [path[:at] for at, letter in enumerate(path) if letter == ord("/")]
            good = good and not any(parent in base for parent in parents)
            good = good and not any(other.startswith(path + b"/") for other in base)
    assert (not found) == good


@given(trees, st.lists(trees, min_size=1, max_size=3))
def test_a_union_does_not_depend_on_the_order(base: Tree, others: list[Tree]) -> None:
    """Merging is the same whichever comes first, and a conflict is one from every side."""
    flats = {f"s{index}": flat(other) for index, other in enumerate(others)}
    first = merge(flat(base), flats)
    second = merge(flat(base), dict(reversed(flats.items())))
    assert isinstance(first, Finding) == isinstance(second, Finding)
    if not isinstance(first, Finding):
        assert first == second
    if len(flats) == 1:
        assert first == flats["s0"]
