"""A small site under work contracts, for tests: a repository, an operator's policy with quick validators, and keys.

Everything is real but the site and the validators' wits: git objects, the store, bubblewrap, signatures.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sandboxes import need

from addendum import signing, wiring
from addendum.config import Settings
from addendum.signing import Key
from addendum.work import execute, present
from addendum.work.admission import Admission, Files, admit_plan
from addendum.work.bench import Admitted, Bench, load
from addendum.work.gate import Verdict
from addendum.work.objects import Item, Repository, blob_id
from addendum.work.present import Given

ARTICLE = "content/posts/example.md"
DRAFT = "---\ndraft: true\n---\ntext\n"
PUBLISHED = "---\ndraft: false\n---\ntext\n"
BASE = {
    "config.toml": "title = 'x'\n",
    "content/posts/first.md": "first\n",
    "tools/validate.py": "print('ok')\n",
}
SPEC = """
goal = "A draft"
[[invariant]]
id = "I1"
text = "It SHALL NOT be publishable"
validators = ["draft"]
[[criterion]]
id = "C1"
text = "There SHALL be an article"
validators = ["article"]
"""
PLAN = """
base = "@BASE@"
[[slice]]
id = "A"
intent = "write"
edits = { create = ["content/posts/example.md"] }
needs = ["workspace.edit@1"]
attempts = 2
seconds = 20
"""
REVIEW = """
[[slice]]
id = "B"
after = ["A"]
intent = "review"
needs = ["approval.request@1"]
"""
POLICY = """
reference = "good"
default_route = "write"
[ceiling]
edits = { create = ["content/posts/*.md"], modify = ["content/posts/*.md"] }
protected = ["config.toml", "tools/**", ".gitattributes", "conftest.py", "pytest.ini"]
max_files = 5
max_bytes = 20000
max_file_bytes = 10000
attempts = 3
seconds = 30
[ceiling.grant.capabilities."workspace.write"]
[ceiling.grant.capabilities."text.generate"]
limits = [{ meter = "calls", max = 3 }]
[confines]
processes = 40
file_bytes = 1000000
workspace_bytes = 2000000
workspace_entries = 300
output = 2000
[capability."workspace.edit"]
version = "1"
modes = ["write"]
limits = [{ meter = "files", max = 9 }]
[capability."approval.request"]
version = "1"
person = true
[capability."web.search"]
version = "1"
modes = ["network"]
[route.write]
modes = ["write"]
argv = ["/bin/sh", "-c", '''@COMMAND@''']
[route.script]
modes = ["write"]
[route.idle]
argv = ["/bin/true"]
[validator.article]
role = "goal"
argv = ["/bin/sh", "/policy/article.sh"]
files = ["article.sh"]
expects = ["there"]
timeout = 20
[validator.draft]
role = "guard"
argv = ["/bin/sh", "/policy/draft.sh"]
files = ["draft.sh"]
expects = ["draft"]
mutants = ["published"]
timeout = 20
[key.alice]
public = "@ALICE@"
[key.bob]
public = "@BOB@"
[key.agent]
public = "@AGENT@"
[role]
promote = ["key:alice"]
approve = ["key:bob", "key:agent"]
editor = ["key:bob", "key:agent"]
"""
WRITE = "printf -- '---\\ndraft: true\\n---\\ntext\\n' > content/posts/example.md"
DRAFT_SH = """f=/candidate/content/posts/example.md
if [ ! -f $f ] || grep -q '^draft: true$' $f; then echo '{"checks": {"draft": true}}'; exit 0; fi
echo '{"checks": {"draft": false}}'; exit 1
"""
ARTICLE_SH = """if [ -f /candidate/content/posts/example.md ]; then echo '{"checks": {"there": true}}'; exit 0; fi
echo '{"checks": {"there": false}}'; exit 1
"""


@dataclass(slots=True)
class Workshop:
    """The site in a folder. `command` is what the executor runs; texts may be changed before `admit`."""

    root: Path
    spec: str = SPEC
    plan: str = PLAN
    policy: str = POLICY
    command: str = WRITE
    keys: dict[str, Key] = field(default_factory=dict)
    base: str = ""
    bench: Bench = field(init=False)

    def set_up(self) -> None:
        """Make the repository, the keys and the validators."""
        git("init", "-q", "--bare", "-b", "main", str(self.root / "r.git"))
        with Repository(self.root / "r.git") as repository:
            flat = {path.encode(): Item(0o100644, blob_id(text.encode())) for path, text in BASE.items()}
            tree = repository.write(flat, [text.encode() for text in BASE.values()])
            self.base = repository.commit(tree, [], "base", 1_700_000_000)
            assert repository.move("refs/heads/main", "0" * 40, self.base)
        self.keys = {name: signing.make(self.root / f"{name}.pem") for name in ("alice", "bob", "agent")}
        self.write("policy/draft.sh", DRAFT_SH)
        self.write("policy/article.sh", ARTICLE_SH)
        self.write(f"policy/good/{ARTICLE}", DRAFT)
        self.write(f"policy/published/{ARTICLE}", PUBLISHED)
        self.bench = wiring.open_bench(self.settings, self.root / "r.git", "test")

    def set_up_again(self) -> None:
        """Open what was closed, as another process would."""
        self.bench = wiring.open_bench(self.settings, self.root / "r.git", "test")

    @property
    def settings(self) -> Settings:
        """Where everything is kept."""
        return Settings(store=str(self.root / "kept" / "work.db"), backoff=0.0, operator="operator")

    def close(self) -> None:
        """Let go of everything."""
        self.bench.repository.close()
        self.bench.scripts.sandbox.close()
        self.bench.store.close()

    def write(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def filled(self, text: str) -> str:
        """Return a text with the marks replaced."""
        marks = {"@BASE@": self.base, "@COMMAND@": self.command}
        marks |= {f"@{name.upper()}@": key.public for name, key in self.keys.items()}
        for mark, value in marks.items():
            text = text.replace(mark, value)
        return text

    def files(self) -> Files:
        """Return what is handed in."""
        path = self.write("policy/policy.toml", self.filled(self.policy))
        return Files(
            spec=self.filled(self.spec).encode(),
            plan=self.filled(self.plan).encode(),
            policy=path.read_bytes(),
            path=path,
            scripts=lambda name: (self.root / name).read_text("utf-8"),
        )

    def admit(self, supersedes: str = "") -> Admission:
        """Admit the plan as it stands."""
        return admit_plan(self.bench, self.files(), supersedes=supersedes)

    def run(self) -> str:
        """Admit the plan, which is good, and return the contract's journal."""
        found = self.admit()
        assert found.contract is not None, [finding.to_json() for finding in found.findings]
        return found.run

    def refused(self) -> set[str]:
        """Admit the plan, which isn't good, and return the codes."""
        found = self.admit()
        assert found.contract is None
        return {finding.code for finding in found.findings}

    def work(self, run: str, **options: Any) -> list[Verdict]:
        """Execute what is eligible."""
        return execute.work(self.bench, run, **options)

    def overlay(self, files: Mapping[str, str], name: str = "candidate") -> Given:
        """Return a candidate as a folder that is laid over."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        for path, text in files.items():
            self.write(f"{name}/{path}", text)
        return Given(overlay=folder)

    def present(self, run: str, files: Mapping[str, str], slice_: str = "A", name: str = "candidate") -> Verdict:
        """Have a candidate judged."""
        return present.present(self.bench, run, slice_, self.overlay(files, name))

    def load(self, run: str) -> Admitted:
        """Return a contract as it stands."""
        return load(self.bench, run)

    def head(self) -> str | None:
        """Return where `main` is."""
        return self.bench.repository.ref("refs/heads/main")


def git(*arguments: str) -> str:
    """Run git with nothing of the user's."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return subprocess.run(["git", *arguments], check=True, env=env, capture_output=True, text=True).stdout.strip()


@contextmanager
def workshop(root: Path) -> Iterator[Workshop]:
    """Give a workshop in a folder; skip the test where nothing can be confined."""
    need("bwrap")
    found = Workshop(root)
    found.set_up()
    try:
        yield found
    finally:
        found.close()


def codes(verdict: Verdict) -> list[str]:
    """Return a verdict's codes."""
    return [finding.code for finding in verdict.findings]
