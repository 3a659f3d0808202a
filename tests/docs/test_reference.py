"""The reference pages are what the code says: each command, option, setting, error code and JSON key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from addendum.cli.main import main
from addendum.script.rules import __file__ as rules

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.slow
def test_generated_pages_are_up_to_date() -> None:
    """What tools/write_reference.py would write is what is there, so nothing that the code has is left out."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "write_reference.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_links_in_pages_lead_somewhere() -> None:
    """Every relative link in README and manual names a file that exists."""
    import re

    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text("utf-8").replace("\n", " ")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_each_rule_has_a_page_in_the_manual(capsys: pytest.CaptureFixture[str]) -> None:
    """`addendum rule` knows every rule that there is a module for."""
    modules = sorted(path.stem[:3].upper() for path in Path(rules).parent.glob("r[0-9][0-9]_*.py"))
    assert main(["rule", "--json"]) == 0
    assert [page["rule"] for page in json.loads(capsys.readouterr().out)] == modules


@pytest.mark.slow
def test_each_json_key_is_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every key at the top and right beneath it, of every command's JSON, stands in reference/json.md."""
    page = (REFERENCE / "json.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "s.py").write_text(
        "async def orchestrate(ctx, args):\n    return await ctx.run('text.generate', {'prompt': 'x'})\n", "utf-8"
    )
    script = (tmp_path / "s.py").read_text("utf-8").replace("orchestrate(ctx, args)", "orchestrate(ctx, args)  ")
    answers = [{"script": text, "moves": [], "drops": [], "reason": "r"} for text in ("x", script)]
    (tmp_path / "answers.json").write_text(json.dumps(answers), "utf-8")
    for command in (
        "author title --model scripted:answers.json --id written",
        "repair written --show-brief",
        "show written --drafts",
        "show written --draft 2",
        "guide",
        "check s.py",
        "rule R03",
        "run s.py --id one",
        "plan one s.py",
        "revise one s.py",
        "resume one",
        "runs",
        "show one",
        "show one --call orchestrate/text.generate#0",
        "diff one",
        "attempts one",
        "certificate one",
        "cancel one",
        "step --script s.py",
        "demo --seconds 0",
        "sandbox list",
    ):
        main([*command.split(), "--json"])
        value = json.loads(capsys.readouterr().out)
        for key in _keys(value[0] if isinstance(value, list) else value, 2):
            assert f"`{key}`" in page, f"{command}: {key}"


def _keys(value: object, depth: int) -> set[str]:
    if isinstance(value, list):
        return _keys(value[0], depth) if value else set()
    if not isinstance(value, dict) or depth == 0:
        return set()
    free = {"worst_case", "totals", "payload", "result", "args", "grant", "policy", "where", "input", "output"}
    below = [_keys(item, depth - 1) for key, item in value.items() if key not in free]
    return set(value).union(*below)
