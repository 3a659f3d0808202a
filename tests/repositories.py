"""A real git repository for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, with nobody's configuration, and return what it says."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


def repository(folder: Path) -> str:
    """Make a repository with two commits, and return the first one's id."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a.txt").write_text("one\n", "utf-8")
    (folder / "b.bin").write_bytes(b"\0\1\2")
    (folder / "gone.txt").write_text("gone\n", "utf-8")
    (folder / ".gitignore").write_text("*.o\n", "utf-8")
    (folder / "link").symlink_to("a.txt")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "first")
    (folder / "a.txt").write_text("two\n", "utf-8")
    git(folder, "commit", "--quiet", "--all", "-m", "second")
    return git(folder, "rev-parse", "HEAD~1")
