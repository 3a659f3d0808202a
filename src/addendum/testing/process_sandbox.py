"""The CPython worker without any confinement, for the tests of its protocol. Not a sandbox: never run a script in it
that wasn't written by hand. Nothing that a user can select leads here.
"""

from __future__ import annotations

import sys
from typing import Literal

from addendum.canon import Json
from addendum.ports import Limits, Script
from addendum.sandbox.process import PYTHON, Launch, ProcessSession, Workers, worker


class ProcessSandbox:
    """CPython in a plain process."""

    name = "process"
    interpreter: Literal["monty", "cpython"] = "cpython"

    def __init__(self, *, spares: int = 0) -> None:
        command = (sys.executable, *PYTHON, *worker())
        launch = Launch(command, (("PYTHONHASHSEED", "0"),))
        self._workers = Workers(self.name, lambda: launch, spares)

    def describe(self) -> str:
        """Return one line for a person."""
        return "CPython without any confinement"

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> ProcessSession:
        """Start a worker."""
        return ProcessSession(self._workers, script, args, limits, nonce)

    def close(self) -> None:
        """End the workers that wait."""
        self._workers.close()
