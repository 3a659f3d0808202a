"""convert: a script as a loop of select and call, shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from addendum.cli import inputs, options
from addendum.cli.output import Output

if TYPE_CHECKING:
    from addendum.script.selects import Select


def convert(script: options.Script, json: options.Json = False) -> int:
    """Show the select table of a script: what can be pending, after which calls, and how often. Nothing is rewritten.

    Exit code 3 for a script that the checker refuses.
    """
    from addendum.cli.views import report as view
    from addendum.script import selects

    source = inputs.script(script)
    report, rows = selects.table(source)
    output = Output(json)
    if json:
        data = {"revision": report.revision, "influence": report.facts.influence}
        output.value({**data, "selects": [row.to_json() for row in rows]})
    elif not report.ok:
        output.show(view.report(script, source, [each.to_json() for each in report.violations]))
    else:
        _show(output, rows)
        output.show(f"influence  {report.facts.influence}")
    return 0 if report.ok else 3


def _show(output: Output, rows: tuple[Select, ...]) -> None:
    from addendum.cli.views.words import table

    listed = table("line", "select", "what", "at most", "after", right=("line", "at most"), fold=("select", "after"))
    for row in rows:
        where = f"{row.position}\nin {row.within}" if row.within else row.position
        most = "no bound" if row.most is None else str(row.most)
        listed.add_row(str(row.line), where, row.what, most, "\n".join(row.after))
    output.show(listed)
