"""The files that people write, read strictly: TOML, no unknown keys, no conversions. A duplicate key is an error."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from addendum.authority.grant import Grant, from_json
from addendum.errors import ConfigError
from addendum.work import proposal
from addendum.work.scope import Scope

_DURATION: Final = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _seconds(value: object) -> object:
    """Read a duration: a number of seconds, or ISO 8601 as in PT30S."""
    if isinstance(value, str):
        found = _DURATION.fullmatch(value)
        if found is None or not any(found.groups()):
            raise ValueError("write seconds, or a duration as in PT30S")
        hours, minutes, seconds = found.groups(default="0")
        return int(hours) * 3600.0 + int(minutes) * 60.0 + float(seconds)
    return value


def _named(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("a name has letters, digits, dots, dashes and underscores, 64 at most")
    return value


def _strings(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Name = Annotated[str, AfterValidator(_named)]
Strings = Annotated[tuple[str, ...], BeforeValidator(_strings)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=86_400)]
Size = Annotated[int, Field(gt=0, le=2**50)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Criterion(_Model):
    id: Name
    text: str
    kind: Literal["check", "judgement"] = "check"
    validators: Strings = ()


class _Evidence(_Model):
    uri: str
    digest: str = ""


class _Question(_Model):
    id: Name
    text: str
    blocking: bool = False
    answer: str = ""


class _Spec(_Model):
    goal: str
    invariant: list[_Criterion] = []
    criterion: list[_Criterion] = []
    evidence: list[_Evidence] = []
    question: list[_Question] = []


class _Edits(_Model):
    create: Strings = ()
    modify: Strings = ()
    delete: Strings = ()

    def verbs(self) -> dict[str, tuple[str, ...]]:
        return {"create": self.create, "modify": self.modify, "delete": self.delete}


class _Slice(_Model):
    id: Name
    after: Strings = ()
    intent: str = ""
    edits: _Edits = _Edits()
    needs: Strings = ()
    executor: str = ""
    attempts: Annotated[int, Field(ge=1, le=1000)] = 1
    seconds: Seconds | None = None
    criteria: Strings = ()
    grant: dict[str, Any] | None = None
    script: str = ""
    args: Any = None


class _Plan(_Model):
    base: str
    slice: Annotated[list[_Slice], Field(min_length=1)]


class _Ceiling(_Model):
    edits: _Edits = _Edits()
    protected: Strings = ()
    symlinks: Literal["unchanged"] = "unchanged"
    modes: Literal["unchanged", "executable"] = "unchanged"
    max_files: Size = 100
    max_bytes: Size = 10_000_000
    max_file_bytes: Size = 10_000_000
    attempts: Annotated[int, Field(ge=1, le=1000)] = 3
    seconds: Seconds = 600.0
    grant: dict[str, Any] = {}
    total: list[dict[str, Any]] = []


class _Validator(_Model):
    role: Literal["goal", "guard"]
    argv: Annotated[Strings, Field(min_length=1)]
    files: Strings = ()
    digest: str = ""
    process: Literal["in", "out"] = "out"
    report: Literal["json", "exit"] = "json"
    expects: Strings = ()
    mutants: Strings = ()
    timeout: Seconds = 30.0


class _Route(_Model):
    argv: Strings = ()
    modes: Strings = ()
    environment: dict[str, str] = {}
    identity: str = ""
    shown: Strings = ()


class _Tool(_Model):
    version: str
    modes: Strings = ()
    executable: str = ""
    person: bool = False
    limits: list[dict[str, Any]] = []


class _Key(_Model):
    public: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Confines(_Model):
    memory: Size = 4 * 1024**3
    processes: Annotated[int, Field(ge=8, le=4096)] = 128
    file_bytes: Size = 64 * 1024**2
    workspace_bytes: Size = 512 * 1024**2
    workspace_entries: Size = 50_000
    output: Size = 256 * 1024


class _Policy(_Model):
    ceiling: _Ceiling
    validator: dict[Name, _Validator] = {}
    route: dict[Name, _Route] = {}
    capability: dict[str, _Tool] = {}
    key: dict[Name, _Key] = {}
    role: dict[Name, Strings] = {}
    reference: str = ""
    default_route: str = ""
    confines: _Confines = _Confines()


M = TypeVar("M", bound=_Model)


def _read(model: type[M], data: bytes, name: str) -> M:
    try:
        return model.model_validate(tomllib.loads(data.decode("utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{name} can't be read: {error}.", hint="It is a TOML file in UTF-8.") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConfigError(
            f"In {name}, {place} is wrong: {first['msg']}.", hint="docs/how-to/work-contracts.md shows what it has."
        ) from None


def _unique(names: list[str], what: str, name: str) -> None:
    for each in names:
        if names.count(each) > 1:
            raise ConfigError(f"In {name}, the {what} {each!r} stands twice.", hint="Rename one of them.")


def spec(data: bytes, name: str = "the specification") -> proposal.Spec:
    """Read a specification. Raises `ConfigError`."""
    found = _read(_Spec, data, name)
    _unique([each.id for each in (*found.invariant, *found.criterion)], "criterion", name)
    return proposal.Spec(
        goal=found.goal,
        criteria=tuple(
            proposal.Criterion(
                id=each.id, text=each.text, kind=each.kind, validators=each.validators, invariant=invariant
            )
            for group, invariant in ((found.invariant, True), (found.criterion, False))
            for each in group
        ),
        evidence=tuple((each.uri, each.digest) for each in found.evidence),
        questions=tuple(
            proposal.OpenQuestion(id=each.id, text=each.text, blocking=each.blocking, answer=each.answer)
            for each in found.question
        ),
    )


def plan(data: bytes, name: str = "the plan") -> proposal.Plan:
    """Read a plan. Raises `ConfigError`."""
    found = _read(_Plan, data, name)
    _unique([each.id for each in found.slice], "slice", name)
    return proposal.Plan(
        base=found.base,
        slices=tuple(
            proposal.ProposedSlice(
                name=each.id,
                after=each.after,
                intent=each.intent,
                edits=each.edits.verbs(),
                needs=each.needs,
                executor=each.executor,
                attempts=each.attempts,
                seconds=each.seconds or 0.0,
                criteria=each.criteria,
                grant=None if each.grant is None else _grant(each.grant, name),
                script=each.script,
                args=proposal.as_json(each.args),
            )
            for each in found.slice
        ),
    )


def policy(data: bytes, name: str = "the policy") -> proposal.Policy:
    """Read a policy. Raises `ConfigError`."""
    found = _read(_Policy, data, name)
    for role, names in found.role.items():
        for each in names:
            if each.removeprefix("key:") not in found.key:
                raise ConfigError(
                    f"In {name}, the role {role} names {each!r}.", hint="Add its [key.NAME] to the policy."
                )
    if found.default_route and found.default_route not in found.route:
        raise ConfigError(f"In {name}, there is no route {found.default_route!r}.", hint="Name one of the routes.")
    return proposal.Policy(
        ceiling=_ceiling(found.ceiling, name),
        validators={key: _validator(key, each) for key, each in found.validator.items()},
        routes={
            key: proposal.Route(
                name=key,
                argv=each.argv,
                modes=frozenset(each.modes),
                environment=each.environment,
                identity=each.identity,
                shown=each.shown,
            )
            for key, each in found.route.items()
        },
        tools={
            key: proposal.Tool(
                name=key,
                version=each.version,
                modes=frozenset(each.modes),
                executable=each.executable,
                person=each.person,
                limits=tuple(each.limits),
            )
            for key, each in found.capability.items()
        },
        keys={key: each.public for key, each in found.key.items()},
        roles=dict(found.role),
        reference=found.reference,
        default_route=found.default_route,
        confines=proposal.Confines(**found.confines.model_dump()),
    )


def _ceiling(found: _Ceiling, name: str) -> proposal.Ceiling:
    return proposal.Ceiling(
        scope=Scope(
            edits=found.edits.verbs(),
            protected=found.protected,
            modes=found.modes,
            max_files=found.max_files,
            max_bytes=found.max_bytes,
            max_file_bytes=found.max_file_bytes,
        ),
        grant=_grant(found.grant, name),
        total=_grant({"limits": found.total}, name).limits,
        attempts=found.attempts,
        seconds=found.seconds,
    )


def _validator(name: str, found: _Validator) -> proposal.Validator:
    return proposal.Validator(
        name=name,
        role=found.role,
        argv=found.argv,
        files=found.files,
        digest=found.digest.removeprefix("sha256:"),
        process=found.process,
        report=found.report,
        expects=found.expects,
        mutants=found.mutants,
        timeout=found.timeout,
    )


def _grant(data: Mapping[str, Any], name: str) -> Grant:
    try:
        return from_json(data)
    except ConfigError as error:
        raise ConfigError(f"In {name}: {error.message}", hint=error.hint) from None
