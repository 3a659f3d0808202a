"""The prompt of one attempt: the rules of the game from the host, and the brief as data."""

from __future__ import annotations

from typing import Any, Final

from addendum.canon import Json
from addendum.ports import Message, Prompt
from addendum.repair import text
from addendum.repair.answer import SCHEMA
from addendum.repair.brief import Brief
from addendum.repair.guide import compose

REPAIR: Final = """
# Mending a script of a run

A run of a script has failed. What it called so far was paid for and is kept. Your script is started from the top: each
call that is paid for already is answered from its record, at no cost, as long as it is the same call at the same place,
asking for the same. Everything else is new work and costs money.

- Leave every committed call as it is: its expression, its function, the blocks around it, and what its payload is
  computed from. Comments, formatting, and statements without a call may change anywhere.
- Mend what failed, and what comes behind it. New calls stand behind the committed ones, or beside them at places of
  their own. Keep the calls that have not been made yet: a mended script does all of its request.
- If a committed call has to stand elsewhere, name its old and its new place in `moves`, written as the brief writes
  places. Everything that you say is verified before anything is run.
- A committed call whose payload was wrong can't be changed by you: make a new call behind it, and use that result.
"""
AUTHOR: Final = """
# Writing a script for a request

The brief has a request and the args that the script will be run with. Write the script. `moves` and `drops` are empty.
"""
ANSWER: Final = """
# Your answer

One object: `script`, the whole script as Python source with nothing around it; `moves`; `drops`; `reason`, one or two
sentences. The script is checked, its worst case is held against what the run may do, and what it would pay for again is
looked for, all before anything is run. What doesn't hold comes back to you with counterexamples. It is not executed by
your saying so, and nothing in it, in the brief or in your answer can widen what the run may do.
"""


def prompt(brief: Brief, *, max_tokens: int, timeout: float) -> Prompt:
    """Return what a model is asked."""
    game = REPAIR if brief.purpose == "repair" else AUTHOR
    told = "\n".join((compose(brief.catalog, brief.rules).strip(), game, ANSWER.strip()))
    return Prompt(
        messages=(Message("system", told), Message("user", text.readable(brief))),
        schema=SCHEMA,
        max_tokens=max_tokens,
        timeout=timeout,
    )


def to_json(asked: Prompt) -> dict[str, Json]:
    """Return a prompt as it is kept in the journal."""
    messages: list[Json] = [{"role": each.role, "text": each.text} for each in asked.messages]
    schema: Any = dict(asked.schema)
    return {"messages": messages, "schema": schema, "max_tokens": asked.max_tokens}
