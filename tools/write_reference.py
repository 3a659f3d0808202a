"""Write the reference pages that follow from the code: commands, settings, errors.

    python tools/write_reference.py           writes docs/reference/{cli,settings,errors,services}.md
    python tools/write_reference.py --check   exit code 1 if one of them isn't what would be written

A page has what the code says and nothing else; what has to be explained is explained there, in help texts and
docstrings. A stop, an exit code or an option without a text is an error here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import services_page

from addendum import config, errors
from addendum.cli import failure
from addendum.cli.main import PANELS, PROGRAM, build

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "addendum"
FOLDER: Final = ROOT / "docs" / "reference"
NOTE: Final = "<!-- Written by tools/write_reference.py from the code. Don't edit it. -->\n"
NOT_SETTINGS: Final = {
    failure.DEBUG: "`1` prints the traceback of an error, for a report. Not a setting: it isn't read from the file."
}
STOPS: Final = {
    "divergence": (
        "A call stands where a committed one did and asks for something else, or it can't be told whose result it is.",
        "Correct the script, or allow a new version with `--supersede`.",
    ),
    "denied": ("The grant doesn't have the capability.", "Grant it with `addendum grant`."),
    "repeat": (
        "An equal call was paid for before, at another place, and the ledger policy says no.",
        "Write `take=2` if a second one is wanted, or `--policy ledger=warn`.",
    ),
    "unresolved": (
        "A side-effecting call was sent and has no result. The only stop with exit code 4.",
        "`addendum reconcile`.",
    ),
    "orphans": (
        "The revision leaves committed calls unused, and the policy `orphans` is `stop`.",
        "Use them, or `--policy orphans=warn`.",
    ),
    "cancelled": ("Somebody asked for the end of the run.", "`addendum resume` goes on."),
    "store_unavailable": (
        "The store didn't answer: nothing was sent for it. Exit code 1. Results that were paid for and couldn't be "
        "written are printed.",
        "Mend the store, then `addendum resume`.",
    ),
    "sandbox": ("The sandbox's worker ended, or said what it may not say.", "`addendum resume`."),
}
CODES: Final = {
    "usage": "an option, an argument or a command that isn't there, or a request that makes no sense",
    "interrupted": "^C outside of a run; exit code 130",
    "internal": f"an error in Addendum itself; {failure.DEBUG}=1 prints where",
}


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def panel(name: str) -> str:
    """Return the heading that a command stands under in `addendum --help`."""
    word = name.split()[1]
    for title, functions in PANELS.items():
        if any(function.__name__ == word for function in functions):
            return title
    return {"sandbox": "Sandboxes", "work": "Work contracts", "artifact": "Artifacts"}.get(word, word.capitalize())


def cli() -> str:
    """Return the page on commands."""
    parts = ["# Commands\n", NOTE, inspect.cleandoc(failure.__doc__ or "").partition("\n")[2].strip() + "\n"]
    parts.append(
        "`addendum --help` and `addendum COMMAND --help` say the same as this page; `addendum --version` prints the "
        "version. A RUN is a run's name, an unambiguous beginning of it, or `last`.\n"
    )
    heading = ""
    for name, command in commands(build(), PROGRAM):
        if (title := panel(name)) != heading:
            heading = title
            parts.append(f"## {title}\n")
        parts.append(one(name, command))
    return "\n".join(parts)


def one(name: str, command: Any) -> str:
    """Return the section of one command."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and "--help" not in p.opts]
    spelt = [f"{p.metavar}{'...' if p.nargs != 1 else ''}" for p in arguments]
    usage = " ".join(
        [
            name,
            *(each if p.required else f"[{each}]" for p, each in zip(arguments, spelt, strict=True)),
            "[OPTIONS]" if options else "",
        ]
    ).strip()
    text = re.sub(r"\n(?=\S)", " ", inspect.cleandoc(command.help).replace("\n\n", "\0")).replace("\0", "\n\n")
    rows = ["| | |", "| --- | --- |"]
    for param, each in zip(arguments, spelt, strict=True):
        rows.append(f"| `{each}` | {cell(param.help)} |")
    for param in options:
        spelled = ", ".join(f"`{opt}`" for opt in param.opts)
        metavar = f" `{param.metavar}`" if param.metavar and not getattr(param, "is_flag", False) else ""
        if not param.help:
            raise SystemExit(f"{name} {param.opts[0]} has no help text")
        many = " Repeatable." if param.multiple else ""
        default = (
            f" Default: `{param.default}`." if param.show_default and param.default not in (None, "", False) else ""
        )
        rows.append(f"| {spelled}{metavar.replace('|', chr(92) + '|')} | {cell(param.help)}{many}{default} |")
    return f"### {name}\n\n```\n{usage}\n```\n\n{text}\n\n" + "\n".join(rows) + "\n"


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def settings() -> str:
    """Return the page on settings."""
    rows = ["| setting | environment | default | |", "| --- | --- | --- | --- |"]
    for name, field in config.Settings.model_fields.items():
        default = "who is logged in" if field.default_factory is not None else f"`{field.default!r}`".replace("'", '"')
        rows.append(f"| `{name}` | `{config.PREFIX}{name.upper()}` | {default} | {field.description} |")
    more = ["| environment | |", "| --- | --- |", *(f"| `{name}` | {text} |" for name, text in NOT_SETTINGS.items())]
    return "\n".join([
        "# Settings\n",
        NOTE,
        f"A setting is looked for in the command line's options, then in the environment, then in `{config.FILE}` in "
        "the current folder; else it has its default. A name that doesn't exist, or a value of another type, is an "
        "error that says where it came from (code `config`).\n",
        *rows,
        "\nPaths are relative to the current folder. Times are seconds, sizes are bytes.\n",
        "```toml",
        f"# {config.FILE}",
        'store = ".addendum/store.db"',
        'grant = "grant.toml"',
        "turn_seconds = 5.0",
        "```\n",
        *more,
        "",
    ])  # fmt: skip


def import_errors() -> None:
    """Import every module that defines an error with a code: a class is known once its module is."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ast.parse(path.read_text("utf-8"))
        if any(_has_code(node) for node in module.body if isinstance(node, ast.ClassDef)):
            importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))


def _has_code(node: ast.ClassDef) -> bool:
    return any(isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code" for line in node.body)


def tree(base: type[Exception]) -> Iterator[type[Any]]:
    """Yield a class and all that derive from it, as they are drawn in `addendum.errors`."""
    yield base
    for child in base.__subclasses__():
        yield from tree(child)


def error_codes() -> dict[str, tuple[int, str, str]]:
    """Return every code of an error: exit code, class, and what it says."""
    import_errors()
    found: dict[str, tuple[int, str, str]] = {}
    for kind in tree(errors.AddendumError):
        if kind.__module__.startswith("addendum") and kind.code not in ("error", "store"):
            text = " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].split())
            found.setdefault(kind.code, (kind.exit_code, kind.__name__, text))
    return found


def error_page() -> str:
    """Return the page on errors, stops and exit codes."""
    missing = set(get_args(errors.StopKind)) ^ set(STOPS)
    if missing:
        raise SystemExit(f"stops without a text, or texts without a stop: {missing}")
    codes = ["| code | exit | raised as | says |", "| --- | --- | --- | --- |"]
    codes += [
        f"| `{code}` | {exit_code} | `{name}` | {text} |"
        for code, (exit_code, name, text) in sorted(error_codes().items())
    ]
    exits = {"usage": 2, "interrupted": 130, "internal": 1}
    own = [
        "| code | exit | says |",
        "| --- | --- | --- |",
        *(f"| `{code}` | {exits[code]} | {text} |" for code, text in CODES.items()),
    ]
    stops = [
        "| stop | says | way out |",
        "| --- | --- | --- |",
        *(f"| `{kind}` | {says} | {out} |" for kind, (says, out) in STOPS.items()),
    ]
    failures = ", ".join(f"`{code}`" for code in errors.FAILURE_CODES)
    return "\n".join([
        "# Errors, stops and exit codes\n",
        NOTE,
        inspect.cleandoc(failure.__doc__ or "").partition("\n")[2].strip() + "\n",
        "## Errors\n",
        "An error goes to stderr as one sentence: `error[CODE]: what happened. What to do.` With `--json` it is one "
        'line of JSON, `{"error": CODE, "message": ..., "hint": ..., "facts": {...}}`, and stdout stays empty. In the '
        "library it is an exception with the same attributes, from `addendum.errors`.\n",
        *codes,
        "\nThe command line has three more:\n",
        *own,
        "\n## Stops\n",
        "A *stop* ends a run and can't be caught by its script. It is the `stop` of a result with `status` `stopped`; "
        "the exit code is 3 unless the table says otherwise.\n",
        *stops,
        "\n## Failures\n",
        f"A capability that fails raises `CapabilityError` in the script, with one of these codes: {failures}. A run "
        "that ends in one has `status` `failed` and the code as its `error`; for another exception of the script that "
        "is its class name.\n",
    ])  # fmt: skip


def services() -> str:
    """Return the page on the services file."""
    return services_page.page(NOTE)


PAGES: Final = {"cli.md": cli, "settings.md": settings, "errors.md": error_page, "services.md": services}


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    stale = []
    for name, page in PAGES.items():
        path, text = FOLDER / name, page().rstrip("\n") + "\n"
        if "--check" in arguments:
            if not path.exists() or path.read_text("utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, "utf-8")
    for name in stale:
        print(f"docs/reference/{name} isn't what the code says; run tools/write_reference.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
