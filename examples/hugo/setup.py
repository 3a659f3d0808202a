"""Set the example up in a folder: a bare repository with the site, a person's keys, and the three files.

python examples/hugo/setup.py FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WHEN = "2026-01-01T00:00:00Z"
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Example"), ("EMAIL", "example@example.org"), ("DATE", WHEN))
}


def commit(repository: Path, site: Path) -> str:
    """Make a bare repository with a site as the only commit of `main`; return the commit."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env = {**ours, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(repository)], check=True, env=env)
    env |= {"GIT_DIR": str(repository), "GIT_WORK_TREE": str(site)}
    subprocess.run(["git", "add", "-A"], check=True, env=env, cwd=site)
    subprocess.run(["git", "commit", "-q", "-m", "The site"], check=True, env=env, cwd=site)
    return subprocess.check_output(["git", "rev-parse", "main"], env=env, text=True).strip()


def key(path: Path) -> str:
    """Make a person's key; return the public part."""
    command = [sys.executable, "-m", "addendum", "work", "key", str(path), "--json"]
    return str(json.loads(subprocess.check_output(command, text=True))["public"])


def main() -> None:
    """Write everything into the folder that was named."""
    folder = Path(sys.argv[1])
    shutil.copytree(HERE / "policy", folder / "policy")
    base = commit(folder / "site.git", HERE / "site")
    filled = {"@BASE@": base}
    filled |= {f"@{name.upper()}@": key(folder / f"{name}.pem") for name in ("alice", "bob")}
    for source, target in (
        (HERE / "spec.toml", folder / "spec.toml"),
        (HERE / "plan.toml", folder / "plan.toml"),
        (HERE / "script.py", folder / "script.py"),
        (HERE / "policy" / "policy.toml", folder / "policy" / "policy.toml"),
    ):
        text = source.read_text("utf-8")
        for mark, value in filled.items():
            text = text.replace(mark, value)
        target.write_text(text, "utf-8")
    print(f"base {base}")


if __name__ == "__main__":
    main()
