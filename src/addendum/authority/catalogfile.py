"""A catalog as a person writes it, in TOML: what each capability is, costs and may do (DESIGN section 7).

    [capability."image.generate"]
    version = "2"
    effect = "paid"                     # read, idempotent, paid, side_effect, irreversible
    open_world = true                   # and read_only, destructive, idempotent, agentic
    price_usd = "0.02"
    most_usd = "0.04"
    input = "schemas/image.in.json"     # a file beside this one, or the schema itself
    max = {tokens = 4000, bytes_out = 4096, bytes_in = 65536, seconds = 120}
    retries = 2
    saturation = {class = "additive"}
    recovery = {provider_key = true, lookup = false}

What a catalog says replaces what the provider says of a capability of the same name.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from addendum.authority import saturation
from addendum.authority.approval import APPROVE
from addendum.authority.catalog import FACTS, MAX_PAYLOAD, MAX_RESULT, Capability, Catalog
from addendum.authority.declare import declare
from addendum.authority.sizes import largest
from addendum.canon import Json
from addendum.errors import ConfigError, UsageError

_KEYS: Final = frozenset(
    {
        *FACTS,
        "version",
        "effect",
        "about",
        "model",
        "price_usd",
        "most_usd",
        "input",
        "output",
        "max",
        "retries",
        "waits",
        "labels",
        "saturation",
        "recovery",
        "token_bytes",
    }
)
_MOST: Final = frozenset({"tokens", "tokens_in", "bytes_out", "bytes_in", "seconds"})


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a catalog that a person should look at. `error`: a claim that can't hold."""

    capability: str
    message: str
    fix: str
    error: bool = False


def parse(text: str, load: Callable[[str], str], name: str) -> Catalog:
    """Read a catalog from TOML. `load` returns the text of a file beside it, `name` is what errors call it.

    Raises `UsageError` for what is no TOML, and `ConfigError` that names the place."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The catalog {name} can't be read: {error}.", hint="It is a file of TOML.") from None
    if set(data) - {"capability"} or not isinstance(data.get("capability", {}), Mapping):
        raise ConfigError(f"The catalog {name} has other tables.", hint='Write [capability."NAME"] for each.')
    return Catalog(_capability(each, spec, load) for each, spec in data.get("capability", {}).items())


def merged(catalog: Mapping[str, Capability], over: Mapping[str, Capability]) -> Catalog:
    """Return a provider's catalog with what a file says of capabilities in its place."""
    return Catalog({**catalog, **over}.values())


def _capability(name: str, value: object, load: Callable[[str], str]) -> Capability:
    where = f"capability.{name}"
    spec = _table(value, where, _KEYS)
    most = _table(spec.get("max", {}), f"{where}.max", _MOST)
    recovery = _table(spec.get("recovery", {}), f"{where}.recovery", frozenset({"provider_key", "lookup"}))
    for key in (*FACTS, "waits"):
        if key in spec and not isinstance(spec[key], bool):
            raise ConfigError(f"{where} has {key} = {spec[key]!r}.", hint="It is a fact: true or false.")
    for key, amount, least in (
        ("max.tokens", most.get("tokens", 0), 0),
        ("max.tokens_in", most.get("tokens_in", 0), 0),
        ("token_bytes", spec.get("token_bytes", 1), 1),
    ):
        if isinstance(amount, bool) or not isinstance(amount, int) or amount < least:
            raise ConfigError(f"{where} has {key} = {amount!r}.", hint=f"Write a number from {least} on.")
    labels = spec.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ConfigError(f"{where} has labels = {labels!r}.", hint='Write ["private_read"].')
    declared = declare(
        name,
        effect=spec.get("effect"),
        price_usd=spec.get("price_usd", 0),
        most_usd=spec.get("most_usd"),
        version=spec.get("version", "1"),
        timeout=most.get("seconds", 600.0),
        retries=spec.get("retries", 2),
        waits=spec.get("waits", False),
        lookup=bool(recovery.get("lookup", False)),
        max_payload=most.get("bytes_out", MAX_PAYLOAD),
        max_result=most.get("bytes_in", MAX_RESULT),
        about=str(spec.get("about", "")),
    )
    claim = spec.get("saturation")
    return replace(
        declared,
        input=_schema(spec.get("input", {}), load, f"{where}.input"),
        output=_schema(spec.get("output", {}), load, f"{where}.output"),
        model=str(spec.get("model", "")),
        most_tokens=most.get("tokens"),
        most_tokens_in=most.get("tokens_in"),
        token_bytes=spec.get("token_bytes", 1),
        provider_key=bool(recovery.get("provider_key", False)),
        labels=tuple(labels),
        saturation=None if claim is None else saturation.from_json(claim, f"{where}.saturation"),
        read_only=spec.get("read_only"),
        destructive=spec.get("destructive"),
        idempotent=spec.get("idempotent"),
        open_world=spec.get("open_world"),
        agentic=spec.get("agentic", False),
    )


def _table(value: object, where: str, allowed: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"In a catalog, {where} has to be a table, not {value!r}.", hint="See the manual.")
    if unknown := sorted(set(value) - allowed):
        raise ConfigError(f"In a catalog, {where} has no {unknown[0]!r}.", hint=f"It has {', '.join(sorted(allowed))}.")
    return value


def _schema(value: object, load: Callable[[str], str], where: str) -> Mapping[str, Json]:
    if isinstance(value, str):
        try:
            value = json.loads(load(value))
        except (OSError, ValueError) as error:
            raise ConfigError(f"In a catalog, {where} can't be read: {error}.", hint="Name a file of JSON.") from None
    if not isinstance(value, Mapping):
        raise ConfigError(f"In a catalog, {where} is no JSON Schema.", hint="Write a table, or name a file.")
    return cast("Mapping[str, Json]", value)


def lint(catalog: Mapping[str, Capability]) -> Iterator[Remark]:
    """Yield what a catalog says that can't be, and what it leaves open. `human.approve` as it is always there is left
    out, since nobody wrote it; one that a catalog describes otherwise isn't."""
    for capability in catalog.values():
        if (capability.name, capability.input, capability.output) != (APPROVE.name, APPROVE.input, APPROVE.output):
            yield from _lint(capability)


def _lint(capability: Capability) -> Iterable[Remark]:
    name, facts, claim = capability.name, capability.facts, capability.saturation
    if facts["read_only"] and facts["destructive"]:
        yield Remark(name, "It is read-only and destructive.", "One of the two facts is wrong.", True)
    if facts["read_only"] and capability.side_effecting:
        yield Remark(name, f"It is read-only and has the effect {capability.effect}.", "Make them agree.", True)
    if claim is not None and claim.kind == "idempotent":
        if not facts["idempotent"]:
            yield Remark(name, "It claims to be idempotent, and the fact says no.", "Make them agree.", True)
        if saturation.domain_size(capability.input, claim.domain) is None:
            fix = f"Give {claim.domain} an enum in the schema, or narrow it in each grant with where."
            yield Remark(name, "It is idempotent per argument, over an open set of arguments: no bound.", fix)
    if claim is not None and claim.kind == "quota" and claim.bound() is None:
        yield Remark(name, f"Its quota is counted by {claim.key!r}, which a run can have many of.", "Meter it.", True)
    if claim is None and capability.side_effecting:
        yield Remark(name, "It has no saturation claim: it is additive.", "Say saturation, or meter it in grants.")
    if claim is not None and claim.kind not in ("metered", "additive") and not claim.evidence:
        yield Remark(name, "Its saturation claim has no evidence.", f"Try `addendum catalog probe {name}`.")
    if largest(capability.input) is None:
        yield Remark(name, "Its payloads have no size by the schema.", "Give strings maxLength and arrays maxItems.")
    if largest(capability.output) is None:
        yield Remark(name, "Its results have no size by the schema.", "Give strings maxLength and arrays maxItems.")
