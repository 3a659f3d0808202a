"""^C: the first asks, the second kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from addendum.cli.interrupt import ASKING, FIRST, stoppable


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


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_kills(number: signal.Signals) -> None:
    """A process that doesn't come to its end dies of the signal, after the terminal was put back."""
    program = (
        "import signal, sys\n"
        "from addendum.cli.interrupt import stoppable\n"
        "with stoppable(lambda text: print('asked', flush=True), lambda: print('restored', flush=True)):\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.stdout.readline() == "asked\n"
    process.send_signal(number)
    assert process.stdout.readline() == "restored\n"
    assert process.wait(timeout=30) == -number
    process.stdout.close()
