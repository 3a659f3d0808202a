"""What a handler's signature says of payload and result."""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from addendum.errors import CapabilityError, ConfigError
from addendum.ports import Reply, Request
from addendum.providers.signature import Signature, read

STRING = {"type": "string"}


@dataclass
class Size:
    """A size in pixels."""

    width: int
    height: int = 1


class Style(BaseModel):
    """A style."""

    name: str


class Image(TypedDict):
    """An image."""

    url: str
    width: int


def of(function: Callable[..., Any], given: object = None, returned: object = None) -> Signature:
    """Read a function's signature, with the names of this module around it."""
    return read(function, "work.do", {}, given, returned)


def request(payload: Any) -> Request:
    """Return a dispatch with a payload."""
    return Request(capability="work.do", payload=payload, key="k", run="r", identity="i", attempt=1)


def simple(prompt: str, size: Literal["1K", "2K"] = "1K", tags: list[str] | None = None) -> Image:
    """Take what JSON can say."""
    return {"url": "", "width": 0}


def test_parameters_are_properties() -> None:
    """Each parameter is a property; one with a default is optional, and the schema says the default."""
    assert of(simple).input == {
        "type": "object",
        "properties": {
            "prompt": STRING,
            "size": {"enum": ["1K", "2K"], "type": "string", "default": "1K"},
            "tags": {"anyOf": [{"type": "array", "items": STRING}, {"type": "null"}], "default": None},
        },
        "required": ["prompt"],
        "additionalProperties": False,
    }


def test_result_annotation() -> None:
    """The return annotation is the result's schema."""
    assert of(simple).output == {
        "description": "An image.",
        "type": "object",
        "properties": {"url": STRING, "width": {"type": "integer"}},
        "required": ["url", "width"],
    }


def test_types_convert() -> None:
    """What arrives is converted to what the annotations say."""

    def work(size: Size, style: Style, at: datetime, pair: tuple[int, int], other: Any) -> None: ...

    given: Any = {
        "size": {"width": 2},
        "style": {"name": "oil"},
        "at": "2026-01-01T00:00:00Z",
        "pair": [1, 2],
        "other": {"a": [1]},
    }
    found = read(work, "work.do", locals(), None, None).bind(request(given))
    assert (found["size"], found["style"], found["pair"]) == (Size(2), Style(name="oil"), (1, 2))
    assert found["at"] == datetime.fromisoformat("2026-01-01T00:00:00+00:00")


def test_what_a_schema_cannot_say() -> None:
    """A payload that passes the schema and not the annotation is an `invalid_input`, with the place."""

    def work(at: datetime) -> None: ...

    signature = of(work)
    with pytest.raises(CapabilityError, match="invalid_input: at at: Input should be a valid datetime"):
        signature.bind(request({"at": "tomorrow"}))


def test_constraints_and_descriptions() -> None:
    """`Annotated` with pydantic's `Field` refines a property."""

    def work(n: Annotated[int, Field(ge=1, description="How many.")] = 1) -> None: ...

    assert of(work).input["properties"] == {
        "n": {"type": "integer", "minimum": 1, "description": "How many.", "default": 1}
    }


def test_odd_names() -> None:
    """A property may have a name that means something to pydantic, and one with an underscore."""

    def work(schema: str, json: int, model_config: bool, _seed: int = 0) -> None: ...

    signature = of(work)
    assert signature.input["required"] == ["schema", "json", "model_config"]
    payload: Any = {"schema": "s", "json": 1, "model_config": True, "_seed": 3}
    assert signature.bind(request(payload)) == payload


def test_request_parameter() -> None:
    """A parameter annotated `Request` is no property, whatever its name and place."""

    def work(a: int, key: Request, b: int = 2) -> None: ...

    signature = of(work)
    assert signature.input["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}}
    given = request({"a": 1})
    assert signature.bind(given) == {"a": 1, "key": given}


def test_no_annotations() -> None:
    """A parameter without annotation takes any JSON value; a function without parameters takes an empty object."""

    def work(a, b=3):  # type: ignore[no-untyped-def]
        return a

    assert of(work).input["properties"] == {"a": {}, "b": {"default": 3}}
    assert of(work).output == {}
    assert of(lambda: 1).input == {"type": "object", "properties": {}, "additionalProperties": False}


def test_default_that_is_no_json() -> None:
    """A default that no payload could say isn't shown, and works all the same."""

    def work(lock: Any = threading.Event) -> None: ...

    signature = of(work)
    assert signature.input["properties"] == {"lock": {}}
    assert signature.bind(request({})) == {}


@pytest.mark.parametrize("annotation", [None, Any, dict, dict[str, Any], Mapping[str, Any], Mapping])
def test_whole_payload_as_it_is(annotation: Any) -> None:
    """A parameter named `payload` without a type of its own gets the object as it came."""

    def work(payload): ...  # type: ignore[no-untyped-def]

    if annotation is not None:
        work.__annotations__["payload"] = annotation
    signature = of(work)
    assert signature.input == {"type": "object"}
    payload: Any = {"x": 1}
    assert signature.bind(request(payload))["payload"] is payload


@pytest.mark.parametrize(("kind", "expected"), [(Style, Style(name="a")), (Image, None), (dict[str, int], None)])
def test_whole_payload_as_a_type(kind: Any, expected: Any) -> None:
    """A parameter named `payload` with a type of its own has that type's schema."""

    def work(payload): ...  # type: ignore[no-untyped-def]

    work.__annotations__["payload"] = kind
    signature = of(work)
    assert signature.input["type"] == "object"
    if expected is not None:
        assert signature.bind(request({"name": "a"})) == {"payload": expected}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (None, {"type": "null"}),
        (Any, {}),
        (Reply, {}),
        (dict, {"type": "object"}),
        (dict[str, Any], {"type": "object"}),
        (list[str], {"type": "array", "items": STRING}),
        (Awaitable[int], {"type": "integer"}),
    ],
)
def test_results(annotation: Any, schema: Any) -> None:
    """A return annotation says as much as it says."""

    def work() -> None: ...

    work.__annotations__["return"] = annotation
    assert of(work).output == schema


def test_schema_or_type_in_place_of_annotations() -> None:
    """`input` and `output` may be a JSON Schema or a type, and are copied."""
    given: dict[str, Any] = {"type": "object", "properties": {"prompt": {}}}
    signature = of(lambda prompt: prompt, given=given, returned=list[int])
    given["properties"]["more"] = {}
    assert signature.input == {"type": "object", "properties": {"prompt": {}}}
    assert signature.output == {"type": "array", "items": {"type": "integer"}}


def test_callables() -> None:
    """Methods, partial functions and callable objects have signatures too."""

    class Worker:
        def method(self, a: int) -> str:
            return str(a)

        def __call__(self, b: int) -> str:
            return str(b)

    def three(a: int, b: int, c: int) -> int:
        return a + b + c

    assert list(of(Worker().method).input["properties"]) == ["a"]  # type: ignore[arg-type]
    assert list(of(Worker()).input["properties"]) == ["b"]  # type: ignore[arg-type]
    partial = of(functools.partial(three, 1, c=3))
    assert partial.input["required"] == ["b"]
    assert partial.bind(request({"b": 2})) == {"b": 2}


def test_names_of_the_scope() -> None:
    """Annotations may name what is defined around the handler, although they are text here."""

    class Local(BaseModel):
        n: int

    def work(value: Local) -> Local:
        return value

    signature = read(work, "work.do", locals(), None, None)
    assert signature.bind(request({"value": {"n": 1}})) == {"value": Local(n=1)}
    with pytest.raises(ConfigError, match="name 'Local' is not defined"):
        of(work)


def generator() -> Iterator[int]:
    """Yield."""
    yield 1


async def async_generator() -> AsyncIterator[int]:
    """Yield."""
    yield 1


def positional(a: int, /) -> None: ...


def variadic(*a: int) -> None: ...


def both(payload: dict[str, Any], a: int) -> None: ...


def odd(a: threading.Event) -> None: ...


def odd_result() -> threading.Event: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (generator, "is a generator"),
        (async_generator, "is a generator"),
        (positional, "takes 'a' by position"),
        (variadic, "takes 'a' by position"),
        (both, "the whole payload and 'a' beside it"),
        (odd, "the parameter 'a' has a type that JSON can't say"),
        (odd_result, "the result has a type that JSON can't say"),
        (3, "no readable signature"),
    ],
)
def test_signatures_that_cannot_be_served(function: Any, message: str) -> None:
    """A signature that no payload could fill is refused with the way to write it."""
    with pytest.raises(ConfigError, match=message) as caught:
        of(function)
    assert caught.value.hint
