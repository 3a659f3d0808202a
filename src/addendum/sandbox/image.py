"""The image that a container's worker runs in, made without pulling anything.

From this machine's own Python: its interpreter, its standard library, the extension modules that need no more than
the C library (and ctypes), and the shared libraries that those load. No shell, no package manager, no set-user-id
program. Or from an image that the user names: its file system, without its settings.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import py_compile
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath
from typing import Any, Final

from addendum.errors import SandboxMissing, UsageError
from addendum.sandbox.confine import find_loader, libraries
from addendum.sandbox.engine import Engine, Image

PYTHON: Final = "/python/bin/python3"
SHARED: Final = "/python/shared"
WORKSPACE: Final = "workspace"
LABEL: Final = "addendum.python"
"""Label of an image that was made here: its interpreter's path, and its version."""
EXTRA: Final = frozenset({"_ctypes"})
"""Extension modules that are taken along with libraries of their own."""
LEFT_OUT: Final = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"}
)
USED: Final = "import ctypes, dis, encodings.utf_8, json, math, os, re, resource, select, signal, sys, time"
"""What the worker imports: compiled ahead, since its files can't be written."""
PROBE: Final = (
    "import sys, os, json, ctypes, resource; "
    "print(json.dumps([os.path.realpath(sys.executable), sys.version.split()[0]]))"
)
OLDEST: Final = (3, 11)


def tag() -> str:
    """Return the name of the image that `addendum sandbox build` makes. `localhost/` names no registry."""
    try:
        release = version("addendum")
    except PackageNotFoundError:
        release = "unknown"
    return f"localhost/addendum-sandbox:{release}"


def build(engine: Engine, base: str | None = None, name: str = "") -> Image:
    """Make the image, by this machine's Python or from a base image that is here; return what was made. `name` is its
    tag, the one that scripts run in if empty.

    Raises `SandboxMissing` if the engine refuses it or the base isn't here, `UsageError` for a base that won't do."""
    if base is None:
        engine.ask("load", stdin=archive(name or tag()))
    else:
        _flatten(engine, base, name or tag())
    return find(engine, "", name)


def find(engine: Engine, reference: str, name: str = "") -> Image:
    """Return the image that scripts run in: the built one (of that `name`), or the one that a digest names.

    Raises `SandboxMissing` if it isn't here, `UsageError` if it is named by something that can be moved."""
    if reference and "sha256:" not in reference:
        raise UsageError(
            f"The image {reference!r} isn't named by its digest: a tag can be moved.",
            hint="Name it as sha256:…, or make the image with `addendum sandbox build`.",
        )
    found = engine.image(reference or name or tag())
    if found is None:
        raise SandboxMissing(
            f"The image {reference or tag()} isn't there.",
            hint=f"Make it: `addendum sandbox build --with {engine.name}`.",
        )
    config = found.get("Config") or {}
    python, _, release = str((config.get("Labels") or {}).get(LABEL, "")).partition(" ")
    if not python.startswith("/"):
        raise UsageError(
            f"The image {reference} wasn't made by `addendum sandbox build`.",
            hint=f"Make one from it: `addendum sandbox build --with {engine.name} --base {reference}`.",
        )
    if config.get("Volumes"):
        raise UsageError(f"The image {reference} has volumes, which are writable.", hint="Build it anew.")
    identity = str(found["Id"])
    return Image(identity if identity.startswith("sha256:") else f"sha256:{identity}", python, release)


def _flatten(engine: Engine, base: str, name: str) -> None:
    """Make the image from a base's files: its entry point, its volumes and nearly all of its variables are dropped."""
    about = engine.image(base)
    if about is None:
        raise SandboxMissing(
            f"The base image {base} isn't there.", hint=f"Get it: `{engine.name} pull {base}`; nothing is pulled here."
        )
    confined = ("--network", "none", "--read-only", "--cap-drop", "ALL", "--user", "65534:65534", "--pull", "never")
    limited = ("--ulimit", "nofile=64", "--ulimit", "nproc=4096")
    try:
        said = json.loads(engine.ask("run", "--rm", *confined, *limited, "--entrypoint", "python3", base, "-c", PROBE))
    except (SandboxMissing, ValueError) as error:
        raise UsageError(
            f"The base image {base} has no `python3` with ctypes: {error}", hint="Name one that has."
        ) from None
    python, release = str(said[0]), str(said[1])
    if tuple(int(part) for part in release.split(".")[:2]) < OLDEST:
        raise UsageError(f"The base image {base} has Python {release}.", hint="3.11 is the oldest that will do.")
    container = engine.ask("create", "--pull", "never", "--network", "none", base).decode().strip()
    try:
        change = ["--change", f'LABEL {LABEL}="{python} {release}"', "--change", "USER 65534:65534"]
        for variable in (about.get("Config") or {}).get("Env") or ():
            if variable.startswith("LD_LIBRARY_PATH="):
                change += ["--change", f"ENV {variable}"]
        with (
            tempfile.TemporaryFile() as said_of_import,
            subprocess.Popen(
                (engine.path, "import", *change, "-", name),
                env=dict(engine.environment()),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said_of_import,
            ) as taker,
        ):
            subprocess.run(
                (engine.path, "export", container), env=dict(engine.environment()), stdout=taker.stdin, check=False
            )
            taker.communicate()
            if taker.returncode:
                said_of_import.seek(0)
                why = said_of_import.read(300).decode("utf-8", "replace").strip()
                raise SandboxMissing(f"{engine.name} can't import the image: {why}.", hint="Look at its service.")
    finally:
        engine.remove(container)


# --- this machine's Python ----------------------------------------------------------------------------------------


def archive(name: str) -> bytes:
    """Return an image of this machine's Python in the form that `docker load` and `podman load` read.

    Raises `SandboxMissing` where the interpreter can't be taken along (not Linux, no dynamic loader)."""
    layer = _layer()
    digest = hashlib.sha256(layer).hexdigest()
    release = sys.version.split()[0]
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "User": "65534:65534",
            "Env": ["PATH=/python/bin", f"LD_LIBRARY_PATH={SHARED}"],
            "Entrypoint": [PYTHON],
            "Labels": {LABEL: f"{PYTHON} {release}"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "addendum sandbox build"}],
    }
    settings = json.dumps(config, sort_keys=True).encode()
    about = f"{hashlib.sha256(settings).hexdigest()}.json"
    manifest = [{"Config": about, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in ((about, settings), (f"{digest}/layer.tar", layer), ("manifest.json", _json(manifest))):
            _put(tar, path, data)
    return out.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _layer() -> bytes:
    binary = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    loader = find_loader(Path(binary)) if sys.platform.startswith("linux") else None
    if loader is None:
        raise SandboxMissing(
            "This machine's Python can't be taken into a Linux image.",
            hint="Name a base image: `addendum sandbox build --base python:3.11-slim`.",
        )
    library = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix}))
    core = {os.path.realpath(path): path for path in libraries(binary)}
    files: dict[str, bytes | Path] = {PYTHON.lstrip("/"): Path(binary), loader.lstrip("/"): Path(loader)}
    shared = set(core.values())
    inside = f"python/{library.parent.name}/{library.name}"
    for path, relative in _standard_library(library):
        if path.suffix == ".so":
            needed = libraries(str(path), loader)
            if path.name.partition(".")[0] in EXTRA:
                shared.update(needed)
            elif not {os.path.realpath(one) for one in needed} <= set(core):
                continue
        files[f"{inside}/{relative}"] = path
    for one in shared - {loader}:
        files[f"{SHARED.lstrip('/')}/{os.path.basename(one)}"] = Path(one)
    files.update(_compiled(library, inside, files))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        folders = {str(parent) for name in files for parent in PurePosixPath(name).parents} - {"."}
        # Mount points: a read-only root can't get them later.
        for name in sorted(folders | {"proc", "sys", "dev", "etc", "tmp", "run", WORKSPACE}):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == WORKSPACE else 0o755
            tar.addfile(entry)
        for name, content in sorted(files.items()):
            data = content if isinstance(content, bytes) else content.read_bytes()
            _put(tar, name, data, 0o755 if name.startswith(("python/bin", "python/shared", "lib")) else 0o644)
    return out.getvalue()


def _standard_library(library: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    for folder, folders, names in os.walk(library):
        folders[:] = sorted(
            name
            for name in folders
            if name not in LEFT_OUT and name != "__pycache__" and not name.startswith(("config-", "pydoc_data"))
        )
        for name in sorted(names):
            if name.endswith((".py", ".so")):
                path = Path(folder, name)
                yield path, PurePosixPath(path.relative_to(library).as_posix())


def _compiled(library: Path, inside: str, files: dict[str, bytes | Path]) -> dict[str, bytes]:
    """Return the compiled modules that the worker uses, by their paths in the image."""
    ask = f"{USED}\nprint(json.dumps([getattr(m, '__file__', None) for m in list(sys.modules.values())]))"
    ran = subprocess.run(
        (sys.executable, "-I", "-S", "-c", ask), env={}, capture_output=True, timeout=60, check=True, text=True
    )
    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in json.loads(ran.stdout):
            if not isinstance(name, str) or not name.endswith(".py") or not Path(name).is_relative_to(library):
                continue
            relative = PurePosixPath(Path(name).relative_to(library).as_posix())
            if f"{inside}/{relative}" not in files:
                continue
            target = os.path.join(folder, "one.pyc")
            py_compile.compile(
                name,
                target,
                f"/{inside}/{relative}",
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
            compiled = relative.parent / "__pycache__" / f"{relative.stem}.{sys.implementation.cache_tag}.pyc"
            found[f"{inside}/{compiled}"] = Path(target).read_bytes()
    return found


def _put(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
