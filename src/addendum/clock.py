"""The system's clock and entropy, behind the port."""

from __future__ import annotations

import random
import secrets
import time


class SystemClock:
    """Real time and real randomness."""

    def now(self) -> float:
        """Return seconds since 1970, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    def random(self) -> float:
        """Return a float in [0, 1)."""
        return random.random()

    def token(self) -> str:
        """Return 32 hexadecimal digits that nobody can guess."""
        return secrets.token_hex(16)
