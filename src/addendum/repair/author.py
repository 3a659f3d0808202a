"""Beginning a run with a request: the loop with an empty prefix; and executing what a loop accepted."""

from __future__ import annotations

import threading
from dataclasses import replace

from addendum import canon
from addendum.authority.grant import Grant
from addendum.broker.journal import stow
from addendum.canon import Digest, Json
from addendum.errors import UsageError
from addendum.ports import Model
from addendum.records.stored import Entry
from addendum.repair.guards import Options
from addendum.repair.loop import Asked, Loop
from addendum.repair.outcome import Outcome
from addendum.runs import names
from addendum.runs.context import Context
from addendum.runs.revise import revise
from addendum.runs.start import beginning, first_grant, new_header, resume

LONGEST = 20_000
"""Characters of a request."""


def author(
    context: Context,
    request: str,
    model: Model | None,
    asked: Asked | None = None,
    *,
    args: Json = None,
    grant: Grant | None = None,
    name: str = "",
    run: str = "",
    parent: str = "",
    stop: threading.Event | None = None,
) -> Outcome:
    """Begin a run with a request, and have a model write its script, for these args and within the grant.

    An accepted script becomes the run's first revision and is not executed. A run without one is kept: `repair` goes on
    with it. With a `parent` its grant comes out of that run's, what the model costs too. Raises `UsageError`, for a run
    name that is taken too, `NotJson` for other args, `Rejected` for a grant beyond the ceiling or what the parent has
    left.
    """
    asked = asked or Asked()
    if not request.strip():
        raise UsageError("The request is empty.", hint="Say in a sentence what the script is for.")
    if len(request) > LONGEST:
        raise UsageError(
            f"The request has {len(request):,} characters; at most {LONGEST:,} are read.", hint="Put data into --args."
        )
    chosen = first_grant(context, grant, parent)
    blobs: dict[Digest, bytes] = {}
    text = stow(canon.canonical(request), request, blobs)
    given = stow(canon.canonical({} if args is None else args), {} if args is None else args, blobs)
    names.check(run)
    entry = Entry("request", {"text": text.body(), "args": given.body(), "by": context.operator})
    with beginning(context, new_header(context, name, run), chosen, parent, [entry], blobs) as journal:
        return Loop(context, journal, model, asked, stop or threading.Event()).run()


def apply(
    context: Context,
    outcome: Outcome,
    options: Options | None = None,
    *,
    at: tuple[int, str] | None = None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Execute the candidate that a loop accepted: the decision of whoever calls this. Returns the outcome with the
    result.

    `at` is the journal that a plan was shown of, else the one that the loop left; if the run has changed since, nothing
    is done. Raises `Rejected` for that, `UsageError` when no candidate was accepted, `RunBusy`.
    """
    options = options or Options()
    if outcome.candidate is None:
        raise UsageError("No candidate was accepted.", hint="Ask again, or write the script yourself.")
    if outcome.purpose == "author":
        result = resume(context, outcome.run, policy=options.policy, stop=stop)
    else:
        allowances = replace(options.allowances, moves=dict(outcome.moves), drops=outcome.drops)
        result = revise(
            context,
            outcome.run,
            outcome.candidate,
            policy=options.policy,
            allowances=allowances,
            at=at or outcome.at,
            stop=stop,
        )
    outcome.applied, outcome.status = result, "applied"
    outcome.message, outcome.hint = result.message, result.hint
    outcome.revision, outcome.total_cost = result.revision, result.total_cost
    return outcome
