"""A plan in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from addendum.cli import planfile
from addendum.errors import AddendumError, UsageError
from addendum.kernel.policy import Allowances

PLAN = planfile.PlanFile(
    run="r",
    source="async def orchestrate(ctx, args): ...",
    has_args=True,
    args=None,
    policy={"relocation": "strict"},
    allowances=Allowances(supersede=frozenset({"a/b.c#0"}), retry="all", drops=("a/b.c#1",), moves={"x": "y"}),
    plan={"at": {"seq": 7, "chain": "ff", "revision": "aa", "args_digest": "bb", "terms": "cc"}, "frontier": 1},
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Args of `null` are args, and what was allowed is kept."""
    planfile.write(tmp_path / "plan.json", PLAN)
    assert planfile.read(tmp_path / "plan.json") == PLAN
    assert (PLAN.at, PLAN.of) == ((7, "ff"), ("aa", "bb", "cc"))


@pytest.mark.parametrize("change", ["format", "run", "allowances", "plan", "policy"])
def test_another_file_is_refused(tmp_path: Path, change: str) -> None:
    """A file without one of the parts is no plan."""
    data = PLAN.to_json()
    del data[change]
    (tmp_path / "plan.json").write_text(json.dumps(data), "utf-8")
    with pytest.raises(UsageError):
        planfile.read(tmp_path / "plan.json")


@pytest.mark.parametrize("change", [{"source": 5}, {"run": ["r"]}])
def test_a_part_that_is_no_text_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    """It was an internal error, from wherever the text was wanted first."""
    (tmp_path / "plan.json").write_text(json.dumps({**PLAN.to_json(), **change}), "utf-8")
    with pytest.raises(UsageError, match="is no plan"):
        planfile.read(tmp_path / "plan.json")


def test_a_policy_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """A file that was edited is checked as the options are."""
    (tmp_path / "plan.json").write_text(json.dumps({**PLAN.to_json(), "policy": {"relocation": "loose"}}), "utf-8")
    with pytest.raises(AddendumError):
        planfile.read(tmp_path / "plan.json")
