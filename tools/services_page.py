"""The reference page on the services file, from the specifications of all kinds: see write_reference.py."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from addendum import wiring
from addendum.providers.service import Spec
from addendum.servicesfile import Author

INTRO: Final = """\
A services file says who does the work of capabilities, and who writes scripts. Its name ends in `.toml` and stands
where a provider does: `--provider services.toml`, or the setting `provider`.

```toml
[secret]
openai = "env:OPENAI_API_KEY"             # where it lies, never the value

[author]
model = "openai:gpt-5-mini"
secret = "openai"

[capability."text.generate"]
kind = "text"
model = "openai:gpt-5-mini"
secret = "openai"

[capability."image.generate"]
kind = "image"
model = "gpt-image-1"
secret = "openai"
price_usd = "0.04"
```

Paths are relative to the file. A table, key, kind or handle that isn't known is an error that names the place (code
`config`). `human.approve` is always there; `addendum approve` answers it. `addendum catalog show` prints what the file
offers, `addendum catalog lint` what it leaves open; neither needs a secret's value. What the setting `catalog` names
goes before what the file says. The kinds that ask a model, and images, need the extra `models`; `mcp` needs `mcp`.
"""
SECRETS: Final = """\
## [secret]

Each line names a handle and where its value lies. The value is read when it is first sent, and taken out of everything
that comes back. None goes over `http://` to another machine: a file that would send one there is refused, whatever the
kind. This machine is `localhost`, 127.0.0.0/8 and `::1`.

| form | |
| --- | --- |
| `env:NAME` | a variable of the environment |
| `file:PATH` | a file of your own that nobody else may read (mode 600) |
| `keyring:SERVICE/USER` | the system's keyring (extra `keyring`) |
"""
OUTCOMES: Final = """\
## What becomes of a failure

| what came | `read`, `idempotent` | other effect classes |
| --- | --- | --- |
| no connection: nothing was sent | `provider_error`, tried again | the same |
| a rate limit (429, 529) | `rate_limited`, tried again after the provider's pause | the same |
| 503 with a time to come back | `provider_error`, tried again | the same |
| any other 5xx | `provider_error`, tried again | not known |
| a connection that ends, half an answer, no answer in time | `timeout`, tried again | not known |
| refused by a policy, 403, 451 | `refused` | the same |
| 401 | `provider_error` | the same |
| 402, an exhausted quota | `rate_limited`, not tried again | the same |
| 400, 404, 413, 415, 422 | `invalid_input`; for a model's name or address `provider_error` | the same |
| an answer that can't be used | `provider_error`; its price is counted | the same |

Not known means *unresolved*: the call is never sent again by itself; see [reconcile](../how-to/reconcile.md). With
`idempotency = true` the same request is sent again with the same `Idempotency-Key` first, twice at most, within
`timeout`. The key is the attempt's (`addendum attempts RUN`): it stays with the record when a revision moves the call.

A provider's own text is kept in one line, without secrets, cut at 500 characters.
"""


def page(note: str) -> str:
    """Return the page. Raises `SystemExit` for a key without a description."""
    parts = ["# The services file\n", note, INTRO, SECRETS]
    parts += ["## [author]\n", *table(Author, Author.model_fields), ""]
    parts += ['## [capability."NAME"]\n', "The keys of every kind:\n", *table(Spec, Spec.model_fields), ""]
    for kind in wiring.KINDS:
        module = importlib.import_module(f"addendum.providers.{kind}")
        parts += [f'### kind = "{kind}"\n', prose(module.__doc__ or "")]
        own = [name for name in module.Spec.model_fields if name not in Spec.model_fields]
        parts += [*table(module.Spec, own), ""]
        for inner in below(module.Spec):
            parts += [f"`{inner.__name__}`: {first(inner)}\n", *table(inner, inner.model_fields), ""]
    parts.append(OUTCOMES)
    return "\n".join(parts)


def table(model: type[BaseModel], names: Any) -> list[str]:
    """Return the rows of some keys of a model."""
    schema = model.model_json_schema()
    required = set(schema.get("required", ()))
    rows = ["| key | type | default | |", "| --- | --- | --- | --- |"]
    for name in names:
        field = model.model_fields[name]
        if not field.description:
            raise SystemExit(f"{model.__module__}.{model.__name__}: {name} has no description")
        given = schema["properties"][name]
        default = "(required)" if name in required else shown(field.get_default(call_default_factory=True))
        rows.append(f"| `{name}` | {cell(kind(given))} | {cell(default)} | {cell(field.description)} |")
    return rows


def kind(schema: Mapping[str, Any]) -> str:
    """Return a schema in words."""
    if "$ref" in schema:
        return f"table (`{schema['$ref'].rpartition('/')[2]}`)"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind(each) for each in schema["anyOf"] if each.get("type") != "null"))
    match schema.get("type"):
        case "array":
            return f"list of {kind(schema['items'])}"
        case "object":
            inner = schema.get("additionalProperties")
            return f"table of {kind(inner)}" if isinstance(inner, dict) and inner else "table"
        case "string":
            return "text"
        case "integer" | "number":
            return bounds(schema)
        case "boolean":
            return "true or false"
        case _:
            return "any"


def bounds(schema: Mapping[str, Any]) -> str:
    """Return a number with its bounds."""
    least, most = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    above = "above " if "exclusiveMinimum" in schema else ""
    found = [f"{above}{least:g}"] if least is not None else []
    found += [f"up to {most:,.12g}"] if most is not None else []
    return f"number ({', '.join(found)})" if found else "number"


def shown(value: object) -> str:
    """Return a default."""
    if value is None:
        return ""
    return f"`{json.dumps(value, ensure_ascii=False, default=str)}`"


def below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models of nested tables."""
    seen: set[type[BaseModel]] = set()
    found = [field.annotation for field in model.model_fields.values()]
    while found:
        each = found.pop(0)
        if inspect.isclass(each) and issubclass(each, BaseModel):
            if each not in seen:
                seen.add(each)
                yield each
                found += [field.annotation for field in each.model_fields.values()]
        else:
            found += list(getattr(each, "__args__", ()))


def first(model: type[BaseModel]) -> str:
    """Return a model's first sentence."""
    return " ".join(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].split())


def prose(text: str) -> str:
    """Return a module's docstring as Markdown: its title, then the rest with indented parts as TOML."""
    lines = inspect.cleandoc(text).splitlines()
    if lines:
        lines[0] = re.sub(r"^The kind `[a-z]+`: (.)", lambda found: found[1].upper(), lines[0])
    found: list[str] = []
    code = False
    for line in [*lines, ""]:
        inside = line.startswith("    ") or (code and not line.strip())
        if inside and not code:
            found.append("```toml")
        elif code and not inside:
            while found and not found[-1].strip():
                found.pop()
            found += ["```", ""]
        code = inside
        found.append(line.removeprefix("    ") if inside else line)
    while found and not found[-1].strip():
        found.pop()
    return "\n".join(found) + ("\n```\n" if code else "\n")


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
