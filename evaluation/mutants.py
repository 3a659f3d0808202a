"""Mutate the corpus and see whether the checker notices: its two error rates.

    python evaluation/mutants.py [CORPUS] [--json] [--write FILE]

A *destroying* operator breaks a rule for certain, so each mutant has to be refused by that rule. A *preserving* one
changes nothing that a rule is about, so each mutant of an accepted script has to be accepted, with the same worst case.
An operator only makes the mutants for which this holds; where it can't tell, it makes none. CORPUS (or the variable
ADDENDUM_CORPUS) is a directory with `scripts/*.py` and `repairs/*/*.py`; without it the one in tests/corpus.

The exit code is 0 when no destroying mutant was accepted and no preserving one refused.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from addendum.script.bounds import Bounds
from addendum.script.bounds import analyse as bound
from addendum.script.checker import check
from addendum.script.scope import Scope, analyse

HERE = Path(__file__).parent
DATA = "(await ctx.now())"
"""An expression of unknown length that can stand wherever a call can: a recorded text."""
Mutant = tuple[str, str]
"""The rule that has to refuse it (empty: none) and its source."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script of the corpus, with what is known of it."""

    name: str
    text: str
    tree: ast.Module
    scope: Scope
    bounds: Bounds

    def edit(self, edits: list[tuple[ast.AST, str]]) -> str:
        """The text with the source of nodes replaced, from the last to the first."""
        data = self.text.encode()
        starts = [0]
        for line in data.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        spans = sorted(
            (
                starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
                starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
                new.encode(),
            )
            for node, new in edits
        )
        for first, last, new in reversed(spans):
            data = data[:first] + new + data[last:]
        return data.decode()

    def source(self, node: ast.AST) -> str:
        """The source of a node."""
        return ast.get_source_segment(self.text, node) or ""

    def runs(self) -> list[ast.Call]:
        """The calls of capabilities that a run can reach."""
        return [call for call, worst in self.bounds.calls_per_run.items() if worst]

    def line(self, node: ast.AST, code: str) -> str:
        """The text with a line of code put in front of the statement in which a node stands."""
        statement = node
        while not isinstance(statement, ast.stmt):
            statement = self.scope.parent[statement]
        lines = self.text.split("\n")
        indent = " " * statement.col_offset
        new = [indent + part for part in code.split("\n")]
        return "\n".join([*lines[: statement.lineno - 1], *new, *lines[statement.lineno - 1 :]])


def load(path: Path, root: Path) -> Script:
    """Read and analyse a script."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    scope = analyse(tree)
    return Script(path.relative_to(root).as_posix(), text, tree, scope, bound(scope))


# ---- destroying operators


def drop_slice(script: Script) -> Iterator[Mutant]:
    """Walk the whole of a list that was cut: only where nothing else bounds the result."""
    for node in script.scope.index[ast.Subscript]:
        assert isinstance(node, ast.Subscript)
        if isinstance(node.slice, ast.Slice) and node.slice.upper is not None:
            yield "R03|R05", script.edit([(node, script.source(node.value))])


def unbound_range(script: Script) -> Iterator[Mutant]:
    """Let data say how often a loop with calls runs."""
    for node in script.scope.index[ast.Call]:
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "range" and node.args:
            end = node.args[0] if len(node.args) == 1 else node.args[1]
            yield "R03|R05", script.edit([(end, f"len({DATA})")])


def forever(script: Script) -> Iterator[Mutant]:
    """Turn a loop with calls into one that nothing ends."""
    for node in _counted_loops(script):
        if isinstance(node, ast.For):
            header = f"for {script.source(node.target)} in "
            yield "R03", script.edit([(node.iter, DATA)]) if header else ""


def grow(script: Script) -> Iterator[Mutant]:
    """Append to the list that a loop with calls walks."""
    for node in _counted_loops(script):
        if isinstance(node, ast.For):
            indent = " " * node.body[0].col_offset
            outer = " " * node.col_offset
            lines = script.text.split("\n")
            first, last = node.lineno - 1, node.body[0].lineno - 1
            header = "\n".join(lines[first:last])
            walked = script.source(node.iter)
            header = header.replace(walked, "walked", 1)
            new = [f"{outer}walked = list({walked})", header, f"{indent}walked.append(walked[0])"]
            yield "R03", "\n".join([*lines[:first], *new, *lines[last:]])


def fan_out_data(script: Script) -> Iterator[Mutant]:
    """Fan out over data through a variable."""
    for call in script.bounds.fanouts:
        method = script.scope.ctx_call(call)
        if method is None or method.method not in ("parallel", "race"):
            continue
        argument = call.args[0]
        if isinstance(argument, ast.ListComp) and len(argument.generators) == 1:
            text = script.edit([(argument.generators[0].iter, "wide")])
            yield "R05", Script("", text, script.tree, script.scope, script.bounds).line(call, f"wide = {DATA}")


def alias_ctx(script: Script) -> Iterator[Mutant]:
    """Give the context's method another name."""
    for call in script.runs():
        if script.source(call.func) == "ctx.run" and isinstance(script.scope.parent[call], ast.Await):
            text = script.edit([(call.func, "call_it")])
            yield "R02", Script("", text, script.tree, script.scope, script.bounds).line(call, "call_it = ctx.run")


def computed_name(script: Script) -> Iterator[Mutant]:
    """Put a capability's name together at run time."""
    for call in script.runs():
        name = call.args[0]
        assert isinstance(name, ast.Constant)
        group, _, rest = str(name.value).partition(".")
        yield "R02", script.edit([(name, f"'{group}' + '.' + '{rest}'")])


def forget_await(script: Script) -> Iterator[Mutant]:
    """Leave out an `await` where the result is used at once or not at all."""
    for node in script.scope.index[ast.Await]:
        assert isinstance(node, ast.Await)
        call = node.value
        parent = script.scope.parent[node]
        if isinstance(call, ast.Call) and script.scope.ctx_call(call) is not None:
            used = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name)
            if used or isinstance(parent, ast.Subscript | ast.Attribute | ast.Expr | ast.Compare | ast.Return):
                yield "R02", script.edit([(node, script.source(call))])


def through_a_set(script: Script) -> Iterator[Mutant]:
    """Walk a set in a loop with calls."""
    for node in _counted_loops(script):
        if isinstance(node, ast.For):
            yield "R04", script.edit([(node.iter, f"set({script.source(node.iter)})")])


def swallow(script: Script) -> Iterator[Mutant]:
    """Catch everything around a call."""
    for handler in script.scope.index[ast.ExceptHandler]:
        assert isinstance(handler, ast.ExceptHandler)
        if handler.type is not None:
            yield "R11", script.edit([(handler.type, "BaseException")])


def hidden_input(script: Script) -> Iterator[Mutant]:
    """Read a clock, randomness or an address in front of a call."""
    for number, call in enumerate(script.runs()):
        source = ("time.time()", "random.random()", "id(args)", "hash('x')")[number % 4]
        yield "R06", script.line(call, f"hidden = {source}")


def dunder(script: Script) -> Iterator[Mutant]:
    """Reach an attribute that leads out."""
    for number, call in enumerate(script.runs()):
        source = ("args.__class__", "'{0.__class__}'.format(args)", "(lambda: 1).__globals__", "getattr(args, 'x')")
        yield "R10", script.line(call, f"reached = {source[number % 4]}")


def not_json(script: Script) -> Iterator[Mutant]:
    """Put something into a payload that JSON can't say."""
    for number, call in enumerate(script.runs()):
        payload = call.args[1]
        if isinstance(payload, ast.Dict) and payload.values:
            value = ("{1, 2}", "b'x'", "lambda: 1", "float('nan')")[number % 4]
            yield "R12", script.edit([(payload.values[-1], value)])


def unending_recursion(script: Script) -> Iterator[Mutant]:
    """Let a helper with a call call itself, with the same arguments."""
    for function in script.scope.functions:
        node = function.node
        calls = [call for call in script.runs() if script.scope.enclosing(call) is function]
        if function is script.scope.orchestrate or not function.is_async or not calls or node.args.vararg:
            continue
        first = node.body[0]
        again = f"if args_again:\n    return await {node.name}({', '.join(function.params)})"
        again = again.replace("args_again", f"{function.params[-1]}" if function.params else "True")
        yield "R03", script.line(first, again)


# ---- preserving operators


def rename_variable(script: Script) -> Iterator[Mutant]:
    """Give a local variable of `orchestrate` another name."""
    assert script.scope.orchestrate is not None
    frame = script.scope.inner[script.scope.orchestrate.node]
    names: dict[str, list[ast.AST]] = {}
    fixed: set[str] = {"ctx", "args", "err"}
    for node in script.scope.index[ast.Name]:
        assert isinstance(node, ast.Name)
        if script.scope.frames[node].home(node.id) is frame:
            names.setdefault(node.id, []).append(node)
            if _in_f_string(script, node):
                fixed.add(node.id)
    for name, nodes in names.items():
        bound_by_name = all(not hasattr(value, "qualname") for value in frame.bindings.get(name, ()))
        if name not in fixed and bound_by_name and name not in frame.outer and not _rebinds(script, name):
            yield "", script.edit([(node, f"renamed_{name}") for node in nodes])


def reformat(script: Script) -> Iterator[Mutant]:
    """Print the whole script from its tree: other quotes, other line breaks, no comments.

    From 3.12 on, `unparse` nests equal quotes in f-strings, which isn't Python 3.11: then it preserves nothing.
    """
    strings = (node for node in ast.walk(script.tree) if isinstance(node, ast.FormattedValue))
    nested = any(isinstance(part, ast.Constant | ast.JoinedStr) for node in strings for part in ast.walk(node.value))
    if sys.version_info < (3, 12) or not nested:
        yield "", ast.unparse(script.tree) + "\n"


def add_comment(script: Script) -> Iterator[Mutant]:
    """Put a comment with code in it in front of each call."""
    for call in script.runs():
        yield "", script.line(call, "# while True: await ctx.run(args['x'], {}) ((((")


def extract_constant(script: Script) -> Iterator[Mutant]:
    """Give the number at the end of a slice or range a name at the top."""
    for node in script.scope.index[ast.Constant]:
        assert isinstance(node, ast.Constant)
        parent = script.scope.parent[node]
        ends = isinstance(parent, ast.Slice) or (
            isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in ("range", "min")
        )
        if ends and type(node.value) is int and not _in_f_string(script, node):
            yield "", f"EXTRACTED = {node.value}\n\n" + script.edit([(node, "EXTRACTED")])


def reorder(script: Script) -> Iterator[Mutant]:
    """Swap two constants at the top that don't need each other."""
    body = script.tree.body
    for first, second in pairwise(body):
        if isinstance(first, ast.Assign) and isinstance(second, ast.Assign):
            used = {part.id for part in ast.walk(second.value) if isinstance(part, ast.Name)}
            bound_names = {target.id for target in first.targets if isinstance(target, ast.Name)}
            if not used & bound_names:
                yield "", script.edit([(first, script.source(second)), (second, script.source(first))])


def pure_block(script: Script) -> Iterator[Mutant]:
    """Put a loop over data without a call in front of a call."""
    for call in script.runs():
        yield "", script.line(call, "for seen in sorted('unseen'):\n    len(seen)")


def wrap_in_if(script: Script) -> Iterator[Mutant]:
    """Put the statement with a call under a condition that holds."""
    for call in script.runs():
        statement: ast.AST = call
        while not isinstance(statement, ast.stmt):
            statement = script.scope.parent[statement]
        if not isinstance(statement, ast.Assign | ast.Expr) or "'''" in script.source(statement):
            continue
        if '"""' in script.source(statement) or statement.lineno != _first_on_line(script, statement):
            continue
        lines = script.text.split("\n")
        end = statement.end_lineno or statement.lineno
        inner = ["    " + line if line.strip() else line for line in lines[statement.lineno - 1 : end]]
        head = " " * statement.col_offset + "if len('held') >= 0:"
        yield "", "\n".join([*lines[: statement.lineno - 1], head, *inner, *lines[end:]])


def pure_statement(script: Script) -> Iterator[Mutant]:
    """Compute something that nobody uses in front of a call."""
    for number, call in enumerate(script.runs()):
        added = (
            "unused = sorted({'b', 'a'})",
            "unused = {str(k): v for k, v in dict(a=1).items()}",
            "unused = max([len(str(v)) for v in ('a', 'b')], default=0)",
            "unused = lambda value: value + 1",
        )
        yield "", script.line(call, added[number % 4])


def split_expression(script: Script) -> Iterator[Mutant]:
    """Give a payload a name before the call."""
    for call in script.runs():
        payload = call.args[1]
        statement: ast.AST = call
        while not isinstance(statement, ast.stmt):
            above = script.scope.parent[statement]
            if isinstance(above, ast.Lambda | ast.comprehension | ast.ListComp | ast.GeneratorExp | ast.IfExp):
                break
            statement = above
        if isinstance(statement, ast.Assign | ast.Expr | ast.Return) and "\n" not in script.source(payload):
            text = script.edit([(payload, "prepared")])
            moved = Script("", text, script.tree, script.scope, script.bounds)
            yield "", moved.line(call, f"prepared = {script.source(payload)}")


def longer_way(script: Script) -> Iterator[Mutant]:
    """Walk `list(enumerate(x))` with an index that nobody needs, instead of x."""
    for node in _counted_loops(script):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            text = [
                (node.target, f"(index, {node.target.id})"),
                (node.iter, f"list(enumerate({script.source(node.iter)}))"),
            ]
            yield "", script.edit([(part, new) for part, new in text])


def _counted_loops(script: Script) -> Iterator[ast.stmt]:
    """The loops in whose body a reached call of a capability stands, or a call of a helper that has one."""
    for kind in (ast.For, ast.While):
        for node in script.scope.index.get(kind, ()):
            for part in [sub for statement in node.body for sub in ast.walk(statement)]:  # type: ignore[attr-defined]
                if (
                    isinstance(part, ast.Call)
                    and part in script.bounds.calls_per_run
                    and script.bounds.calls_per_run[part]
                ):
                    yield node  # type: ignore[misc]
                    break


def _in_f_string(script: Script, node: ast.AST) -> bool:
    """Positions in f-strings aren't right before Python 3.12, so nothing is edited there."""
    above = script.scope.parent.get(node)
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.JoinedStr):
            return True
        above = script.scope.parent.get(above)
    return False


def _rebinds(script: Script, name: str) -> bool:
    """Whether something that isn't an `ast.Name` binds or passes a name."""
    for kind in (ast.ExceptHandler, ast.MatchAs, ast.MatchStar):
        if any(getattr(node, "name", None) == name for node in script.scope.index.get(kind, ())):
            return True
    return any(
        name in node.names for node in script.scope.index.get(ast.Nonlocal, ()) if isinstance(node, ast.Nonlocal)
    )


def _first_on_line(script: Script, statement: ast.stmt) -> int:
    line = script.text.split("\n")[statement.lineno - 1]
    return statement.lineno if not line[: statement.col_offset].strip() else 0


Operator = Callable[[Script], Iterator[Mutant]]
DESTROYING: list[Operator] = [
    drop_slice,
    unbound_range,
    forever,
    grow,
    fan_out_data,
    alias_ctx,
    computed_name,
    forget_await,
    through_a_set,
    swallow,
    hidden_input,
    dunder,
    not_json,
    unending_recursion,
]
PRESERVING: list[Operator] = [
    rename_variable,
    reformat,
    add_comment,
    extract_constant,
    reorder,
    pure_block,
    wrap_in_if,
    pure_statement,
    split_expression,
    longer_way,
]


# ---- judging


@dataclass(slots=True)
class Row:
    """What became of an operator's mutants."""

    operator: str
    wanted: str
    made: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval for the rate of wrong answers."""
        return wilson(self.wrong, self.made)


def wilson(count: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval for `count` of `total`."""
    if not total:
        return 0.0, 1.0
    rate = count / total
    scale = 1 + z * z / total
    centre = (rate + z * z / (2 * total)) / scale
    half = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total)) / scale
    return max(0.0, centre - half), min(1.0, centre + half)


def really_unbounded(text: str) -> bool:
    """Whether a script makes more calls when its data gets longer: it is run with lists of 150 and of 300 elements."""
    from evaluation_runs import calls_with  # the counting context lives beside this file

    return calls_with(text, 300) > calls_with(text, 150)


def judge(scripts: list[Script]) -> list[Row]:
    """Make all mutants and check them."""
    rows = []
    for operator in DESTROYING:
        row = Row(operator.__name__, "refused")
        for script in scripts:
            for rule, text in operator(script):
                if text == script.text or not _compiles(text):
                    continue
                if rule == "R03|R05" and not really_unbounded(text):
                    continue
                report = check(text)
                row.made += 1
                if not {violation.rule for violation in report.errors} & set(rule.split("|")):
                    row.wrong += 1
                    row.examples.append(f"{script.name}: {operator.__doc__}\n{text}")
        rows.append(row)
    accepted = [script for script in scripts if check(script.text).ok]
    for operator in PRESERVING:
        row = Row(operator.__name__, "accepted")
        for script in accepted:
            before = dict(check(script.text).facts.worst_case)
            for _, text in operator(script):
                if text == script.text or not _compiles(text):
                    continue
                report = check(text)
                row.made += 1
                if not report.ok or dict(report.facts.worst_case) != before:
                    row.wrong += 1
                    row.examples.append(f"{script.name}: {[str(v) for v in report.errors]}\n{text}")
        rows.append(row)
    return rows


def _compiles(text: str) -> bool:
    try:
        compile(text, "<mutant>", "exec")
    except SyntaxError:
        return False
    return True


def table(rows: list[Row]) -> str:
    """The result as a Markdown table."""
    lines = [
        "| operator | has to be | mutants | wrong | 95 % interval of the rate |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        low, high = row.interval()
        lines.append(
            f"| {row.operator.replace('_', ' ')} | {row.wanted} | {row.made} | {row.wrong} | {low:.1%} to {high:.1%} |"
        )
    for wanted in ("refused", "accepted"):
        made = sum(row.made for row in rows if row.wanted == wanted)
        wrong = sum(row.wrong for row in rows if row.wanted == wanted)
        low, high = wilson(wrong, made)
        lines.append(f"| **all that have to be {wanted}** | | {made} | {wrong} | {low:.1%} to {high:.1%} |")
    return "\n".join(lines)


def main() -> int:
    """Read the corpus, judge all mutants, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("ADDENDUM_CORPUS") or str(HERE.parent / "tests" / "corpus")
    parser.add_argument("corpus", nargs="?", default=default, type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--examples", type=int, default=0, help="show this many wrong mutants per operator")
    parser.add_argument("--write", type=Path, help="a page whose table is replaced")
    options = parser.parse_args()
    root = Path(options.corpus)
    paths = sorted([*root.glob("scripts/*.py"), *root.glob("repairs/*/*.py")])
    if not paths:
        print(f"no scripts in {root}", file=sys.stderr)
        return 2
    rows = judge([load(path, root) for path in paths])
    if options.json:
        out = [{"operator": r.operator, "has_to_be": r.wanted, "mutants": r.made, "wrong": r.wrong} for r in rows]
        print(json.dumps(out, indent=2))
    else:
        print(table(rows))
    for row in rows:
        for example in row.examples[: options.examples]:
            print(f"\n--- {row.operator}\n{example}")
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        head, _, rest = page.partition("<!-- table -->\n")
        _, _, tail = rest.partition("<!-- end -->")
        options.write.write_text(f"{head}<!-- table -->\n{table(rows)}\n<!-- end -->{tail}", encoding="utf-8")
    return 0 if not any(row.wrong for row in rows) else 3


if __name__ == "__main__":
    sys.exit(main())
