"""What bounds a channel of its own, whoever loops over it (DESIGN section 7, reference: the saturating class).

| class | repeating a call can reach | has to say |
| --- | --- | --- |
| `absorbing` | one effect: it sets a flag | |
| `idempotent` | one effect for each argument: bounded only over a finite `domain` | `domain`, a JSON pointer |
| `quota` | `n` effects in all, for each `key` | `n`, `key` |
| `windowed` | `n` per `seconds`: bounded only up to a `horizon` | `n`, `seconds`, `horizon` |
| `metered` | what a limit of the grant allows | |
| `additive` | no bound: fail closed | |

A claim is tested by `addendum catalog probe`; it only tightens what limits guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from addendum.errors import ConfigError

Class: TypeAlias = Literal["absorbing", "idempotent", "quota", "windowed", "metered", "additive"]
CLASSES: Final = ("absorbing", "idempotent", "quota", "windowed", "metered", "additive")
_OWN: Final[Mapping[str, frozenset[str]]] = {
    "absorbing": frozenset(),
    "idempotent": frozenset({"domain"}),
    "quota": frozenset({"n", "key"}),
    "windowed": frozenset({"n", "seconds", "horizon", "sliding"}),
    "metered": frozenset(),
    "additive": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Saturation:
    """A claim. `n` effects; `seconds` of a window and `horizon`, the time that it is claimed for; `key` names what a
    quota is counted by (`principal` is the narrowest that bounds a run). `evidence` is the digest of a verdict."""

    kind: Class
    domain: str = ""
    n: int = 0
    key: str = ""
    seconds: float = 0.0
    horizon: float = 0.0
    sliding: bool = True
    evidence: str = ""

    def bound(self, domain: int | None = None) -> int | None:
        """Return how many effects the claim allows in all, None for no bound. `domain` is how many arguments there are
        under the grant, None when they are not finitely many."""
        match self.kind:
            case "absorbing":
                return 1
            case "idempotent":
                return domain
            case "quota":
                return self.n if self.key in ("principal", "run", "everybody") else None
            case "windowed":
                if not self.seconds or not self.horizon:
                    return None
                windows = math.ceil(self.horizon / self.seconds)
                return self.n * (windows if self.sliding else windows + 1)
            case _:
                return None

    def to_json(self) -> dict[str, Any]:
        """Return the claim as it is written in a catalog."""
        found: dict[str, Any] = {"class": self.kind}
        for name in sorted(_OWN[self.kind]):
            found[name] = getattr(self, name)
        if self.evidence:
            found["evidence"] = self.evidence
        return found


def from_json(value: object, where: str) -> Saturation:
    """Read a claim. Raises `ConfigError` that names the place."""
    data: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    kind = data.get("class")
    if kind not in CLASSES:
        raise ConfigError(f"{where} has the class {kind!r}.", hint=f"The classes are {', '.join(CLASSES)}.")
    allowed = _OWN[cast("str", kind)]
    unknown = sorted(set(data) - allowed - {"class", "evidence"})
    needed = sorted(allowed - set(data) - {"sliding"})
    if unknown or needed:
        what = f"has no {unknown[0]!r}" if unknown else f"needs {needed[0]!r}"
        raise ConfigError(f"{where}: {kind} {what}.", hint=f"It has {', '.join(sorted(allowed)) or 'nothing more'}.")
    for name in ("n", "seconds", "horizon"):
        number = data.get(name, 0)
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise ConfigError(f"{where} has {name} = {number!r}.", hint="Write a number that is not negative.")
    return Saturation(
        cast("Class", kind),
        domain=str(data.get("domain", "")),
        n=int(data.get("n", 0)),
        key=str(data.get("key", "")),
        seconds=float(data.get("seconds", 0)),
        horizon=float(data.get("horizon", 0)),
        sliding=bool(data.get("sliding", True)),
        evidence=str(data.get("evidence", "")),
    )


def domain_size(schema: Mapping[str, Any], pointer: str) -> int | None:
    """Return how many values a payload schema lets stand at a JSON pointer, None when they aren't finitely many.

    Narrowings in `allOf` count: the smallest of them.
    """
    found = [_finite(below) for below in _at(schema, pointer.split("/")[1:])]
    known = [size for size in found if size is not None]
    return min(known) if known else None


def _at(schema: Any, path: list[str]) -> list[Mapping[str, Any]]:
    if not isinstance(schema, Mapping):
        return []
    here = [schema] if not path else _at(schema.get("properties", {}).get(path[0]), path[1:])
    for each in schema.get("allOf", ()):
        here += _at(each, path)
    return here


def _finite(schema: Mapping[str, Any]) -> int | None:
    if "const" in schema:
        return 1
    if isinstance(schema.get("enum"), list | tuple):
        return len(schema["enum"])
    if schema.get("type") == "boolean":
        return 2
    if schema.get("type") == "integer" and "minimum" in schema and "maximum" in schema:
        return max(0, int(schema["maximum"]) - int(schema["minimum"]) + 1)
    return None
