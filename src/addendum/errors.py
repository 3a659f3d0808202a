"""The exception tree.

    Exception
    ├── AddendumError             something went wrong that the caller has to know
    │   ├── UsageError            the request itself is malformed            (exit 2)
    │   │   ├── ConfigError       a setting or a file of settings is wrong
    │   │   └── NotFound          no such run, attempt, identity or file
    │   ├── NotJson               a value that JSON can't say                (exit 2)
    │   ├── Rejected              a typed rejection, with its reasons        (exit 3)
    │   ├── RunBusy               another process drives this run            (exit 4)
    │   ├── StoreError
    │   │   ├── StoreUnavailable  the store did not answer: nothing was sent (exit 1)
    │   │   ├── StoreCorrupt      what it answered can't be what was written (exit 1)
    │   │   ├── JournalMoved      another process wrote first: nothing was written (exit 1)
    │   │   └── LeaseLost         this process no longer drives the run      (exit 1)
    │   └── SandboxError
    │       ├── SandboxMissing    the backend isn't there, or can't confine  (exit 2)
    │       ├── SandboxCrashed    the worker died or was killed              (exit 1)
    │       ├── LimitExceeded     the script ran over a limit of the sandbox (exit 3)
    │       └── ProtocolViolation the sandbox said what it may not say       (exit 1)
    ├── CapabilityError           what a capability raises and a script may catch
    └── UnknownOutcome            a capability that can't tell whether it had an effect
    BaseException
    └── Stop                      what no script can catch; see `StopKind`

Every `AddendumError` has a stable `code`, its facts as attributes, a sentence that says what happened
and a `hint` that says what to do about it. A verdict (a checker's report, a gate's counterexamples, how a
run ended) is a value, not an exception.
"""

from __future__ import annotations

from typing import ClassVar, Literal

FAILURE_CODES = ("invalid_input", "rate_limited", "timeout", "refused", "provider_error")
"""The codes that a `CapabilityError` from a provider can have (AUTHORING)."""

StopKind = Literal[
    "divergence",
    "denied",
    "repeat",
    "unresolved",
    "orphans",
    "cancelled",
    "store_unavailable",
    "sandbox",
]
"""Why a run was stopped. The closed list of DESIGN sections 2, 4 and 5."""


class AddendumError(Exception):
    """The base of what this library raises at its callers.

    Attributes: `message` (what happened), `hint` (what to do), `facts` (a dict of JSON values).
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(AddendumError):
    """The request itself is malformed: a wrong option, an unreadable file, an unknown format."""

    code = "usage"
    exit_code = 2


class ConfigError(UsageError):
    """A setting, or a file of settings, has a value that it can't have."""

    code = "config"


class NotFound(UsageError):
    """What was named doesn't exist in this store."""

    code = "not_found"


class NotJson(AddendumError):
    """A value that JSON can't say, or that is over a limit on depth or size (DESIGN section 3).

    `where` is the place in the value as a JSON pointer.
    """

    code = "not_json"
    exit_code = 2

    def __init__(self, message: str, *, where: str = "", hint: str = "", **facts: object) -> None:
        super().__init__(message, hint=hint, where=where, **facts)
        self.where = where


class Rejected(AddendumError):
    """A typed rejection: what was asked for is not admitted, and nothing was done."""

    code = "rejected"
    exit_code = 3


class RunBusy(AddendumError):
    """Another live process drives this run; one run is driven by one process at a time."""

    code = "run_busy"
    exit_code = 4


class StoreError(AddendumError):
    """The base of what a store raises; a backend's own errors leave through one funnel as one of these."""

    code = "store"


class StoreUnavailable(StoreError):
    """The store did not answer, or could not make an entry durable. Nothing was sent to a provider for it."""

    code = "store_unavailable"


class StoreCorrupt(StoreError):
    """The store answered something that can't be what was written to it."""

    code = "store_corrupt"


class JournalMoved(StoreError):
    """Another process wrote to a journal that an append was made against. Nothing was written: look again."""

    code = "journal_moved"


class LeaseLost(StoreError):
    """This process no longer drives the run: its lease ended and another one took it, or was released."""

    code = "lease_lost"


class SandboxError(AddendumError):
    """The base of what a sandbox raises at the host."""

    code = "sandbox"


class SandboxMissing(SandboxError):
    """The chosen backend isn't installed, or can't confine a script here. Nothing falls back silently."""

    code = "sandbox_missing"
    exit_code = 2


class SandboxCrashed(SandboxError):
    """The sandbox's worker died, or was killed, before it answered."""

    code = "sandbox_crashed"


class LimitExceeded(SandboxError):
    """The script ran over a limit of the sandbox (time, memory, output, nesting, number of calls)."""

    code = "sandbox_limit"
    exit_code = 3


class ProtocolViolation(SandboxError):
    """The sandbox sent a message that it may not send: malformed, forged, for an unknown site, out of order."""

    code = "protocol_violation"


class CapabilityError(Exception):
    """What a capability raises when it failed, and what a script may catch (DESIGN section 2).

    Raise it from a handler for a failure that is certain. `code` is one of `FAILURE_CODES`; a `retryable`
    failure is tried again by the host with back-off before a script sees it. `cost_usd` is what the provider
    charged for the failed call, in US dollars as text or int (default: nothing). `retry_after` is the least pause
    before a next try, in seconds, when the provider named one (RFC 9110, Retry-After); an hour is the most that counts.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        retryable: bool = False,
        *,
        cost_usd: str | int = 0,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable
        self.cost_usd = cost_usd
        self.retry_after = retry_after


class UnknownOutcome(Exception):
    """Raise it from a handler that sent its request and can't tell what became of it.

    For a side-effecting capability the call becomes *unresolved* and is never sent again by itself; for a
    read-only one it is a retryable `timeout` (DESIGN section 4, crash window).
    """


class Stop(BaseException):
    """What ends a run and can't be caught by a script: a `BaseException` on purpose (DESIGN section 2).

    `kind` is the stop's name, `message` says what was found, `hint` the way out, `facts` the details.
    """

    def __init__(self, kind: StopKind, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.facts = facts
