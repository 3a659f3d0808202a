"""The acceptance checks hold for every backend that confines, and find what isn't confined."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandboxes import CONFINED, backend

from addendum.clock import SystemClock
from addendum.runs import acceptance as runs
from addendum.sandbox.acceptance import Check, Subject, verify
from addendum.sandbox.checks import ALL
from addendum.sandbox.confine import bubblewrap
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.memory_store import MemoryStore
from addendum.testing.process_sandbox import ProcessSandbox

NOT_APPLICABLE = {
    "embedded": {"protocol.raw_bytes", "limits.workspace"},
    "bwrap": {"limits.workspace"},
    "docker": set[str](),
    "podman": set[str](),
}
"""What a backend hasn't got, and so can't be tried on it."""


@pytest.fixture(scope="module", params=CONFINED)
def confined(request: pytest.FixtureRequest) -> Iterator[Subject]:
    with backend(request.param) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("check", ALL, ids=lambda check: check.name)
def test_a_backend_withstands_every_check(confined: Subject, check: Check, tmp_path: Path) -> None:
    """Passed, or not applicable with a reason; with bubblewrap next to nothing is not applicable."""
    (finding,) = verify(confined, (check,), tmp_path)
    assert finding.verdict != "failed", finding
    assert finding.detail
    if bubblewrap()[0] is not None and check.name not in NOT_APPLICABLE[confined.name]:
        assert finding.verdict == "passed", finding


@pytest.mark.slow
def test_a_run_on_a_backend_is_audited_and_bounded(confined: Subject) -> None:
    """Through the broker: what was dispatched is what the journal says, within the limits that were given."""
    found = runs.verify(confined, MemoryStore(), SystemClock())
    assert [finding["check"] for finding in found] == [name for name, _ in runs.CHECKS]
    assert {finding["verdict"] for finding in found} == {"passed"}, found


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    [check for check in ALL if check.name.startswith(("network.", "files.secrets", "privileges.no", "privileges.sec"))],
    ids=lambda check: check.name,
)
def test_a_check_finds_what_is_not_confined(check: Check, tmp_path: Path) -> None:
    """The same checks fail for a plain process: they don't pass for another reason."""
    backend = ProcessSandbox()
    try:
        (finding,) = verify(backend, (check,), tmp_path)
        assert finding.verdict == "failed", finding
    finally:
        backend.close()


def test_a_check_that_breaks_is_a_failure(tmp_path: Path) -> None:
    """It doesn't hide the others."""

    def run(bench: object) -> tuple[str, str]:
        raise RuntimeError("x")

    broken = Check("broken", "", run)  # type: ignore[arg-type]
    backend = EmbeddedSandbox()
    try:
        findings = verify(backend, (broken, broken), tmp_path)
    finally:
        backend.close()
    assert [finding.verdict for finding in findings] == ["failed", "failed"]


def test_the_checks_are_named_once_and_say_what_they_try() -> None:
    """The report of `addendum sandbox verify` is read by people."""
    assert len({check.name for check in ALL}) == len(ALL)
    assert all(check.tried.endswith(".") for check in ALL)
