"""From a plan to a promotion: what each requirement of work contracts asks for (A1 to A35)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.workshop import ARTICLE, DRAFT, PUBLISHED, REVIEW, Workshop, codes

from addendum.canon import Json
from addendum.errors import ConfigError, UsageError
from addendum.work import execute, people, present, promote, report, verify, workspace
from addendum.work.codes import Refused
from addendum.work.objects import Item
from addendum.work.present import Given
from addendum.work.progress import Progress

pytestmark = pytest.mark.slow


def refused(error: pytest.ExceptionInfo[Refused]) -> list[str]:
    """Return the codes of a refusal."""
    return [finding.code for finding in error.value.findings]


# --- the essay's table --------------------------------------------------------------------------------------------


def test_a1_to_a4_the_essays_table(shop: Workshop) -> None:
    """Out of scope, publishable and stale are refused; the valid one is accepted at the gate and promoted nowhere."""
    run = shop.run()
    extra = shop.present(run, {ARTICLE: DRAFT, "config.toml": "x = 1\n"}, name="extra")
    assert codes(extra)[0] == "scope.path"
    assert extra.findings[0].evidence == {"path": "config.toml", "kind": "modify"}
    published = shop.present(run, {ARTICLE: PUBLISHED}, name="published")
    assert [(f.code, f.subject) for f in published.findings] == [("validator.failed", "draft")]
    other = shop.overlay({ARTICLE: DRAFT})
    stale = present.present(shop.bench, run, "A", replace(other, base="a" * 40))
    assert codes(stale) == ["provenance.stale_base"]
    assert stale.findings[0].evidence == {"expected": shop.base, "actual": "a" * 40}
    good = shop.present(run, {ARTICLE: DRAFT})
    assert (good.verdict, good.exit_code, good.to_json()["scope"]) == ("accepted", 0, "slice-gate")
    assert shop.head() == shop.base
    assert report.status(shop.bench, shop.load(run))["promoted"] is False


def test_a_candidate_may_be_a_whole_folder_or_a_tree(shop: Workshop) -> None:
    """A folder that is the whole tree shows deletions too; a tree of the repository is judged by the same rules."""
    run = shop.run()
    folder = shop.root / "whole"
    workspace.export(shop.load(run).base, shop.bench.repository.data, folder)
    shop.write(f"whole/{ARTICLE}", DRAFT)
    assert present.present(shop.bench, run, "A", Given(folder=folder)).verdict == "accepted"
    (folder / "config.toml").unlink()
    verdict = present.present(shop.bench, run, "A", Given(folder=folder))
    assert verdict.findings[0].evidence == {"path": "config.toml", "kind": "delete"}
    base = shop.load(run).base
    sub = {**base, b"vendor": Item(0o160000, "1" * 40), b"a/.GIT": base[b"config.toml"]}
    tree = shop.bench.repository.write(sub, [])
    found = codes(present.present(shop.bench, run, "A", Given(tree=tree)))
    assert {"scope.kind", "path.reserved", "scope.path"} == set(found)


def test_a_candidate_that_is_not_there_is_no_attempt(shop: Workshop) -> None:
    """A slip in a name is an error of the request: nothing is recorded."""
    run = shop.run()
    shop.write("file", "x")
    (shop.root / "link").symlink_to(shop.root)
    for given in (
        Given(folder=shop.root / "nothing"),
        Given(overlay=shop.root / "file"),
        Given(folder=shop.root / "link"),
        Given(tree="main"),
    ):
        with pytest.raises(UsageError):
            present.present(shop.bench, run, "A", given)
        with pytest.raises(UsageError):
            present.correct(shop.bench, run, "A", given, shop.keys["bob"], "a draft")
    assert shop.load(run).journal.state.attempts == {}


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ('approval = [{ when = "always", capability = "text.genrate" }]', "text.genrate"),
        ('forbid_together = [["text.generate", "paid_twice"]]', "paid_twice"),
        ('capabilities."text.generate".where = { prompt = { maxLength = 3 } }', "prompt"),
    ],
)
def test_a_rule_of_the_ceiling_that_is_about_nothing_is_refused(shop: Workshop, rule: str, word: str) -> None:
    """As in any grant: an operator's slip is said at once, and not when a script runs, or never."""
    shop.policy = shop.policy.replace("[ceiling.grant.", f"[ceiling.grant]\n{rule}\n[ceiling.grant.", 1)
    if "where" in rule:
        shop.policy = shop.policy.replace('[ceiling.grant.capabilities."text.generate"]\n', "")
        shop.policy = shop.policy.replace('limits = [{ meter = "calls", max = 3 }]\n', "", 1)
    with pytest.raises(ConfigError, match=word):
        shop.admit()


# --- the snapshot -------------------------------------------------------------------------------------------------


def test_a8_a_snapshot_is_stable_and_sees_one_byte(shop: Workshop) -> None:
    """The same things have the same digest, in another process too; one byte of a validator changes it."""
    files = shop.files()
    script = (
        "import sys; from pathlib import Path; from addendum import wiring; from addendum.config import Settings;"
        "from addendum.work import wire; p = Path(sys.argv[1]);"
        "print(wiring.work_snapshot(Settings(), 'test')(wire.policy(p.read_bytes()), p.parent).digest)"
    )

    def digest(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.check_output([sys.executable, "-c", script, str(files.path)], env=env, text=True).strip()

    first = digest("1")
    assert digest("2") == first
    shop.write("policy/draft.sh", (shop.root / "policy/draft.sh").read_text() + "#")
    assert digest("1") != first


def test_a9_h28_what_changed_since_is_refused_and_a_new_contract_supersedes(shop: Workshop) -> None:
    """A changed limit of a capability is named, nothing is executed, and the plan can be admitted anew."""
    first = shop.admit()
    assert first.contract is not None
    shop.policy = shop.policy.replace("max = 9", "max = 8")
    shop.files()
    with pytest.raises(Refused) as error:
        shop.work(first.run)
    assert refused(error) == ["snapshot.mismatch"]
    assert error.value.findings[0].subject == "/capabilities/workspace.edit/limits"
    assert not shop.load(first.run).journal.state.attempts
    second = shop.admit(supersedes=first.contract.id)
    assert second.contract is not None
    assert second.contract.supersedes == first.contract.id
    assert shop.load(first.run).journal.state.superseded == second.contract.id
    with pytest.raises(Refused) as error:
        shop.work(first.run)
    assert refused(error) == ["snapshot.mismatch"]
    assert shop.work(second.run)[0].verdict == "accepted"


def test_a25_an_executable_is_pinned_by_its_bytes(shop: Workshop, tmp_path: Path) -> None:
    """A program that was replaced by a wrapper is another one, whatever it says its version is."""
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho 1.0\n")
    shop.policy += f'[capability."lint.run"]\nversion = "1"\nexecutable = "{tool}"\n'
    run = shop.run()
    tool.write_text("#!/bin/sh\nexec /bin/echo 1.0\n")
    with pytest.raises(Refused) as error:
        shop.work(run)
    assert refused(error) == ["snapshot.mismatch"]
    assert error.value.findings[0].subject == f"/executables/{tool}/sha256"


def test_a13_a_tool_that_is_not_installed_does_not_exist(shop: Workshop, tmp_path: Path) -> None:
    """A plan that needs a tool whose program isn't here is refused, and nothing stands in for it."""
    shop.policy += f'[capability."lint.run"]\nversion = "1"\nexecutable = "{tmp_path}/nowhere"\n'
    shop.run()
    shop.plan = shop.plan.replace("workspace.edit@1", "lint.run@1")
    assert shop.refused() == {"capability.missing"}


# --- admission has no effect --------------------------------------------------------------------------------------


def test_a17_admission_writes_nothing_but_the_stores_entry(shop: Workshop) -> None:
    """The repository and the policy stay as they are, admitted or not; a rejection is one entry, without a lease."""

    def bytes_of(folder: Path) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    shop.files()
    before = bytes_of(shop.root / "r.git"), bytes_of(shop.root / "policy")
    good, shop.plan = shop.plan, shop.plan.replace("@BASE@", "main")
    assert shop.refused() == {"revision.unpinned"}
    (header,) = shop.bench.store.runs()
    assert [entry.kind for entry in shop.bench.store.entries(header.run)] == ["work.rejection"]
    shop.plan = good
    shop.run()
    assert (bytes_of(shop.root / "r.git"), bytes_of(shop.root / "policy")) == before


# --- execution ----------------------------------------------------------------------------------------------------


def test_a18_what_was_done_is_seen_and_not_what_was_said(shop: Workshop) -> None:
    """An executor that says nothing changed is judged by the file that did; one that says done, by nothing."""
    shop.command = f"echo 'no change'; {shop.command}"
    (verdict,) = shop.work(shop.run())
    assert verdict.verdict == "accepted"
    shop.command = "echo 'all done'"
    (verdict,) = shop.work(shop.run())
    assert (codes(verdict), verdict.outcome, verdict.exit_code) == (["attempt.no_change"], "no_change", 3)


def test_a31_an_executor_may_say_that_it_can_not(shop: Workshop) -> None:
    """The exit code 3 is a refusal, any other a failure; both are kept, and nothing is tried again by itself."""
    shop.command = "echo 'this needs a person'; exit 3"
    run = shop.run()
    (verdict,) = shop.work(run)
    assert (codes(verdict), verdict.outcome, verdict.exit_code) == (["attempt.refused"], "refused", 3)
    state = shop.load(run).journal.state
    assert [attempt.outcome for attempt in state.attempts.values()] == ["refused"]
    assert b"needs a person" in shop.bench.store.blob(state.attempts[1].log)
    shop.command = "exit 7"
    (verdict,) = shop.work(shop.run())
    assert codes(verdict) == ["attempt.failed"]


def test_a34_a_third_attempt_of_two_is_refused(shop: Workshop) -> None:
    """Attempts are counted, and none is dispatched beyond them."""
    shop.command = "exit 3"
    run = shop.run()
    shop.work(run)
    shop.work(run)
    with pytest.raises(Refused) as error:
        shop.work(run)
    assert refused(error) == ["budget.attempts"]
    assert len(shop.load(run).journal.state.attempts) == 2


def test_a34_an_attempt_that_takes_too_long_is_ended_and_kept(shop: Workshop) -> None:
    """What it had written by then is kept with it."""
    shop.plan = shop.plan.replace("seconds = 20", "seconds = 3")
    shop.command += "; sleep 60"
    run = shop.run()
    (verdict,) = shop.work(run)
    assert (codes(verdict), verdict.outcome, verdict.exit_code) == (["attempt.timed_out"], "timed_out", 4)
    attempt = shop.load(run).journal.state.attempts[1]
    assert ARTICLE.encode() in shop.bench.repository.flat(attempt.tree)


def test_a14_a35_another_executor_is_the_same_authority(shop: Workshop) -> None:
    """A route is chosen at the run and recorded with the attempt; one that lacks a mode is refused."""
    shop.policy = shop.policy.replace(
        "[route.script]", '[route.other]\nmodes = ["write"]\nargv = ["/bin/sh", "-c", "exit 3"]\n[route.script]'
    )
    run = shop.run()
    authority = shop.load(run).contract.authority
    with pytest.raises(Refused) as error:
        shop.work(run, executor="idle")
    assert refused(error) == ["route.unsatisfied"]
    shop.work(run, executor="other")
    shop.work(run, executor="write")
    admitted = shop.load(run)
    assert [attempt.route for attempt in admitted.journal.state.attempts.values()] == ["other", "write"]
    assert admitted.contract.authority == authority


def test_a15_a_slice_waits_for_the_accepted_tree_that_it_gets(shop: Workshop) -> None:
    """B isn't eligible before A is accepted, and again isn't once A's newest verdict is another one."""
    shop.plan += REVIEW.replace(
        'needs = ["approval.request@1"]',
        'edits = { modify = ["content/posts/first.md"] }\nneeds = ["workspace.edit@1"]',
    )
    run = shop.run()
    with pytest.raises(Refused) as error:
        shop.work(run, only="B")
    assert refused(error) == ["graph.not_eligible"]
    assert error.value.findings[0].undecided
    assert shop.present(run, {ARTICLE: DRAFT}).verdict == "accepted"
    assert shop.present(run, {"content/posts/first.md": "second\n"}, "B", "b").verdict == "accepted"
    shop.present(run, {ARTICLE: PUBLISHED}, name="later")
    with pytest.raises(Refused):
        shop.present(run, {"content/posts/first.md": "third\n"}, "B", "b")
    shop.present(run, {ARTICLE: DRAFT + "longer\n"}, name="longer")
    progress = Progress(shop.bench, shop.load(run))
    b = shop.load(run).contract.slice("B")
    assert b is not None
    assert "another tree" in getattr(progress.done(b), "message", "")


# --- records ------------------------------------------------------------------------------------------------------


def test_a21_a22_provenance_binds_everything_and_claims_integrity_only(shop: Workshop) -> None:
    """What was recorded verifies; a file that isn't the admitted one is named; no word says that the work is right."""
    run = shop.run()
    shop.work(run)
    admitted = shop.load(run)
    assert verify.verify(shop.bench, admitted, {}) == []
    tree = admitted.journal.state.attempts[1].tree
    assert verify.verify(shop.bench, admitted, {}, tree) == []
    files = shop.files()
    given = {"spec": files.spec, "plan": files.plan, "policy": files.policy}
    assert verify.verify(shop.bench, admitted, given) == []
    for name, data in given.items():
        flipped = bytes([data[0] ^ 1]) + data[1:]
        (finding,) = verify.verify(shop.bench, admitted, given | {name: flipped})
        assert (finding.code, finding.subject) == ("provenance.mismatch", name)


def test_a21_a_flipped_byte_anywhere_is_named(shop: Workshop) -> None:
    """A blob, an entry or a git object that was changed behind the program's back is found."""
    run = shop.run()
    shop.work(run)
    state = shop.load(run).journal.state
    envelope = state.gates[0].checks["draft"]["envelope"]
    shop.bench.store.close()
    database = sqlite3.connect(shop.settings.store)
    database.execute("DROP TRIGGER blobs_no_update")
    database.execute(
        "UPDATE blobs SET data = CAST(replace(data, 'payload', 'paylaod') AS BLOB) WHERE digest = ?", (envelope,)
    )
    database.commit()
    database.close()
    shop.close()
    shop.set_up_again()
    found = verify.verify(shop.bench, shop.load(run), {})
    assert [(f.code, f.subject) for f in found] == [("provenance.mismatch", "attempt 1, draft")]


def test_a21_swapped_statements_are_found(shop: Workshop) -> None:
    """The statement of one attempt doesn't verify for another."""
    run = shop.run()
    shop.present(run, {ARTICLE: DRAFT})
    shop.present(run, {ARTICLE: DRAFT + "more\n"})
    admitted = shop.load(run)
    first, second = admitted.journal.state.gates
    first.checks, second.checks = second.checks, first.checks
    found = verify.verify(shop.bench, admitted, {})
    assert {finding.code for finding in found} == {"provenance.mismatch"}


def test_a26_h33_rejected_attempts_are_kept_and_can_not_be_deleted(shop: Workshop) -> None:
    """The report lists a rejected attempt beside the accepted one; no delete goes through, and git keeps the tree."""
    run = shop.run()
    shop.present(run, {ARTICLE: PUBLISHED})
    shop.present(run, {ARTICLE: DRAFT})
    listed = report.report(shop.load(run)).value["attempts"]
    assert [item["gates"][-1]["verdict"] for item in listed] == ["rejected", "accepted"]
    database = sqlite3.connect(shop.settings.store)
    for statement in ("DELETE FROM entries", "DELETE FROM blobs", "UPDATE entries SET body = '{}'", "DELETE FROM runs"):
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(statement)
    database.close()
    subprocess.run(["git", "-C", str(shop.root / "r.git"), "gc", "-q", "--prune=now"], check=True)
    shop.close()
    shop.set_up_again()
    assert verify.verify(shop.bench, shop.load(run), {}) == []


def test_a26_what_can_not_be_a_tree_is_kept_without_it(shop: Workshop) -> None:
    """A workspace with a link in it is refused, and the rest of it is kept as evidence, like its log."""
    shop.command += "; ln -s /etc/passwd content/posts/link.md; echo did it"
    run = shop.run()
    (verdict,) = shop.work(run)
    assert (codes(verdict), verdict.outcome) == (["file.symlink"], "rejected")
    attempt = shop.load(run).journal.state.attempts[1]
    flat = shop.bench.repository.flat(attempt.tree)
    assert ARTICLE.encode() in flat
    assert b"content/posts/link.md" not in flat
    assert not attempt.gates
    assert verify.verify(shop.bench, shop.load(run), {}) == []


def test_a26_h33_a_ref_that_was_moved_is_found(shop: Workshop) -> None:
    """An attempt's ref that was deleted behind the program's back is named."""
    run = shop.run()
    shop.present(run, {ARTICLE: DRAFT})
    contract = shop.load(run).contract.id
    ref = f"{execute.REFS}/{contract[:16]}/1"
    subprocess.run(["git", "-C", str(shop.root / "r.git"), "update-ref", "-d", ref], check=True)
    found = verify.verify(shop.bench, shop.load(run), {})
    assert [(f.code, f.subject) for f in found] == [("provenance.mismatch", ref)]


def test_a27_a_correction_passes_the_same_gate_and_is_not_the_executors(shop: Workshop) -> None:
    """A person's correction is counted as such; one out of scope is refused like everybody's."""
    shop.command = shop.command.replace("true", "false")
    run = shop.run()
    (verdict,) = shop.work(run)
    assert codes(verdict) == ["validator.failed"]
    bad = shop.overlay({ARTICLE: DRAFT, "config.toml": "x = 1\n"}, "bad")
    verdict = present.correct(shop.bench, run, "A", bad, shop.keys["bob"], "mend it all")
    assert codes(verdict)[0] == "scope.path"
    verdict = present.correct(shop.bench, run, "A", shop.overlay({ARTICLE: DRAFT}), shop.keys["bob"], "a draft")
    assert verdict.verdict == "accepted"
    found = report.report(shop.load(run)).value
    assert (found["corrected"], found["accepted_unaided"], found["corrections"]) == (1, 0, 2)


def test_a28_a_missing_run_is_reported_and_stays_in_the_count(shop: Workshop) -> None:
    """A validator that was killed has no verdict: it is missing, listed as crashed, and the report isn't green."""
    killed = "if [ -f /candidate/content/posts/kill.md ]; then kill -9 $$; fi\n"
    shop.write("policy/draft.sh", killed + (shop.root / "policy/draft.sh").read_text())
    shop.plan = shop.plan.replace('["content/posts/example.md"]', '["content/posts/*.md"]')
    run = shop.run()
    verdict = shop.present(run, {ARTICLE: DRAFT, "content/posts/kill.md": "x\n"})
    assert codes(verdict) == ["validator.error"]
    found = report.report(shop.load(run))
    runs = found.value["runs"]
    assert (runs["expected"], runs["ran"], runs["missing"], runs["crashed"]) == (3, 2, 1, 1)
    assert found.exit_code == 4
    assert [(f["code"], f["subject"]) for f in found.value["findings"]] == [("validator.missing", "draft")]
    assert found.value["attempts"][0]["gates"][0]["missing"] == ["draft"]


def test_a28_a_slice_that_was_never_run_is_reported(shop: Workshop) -> None:
    """A report on a contract of which a slice has no attempt says so, and isn't green."""
    shop.plan += REVIEW
    run = shop.run()
    shop.present(run, {ARTICLE: DRAFT})
    found = report.report(shop.load(run))
    assert (found.value["not_run"], found.exit_code) == (["B"], 4)


def test_a28_a_gate_that_was_interrupted_is_reported(shop: Workshop) -> None:
    """What was expected and never said anything is missing."""
    run = shop.run()
    shop.present(run, {ARTICLE: DRAFT})
    admitted = shop.load(run)
    gate = admitted.journal.state.gates[0]
    body = {"attempt": 1, "slice": "A", "tree": gate.tree, "manifest": gate.manifest, "input": gate.input}
    admitted.journal.append("work.gate", {**body, "expected": ["scope", "draft", "article"], "at_ms": 0})
    found = report.report(shop.load(run))
    assert (found.value["runs"]["missing"], found.exit_code) == (3, 4)


# --- people -------------------------------------------------------------------------------------------------------


def test_a29_promotion_is_a_persons_recorded_decision(shop: Workshop) -> None:
    """Nothing is promoted without an approval; with one, the very tree of the gate is what the ref gets."""
    run = shop.run()
    (verdict,) = shop.work(run)
    with pytest.raises(Refused) as error:
        promote.promote(shop.bench, run, "main")
    assert refused(error) == ["promotion.unapproved"]
    assert error.value.findings[0].undecided
    promote.approve(shop.bench, run, "main", shop.keys["alice"])
    done = promote.promote(shop.bench, run, "main")
    assert shop.head() == done.new
    assert shop.bench.repository.tree_of(done.new) == verdict.tree
    assert report.report(shop.load(run)).value["promotions"][0]["old"] == shop.base
    with pytest.raises(Refused):
        promote.promote(shop.bench, run, "main")


def test_a29_no_way_leads_from_the_gate_to_a_promotion() -> None:
    """Only `promote` moves a ref, and only the command imports it."""
    source = Path(promote.__file__).parent
    movers = [path.name for path in sorted(source.glob("*.py")) if ".move(" in path.read_text()]
    assert movers == ["promote.py"]
    importers = [
        path.name
        for path in sorted(source.parent.rglob("*.py"))
        if "work.promote import" in path.read_text() or "work import promote" in path.read_text()
    ]
    assert importers == ["work.py"]


def test_a30_a_review_needs_a_person_and_leaves_every_byte(shop: Workshop) -> None:
    """Without an approval it is undecided; a review that changes a byte is out of scope; the approval counts."""
    shop.plan += REVIEW
    run = shop.run()
    shop.present(run, {ARTICLE: DRAFT})
    (verdict,) = shop.work(run)
    assert (verdict.slice, codes(verdict), verdict.exit_code) == ("B", ["approval.missing"], 4)
    changed = shop.present(run, {"content/posts/first.md": "x\n"}, "B", "b")
    assert codes(changed) == ["scope.path"]
    promote.approve_slice(shop.bench, run, "B", shop.keys["bob"])
    (verdict,) = shop.work(run)
    assert verdict.verdict == "accepted"
    (slice_,) = [each for each in report.status(shop.bench, shop.load(run))["slices"] if each["name"] == "B"]
    assert slice_["attempts"].isdecimal()  # a review is handed in as often as people need


def test_a32_who_watches_changes_nothing_and_sees_ids_only(shop: Workshop) -> None:
    """An observer that fails or lies has no effect, and no content reaches it."""
    seen: list[Json] = []

    def watch(event: object) -> None:
        seen.append(json.loads(json.dumps(event)))
        raise RuntimeError("approved")

    shop.bench.observer = watch
    shop.spec = shop.spec.replace("A draft", "canary-7f3a")
    run = shop.run()
    verdict = shop.present(run, {ARTICLE: PUBLISHED + "canary-7f3a\n"})
    assert verdict.verdict == "rejected"
    assert {str(event["event"]) for event in seen if isinstance(event, dict)} >= {
        "work.admitted",
        "work.checked",
        "work.verdict",
    }
    assert "canary-7f3a" not in json.dumps(seen)


# --- several slices -----------------------------------------------------------------------------------------------

TWO = """
base = "@BASE@"
[[slice]]
id = "A"
edits = { create = ["content/posts/example.md"] }
needs = ["workspace.edit@1"]
criteria = ["C1"]
[[slice]]
id = "C"
edits = { create = ["content/posts/other.md"], modify = ["content/posts/*.md"] }
needs = ["workspace.edit@1"]
[[slice]]
id = "D"
after = ["A", "C"]
edits = { create = ["content/posts/last.md"] }
needs = ["workspace.edit@1"]
"""


def test_h31_what_is_good_alone_is_judged_together(shop: Workshop) -> None:
    """Two results that don't touch the same file, and break the guard only together, don't make a third eligible."""
    both = "[ -f /candidate/content/posts/example.md ] && [ -f /candidate/content/posts/other.md ]"
    broken = f'if {both}; then echo \'{{"checks": {{"draft": false}}}}\'; exit 1; fi\n'
    shop.write("policy/draft.sh", broken + (shop.root / "policy/draft.sh").read_text())
    shop.plan = TWO
    run = shop.run()
    assert shop.present(run, {ARTICLE: DRAFT}).verdict == "accepted"
    assert shop.present(run, {"content/posts/other.md": "x\n"}, "C", "c").verdict == "accepted"
    with pytest.raises(Refused) as error:
        shop.work(run, only="D")
    assert refused(error) == ["graph.merge_conflict"]
    assert report.report(shop.load(run)).value["unions"][0]["verdict"] == "rejected"


def test_h31_two_versions_of_one_file_are_a_conflict(shop: Workshop) -> None:
    """What two slices changed in different ways isn't merged."""
    shop.plan = TWO.replace(
        'create = ["content/posts/example.md"]',
        'create = ["content/posts/example.md"], modify = ["content/posts/*.md"]',
    )
    run = shop.run()
    shop.present(run, {ARTICLE: DRAFT, "content/posts/first.md": "a\n"})
    shop.present(run, {"content/posts/first.md": "c\n"}, "C", "c")
    with pytest.raises(Refused) as error:
        shop.work(run, only="D")
    assert refused(error) == ["graph.merge_conflict"]


def test_several_results_are_promoted_as_one_that_was_judged(shop: Workshop) -> None:
    """The union of two results is judged as a whole before it can be approved."""
    shop.plan = TWO.rpartition("[[slice]]")[0]
    run = shop.run()
    shop.present(run, {ARTICLE: DRAFT})
    shop.present(run, {"content/posts/other.md": "x\n"}, "C", "c")
    promote.approve(shop.bench, run, "main", shop.keys["alice"])
    done = promote.promote(shop.bench, run, "main")
    flat = shop.bench.repository.flat(done.tree)
    assert {ARTICLE.encode(), b"content/posts/other.md"} <= set(flat)
    assert people.signed(shop.load(run).policy, shop.load(run).journal.state.approvals.popitem()[1]["envelope"])
