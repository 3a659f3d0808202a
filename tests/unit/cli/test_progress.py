"""What is seen while a run goes on."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from addendum.cli.progress import Progress

AT = "orchestrate/image.generate#0"


def lines(*events: dict[str, Any]) -> list[str]:
    """Return what is printed for events, beside a terminal."""
    file = io.StringIO()
    progress = Progress(Console(file=file, width=200))
    with progress.watching():
        for event in events:
            progress(event)
    return file.getvalue().splitlines()


def test_replays_are_counted_in_one_line_before_the_next_thing() -> None:
    """A hundred thousand replays are one line."""
    replayed = {"event": "replayed", "identity": AT, "capability": "image.generate", "seq": 1, "ok": True}
    settled = {"event": "settled", "identity": AT, "capability": "image.generate", "cost": 20_000_000, "ok": True}
    assert lines(*[replayed] * 1000, settled, replayed) == [
        "replayed   1000 calls from the store",
        f"ok         image.generate   $0.02  {AT}",
        "replayed   1 call from the store",
    ]


def test_failures_retries_limits_and_questions_are_lines() -> None:
    """Each says what happened to which call."""
    failed = {"code": "refused", "message": "no\nhands"}
    shown = lines(
        {"event": "dispatched", "identity": AT, "capability": "image.generate"},
        {"event": "retry", "identity": AT, "capability": "image.generate", "code": "timeout", "in": 0.5},
        {"event": "settled", "identity": AT, "capability": "image.generate", "cost": 0, "ok": False, "failure": failed},
        {"event": "limit", "identity": AT, "limit": "calls <= 2"},
        {"event": "asked", "identity": AT, "capability": "human.approve", "payload": {"question": "Go?"}},
        {"event": "log", "text": "\x1b[2J"},
        {"event": "retry", "identity": AT, "capability": "image.generate", "code": "timeout", "in": None},
        {"event": "something.new"},
    )
    assert [line.split()[0] for line in shown] == ["retry", "failed", "limit", "asked", "log", "retry"]
    assert "again in 0.5 s" in shown[0]
    assert "refused: no hands" in shown[1]
    assert "\\x1b[2J" in shown[4]
    assert "timeout, not sent again, as the run ends" in shown[5]


def test_calls_in_flight_are_counted() -> None:
    """From their dispatch until they are settled, wait for another try, or are given up as unresolved."""
    progress = Progress(None)
    ends = ("settled", "retry", "unresolved")
    for at in ends:
        progress({"event": "dispatched", "identity": at, "capability": "image.generate"})
    counts = [progress.flying]
    told = {"cost": 0, "ok": True, "code": "timeout", "in": 1, "message": ""}
    for at in ends:
        progress({"event": at, "identity": at, "capability": "image.generate", **told})
        counts.append(progress.flying)
    assert counts == [3, 2, 1, 0]


def test_a_model_that_is_asked_is_in_flight_until_it_has_answered() -> None:
    """On a terminal a person sees that something goes on; what it cost is counted."""
    out = io.StringIO()
    progress = Progress(Console(file=out, width=100, force_terminal=True, color_system=None))
    with progress.watching():
        progress({"event": "drafting", "model": "openai:m", "attempt": 1, "price": 5_000_000})
        assert progress.asking
        assert progress.flying == 0
        progress._live.refresh()  # type: ignore[union-attr]
        assert "repair.write" in out.getvalue().splitlines()[-2]
        assert "1 in flight, 0 done" in out.getvalue()
        progress({"event": "drafted", "verdict": "accepted", "cost": 4_000_000})
        assert not progress.asking
    assert "0 in flight, 1 done, $0.004" in out.getvalue()


def test_a_model_that_gave_no_draft_is_no_draft_done() -> None:
    """One that is asked again for the same attempt was counted twice."""
    out = io.StringIO()
    progress = Progress(Console(file=out, width=100, force_terminal=True, color_system=None))
    with progress.watching():
        for verdict in ("failed", "rejected", "accepted"):
            progress({"event": "drafting", "model": "openai:m", "attempt": 1, "price": 0})
            progress({"event": "drafted", "verdict": verdict, "cost": 1_000_000})
    assert "0 in flight, 2 done, $0.003" in out.getvalue()


def test_nothing_is_printed_without_a_console() -> None:
    """With --json nobody watches."""
    progress = Progress(None)
    with progress.watching():
        progress({"event": "log", "text": "x"})
        progress({"event": "replayed"})
