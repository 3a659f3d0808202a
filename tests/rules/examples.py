"""Files of examples: a heading that says what is shown, and a script."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"^## (?P<title>[^\n]*)\n\n```python\n(?P<code>.*?)```", re.DOTALL | re.MULTILINE)


def examples(path: Path) -> list[tuple[str, str]]:
    """Return the examples of a file: heading and code."""
    return [(match["title"], match["code"]) for match in _BLOCK.finditer(path.read_text(encoding="utf-8"))]
