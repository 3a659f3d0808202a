"""The command as a process: what ^C does before the command is there, and after it has ended.

It ends the process as the system does it. Python would show where it was: a traceback of imports, or of threads that it
waits for.
"""

from __future__ import annotations

import signal


def main() -> int:
    """Run the command and return its exit code."""
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
