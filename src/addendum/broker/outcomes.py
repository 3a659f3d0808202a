"""How an answer counts: a result that fits its capability, or a failure, with what it cost and used."""

from __future__ import annotations

from typing import NamedTuple

from addendum import canon
from addendum.authority.catalog import Capability
from addendum.authority.money import nano
from addendum.broker.dispatch import Answered
from addendum.broker.fit import MESSAGE
from addendum.broker.schema import Schemas
from addendum.errors import FAILURE_CODES, CapabilityError, ConfigError, NotJson
from addendum.records.outcome import Failure, Success


class Counted(NamedTuple):
    """An outcome, the canonical bytes of its result (empty for a failure), its cost in nano-dollars, and its tokens."""

    outcome: Success | Failure
    data: bytes
    cost: int
    tokens: int


def count(
    answer: Answered, error: CapabilityError | None, capability: Capability, identity: str, schemas: Schemas
) -> Counted:
    """Return what an answer counts as. `error` is the failure that it came down to, None for a reply."""
    if error is not None:
        code = error.code if error.code in FAILURE_CODES else "provider_error"
        message = error.message if code == error.code else f"{error.code}: {error.message}"
        return Counted(Failure(code, message[:MESSAGE], error.retryable, identity), b"", charged(error), 0)
    reply = answer.reply
    assert reply is not None
    usage = reply.usage
    cost = capability.price if usage.cost is None else usage.cost
    data, problem = answer.data or b"", answer.unfit
    if not problem and answer.data is None:
        try:
            data = canon.canonical(reply.value)
        except NotJson as bad:
            problem = str(bad)
    if not problem and len(data) > capability.max_result:
        problem = f"{len(data):,} bytes of JSON; {capability.name} may answer {capability.max_result:,}."
    if not problem:
        problem = schemas.problem(capability.output, reply.value)
    if not problem:
        return Counted(Success(reply.value), data, cost, usage.tokens)  # type: ignore[arg-type]
    message = f"{capability.name} answered what can't be used: {problem}"
    return Counted(Failure("provider_error", message[:MESSAGE], False, identity), b"", cost, usage.tokens)


def charged(error: CapabilityError) -> int:
    """Return what a provider charged for a failure, in nano-dollars; a claim that is no amount counts as nothing."""
    try:
        return nano(error.cost_usd)
    except ConfigError:
        return 0
