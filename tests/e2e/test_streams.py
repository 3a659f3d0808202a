"""Standard streams that are closed, full or read by nobody, and a current folder that is gone: what a run does is not
decided by who watches it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from tests.e2e.conftest import COMMAND, Cli

pytestmark = pytest.mark.slow

FIVE = """\
async def orchestrate(ctx, args):
    urls = []
    for seed in range(5):
        image = await ctx.run("image.generate", {"prompt": "a", "seed": seed})
        urls.append(image["url"])
    return urls
"""


@pytest.fixture
def five(cli: Cli) -> Cli:
    """A folder with a script of five calls."""
    cli.write("five.py", FIVE)
    return cli


def shell(cli: Cli, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell, in which `addendum` is the command."""
    function = f'addendum() {{ {shlex.quote(str(COMMAND))} "$@"; }}\n'
    return subprocess.run(
        ["/bin/sh", "-c", function + line],
        cwd=cli.folder,
        env=cli.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_as_one_to_nowhere(five: Cli, closed: str) -> None:
    """The store would be what its number stands for otherwise; without stderr, nothing was run at all."""
    done = shell(five, f"addendum run five.py --id r {closed}; echo $?")
    assert done.stdout.splitlines()[-1] == "0"
    assert "error" not in done.stderr
    assert five("show", "r", "--json").json["committed"] == 5
    assert five("certificate", "r", "--verify").code == 0
    missing = shell(five, f"addendum show nowhere {closed}; echo $?")
    assert missing.stdout.splitlines()[-1] == "2"


def test_a_run_goes_on_when_nobody_reads_its_progress(five: Cli) -> None:
    """`2>&1 | head -1` closes the pipe after a line: the run isn't left in the middle."""
    first = shell(five, "addendum run five.py --id r 2>&1 | head -n 1")
    assert first.stdout.startswith("ok ")
    shown = five("show", "r", "--json").json
    assert (shown["status"], shown["committed"]) == ("completed", 5)


def test_what_can_not_be_printed_is_said(five: Cli) -> None:
    """As a typed error, with a way out; the run stands as it ended."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    done = shell(five, "addendum run five.py --id r >/dev/full; echo $?")
    assert done.stdout.splitlines() == ["1"]
    assert "error[output_lost]: Standard output can't be written: No space left on device." in done.stderr
    assert five("show", "r", "--json").json["status"] == "completed"
    for command in ("runs", "show r", "--help"):
        done = shell(five, f"addendum {command} >/dev/full; echo $?")
        assert done.stdout.splitlines() == ["1"]
        assert done.stderr.startswith("error[output_lost]: ")
        assert len(done.stderr.splitlines()) == 1


def test_an_error_that_nobody_reads_has_its_exit_code(five: Cli) -> None:
    """With stderr full, or closed by its reader, the code is all that says it."""
    assert shell(five, "addendum show nowhere 2>/dev/full; echo $?").stdout.splitlines() == ["2"]
    assert shell(five, "{ addendum show nowhere 2>&1; echo $? >&3; } 3>code | true; cat code").stdout == "2\n"


def test_a_current_folder_that_is_gone_is_said(five: Cli) -> None:
    """It is no error of Addendum's."""
    done = shell(five, "mkdir gone; cd gone; rmdir ../gone; addendum runs; echo $?")
    assert done.stdout.splitlines()[-1] == "2"
    assert "error[usage]: The current folder was deleted. Change to one that is there." in done.stderr
    assert "Traceback" not in done.stderr
