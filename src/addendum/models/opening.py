"""From a choice of model to a client of pydantic-ai: everything that can be wrong before a first request.

The key is the one of the choice's handle and no other: what stands in the environment under a provider's own name is
not read, as nothing would take it out of logs and errors again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from addendum.credentials import Secret
from addendum.errors import ConfigError
from addendum.ports import ModelChoice

if TYPE_CHECKING:
    from pydantic_ai.models import Model as Client

KEYLESS: Final = "no-key"
"""What is sent to a server that asks for no key."""
COMPATIBLE: Final = ("openai", "openai-chat")
"""With an address of its own, such a model is asked by Chat Completions, which every compatible server speaks.
`openai-responses` asks for the other one."""
FORMS: Final = "Write provider:model, as in openai:gpt-5-mini or anthropic:claude-sonnet-5."


def opened(choice: ModelChoice, secret: Secret | None) -> tuple[Client, Callable[[], Client]]:
    """Return a client, so that whatever is missing is found now, and a function that makes more of its kind: each
    event loop has its own.

    Raises `ConfigError` for an unknown model, a package that isn't installed, and a missing secret or address.
    """
    try:
        import pydantic_ai  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"The model {choice.model} needs pydantic-ai, which isn't installed.",
            hint="Run: pip install 'addendum[models]'",
            extra="models",
        ) from None
    provider, colon, name = choice.model.partition(":")
    if not colon or not provider or not name:
        raise ConfigError(f"{choice.model!r} names no model.", hint=FORMS)
    if choice.url and urlsplit(choice.url).scheme not in ("http", "https"):
        raise ConfigError(f"{choice.url!r} is no address of a model.", hint="Write http:// or https:// in front.")

    def make() -> Client:
        return _client(choice, provider, name, secret)

    return _first(make, choice), make


def _first(make: Callable[[], Client], choice: ModelChoice) -> Client:
    from pydantic_ai.exceptions import UserError

    try:
        return make()
    except ImportError as error:
        extra = re.search(r"pydantic-ai-slim\[([\w,-]+)\]", str(error))
        package = f"pydantic-ai-slim[{extra[1]}]" if extra else "addendum[models]"
        raise ConfigError(
            f"The model {choice.model} needs a package that isn't installed.",
            hint=f"Run: pip install '{package}'",
            extra=package,
        ) from None
    except (UserError, ValueError) as error:
        raise ConfigError(f"The model {choice.model} can't be opened: {str(error)[:300]}", hint=FORMS) from None


def _client(choice: ModelChoice, provider: str, name: str, secret: Secret | None) -> Client:
    from pydantic_ai.models import infer_model

    if choice.url and provider in COMPATIBLE:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        key = KEYLESS if secret is None else secret.reveal()
        return OpenAIChatModel(name, provider=OpenAICompatibleProvider("openai", base_url=choice.url, api_key=key))
    return infer_model(choice.model, lambda found: _provider(choice, found, secret))


def _provider(choice: ModelChoice, provider: str, secret: Secret | None) -> Any:
    from pydantic_ai.providers import infer_provider, infer_provider_class

    try:
        kind = infer_provider_class(provider)
    except ValueError:
        raise ConfigError(f"There is no provider of models {provider!r}.", hint=FORMS) from None
    takes = inspect.signature(kind.__init__).parameters
    given: dict[str, Any] = {}
    if choice.url:
        if "base_url" not in takes:
            raise ConfigError(f"Models of {provider} have no address of their own.", hint="Leave `url` out.")
        given["base_url"] = choice.url
    if "api_key" in takes:
        if secret is None and not choice.url:
            raise ConfigError(
                f"The model {choice.model} needs a key.",
                hint="In a services file, name a handle as `secret`, and where it lies in [secret], as in "
                'openai = "env:OPENAI_API_KEY". A key that is only in the environment isn\'t used.',
            )
        given["api_key"] = KEYLESS if secret is None else secret.reveal()
    elif secret is not None:
        raise ConfigError(
            f"Models of {provider} take no key.",
            hint="Leave `secret` out; they use what the machine is logged in with.",
        )
    return kind(**given) if given else infer_provider(provider)
