"""How a settled call came out: a result or a failure. Failures are outcomes too (DESIGN section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from addendum.canon import Json


@dataclass(frozen=True, slots=True)
class Success:
    """A call's result, a JSON value."""

    value: Json


@dataclass(frozen=True, slots=True)
class Failure:
    """A call's failure, as the script sees it in a `CapabilityError`.

    `identity` is the failing call's, for reports; a script can't read it.
    """

    code: str
    message: str
    retryable: bool = False
    identity: str = ""


Outcome: TypeAlias = Success | Failure
