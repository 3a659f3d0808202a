"""The command as a process: what ^C does before the command is there, and after it has ended; and what it is connected
to.

^C ends the process as the system does it. Python would show where it was: a traceback of imports, or of threads that it
waits for.

Standard streams that whoever started it has closed are opened on nothing: the store would get their numbers otherwise,
and whatever is written to them.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command and return its exit code."""
    _streams()
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else whoever started it has it ignored
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from addendum.cli import main as command
    from addendum.cli.failure import INTERRUPTED

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return command.main()
    except KeyboardInterrupt:
        return INTERRUPTED  # another one, while the first was reported
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _streams() -> None:
    """Open the standard streams that are closed. The lowest number that is free is the one that `open` takes."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - open to the end
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
