"""Which paths may stand in a candidate, and which a pattern covers. Pure; paths are bytes, as in a git tree.

A name that git, a file system or a person may read in two ways is refused: `.git` in every spelling (CVE-2014-9390),
what Windows reserves, control and format characters, forms other than NFC, names that differ by case only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?", re.IGNORECASE)
_GIT_ALIAS: Final = re.compile(r"\.?git(~[0-9]+)?|\.git.*:.*|gi[0-9a-f]{4}~[0-9]+", re.IGNORECASE)
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
MAX_NAME: Final = 255
MAX_PATH: Final = 4096
MAX_DEPTH: Final = 64


def fault(path: bytes) -> tuple[str, str] | None:
    """Return (code, why) for a path that no candidate may have, None for a good one."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return "path.encoding", "its name isn't UTF-8"
    if any(unicodedata.category(letter) in _HIDDEN for letter in text):
        return "path.control", "its name has a control or an invisible character"
    if unicodedata.normalize("NFC", text) != text:
        return "path.not_nfc", "its name isn't in composed form"
    names = text.split("/")
    if len(path) > MAX_PATH or len(names) > MAX_DEPTH:
        return "path.reserved", "its path is too long"
    for name in names:
        why = _reserved(name)
        if why:
            return "path.reserved", why
    if names[-1].casefold() == ".gitmodules":
        return "path.reserved", "it defines submodules"
    return None


def _reserved(name: str) -> str:
    if name in ("", ".", ".."):
        return f"{name!r} is no name"
    if len(name.encode()) > MAX_NAME:
        return "a name in it is too long"
    bare = name.rstrip(". ")
    if _GIT_ALIAS.fullmatch(bare) and bare.casefold() != "git":
        return "it means git's own folder to some system"
    if bare != name:
        return "a name in it ends with a dot or a space"
    if _DEVICE.fullmatch(bare):
        return "a name in it is a device on some system"
    if any(letter in '\\:*?"<>|' for letter in name):
        return "a name in it has a character that is special on some system"
    return ""


def shown(path: bytes) -> str:
    """Return a path as text for a report: what isn't printable is escaped."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )


def folders(path: bytes) -> Iterator[bytes]:
    """Yield the folders that a path lies in, the outermost first."""
    at = path.find(b"/")
    while at != -1:
        yield path[:at]
        at = path.find(b"/", at + 1)


# --- collisions ---------------------------------------------------------------------------------------------------


def collisions(paths: Iterable[bytes], changed: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield (changed path, other) for names that some file system takes for one; folders count too."""
    seen: dict[str, bytes] = {}
    twins: dict[bytes, bytes] = {}
    for path in paths:
        for prefix in (*folders(path), path):
            first = seen.setdefault(_folded(prefix), prefix)
            if first != prefix:
                twins[prefix] = first
                twins[first] = prefix
    if not twins:
        return
    for path in changed:
        for prefix in (*folders(path), path):
            if prefix in twins:
                yield path, twins[prefix]
                break


def _folded(path: bytes) -> str:
    return unicodedata.normalize("NFC", path.decode("utf-8", "surrogateescape")).casefold()


# --- patterns -----------------------------------------------------------------------------------------------------


def pattern_fault(pattern: str) -> tuple[str, str] | None:
    """Return (code, why) for a pattern that can't be granted. A pattern is a path in which `*` stands for letters of
    one name, and which may end in `/**` for everything below a folder."""
    if pattern == "**":
        return None
    body = pattern.removesuffix("/**")
    if "**" in body:
        return "path.reserved", "** may stand at its end only"
    return fault(body.replace("*", "x").encode("utf-8", "surrogatepass"))


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern covers a path; also whether it covers everything that another pattern does, where `*` of the
    other is a letter that only a `*` of this one takes."""
    ours, theirs = pattern.split("/"), path.split("/")
    for index, segment in enumerate(ours):
        if segment == "**" and index == len(ours) - 1:
            return len(theirs) > index
        if index >= len(theirs) or theirs[index] == "**":
            return False
        if not _segment(segment, theirs[index]):
            return False
    return len(ours) == len(theirs)


covers = matches


def _segment(pattern: str, name: str) -> bool:
    parts = pattern.split("*")
    if len(parts) == 1:
        return pattern == name
    if not name.startswith(parts[0]) or len(name) < len(parts[0]) + len(parts[-1]) or not name.endswith(parts[-1]):
        return False
    at, end = len(parts[0]), len(name) - len(parts[-1])
    for part in parts[1:-1]:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def granted(patterns: Iterable[str], path: bytes) -> bool:
    """Whether one of the patterns covers a path of a tree."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return any(matches(pattern, text) for pattern in patterns)


def exceeding(asked: Mapping[str, Iterable[str]], ceiling: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, str]]:
    """Yield (verb, pattern) for what is asked beyond the ceiling."""
    for verb, patterns in asked.items():
        allowed = tuple(ceiling.get(verb, ()))
        for pattern in patterns:
            if not any(covers(above, pattern) for above in allowed):
                yield verb, pattern
