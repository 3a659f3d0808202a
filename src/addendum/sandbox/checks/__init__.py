"""The acceptance checks, by what they try to reach."""

from __future__ import annotations

from typing import Final

from addendum.sandbox.acceptance import Check
from addendum.sandbox.checks.inputs import CHECKS as INPUTS
from addendum.sandbox.checks.limits import CHECKS as LIMITS
from addendum.sandbox.checks.privileges import CHECKS as PRIVILEGES
from addendum.sandbox.checks.protocol import CHECKS as PROTOCOL
from addendum.sandbox.checks.reach import CHECKS as REACH

ALL: Final[tuple[Check, ...]] = (*REACH, *PRIVILEGES, *LIMITS, *PROTOCOL, *INPUTS)
"""Every check that a backend has to pass, or say why it doesn't apply."""
