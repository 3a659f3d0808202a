"""^C: the first one asks the run to stop cleanly, the second one kills this process as a power cut would.

Stopping cleanly means that nothing new is sent, and that calls in flight land and are committed. Killing is safe too:
what was sent and not committed is found as unresolved by the next command.
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

FIRST: Final = "Stopping: nothing new is sent, calls in flight are finished and kept. Press Ctrl-C again to kill."
ASKING: Final = (
    "Stopping: the model's answer isn't waited for, and counts as spent in full. Press Ctrl-C again to kill."
)
"""Said instead of `FIRST` while a model is asked for a script."""


@contextmanager
def stoppable(
    say: Callable[[str], None],
    restore: Callable[[], None] = lambda: None,
    asking: Callable[[], bool] = lambda: False,
) -> Iterator[threading.Event]:
    """Yield the event that asks a run to stop; SIGINT and SIGTERM set it. `restore` mends the terminal before a kill.
    `asking` says whether a model is asked for a script just then."""
    event = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            restore()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        event.set()
        text = ASKING if asking() else FIRST
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
