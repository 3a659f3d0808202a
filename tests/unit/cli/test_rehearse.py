"""`addendum rehearse`: what is printed of a scenario that can't be played."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from addendum.cli.main import main

LATE = """
name: nobody is killed
steps:
  - run: 'async def orchestrate(ctx, args): return 1'
    crash: {capability: mail.send, dispatch: 1}
"""


@pytest.mark.slow
def test_a_scenario_that_can_t_be_played_is_shown_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As any other: a kill at a dispatch that never comes is a failure of this scenario."""
    path = tmp_path / "late.yaml"
    path.write_text(LATE, "utf-8")
    assert main(["rehearse", str(path), "--json"]) == 3
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["passed"]) == ("nobody is killed", False)


SLIP = """
name: a slip in a grant
steps:
  - run: 'async def orchestrate(ctx, args): return 1'
  - grant: {GRANT}
  - approve: true
  - resume: true
    expect: {status: completed}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grant", "slip"),
    [
        ("capabilities: {image.generate: {limits: [{meter: callz, max: 1}]}}", "callz"),
        ("approval: [{when: always, capability: mail.sent}]", "mail.sent"),
        ("limits: [], forbid_together: [[mail.send, private_reads]]", "private_reads"),
    ],
)
def test_a_step_that_ends_in_an_error_has_not_passed(
    grant: str, slip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is expected of the others: what they rest on was never done. Answers to nothing are none."""
    path = tmp_path / "slip.yaml"
    path.write_text(SLIP.replace("GRANT", grant), "utf-8")
    assert main(["rehearse", str(path), "--json"]) == 3
    (found,) = json.loads(capsys.readouterr().out)["mismatches"]
    assert (found["step"], found["key"], found["seen"]) == (2, "status", "error")
    assert slip in found["because"]
