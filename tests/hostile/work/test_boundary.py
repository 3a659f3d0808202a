"""What an executor can't do from inside, and what it can't leave running (H3, H21 to H24, H34; A19, A20)."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path

import pytest
from tests.workshop import ARTICLE, WRITE, Workshop, codes

from addendum.errors import SandboxMissing
from addendum.ports import Command, Confinement, Ran
from addendum.sandbox import confine
from addendum.sandbox.commands import BwrapConfinement
from addendum.work.bench import Bench
from addendum.work.codes import Refused
from addendum.work.objects import Item, blob_id

pytestmark = pytest.mark.slow

CANARY = "canary-91c2e7"
JUDGE = """if [ -f /candidate/good ]; then echo '{"checks": {"NAME": true}}'; exit 0; fi
echo '{"checks": {"NAME": false}}'; exit 1
"""


def said(shop: Workshop, command: str) -> str:
    """Let an executor run a command and write the article; return what it printed."""
    shop.command = f"{command}\n{WRITE}"
    run = shop.run()
    shop.work(run)
    attempts = shop.load(run).journal.state.attempts
    log = attempts[max(attempts)].log
    return shop.bench.store.blob(log).decode("utf-8", "replace") if log else ""


def test_a19_only_granted_folders_can_be_written(shop: Workshop) -> None:
    """Outside the grant's folder the workspace is read-only, and so is everything else but scratch space."""
    text = said(
        shop,
        "for f in config.toml tools/validate.py new.md /usr/x /x; do (echo x > $f) 2>&1; done;"
        "echo x > /tmp/x && echo scratch",
    )
    assert text.count("Read-only file system") == 5
    assert "scratch" in text


def test_a19_a_protected_file_in_a_writable_folder_is_read_only(shop: Workshop) -> None:
    """A carve-out lies over the writable folder, and can't be renamed away."""
    shop.policy = shop.policy.replace('protected = ["config.toml"', 'protected = ["content/posts/first.md"')
    text = said(shop, "(echo x > content/posts/first.md) 2>&1; mv content/posts/first.md content/posts/y 2>&1; true")
    assert "Read-only file system" in text
    assert "busy" in text


def test_a19_there_is_no_network_and_no_namespace_within(shop: Workshop) -> None:
    """Nothing can be reached, by address or by an abstract socket; no further namespace is made."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{CANARY}")
        listening.listen()
        text = said(
            shop,
            "/usr/bin/python3 -c 'import socket\n"
            'for family, address in ((socket.AF_INET, ("127.0.0.1", 9)), (socket.AF_INET, ("192.0.2.1", 80)),'
            f' (socket.AF_UNIX, "\\0{CANARY}")):\n'
            '    try: socket.socket(family).connect(address); print("CONNECTED")\n'
            "    except OSError as error: print(error.errno)'; unshare -Ur true 2>&1 && echo NESTED; true",
        )
    assert "CONNECTED" not in text
    assert "NESTED" not in text


def test_a20_h22_no_secret_of_the_host_is_inside(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A canary in the environment, in a file, and in an open descriptor is nowhere: not in processes, not in output."""
    monkeypatch.setenv("PROVIDER_TOKEN", CANARY)
    monkeypatch.setenv("SSH_AUTH_SOCK", f"/tmp/{CANARY}")
    secret = tmp_path / "secret"
    secret.write_text(CANARY)
    os.chmod(secret, 0o644)
    descriptor = os.open(secret, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        text = said(
            shop,
            f"cat {secret} 2>&1; ls /root /home /var/run 2>&1; env; ls -l /proc/self/fd;"
            "for f in /proc/self/fd/*; do [ -f $f ] && cat $f; done;"
            "cat /proc/*/environ | tr '\\0' '\\n'; true",
        )
    finally:
        os.close(descriptor)
    assert CANARY not in text.replace(str(secret), "")
    assert "No such file" in text


def test_a20_the_runners_key_and_store_are_not_inside(shop: Workshop) -> None:
    """What signs and what is kept can't be seen by an executor."""
    text = said(
        shop,
        f"ls {shop.root} {Path(shop.settings.store).parent} 2>&1; find / -name '*.pem' -o -name work.db 2>/dev/null",
    )
    assert "runner.pem" not in text
    assert "work.db" not in text.replace(str(shop.settings.store), "")


def test_h3_what_is_left_running_is_dead_when_the_candidate_is_read(shop: Workshop) -> None:
    """A process that was sent to the background, in a session of its own, doesn't outlive the executor."""
    late = f"(setsid sh -c 'sleep 1; echo LATE > {ARTICLE}' > /dev/null 2>&1 &) ; (setsid sleep 300 &)"
    shop.command = f"{WRITE}\n{late}\n"
    run = shop.run()
    (verdict,) = shop.work(run)
    assert verdict.verdict == "accepted"
    threading.Event().wait(1.5)  # the moment at which it would have written
    item = shop.bench.repository.flat(verdict.tree)[ARTICLE.encode()]
    assert b"LATE" not in shop.bench.repository.data(item.id)


def test_h21_there_is_no_history_to_look_the_answer_up_in(shop: Workshop) -> None:
    """No git data is in the workspace, and the reference isn't anywhere."""
    text = said(shop, "ls -a; find / -name .git -o -name '*.pack' -o -name good 2>/dev/null; git log --all 2>&1; true")
    assert ".git" not in text.replace("(or any of the parent directories): .git", "")
    assert "/good" not in text


def test_h24_nothing_of_the_confinement_is_left_in_the_workspace(shop: Workshop) -> None:
    """What comes back is the base and what the executor wrote: no stubs, no mount points."""
    run = shop.run()
    (verdict,) = shop.work(run)
    base = set(shop.load(run).base)
    assert set(shop.bench.repository.flat(verdict.tree)) == base | {ARTICLE.encode()}


@pytest.mark.parametrize("target", ["/tmp", "../elsewhere", "."])
def test_h1_a_granted_folder_that_is_a_link_is_never_mounted(shop: Workshop, target: str) -> None:
    """A link of the base in a granted folder's place would make a folder of the host writable: nothing is started."""
    repository = shop.bench.repository
    tree = repository.tree_of(shop.base)
    assert tree is not None
    flat = {path: item for path, item in repository.flat(tree).items() if not path.startswith(b"content/")}
    flat[b"content/posts"] = Item(0o120000, blob_id(target.encode()))
    shop.base = repository.commit(repository.write(flat, [target.encode()]), [], "linked", 0)
    shop.write("policy/good/content/posts2/x", "x")
    for name in ("good", "published"):
        shutil.rmtree(shop.root / f"policy/{name}")
        shop.write(f"policy/{name}/{name}", "x")
    shop.write("policy/article.sh", JUDGE.replace("NAME", "there"))
    shop.write(
        "policy/draft.sh", JUDGE.replace("-f /candidate/good", "! -f /candidate/published").replace("NAME", "draft")
    )
    run = shop.run()
    with pytest.raises(Refused) as error:
        shop.work(run)
    assert error.value.findings[0].code == "file.symlink"
    assert not shop.load(run).journal.state.attempts


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (
            ":(){ :|:& };: 2>/dev/null; i=0; while [ $i -lt 100 ]; do sleep 3 & i=$((i+1)); done 2>/dev/null; exit 9",
            "failed",
        ),
        ("/usr/bin/python3 -c 'x = bytearray(8 * 1024**3)' 2>/dev/null || exit 9", "failed"),
        ("head -c 5000000 /dev/zero > content/posts/big || exit 9", "failed"),
        (
            "i=0; while [ $i -lt 9 ]; do head -c 900000 /dev/urandom > content/posts/b$i; i=$((i+1)); sleep .1; done",
            "failed",
        ),
        ("i=0; while [ $i -lt 900 ]; do : > content/posts/f$i; i=$((i+1)); done; sleep 5", "failed"),
    ],
)
def test_h34_an_executor_runs_into_its_limits(shop: Workshop, command: str, outcome: str) -> None:
    """Processes, memory, a file, all files, and their number: each has a bound, and ends the attempt, kept."""
    shop.command = command.replace(":(){ :|:& };: 2>/dev/null; ", "")
    run = shop.run()
    (verdict,) = shop.work(run)
    assert verdict.outcome == outcome, (verdict.outcome, codes(verdict))


def test_h34_a_flood_of_output_is_cut(shop: Workshop) -> None:
    """What is kept of a log is bounded."""
    assert len(said(shop, "head -c 30000000 /dev/zero | tr '\\0' x")) <= 4001


class Absent:
    """A confinement that isn't there."""

    owner = None

    def profile(self) -> dict[str, object]:
        """Raise."""
        raise SandboxMissing("There is no bubblewrap.", hint="Install it.")

    def run(self, command: Command) -> Ran:
        """Raise."""
        raise AssertionError("nothing is run without a confinement")


def test_h23_without_a_confinement_nothing_runs(shop: Workshop) -> None:
    """A missing bubblewrap is a typed rejection at admission and at the run; no attempt is begun."""
    run = shop.run()
    there, absent = shop.bench.confinement, Absent()
    confinement: Confinement = absent  # type: ignore[assignment]
    shop.bench.confinement = confinement
    with pytest.raises(Refused) as error:
        shop.work(run)
    assert error.value.findings[0].code == "sandbox.unavailable"
    assert not shop.load(run).journal.state.attempts
    look = shop.bench.look
    shop.bench.look = lambda policy, folder: (absent.profile(), look(policy, folder))[1]
    assert shop.refused() == {"sandbox.unavailable"}
    shop.bench.confinement, shop.bench.look = there, look


def test_h23_a_planted_bubblewrap_is_not_looked_at(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program is looked for in the system's own folders, whatever PATH and the current folder say, and pinned."""
    planted = tmp_path / "bwrap"
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/marker\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    confine.bubblewrap.cache_clear()
    profile = BwrapConfinement().profile()
    assert profile["path"] != str(planted)
    assert profile["sha256"]
    assert not (tmp_path / "marker").exists()


def test_a_bench_is_what_these_tests_think(shop: Workshop) -> None:
    """The confinement of the tests is the one that users get."""
    assert isinstance(shop.bench, Bench)
    assert isinstance(shop.bench.confinement, BwrapConfinement)
