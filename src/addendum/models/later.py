"""A model whose key is read when it is first asked: what it may cost is known without one."""

from __future__ import annotations

from addendum.credentials import Secret
from addendum.models.hosted import HostedModel
from addendum.models.opening import KEYLESS
from addendum.ports import ModelChoice, Prompt, Usage, Written


class LaterModel:
    """The `Model` port over a `HostedModel` that is made twice: at once without its key, so that everything that can be
    wrong in the configuration is found, and with it when there is something to ask. Raises `ConfigError` both times."""

    def __init__(self, choice: ModelChoice, secret: Secret | None = None) -> None:
        shown = HostedModel(choice, None if secret is None else Secret(secret.handle, KEYLESS))
        self.name = shown.name
        self.most: int = shown.most
        self.most_tokens: int | None = shown.most_tokens
        self._shown = shown
        self._choice = choice
        self._secret = secret
        self._model: HostedModel | None = shown if secret is None else None

    def bound(self, prompt: Prompt) -> Usage:
        """Return the most that asking this may cost and use."""
        return self._shown.bound(prompt)

    async def write(self, prompt: Prompt) -> Written:
        """Ask it once; see `HostedModel.write`."""
        if self._model is None:
            self._model = HostedModel(self._choice, self._secret)
        return await self._model.write(prompt)

    async def close(self) -> None:
        """Let go of connections."""
        if self._model is not None:
            await self._model.close()
