"""Plays one step of a scenario in this process, which is killed in it.

python -m addendum.cli.crash_child FOLDER STEP
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from addendum.rehearse.crash import Killer
from addendum.rehearse.runner import State, act, provider_of
from addendum.rehearse.scenario import parse
from addendum.wiring import rehearsal_context


def main(folder: Path, number: int) -> int:
    """Play a step. Returns 1: it was to be killed."""
    scenario = parse(json.loads((folder / "scenario.json").read_text("utf-8")), "the scenario")
    step = scenario.steps[number - 1]
    assert step.crash is not None
    state = State(folder / "provider.json", provider_of(scenario))
    state.load()
    killer = Killer(step.crash, state.save)
    killer.hook(state.provider)
    context = rehearsal_context(folder, state.provider)
    context.observer = killer.observe
    result = act(context, scenario, step)
    sys.stderr.write(f"it ended as {result.status}: {result.message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
