"""What models were asked for in a run, and what came of it: candidates with their verdicts, to be looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from addendum import canon
from addendum.authority.catalog import WRITE
from addendum.authority.money import usd
from addendum.canon import Json
from addendum.ports import Store
from addendum.records import entries
from addendum.records.entries import Body, Ref, draft_key
from addendum.records.history import History

DraftState: TypeAlias = Literal["accepted", "rejected", "failed", "unknown", "lost", "in_flight"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftView:
    """A model that was asked for a script: `number` counts them in the run, `dispatch` is
    its number among the attempts. `state` is the verdict on what it answered,
    or `in_flight`, or `lost` for one whose process is gone: its `hold` is held until the next one begins. `script` is
    the candidate's digest, `findings` are the counterexamples to it."""

    number: int
    dispatch: int
    seq: int
    purpose: str
    attempt: int
    model: str
    state: DraftState
    at: float
    hold: int
    cost: int
    tokens: int
    revision: int
    prompt: Ref
    script: str | None = None
    reason: str = ""
    moves: Mapping[str, str] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    findings: tuple[Mapping[str, Any], ...] = ()
    failure: Mapping[str, Any] | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the draft as JSON."""
        return {
            "number": self.number,
            "seq": self.seq,
            "purpose": self.purpose,
            "attempt": self.attempt,
            "model": self.model,
            "state": self.state,
            "at": self.at,
            "hold_usd": usd(self.hold),
            "cost_usd": usd(self.cost),
            "tokens": self.tokens,
            "revision": self.revision,
            "script": self.script,
            "reason": self.reason or None,
            "moves": dict(self.moves),
            "drops": list(self.drops),
            "counterexamples": [dict(found) for found in self.findings],
            "failure": dict(self.failure) if self.failure is not None else None,
            "note": self.note or None,
        }


def drafts(store: Store, history: History, ends: Mapping[int, Body], live: bool) -> Iterator[DraftView]:
    """Yield every draft of a run, oldest first. `ends` are what came of them, by seq; `live`: the run is driven."""
    for number, draft in enumerate(history.drafted.values(), 1):
        body = ends.get(draft.seq)
        answered: Any = value(store, entries.ref(body["result"])) if body is not None and "result" in body else {}
        against: Any = value(store, entries.ref(body["findings"])) if body is not None and "findings" in body else []
        yield DraftView(
            number=number,
            dispatch=draft.number,
            seq=draft.seq,
            purpose=draft.purpose,
            attempt=draft.attempt,
            model=draft.model,
            state=body["verdict"] if body is not None else "in_flight" if live else "lost",
            at=draft.at,
            hold=draft.hold,
            cost=body["cost"] if body is not None else 0,
            tokens=body["tokens"] if body is not None else 0,
            revision=draft.revision,
            prompt=draft.prompt,
            script=body.get("candidate") if body is not None else None,
            reason=str(answered.get("reason") or "") if isinstance(answered, dict) else "",
            moves=body.get("moves", {}) if body is not None else {},
            drops=tuple(body.get("drops", ())) if body is not None else (),
            findings=tuple(against),
            failure=body.get("failure") if body is not None else None,
            note=body.get("note", "") if body is not None else "",
        )


def as_attempt(run: str, draft: DraftView) -> dict[str, Any]:
    """Return a draft in the fields of an attempt: it is a dispatch like any other."""
    states = {"accepted": "committed", "rejected": "committed", "failed": "failed", "in_flight": "in_flight"}
    prompt: Json = {"bytes": draft.prompt.size, "blob": draft.prompt.blob}
    return {
        "number": draft.dispatch,
        "identity": f"{draft.purpose} draft {draft.number}",
        "capability": WRITE,
        "effect": "read",
        "state": states.get(draft.state, "interrupted"),
        "at": draft.at,
        "key": draft_key(run, draft.dispatch, draft.prompt),
        "cost": draft.cost,
        "revision": draft.revision,
        "payload": {"model": draft.model, "verdict": draft.state, "prompt": prompt},
        "reason": draft.note,
        "failure": draft.failure,
    }


def value(store: Store, ref: Ref) -> Json:
    """Return what a reference stands for."""
    return ref.value if ref.blob is None else canon.loads(store.blob(ref.blob))
