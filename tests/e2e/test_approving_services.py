"""A person answers `human.approve` of a services file, by the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.e2e.conftest import Cli
from tests.mailserver import MailServer

SCRIPT = """
async def orchestrate(ctx, args):
    ok = await ctx.run("human.approve", {"question": "Send it?", "context": {"to": args["to"]}})
    if not ok["approved"]:
        return {"sent": None, "note": ok["note"]}
    return {"sent": await ctx.run("mail.send", {"to": args["to"], "subject": "Hello", "body": "text"})}
"""
SERVICES = """
[capability."mail.send"]
kind = "mail"
host = "127.0.0.1"
port = {port}
security = "none"
sender = "robot@example.com"
recipients = ["@example.com"]
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def server(cli: Cli) -> Iterator[MailServer]:
    """A mail server, and a services file for it."""
    with MailServer() as found:
        cli.write("services.toml", SERVICES.format(port=found.port))
        cli.write("addendum.toml", 'provider = "services.toml"\n')
        cli.write("script.py", SCRIPT)
        yield found


def test_a_yes_sends_the_mail(cli: Cli, server: MailServer) -> None:
    """The run waits, over processes, and goes on with the answer; nothing is sent before it."""
    waiting = cli("run", "script.py", "--id", "one", "--args", '{"to": "a@example.com"}', "--json")
    assert (waiting.code, waiting.json["status"], server.mails) == (4, "waiting", [])
    again = cli("resume", "one", "--json")
    assert (again.code, again.json["status"]) == (4, "waiting")
    assert cli("approve", "one", "--note", "fine", "--by", "ada").code == 0
    done = cli("resume", "one", "--json")
    assert (done.code, done.json["status"], len(server.mails)) == (0, "completed", 1)
    assert done.json["result"]["sent"]["recipients"] == ["a@example.com"]
    assert cli("resume", "one", "--json").json["dispatched"] == 0
    assert len(server.mails) == 1


def test_a_no_sends_nothing(cli: Cli, server: MailServer) -> None:
    """The script gets a no with its note."""
    cli("run", "script.py", "--id", "one", "--args", '{"to": "a@example.com"}')
    cli("approve", "one", "--no", "--note", "not today")
    done = cli("resume", "one", "--json")
    assert (done.json["result"], server.mails) == ({"sent": None, "note": "not today"}, [])


def test_a_recipient_that_was_not_named(cli: Cli, server: MailServer) -> None:
    """A yes of a person doesn't widen what the services file says."""
    cli("run", "script.py", "--id", "one", "--args", '{"to": "eve@evil.example"}')
    cli("approve", "one")
    failed = cli("resume", "one", "--json")
    assert (failed.code, failed.json["error"], server.mails) == (3, "refused", [])


def test_an_unknown_outcome_is_not_sent_again(cli: Cli, server: MailServer) -> None:
    """A mail whose answer was lost after the final dot stays unresolved until a person says what became of it."""
    server.drop = "DATA"
    cli("run", "script.py", "--id", "one", "--args", '{"to": "a@example.com"}')
    cli("approve", "one")
    for _ in range(2):
        lost = cli("resume", "one", "--json")
        assert (lost.code, lost.json["stop"], len(server.mails)) == (4, "unresolved", 1)
    (call,) = lost.json["details"]["unresolved"]
    found = cli("reconcile", "one", "--call", call, "--result", '{"id": "<x>", "recipients": ["a@example.com"]}')
    assert found.code == 0, found.err
    server.drop = ""
    done = cli("resume", "one", "--json")
    assert (done.json["status"], len(server.mails)) == ("completed", 1)
