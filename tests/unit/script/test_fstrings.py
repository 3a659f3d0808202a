"""F-strings that only later versions read are known, whichever version this is."""

from __future__ import annotations

import ast
import sys

import pytest

from addendum.script.rules.fstrings import reads

OLD = [
    'f"{x}"',
    "f'{x[\"a\"]}'",
    'f"{x!r:>{10}}"',
    "f\"{'a' 'b'}\"",
    "f'''{\"\"\"x\"\"\"}'''",
    'f"""{\n x["a"]\n}"""',
    "f\"a\" f\"{x['b']}\" 'c'",
    'f"{x}" f\'{x["a"]}\'',
    "f'{x}'  # with a remark\n f\"{x['a']}\"",
    'f"\\N{DIGIT ONE}{x}\\n"',
    'rf"\\d{x}"',
    "f\"{x['#']}\"",
    "f\"{'{'}\"",
    'f"{{not a field}} {x}"',
    'f"{(lambda: 1)()}"',
    'f"{ {1: 2}[1] }"',
    'f"{x:\\n}"',
    "f\"{x:{'>'}10}\"",
    "f\"{f'{x}'}\"",
    'f"{x=}"',
]
NEW = [
    'f"{x["a"]}"',
    "f'{x['a']}'",
    "f\"{'\\n'.join(x)}\"",
    'f"{f"{x}"}"',
    'f"{(\n x)}"',
    'f"""{x # remark\n}"""',
    'f"{x:{x["w"]}}"',
    'f"{""}"',
]


@pytest.mark.parametrize("text", OLD)
def test_an_f_string_of_python_3_11_is_read(text: str) -> None:
    """And every version agrees."""
    assert reads(text)
    ast.parse(f"({text})")


@pytest.mark.parametrize("text", NEW)
def test_an_f_string_of_later_versions_is_not(text: str) -> None:
    """Python 3.11 refuses it, later ones read it."""
    assert not reads(text)
    if sys.version_info < (3, 12):
        with pytest.raises(SyntaxError):
            ast.parse(f"({text})")
    else:
        ast.parse(f"({text})")
