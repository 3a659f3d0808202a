"""rehearse: whole episodes against a local provider, before any money moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from addendum.cli import options
from addendum.cli.failure import report
from addendum.cli.output import Output
from addendum.errors import AddendumError, UsageError

if TYPE_CHECKING:
    from addendum.rehearse.runner import Played

SUFFIXES = (".yaml", ".yml")


def rehearse(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Scenarios, or folders of them.", show_default=False)
    ],
    json: options.Json = False,
) -> int:
    """Play scenarios: run, fail, plan, revise, with the production parts and a local provider.

    Exit code 0: all pass; 3: some don't; 2: a file is no scenario. With --json, one object per scenario and line.
    """
    import tempfile

    from addendum import wiring
    from addendum.rehearse.scenario import load

    output = Output(json)
    passed = failed = broken = 0
    for path in _files(files):
        name = path.stem
        try:
            scenario = load(path)
            name = scenario.name
            with tempfile.TemporaryDirectory(prefix="addendum-") as folder:
                played = wiring.rehearse(scenario, Path(folder))
        except UsageError as error:
            report(error, json=json)
            broken += 1
            continue
        except AddendumError as error:
            _show(
                output,
                path,
                {
                    "name": name,
                    "passed": False,
                    "steps": [],
                    "mismatches": [],
                    "error": error.code,
                    "message": str(error),
                },
                None,
            )
            failed += 1
            continue
        passed, failed = passed + played.passed, failed + (not played.passed)
        _show(output, path, played.to_json(), played)
    if not json:
        output.show(_summary(passed, failed, broken))
    return 2 if broken else 3 if failed else 0


def _files(names: list[str]) -> Iterator[Path]:
    for name in names:
        path = Path(name)
        if not path.is_dir():
            yield path
            continue
        found = sorted(item for item in path.iterdir() if item.suffix in SUFFIXES)
        if not found:
            raise UsageError(f"There is no scenario in {name}.", hint="Scenarios are YAML files.", path=name)
        yield from found


def _show(output: Output, path: Path, data: dict[str, Any], played: Played | None) -> None:
    """Print one scenario: a line, and the first difference if there is one."""
    from rich.text import Text

    from addendum.cli.printable import line

    if output.json:
        output.value(data, indent=None)
        return
    text = Text("ok      " if data["passed"] else "FAILED  ", style="green" if data["passed"] else "bold red")
    text.append(f"{line(path.name)}  ", style="default").append(line(data["name"]), style="dim")
    output.show(text)
    found = played.mismatches if played is not None else []
    if found:
        output.show(_mismatch(found[0]))
        if len(found) > 1:
            output.show(Text(f"          and {len(found) - 1} more; --json has all", style="dim"))
    elif not data["passed"]:
        output.show(Text(f"          {line(data['message'])}"))


def _mismatch(found: Any) -> Any:
    import json

    from addendum.cli.views.words import pairs

    def shown(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    return pairs(
        [
            ("        where", f"step {found.step} ({found.action})"),
            ("        expected", f"{found.key}: {shown(found.expected)}"),
            ("        seen", f"{found.key}: {shown(found.seen)}"),
            ("        because", found.because),
        ]
    )


def _summary(passed: int, failed: int, broken: int) -> Any:
    from rich.text import Text

    from addendum.cli.views.words import count

    text = Text(f"{count(passed, 'scenario')} passed", style="green" if not failed and not broken else "default")
    if failed:
        text.append(f", {failed} failed", style="bold red")
    if broken:
        text.append(f", {broken} {'is' if broken == 1 else 'are'} no scenario", style="bold red")
    return text
