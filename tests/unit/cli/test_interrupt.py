"""^C: the first asks, the second says what is waited for, the third kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from addendum.cli import main as command
from addendum.cli.interrupt import ASKING, FIRST, stoppable, waiting


def test_the_first_signal_sets_the_event_and_says_so() -> None:
    """Nothing is raised into the run, and the handlers are put back afterwards."""
    said: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with stoppable(said.append) as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_set()
    assert said == [FIRST]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_model_that_is_asked_isnt_waited_for_and_that_is_said() -> None:
    """What happens to its answer is another thing than what happens to calls in flight."""
    said: list[str] = []
    with stoppable(said.append, asking=lambda: True):
        os.kill(os.getpid(), signal.SIGINT)
    assert said == [ASKING]


@pytest.mark.parametrize(("flying", "says"), [(2, "2 calls in flight"), (1, "1 call in flight"), (0, "No call is in")])
def test_the_second_signal_says_what_is_waited_for(flying: int, says: str) -> None:
    """Once, with the number of calls in flight just then, and what a third one would do; nothing is killed."""
    said: list[str] = []
    with stoppable(said.append, lambda: pytest.fail("it would be killed"), flying=lambda: flying):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert said == [FIRST, waiting(flying)]
    assert says in said[1]
    assert "again to kill" in said[1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("asking", "presses"), [("False", 3), ("True", 2)])
def test_the_last_signal_kills(number: signal.Signals, asking: str, presses: int) -> None:
    """A process that doesn't come to its end dies of the signal, after the terminal was put back: of the third one, and
    of the second while a model is asked, whose answer isn't waited for."""
    program = (
        "import signal, sys\n"
        "from addendum.cli.interrupt import stoppable\n"
        "with stoppable(lambda text: print('asked', flush=True), lambda: print('restored', flush=True),\n"
        f"    lambda: {asking}):\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(presses - 1):
        process.send_signal(number)
        assert process.stdout.readline() == "asked\n"
    process.send_signal(number)
    assert process.stdout.readline() == "restored\n"
    assert process.wait(timeout=30) == -number
    process.stdout.close()


INTERRUPTED = """
import os, signal, sys
from addendum.cli import entry

def now():
    os.kill(os.getpid(), signal.SIGINT)

class While:
    def find_spec(self, name, path, target=None):
        if name == "addendum.cli.main":
            now()

sys.argv = ["addendum", "--version"]
"""
IMPORTED = "sys.meta_path.insert(0, While())\nentry.main()"
ENDED = "assert entry.main() == 0\nnow()"
IGNORED = (
    "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsys.meta_path.insert(0, While())\nassert entry.main() == 0\nnow()"
)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "code"), [(IMPORTED, -signal.SIGINT), (ENDED, -signal.SIGINT), (IGNORED, 0)])
def test_an_interrupt_before_and_after_the_command_shows_no_traceback(program: str, code: int) -> None:
    """While its modules are imported, which takes as long as most commands do, and while Python ends."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED + program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")


def test_an_interrupt_outside_of_a_run_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typer would end the command without a word."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("addendum.cli.opening.settings", interrupted)
    assert command.main(["runs", "--json"]) == 130
    assert json.loads(capsys.readouterr().err)["error"] == "interrupted"
