"""What a handler's signature says: the schemas of its payload and result, and how it is called.

| parameter | gets |
| --- | --- |
| any other name | the payload's property of that name; a default makes it optional |
| `payload` | the whole payload |
| annotated `Request`, whatever its name | the dispatch itself, with the idempotency key |
| `**rest` | the properties that no parameter takes; without it there may be none |

Annotations become JSON Schema by way of pydantic, and what arrives is converted to them: a dataclass parameter gets an
instance. The broker checks a payload against the schema before a call is sent, so a handler sees what it declares.
"""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NotRequired, Required, get_args, get_origin

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from addendum.canon import Json, canonical, freeze
from addendum.errors import CapabilityError, ConfigError, NotJson
from addendum.ports import Reply, Request

WHOLE: Final = "payload"
"""The name of the parameter that gets the whole payload."""
_OPEN: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_AWAITED: Final = (collections.abc.Awaitable, collections.abc.Coroutine)

Schema = dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A handler's schemas, and `bind`, which turns a request into the handler's keyword arguments. Raises
    `CapabilityError` (`invalid_input`) for a payload that a schema can't rule out and the annotations do."""

    input: Schema = field(default_factory=dict)
    output: Schema = field(default_factory=dict)
    requests: tuple[str, ...] = ()
    whole: bool = False
    adapter: TypeAdapter[Any] | None = None

    def bind(self, request: Request) -> dict[str, Any]:
        """Return the keyword arguments for one dispatch."""
        found: dict[str, Any] = dict.fromkeys(self.requests, request)
        try:
            value = request.payload if self.adapter is None else self.adapter.validate_python(request.payload)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = "/".join(str(part) for part in first["loc"])
            raise CapabilityError("invalid_input", f"at {where or 'the top'}: {first['msg']}") from None
        if self.whole:
            found[WHOLE] = value
        elif isinstance(value, dict):
            found.update(value)
        return found


def read(
    function: Callable[..., Any], name: str, scope: Mapping[str, Any], given: object, returned: object
) -> Signature:
    """Read a handler's signature. `scope` are the names around its definition; `given` and `returned` are schemas or
    types that stand in place of the annotations, None for the annotations. Raises `ConfigError`."""
    signature = _inspect(function, name, scope)
    parameters = list(signature.parameters.values())
    requests = tuple(p.name for p in parameters if p.annotation is Request)
    rest = [p for p in parameters if p.annotation is not Request]
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise ConfigError(
                f"The handler of {name} takes {parameter.name!r} by position.",
                hint="A payload's properties have names: drop the / and the *.",
            )
    whole = any(p.name == WHOLE and p.kind is not p.VAR_KEYWORD for p in rest)
    if whole and len(rest) > 1:
        other = next(p.name for p in rest if p.name != WHOLE)
        raise ConfigError(
            f"The handler of {name} takes the whole payload and {other!r} beside it.",
            hint="Take `payload` alone, or one parameter for each property.",
        )
    adapter, schema = _whole(rest[0], name) if whole else _properties(rest, name)
    if given is not None:
        schema = declared(given, name, "input", "validation")
        if not whole:
            _agree(schema, rest, name)
    if returned is None:
        output = _output(signature.return_annotation, name)
    else:
        output = declared(returned, name, "output", "serialization")
    return Signature(input=schema, output=output, requests=requests, whole=whole, adapter=adapter)


def declared(given: object, name: str, what: str, mode: Any) -> Schema:
    """Return the schema of what was passed as `input` or `output`: a JSON Schema as a dict, or a type."""
    if not isinstance(given, Mapping):
        return _schema(_adapter(given, name, f"the {what}"), name, mode)
    try:
        canonical(dict(given))
    except NotJson as error:
        raise ConfigError(f"The {what} of {name} is no JSON Schema: {error.message}", hint=error.hint) from None
    copied: Any = freeze(dict(given))
    return copied  # type: ignore[no-any-return]


def _inspect(function: Callable[..., Any], name: str, scope: Mapping[str, Any]) -> inspect.Signature:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"The handler of {name} is a generator.", hint="Return one JSON value.")
    try:
        return inspect.signature(function, locals=dict(scope), eval_str=True)
    except NameError as error:
        raise ConfigError(
            f"The annotations of the handler of {name} can't be read: {error}.",
            hint="Import that name where the handler is defined, outside `if TYPE_CHECKING`.",
        ) from None
    except (TypeError, ValueError, SyntaxError) as error:
        raise ConfigError(
            f"The handler of {name} has no readable signature: {error}.", hint="Register a function."
        ) from None


def _whole(parameter: inspect.Parameter, name: str) -> tuple[TypeAdapter[Any] | None, Schema]:
    annotation = parameter.annotation
    if annotation in (inspect.Parameter.empty, Any) or _is_open(annotation):
        return None, {"type": "object"}
    adapter = _adapter(annotation, name, f"the parameter {WHOLE!r}")
    return adapter, _schema(adapter, name, "validation")


def _is_open(annotation: object) -> bool:
    """Whether an annotation says no more than that the value is an object."""
    if annotation in _OPEN:
        return True
    return get_origin(annotation) in _OPEN and get_args(annotation) in ((str, Any), (str, object))


def _properties(parameters: list[inspect.Parameter], name: str) -> tuple[TypeAdapter[Any], Schema]:
    """Return the schema of an object with one property a parameter, and the adapter that converts it."""
    fields: dict[str, Any] = {}
    extra = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = True
            continue
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        _adapter(annotation, name, f"the parameter {parameter.name!r}")
        required = parameter.default is parameter.empty
        fields[parameter.name] = Required[annotation] if required else NotRequired[annotation]
    shape = TypedDict("Payload", fields)  # type: ignore[misc]
    shape.__pydantic_config__ = ConfigDict(extra="allow" if extra else "forbid")  # type: ignore[attr-defined]
    adapter: TypeAdapter[Any] = _adapter(shape, name, "the payload")
    schema = _schema(adapter, name, "validation")
    properties: Any = schema.get("properties", {})
    for parameter in parameters:
        if parameter.name in properties and parameter.default is not parameter.empty:
            try:
                canonical(parameter.default)
            except NotJson:
                continue  # the handler's own business: a payload never says it
            properties[parameter.name]["default"] = freeze(parameter.default)
    return adapter, schema


def _agree(schema: Schema, parameters: list[inspect.Parameter], name: str) -> None:
    """Check that a schema given beside a signature asks for what the signature takes."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return
    names = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
    extra = sorted(set(properties) - names)
    if extra and len(names) == len(parameters):
        raise ConfigError(
            f"The input of {name} has the property {extra[0]!r}, which its handler doesn't take.",
            hint=f"Add a parameter of that name, or take the whole payload with one named {WHOLE!r}.",
        )
    for parameter in parameters:
        if parameter.name in names - set(properties) and parameter.default is parameter.empty:
            raise ConfigError(
                f"The handler of {name} needs {parameter.name!r}, which its input doesn't have.",
                hint="Add the property to the schema, or give the parameter a default.",
            )


def _output(annotation: Any, name: str) -> Schema:
    if get_origin(annotation) in _AWAITED:
        annotation = get_args(annotation)[-1]
    if annotation in (inspect.Signature.empty, Any, Reply):
        return {}
    if _is_open(annotation):
        return {"type": "object"}
    return _schema(_adapter(annotation, name, "the result"), name, "serialization")


def _adapter(annotation: Any, name: str, what: str) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except PydanticSchemaGenerationError:
        raise ConfigError(
            f"In the handler of {name}, {what} has a type that JSON can't say: {annotation!r}.",
            hint="Use JSON types, TypedDict, a dataclass or a pydantic model, or pass a JSON Schema.",
        ) from None
    except (PydanticUserError, TypeError, NameError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ConfigError(
            f"In the handler of {name}, {what} has a type that can't be used: {reason}.",
            hint="Use JSON types, TypedDict, a dataclass or a pydantic model, or pass a JSON Schema.",
        ) from None


class _Plain(GenerateJsonSchema):
    """Schemas without the titles that only repeat a name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema(adapter: TypeAdapter[Any], name: str, mode: Any) -> Schema:
    try:
        schema: Schema = adapter.json_schema(mode=mode, schema_generator=_Plain)
    except PydanticUserError as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ConfigError(f"A type of {name} has no JSON Schema: {reason}.", hint="Pass input= or output=.") from None
    schema.pop("title", None)
    return schema
