"""`agent.run` with real commands in a real repository: what it sees, what comes back, and what is left of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError
from tests.repositories import git, repository
from tests.sandboxes import need

from addendum.credentials import Credentials
from addendum.errors import CapabilityError, ConfigError, UnknownOutcome
from addendum.ports import Reply, Request
from addendum.providers import agent
from addendum.providers.service import Tools
from addendum.testing.memory_artifacts import MemoryArtifacts
from addendum.wiring import AGENT_CHILD

KEY = "sk-CANARY-7f3a"
SH = "/bin/sh"

pytestmark = pytest.mark.slow


@pytest.fixture
def first(tmp_path: Path) -> str:
    """Make the repository."""
    return repository(tmp_path / "repo")


def tools(folder: Path) -> Tools:
    """Return what a service is given."""
    return Tools(
        secret=Credentials({"key": "env:KEY"}, folder, {"KEY": KEY}).later,
        artifacts=MemoryArtifacts(),
        folder=folder,
        model=lambda choice: pytest.fail("no model is needed"),
        loop=lambda: pytest.fail("no loop is needed"),
        kept=folder / "kept",
        agent=AGENT_CHILD,
    )


def opened(folder: Path, *command: str, **spec: Any) -> agent.Service:
    """Open a service for a command."""
    more = {"repository": "repo", "timeout": 60.0, **spec}
    return agent.open("agent.run", agent.Spec(kind="agent", command=list(command), **more), tools(folder))


def request(payload: dict[str, Any], key: str = "key-1") -> Request:
    """Return a dispatch."""
    return Request(capability="agent.run", payload=payload, key=key, run="r", identity="i", attempt=1)


def ask(service: agent.Service, task: str = "do", key: str = "key-1", **payload: Any) -> Any:
    """Dispatch a task and return the result, which fits the schema."""
    (capability,) = service.capabilities
    given = {"task": task, **payload}
    jsonschema.validate(given, dict(capability.input))

    async def main() -> Reply:
        try:
            return await service.dispatch(request(given, key))
        finally:
            await service.close()

    reply = asyncio.run(main())
    jsonschema.validate(reply.value, dict(capability.output))
    return reply.value


def lookup(service: agent.Service, key: str = "key-1") -> Any:
    """Ask what became of a dispatch."""
    found = asyncio.run(service.lookup("agent.run", key))
    return None if found is None else found.value


# --- what it does -----------------------------------------------------------------------------------------------


def test_work_becomes_a_diff(tmp_path: Path, first: str) -> None:
    """What a command changes in its worktree comes back as paths and a patch that applies, and nowhere else."""
    script = "cat; echo wrong >&2; echo three > a.txt; rm gone.txt; echo new > 'ä b.txt'; echo x > c.o; exit 3"
    found = ask(opened(tmp_path, SH, "-c", script, base=first), "the task\n")
    assert (found["exit_code"], found["stdout"], found["stderr"]) == (3, "the task\n", "wrong\n")
    assert (found["base"], found["cut"]) == (first, [])
    assert found["changed"] == [
        {"path": "a.txt", "status": "modified"},
        {"path": "gone.txt", "status": "deleted"},
        {"path": "ä b.txt", "status": "added"},
    ]
    assert git(tmp_path / "repo", "status", "--short") == ""
    git(tmp_path / "repo", "checkout", "--quiet", first)
    (tmp_path / "patch").write_text(found["diff"], "utf-8")
    git(tmp_path / "repo", "apply", str(tmp_path / "patch"))
    assert (tmp_path / "repo" / "ä b.txt").read_text("utf-8") == "new\n"


def test_the_worktree_is_a_repository(tmp_path: Path, first: str) -> None:
    """A command finds a repository with one commit and no remote, and what it commits there is in the diff."""
    script = "git log --format=%s; git remote; git status --short; echo x > new; git add new; git commit -qm mine"
    found = ask(opened(tmp_path, SH, "-c", script, environment={"PATH": "/usr/bin:/bin"}))
    assert (found["stdout"], found["exit_code"]) == ("second\n", 0)
    assert found["changed"] == [{"path": "new", "status": "added"}]
    assert git(tmp_path / "repo", "log", "--format=%s") == "second\nfirst"


def test_base(tmp_path: Path, first: str) -> None:
    """A script names a commit only where it may; one that isn't there is refused before anything is done."""
    service = opened(tmp_path, "/bin/cat", "a.txt", any_base=True)
    assert ask(service, base=first)["stdout"] == "one\n"
    assert ask(service, key="key-2", base="main")["stdout"] == "two\n"
    with pytest.raises(CapabilityError, match="no commit 'none'; nothing was done"):
        ask(service, key="key-3", base="none")
    for wrong in ("--upload-pack=x", "main..HEAD", "main:a.txt", "a b", "-x"):
        with pytest.raises((jsonschema.ValidationError, CapabilityError)):
            ask(service, key=wrong, base=wrong)
    with pytest.raises(jsonschema.ValidationError):
        ask(opened(tmp_path, "/bin/true"), base=first)


def test_environment(tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's environment has what is named, and nothing of ours; its home is empty and its own."""
    monkeypatch.setenv("HOST_SECRET", "CANARY-host")
    assert ask(opened(tmp_path, "/usr/bin/env"))["stdout"] == ""
    script = "import os, json; print(json.dumps([dict(os.environ), os.listdir(os.environ['HOME'])]))"
    service = opened(
        tmp_path, sys.executable, "-c", script, environment={"HOME": "{home}", "A": "b"}, secrets={"TOKEN": "key"}
    )
    said, home = json.loads(ask(service, key="key-2")["stdout"])
    said = {name: value for name, value in said.items() if name != "LC_CTYPE"}  # Python sets it by itself (PEP 538)
    assert said == {"HOME": said["HOME"], "A": "b", "TOKEN": "[secret key]"}
    assert home == []
    assert not Path(said["HOME"]).exists()


def test_the_environment_of_its_parent(tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the process that started the command have our environment."""
    monkeypatch.setenv("HOST_SECRET", "CANARY-host")
    found = ask(opened(tmp_path, SH, "-c", "tr '\\0' '\\n' < /proc/$PPID/environ"))
    assert found["exit_code"] == 0
    assert "CANARY" not in found["stdout"]


def test_secrets_come_back_redacted(tmp_path: Path, first: str) -> None:
    """What a command says or writes has no secret in it: not in the result, not in what is kept."""
    script = "echo $TOKEN; echo $TOKEN >&2; echo $TOKEN > $TOKEN.txt; printf %s $TOKEN | base64 > b64"
    service = opened(tmp_path, SH, "-c", script, secrets={"TOKEN": "key"}, environment={"PATH": "/usr/bin:/bin"})
    found = ask(service)
    assert found["stdout"] == "[secret key]\n"
    assert {"path": "[secret key].txt", "status": "added"} in found["changed"]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file())
    for text in (json.dumps(found), kept.decode()):
        assert "CANARY" not in text
        assert "c2stQ0FOQVJZ" not in text
    assert KEY not in repr(service)


def test_task_as_an_argument(tmp_path: Path, first: str) -> None:
    """A task in the place of an argument is that argument, and no option of the command."""
    service = opened(tmp_path, "/bin/echo", "-n", "{task}")
    assert ask(service, "$(id); `id`")["stdout"] == "$(id); `id`"
    for task in ("--help", "-e", "a\0b"):
        with pytest.raises(CapabilityError, match="begins with a dash"):
            ask(service, task, key=task)
    assert ask(opened(tmp_path, "/bin/echo", "task: {task}"), "-e", key="key-3")["stdout"] == "task: -e\n"


def test_sizes(tmp_path: Path, first: str) -> None:
    """Of what is said the end stays, of a diff the beginning; all of the diff is an artifact then."""
    script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; cat b.bin b.bin > c.bin; cp a.txt d.txt"
    service = opened(tmp_path, SH, "-c", script, max_output=100, max_diff=50, environment={"PATH": "/usr/bin:/bin"})
    found = ask(service)
    assert found["stdout"].endswith("line 1999\n")
    assert (len(found["stdout"]), len(found["diff"]), found["cut"]) == (100, 50, ["diff", "output"])
    patch = service.artifacts.get(found["patch"]["artifact"])
    assert b"d.txt" in patch
    assert patch.startswith(found["diff"].encode())


def test_endless_output(tmp_path: Path, first: str) -> None:
    """A command that never stops talking is heard to its end in bounded memory."""
    script = "import os\nfor n in range(300): os.write(1, b'x' * 65536)\nos.write(1, b'y' * 65536 + b'end')"
    found = ask(opened(tmp_path, sys.executable, "-c", script, max_output=70_000))
    assert "output" in found["cut"]
    assert set(found["stdout"]) <= set("xyend")


# --- its end ----------------------------------------------------------------------------------------------------

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
if sys.argv[2] == "stay":
    time.sleep(600)
"""


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells whose orphan a process is")
@pytest.mark.slow
def test_nothing_is_left(tmp_path: Path, first: str) -> None:
    """A process that left its group and its parent is ended too, when the command ends and when its time is up."""
    pid = tmp_path / "pid"
    assert ask(opened(tmp_path, sys.executable, "-c", DAEMON, str(pid), "go"))["exit_code"] == 0
    assert gone(int(pid.read_text()))
    pid.unlink()
    with pytest.raises(CapabilityError, match="more than 4 s") as caught:  # enough to start, on a busy machine too
        ask(opened(tmp_path, sys.executable, "-c", DAEMON, str(pid), "stay", timeout=4.0), key="key-2")
    assert (caught.value.code, caught.value.retryable) == ("timeout", False)
    assert gone(int(pid.read_text()))
    assert lookup(opened(tmp_path, "/bin/true"), "key-2") is None


def test_cancelled(tmp_path: Path, first: str) -> None:
    """A call that is cancelled ends its command, and leaves no result."""
    pid = tmp_path / "pid"
    service = opened(tmp_path, sys.executable, "-c", DAEMON, str(pid), "stay")

    async def main() -> None:
        task = asyncio.create_task(service.dispatch(request({"task": "x"})))
        while not pid.exists() or not pid.read_text():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await service.close()

    asyncio.run(main())
    assert gone(int(pid.read_text()))
    assert lookup(service) is None


def test_all_jobs_are_told_to_end_before_one_is_waited_for(tmp_path: Path, first: str) -> None:
    """Whoever closes a service doesn't wait long, and each job needs a moment to end its command."""
    told: list[object] = []

    class Process:
        def terminate(self) -> None:
            told.append(self)

        async def wait(self) -> int:
            assert len(told) == 2
            return 0

    service = opened(tmp_path, "/bin/true")
    service._running |= {Process(), Process()}  # type: ignore[arg-type]
    asyncio.run(service.close())
    assert len(told) == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a process with its parent")
def test_a_job_that_is_killed(tmp_path: Path, first: str) -> None:
    """A command dies with the process that keeps its time; what it did isn't known."""
    pid = tmp_path / "pid"
    script = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    service = opened(tmp_path, sys.executable, "-c", script)

    async def main() -> None:
        task = asyncio.create_task(service.dispatch(request({"task": "x"})))
        while not pid.exists() or not pid.read_text():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
        (process,) = service._running
        process.kill()
        with pytest.raises(UnknownOutcome, match="without a result"):
            await task

    asyncio.run(main())
    until = time.monotonic() + 10
    while not gone(int(pid.read_text())) and time.monotonic() < until:
        time.sleep(0.01)
    assert gone(int(pid.read_text()))
    assert lookup(service) is None


def test_no_such_program(tmp_path: Path, first: str) -> None:
    """A command that can't be started is a certain failure."""
    for command in ("no-such-program", "./none", str(tmp_path)):
        with pytest.raises(CapabilityError, match="nothing was done"):
            ask(opened(tmp_path, command), key=command)


def test_what_it_writes_configures_nothing(tmp_path: Path, first: str) -> None:
    """Configuration, hooks, filters and repositories that a command leaves in its folder run nothing afterwards."""
    mark = tmp_path / "ran"
    script = f"""
for d in . nested; do
  mkdir -p $d; git -C $d init -q 2>/dev/null
  git -C $d config core.fsmonitor 'touch {mark}; false'
  git -C $d config diff.external 'touch {mark}'
  git -C $d config filter.evil.clean 'touch {mark}; cat'
  printf '#!/bin/sh\\ntouch {mark}\\n' > $d/.git/hooks/post-index-change; chmod +x $d/.git/hooks/post-index-change
done
echo '* filter=evil diff=evil' > .gitattributes
echo x > nested/f; echo y > new; ln -s /etc/passwd link2; mkfifo pipe
"""
    found = ask(opened(tmp_path, SH, "-c", script, environment={"PATH": "/usr/bin:/bin"}))
    assert not mark.exists()
    assert [each["path"] for each in found["changed"]] == [".gitattributes", "link2", "new"]
    assert "root:" not in found["diff"]


@pytest.mark.parametrize(
    "script",
    [
        "mkdir d; mkfifo d/.gitignore; echo x > d/new",
        "mkfifo .gitattributes; mkdir d; echo x > d/new",
        "mkdir -p d nested/.git; mkfifo nested/.git/HEAD; echo x > d/new",
        "mkdir d; rm .gitignore; mkfifo .gitignore; git checkout -q . 2>/dev/null; mkfifo d/pipe; echo x > d/new",
    ],
)
def test_nobody_waits_for_a_pipe(tmp_path: Path, first: str, script: str) -> None:
    """What git would read is no pipe that nobody writes into: the job ends, and tells what changed."""
    assert {"path": "d/new", "status": "added"} in ask(opened(tmp_path, SH, "-c", script))["changed"]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("cd /; rm -rf $OLDPWD", "provider_error"),
        ("cd /; rm -rf $OLDPWD; ln -s /etc $OLDPWD", "provider_error"),
        ("sleep 600", "timeout"),
    ],
)
def test_a_command_that_ran_is_paid_for(tmp_path: Path, first: str, script: str, code: str) -> None:
    """Also one that left nothing that can be told, or that was ended; and no other folder is taken for its own."""
    service = opened(tmp_path, SH, "-c", script, price_usd="0.50", timeout=1.5 if code == "timeout" else 60.0)
    with pytest.raises(CapabilityError) as caught:
        ask(service)
    assert (caught.value.code, caught.value.cost_usd) == (code, "0.50")


def test_nobody_else_reads_what_it_works_on(tmp_path: Path, first: str) -> None:
    """A commit of a private repository, and what a command writes, is not for the other users of the machine."""
    assert ask(opened(tmp_path, "stat", "-c", "%a", ".", "../home"))["stdout"] == "700\n700\n"


def test_nothing_was_paid_for_what_did_not_begin(tmp_path: Path, first: str) -> None:
    """A command that isn't there, or a commit."""
    for spec in ({}, {"base": "no-such-branch"}):
        with pytest.raises(CapabilityError, match="nothing was done") as caught:
            ask(opened(tmp_path, "no-such-program", price_usd="0.50", **spec), key=str(spec))
        assert caught.value.cost_usd == "0"


def test_nothing_lies_about(tmp_path: Path, first: str) -> None:
    """However a command leaves its folder, nothing of it but the result stays."""
    script = "pwd; mkdir -p deep/er; echo x > deep/er/f; chmod 000 deep/er/f deep; exit 0"
    found = ask(opened(tmp_path, SH, "-c", script, environment={"PATH": "/usr/bin:/bin"}))
    assert not Path(found["stdout"].strip()).parent.exists()
    (folder,) = (tmp_path / "kept" / "agents").iterdir()
    assert {path.name for path in folder.iterdir()} == {"lock", "patch", "result.json"}


# --- after a crash ----------------------------------------------------------------------------------------------

HOST = """
import asyncio, json, sys
from pathlib import Path
from addendum.providers.service import Tools
from addendum.providers import agent
from addendum.ports import Request
from addendum.testing.memory_artifacts import MemoryArtifacts
from addendum.wiring import AGENT_CHILD
folder = Path(sys.argv[1])
tools = Tools(secret=None, artifacts=MemoryArtifacts(), folder=folder, model=None, loop=None, kept=folder / "kept",
              agent=AGENT_CHILD)
spec = agent.Spec(kind="agent", command=json.loads(sys.argv[2]), repository="repo")
request = Request(capability="x", payload={"task": "x"}, key="key-1", run="r", identity="i", attempt=1)
asyncio.run(agent.open("x", spec, tools).dispatch(request))
"""


def test_a_host_that_is_killed(tmp_path: Path, first: str) -> None:
    """An agent goes on when its host is killed; its result is found by the key, once it is there, and the same key
    never starts a second one."""
    started, go, count = tmp_path / "started", tmp_path / "go", tmp_path / "count"
    script = f"echo x >> {count}; touch {started}; while [ ! -e {go} ]; do sleep 0.05; done; echo done; echo 1 > new"
    command = ["/bin/sh", "-c", f"PATH=/usr/bin:/bin; {script}"]
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path), json.dumps(command)])
    until = time.monotonic() + 60
    while not started.exists() and time.monotonic() < until:
        time.sleep(0.02)
    host.kill()
    host.wait()
    service = opened(tmp_path, *command)

    async def main() -> Any:
        asked = asyncio.create_task(service.lookup("agent.run", "key-1"))
        await asyncio.sleep(0)
        assert not asked.done()
        go.touch()
        return await asked

    found = asyncio.run(main()).value
    assert (found["stdout"], found["changed"]) == ("done\n", [{"path": "new", "status": "added"}])
    assert ask(service) == found
    assert count.read_text() == "x\n"


def test_no_room_for_the_patch(tmp_path: Path, first: str) -> None:
    """An agent whose patch can't be kept isn't lost: a lookup finds it once there is room."""
    service = opened(tmp_path, SH, "-c", "echo x > new; echo paid", max_diff=10)
    assert isinstance(service.artifacts, MemoryArtifacts)
    service.artifacts.full = True
    with pytest.raises(UnknownOutcome, match="can't be kept"):
        ask(service)
    service.artifacts.full = False
    assert lookup(service)["stdout"] == "paid\n"


def test_a_job_that_died_with_the_machine(tmp_path: Path, first: str) -> None:
    """A job that was started and has neither a process nor a result isn't known, and isn't started again."""
    service = opened(tmp_path, "/bin/true")
    service._folder("key-1").mkdir(parents=True)
    assert lookup(service) is None
    with pytest.raises(UnknownOutcome, match="nobody knows"):
        ask(service)
    assert lookup(service, "another") is None


def test_a_process_that_does_not_begin(tmp_path: Path, first: str) -> None:
    """Where the job's process can't even start, nothing was done, and it may be tried again."""
    service = opened(tmp_path, "/bin/true")
    service.child = (sys.executable, "-c", "import sys; sys.exit(3)")
    with pytest.raises(CapabilityError, match="didn't begin") as caught:
        ask(service)
    assert caught.value.retryable
    service.child = AGENT_CHILD
    assert ask(service)["exit_code"] == 0


def test_a_job_that_was_cut_short() -> None:
    """A job whose text doesn't come whole isn't done: its host died while it wrote."""
    for text in (b"", b'{"folder": "/tmp"', b"{}", b"[]"):
        assert subprocess.run(AGENT_CHILD, input=text, check=False).returncode == 2


def test_old_results_are_forgotten(tmp_path: Path, first: str) -> None:
    """What was kept for a month is removed, newer results stay."""
    service = opened(tmp_path, "/bin/true")
    ask(service)
    ask(service, key="key-2")
    os.utime(service._folder("key-1"), (0, 0))
    again = opened(tmp_path, "/bin/true")
    assert lookup(again) is None
    assert lookup(again, "key-2") is not None


# --- confined ---------------------------------------------------------------------------------------------------


def test_confined(tmp_path: Path, first: str) -> None:
    """A confined command sees its worktree and the system's programs, no network, no process, no file of ours."""
    need("bwrap")
    script = (
        f"cat a.txt; echo three > a.txt; ls {tmp_path} 2>&1 | head -1; ls /proc | grep -c '^[0-9]'; "
        "[[ $(cat /proc/[0-9]*/cmdline | tr '\\0' ' ') == *$TOKEN* ]] && echo 1 || echo 0; "
        "(exec 3<>/dev/tcp/127.0.0.1/80) 2>&1 | head -1; env | sort; ls $HOME | wc -l"
    )
    service = opened(
        tmp_path,
        "/bin/bash",
        "-c",
        script,
        confine=True,
        secrets={"TOKEN": "key"},
        environment={"PATH": "/usr/bin:/bin", "HOME": "{home}"},
    )
    found = ask(service)
    lines = found["stdout"].splitlines()
    assert lines[0] == "two"
    assert "No such file" in lines[1]
    assert lines[3] == "0", "a command line is for everybody to read"
    assert "refused" in found["stdout"] or "unreachable" in found["stdout"]
    assert {"HOME=/tmp", "PATH=/usr/bin:/bin", "TOKEN=[secret key]"} <= set(lines)
    assert found["changed"] == [{"path": "a.txt", "status": "modified"}]
    assert "CANARY" not in json.dumps(found)


# --- specifications ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"effect": "read"}, "side effects"),
        ({"effect": "idempotent"}, "side effects"),
        ({"command": []}, "at least 1"),
        ({"environment": {"A": "1"}, "secrets": {"A": "key"}}, "a variable and a secret"),
        ({"environment": {"A=B": "1"}}, "pattern"),
        ({"shown": ["/opt"]}, "for a confined command"),
        ({"base": "--all"}, "pattern"),
    ],
)
def test_specifications_that_cannot_be(spec: dict[str, Any], why: str) -> None:
    """A specification that contradicts itself is refused when it is read."""
    with pytest.raises(ValidationError, match=why):
        agent.Spec(**{"kind": "agent", "command": ["x"], **spec})


def test_what_it_is(tmp_path: Path, first: str) -> None:
    """It is agentic, has side effects, and can be looked up; a missing folder is an error."""
    (capability,) = opened(tmp_path, "x").capabilities
    assert (capability.effect, capability.agentic, capability.lookup) == ("side_effect", True, True)
    assert capability.timeout > 60
    with pytest.raises(ConfigError, match="no repository"):
        opened(tmp_path, "x", repository="none")
