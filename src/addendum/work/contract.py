"""The contract: what was granted, for which base, snapshot and policy, and how it is named.

Everything in it follows from typed fields. A slice's id is the digest of its definition with what it stands on, so it
changes with a budget and doesn't with prose or the order of keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from addendum import canon
from addendum.authority.grant import Grant, from_json
from addendum.canon import Digest, Json
from addendum.errors import ConfigError
from addendum.work.scope import Scope

TYPE: Final = "addendum/contract/v1"
PAYLOAD: Final = "application/vnd.addendum.contract+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A pinned revision: a commit, its tree, and the tree's manifest by SHA-256."""

    commit: str
    tree: str
    sha256: Digest

    def to_json(self) -> dict[str, Json]:
        """Return it in in-toto's names."""
        return {"gitCommit": self.commit, "gitTree": self.tree, "sha256": self.sha256}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """An admitted piece of work. `people` are the roles that have to approve; `suggested` is a hint that is no part of
    the authority, as is `intent`."""

    id: str
    name: str
    after: tuple[str, ...]
    scope: Scope
    needs: tuple[str, ...]
    grant: Grant
    attempts: int
    seconds: float
    validators: tuple[str, ...]
    people: tuple[str, ...]
    criteria: tuple[str, ...]
    script: Digest = ""
    args: Json = None
    intent: str = ""
    suggested: str = ""

    @property
    def review(self) -> bool:
        """Whether it edits nothing."""
        return not any(self.scope.edits.values())

    def authority(self) -> dict[str, Json]:
        """Return what it may do: no prose, no suggestion, no id."""
        return {
            "name": self.name,
            "after": list(self.after),
            "scope": scope_json(self.scope),
            "needs": list(self.needs),
            "grant": self.grant.to_json(),
            "attempts": self.attempts,
            "seconds_ms": round(self.seconds * 1000),
            "validators": list(self.validators),
            "people": list(self.people),
            "criteria": list(self.criteria),
            "script": self.script,
        }

    def to_json(self) -> dict[str, Json]:
        """Return the slice as it stands in a contract."""
        return {
            **self.authority(),
            "id": self.id,
            "args": self.args,
            "intent": self.intent,
            "suggested": self.suggested,
        }


def scope_json(scope: Scope) -> dict[str, Json]:
    """Return a scope as JSON."""
    return {
        "edits": {verb: list(patterns) for verb, patterns in scope.edits.items()},
        "protected": list(scope.protected),
        "modes": scope.modes,
        "max_files": scope.max_files,
        "max_bytes": scope.max_bytes,
        "max_file_bytes": scope.max_file_bytes,
    }


def slice_id(authority: Mapping[str, Json], predecessors: list[str], spec: Digest, base: Base, snapshot: Digest) -> str:
    """Return a slice's stable id."""
    return canon.digest(
        {"definition": authority, "after": predecessors, "spec": spec, "base": base.to_json(), "snapshot": snapshot}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """What a validator said at admission about the base, the reference (None: not asked) and each mutant: `green` or
    `red`."""

    validator: str
    base: str
    reference: str | None
    mutants: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "validator": self.validator,
            "base": self.base,
            "reference": self.reference,
            "mutants": dict(self.mutants),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A bounded grant of work. `snapshot` is the whole value that it is for; digests are SHA-256."""

    spec: Digest
    plan: Digest
    policy: Digest
    base: Base
    snapshot: Mapping[str, Any]
    slices: tuple[Slice, ...]
    oracles: tuple[Oracle, ...] = ()
    supersedes: str = ""
    runner: str = ""

    @property
    def id(self) -> str:
        """The contract's name: the digest of all of it."""
        return canon.digest(self.to_json())

    @property
    def authority(self) -> Digest:
        """The digest of what is granted, whoever executes it and whatever the prose says."""
        return canon.digest(
            {
                "base": self.base.to_json(),
                "snapshot": canon.digest(dict(self.snapshot)),
                "slices": [each.authority() for each in self.slices],
            }
        )

    def slice(self, name: str) -> Slice | None:
        """Return a slice by its name or id."""
        return next((each for each in self.slices if name in (each.name, each.id)), None)

    def to_json(self) -> dict[str, Json]:
        """Return the contract as JSON."""
        return {
            "type": TYPE,
            "spec": {"sha256": self.spec},
            "plan": {"sha256": self.plan},
            "policy": {"sha256": self.policy},
            "base": self.base.to_json(),
            "snapshot": {"sha256": canon.digest(dict(self.snapshot)), "value": dict(self.snapshot)},
            "authority": {"sha256": self.authority},
            "slices": [each.to_json() for each in self.slices],
            "oracles": [each.to_json() for each in self.oracles],
            "supersedes": self.supersedes or None,
            "runner": self.runner,
        }


def read(body: Mapping[str, Any]) -> Contract:
    """Read a contract from its JSON. Raises `ConfigError` for what is none."""
    try:
        if body["type"] != TYPE:
            raise ConfigError(f"This is no contract: its type is {body['type']!r}.", hint="Name a contract.json.")
        base = body["base"]
        return Contract(
            spec=body["spec"]["sha256"],
            plan=body["plan"]["sha256"],
            policy=body["policy"]["sha256"],
            base=Base(commit=base["gitCommit"], tree=base["gitTree"], sha256=base["sha256"]),
            snapshot=body["snapshot"]["value"],
            slices=tuple(_slice(each) for each in body["slices"]),
            oracles=tuple(Oracle(**each) for each in body["oracles"]),
            supersedes=body["supersedes"] or "",
            runner=body["runner"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"This is no contract: {error}.", hint="Name a contract.json.") from None


def _slice(body: Mapping[str, Any]) -> Slice:
    scope = body["scope"]
    return Slice(
        id=body["id"],
        name=body["name"],
        after=tuple(body["after"]),
        scope=Scope(
            edits={verb: tuple(patterns) for verb, patterns in scope["edits"].items()},
            protected=tuple(scope["protected"]),
            modes=scope["modes"],
            max_files=scope["max_files"],
            max_bytes=scope["max_bytes"],
            max_file_bytes=scope["max_file_bytes"],
        ),
        needs=tuple(body["needs"]),
        grant=from_json(cast("Json", body["grant"])),
        attempts=body["attempts"],
        seconds=body["seconds_ms"] / 1000,
        validators=tuple(body["validators"]),
        people=tuple(body["people"]),
        criteria=tuple(body["criteria"]),
        script=body["script"],
        args=body["args"],
        intent=body["intent"],
        suggested=body["suggested"],
    )
