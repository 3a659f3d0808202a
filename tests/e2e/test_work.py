"""Work contracts by the command, on the Hugo site in examples/hugo: the essay's table, and on to a promotion."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import COMMAND, Cli
from tests.sandboxes import need
from tests.workshop import git

EXAMPLE = Path(__file__).parents[2] / "examples" / "hugo"
ADMIT = ("work", "admit", "--spec", "spec.toml", "--plan", "plan.toml", "--policy", "policy/policy.toml")

pytestmark = pytest.mark.slow


@pytest.fixture
def site(cli: Cli) -> Cli:
    """The example, set up in the command's folder."""
    need("bwrap")
    if shutil.which("hugo") is None:
        if "hugo" in os.environ.get("ADDENDUM_TEST_REQUIRE", "").split():
            pytest.fail("hugo has to be here")
        pytest.skip("hugo isn't here")
    subprocess.run([sys.executable, str(EXAMPLE / "setup.py"), str(cli.folder)], check=True, capture_output=True)
    return cli


def admitted(site: Cli) -> str:
    """Admit the example's plan; return the contract's file."""
    done = site(*ADMIT, "--repo", "site.git", "--out", "contract.json", "--json")
    assert done.code == 0, done.out + done.err
    return "contract.json"


def head(site: Cli) -> str:
    """Return where the repository's `main` is."""
    return git("-C", str(site.folder / "site.git"), "rev-parse", "main")


def test_the_essays_table_on_a_real_site(site: Cli, tmp_path: Path) -> None:
    """A1 to A4, A17: three rejections with their reasons, while Hugo's own build is green, and one acceptance."""
    contract, before = admitted(site), head(site)
    gate = ("work", "gate", contract, "--slice", "A", "--json")

    extra = site(*gate, "--from", "policy/cand/extra_config")
    assert (extra.code, extra.json["code"]) == (3, "scope.path")
    assert extra.json["findings"][0]["evidence"] == {"path": "config.toml", "kind": "modify"}

    published = site(*gate, "--from", "policy/cand/published")
    assert (published.code, published.json["code"]) == (3, "validator.failed")
    assert [finding["subject"] for finding in published.json["findings"]] == ["hugo-draft"]
    assert published.json["checks"]["hugo-build"] == "green"
    tree = tmp_path / "tree"
    shutil.copytree(EXAMPLE / "site", tree)
    shutil.copytree(EXAMPLE / "policy/cand/published", tree, dirs_exist_ok=True)
    assert (
        subprocess.run(["hugo", "--renderToMemory", "-s", str(tree)], capture_output=True, check=False).returncode == 0
    )

    stale = site(*gate, "--from", "policy/cand/good", "--base", "a" * 40)
    assert (stale.code, stale.json["code"]) == (3, "provenance.stale_base")
    assert stale.json["findings"][0]["evidence"] == {"expected": before, "actual": "a" * 40}

    good = site(*gate, "--from", "policy/cand/good")
    assert (good.code, good.json["verdict"], good.json["scope"]) == (0, "accepted", "slice-gate")
    assert head(site) == before
    assert site("work", "status", contract, "--json").json["promoted"] is False


def test_h19_what_hugo_and_a_parser_read_in_two_ways_is_refused(site: Cli) -> None:
    """The validator asks Hugo and wants the one plain form: no quoted, doubled or missing draft, no other format."""
    contract = admitted(site)
    for candidate in ("draft_string", "draft_twice", "no_draft", "toml_front_matter"):
        done = site("work", "gate", contract, "--slice", "A", "--from", f"policy/cand/{candidate}", "--json")
        assert (done.code, done.json["code"]) == (3, "validator.failed"), candidate


def test_h20_a_draft_that_another_file_publishes_is_refused(site: Cli) -> None:
    """With the site's settings granted, the guard still sees that drafts are published."""
    for name in ("plan.toml", "policy/policy.toml"):
        path = site.folder / name
        text = path.read_text("utf-8")
        text = text.replace(
            'create = ["content/posts/example-hugo.md"] }',
            'create = ["content/posts/example-hugo.md"], modify = ["config.toml"] }',
        )
        text = text.replace('modify = ["content/posts/*.md"]', 'modify = ["config.toml"]').replace(
            '"config.toml", ".github', '".github'
        )
        path.write_text(text, "utf-8")
    done = site("work", "gate", admitted(site), "--slice", "A", "--from", "policy/cand/extra_config", "--json")
    assert (done.code, done.json["code"], done.json["checks"]["scope"]) == (3, "validator.failed", "green")


def test_from_a_plan_to_a_promotion(site: Cli) -> None:
    """An executor writes, an editor approves the review, a person promotes; every attempt is reported and verifies."""
    contract, before = admitted(site), head(site)
    ran = site("work", "run", contract, "--json")
    assert (ran.code, [(v["slice"], v["verdict"], v["code"]) for v in ran.json["verdicts"]]) == (
        4,
        [("A", "accepted", None), ("B", "undecided", "approval.missing")],
    )
    assert site("work", "approve", contract, "--slice", "B", "--key", "bob.pem").code == 0
    assert site("work", "run", contract).code == 0
    unapproved = site("work", "promote", contract, "--to", "main", "--json")
    assert (unapproved.code, unapproved.json["code"]) == (4, "promotion.unapproved")
    assert head(site) == before
    assert site("work", "approve", contract, "--promote", "main", "--key", "alice.pem").code == 0
    done = site("work", "promote", contract, "--to", "main", "--json")
    assert (done.code, done.json["commit"]) == (0, head(site))
    changed = git("-C", str(site.folder / "site.git"), "diff", "--name-only", before, "main")
    assert changed == "content/posts/example-hugo.md"
    found = site("work", "report", contract, "--json")
    assert (found.code, found.json["accepted_unaided"], found.json["runs"]["missing"]) == (0, 1, 0)
    assert len(found.json["attempts"]) == 3
    shown = site("work", "show", contract, "1", "--json").json
    assert shown["changes"] == [{"path": "content/posts/example-hugo.md", "kind": "create"}]
    verified = site("work", "verify", contract, "--spec", "spec.toml", "--plan", "plan.toml")
    assert (verified.code, verified.out.strip()) == (0, "integrity: ok")
    assert not {"approved", "safe"} & set(verified.out.split())
    git("-C", str(site.folder / "site.git"), "fsck", "--strict")


@pytest.mark.skipif(os.geteuid() != 0, reason="a confinement within a confinement needs root")
def test_a17_admission_is_the_same_where_nothing_can_be_written(site: Cli) -> None:
    """With the repository and the policy read-only, and no network, the contract is the same."""
    command = [*ADMIT, "--repo", "site.git", "--json"]
    first = site(*command)
    kept = site.folder.parent / "kept"
    kept.mkdir()
    view = ("--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--ro-bind", str(site.folder), str(site.folder))
    second = subprocess.run(
        ["bwrap", *view, "--unshare-net", "--cap-add", "ALL", str(COMMAND), *command, "--store", f"{kept}/work.db"],
        cwd=site.folder,
        env=site.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (first.code, second.returncode) == (0, 0), second.stdout + second.stderr
    assert json.loads(second.stdout)["id"] == first.json["id"]


def test_a_rejection_is_typed_on_stdout(site: Cli) -> None:
    """A plan that is refused is an answer: JSON on stdout, exit code 3, each reason with a way out."""
    path = site.folder / "plan.toml"
    path.write_text(path.read_text("utf-8").replace("workspace.edit@1", "hugo.lint@1"), "utf-8")
    done = site(*ADMIT, "--repo", "site.git", "--json")
    assert (done.code, done.json["admitted"]) == (3, False)
    assert [(each["code"], each["layer"]) for each in done.json["findings"]] == [("capability.missing", "capability")]
    assert done.json["findings"][0]["hint"]
    assert not done.err


def test_what_is_not_there_is_usage_and_what_was_edited_is_refused(site: Cli) -> None:
    """A contract, a slice or a key that doesn't exist is no rejection; a contract whose text was changed is one."""
    assert site("work", "run", "nothing").code == 2
    contract = admitted(site)
    assert site("work", "show", contract, "9").code == 2
    assert site("work", "gate", contract, "--slice", "Z", "--from", "policy").code == 2
    assert site("work", "approve", contract, "--slice", "B", "--key", "nobody.pem").code == 2
    path = site.folder / contract
    body = json.loads(path.read_text("utf-8"))
    body["contract"]["slices"][0]["attempts"] = 99
    path.write_text(json.dumps(body), "utf-8")
    done = site("work", "run", "contract.json", "--json")
    assert (done.code, done.json["code"]) == (3, "provenance.mismatch")
