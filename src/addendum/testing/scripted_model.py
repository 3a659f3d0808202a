"""A model that answers as it is told: for tests, rehearsals and the tutorial."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, TypeAlias

from addendum.authority.money import nano, usd
from addendum.canon import Json, freeze
from addendum.errors import FAILURE_CODES, CapabilityError, ConfigError, UnknownOutcome
from addendum.models.answers import fitting
from addendum.ports import Prompt, Usage, Written

Answer: TypeAlias = "Json | Written | BaseException | Callable[[Prompt], Any]"
"""A value, a `Written` with its usage, an exception to raise, or a function of the prompt that returns one of them."""
_ACCOUNTS = ("cost_usd", "tokens")


class ScriptedModel:
    """The `Model` port without a model. `answers` are used up in their order, or one function answers them all.

    >>> model = ScriptedModel([{"script": "…", "moves": [], "drops": [], "reason": "…"}, CapabilityError("refused")])

    A value costs `cost` nano-dollars and uses `tokens`. A `write` beyond the last answer fails with `provider_error`,
    and so does an answer that doesn't fit the prompt's schema, as with a real model. `prompts` are all that were
    asked, in their order. `most` bounds what an answer may cost; `max_input` is the largest prompt, in bytes.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[Prompt], Any],
        *,
        name: str = "scripted",
        cost: int = 0,
        tokens: int = 0,
        most: int | None = None,
        most_tokens: int | None = None,
        max_input: int = 10_000_000,
    ) -> None:
        self.name = name
        self.prompts: list[Prompt] = []
        self._always = answers if callable(answers) else None
        self._answers: deque[Any] = deque(() if callable(answers) else answers)
        self._usage = Usage(cost, tokens)
        known = [answer.usage for answer in self._answers if isinstance(answer, Written)]
        self.most: int = max([cost, *(usage.cost or 0 for usage in known)]) if most is None else most
        self.most_tokens: int | None = most_tokens
        if most_tokens is None:
            self.most_tokens = max([tokens, *(usage.tokens for usage in known)])
        self._max_input = max_input
        self._lock = threading.Lock()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a JSON list of answers. Each is a text, an object (its `cost_usd` and `tokens` are the usage, the rest
        is the value), or `{"error": code, "message": …, "retryable": …, "retry_after": …, "cost_usd": …}`, where the
        code `unknown` is an unknown outcome. Raises `ConfigError` that names the file."""
        try:
            found = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"{path} can't be read: {why}.", hint="It is a JSON list of answers.") from None
        if not isinstance(found, list):
            raise ConfigError(f"{path} holds no list.", hint="It is a JSON list of answers.")
        return cls([_read(answer, path) for answer in found], name=f"scripted:{path.name}")

    def bound(self, prompt: Prompt) -> Usage:
        """The same for every prompt."""
        return Usage(self.most, self.most_tokens or 0)

    async def write(self, prompt: Prompt) -> Written:
        """Give the next answer."""
        with self._lock:
            self.prompts.append(prompt)
            size = sum(len(message.text.encode("utf-8", "replace")) for message in prompt.messages)
            if size > self._max_input:
                raise CapabilityError("invalid_input", f"the prompt is larger than {self._max_input} bytes")
            if self._always is None and not self._answers:
                raise CapabilityError("provider_error", "the script has no more answers")
            answer: Any = self._always or self._answers.popleft()
        if callable(answer):
            answer = answer(prompt)
        if isinstance(answer, BaseException):
            raise answer
        written = answer if isinstance(answer, Written) else Written(answer, self._usage, self.name)
        try:
            return Written(fitting(freeze(written.value), prompt.schema), written.usage, written.model)
        except ValueError as error:
            cost = self.most if written.usage.cost is None else written.usage.cost
            raise CapabilityError("provider_error", str(error), cost_usd=usd(cost)) from None

    async def close(self) -> None:
        """Nothing is held."""


def _read(answer: Any, path: Path) -> Any:
    if not isinstance(answer, dict):
        return answer
    if "error" not in answer:
        rest = {name: value for name, value in answer.items() if name not in _ACCOUNTS}
        usage = Usage(nano(answer.get("cost_usd", 0)), int(answer.get("tokens", 0)))
        return Written(rest, usage, f"scripted:{path.name}")
    code, message = answer["error"], str(answer.get("message", ""))
    if code == "unknown":
        return UnknownOutcome(message)
    if code not in FAILURE_CODES:
        raise ConfigError(f"{path} has an error {code!r}.", hint=f"There are unknown, {', '.join(FAILURE_CODES)}.")
    return CapabilityError(
        code,
        message,
        answer.get("retryable") is True,
        cost_usd=answer.get("cost_usd", 0),
        retry_after=answer.get("retry_after"),
    )
