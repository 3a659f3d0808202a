"""How values look to a person."""

from __future__ import annotations

import io

from rich.console import Console

from addendum.cli.views import report, result
from addendum.runs.advice import Advice, advise, named
from addendum.runs.result import StepResult

VIOLATION = {"rule": "R03", "line": 1, "column": 1, "message": "m", "fix": "f", "severity": "error", "expression": ""}


def text(part: object) -> str:
    """Return what is printed, without the padding."""
    console = Console(file=io.StringIO(), width=400)
    with console.capture() as captured:
        console.print(part, markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_the_caret_stands_under_the_column() -> None:
    """Behind tabs and wide lines too: the line is cut around the column."""
    shown = text(report.report("s.py", "\tfor x in y:\n", [{**VIOLATION, "column": 2}])).splitlines()
    assert shown[1].expandtabs().index("for") == shown[2].expandtabs().index("^")
    wide = "x = 1" + " " * 300 + "bad" + " " * 300
    shown = text(report.report("s.py", wide, [{**VIOLATION, "column": 306}])).splitlines()
    assert shown[1].index("bad") == shown[2].index("^")
    assert len(shown[1]) < 200


def test_a_violation_beyond_the_source_has_no_excerpt() -> None:
    """An empty script has no line to show."""
    assert text(report.report("s.py", "", [VIOLATION])).splitlines()[:2] == ["s.py:1:1: R03 m", "   fix: f"]


def test_a_result_is_shown_whole_if_it_is_short() -> None:
    """What fits stands on one line; a long one is cut, with the command that shows all."""
    assert result.shown({"a": [1, 2]}, "r") == '  {"a": [1, 2]}'
    items = [{"title": f"Shot {n}", "url": f"mem://image/{n}"} for n in range(3)]
    lines = result.shown(items, "r").splitlines()
    assert lines[1] == '    {"title": "Shot 0", "url": "mem://image/0"},'
    long = result.shown([str(n) * 80 for n in range(100)], "r").splitlines()
    assert len(long) == result.LINES + 1
    assert long[-1].strip() == "… 62 more lines: addendum show r --result"


def test_a_way_out_is_left_out_only_where_the_next_steps_have_it() -> None:
    """A stop of this step can ask for another command than the run as it stands in the store."""
    data = StepResult(run="r", status="stopped", stop="denied", message="m").to_json()

    def shown(hint: str, *commands: str) -> str:
        return text(result.result({**data, "hint": hint}, tuple(Advice(each, "why") for each in commands)))

    assert "addendum catalog accept r" in shown("`addendum catalog accept RUN` goes on.", "addendum certificate r")
    assert "way out" not in shown("`addendum reconcile RUN` it.", "addendum reconcile r --abandon")
    assert "way out" in shown("Write it otherwise.", "addendum plan r s.py")


def test_advice_names_the_run() -> None:
    """Every status has a command that can be copied; `RUN` in a hint is the run's name."""
    assert named("`addendum show RUN` says it, RUNS don't", "r1") == "`addendum show r1` says it, RUNS don't"
    assert named("RUN is the script's own word", "r1") == "RUN is the script's own word"
    for status in ("completed", "failed", "waiting", "paused", "running", "interrupted", "created"):
        assert all(item.command.startswith("addendum ") and " r1" in item.command for item in advise("r1", status))
    for stop in ("divergence", "repeat", "orphans", "denied", "cancelled", "sandbox", "unresolved"):
        assert advise("r1", "stopped", stop=stop, name="a.py")[0].command.startswith("addendum ")
    assert "a.py" in advise("r1", "failed", name="a.py")[0].command
    assert len(advise("r1", "failed", failures=1)) == 3
