"""The catalog: what each capability is, costs and may do to the world (DESIGN section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from addendum.canon import Digest, Json, digest
from addendum.errors import ConfigError
from addendum.records.entries import Effect

SIDE_EFFECTING: Final = frozenset({"paid", "side_effect", "irreversible"})
"""Every effect class but `read` and `idempotent` (DESIGN section 4)."""

MAX_PAYLOAD: Final = 1024 * 1024
MAX_RESULT: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One capability. `price` is what a call costs unless its provider reports otherwise, `most` the most that it may
    cost (what is reserved); both in nano-dollars. `waits`: a person answers it. `lookup`: the provider can say what
    became of an earlier call by its idempotency key. `timeout` in seconds; `retries` beyond the first try."""

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

    @property
    def side_effecting(self) -> bool:
        """Whether a repeated call may do something twice."""
        return self.effect in SIDE_EFFECTING

    @property
    def reserve(self) -> int:
        """What a call may cost at most, in nano-dollars."""
        return self.price if self.most is None else self.most

    def to_json(self) -> dict[str, Any]:
        """Return the capability as JSON: everything that a digest of the catalog covers."""
        return {
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
        }


class Catalog(Mapping[str, Capability]):
    """Capabilities by name. Raises `ConfigError` when a name stands twice."""

    def __init__(self, capabilities: Iterable[Capability]) -> None:
        self._by_name: dict[str, Capability] = {}
        for capability in capabilities:
            if capability.name in self._by_name:
                raise ConfigError(f"The capability {capability.name!r} is registered twice.", hint="Rename one.")
            self._by_name[capability.name] = capability

    def __getitem__(self, name: str) -> Capability:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def digest(self) -> Digest:
        """The SHA-256 of everything in it."""
        return digest([self[name].to_json() for name in sorted(self)])
