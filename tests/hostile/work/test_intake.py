"""Hostile workspaces: what an executor may leave behind, and what becomes of it (H1 to H15)."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from addendum.work import intake, scope, workspace
from addendum.work.codes import Refused
from addendum.work.objects import Item, Repository, blob_id
from addendum.work.scope import Scope

SECRET = b"top secret, out of the workspace\n"
ARTICLE = "content/posts/example-hugo.md"
GRANT = Scope(
    edits={"create": (ARTICLE,), "modify": (ARTICLE,)},
    protected=("config.toml", ".gitattributes", "tools/**"),
)
BASE = {
    b"config.toml": b"title = 'x'\n",
    b"content/posts/first.md": b"first\n",
    b"tools/validate.py": b"print('ok')\n",
    b"assets": b"a file\n",
}


class Site:
    """A base in a repository, and a workspace of it."""

    def __init__(self, folder: Path) -> None:
        subprocess.run(["git", "init", "-q", "--bare", str(folder / "r.git")], check=True)
        self.repository = Repository(folder / "r.git")
        flat = {path: Item(0o100644, blob_id(data)) for path, data in BASE.items()}
        self.base = self.repository.flat(self.repository.write(flat, BASE.values()))
        self.secret = folder / "secret"
        self.secret.write_bytes(SECRET)
        self.marker = folder / "marker"
        self.folder = folder / "workspace"
        workspace.export(self.base, self.repository.data, self.folder)

    def write(self, path: str, data: bytes = b"x\n") -> Path:
        """Write a file of the workspace."""
        at = self.folder / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(data)
        return at

    def codes(self, grant: Scope = GRANT, bounds: intake.Bounds | None = None) -> set[str]:
        """Take the workspace in, judge it, and return the codes."""
        try:
            taken = intake.take(self.folder, self.base, bounds or intake.Bounds(entries=500, file_bytes=100_000))
        except Refused as error:
            return {finding.code for finding in error.findings}
        sizes = {name: len(data) for name, data in taken.blobs.items()}
        assert SECRET not in taken.blobs.values()
        return {finding.code for finding in scope.judge(self.base, taken.flat, grant, sizes)}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A fresh site."""
    found = Site(tmp_path)
    yield found
    found.repository.close()


def test_the_article_alone_is_in_scope(site: Site) -> None:
    """What was granted is accepted, so that the other tests mean something."""
    site.write(ARTICLE)
    assert site.codes() == set()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret", "nowhere", "first.md"])
def test_h1_a_link_is_refused_wherever_it_points(site: Site, target: str) -> None:
    """A link that the base doesn't have is no file, inside or outside, dangling or not."""
    (site.folder / ARTICLE).symlink_to(target)
    assert site.codes() == {"file.symlink"}


def test_h1_a_folder_can_not_become_a_link(site: Site) -> None:
    """The granted folder replaced by a link out of the workspace is refused, and nothing beyond it is read."""
    (site.folder / "content/posts/first.md").unlink()
    (site.folder / "content/posts").rmdir()
    (site.folder / "content/posts").symlink_to("../..")
    assert "file.symlink" in site.codes()


def test_h2_a_link_swapped_in_during_the_reading_is_never_followed(site: Site) -> None:
    """Somebody flips a file and a link while it is read: the target's bytes are never taken."""
    path = site.write(ARTICLE)
    done = threading.Event()

    def flip() -> None:
        while not done.is_set():
            for step in (
                path.unlink,
                lambda: path.symlink_to(site.secret),
                path.unlink,
                lambda: path.write_bytes(b"y"),
            ):
                try:
                    step()
                except OSError:
                    pass

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(300):
            site.codes()  # asserts that the secret wasn't taken
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("spelling", [".git", ".GIT", ".g\u200cit", "git~1", ".git.", ".git ", "vendor/x/.git"])
def test_h4_h5_no_git_folder_comes_in_however_it_is_spelled(site: Site, spelling: str) -> None:
    """A planted repository, with a hook and a monitor that would leave a marker, is refused and never run."""
    hook = f"#!/bin/sh\ntouch {site.marker}\n".encode()
    os.chmod(site.write(f"{spelling}/hooks/pre-commit", hook), 0o755)
    site.write(f"{spelling}/config", f'[core]\n\tfsmonitor = "touch {site.marker}"\n'.encode())
    assert site.codes() <= {"path.reserved", "path.control"}
    assert site.codes()
    assert not site.marker.exists()


def test_h4_a_pointer_file_is_refused_too(site: Site) -> None:
    """A `.git` file that names another folder is as bad as the folder."""
    site.write(".git", b"gitdir: /tmp/elsewhere\n")
    assert site.codes() == {"path.reserved"}


def test_h6_attributes_and_filters_never_run(site: Site) -> None:
    """With `.gitattributes` protected it is refused; granted, its filters still don't run, in and out."""
    site.write(".gitattributes", b"* filter=x diff=x merge=x\n")
    site.write(ARTICLE)
    command = f"touch {site.marker}; cat"
    for key in ("filter.x.clean", "filter.x.smudge", "diff.x.textconv", "diff.x.command"):
        subprocess.run(["git", "-C", str(site.repository.path), "config", key, command], check=True)
    assert site.codes() == {"scope.path", "scope.protected"}
    grant = Scope(edits={"create": (ARTICLE, ".gitattributes")})
    assert site.codes(grant) == set()
    taken = intake.take(site.folder, site.base, intake.Bounds())
    tree = site.repository.write(taken.flat, taken.blobs.values())
    workspace.export(site.repository.flat(tree), site.repository.data, site.folder.parent / "again")
    assert not site.marker.exists()


def test_h7_hooks_of_the_repository_never_run(site: Site) -> None:
    """A hook on every ref update would leave a marker: keeping and moving refs doesn't run it."""
    hooks = site.repository.path / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("reference-transaction", "post-commit", "update", "pre-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {site.marker}\n")
        os.chmod(hooks / name, 0o755)
    tree = site.repository.write(site.base, [])
    commit = site.repository.commit(tree, [], "x", 0)
    site.repository.keep("refs/addendum/attempts/x", commit)
    assert site.repository.move("refs/heads/main", "0" * 40, commit)
    assert not site.marker.exists()


def test_h8_ignore_rules_hide_nothing(site: Site) -> None:
    """A file that a new `.gitignore` names is seen, and so is the rule."""
    site.write("secret.txt")
    site.write(".gitignore", b"secret.txt\n.gitignore\n")
    found = scope.changes(site.base, intake.take(site.folder, site.base, intake.Bounds()).flat)
    assert [change.path for change in found] == [b".gitignore", b"secret.txt"]
    assert site.codes() == {"scope.path"}


def test_h9_a_rename_is_a_deletion_and_a_creation(site: Site) -> None:
    """The source of a rename into the allowed path is a deletion out of scope."""
    os.rename(site.folder / "config.toml", site.folder / ARTICLE)
    found = scope.changes(site.base, intake.take(site.folder, site.base, intake.Bounds()).flat)
    assert [(change.path, change.verb) for change in found] == [
        (b"config.toml", "delete"),
        (ARTICLE.encode(), "create"),
    ]
    assert site.codes(Scope(edits=GRANT.edits)) == {"scope.path"}


@pytest.mark.parametrize(
    ("path", "gone"),
    [("assets/x", b"assets"), ("content", b"content/posts/first.md")],
    ids=["below a file", "a folder"],
)
def test_h10_a_kind_that_a_laid_over_folder_changes_is_judged(site: Site, path: str, gone: bytes) -> None:
    """What stood in its place is gone, and isn't granted: a rejection, not an error of ours."""
    site.folder = site.folder.with_name("overlay")
    site.write(path)
    taken = intake.take(site.folder, site.base, intake.Bounds(), overlay=True)
    found = [(change.path, change.verb) for change in scope.changes(site.base, taken.flat)]
    assert sorted(found) == sorted([(gone, "delete"), (path.encode(), "create")])
    sizes = {name: len(data) for name, data in taken.blobs.items()}
    every = Scope(edits=dict.fromkeys(("create", "modify", "delete"), ("**",)))
    assert [finding.code for finding in scope.judge(site.base, taken.flat, every, sizes)] == ["scope.kind"]
    assert site.repository.flat(site.repository.write(taken.flat, taken.blobs.values())) == taken.flat


def test_what_a_script_wrote_last_stands(site: Site) -> None:
    """A file and what lies below it can't both be: a call that a revision took back may have stood between them."""
    taken = intake.lay(site.base, {b"assets": None, b"new": b"1", b"new/x": b"2", b"assets/x": b"3"})
    assert {path for path in taken.flat if path.startswith((b"new", b"assets"))} == {b"new/x", b"assets/x"}


def _executable(site: Site) -> None:
    os.chmod(site.folder / "content/posts/first.md", 0o755)


def _folder(site: Site) -> None:
    (site.folder / "assets").unlink()
    site.write("assets/x")


@pytest.mark.parametrize(("change", "code"), [(_executable, "scope.mode"), (_folder, "scope.kind")])
def test_h10_modes_and_kinds_are_judged(site: Site, change: Callable[[Site], None], code: str) -> None:
    """Even with every path granted, a mode or a kind may not change."""
    change(site)
    everything = dict.fromkeys(("create", "modify", "delete"), ("**",))
    assert code in site.codes(Scope(edits=everything))


def test_h10_h11_a_submodule_can_not_be_made(site: Site) -> None:
    """A gitlink in a tree that was made elsewhere, and a new `.gitmodules`, are refused with every path granted."""
    everything = Scope(edits=dict.fromkeys(("create", "modify", "delete"), ("**",)))
    linked = {**site.base, b"vendor": Item(0o160000, "1" * 40)}
    assert {f.code for f in scope.judge(site.base, linked, everything, {})} == {"scope.kind"}
    replaced = {**site.base, b"assets": Item(0o160000, "1" * 40)}
    assert {f.code for f in scope.judge(site.base, replaced, everything, {})} == {"scope.kind"}
    site.write(".gitmodules", b"[submodule]\n")
    assert site.codes(everything) == {"path.reserved"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (b"Example-Hugo.md", "path.collision"),
        ("re\u0301sume\u0301.md".encode(), "path.not_nfc"),
        ("a\u202efdp.md".encode(), "path.control"),
        (b"a\nb.md", "path.control"),
        (b"\xff\xfe.md", "path.encoding"),
        (b"a.md.", "path.reserved"),
        (b"a:b.md", "path.reserved"),
    ],
)
def test_h12_odd_names_are_refused(site: Site, name: bytes, code: str) -> None:
    """Case twins, decomposed letters, bidirectional overrides, newlines, and what isn't UTF-8."""
    site.write(ARTICLE)
    with open(os.path.join(os.fsencode(site.folder), b"content/posts", name), "wb") as file:
        file.write(b"x")
    everything = Scope(edits=dict.fromkeys(("create", "modify", "delete"), ("**",)))
    assert site.codes(everything) == {code}


def test_h13_a_star_does_not_reach_into_folders(site: Site) -> None:
    """`content/posts/*.md` doesn't grant `content/posts/a/b.md`."""
    site.write("content/posts/a/b.md")
    assert site.codes(Scope(edits={"create": ("content/posts/*.md",)})) == {"scope.path"}


def test_h14_a_hard_link_is_refused(site: Site) -> None:
    """A second name for a file may be a file from elsewhere."""
    os.link(site.folder / "content/posts/first.md", site.folder / ARTICLE)
    assert site.codes() == {"file.hardlink"}


def test_h14_pipes_and_sockets_are_refused_without_waiting(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a pipe would wait for ever; it is refused at once."""
    os.mkfifo(site.folder / ARTICLE)
    monkeypatch.chdir(site.folder)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        assert site.codes() == {"file.special"}


def test_h15_a_sparse_giant_is_refused_by_its_size(site: Site) -> None:
    """A terabyte that takes no room on disk isn't read."""
    with open(site.write(ARTICLE), "wb") as file:
        file.truncate(1 << 40)
    assert site.codes() == {"file.size"}


def test_h15_many_files_are_refused_early(site: Site) -> None:
    """Counting ends at the limit."""
    for number in range(600):
        (site.folder / f"f{number}").touch()
    assert site.codes() == {"scope.size"}


def test_h15_many_bytes_are_refused_early(site: Site) -> None:
    """The sum of what is new is bounded while it is read."""
    for number in range(5):
        site.write(f"f{number}", bytes([number]) * 1000)
    assert site.codes(bounds=intake.Bounds(bytes=3500)) == {"scope.size"}


def test_h15_deep_folders_are_refused(site: Site) -> None:
    """Folders that nest too deep end the reading."""
    at = os.open(site.folder, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert site.codes() == {"scope.size"}
    workspace.remove(site.folder)  # what pytest would clean up with can't go as deep


def test_h5_git_agrees_about_its_own_folder(site: Site) -> None:
    """What is refused here, git's own check calls wrong as well."""
    tree = site.repository.write({b".GIT": Item(0o100644, blob_id(b"x"))}, [b"x"])
    site.repository.keep("refs/heads/bad", site.repository.commit(tree, [], "x", 0))
    ran = subprocess.run(["git", "-C", str(site.repository.path), "fsck", "--strict"], capture_output=True, text=True)
    assert ran.returncode
    assert "hasDotgit" in ran.stderr
