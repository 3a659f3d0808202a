"""^C: the first one asks the run to stop cleanly, the second one says what is waited for, the third one kills this
process as a power cut would.

Stopping cleanly means that nothing new is sent, and that calls in flight land and are committed. Killing is safe too:
what was sent and not committed is found as unresolved by the next command. But a person has to find out then what
became of it, so an impatient second press doesn't kill. While a model is asked for a script nothing is waited for: the
second one kills.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

FIRST: Final = "Stopping: nothing new is sent, calls in flight are finished and kept."
ASKING: Final = (
    "Stopping: the model's answer isn't waited for, and counts as spent in full. Press Ctrl-C again to kill."
)
"""Said instead of `FIRST` while a model is asked for a script."""


def waiting(flying: int) -> str:
    """Return what the second one is answered: for how many calls in flight the run waits."""
    if not flying:
        return "No call is in flight any more: the run is about to end. Press Ctrl-C again to kill."
    calls, they = ("1 call", "it") if flying == 1 else (f"{flying} calls", "they")
    return f"Waiting for {calls} in flight; killed now, {they} would be unresolved. Press Ctrl-C again to kill."


@contextmanager
def stoppable(
    say: Callable[[str], None],
    restore: Callable[[], None] = lambda: None,
    asking: Callable[[], bool] = lambda: False,
    flying: Callable[[], int] = lambda: 0,
) -> Iterator[threading.Event]:
    """Yield the event that asks a run to stop; SIGINT and SIGTERM set it. `restore` mends the terminal before a kill.
    `asking` says whether a model is asked for a script just then, `flying` how many calls are in flight."""
    event = threading.Event()
    told = False  # whether the next one kills

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if told:
            restore()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        told = event.is_set() or asking()
        text = waiting(flying()) if event.is_set() else ASKING if told else FIRST
        event.set()
        try:
            say(text)
        except RuntimeError:  # the signal came in the middle of a line to the same stream
            os.write(sys.stderr.fileno(), f"\n{text}\n".encode())

    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
