"""A model whose answers and failures have no secret in them."""

from __future__ import annotations

import asyncio

import pytest
from tests.services import CANARY

from addendum.errors import CapabilityError, UnknownOutcome
from addendum.models.redacted import RedactedModel
from addendum.ports import Message, Prompt, Usage, Written
from addendum.testing.scripted_model import Answer, ScriptedModel

PROMPT = Prompt(messages=(Message("user", "hello"),))


def model(answer: Answer) -> RedactedModel:
    """Return a model that answers so."""

    def clean(text: str) -> str:
        return text.replace(CANARY, "[secret s]")

    return RedactedModel(ScriptedModel([answer]), clean, lambda value: clean(str(value)))


def test_an_answer() -> None:
    """Its value and who says that it is its; what it cost stays."""
    found = asyncio.run(model(Written(f"key {CANARY}", Usage(7, 3), f"m-{CANARY}")).write(PROMPT))
    assert found == Written("key [secret s]", Usage(7, 3), "m-[secret s]")


@pytest.mark.parametrize(
    "failed",
    [CapabilityError("refused", f"no {CANARY}", True, cost_usd="0.5", retry_after=3.0), UnknownOutcome(CANARY)],
)
def test_a_failure(failed: CapabilityError | UnknownOutcome) -> None:
    """It means what it meant, and nothing leads to the one that had the secret in it."""
    with pytest.raises(type(failed)) as caught:
        asyncio.run(model(failed).write(PROMPT))
    found = caught.value
    assert CANARY not in f"{found} {found.args}"
    assert (found.__cause__, found.__context__) == (None, None)
    if isinstance(found, CapabilityError):
        assert (found.code, found.retryable, found.cost_usd, found.retry_after) == ("refused", True, "0.5", 3.0)
