"""work: plans of work on a git repository become contracts, are executed, judged, reported on and promoted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from addendum.cli import options
from addendum.cli.output import Output, dumps
from addendum.errors import UsageError

if TYPE_CHECKING:
    from addendum.config import Settings
    from addendum.signing import Key
    from addendum.work.bench import Bench
    from addendum.work.codes import Finding
    from addendum.work.gate import Verdict
    from addendum.work.present import Given

DEFAULT = ".addendum/work.db"
P = ParamSpec("P")

app = typer.Typer(
    no_args_is_help=True,
    help="Work on a git repository under contract: a plan is a proposal, a contract is a bounded grant of work.",
)

Contract = Annotated[
    str,
    typer.Argument(
        metavar="CONTRACT", help="A contract.json, a contract's id or its beginning, or `last`.", show_default=False
    ),
]
Repo = Annotated[
    str | None,
    typer.Option(
        "--repo", metavar="PATH", help="The git repository (default: the one of the admission).", show_default=False
    ),
]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH", help="The store's file (default: .addendum/work.db).", show_default=False),
]
SliceName = Annotated[str, typer.Option("--slice", metavar="NAME", help="A slice of the contract.", show_default=False)]
KeyFile = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="Your private key: one that the policy names.", show_default=False)
]
Overlay = Annotated[
    Path | None,
    typer.Option("--from", metavar="FOLDER", help="A folder that is laid over the slice's tree.", show_default=False),
]
Whole = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        help="A folder that is the whole tree, without a git directory.",
        show_default=False,
    ),
]
Candidate = Annotated[
    str,
    typer.Option("--candidate", metavar="TREE", help="A tree of the repository, by its full id.", show_default=False),
]
Revision = Annotated[
    str,
    typer.Option(
        "--base", metavar="COMMIT", help="The revision that the candidate was made against.", show_default=False
    ),
]


def _typed(command: Callable[P, int]) -> Callable[P, int]:
    """Let a typed rejection be a command's answer, on stdout: it isn't an error."""

    @functools.wraps(command)
    def answering(*args: P.args, **kwargs: P.kwargs) -> int:
        from addendum.errors import SandboxMissing
        from addendum.work.codes import Finding, Refused, exit_code

        findings: tuple[Finding, ...]
        try:
            return command(*args, **kwargs)
        except Refused as error:
            findings = error.findings
        except SandboxMissing as error:
            findings = (Finding("sandbox.unavailable", "bubblewrap", str(error)),)
        output = Output(bool(kwargs.get("json")))
        if output.json:
            output.value({"code": findings[0].code, "findings": [each.to_json() for each in findings]})
        else:
            output.show(_findings(findings))
        return exit_code(findings)

    return answering


@app.command()
@_typed
def admit(
    spec: Annotated[Path, typer.Option("--spec", metavar="FILE", help="The specification (TOML).")] = Path("spec.toml"),
    plan: Annotated[Path, typer.Option("--plan", metavar="FILE", help="The plan (TOML).")] = Path("plan.toml"),
    policy: Annotated[Path, typer.Option("--policy", metavar="FILE", help="The operator's policy (TOML).")] = Path(
        "policy.toml"
    ),
    repo: Annotated[Path, typer.Option("--repo", metavar="PATH", help="The git repository.")] = Path(),
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the contract to a file.", show_default=False)
    ] = None,
    supersedes: Annotated[
        str,
        typer.Option(
            "--supersedes", metavar="CONTRACT", help="A contract that this one stands in for.", show_default=False
        ),
    ] = "",
    store: Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Make a contract of a specification and a plan, or say why not. Nothing but the store is written.

    Exit code 0: admitted; 3: a typed rejection, as JSON on stdout with --json; 4: an oracle didn't answer in time.
    """
    from addendum.work.admission import Files, admit_plan
    from addendum.work.codes import exit_code

    files = Files(
        spec=_bytes(spec, "--spec"),
        plan=_bytes(plan, "--plan"),
        policy=_bytes(policy, "--policy"),
        path=policy.absolute(),
        scripts=lambda name: _bytes(plan.absolute().parent / name).decode("utf-8"),
        names=(str(spec), str(plan), str(policy)),
    )
    with _opened(_settings(store, provider), repo.absolute()) as bench:
        found = admit_plan(bench, files, supersedes=supersedes)
    output = Output(json)
    if found.contract is not None and out is not None:
        out.write_text(dumps(found.to_json()) + "\n", "utf-8")
    if json:
        output.value(found.to_json())
    elif found.contract is None:
        output.show(_findings(found.findings))
    else:
        output.show(f"Admitted as {found.contract.id[:16]}, authority {found.authority[:16]}.")
        output.show(f"Next: addendum work run {found.contract.id[:16]}")
    return exit_code(found.findings)


@app.command()
@_typed
def snapshot(
    policy: Annotated[Path, typer.Option("--policy", metavar="FILE", help="The operator's policy (TOML).")] = Path(
        "policy.toml"
    ),
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Show what exists here: tools, routes, validators and programs with their digests. A contract pins it."""
    from addendum import wiring
    from addendum.work import wire

    look = wiring.work_snapshot(_settings(None, provider), _version())
    found = look(wire.policy(_bytes(policy, "--policy"), str(policy)), policy.absolute().parent)
    output = Output(json)
    if json:
        output.value({"sha256": found.digest, "snapshot": dict(found.value)})
    else:
        output.show(
            f"{found.digest}\n{len(found.value['capabilities'])} capabilities, {len(found.value['routes'])} routes"
        )
    return 0


@app.command()
@_typed
def run(
    contract: Contract,
    slice_: SliceName = "",
    executor: Annotated[
        str,
        typer.Option(
            "--executor",
            metavar="ROUTE",
            help="A route of the policy, in place of the plan's hint.",
            show_default=False,
        ),
    ] = "",
    script: Annotated[
        Path | None, typer.Option("--script", metavar="FILE", help="A revised script for --slice.", show_default=False)
    ] = None,
    repo: Repo = None,
    store: Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Execute every eligible slice once, or one by name, each confined, and judge what it left.

    Exit code 0: each was accepted; 3: one was rejected; 4: undecided, or nothing was eligible.
    """
    from addendum.work import execute

    if script is not None and not slice_:
        raise UsageError("Whose script is it?", hint="Name the slice with --slice.")
    text = None if script is None else _bytes(script, "--script").decode("utf-8")
    with _bench(contract, repo, store, provider) as (bench, name):
        verdicts = execute.work(bench, name, only=slice_, executor=executor, script=text)
    return _verdicts(Output(json), verdicts)


@app.command()
@_typed
def gate(
    contract: Contract,
    slice_: SliceName,
    overlay: Overlay = None,
    folder: Whole = None,
    candidate: Candidate = "",
    base: Revision = "",
    repo: Repo = None,
    store: Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Judge a candidate for a slice: by its real diff, then by the operator's validators. No ref moves.

    Exit code 0: accepted at this gate; 3: rejected; 4: undecided.
    """
    from addendum.work.present import present

    given = _given(overlay, folder, candidate, base)
    with _bench(contract, repo, store, provider) as (bench, name):
        verdict = present(bench, name, slice_, given)
    return _verdicts(Output(json), [verdict], alone=True)


@app.command()
@_typed
def correct(
    contract: Contract,
    slice_: SliceName,
    key: KeyFile,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")],
    overlay: Overlay = None,
    folder: Whole = None,
    candidate: Candidate = "",
    base: Revision = "",
    repo: Repo = None,
    store: Store = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Record your correction of a slice, signed. It passes the same gate, and isn't the executor's success."""
    from addendum.work.present import correct as record

    given = _given(overlay, folder, candidate, base)
    with _bench(contract, repo, store, provider) as (bench, name):
        verdict = record(bench, name, slice_, given, _key(key), reason)
    return _verdicts(Output(json), [verdict], alone=True)


@app.command()
@_typed
def approve(
    contract: Contract,
    key: KeyFile,
    slice_: SliceName = "",
    promotion: Annotated[
        str,
        typer.Option(
            "--promote", metavar="REF", help="Approve that this branch is moved to the result.", show_default=False
        ),
    ] = "",
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="A note, for the record.", show_default=False)
    ] = "",
    repo: Repo = None,
    store: Store = None,
    json: options.Json = False,
) -> int:
    """Approve a slice's result, or a promotion: bound to the very tree, signed, and good for once."""
    from addendum.work import promote as promoting

    if bool(slice_) == bool(promotion):
        raise UsageError("What is it that you approve?", hint="Name --slice NAME or --promote REF.")
    with _bench(contract, repo, store, None) as (bench, name):
        person = _key(key)
        if slice_:
            about = promoting.approve_slice(bench, name, slice_, person, note)
        else:
            about = promoting.approve(bench, name, promotion, person, note)
    output = Output(json)
    output.value({"approved": dict(about)}) if json else output.show(f"Approved: tree {about['tree']}.")
    return 0


@app.command()
@_typed
def promote(
    contract: Contract,
    to: Annotated[str, typer.Option("--to", metavar="REF", help="The branch to move.", show_default=False)],
    repo: Repo = None,
    store: Store = None,
    json: options.Json = False,
) -> int:
    """Move a branch to the accepted result, as a person approved it, if it is still where it was.

    Exit code 0: moved; 3: refused; 4: not approved, or not complete.
    """
    from addendum.work.promote import promote as move

    with _bench(contract, repo, store, None) as (bench, name):
        done = move(bench, name, to)
    output = Output(json)
    output.value(done.to_json()) if json else output.show(f"{done.ref} is at {done.new}, tree {done.tree}.")
    return 0


@app.command()
@_typed
def status(
    contract: Annotated[
        str, typer.Argument(metavar="CONTRACT", help="A contract; all of them if left out.", show_default=False)
    ] = "",
    repo: Repo = None,
    store: Store = None,
    json: options.Json = False,
) -> int:
    """Show where a contract stands, or list the contracts. Nothing here promotes anything."""
    from addendum.work import bench as opening
    from addendum.work import journal, report

    output = Output(json)
    if not contract:
        names = [name.removeprefix(journal.PREFIX) for name in _listed(_settings(store, None))]
        output.value(names) if json else output.show("\n".join(names) or "There is no contract here.")
        return 0
    with _bench(contract, repo, store, None) as (bench, name):
        found = report.status(bench, opening.load(bench, name))
    if json:
        output.value(found)
        return 0
    for each in found["slices"]:
        state = "done" if each["done"] else "eligible" if each["eligible"] else "waits"
        noun = "attempt" if each["attempts"] == "1" else "attempts"
        output.show(f"{each['name']}: {state}, {each['attempts']} {noun}. {each['why']}".rstrip())
    output.show(f"result: {found['result'] or 'none yet'}; promoted: {'yes' if found['promoted'] else 'no'}")
    return 0


@app.command()
@_typed
def report(
    contract: Contract,
    repo: Repo = None,
    store: Store = None,
    json: options.Json = False,
) -> int:
    """Report every attempt, rejected and missing ones too. Exit code 4 while something that was expected is missing."""
    from addendum.work import bench as opening
    from addendum.work.report import report as draw

    with _bench(contract, repo, store, None) as (bench, name):
        found = draw(opening.load(bench, name))
    output = Output(json)
    if json:
        output.value(found.value)
        return found.exit_code
    for each in found.value["attempts"]:
        codes = ", ".join(str(code["code"]) for item in (each, *each["gates"]) for code in item["findings"])
        verdict = next((item["verdict"] for item in reversed(each["gates"]) if item["verdict"]), "")
        output.show(f"{each['attempt']:>4}  {each['slice']}  {each['how']}  {each['outcome']}  {verdict}  {codes}")
    runs = found.value["runs"]
    output.show(", ".join(f"{name} {number}" for name, number in runs.items()))
    return found.exit_code


@app.command()
@_typed
def show(
    contract: Contract,
    attempt: Annotated[
        int, typer.Argument(metavar="ATTEMPT", help="An attempt's number, as in the report.", show_default=False)
    ],
    repo: Repo = None,
    store: Store = None,
    json: options.Json = False,
) -> int:
    """Show one attempt: how it came out, what is against it, what it changed, and what its executor printed."""
    from addendum.cli.printable import printable
    from addendum.work import bench as opening
    from addendum.work.report import detail

    with _bench(contract, repo, store, None) as (bench, name):
        found = detail(bench, opening.load(bench, name), attempt)
    output = Output(json)
    if json:
        output.value(found)
        return 0
    verdict = next((gate["verdict"] for gate in reversed(found["gates"]) if gate["verdict"]), "no verdict")
    output.show(f"{found['slice']}, attempt {found['attempt']} ({found['how']}): {found['outcome']}, {verdict}")
    for item in (found, *found["gates"]):
        for each in item["findings"]:
            output.show(f"{each['code']}: {_line(each['message'])}")
    for change in found["changes"]:
        output.show(f"{change['kind']:8}{change['path']}")
    if found["printed"]:
        output.show(printable(found["printed"]))
    return 0


@app.command()
@_typed
def verify(
    contract: Contract,
    candidate: Candidate = "",
    spec: Annotated[
        Path | None,
        typer.Option("--spec", metavar="FILE", help="Hold this file against the contract.", show_default=False),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Hold this file against the contract.", show_default=False),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Hold this file against the contract.", show_default=False),
    ] = None,
    repo: Repo = None,
    store: Store = None,
    json: options.Json = False,
) -> int:
    """Recompute what was recorded, and name what isn't as it was. It says nothing about whether the work is right."""
    from addendum.errors import StoreCorrupt
    from addendum.work import bench as opening
    from addendum.work import verify as checking
    from addendum.work.codes import Refused, exit_code

    files = {
        name: _bytes(path, f"--{name}")
        for name, path in (("spec", spec), ("plan", plan), ("policy", policy))
        if path is not None
    }
    try:
        with _bench(contract, repo, store, None) as (bench, name):
            findings = checking.verify(bench, opening.load(bench, name), files, candidate)
    except (Refused, StoreCorrupt) as error:
        findings = checking.broken(error)
    output = Output(json)
    if json:
        output.value({"integrity": "broken" if findings else "ok", "findings": [each.to_json() for each in findings]})
    else:
        output.show(_findings(findings) if findings else "integrity: ok")
    return exit_code(findings)


@app.command("key")
def key_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to put the private key.", show_default=False)],
    json: options.Json = False,
) -> int:
    """Make a key for a person, and print the public part, for the policy's table of keys."""
    from addendum import signing

    made = signing.make(file)
    output = Output(json)
    output.value({"public": made.public}) if json else output.show(f'public = "{made.public}"')
    return 0


# --- opening and printing -----------------------------------------------------------------------------------------


def _settings(store: str | None, provider: str | None) -> Settings:
    from addendum.cli import opening

    return opening.settings(store=store or DEFAULT, provider=provider)


def _version() -> str:
    from addendum.cli.version import version

    return version()


@contextmanager
def _opened(settings: Settings, repository: Path) -> Iterator[Bench]:
    from addendum import wiring

    with ExitStack() as closing:
        bench = wiring.open_bench(settings, repository, _version())
        closing.callback(wiring.shut_context, bench.scripts)
        closing.callback(bench.repository.close)
        watchers = wiring.open_watchers(settings, lambda: bench.scripts.catalog, bench.scripts.provider)
        closing.callback(watchers.close)
        bench.observer = watchers.behind(bench.observer)
        bench.scripts.observer = watchers.behind(bench.scripts.observer)
        yield bench


def _listed(settings: Settings) -> list[str]:
    from addendum.cli import opening
    from addendum.work.journal import contracts

    with opening.store(settings, "work admit") as store:
        return contracts(store)


@contextmanager
def _bench(given: str, repo: str | None, store: str | None, provider: str | None) -> Iterator[tuple[Bench, str]]:
    """Open what works on a contract: its journal, and the repository that it was admitted for."""
    from addendum.cli import opening
    from addendum.work.bench import named, resolve

    settings = _settings(store, provider)
    path = Path(given)
    text = path.read_bytes() if path.is_file() else None
    where = repo
    if where is None:
        with opening.store(settings, "work admit") as opened:
            name = resolve(opened, _id(text) if text is not None else given)
            where = str(next(iter(opened.entries(name, upto=1))).body["repository"])
    with _opened(settings, Path(where)) as bench:
        yield bench, named(bench, given, text)


def _id(text: bytes) -> str:
    """Return the id that a contract file says it has; it is believed only once the signature was checked."""
    from addendum import canon
    from addendum.errors import NotJson

    try:
        found = canon.parse(text)
    except NotJson:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        raise UsageError("The file is no contract.", hint="Name a contract.json, or a contract's id.")
    return str(found["id"])


def _bytes(path: Path, option: str = "") -> bytes:
    """Read a file that an option names, or that the plan does. Raises `UsageError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        hint = f"Name another one with {option}." if option else "Name another one in the plan."
        raise UsageError(f"{path} can't be read: {error.strerror}.", hint=hint) from None


def _key(path: Path) -> Key:
    from addendum import signing

    return signing.load(path)


def _given(overlay: Path | None, folder: Path | None, candidate: str, base: str) -> Given:
    from addendum.work.present import Given

    if sum(1 for each in (overlay, folder, candidate) if each) > 1:
        raise UsageError("Which candidate is it?", hint="Name one of --from, --folder and --candidate.")
    return Given(overlay=overlay, folder=folder, tree=candidate, base=base)


def _findings(findings: Any) -> str:
    listed: list[Finding] = list(findings)
    return "\n".join(f"{each.code}: {_line(each.message)}\n    {each.hint}" for each in listed)


def _line(text: str) -> str:
    from addendum.cli.printable import line

    return line(text)


def _verdicts(output: Output, verdicts: list[Verdict], *, alone: bool = False) -> int:
    codes = [each.exit_code for each in verdicts]
    if output.json:
        values: list[Mapping[str, Any]] = [each.to_json() for each in verdicts]
        output.value(values[0] if alone else {"verdicts": values})
    else:
        for each in verdicts:
            output.show(f"{each.slice}, attempt {each.attempt}: {each.verdict} ({each.outcome})")
            if each.findings:
                output.show(_findings(each.findings))
        if not verdicts:
            output.show("No slice is eligible.")
    return 4 if not codes else 3 if 3 in codes else max(codes)
