"""Candidates that go for their judge, and judges that aren't worth much (H16 to H20)."""

from __future__ import annotations

import pytest
from tests.workshop import ARTICLE, DRAFT, PUBLISHED, Workshop, codes

from addendum.ports import Ran
from addendum.work import attest, validate
from addendum.work.proposal import Validator
from addendum.work.validate import Checked

VALIDATOR = Validator(name="v", role="guard", argv=("/bin/true",), expects=("a",))


def judged(stdout: bytes, code: int = 0, **more: object) -> Checked:
    """Return what is made of a validator's output."""
    validator = more.pop("validator", VALIDATOR)
    assert isinstance(validator, Validator)
    return validate.judge(validator, Ran(code=code, stdout=stdout, stderr=b"", seconds=0.0, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stdout", "code", "colour"),
    [
        (b'{"checks": {"a": true}}', 0, "green"),
        (b'noise\n{"checks": {"a": true, "b": true}}\n', 0, "green"),
        (b'{"checks": {"a": false}}', 1, "red"),
        (b"", 0, "error"),
        (b"ok\n", 0, "error"),
        (b'{"checks": {}}', 0, "error"),
        (b'{"checks": {"b": true}}', 0, "error"),
        (b'{"checks": {"a": 1}}', 0, "error"),
        (b'{"checks": {"a": true}}', 1, "error"),
        (b'{"checks": {"a": false}}', 0, "error"),
        (b'{"checks": {"a": true}}', 2, "error"),
        (b'{"checks": {"a": true}}', -9, "error"),
        (b'{"checks": {"a": false, "a": true}}', 0, "error"),
        (b'["checks"]', 0, "error"),
    ],
)
def test_h17_h18_no_report_is_no_pass(stdout: bytes, code: int, colour: str) -> None:
    """An exit code alone passes nothing: every expected check has to be reported, and agree with it."""
    assert judged(stdout, code).colour == colour


def test_h15_a_validator_that_does_not_end_is_undecided() -> None:
    """A time limit that was reached says nothing about the candidate."""
    checked = judged(b"", -9, timed_out=True, over="too long")
    finding = checked.finding("v")
    assert finding is not None
    assert (finding.code, finding.undecided) == ("validator.timeout", True)


def test_a_validator_by_exit_code_has_to_say_something() -> None:
    """With `report = "exit"` the exit code counts, if there is any output."""
    by_exit = Validator(name="v", role="guard", argv=("/bin/true",), report="exit")
    assert judged(b"3 tests passed", 0, validator=by_exit).colour == "green"
    assert judged(b"1 test failed", 5, validator=by_exit).colour == "red"
    assert judged(b"", 0, validator=by_exit).colour == "error"
    assert judged(b"not found", 127, validator=by_exit).colour == "error"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["tools/validate.py", "conftest.py", "pytest.ini", ".gitattributes"])
def test_a11_h16_a_candidate_can_not_change_its_judge(shop: Workshop, path: str) -> None:
    """A validator's file in the repository is protected, and what judged is the pinned copy, by digest."""
    run = shop.run()
    verdict = shop.present(run, {ARTICLE: DRAFT, path: "import os; os._exit(0)\n"})
    assert "scope.protected" in codes(verdict)


@pytest.mark.slow
def test_a11_the_pinned_copy_is_what_runs(shop: Workshop) -> None:
    """A validator that is swapped after the admission is noticed, and never run in place of the admitted one."""
    run = shop.run()
    good = (shop.root / "policy/draft.sh").read_text()
    shop.write("policy/draft.sh", 'echo \'{"checks": {"draft": true}}\'\n')
    with pytest.raises(Exception, match=r"snapshot\.mismatch"):
        shop.present(run, {ARTICLE: PUBLISHED})
    shop.write("policy/draft.sh", good)
    assert codes(shop.present(run, {ARTICLE: PUBLISHED})) == ["validator.failed"]
    contract = shop.load(run).contract
    statement = attest.test_result(contract, None, 1, [], "draft", Checked("red"))
    assert contract.snapshot["validators"]["draft"]["sha256"]["draft.sh"]
    assert any("validator:draft" in str(item) for item in statement["predicate"]["configuration"])  # type: ignore[index,call-overload]


@pytest.mark.slow
def test_a_candidates_code_does_not_run_on_the_host(shop: Workshop) -> None:
    """A validator that runs the candidate's code does it confined: the marker is never made, the candidate stays."""
    marker = shop.root / "marker"
    script = f"touch {marker}; touch /candidate/x 2>/dev/null && touch {marker}; ls /candidate > /dev/null\n"
    shop.write("policy/draft.sh", script + (shop.root / "policy/draft.sh").read_text())
    run = shop.run()
    assert shop.present(run, {ARTICLE: DRAFT}).verdict == "accepted"
    assert not marker.exists()


@pytest.mark.slow
def test_h15_a_validator_is_ended_in_time(shop: Workshop) -> None:
    """A candidate that makes a validator run for ever is undecided, in bounded time."""
    slow = "if [ -f /candidate/content/posts/bomb.md ]; then sleep 300; fi\n"
    shop.write("policy/draft.sh", slow + (shop.root / "policy/draft.sh").read_text())
    shop.policy = shop.policy.replace('mutants = ["published"]\ntimeout = 20', 'mutants = ["published"]\ntimeout = 3')
    shop.plan = shop.plan.replace('["content/posts/example.md"]', '["content/posts/*.md"]')
    verdict = shop.present(shop.run(), {ARTICLE: DRAFT, "content/posts/bomb.md": "x\n"})
    assert (verdict.verdict, codes(verdict), verdict.exit_code) == ("undecided", ["validator.timeout"], 4)
