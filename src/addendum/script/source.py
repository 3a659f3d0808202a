"""Source text to tree, within limits that hold before the parser sees the text (rule R00).

`ast.parse` is only called on text whose size, line count, line nesting and bracket nesting are small, since
CPython's parser takes exponential time or deep recursion on some short hostile texts (issues of CPython's own
tracker; reference: its `MAXSTACK` and `MAXLEVEL`). Whatever it still raises becomes a violation, not an error.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from dataclasses import dataclass
from typing import Final

from addendum.script.report import Violation


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on a source text, all checked before or by the parser, and on what stands in it."""

    max_bytes: int = 64 * 1024
    max_lines: int = 2000
    max_line_bytes: int = 8 * 1024
    max_brackets: int = 60
    max_indent: int = 100
    max_depth: int = 110
    max_int_digits: int = 20
    max_payload_bytes: int = 64 * 1024
    max_bound: int = 1_000_000
    max_steps: int = 24_000


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Source:
    """A source text that parses: the text, its tree, its lines without ends, and its revision (SHA-256, hex)."""

    text: str
    tree: ast.Module
    lines: tuple[str, ...]
    revision: str


# Comments and strings; an unterminated string ends at the line's end, as the tokenizer's error does.
_NOT_CODE: Final = re.compile(
    r"""#[^\n]*"""
    r"""|\"\"\"[^\\"]*(?:(?:\\.|\"(?!\"\"))[^\\"]*)*(?:\"\"\")?|\'\'\'[^\\']*(?:(?:\\.|\'(?!\'\'))[^\\']*)*(?:\'\'\')?"""
    r"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|'[^'\\\n]*(?:\\.[^'\\\n]*)*'?""",
    re.DOTALL,
)
_BRACKET_OR_NOT_CODE: Final = re.compile(r"(?P<open>[(\[{])|(?P<close>[)\]}])|" + _NOT_CODE.pattern, re.DOTALL)
_NO_BRACKET: Final = re.compile(r"[^()\[\]{}\"'#]+|" + _NOT_CODE.pattern, re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufeff\u202a-\u202e\u2066-\u2069]")


def revision_of(text: str) -> str:
    """Return the revision of a source text: SHA-256 of its UTF-8 bytes, lone surrogates kept apart."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def parse(text: str, limits: Limits = DEFAULT_LIMITS) -> Source | Violation:
    """Parse and compile a source text. Returns the R00 violation when that fails or a limit is passed; never raises."""
    source = read(text, limits)
    return source if isinstance(source, Violation) else uncompilable(source) or source


def read(text: str, limits: Limits = DEFAULT_LIMITS) -> Source | Violation:
    """Parse a source text as `parse` does, but leave to the caller whether it compiles (see `uncompilable`)."""
    over = _over(text, limits)
    if over is not None:
        return over
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, "<script>", feature_version=(3, 11))
    except _FAILURES as error:
        return _failed(error)
    return Source(text=text, tree=tree, lines=tuple(text.split("\n")), revision=revision_of(text))


def uncompilable(source: Source) -> Violation | None:
    """Return what the compiler has against a source that parses; None for nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source.tree, "<script>", "exec", dont_inherit=True)
    except _FAILURES as error:
        return _failed(error)
    return None


_FAILURES: Final = (
    *(SyntaxError, ValueError, RecursionError, MemoryError),
    *(OverflowError, SystemError, TypeError, AssertionError),
)
"""What parser and compiler raise."""


def _failed(error: BaseException) -> Violation:
    if not isinstance(error, SyntaxError):
        return _refuse(
            "The source can't be compiled: it nests too deeply or has a character that no source may have.",
            "Split long expressions into several statements.",
        )
    fenced = "```" in (error.text or "")
    return _refuse(
        f"The source doesn't parse: {_reason(error)}.",
        "Leave the Markdown fence out." if fenced else "Correct it; the language is Python 3.11.",
        line=error.lineno or 1,
        column=error.offset or 1,
    )


def _over(text: str, limits: Limits) -> Violation | None:
    """Return the violation of the first limit that the text is over."""
    shorter = "Make the script shorter: move long texts into args, and repeated code into a helper."
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return _refuse("The source has a lone surrogate, which UTF-8 can't say.", "Write valid Unicode.")
    if size > limits.max_bytes:
        return _refuse(f"The source is {size:,} bytes long; the limit is {limits.max_bytes:,}.", shorter)
    text = text.replace("\r\n", "\n")
    control = _CONTROL.search(text)
    if control is not None:
        return _refuse(
            f"The source has the control character {control[0]!r}.",
            "Remove it, or escape it in a string.",
            line=text.count("\n", 0, control.start()) + 1,
        )
    lines = text.split("\n")
    if len(lines) > limits.max_lines:
        return _refuse(f"The source has {len(lines):,} lines; the limit is {limits.max_lines:,}.", shorter)
    for number, line_text in enumerate(lines, 1):
        if len(line_text) <= limits.max_indent and len(line_text) <= limits.max_line_bytes:
            continue
        if len(line_text) > limits.max_line_bytes:
            return _refuse(
                f"Line {number} has {len(line_text):,} characters; the limit is {limits.max_line_bytes:,}.",
                "Break the line.",
                line=number,
            )
        if len(line_text) > limits.max_indent and line_text[: limits.max_indent].isspace() and line_text.strip():
            return _refuse(f"Line {number} is indented too deeply.", "Move inner blocks into a helper.", line=number)
    return _nesting(text, limits)


def _nesting(text: str, limits: Limits) -> Violation | None:
    """Return the violation when brackets nest deeper than the limit. Those in f-strings are the tree's business."""
    rest = _NO_BRACKET.sub("", text)
    for _ in range(limits.max_brackets // 3):  # one round takes away up to three levels
        less = rest.replace("()", "").replace("[]", "").replace("{}", "")
        if len(less) == len(rest):
            break
        rest = less
    if not rest:
        return None
    depth = 0
    for match in _BRACKET_OR_NOT_CODE.finditer(text):
        if match.lastgroup == "open":
            depth += 1
        elif match.lastgroup == "close":
            depth -= 1
        if depth > limits.max_brackets:
            return _refuse(
                f"Brackets are nested deeper than {limits.max_brackets} levels.",
                "Split the expression into several statements with names.",
                line=text.count("\n", 0, match.start()) + 1,
            )
    return None


def _reason(error: SyntaxError) -> str:
    """Return the parser's reason without its own full stop, on one line."""
    return " ".join((error.msg or "invalid syntax").split()).rstrip(".")[:200]


def _refuse(message: str, fix: str, *, line: int = 1, column: int = 1) -> Violation:
    return Violation(rule="R00", line=max(1, line), column=max(1, column), message=message, fix=fix)
