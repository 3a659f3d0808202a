"""The services file: who does the work of capabilities, and who writes scripts, as a person writes it (TOML).

    [secret]
    openai = "env:OPENAI_API_KEY"

    [author]
    model = "openai:gpt-5-mini"
    secret = "openai"

    [capability."image.generate"]
    kind = "image"
    ...

Values of secrets never stand here, only where they lie. Every error names the table and the key, and what it can be;
nothing that was written is repeated where a secret may have been written by mistake.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, Self, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from addendum.credentials import InClear, guard
from addendum.errors import ConfigError, NotFound, UsageError

MANUAL: Final = "docs/reference/services.md"
MOST: Final = 256 * 1024
"""Bytes of a services file."""
_TABLES: Final = ("secret", "author", "capability")


_TELLING: Final = re.compile(r"[@?#=&]")
"""What addresses have before a login or a key, and no name has."""
_SHOWN: Final = 20
"""Characters of a word that is shown though it isn't known: keys are longer."""
M = TypeVar("M", bound=BaseModel)


@runtime_checkable
class Naming(Protocol):
    """A specification that names secrets."""

    def handles(self) -> Iterable[str]:
        """Return their handles."""


class Author(BaseModel):
    """Who writes and repairs scripts."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: str = Field(min_length=1, description="`provider:model`, or `scripted:FILE.json` for a scripted one.")
    url: str = Field(default="", description="Another address that speaks the provider's protocol.")
    secret: str = Field(default="", description="The handle of its key.")
    max_tokens: int = Field(default=16_000, gt=0, le=1_000_000, description="The most tokens of one answer.")
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds for an answer.")
    retries: int = Field(
        default=2, ge=0, le=10, description="Tries after a failure that may pass, beyond the attempts of a loop."
    )
    price_usd: Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})?$")] | None = Field(
        default=None, description="The most of one call, where no price list has the model."
    )

    def handles(self) -> tuple[str, ...]:
        """Return the handle of its key."""
        return (self.secret,) if self.secret else ()

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if self.secret:
            guard([("url", self.url)])
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicesFile:
    """What a services file says. `secrets` maps handles to where they lie; `capabilities` are the specifications of
    services by name, each of its kind's own class; `folder` is what relative paths in it are of."""

    path: str
    folder: Path
    secrets: Mapping[str, str] = field(default_factory=dict)
    author: Author | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)


def is_named(provider: str) -> bool:
    """Whether a provider's name is that of a services file."""
    return provider.endswith(".toml")


def load(path: Path, kinds: Mapping[str, Callable[[], type[BaseModel]]]) -> ServicesFile:
    """Read a services file. `kinds` returns the specification's class for each kind. Raises `NotFound`, `UsageError`
    for a file that can't be read, `ConfigError` for what stands in it."""
    try:
        data = path.read_bytes()[: MOST + 1]
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise NotFound(
            f"There is no services file {path}.", hint=f"Write one as in {MANUAL}.", path=str(path)
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise UsageError(
            f"The services file {path} can't be read: {reason}.", hint=f"Write one as in {MANUAL}."
        ) from None
    if len(data) > MOST:
        raise UsageError(f"The services file {path} has more than {MOST:,} bytes.", hint="Is it the right file?")
    return parse(text, str(path), path.absolute().parent, kinds)


def parse(text: str, name: str, folder: Path, kinds: Mapping[str, Callable[[], type[BaseModel]]]) -> ServicesFile:
    """Read a services file's text; `name` is what errors call it. Raises `UsageError`, `ConfigError`."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"The services file {name} is no TOML: {error}.", hint=f"Write it as in {MANUAL}.") from None
    _known(data, _TABLES, f"{name} has", "table")
    secrets = _table(data.get("secret", {}), f"{name}: [secret]")
    for handle, source in secrets.items():
        if not isinstance(source, str):
            raise ConfigError(
                f"In {name}, secret.{handle} is no text.", hint="Write env:NAME, file:PATH or keyring:SERVICE/USER."
            )
    author = None
    if "author" in data:
        author = _checked(Author, _table(data["author"], f"{name}: [author]"), name, "author")
        _secrets(author, secrets, name, "author")
    capabilities: dict[str, BaseModel] = {}
    for each, table in _table(data.get("capability", {}), f"{name}: [capability]").items():
        where = f'capability."{each}"'
        capabilities[each] = spec = _spec(_table(table, f"{name}: [{where}]"), name, where, kinds)
        if isinstance(spec, Naming):
            _secrets(spec, secrets, name, where)
    return ServicesFile(path=name, folder=folder, secrets=secrets, author=author, capabilities=capabilities)


def _spec(
    table: Mapping[str, Any], name: str, where: str, kinds: Mapping[str, Callable[[], type[BaseModel]]]
) -> BaseModel:
    kind = table.get("kind")
    if kind is None:
        raise ConfigError(f"In {name}, {where} doesn't say its kind.", hint=f'Write kind = "…": {_list(kinds)}.')
    if not isinstance(kind, str) or kind not in kinds:
        raise ConfigError(
            f"In {name}, {where} has a kind that isn't there{_named(kind)}.",
            hint=f"{_close(str(kind), kinds)}The kinds are {_list(kinds)}.",
        )
    return _checked(kinds[kind](), table, name, where)


def _checked(model: type[M], table: Mapping[str, Any], name: str, where: str) -> M:
    """Return a table as a model. Raises `ConfigError`."""
    try:
        return model(**table)
    except ValidationError as error:
        raise _wrong(model, error, name, where) from None


def _wrong(model: type[BaseModel], error: ValidationError, name: str, where: str) -> ConfigError:
    """Return the error for the first thing that is wrong. The value isn't shown: a key may have been pasted there."""
    first = error.errors(include_url=False, include_context=True, include_input=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InClear):
        return ConfigError(
            f"In {name}, {where} {str(cause).removeprefix('it ')}.",
            hint="Write https://, or send no secret there. http:// is for this machine: localhost, 127.0.0.1 or [::1].",
            place=f"{where}.{cause.key}",
        )
    loc = tuple("…" if _TELLING.search(str(part)) else str(part) for part in first["loc"])
    place = ".".join([where, *loc])
    keys = ", ".join(model.model_fields)
    match first["type"]:
        case "extra_forbidden":
            close = _close(loc[-1], model.model_fields) if len(loc) == 1 else ""
            return ConfigError(
                f"In {name}, {where} has no key {loc[-1]!r}{_inside(loc)}.",
                hint=f"{close}It has {keys}." if len(loc) == 1 else f"See {MANUAL}.",
                place=place,
            )
        case "missing":
            return ConfigError(f"In {name}, {place} is missing.", hint=f"Write it; see {MANUAL}.", place=place)
        case "string_type":
            # Most often a price as a number, which has no exact form: TOML has floats.
            return ConfigError(
                f"In {name}, {place} is wrong: it has to be text.",
                hint=f'Write it in quotes, as in {loc[-1]} = "0.04".' if loc[-1].endswith("_usd") else f"See {MANUAL}.",
                place=place,
            )
        case _:
            reason = first["msg"].removeprefix("Value error, ").rstrip(".")
            return ConfigError(f"In {name}, {place} is wrong: {reason}.", hint=f"See {MANUAL}.", place=place)


def _inside(loc: tuple[str, ...]) -> str:
    return f" in {'.'.join(loc[:-1])}" if len(loc) > 1 else ""


def _named(word: object) -> str:
    """Return a word that isn't known, quoted behind a colon; nothing for one that is too long to be a name: it may be
    the key itself."""
    return f": {word!r}" if len(str(word)) <= _SHOWN else ""


def _secrets(spec: Naming, secrets: Mapping[str, Any], name: str, where: str) -> None:
    """Raise `ConfigError` for a handle that isn't there."""
    for handle in spec.handles():
        _handle(handle, secrets, name, where)


def _handle(handle: str, secrets: Mapping[str, Any], name: str, where: str) -> None:
    if handle and handle not in secrets:
        raise ConfigError(
            f"In {name}, {where} names a secret that isn't there{_named(handle)}.",
            hint=f"Name it under [secret]; there is {_list(secrets)}." if secrets else "Write [secret] with it.",
        )


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} has to be a table.", hint=f"Write it as in {MANUAL}.")
    return value


def _known(found: Iterable[str], allowed: Iterable[str], where: str, what: str) -> None:
    allowed = tuple(allowed)
    for each in found:
        if each not in allowed:
            raise ConfigError(
                f"{where} the {what} {each!r}, which isn't known.",
                hint=f"{_close(each, allowed)}There are {', '.join(allowed)}.",
            )


def _close(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, list(known), n=1)
    return f"Did you mean {found[0]!r}? " if found else ""


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
