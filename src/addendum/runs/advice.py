"""What to do next with a run: exact commands, with a reason each."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RUN = re.compile(r"\bRUN\b")
_WAY = re.compile(r"([^`]*) with `(addendum [^`]*)`")
_COMMAND = re.compile(r"`addendum [^`]*`")


@dataclass(frozen=True, slots=True)
class Advice:
    """A command, and why."""

    command: str
    why: str

    def to_json(self) -> dict[str, str]:
        """Return it as JSON."""
        return {"command": self.command, "why": self.why}


def named(text: str, run: str) -> str:
    """Return a hint with the run's name for `RUN` in the commands that it quotes. What a script says is left alone."""
    return _COMMAND.sub(lambda command: _RUN.sub(lambda _: run, command[0]), text) if run else text


def advise(
    run: str,
    status: str,
    *,
    stop: str | None = None,
    unresolved: int = 0,
    failures: int = 0,
    hint: str = "",
    name: str = "",
    pending: bool = False,
    answered: bool = False,
) -> tuple[Advice, ...]:
    """Return what a person can do about a run that stands so. `name` is its label, as a rule a script's name;
    `failures` counts those that the next attempt tries again; `pending` is whether an accepted candidate waits,
    `answered` whether nothing that a waiting run asked is open any more."""
    if pending and status in ("failed", "stopped", "paused") and not unresolved:
        apply = Advice(f"addendum repair {run} --apply", "execute the candidate that was accepted")
        return (apply, Advice(f"addendum show {run} --drafts", "see it, and the others with their counterexamples"))
    script = name if name.endswith(".py") and " " not in name else "NEW_SCRIPT"
    resume = Advice(f"addendum resume {run}", "go on from here; nothing that is committed is paid for again")
    if unresolved or stop == "unresolved":
        return (
            Advice(f"addendum attempts {run} --open", "see what was sent and has no result"),
            Advice(f"addendum reconcile {run} --result JSON", "write back what the provider says became of it"),
            Advice(
                f"addendum reconcile {run} --abandon --reason TEXT", "declare it void: the call may be sent once more"
            ),
        )
    match status:
        case "completed":
            return (Advice(f"addendum certificate {run} --verify", "recompute what the store says"),)
        case "failed":
            plan = Advice(f"addendum plan {run} {script}", "see what a corrected script would replay and pay for")
            again = Advice(f"addendum resume {run}", "try the failed calls again with the same script")
            mend = Advice(f"addendum repair {run}", "have a model mend the script; it stops at the plan")
            return (plan, again, mend) if failures else (plan, mend)
        case "waiting" if answered:
            return (Advice(f"addendum resume {run}", "go on with the answer"),)
        case "waiting":
            return (
                Advice(f"addendum approve {run}", "answer yes (--no for no)"),
                Advice(f"addendum resume {run}", "go on once it is answered"),
            )
        case "paused":
            return (_paused(run, hint), resume)
        case "requested":
            return (
                Advice(f"addendum repair {run}", "have a model write its script"),
                Advice(f"addendum revise {run} SCRIPT", "give it one of yours"),
            )
        case "created":
            return (Advice(f"addendum resume {run}", "run the script; `addendum show --source` prints it"),)
        case "running":
            return (Advice(f"addendum cancel {run}", "end it before its next effect"),)
        case "stopped":
            return _stopped(run, stop, script, resume, hint)
        case _:
            return (resume,)


def _paused(run: str, hint: str) -> Advice:
    way = _WAY.match(named(hint, run))
    if way is None or way[1] == "Raise it":
        return Advice(f"addendum grant {run} FILE", "give it a higher limit")
    return Advice(way[2], way[1][:1].lower() + way[1][1:])


def _stopped(run: str, stop: str | None, script: str, resume: Advice, hint: str) -> tuple[Advice, ...]:
    plan = Advice(f"addendum plan {run} {script}", named(hint, run) or "see what a corrected script would do")
    match stop:
        case "divergence":
            return (plan, Advice(f"addendum resume {run} --supersede changed", "pay for a new version of what changed"))
        case "repeat":
            return (plan, Advice(f"addendum resume {run} --policy ledger=warn", "pay for it all the same"))
        case "orphans":
            return (plan, Advice(f"addendum resume {run} --policy orphans=warn", "accept that they are no longer used"))
        case "denied":
            return (Advice(f"addendum grant {run} FILE", "grant the capability"), resume)
        case _:
            return (resume,)
