"""What each tool takes, as a client has to send it. Strict: what isn't named here is an error; nothing is a path."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

MAX_SOURCE = 1024 * 1024
"""Characters of a script."""
MAX_WAIT = 24 * 3600

Source: TypeAlias = Annotated[
    str,
    Field(
        max_length=MAX_SOURCE,
        description="The text of a workflow script: `async def orchestrate(ctx, args)` in the restricted Python that "
        "the resource addendum://authoring describes. Never the name of a file.",
    ),
]
Args: TypeAlias = Annotated[Any, Field(description="The script's args: any JSON value.")]
Run: TypeAlias = Annotated[
    str,
    Field(max_length=200, description="A run: its name, an unambiguous beginning of it, or `last` for the newest."),
]
Grant: TypeAlias = Annotated[
    dict[str, Any] | None,
    Field(
        description="A grant that is narrower than the server's, for this run. As in "
        '{"capabilities": {"image.generate": {"limits": [{"meter": "calls", "max": 3}]}}}. More than the server grants '
        "is rejected."
    ),
]
Supersede: TypeAlias = Annotated[
    Literal["changed"] | list[str],
    Field(
        description="Allow a new, paid version of committed calls: `changed` for each one whose payload changes, or a "
        "list of identities. Look at the plan first."
    ),
]
Retry: TypeAlias = Annotated[
    Literal["open", "all", "none"], Field(description="Which recorded failures are tried again.")
]
Drops: TypeAlias = Annotated[
    list[str],
    Field(description="Identities, or sites with their static path, whose committed calls are given up."),
]
Moves: TypeAlias = Annotated[
    dict[str, str],
    Field(description="Places (a site with its static path) that are another one now: old to new."),
]
Wait: TypeAlias = Annotated[
    float | None,
    Field(
        ge=0,
        le=MAX_WAIT,
        description="Answer after so many seconds at the latest, with status `running`; the run goes on, and `show` "
        "tells how it came out. Without it the answer comes when the run ends or waits.",
    ),
]


class Policies(BaseModel):
    """How strict the run is. A client can't switch the ledger of repeated payments off."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    relocation: Literal["strict", "declared", "verified"] | None = Field(
        default=None, description="How calls that stand elsewhere now may claim their results (`verified` by default)."
    )
    ledger: Literal["deny", "auto"] | None = Field(
        default=None, description="`deny` stops at every repeated payment, `auto` at those with a side effect."
    )
    orphans: Literal["warn", "stop"] | None = Field(
        default=None, description="Whether committed calls that a revision leaves unused stop it."
    )

    def chosen(self) -> dict[str, object]:
        """Return the policies that are set."""
        return self.model_dump(exclude_none=True)


class Asked(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Check(Asked):
    """check"""

    source: Source
    grant: Grant = None


class Start(Asked):
    """run"""

    source: Source
    args: Args = Field(default_factory=dict)
    id: str = Field(
        default="",
        max_length=100,
        description="The run's name. Choose one: if the answer gets lost, `show` finds the run by it, and the same "
        "name never starts a second run.",
    )
    name: str = Field(default="", max_length=200, description="A label for lists.")
    grant: Grant = None
    policy: Policies = Policies()
    wait_seconds: Wait = None


class Resume(Asked):
    """resume"""

    run: Run
    supersede: Supersede | None = None
    retry: Retry = "open"
    policy: Policies = Policies()
    wait_seconds: Wait = None


class Plan(Asked):
    """plan"""

    run: Run
    source: Source | None = Field(default=None, description="The new script; the run's own one if it is left out.")
    args: Args = Field(default=None, description="Other args; the run's own ones if they are left out.")
    supersede: Supersede | None = None
    retry: Retry = "open"
    drops: Drops = Field(default_factory=list)
    moves: Moves = Field(default_factory=dict)
    policy: Policies = Policies()


class At(Asked):
    """The journal that a plan was made from, and what it is a plan of."""

    seq: int
    chain: str
    revision: str
    args_digest: str
    terms: str


class Revise(Plan):
    """revise"""

    at: At | None = Field(
        default=None,
        description="`details.plan.at` of the plan that you looked at, whole: if the run has changed since, or source, "
        "args, what is allowed or the catalog are others, nothing is done.",
    )
    wait_seconds: Wait = None


class Show(Asked):
    """show"""

    run: Run
    what: Literal["run", "result", "source"] = Field(
        default="run",
        description="`run`: how it stands, its calls, cost and what to do next. `result`: its result. `source`: its "
        "script as it is now.",
    )
    call: str | None = Field(
        default=None, description="The identity of one call: answers with its payload and its result instead."
    )


class Approve(Asked):
    """approve"""

    run: Run
    approved: bool = Field(default=True, description="Yes or no.")
    note: str = Field(default="", max_length=10_000, description="A note that the script gets.")
    which: list[str] = Field(
        default_factory=list, description="Only the questions at these identities, or with these keys."
    )


class Cancel(Asked):
    """cancel"""

    run: Run
