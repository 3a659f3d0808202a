"""A sandbox without a sandbox: the CPython guest in this very process, for generated scripts only.

It runs the guest's own text and the worker's own scheduler, and the host's own checks of what the guest says; only the
process and the pipe between them are left out. `test_inprocess.py` holds it against the embedded sandbox.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, Literal

from addendum.canon import Json
from addendum.ports import Answer, End, Known, Limits, Script, Turn
from addendum.sandbox.claims import Claims
from addendum.sandbox.prelude import guest, prelude

NAMES = ("_wf_at", "_wf_call", "_wf_err", "_wf_cap", "_wf_exc", "_wf_end", "CapabilityError")
SCHEDULER = ("Future", "Task", "Gather", "plain", "Watch")


@lru_cache(maxsize=1)
def _scheduler() -> CodeType:
    """Return the worker's scheduler, without the rest of the worker."""
    tree = ast.parse(guest("worker"))
    tree.body = [node for node in tree.body if getattr(node, "name", "") in SCHEDULER]
    assert len(tree.body) == len(SCHEDULER)
    return compile(tree, "worker.py", "exec")


@lru_cache(maxsize=1)
def _prelude() -> CodeType:
    return compile(prelude("cpython"), "prelude.py", "exec")


@lru_cache(maxsize=512)
def _script(text: str) -> CodeType:
    return compile(text, "script.py", "exec")


class InProcess:
    """The `Sandbox` port for scripts that a test wrote itself."""

    name = "inprocess"
    interpreter: Literal["monty", "cpython"] = "cpython"

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> InProcessSession:
        """Return a session."""
        return InProcessSession(script, args, limits, nonce)

    def close(self) -> None:
        """Nothing is kept."""


class InProcessSession:
    """One execution."""

    def __init__(self, script: Script, args: Json, limits: Limits, nonce: str) -> None:
        self.script = script
        self.args = args
        self.nonce = nonce
        self.claims = Claims(script, limits, nonce)
        self.ready: list[Any] = []
        self.waiting: dict[int, Any] = {}
        self.main: Any = None
        self.names: dict[str, Any] = {}
        self.guest: dict[str, Any] = {}

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Run to quiescence; see `ports.Session`."""
        if answer is None:
            self._begin(ahead)
        else:
            return self.advance_all((answer,), ahead)
        return self._turn()

    def advance_all(self, answers: Sequence[Answer], ahead: Sequence[Known] = ()) -> Turn:
        """Hand a batch of outcomes over; see `ports.BatchSession`."""
        told = self.claims.answers(answers, ahead)
        for answer, each in zip(answers, told, strict=True):
            self.waiting.pop(answer.call).settle(each)
        return self._turn()

    def _turn(self) -> Turn:
        while self.ready and not self.main.done:
            self.ready.pop(0).step()
        end = self._end() if self.main.done else None
        return Turn(self.claims.drain(), end)

    def close(self) -> None:
        """Drop the script where it is."""
        self.ready.clear()
        self.waiting.clear()
        _silence(self.main)
        self.main = None

    def _begin(self, ahead: Sequence[Known]) -> None:
        self.names = names = {"READY": self.ready}
        exec(_scheduler(), names)
        self.guest = inside = {"__name__": "guest", "_wf_nonce": self.nonce, "_wf_host": self._host}
        inside["_wf_gather"] = lambda *awaited: names["Gather"](awaited)
        inside["_wf_spent"] = lambda error: None
        exec(_prelude(), inside)
        script = {"__name__": "script", **{name: inside[name] for name in NAMES}}
        exec(_script(self.script.annotated), script)
        known = self.claims.table(ahead)
        self.main = names["Task"](inside["_wf_main"](script["orchestrate"], json.dumps(self.args), known))
        self.ready.append(self.main)

    def _host(self, *message: Any) -> Any:
        number, _ = self.claims.hear(message)
        if number is None:
            return None
        future = self.waiting[number] = self.names["Future"]()
        return future

    def _end(self) -> End:
        error = self.main.error
        if error is None:
            return self.claims.returned(self.main.value)
        if not isinstance(error, Exception) or not self.claims.ended:
            raise error  # a bug of the test's, not the script's end
        lines = []
        trace = error.__traceback__
        while trace is not None:
            name = trace.tb_frame.f_code.co_name
            if trace.tb_frame.f_code.co_filename == "script.py" and not name.startswith("<"):
                lines.append((trace.tb_lineno, name))
            trace = trace.tb_next
        if isinstance(error, self.guest["CapabilityError"]):
            failure = [error.code, error.message, error.retryable, error._wf_identity]
            return self.claims.raised("CapabilityError", str(error), lines, failure)
        return self.claims.raised(type(error).__name__, str(error), lines)


def _silence(task: Any) -> None:
    """Close a coroutine that is dropped half-way, so that Python says nothing about it."""
    if task is None or task.done:
        return
    try:
        task.coroutine.close()
    except (RuntimeError, ValueError):
        return
