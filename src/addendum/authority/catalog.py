"""The catalog: what each capability is, costs and may do to the world (DESIGN section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from addendum.authority.saturation import Saturation
from addendum.canon import Digest, Json, canonical, sha256
from addendum.errors import ConfigError
from addendum.records.entries import SIDE_EFFECTING, Effect

MAX_PAYLOAD: Final = 1024 * 1024
MAX_RESULT: Final = 4 * 1024 * 1024
WRITE: Final = "repair.write"
"""A model that is asked for a script. A grant may name it and limit it; no script can call it, so no catalog has it."""
FACTS: Final = ("read_only", "destructive", "idempotent", "open_world", "agentic")
KINDS: Final = frozenset({*FACTS, "private_read", "untrusted_content", "open_world_write"})
"""What a capability can count as in `forbid_together`, beside its name and its labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One capability. `price` is what a call costs unless its provider reports otherwise, `most` the most that it may
    cost (what is reserved); both in nano-dollars. `waits`: a person answers it. `lookup`: the provider can say what
    became of an earlier call by its idempotency key. `timeout` in seconds; `retries` beyond the first try.

    The facts `read_only`, `destructive`, `idempotent` (per argument) and `open_world` follow from the effect class
    where they are None. `agentic`: it runs a tool loop of its own. `model` is what answers, as far as it is known:
    another one is another result. `most_tokens` is the most that a call reports, None when nobody says;
    `most_tokens_in` the most that a payload may have, each of them at least `token_bytes` bytes long: by a payload's
    size its tokens are bounded before it is sent. A payload's `max_tokens` bounds what comes back."""

    name: str
    effect: Effect
    price: int = 0
    most: int | None = None
    input: Mapping[str, Json] = field(default_factory=dict)
    output: Mapping[str, Json] = field(default_factory=dict)
    version: str = "1"
    timeout: float = 600.0
    retries: int = 2
    waits: bool = False
    lookup: bool = False
    max_payload: int = MAX_PAYLOAD
    max_result: int = MAX_RESULT
    about: str = ""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    agentic: bool = False
    model: str = ""
    most_tokens: int | None = None
    most_tokens_in: int | None = None
    token_bytes: int = 1
    provider_key: bool = False
    labels: tuple[str, ...] = ()
    saturation: Saturation | None = None

    @property
    def facts(self) -> dict[str, bool]:
        """The five facts, each with what follows from the effect class where the catalog doesn't say."""
        usual = {
            "read_only": self.effect == "read",
            "destructive": self.effect == "irreversible",
            "idempotent": self.effect in ("read", "idempotent"),
            "open_world": self.side_effecting,
        }
        said = {name: getattr(self, name) for name in usual}
        return {name: usual[name] if said[name] is None else said[name] for name in usual} | {"agentic": self.agentic}

    @property
    def kinds(self) -> frozenset[str]:
        """What it counts as in `forbid_together`: its name, its labels, its facts, and what follows from these.

        What comes from an open world is untrusted, and what an agent says too; what only reads and reaches nobody
        reads what is ours."""
        facts = self.facts
        found = {self.name, *self.labels, *(name for name, holds in facts.items() if holds)}
        if facts["read_only"] and not facts["open_world"]:
            found.add("private_read")
        if facts["open_world"] or self.agentic:
            found.add("untrusted_content")
        if facts["open_world"] and not facts["read_only"]:
            found.add("open_world_write")
        return frozenset(found)

    @property
    def side_effecting(self) -> bool:
        """Whether a repeated call may do something twice."""
        return self.effect in SIDE_EFFECTING

    @property
    def reserve(self) -> int:
        """What a call may cost at most, in nano-dollars."""
        return self.price if self.most is None else self.most

    def tokens_in(self, size: int) -> int:
        """Return how many tokens a payload of so many bytes has at most."""
        return -(-size // self.token_bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the capability as JSON: everything that a digest of the catalog covers. What came later stands there
        only where it says something, so that the digests of older catalogs are what they were."""
        later: dict[str, Any] = {}
        if self.most_tokens_in is not None:
            later["most_tokens_in"] = self.most_tokens_in
        if self.token_bytes != 1:
            later["token_bytes"] = self.token_bytes
        return later | {
            "name": self.name,
            "effect": self.effect,
            "price": self.price,
            "most": self.reserve,
            "input": dict(self.input),
            "output": dict(self.output),
            "version": self.version,
            "timeout": self.timeout,
            "retries": self.retries,
            "waits": self.waits,
            "lookup": self.lookup,
            "max_payload": self.max_payload,
            "max_result": self.max_result,
            "facts": self.facts,
            "model": self.model,
            "most_tokens": self.most_tokens,
            "provider_key": self.provider_key,
            "labels": sorted(self.labels),
            "saturation": self.saturation.to_json() if self.saturation is not None else None,
        }


class Catalog(Mapping[str, Capability]):
    """Capabilities by name. Raises `ConfigError` when a name stands twice."""

    def __init__(self, capabilities: Iterable[Capability]) -> None:
        self._by_name: dict[str, Capability] = {}
        for capability in capabilities:
            if capability.name == WRITE:
                raise ConfigError(f"The name {WRITE!r} is the host's own.", hint="Give the capability another one.")
            if capability.name in self._by_name:
                raise ConfigError(f"The capability {capability.name!r} is registered twice.", hint="Rename one.")
            self._by_name[capability.name] = capability

    def __getitem__(self, name: str) -> Capability:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @cached_property
    def data(self) -> bytes:
        """Everything in it as canonical JSON, but for free text."""
        return canonical([self[name].to_json() for name in sorted(self)])

    @cached_property
    def digest(self) -> Digest:
        """The SHA-256 of everything in it: it names the catalog."""
        return sha256(self.data)


def changes(before: Iterable[Mapping[str, Any]], after: Catalog, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return, for capabilities that are another now, each field with what it was and what it is.

    `before` is a catalog as JSON. A capability that is gone has the one field `gone`. A schema that one of the two
    doesn't have says nothing, so that is no change.
    """
    was = {each["name"]: each for each in before}
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(set(names) & set(was)):
        if name not in after:
            found[name] = {"gone": [False, True]}
            continue
        now = after[name].to_json()
        fields = {key: [was[name].get(key), now.get(key)] for key in sorted({*was[name], *now})}
        different = {key: pair for key, pair in fields.items() if pair[0] != pair[1] and not _unsaid(key, pair)}
        if different:
            found[name] = different
    return found


HOW: Final = frozenset({"timeout", "retries", "lookup"})
"""Fields that say how the host waits for a capability and what it asks afterwards, not what it does: raising a timeout
after a call had no answer in time changes no result."""


def _unsaid(field: str, pair: list[Any]) -> bool:
    return field in HOW or (field in ("input", "output") and not all(pair))
