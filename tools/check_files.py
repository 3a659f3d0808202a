"""Look through the text of every file of the repository for what may not be committed.

- an address of a package registry, or an option that names one: which registry is used is the reader's choice
- an absolute path of somebody's machine
- a module with a name that says nothing about what is in it
- a note to do something later, without an issue that says what

Files are those that git knows or would add. An exception is an entry with a reason in check_files.toml.

Exit code 0: nothing found; 1: something is.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

# Written so that no pattern matches itself.
TEXT: Final = {
    "registry": re.compile(
        r"\bpy(?:pi|thonhosted)\.(?:org|io)\b|\b(?:registry|www)\.(?:npm|yarn)[a-z]*\.|\b(?:deb|security)\.debian\."
        r"|--(?:extra-)?index(?:-url)\b|--find(?:-links)\b|--trusted(?:-host)\b"
    ),
    "path": re.compile(r"(?<![\w.~*/-])/(?:(?:root|opt|Users)/\S|home/\w+/|work/(?:main|notes|shared|\.\w+)\b)"),
}
LATER: Final = re.compile(r"\b(?:TO(?:DO)|FIX(?:ME)|X(?:XX))\b(?!\(#\d+\))")
CODE: Final = {".py", ".sh", ".toml", ".sql", ".js", ".css", ".html", ".yaml", ".yml", ""}
EMPTY_NAMES: Final = {"utils", "helpers", "common", "types"}


def files() -> list[str]:
    """Return the repository's files, relative to its root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    return sorted(name for name in output.decode().split("\0") if name and (ROOT / name).is_file())


def faults(name: str) -> Iterator[tuple[str, str]]:
    """Yield (check, sentence) for each fault of one file."""
    path = PurePosixPath(name)
    if path.suffix == ".py":
        for part in (*path.parent.parts, path.stem):
            if part.lstrip("_") in EMPTY_NAMES:
                yield "name", f"{name}: a module named `{part}` says nothing; name it after what is in it"
    try:
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return  # not text
    for number, line in enumerate(lines, 1):
        for check, pattern in TEXT.items():
            if found := pattern.search(line):
                yield check, f"{name}:{number}: {check}: {found[0]}"
        if path.suffix in CODE and (found := LATER.search(line)):
            yield "later", f"{name}:{number}: `{found[0]}` without an issue; write {found[0]}(#number)"


def main() -> int:
    """Print each fault that no exception covers."""
    exceptions: dict[str, dict[str, str]] = tomllib.loads(
        (ROOT / "tools" / "check_files.toml").read_text(encoding="utf-8")
    )
    found = []
    needed = set()
    names = files()
    for name in names:
        for check, sentence in faults(name):
            if check in exceptions.get(name, {}):
                needed.add((name, check))
            else:
                found.append(sentence)
    for name, entry in exceptions.items():
        found += [
            f"check_files.toml: {name} needs no exception `{check}`" for check in entry if (name, check) not in needed
        ]
    print(f"{len(names)} files, {len(found)} faults")
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
