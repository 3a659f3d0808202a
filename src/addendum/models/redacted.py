"""A model without secrets in its answers: one that echoes its key can't put it into a script, a draft or an error."""

from __future__ import annotations

from collections.abc import Callable

from addendum.canon import Json
from addendum.errors import CapabilityError, UnknownOutcome
from addendum.ports import Model, Prompt, Usage, Written


class RedactedModel:
    """The `Model` port over another one. `redact` and `redact_value` take secrets out of a text and out of a value."""

    def __init__(self, rest: Model, redact: Callable[[str], str], redact_value: Callable[[Json], Json]) -> None:
        self.name = rest.name
        self.most: int = rest.most
        self.most_tokens: int | None = rest.most_tokens
        self._rest = rest
        self._redact = redact
        self._redact_value = redact_value

    def bound(self, prompt: Prompt) -> Usage:
        """Return the most that asking this may cost and use."""
        return self._rest.bound(prompt)

    async def write(self, prompt: Prompt) -> Written:
        """Ask it once. Raises what the model raises, without secrets, and without a way back to what had them."""
        try:
            found = await self._rest.write(prompt)
        except CapabilityError as error:
            failure: Exception = CapabilityError(
                error.code,
                self._redact(error.message),
                error.retryable,
                cost_usd=error.cost_usd,
                retry_after=error.retry_after,
            )
        except UnknownOutcome as error:
            failure = UnknownOutcome(self._redact(str(error)))
        else:
            return Written(self._redact_value(found.value), found.usage, self._redact(found.model))
        raise failure

    async def close(self) -> None:
        """Let go of connections."""
        await self._rest.close()
