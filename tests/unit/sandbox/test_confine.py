"""What is asked of other programs about a sandbox, and ^C meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandboxes import need

from addendum.errors import SandboxCrashed
from addendum.sandbox import confine
from addendum.sandbox.confine import MontyLauncher

HOST = """
import signal, sys
from addendum.sandbox import confine
from addendum.sandbox.engine import Engine
signal.signal(signal.SIGINT, lambda *_: print("stopping"))
program = sys.argv[1]
"""
BUBBLEWRAP = """
confine.shutil.which = lambda name, path=None: program if name == "bwrap" else "/bin/true"
print(confine.bubblewrap() == (program, ""))
"""
LIBRARIES = 'print(confine.libraries("/bin/true", program) == (program, "/lib/answer.so"))'
ENGINE = 'print(Engine("docker", program, "x86_64").ask("info") == b"answer.so => /lib/answer.so (0x1)\\n")'


@pytest.mark.parametrize("asks", [BUBBLEWRAP, LIBRARIES, ENGINE])
def test_an_interrupt_is_not_for_what_is_asked(asks: str, tmp_path: Path) -> None:
    """^C goes to every process of a terminal. What is asked would end by it, and that would be taken for its answer: a
    bubblewrap that doesn't work, say, so that the script of a run that is being stopped runs without one."""
    asked, may = tmp_path / "asked", tmp_path / "may"
    for pipe in (asked, may):
        os.mkfifo(pipe)
    slow = tmp_path / "slow"
    slow.write_text(
        f"#!/bin/sh\necho >'{asked}'\nread answer <'{may}'\necho 'answer.so => /lib/answer.so (0x1)'\n", "utf-8"
    )
    slow.chmod(0o700)
    host = subprocess.Popen(
        [sys.executable, "-c", HOST + asks, str(slow)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert asked.read_text("utf-8") == "\n"
    os.killpg(host.pid, signal.SIGINT)
    held = os.open(may, os.O_RDWR)  # also where nobody reads it any more
    os.write(held, b"\n")
    assert host.communicate(timeout=60)[0] == "stopping\nTrue\n"
    os.close(held)


@pytest.mark.parametrize("does", ["kill -9 $$", "exit 137", "kill -STOP $$"])
def test_a_bubblewrap_that_is_killed_is_not_taken_for_none(
    does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a machine that is out of memory, say. Where there is none, Monty runs without one: here nothing runs."""
    times, program = tmp_path / "times", tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho x >>'{times}'\n[ -e '{tmp_path}/well' ] || {does}\n", "utf-8")
    program.chmod(0o700)
    monkeypatch.setattr(confine.shutil, "which", lambda name, path=None: str(program) if name == "bwrap" else name)
    monkeypatch.setattr(confine, "libraries", lambda binary: ())
    if "STOP" in does:
        monkeypatch.setattr(confine, "PROBE_SECONDS", 0.5)
    confine.bubblewrap.cache_clear()
    try:
        with pytest.raises(SandboxCrashed):
            MontyLauncher.find(require_confined=False)
        assert len(times.read_text("utf-8").splitlines()) == 2
        monkeypatch.setattr(confine, "PROBE_SECONDS", 20.0)
        (tmp_path / "well").touch()
        assert confine.bubblewrap() == (str(program), "")
    finally:
        confine.bubblewrap.cache_clear()


def test_a_worker_that_starts_when_its_host_is_gone_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """What it reads of the host's then isn't there any more, and nobody is there to be told."""
    need("bwrap")
    launcher = MontyLauncher.find(require_confined=True)
    os.close(launcher.descriptors[0])
    assert subprocess.run([launcher.path], stdin=subprocess.DEVNULL, timeout=60, check=False).returncode
    os.close(launcher.descriptors[1])
    assert capfd.readouterr() == ("", "")


def test_a_worker_whose_host_is_killed_before_its_shell_reads_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The system has begun the launcher then, and the shell finds none: no line of it is on the host's terminal."""
    need("bwrap")
    begun, may = tmp_path / "begun", tmp_path / "may"
    for pipe in (begun, may):
        os.mkfifo(pipe)
    late = tmp_path / "sh"
    late.write_text(f"#!/bin/sh\necho >'{begun}'\nread answer <'{may}'\nexec /bin/sh \"$@\"\n", "utf-8")
    late.chmod(0o700)
    first = confine.shebang()
    monkeypatch.setattr(confine, "shebang", lambda: first.replace("/bin/sh", str(late)))
    launcher = MontyLauncher.find(require_confined=True)
    with subprocess.Popen([launcher.path], stdin=subprocess.DEVNULL) as started:
        assert begun.read_text("utf-8") == "\n"
        launcher.close()
        may.write_text("\n", "utf-8")
        assert started.wait(60)
    assert capfd.readouterr() == ("", "")
