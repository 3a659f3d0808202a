"""The gate: what a candidate would do to the committed calls, before anything starts (DESIGN section 5)."""

from addendum.gate.counterexample import Counterexample, Kind
from addendum.gate.judge import Verdict, judge

__all__ = ["Counterexample", "Kind", "Verdict", "judge"]
