"""The container backend's commands, tried with a program that stands for Docker's and runs what it is given."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pytest

from addendum.errors import ConfigError, LimitExceeded, SandboxMissing, UsageError
from addendum.ports import Limits, Returned
from addendum.sandbox.allowlist import ALLOWED, MACHINES, profile
from addendum.sandbox.container import ContainerSandbox, options
from addendum.sandbox.engine import OWNER, Engine
from addendum.sandbox.image import find
from addendum.sandbox.seccomp import REFUSED
from addendum.testing.driving import by_hand, drive

SCRIPT = by_hand('async def orchestrate(ctx, args):\n    return await ctx.run("", "orchestrate/a.b#0", "a.b", {})\n')
DIGEST = "sha256:" + "1" * 64
INFO = {
    "SecurityOptions": ["name=seccomp,profile=default"],
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "Architecture": platform.machine(),
}
IMAGE = {"Id": DIGEST, "Config": {"Labels": {"addendum.python": f"{sys.executable} 3.11.7"}}}

pytestmark = pytest.mark.skipif(platform.machine() not in MACHINES, reason="no seccomp filter for this machine")


def program(directory: Path, *, info: object = INFO, image: object = IMAGE, start: int = 0) -> str:
    """Make a `docker` in a directory: it notes its arguments, and runs Python for `run`."""
    (directory / "info").write_text(json.dumps(info))
    (directory / "image").write_text(json.dumps([image] if image else []))
    text = f"""#!/bin/sh
echo "$*" | cut -c 1-2000 >> {directory}/said
case "$1" in
info) cat {directory}/info;;
image) cat {directory}/image;;
run) [ {start} = 0 ] || {{ echo "no room" >&2; exit {start}; }}
     while [ "$1" != {DIGEST} ]; do shift; done; shift; PYTHONHASHSEED=0 exec {sys.executable} "$@";;
esac
"""
    path = directory / "docker"
    path.write_text(text)
    path.chmod(0o700)
    return str(directory)


def said(directory: Path) -> list[str]:
    return [line for line in (directory / "said").read_text().splitlines() if line.split(" ")[0] in WORDS]


WORDS = ("info", "image", "ps", "run", "rm")


@pytest.mark.slow
def test_a_script_runs_in_a_container(tmp_path: Path) -> None:
    """The program is asked about itself and the image, swept, then run by the image's digest."""
    sandbox = ContainerSandbox(path=program(tmp_path), spares=0)
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    assert DIGEST[:19] in sandbox.describe()
    sandbox.close()
    lines = said(tmp_path)
    assert [line.split(" ")[0] for line in lines] == ["info", "image", "ps", "run"]
    assert f" --entrypoint {sys.executable} {DIGEST} " in lines[3]


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_is_run_without_what_could_reach_out(engine: str) -> None:
    """Each restriction is an option of the command."""
    line = " ".join(options(engine, "n", 5, "l=m", "/p"))  # type: ignore[arg-type]
    for part in (
        "--pull never",
        "--network none",
        "--read-only",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--security-opt seccomp=/p",
        "--user 65534:65534",
        "--memory 5",
        "--memory-swap 5",
        "--cpus 1",
        "--pids-limit 16",
        "--ipc none",
        "size=16777216",
        "--env HTTPS_PROXY= --env https_proxy=",
    ):
        assert part in line
    assert "--privileged" not in line
    assert "--volume" not in line


@pytest.mark.slow
def test_a_container_that_does_not_end_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killing the client isn't enough."""
    monkeypatch.setattr("addendum.sandbox.container.PATIENCE", 0.1)
    monkeypatch.setattr("addendum.sandbox.container.guest", lambda name: "import time; time.sleep(60)")
    monkeypatch.setattr("addendum.sandbox.process.START_SECONDS", 0.2)
    sandbox = ContainerSandbox(path=program(tmp_path), spares=0)
    with pytest.raises(LimitExceeded):
        drive(sandbox, SCRIPT, limits=Limits(turn_seconds=0.1))
    sandbox.close()
    assert said(tmp_path)[-1].startswith("rm --force addendum-")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """No program, no service, no image, no limits: an error each, with the way out."""
    with pytest.raises(SandboxMissing, match="apt install podman"):
        drive(ContainerSandbox("podman", path=str(tmp_path)), SCRIPT)
    with pytest.raises(SandboxMissing, match=r"no daemon.*Start its service"):
        Engine.find("docker", program(tmp_path, info={"ServerErrors": ["no daemon"]}))
    with pytest.raises(SandboxMissing, match=r"lacks memory, pids.*Switch on the memory controller"):
        Engine.find("docker", program(tmp_path, info={**INFO, "MemoryLimit": False, "PidsLimit": False}))
    with pytest.raises(SandboxMissing, match="lacks seccomp"):
        Engine.find("docker", program(tmp_path, info={**INFO, "SecurityOptions": []}))
    with pytest.raises(SandboxMissing, match="no seccomp profile"):
        Engine.find("docker", program(tmp_path, info={**INFO, "Architecture": "riscv64"}))
    with pytest.raises(SandboxMissing, match="addendum sandbox build --with docker"):
        drive(ContainerSandbox(path=program(tmp_path, image=None)), SCRIPT)
    with pytest.raises(SandboxMissing, match="no room"):
        drive(ContainerSandbox(path=program(tmp_path, start=1), spares=0), SCRIPT)


def test_an_image_is_named_by_its_digest_and_was_made_for_this(tmp_path: Path) -> None:
    """A tag can be moved; an image of another kind, or with a place to write to, won't do."""
    engine = Engine.find("docker", program(tmp_path))
    assert find(engine, DIGEST).identity == DIGEST
    with pytest.raises(UsageError, match="a tag can be moved"):
        find(engine, "python:3.11-slim")
    engine = Engine.find("docker", program(tmp_path, image={"Id": DIGEST, "Config": {"Labels": None}}))
    with pytest.raises(UsageError, match="--base"):
        find(engine, DIGEST)
    volumes = {"Id": DIGEST, "Config": {**IMAGE["Config"], "Volumes": {"/data": {}}}}  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="volumes"):
        find(Engine.find("docker", program(tmp_path, image=volumes)), DIGEST)


def test_a_script_cannot_have_more_memory_than_its_container(tmp_path: Path) -> None:
    """Else the kernel would end the worker without a word."""
    sandbox = ContainerSandbox(path=program(tmp_path), memory=2**20)
    with pytest.raises(ConfigError):
        sandbox.open(SCRIPT, None, limits=Limits(memory=2**21), nonce="n")


def test_a_container_of_a_process_that_is_gone_is_swept(tmp_path: Path) -> None:
    """One of a live process stays, and one of another machine."""
    engine = Engine.find("docker", program(tmp_path))
    gone = f"{platform.node()}/{2**22 + 1}/5"
    listed = f"one {engine.label().partition('=')[2]}\\ntwo {gone}\\nthree elsewhere/1/1\\nfour nonsense\\n"
    text = Path(engine.path).read_text().replace("info)", f"ps) printf '{listed}';;\ninfo)")
    Path(engine.path).write_text(text)
    engine.sweep()
    assert [line for line in said(tmp_path) if line.startswith("rm")] == ["rm --force two"]
    assert OWNER in next(line for line in said(tmp_path) if line.startswith("ps"))


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_the_profile_allows_nothing_that_the_filter_refuses(machine: str) -> None:
    """An allowlist for one machine; only starting the worker itself is left to the filter."""
    value = json.loads(profile(machine))
    assert value["defaultAction"] == "SCMP_ACT_ERRNO"
    assert value["architectures"] == [MACHINES[machine]]
    allowed = {name for names in ALLOWED.values() for name in names.split()}
    assert allowed & set(REFUSED) == {"fork", "vfork"}
    assert {"socket", "mount", "ptrace", "unshare", "bpf", "clone"} & allowed == set()
