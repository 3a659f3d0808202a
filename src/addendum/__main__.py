"""`python -m addendum` is the command `addendum`."""

from __future__ import annotations

import sys

from addendum.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
