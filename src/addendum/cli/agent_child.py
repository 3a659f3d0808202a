"""Does one job of an agent in this process, which outlives the one that started it.

python -m addendum.cli.agent_child < JOB
"""

from __future__ import annotations

import sys

from addendum.wiring import do_agent_job


def main() -> int:
    """Do the job that comes by stdin. A job that was cut short isn't done: whoever wrote it died."""
    return do_agent_job(sys.stdin.buffer.read())


if __name__ == "__main__":
    sys.exit(main())
