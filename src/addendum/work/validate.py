"""Running the operator's validators on a candidate, out of its reach: the candidate read-only, the validators' pinned
files, nothing else.

A validator says what it found, or it is an error: one that crashes, reports nothing, or reports on nothing has no
verdict, whatever its exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from addendum import canon
from addendum.canon import Json
from addendum.errors import NotJson
from addendum.ports import Command, Confinement, Ran
from addendum.work.admit import Colour
from addendum.work.codes import Finding, refuse
from addendum.work.objects import Flat
from addendum.work.proposal import Confines, Validator
from addendum.work.workspace import export, scratch

ENVIRONMENT: Final = (("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("LANG", "C.UTF-8"))
EXCERPT: Final = 2000


@dataclass(frozen=True, slots=True)
class Checked:
    """What a validator said: its colour, each check by id, and why there is no verdict. `said` is the end of its
    output, for people; it is data."""

    colour: Colour
    checks: Mapping[str, bool] = field(default_factory=dict)
    why: str = ""
    said: str = ""
    seconds: float = 0.0

    def finding(self, name: str) -> Finding | None:
        """Return what is against the candidate, None for a green one."""
        evidence: dict[str, Json] = {"checks": dict(self.checks), "said": self.said}
        match self.colour:
            case "green":
                return None
            case "red":
                failed = ", ".join(check for check, good in self.checks.items() if not good)
                return Finding("validator.failed", name, f"{name} failed: {failed}.", evidence)
            case "timeout":
                return Finding("validator.timeout", name, f"{name} didn't end in time.", evidence)
            case "error":
                return Finding("validator.error", name, f"{name} has no verdict: {self.why}.", evidence)


@dataclass(frozen=True, slots=True)
class Staged:
    """A candidate and the validators' files as folders, for as long as they are looked at."""

    folder: Path
    confinement: Confinement
    confines: Confines

    def run(self, validator: Validator) -> Checked:
        """Run one validator. Raises `SandboxMissing`."""
        ran = self.confinement.run(
            Command(
                argv=validator.argv,
                shown=((f"{self.folder}/candidate", "/candidate"), (f"{self.folder}/policy", "/policy")),
                folder="/tmp",
                environment=ENVIRONMENT,
                seconds=validator.timeout,
                memory=self.confines.memory,
                processes=self.confines.processes,
                file_bytes=self.confines.file_bytes,
                output=self.confines.output,
            )
        )
        return judge(validator, ran)


@contextmanager
def staged(
    flat: Flat,
    read: Callable[[str], bytes],
    files: Mapping[str, bytes],
    confinement: Confinement,
    confines: Confines,
) -> Iterator[Staged]:
    """Write a candidate and the pinned files out, and remove them in the end."""
    with scratch("gate") as folder:
        export(flat, read, folder / "candidate")
        (folder / "policy").mkdir()
        for name, data in files.items():
            path = folder / "policy" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o755)
        yield Staged(folder, confinement, confines)


def pinned(files: Mapping[str, bytes], validator: Validator, digests: Mapping[str, str]) -> None:
    """Hold a validator's files against their digests. Raises `Refused` (`validator.tampered`)."""
    for name in validator.files:
        if canon.sha256(files[name]) != digests.get(name):
            raise refuse("validator.tampered", validator.name, f"{name} of {validator.name} isn't what was pinned.")
    if validator.digest and canon.digest({name: digests[name] for name in validator.files}) != validator.digest:
        raise refuse(
            "validator.tampered",
            validator.name,
            f"The files of {validator.name} don't have the digest that the policy pins.",
            digest=canon.digest({name: digests[name] for name in validator.files}),
        )


def judge(validator: Validator, ran: Ran) -> Checked:
    """Return what a validator said. Pure."""
    said = (ran.stdout + b"\n" + ran.stderr).decode("utf-8", "replace").strip()[-EXCERPT:]
    if ran.timed_out:
        return Checked("timeout", why=ran.over, said=said, seconds=ran.seconds)

    def error(why: str) -> Checked:
        return Checked("error", why=why, said=said, seconds=ran.seconds)

    if ran.over:
        return error(ran.over)
    if ran.code < 0:
        return error(f"it was ended by signal {-ran.code}")
    if validator.report == "exit":
        if not said:
            return error("it said nothing")
        if ran.code in (126, 127):
            return error("it couldn't be started")
        return Checked("green" if ran.code == 0 else "red", {"exit": ran.code == 0}, said=said, seconds=ran.seconds)
    if ran.code not in (0, 1):
        return error(f"it ended with the exit code {ran.code}")
    checks = _checks(ran.stdout)
    if isinstance(checks, str):
        return error(checks)
    missing = [name for name in validator.expects if name not in checks]
    if missing:
        return error(f"it didn't report on {missing[0]!r}")
    green = all(checks.values())
    if green != (ran.code == 0):
        return error(f"its report and its exit code {ran.code} contradict each other")
    return Checked("green" if green else "red", checks, said=said, seconds=ran.seconds)


def _checks(stdout: bytes) -> dict[str, bool] | str:
    """Read the report, the last line of the output: `{"checks": {"ID": true}}`. Return it, or why it is none."""
    lines = [line for line in stdout.split(b"\n") if line.strip()]
    if not lines:
        return "it reported nothing"
    try:
        report = canon.parse(lines[-1])
    except NotJson:
        return "its last line is no report"
    checks = report.get("checks") if isinstance(report, dict) else None
    if not isinstance(checks, dict) or not all(isinstance(each, bool) for each in checks.values()):
        return "its last line is no report"
    if not checks:
        return "it checked nothing"
    return {name: bool(value) for name, value in checks.items()}
