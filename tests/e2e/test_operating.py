"""What a person decides about a run, through the real command."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.e2e.conftest import COMMAND, Cli

from addendum import App, UnknownOutcome

pytestmark = pytest.mark.slow

ASKS = """\
async def orchestrate(ctx, args):
    ok = await ctx.run("human.approve", {"question": "Publish?"})
    return ok
"""
MAIL = """\
async def orchestrate(ctx, args):
    return await ctx.run("mail.send", {"to": "a@example.com", "subject": "s", "body": "b"})
"""
LOOP = """\
async def orchestrate(ctx, args):
    for i in range(4):
        await ctx.run("image.generate", {"prompt": f"shot {i}"})
    return "done"
"""
SLEEPS = """\
async def orchestrate(ctx, args):
    await ctx.run("image.generate", {"prompt": "a"})
    await ctx.sleep(3600)
    return "slept"
"""
GRANT = """\
worst_case = "at_run_time"

[capabilities."image.generate"]
limits = [{meter = "calls", max = %d}]
"""


def test_a_run_waits_for_a_person_and_goes_on(cli: Cli) -> None:
    """A waiting run is undecided (4); the answer and its note reach the script."""
    waiting = cli("run", cli.write("asks.py", ASKS), "--id", "ask", "--json")
    assert (waiting.code, waiting.json["status"]) == (4, "waiting")
    assert "addendum approve ask" in cli("show", "ask").out
    answered = cli("approve", "ask", "--no", "--note", "not yet", "--by", "ada", "--json")
    assert (answered.code, answered.json["approved"]) == (0, False)
    assert cli("approve", "ask", "--json").code == 2, "there is nothing to answer any more"
    done = cli("resume", "ask", "--json")
    assert done.json["result"] == {"approved": False, "note": "not yet"}
    (attempt,) = cli("attempts", "ask", "--json").json
    assert attempt["by"] == "ada"


def test_a_limit_pauses_and_a_higher_grant_lets_it_go_on(cli: Cli) -> None:
    """A paused run is undecided (4) and names the limit; nothing is paid for twice."""
    grant = cli.write("grant.toml", GRANT % 2)
    paused = cli("run", cli.write("loop.py", LOOP), "--id", "loop", "--grant", grant, "--json")
    assert (paused.code, paused.json["status"], paused.json["dispatched"]) == (4, "paused", 2)
    assert "image.generate: calls <= 2" in paused.json["message"]
    assert cli("grant", "loop", cli.write("higher.toml", GRANT % 4)).code == 0
    done = cli("resume", "loop", "--json").json
    assert (done["status"], done["dispatched"], done["replayed"]) == ("completed", 2, 2)


def test_a_worst_case_above_the_grant_never_starts(cli: Cli) -> None:
    """A typed rejection (3) before anything is sent, and no run is left behind."""
    grant = cli.write("grant.toml", (GRANT % 2).replace("at_run_time", "refuse"))
    done = cli("run", cli.write("loop.py", LOOP), "--grant", grant, "--json")
    assert (done.code, done.json["status"], done.json["dispatched"]) == (3, "not_admitted", 0)
    assert cli("runs", "--json").json == []
    checked = cli("check", "loop.py", "--grant", grant, "--json")
    assert (checked.code, checked.json["ok"], checked.json["violations"][0]["rule"]) == (3, False, "R09")


@pytest.fixture
def unresolved(cli: Cli) -> Cli:
    """A run named `mail` whose call was sent and never answered."""
    with App(store=str(cli.folder / ".addendum" / "store.db")) as app:

        @app.capability("mail.send", effect="irreversible")
        def send(to: str, subject: str, body: str) -> dict[str, str]:
            raise UnknownOutcome("the connection broke")

        assert app.run(MAIL, run="mail").stop == "unresolved"
    return cli


def test_what_was_sent_and_never_answered_is_written_back(unresolved: Cli) -> None:
    """An unresolved call is undecided (4) and never sent again by itself; the known result closes it."""
    again = unresolved("resume", "mail", "--json")
    assert (again.code, again.json["stop"], again.json["dispatched"]) == (4, "unresolved", 0)
    assert "addendum reconcile mail" in unresolved("resume", "mail").out
    (attempt,) = unresolved("attempts", "mail", "--open", "--json").json
    assert attempt["state"] == "unresolved"
    assert unresolved("reconcile", "mail", "--json").error["error"] == "usage", "it has to be said what became of it"
    result = '{"id": "m-1"}'
    done = unresolved("reconcile", "mail", "--result", result, "--call", attempt["key"], "--json")
    assert (done.code, done.json["committed"]) == (0, [attempt["identity"]])
    assert unresolved("resume", "mail", "--json").json["result"] == {"id": "m-1"}


def test_what_never_arrived_is_declared_void_and_sent_once_more(unresolved: Cli) -> None:
    """Abandoning is recorded with who and why, and allows the call again."""
    assert unresolved("reconcile", "mail", "--abandon", "--reason", "no such mail", "--by", "ada").code == 0
    done = unresolved("resume", "mail", "--json").json
    assert (done["status"], done["dispatched"]) == ("completed", 1)
    first, second = unresolved("attempts", "mail", "--json").json
    assert (first["state"], first["by"], first["reason"]) == ("abandoned", "ada", "no such mail")
    assert (second["state"], first["key"] != second["key"]) == ("committed", True)


def _start(cli: Cli, script: str, *more: str) -> subprocess.Popen[str]:
    """Start a run in a process of its own, and wait until its first call is committed."""
    process = subprocess.Popen(
        [str(COMMAND), "run", script, "--id", "long", *more],
        cwd=cli.folder,
        env=cli.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("ok ")
    return process


def test_an_interrupt_stops_cleanly(cli: Cli) -> None:
    """^C, sent to every process of the terminal as a shell does it: what is done is kept, and the run goes on later."""
    process = _start(cli, cli.write("sleeps.py", SLEEPS))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "Stopping: nothing new is sent" in err
    assert "Run long: stopped (cancelled)" in out
    shown = cli("show", "long", "--json").json
    assert (shown["status"], shown["stop"], shown["committed"]) == ("stopped", "cancelled", 1)


def test_a_run_that_is_driven_can_be_cancelled_from_outside(cli: Cli) -> None:
    """Another process sees it run, can't drive it (4), and can ask it to stop."""
    process = _start(cli, cli.write("sleeps.py", SLEEPS))
    assert cli("show", "long", "--json").json["status"] == "running"
    busy = cli("resume", "long", "--json")
    assert (busy.code, busy.error["error"]) == (4, "run_busy")
    assert cli("cancel", "long", "--json").json == {"run": "long", "driven": True}
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, "stopped (cancelled)" in out) == (3, True)
    assert cli("cancel", "long").code == 4, "nobody drives it now"


def test_a_killed_process_leaves_a_run_that_goes_on(cli: Cli) -> None:
    """After a SIGKILL the run is shown as interrupted, with the command that goes on."""
    process = _start(cli, cli.write("sleeps.py", SLEEPS.replace("3600", "1")))
    process.kill()
    process.communicate()
    shown = cli("show", "long")
    assert "interrupted" in shown.out
    assert "addendum resume long" in shown.out
    done = cli("resume", "long", "--json").json
    assert (done["status"], done["replayed"], done["dispatched"]) == ("completed", 1, 0)


def test_settings_come_from_file_environment_and_options(cli: Cli, tmp_path: Path) -> None:
    """An option wins over the environment, and that over `addendum.toml`."""
    cli.write("asks.py", ASKS)
    cli.write("addendum.toml", 'store = "file.db"\n')
    cli("run", "asks.py", "--id", "one")
    cli("run", "asks.py", "--id", "two", ADDENDUM_STORE="environment.db")
    cli("run", "asks.py", "--id", "three", "--store", "option.db", ADDENDUM_STORE="environment.db")
    names = {
        name: cli("runs", "--store", f"{name}.db", "--json").json[0]["run"]
        for name in ("file", "environment", "option")
    }
    assert names == {"file": "one", "environment": "two", "option": "three"}
    wrong = cli("runs", "--json", ADDENDUM_BACKOFF="soon")
    assert (wrong.code, wrong.error["error"]) == (2, "config")
    assert "ADDENDUM_BACKOFF" in wrong.error["message"]
