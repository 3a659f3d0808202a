"""What a caller of the library passes, read into what the use cases take. Everything malformed is a `UsageError`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import jsonschema
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from addendum.authority import catalogfile
from addendum.authority.catalog import KINDS, WRITE, Capability, Catalog
from addendum.authority.grant import Grant, from_json, widened
from addendum.errors import ConfigError, NotFound, UsageError
from addendum.kernel.policy import Allowances, Retry

Source: TypeAlias = "str | os.PathLike[str]"
"""A script's text, or the path of its file."""
GrantLike: TypeAlias = "Grant | Mapping[str, Any] | str | os.PathLike[str]"
"""A grant, its data as in TOML or JSON, or the path of a TOML file."""
Supersede: TypeAlias = "bool | Literal['changed'] | Iterable[str]"
"""Whether committed calls that change may be replaced: all of them, or the ones at these identities."""


def text(source: Source) -> str:
    """Return a script's text. Raises `NotFound` and `UsageError` for a file that can't be read."""
    if isinstance(source, str):
        if source.endswith(".py") and "\n" not in source:
            raise UsageError(f"{source!r} is a file's name, not a script.", hint=f"Pass pathlib.Path({source!r}).")
        return source
    return _read(source, "a script")


def grant(given: GrantLike, known: Mapping[str, object]) -> Grant:
    """Return a grant. One that names no capabilities, only limits, grants all that are `known` under them.

    Raises `ConfigError` for one that is malformed or names what isn't known, in its rules too: a rule about a name that
    there isn't would ask about nothing. Raises `NotFound` for a missing file.
    """
    if isinstance(given, Grant):
        return given
    data: Any = given
    if not isinstance(given, Mapping):
        try:
            data = tomllib.loads(_read(given, "a grant"))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(
                f"The grant {os.fspath(given)} can't be read: {error}.", hint="It is a TOML file."
            ) from None
    found = from_json(data)
    if "capabilities" not in data and not (found.limits or found.approvals):
        raise ConfigError(
            "The grant has neither capabilities, nor limits, nor rules of approval: nothing says what it grants.",
            hint="Name what may be called under capabilities. With limits or rules alone it is about every one.",
        )
    named(found, known)
    return found if "capabilities" in data else widened(found, known)


def named(found: Grant, known: Mapping[str, object]) -> None:
    """Raise `ConfigError` for a capability that isn't `known`, and for a rule about what isn't."""
    names = {*found.capabilities, *(rule.capability for rule in found.approvals if rule.capability is not None)}
    unknown = sorted(names - set(known) - {WRITE})
    if unknown:
        raise ConfigError(
            f"The grant names {unknown[0]!r}, which isn't registered.", hint=f"There are {', '.join(sorted(known))}."
        )
    kinds = KINDS.union(known, *(each.labels for each in known.values() if isinstance(each, Capability)))
    unknown = sorted({name for together in found.forbid_together for name in together} - kinds)
    if unknown:
        raise ConfigError(
            f"The grant forbids {unknown[0]!r} together with others, and nothing here is that.",
            hint=f"Name a capability, a label of the catalog, or one of {', '.join(sorted(KINDS))}.",
        )


def allowances(
    supersede: Supersede = False,
    retry: Retry = "open",
    drops: Iterable[str] = (),
    moves: Mapping[str, str] | None = None,
) -> Allowances:
    """Return what an operator allows for one attempt. Raises `ConfigError` for what there isn't."""
    if retry not in get_args(Retry):
        raise ConfigError(f"retry is {retry!r}.", hint=f"It is one of {', '.join(get_args(Retry))}.")
    if isinstance(supersede, str) and supersede != "changed":
        raise ConfigError(f"supersede is {supersede!r}.", hint='Write "changed", or a list of identities.')
    if isinstance(drops, str):
        raise ConfigError(f"drops is the text {drops!r}.", hint="Write a list of identities or static paths.")
    return Allowances(
        supersede=supersede if isinstance(supersede, bool) else supersede == "changed" or frozenset(supersede),
        retry=retry,
        drops=tuple(drops),
        moves=dict(moves or {}),
    )


def catalog(path: Path) -> Catalog:
    """Read a catalog from a TOML file, with the files of schemas that it names beside it, and check its schemas.

    Raises `NotFound`, `UsageError` and `ConfigError`."""
    found = catalogfile.parse(
        _read(path, "a catalog"), lambda name: (path.parent / name).read_text("utf-8"), os.fspath(path)
    )
    for capability in found.values():
        schemas(capability)
    return found


def schemas(capability: Capability) -> None:
    """Check a capability's schemas when it is declared, so that no run meets one that can't be used.

    Raises `ConfigError` for one that is no JSON Schema, and for a reference to what isn't in it: nothing is fetched."""
    for what, schema in (("input", capability.input), ("output", capability.output)):
        check_schema(f"The {what} of {capability.name}", schema)


def narrowings(grant: Grant) -> None:
    """Check the schemas by which a grant narrows payloads. Raises `ConfigError`."""
    for name, schema in grant.where.items():
        narrowing(f"In the grant, the where of {name}", schema)


def narrowing(what: str, schema: Mapping[str, Any]) -> None:
    """Check a schema that says which payloads may pass. Raises `ConfigError` for one that can't be used, and for a word
    that JSON Schema doesn't have: it would let everything through."""
    check_schema(what, schema)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    known = {*kind.VALIDATORS, *kind.META_SCHEMA.get("properties", ()), *_SAID}
    if "unevaluatedItems" in known:
        known |= {"minContains", "maxContains", "$recursiveAnchor"}  # looked at with `contains`, or a reference
    for word in _words(schema):
        if word not in known:
            raise ConfigError(
                f"{what} says {word!r}, which means nothing in a JSON Schema.",
                hint="A property stands beneath properties, or is named by a JSON pointer as in /size.",
            )


def check_schema(what: str, schema: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for what is no JSON Schema, and for a reference to what isn't in it."""
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        raise ConfigError(f"{what} is no JSON Schema: {error.message}.", hint="Mend the schema.") from None
    resource = Resource.from_contents(dict(schema), default_specification=DRAFT202012)
    resolver = Registry().with_resource("", resource).resolver()
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ConfigError(
                f"{what} refers to {reference!r}, which isn't in it.",
                hint="Put it under $defs, and refer to it as #/$defs/NAME.",
            ) from None


_SAID: Final = frozenset(
    [
        "$schema",
        "$id",
        "$anchor",
        "$dynamicAnchor",
        "$vocabulary",
        "$defs",
        "$comment",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "then",
        "else",
    ]
)
"""Words of a schema that no value is held against by themselves."""
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_VALUES: Final = ("const", "enum", "default", "examples", "required", "dependentRequired", "$vocabulary")


def _words(schema: object) -> Iterator[str]:
    """Yield every word of a schema and of those in it."""
    if isinstance(schema, list | tuple):
        for each in schema:
            yield from _words(each)
    elif isinstance(schema, Mapping):
        yield from schema
        for word, below in schema.items():
            if word not in _VALUES:
                yield from _words(list(below.values()) if word in _NAMED and isinstance(below, Mapping) else below)


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            elif key not in ("const", "enum", "default", "examples"):
                yield from _references(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from _references(value)


def _read(path: str | os.PathLike[str], what: str) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"There is no file {os.fspath(path)}.", hint=f"Name the file of {what}.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{os.fspath(path)} can't be read: {error}.", hint=f"Name the UTF-8 file of {what}.") from None
