"""A run's events as lines of a log, each a JSON object: what happened, with ids and codes, without content.

The lines go through the standard library's `logging`, as records of the logger `addendum.run`, so that a process that
has handlers of its own gets them there too.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from addendum.errors import ConfigError
from addendum.telemetry.watch import Noted

ROOT: Final = "addendum"
LEVELS: Final[Mapping[str, int]] = {
    "replayed": logging.DEBUG,
    "handed_over": logging.DEBUG,
    "rebound": logging.DEBUG,
    "retry": logging.WARNING,
    "repeat": logging.WARNING,
    "limit": logging.WARNING,
    "unresolved": logging.ERROR,
    "frozen": logging.ERROR,
}
"""Those that aren't `INFO`. A call that failed, and a drive that ended otherwise than well, are warnings."""
KEPT: Final = (
    *("run", "revision", "drive", "how", "identity", "capability", "seq", "attempt", "try", "ok", "code", "in"),
    *("cost", "tokens", "price", "status", "stop", "error", "limit", "finding", "of"),
    *("meter", "reported", "declared", "dispatched", "executed", "replayed", "frontier", "seconds"),
    *("purpose", "model", "answered", "verdict", "contract", "slice", "candidate", "validator", "result", "codes"),
)
"""The keys of events that a line has. What isn't named here is content until somebody says otherwise."""


class Lines:
    """A sink that writes one record for each event."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger(f"{ROOT}.run")
        self._revisions: dict[str, int] = {}

    def take(self, noted: Noted) -> None:
        """Take one event."""
        event, name = noted.event, str(noted.event.get("event"))
        run = str(event.get("run", ""))
        if name == "began":
            self._revisions[run] = event["revision"]
        level = _level(name, event)
        if not self._logger.isEnabledFor(level):
            return
        fields: dict[str, Any] = {"event": name}
        if run in self._revisions:
            fields["revision"] = self._revisions[run]
        fields |= {key: event[key] for key in KEPT if key in event}
        failure = event.get("failure")
        if isinstance(failure, Mapping):
            fields["code"] = failure.get("code")
        record = self._logger.makeRecord(self._logger.name, level, "", 0, name, (), None, extra={"fields": fields})
        record.created = noted.at / 1e9
        self._logger.handle(record)
        if name == "ended":
            self._revisions.pop(run, None)

    def end(self) -> None:
        """Nothing is open."""


def _level(name: str, event: Mapping[str, Any]) -> int:
    if name == "settled" and not event.get("ok", True):
        return logging.WARNING
    if name == "ended" and event.get("status") not in ("completed", "paused", "waiting"):
        return logging.WARNING
    return LEVELS.get(name, logging.INFO)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `at` (ISO, UTC), `level`, `logger`, then an event's fields, or `message` for any other
    record. Each of `redact` takes secrets out of the whole line."""

    def __init__(self, *redact: Callable[[str], str]) -> None:
        super().__init__()
        self.redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "logger": record.name}
        fields = getattr(record, "fields", None)
        if isinstance(fields, Mapping):
            found |= fields
        else:
            found["message"] = record.getMessage()
            if record.exc_info and record.exc_info[0] is not None:
                found["exception"] = record.exc_info[0].__name__
        line = json.dumps(found, ensure_ascii=True, default=str)
        for redact in self.redact:
            line = redact(line)
        return line


def wanted() -> bool:
    """Whether this process has set its own logging up for the events of runs."""
    return logging.getLogger(f"{ROOT}.run").isEnabledFor(logging.INFO)


class _Quiet(logging.StreamHandler[Any]):
    """A handler that several may use at once: no secret of any of them is in a line. `before` is the logger's level
    without any of them."""

    def __init__(self, stream: Any, where: str, before: int, formatter: JsonFormatter) -> None:
        super().__init__(stream)
        self.setFormatter(formatter)
        self.lines = formatter
        self.where = where
        self.before = before
        self.users = 1

    def handleError(self, record: logging.LogRecord) -> None:
        """A disk that is full changes nothing of a run."""


def opened(where: str, level: str, redact: Callable[[str], str] = str) -> Callable[[], None]:
    """Let the loggers below `addendum` write lines to a file (appended; made with mode 600), or to standard error for
    `-`. Returns what closes it. Several in a process that name the same place write each line once.

    Raises `ConfigError`."""
    logger = logging.getLogger(ROOT)
    ours = [handler for handler in logger.handlers if isinstance(handler, _Quiet)]
    for handler in ours:
        if handler.where == where:
            handler.users += 1
            handler.lines.redact = (*handler.lines.redact, redact)
            return _closing(logger, handler)
    made = _Quiet(_stream(where), where, ours[0].before if ours else logger.level, JsonFormatter(redact))
    made.setLevel(level.upper())
    logger.addHandler(made)
    logger.setLevel(min(each.level for each in (*ours, made)))
    return _closing(logger, made)


def _stream(where: str) -> Any:
    if where == "-":
        return sys.stderr
    try:
        descriptor = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"The log {where} can't be written: {error.strerror}.", hint="Name a file, or - for standard error."
        ) from None
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _closing(logger: logging.Logger, handler: _Quiet) -> Callable[[], None]:
    def close() -> None:
        handler.users -= 1
        if handler.users:
            return
        logger.removeHandler(handler)
        left = [each.level for each in logger.handlers if isinstance(each, _Quiet)]
        logger.setLevel(min(left) if left else handler.before)
        if handler.where != "-":
            try:
                handler.stream.close()
            except OSError:  # what was left in its buffer found no room
                return

    return close
