"""The acceptance checks hold for every backend that confines, and find what isn't confined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from addendum.sandbox.acceptance import Check, Subject, verify
from addendum.sandbox.bwrap import BwrapSandbox
from addendum.sandbox.checks import ALL
from addendum.sandbox.confine import bubblewrap
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.process_sandbox import ProcessSandbox

BACKENDS: dict[str, Callable[[], Subject]] = {
    "embedded": EmbeddedSandbox,
    "bwrap": BwrapSandbox,
    "process": ProcessSandbox,
}


@pytest.fixture(scope="module", params=["embedded", "bwrap"])
def confined(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param == "bwrap" and bubblewrap()[0] is None:
        pytest.skip(bubblewrap()[1])
    backend = BACKENDS[request.param]()
    yield backend
    backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("check", ALL, ids=lambda check: check.name)
def test_a_backend_withstands_every_check(confined: Subject, check: Check, tmp_path: Path) -> None:
    """Passed, or not applicable with a reason; with bubblewrap next to nothing is not applicable."""
    (finding,) = verify(confined, (check,), tmp_path)
    assert finding.verdict != "failed", finding
    assert finding.detail
    if bubblewrap()[0] is not None and check.name != "protocol.raw_bytes":
        assert finding.verdict == "passed", finding


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
