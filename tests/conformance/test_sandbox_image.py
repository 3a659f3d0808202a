"""The image of the container backends: from this machine's Python, or from a base, and never from somewhere else."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator

import pytest
from tests.sandboxes import CONTAINERS, need

from addendum.errors import SandboxMissing, UsageError
from addendum.ports import Limits, Returned
from addendum.sandbox.container import ContainerSandbox
from addendum.sandbox.engine import Engine
from addendum.sandbox.image import build
from addendum.testing.driving import by_hand, drive

SCRIPT = by_hand('async def orchestrate(ctx, args):\n    return await ctx.run("", "orchestrate/a.b#0", "a.b", {})\n')

pytestmark = pytest.mark.slow


@pytest.fixture(params=CONTAINERS)
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, str]]:
    """An engine, and a name for an image that is gone afterwards."""
    need(request.param)
    found = Engine.find(CONTAINERS[request.param])
    name = f"localhost/addendum-test:{secrets.token_hex(4)}"
    yield found, name
    for one in (name, f"{name}-base"):
        if found.image(one) is not None:
            found.ask("rmi", one)


def test_an_image_of_this_python_and_one_from_it(engine: tuple[Engine, str]) -> None:
    """Both run a script, by their digests; the second has the first one's files and none of its settings."""
    found, name = engine
    own = build(found, name=f"{name}-base")
    assert own.version == sys.version.split()[0]
    flat = build(found, f"{name}-base", name)
    assert flat.identity != own.identity
    assert flat.version == own.version
    for image in (own, flat):
        sandbox = ContainerSandbox(found.name, image=image.identity, spares=0)
        assert drive(sandbox, SCRIPT, limits=Limits(memory=2**26))[1] == Returned({"got": {}})
        sandbox.close()


def test_a_base_that_is_not_here_is_not_pulled(engine: tuple[Engine, str]) -> None:
    """The way out is the user's own command."""
    found, name = engine
    with pytest.raises(SandboxMissing, match="nothing is pulled here"):
        build(found, "localhost/nobody/made-this:1", name)


def test_a_base_without_python_is_refused(engine: tuple[Engine, str]) -> None:
    """It says what is wanted, and leaves nothing."""
    found, name = engine
    empty = f"{name}-base"
    found.ask("import", "-", empty, stdin=b"\0" * 10240)
    with pytest.raises(UsageError, match="has no `python3`"):
        build(found, empty, name)
    assert found.image(name) is None
