"""The container backend's commands, tried with a program that stands for Docker's and runs what it is given."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from addendum.errors import ConfigError, LimitExceeded, SandboxMissing
from addendum.ports import Limits, Returned
from addendum.sandbox.container import ContainerSandbox, options
from addendum.testing.driving import by_hand, drive

SCRIPT = by_hand('async def orchestrate(ctx, args):\n    return await ctx.run("", "orchestrate/a.b#0", "a.b", {})\n')


def program(directory: Path, *, version: int = 0, image: int = 0) -> str:
    """Make a `docker` in a directory: it notes its arguments, and runs Python for `run`."""
    text = f"""#!/bin/sh
echo "$@" >> {directory}/said
case "$1" in
version) echo "no service" >&2; exit {version};;
image) echo "no such image" >&2; exit {image};;
run) while [ "$1" != the-image ]; do shift; done; shift; PYTHONHASHSEED=0 exec {sys.executable} "$@";;
esac
"""
    path = directory / "docker"
    path.write_text(text)
    path.chmod(0o700)
    return str(directory)


def said(directory: Path) -> list[str]:
    return (directory / "said").read_text().splitlines()


def test_a_script_runs_in_a_container(tmp_path: Path) -> None:
    """The program is asked for its service and the image, then for a confined container."""
    sandbox = ContainerSandbox(image="the-image", path=program(tmp_path), spares=0)
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    sandbox.close()
    lines = said(tmp_path)
    assert lines[:2] == ["version", "image inspect the-image"]
    assert lines[2].startswith("run --interactive --rm --pull never --name addendum-")
    assert not [line for line in lines if line.startswith("rm ")]


def test_a_container_is_run_without_what_could_reach_out() -> None:
    """Each restriction is an option of the command."""
    line = " ".join(options("n", 5))
    for part in (
        "--network none",
        "--read-only",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--user 65534:65534",
        "--memory 5",
        "--memory-swap 5",
        "--pids-limit 16",
        "--ipc none",
    ):
        assert part in line
    assert "--privileged" not in line
    assert "--volume" not in line


@pytest.mark.slow
def test_a_container_that_does_not_end_is_removed(tmp_path: Path) -> None:
    """Killing the client isn't enough."""
    sandbox = ContainerSandbox(image="the-image", path=program(tmp_path), spares=0)
    hang = by_hand(
        "async def orchestrate(ctx, args):\n    ctx.log.__globals__['__builtins__']['__import__']('time').sleep(60)\n"
    )
    with pytest.raises(LimitExceeded):
        drive(sandbox, hang, limits=Limits(turn_seconds=0.1))
    sandbox.close()
    assert said(tmp_path)[-1].startswith("rm --force addendum-")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """No program, no service, no image: an error each, with the way out."""
    with pytest.raises(SandboxMissing, match="isn't there"):
        drive(ContainerSandbox("podman", path=str(tmp_path)), SCRIPT)
    with pytest.raises(SandboxMissing, match="no service"):
        drive(ContainerSandbox(image="the-image", path=program(tmp_path, version=1)), SCRIPT)
    with pytest.raises(SandboxMissing, match="docker pull the-image"):
        drive(ContainerSandbox(image="the-image", path=program(tmp_path, image=1)), SCRIPT)


def test_a_container_is_larger_than_its_script(tmp_path: Path) -> None:
    """Else the kernel would end it where the script should get its limit."""
    with pytest.raises(ConfigError):
        drive(ContainerSandbox(memory=2**20), SCRIPT)
