"""Reading what a person passes: scripts, args, policies, grants. Everything malformed is a `UsageError`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from addendum.errors import ConfigError, NotFound, NotJson, UsageError

if TYPE_CHECKING:
    from addendum.authority.grant import Grant
    from addendum.canon import Json
    from addendum.kernel.policy import Allowances

MAX_FILE = 16 * 1024 * 1024
"""Bytes that are read of any one file or of standard input."""


def read_bytes(name: str, what: str) -> bytes:
    """Read a file, or standard input for `-`. Raises `NotFound` and `UsageError`."""
    if name == "-":
        if sys.stdin.isatty():
            sys.stderr.write(f"Reading {what} from the terminal; end with Ctrl-D.\n")
        data = sys.stdin.buffer.read(MAX_FILE + 1)
    else:
        try:
            with Path(name).open("rb") as file:
                data = file.read(MAX_FILE + 1)
        except FileNotFoundError:
            raise NotFound(
                f"There is no file {name}.", hint=f"Name a file with {what}, or - for standard input.", path=name
            ) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"{name} can't be read: {reason}.", hint=f"Name a file with {what}.", path=name) from None
    if len(data) > MAX_FILE:
        raise UsageError(
            f"{name} is larger than {MAX_FILE // (1024 * 1024)} MiB.", hint=f"Name a file with {what}.", path=name
        )
    return data


def read_text(name: str, what: str) -> str:
    """Read a UTF-8 text file, or standard input for `-`."""
    try:
        return read_bytes(name, what).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name} is no UTF-8 text (byte {error.start}).", hint=f"Save {what} as UTF-8.", path=name
        ) from None


def script(name: str) -> str:
    """Read a workflow script."""
    return read_text(name, "a workflow script")


def label(name: str) -> str:
    """Return what a script is called in lists: its file's name, "" for standard input. A name needn't be text."""
    return "" if name == "-" else os.fsencode(Path(name).name).decode("utf-8", "replace")


def args(given: str | None, default: Any, what: str = "args") -> Json:
    """Read `--args`: JSON text, a file, `@file`, or `-`. Returns `default` when it wasn't given.

    `what` is what the value is to a person, for other options that are given in the same ways.
    """

    if given is None:
        value: Json = default
        return value
    text = given.strip()
    if text in ("", "@"):
        raise UsageError(f"The {what} are empty." if what == "args" else f"The {what} is empty.", hint=_WAYS)
    if text == "-":
        return parsed("-", read_text("-", f"the {what}"))
    if text.startswith("@"):
        return parsed(text[1:], read_text(text[1:], f"the {what} as JSON"))
    if text[:1] in ("{", "[", '"') or not _names_a_file(text):
        return parsed(f"The {what}", text)
    return parsed(text, read_text(text, f"the {what} as JSON"))


_WAYS = "Write JSON, the name of a file with it, or - for standard input."


def _names_a_file(text: str) -> bool:
    try:
        return Path(text).exists() or not _is_json(text)
    except OSError:  # it is too long for a name, say
        return False


def _is_json(text: str) -> bool:
    from addendum import canon

    try:
        canon.parse(text)
    except NotJson:
        return False
    return True


def parsed(name: str, text: str) -> Json:
    """Parse what stands in a file. Raises `NotJson`, which names the file."""
    from addendum import canon

    try:
        return canon.parse(text)
    except NotJson as error:
        where = "Standard input" if name == "-" else name
        raise NotJson(f"{where}: {error.message}", hint=error.hint, where=error.where) from None


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Read options of the form NAME=VALUE. Raises `UsageError`, for a name that stands twice too."""
    found: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise UsageError(
                f"{option} {item!r} has no NAME=VALUE.", hint=f"Write it as in {option} {_EXAMPLES[option]}."
            )
        if name in found:
            raise UsageError(f"{option} names {name!r} twice.", hint="Keep one of them.")
        found[name] = value
    return found


_EXAMPLES = {"--policy": "orphans=stop", "--move": "'orchestrate/image.generate#0=gen/image.generate#0'"}


def policies(given: Sequence[str] | None, relocation: str | None) -> dict[str, object]:
    """Read `--policy` and `--relocation`. Raises `UsageError` and `ConfigError`."""
    from addendum.kernel.policy import Policy

    found: dict[str, object] = dict(pairs(given, "--policy"))
    if relocation is not None:
        if found.get("relocation", relocation) != relocation:
            raise UsageError("--relocation and --policy relocation=… say different things.", hint="Keep one of them.")
        found["relocation"] = relocation
    Policy().override(found)
    return found


def allowances(
    supersede: Sequence[str] | None, retry: str, drop: Sequence[str] | None = None, move: Sequence[str] | None = None
) -> Allowances:
    """Read what the operator allows for one attempt. Raises `UsageError`."""
    from addendum.kernel.policy import Allowances

    if retry not in ("open", "all", "none"):
        raise UsageError(f"--retry can't be {retry!r}.", hint="It is open, all or none.")
    named = list(supersede or ())
    for name in [item for item in named if item != "changed"]:
        _identity(name)
    allowed: bool | frozenset[str] = True if "changed" in named else frozenset(named) if named else False
    return Allowances(
        supersede=allowed,
        retry=retry,  # type: ignore[arg-type]
        drops=tuple(drop or ()),
        moves=pairs(move, "--move"),
    )


def _identity(text: str) -> None:
    from addendum import identity

    try:
        identity.parse(text)
    except ValueError:
        raise UsageError(
            f"--supersede {text!r} is neither `changed` nor an identity.", hint="`addendum show RUN` lists identities."
        ) from None


def grant(name: str, known: Mapping[str, object]) -> Grant:
    """Read a grant from a TOML or JSON file; one that names only limits grants all that are `known` under them.

    Raises `ConfigError` when it is malformed or names what isn't known.
    """
    import tomllib

    from addendum import canon
    from addendum.runs import given

    text = read_text(name, "a grant")
    try:
        data: Any = canon.parse(text) if text.lstrip()[:1] == "{" else tomllib.loads(text)
    except (NotJson, tomllib.TOMLDecodeError) as error:
        reason = str(error).rstrip(".")
        raise ConfigError(f"The grant {name} can't be read: {reason}.", hint="It is a TOML or JSON file.") from None
    given.says_something(name, data)
    try:
        return given.grant(data, known)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.message}", hint=error.hint, **error.facts) from None
