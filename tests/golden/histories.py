"""Journals that are kept for ever: every later version replays them.

    python tests/golden/histories.py add NAME SCENARIO     writes NAME.json from a scenario that this version plays
    python tests/golden/histories.py written               writes written.json: a script that a model wrote and mended

A history holds a run's entries, as they are stored, and the blobs that they refer to (base64).
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from addendum.ports import RunHeader, Store
from addendum.records.stored import Entry
from addendum.rehearse.runner import RUN
from addendum.rehearse.scenario import load
from addendum.store.sqlite import SqliteStore
from addendum.wiring import rehearse

HERE = Path(__file__).parent / "histories"


def written(store: Store, run: str) -> dict[str, Any]:
    """Return a run's journal as JSON."""
    entries = list(store.entries(run))
    blobs: dict[str, str] = {}
    for entry in entries:
        for digest in referred(entry.body):
            blobs[digest] = base64.b64encode(store.blob(digest)).decode()
    return {
        "entries": [{"kind": each.kind, "body": each.body, "chain": each.chain} for each in entries],
        "blobs": blobs,
    }


def referred(body: Any) -> set[str]:
    """Return the digests of the blobs that an entry refers to."""
    found: set[str] = set()
    if isinstance(body, dict):
        for key, value in body.items():
            if key in ("blob", "source", "catalog", "candidate") and isinstance(value, str) and len(value) == 64:
                found.add(value)
            found |= referred(value)
    elif isinstance(body, list):
        for value in body:
            found |= referred(value)
    return found


def read(history: dict[str, Any], store: Store, run: str = "kept") -> list[str]:
    """Put a history into a store, and return the chain that the store computes for it."""
    store.create(RunHeader(run, "", "2026-11-29T00:00:00+00:00"))
    blobs = {digest: base64.b64decode(data) for digest, data in history["blobs"].items()}
    entries = [Entry(each["kind"], each["body"]) for each in history["entries"]]
    return [stored.chain for stored in store.append(run, entries, blobs=blobs)]


def add(name: str, scenario: Path) -> None:
    """Play a scenario and keep its journal."""
    with tempfile.TemporaryDirectory() as folder:
        played = rehearse(load(scenario), Path(folder))
        assert played.passed, played.mismatches
        store = SqliteStore(Path(folder) / "store.db")
        history = {"name": name, "last": played.steps[-1]["status"], "result": played.steps[-1]["result"]}
        history |= written(store, RUN)
        store.close()
    HERE.mkdir(exist_ok=True)
    (HERE / f"{name}.json").write_text(json.dumps(history, indent=1, sort_keys=True) + "\n", "utf-8")


WRITTEN = """async def orchestrate(ctx, args):
    plan = await ctx.run("storyboard.plan", {"brief": args["brief"], "shots": 2})
    urls = []
    for shot in plan["shots"]CUT:
        image = await ctx.run("image.generate", {"prompt": shot["prompt"]})
        urls.append(image["KEY"])
    return urls
"""


def add_written() -> None:
    """Have a model write a script, run it to its failure, have it mended, and keep the journal."""
    from addendum.authority.grant import everything
    from addendum.clock import SystemClock
    from addendum.repair.author import apply, author
    from addendum.repair.loop import repair
    from addendum.runs.context import Context
    from addendum.runs.start import resume
    from addendum.sandbox.embedded import EmbeddedSandbox
    from addendum.testing import DEMO_CATALOG, DemoProvider, MemoryStore
    from addendum.testing.scripted_model import ScriptedModel

    def model(*said: tuple[str, str]) -> ScriptedModel:
        scripts = [WRITTEN.replace("CUT", cut).replace("KEY", key) for cut, key in said]
        answers = [{"script": text, "moves": [], "drops": [], "reason": "because"} for text in scripts]
        return ScriptedModel(answers, cost=2_000_000, tokens=900, most=5_000_000, most_tokens=2000)

    store = MemoryStore()
    context = Context(
        store=store,
        sandbox=EmbeddedSandbox(),
        provider=DemoProvider(),
        catalog=DEMO_CATALOG,
        clock=SystemClock(),
        grant=everything(DEMO_CATALOG),
        backoff=0.0,
    )
    author(context, "Two pictures", model(("", "link"), ("[:2]", "link")), args={"brief": "the sea"}, run=RUN)
    assert resume(context, RUN).status == "failed"
    result = apply(context, repair(context, RUN, model(("[:2]", "href"), ("[:2]", "url")))).applied
    assert result is not None
    history = {"name": "written", "last": result.status, "result": result.result, **written(store, RUN)}
    context.sandbox.close()
    (HERE / "written.json").write_text(json.dumps(history, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    add_written() if sys.argv[1] == "written" else add(sys.argv[2], Path(sys.argv[3]))
