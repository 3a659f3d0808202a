"""check, rule: whether a script may run, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from addendum.cli import inputs, opening, options
from addendum.cli.failure import report
from addendum.cli.output import Output
from addendum.errors import NotFound, UsageError

if TYPE_CHECKING:
    from addendum.authority.catalog import Catalog
    from addendum.authority.grant import Grant
    from addendum.runs.admit import Admission

FORMATS = ("text", "json", "sarif", "github")

Found = tuple[str, str, "Admission", list[dict[str, Any]]]
"""Path, source, admission, violations."""


def check(
    scripts: Annotated[
        list[str],
        typer.Argument(metavar="SCRIPT", help="Workflow scripts; `-` for standard input.", show_default=False),
    ],
    facts: Annotated[
        bool, typer.Option("--facts", help="Show calls, loops and fan-outs with their bounds, and the worst case.")
    ] = False,
    shape: Annotated[
        str, typer.Option("--format", metavar="text|json|sarif|github", help="How violations are printed.")
    ] = "text",
    grant: options.Grant = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Check scripts against the rules and a grant, as `run` does before anything starts. They are never executed.

    Exit code 0: each may run; 3: one may not; 2: one can't be read. With --json, one script gives one object, several
    give one per line.
    """
    if shape not in FORMATS:
        raise UsageError(f"There is no format {shape!r}.", hint=f"There are {', '.join(FORMATS)}.")
    output = Output(json or shape != "text", provider=provider)
    catalog, allowed = _authority(provider, grant)
    found = []
    unread = 0
    for path in scripts:
        try:
            found.append(_check(output, path, catalog, allowed))
        except (UsageError, NotFound) as error:
            if len(scripts) == 1:
                raise
            report(error, json=output.json)
            unread += 1
    _print(output, "json" if json else shape, found, catalog, facts, lines=len(scripts) > 1)
    return 2 if unread else 0 if all(admission.admitted for _, _, admission, _ in found) else 3


def rule(
    name: Annotated[
        str | None,
        typer.Argument(metavar="RULE", help="A rule, as in R03; all of them if left out.", show_default=False),
    ] = None,
    json: options.Json = False,
) -> int:
    """Explain a rule: what it asks for, why, and how to write it instead."""
    from addendum.cli import manual
    from addendum.cli.views.words import table

    output = Output(json)
    if name is not None:
        page = manual.page(name)
        output.value(page.to_json()) if json else output.raw(f"{page.rule}: {page.title}\n\n{page.text}")
        return 0
    pages = list(manual.pages())
    if json:
        output.value([page.to_json() for page in pages])
        return 0
    listed = table("rule", "asks for", fold=("asks for",))
    for page in pages:
        listed.add_row(page.rule, page.title)
    output.show(listed)
    return 0


def _authority(provider: str | None, grant: str | None) -> tuple[Catalog, Grant]:
    from addendum import wiring
    from addendum.authority.grant import everything

    settings = opening.settings(provider=provider, grant=grant)
    catalog = wiring.known(settings)
    return catalog, inputs.grant(settings.grant, catalog) if settings.grant else everything(catalog)


def _check(output: Output, path: str, catalog: Catalog, grant: Grant) -> Found:
    from addendum.runs.admit import admit, violations

    source = inputs.script(path)
    admission = admit(source, catalog, grant)
    return "<stdin>" if path == "-" else path, source, admission, opening.ways_out(output, violations(admission))


def _print(output: Output, shape: str, found: list[Found], catalog: Catalog, facts: bool, *, lines: bool) -> None:
    from addendum.cli import manual, sarif
    from addendum.cli.version import version
    from addendum.cli.views import report as view

    reports = [(path, violations) for path, _, _, violations in found]
    match shape:
        case "json":
            for item in found:
                output.value(_json(item), indent=None if lines else 2)
        case "sarif":
            output.value(sarif.sarif(reports, manual.pages(), version()))
        case "github":
            for text in sarif.github(reports):
                output.raw(text)
        case _:
            for path, source, admission, violations in found:
                if violations:
                    output.show(view.report(path, source, violations))
                if facts:
                    output.show(view.facts(admission.report.facts.to_json(), _cost(admission, catalog)))
            if reports:
                output.show(view.verdict(reports))


def _json(found: Found) -> dict[str, Any]:
    path, _, admission, violations = found
    return {**admission.to_json(), "ok": admission.admitted, "path": path, "violations": violations}


def _cost(admission: Admission, catalog: Catalog) -> str:
    from addendum.authority.envelope import cost
    from addendum.authority.money import usd

    most = cost(admission.report.facts.worst_case, catalog)
    return "no bound" if most is None else f"${usd(most)}"
