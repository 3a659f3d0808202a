"""Secrets from every source are given to every kind of service, and every service tries to get them out: in results, in
error texts, in files, in tools' answers, however they are spelt. Afterwards none of them is anywhere."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import sys
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("openai")
pytest.importorskip("mcp")

import keyring
import keyring.backend
from tests.mailserver import MailServer
from tests.repositories import repository
from tests.sandboxes import need
from tests.webserver import Give, Got, WebServer

from addendum.cli.main import main
from addendum.testing.openai_server import Fault, OpenAIServer

MARKS = {"env": "CANARYenv7f3a1", "file": "CANARYfile7f3a2", "ring": "CANARYring7f3a3", "mcp": "CANARYmcp7f3a4"}
SECRETS = {name: f'sk-+/"&<\\{mark}=%=' for name, mark in MARKS.items()}

pytestmark = pytest.mark.slow


def spelt(mark: str) -> list[bytes]:
    """Return what a value looks like, as it is or encoded, whatever stands around it."""
    found = [mark.encode(), mark.encode().hex().encode(), mark.encode().hex().upper().encode()]
    found += ["".join(f"%{byte:02x}" for byte in mark.encode()).encode(), urllib.parse.quote(mark).encode()]
    for offset in range(3):
        found.append(base64.b64encode(b"\0" * offset + mark.encode())[4:-4])
    return found


def leaks(data: bytes) -> list[str]:
    """Return the sources whose secret is in some bytes."""
    return [name for name, mark in MARKS.items() if any(form.lower() in data.lower() for form in spelt(mark))]


@dataclass(slots=True)
class Rig:
    """The servers, and what was looked at while they were asked."""

    folder: Path
    openai: OpenAIServer
    web: WebServer
    mail: MailServer
    seen: dict[str, bytes] = field(default_factory=dict)
    """Environments and command lines of all processes below this one, and files, at the moment of a call."""

    def look(self) -> None:
        """Look at every process below this one."""
        below = {os.getpid()}
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text("utf-8", "replace")
                except OSError:
                    continue
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
        for _ in parents:
            more = {pid for pid, parent in parents.items() if parent in below} - below
            if not more:
                break
            below |= more
        for pid in below - {os.getpid()}:
            for name in ("environ", "cmdline"):
                try:
                    self.seen[f"{pid} {name}"] = Path(f"/proc/{pid}/{name}").read_bytes()
                except OSError:
                    continue


class Ring(keyring.backend.KeyringBackend):
    """A keyring with one value."""

    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        """Return it."""
        return SECRETS["ring"] if (service, username) == ("addendum", "smtp") else None

    def set_password(self, service: str, username: str, password: str) -> None:
        """Keep nothing."""


MCP_SERVER = """
import base64, os
from mcp.server import MCPServer
server = MCPServer("echo")

@server.tool()
def echo() -> str:
    "Echo."
    return os.environ["TOKEN"] + " " + base64.b64encode(b"u:" + os.environ["TOKEN"].encode()).decode()

@server.tool()
def fail() -> str:
    "Fail."
    raise ValueError("bad token " + os.environ["TOKEN"])

server.run()
"""
AGENT = """
import base64, os, sys
token = os.environ["TOKEN"]
print(token, base64.b64encode(b"x" + token.encode()).decode())
print(token.encode().hex(), file=sys.stderr)
open("new.txt", "w").write((token + chr(10)) * 50)
"""


def echoed(got: Got) -> Give:
    """Answer with the key, spelt in many ways."""
    key = got.headers["x-key"]
    body = {
        "plain": key,
        "base64": base64.b64encode(f"user:{key}".encode()).decode(),
        "url": urllib.parse.quote(key, safe=""),
        "hex": key.encode().hex(),
        "json": json.dumps(json.dumps({"key": key})),
        f"as a key {key}": [{"deep": [key]}],
    }
    return Give(json.dumps(body).encode(), headers={"Link": f"<x?k={urllib.parse.quote(key)}>", "ETag": f'"{key}"'})


def said(body: Any) -> Any:
    """Answer with the key: in a text, and in a script with its reason."""
    if '"moves"' not in json.dumps(body):
        return f"your key: {SECRETS['env']}"
    script = f"# {SECRETS['env']}{FAILS}"
    return {"script": script, "moves": [], "drops": [], "reason": f"for {SECRETS['env']}"}


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Start everything, and work in a folder whose secrets lie elsewhere."""
    work, away = tmp_path / "work", tmp_path / "away"
    for folder in (work, away):
        folder.mkdir(mode=0o700)
    monkeypatch.chdir(work)
    monkeypatch.setenv("CANARY_ENV", SECRETS["env"])
    monkeypatch.setenv("CANARY_MCP", SECRETS["mcp"])
    (away / "key").write_text(SECRETS["file"] + "\n", "utf-8")
    (away / "key").chmod(0o600)
    repository(away / "repo")
    (away / "server.py").write_text(MCP_SERVER, "utf-8")
    before = keyring.get_keyring()
    keyring.set_keyring(Ring())
    with (
        OpenAIServer(said, key=SECRETS["env"]) as openai,
        WebServer() as web,
        MailServer(login=("me", SECRETS["ring"])) as mail,
    ):
        found = Rig(work, openai, web, mail)
        web.answers |= {
            "/echo": echoed,
            "/fail": lambda got: Give(json.dumps({"message": f"bad key {got.headers['x-key']}"}).encode(), 403),
            "/lost": lambda got: Give(f"failed with {got.headers['x-key']}".encode(), 500),
            "/file": lambda got: Give(
                b"\x00\xff" + got.headers["x-key"].encode() + b"\xff", headers={"Content-Type": "image/png"}
            ),
            "/look": lambda got: [found.look(), Give(b"1")][1],  # type: ignore[return-value]
        }
        mail.answers["RCPT b@example.com"] = f"550 no: {SECRETS['ring']}"
        (work / "services.toml").write_text(services(found, away), "utf-8")
        yield found
    keyring.set_keyring(before)


def services(rig: Rig, away: Path) -> str:
    """Return the services file: every kind, with a secret of every source."""
    model = f'model = "openai:gpt-5-mini"\nurl = "{rig.openai.url}"\nsecret = "env"\nretries = 0\n'
    shape = '{type = "object", properties = {a = {type = "string"}}, required = ["a"], additionalProperties = false}'
    return f"""
[secret]
env = "env:CANARY_ENV"
file = "file:{away}/key"
ring = "keyring:addendum/smtp"
mcp = "env:CANARY_MCP"

[author]
model = "openai:gpt-5-mini"
url = "{rig.openai.url}"
secret = "env"

[capability."text.generate"]
kind = "text"
{model}
[capability."text.form"]
kind = "structured"
output = {shape}
{model}
[capability."storyboard.plan"]
kind = "storyboard"
{model}
[capability."review.visual"]
kind = "review"
{model}
[capability."image.generate"]
kind = "image"
model = "local"
url = "{rig.openai.url}"
secret = "env"
price_usd = "0.02"

[capability."http.get"]
kind = "http"
retries = 0
[capability."http.get".hosts."{rig.web.url}"]
headers = {{ X-Key = "{{file}}" }}

[capability."http.post"]
kind = "http"
methods = ["POST"]
[capability."http.post".hosts."{rig.web.url}"]
headers = {{ X-Key = "{{file}}" }}

[capability."agent.run"]
kind = "agent"
command = [{json.dumps(sys.executable)}, "-c", {json.dumps(AGENT)}]
repository = "{away}/repo"
secrets = {{ TOKEN = "file" }}
max_diff = 40

[capability."mail.send"]
kind = "mail"
host = "127.0.0.1"
port = {rig.mail.port}
security = "none"
user = "me"
secret = "ring"
sender = "robot@example.com"
recipients = ["@example.com"]

[capability."tools"]
kind = "mcp"
command = [{json.dumps(sys.executable)}, "{away}/server.py"]
secrets = {{ TOKEN = "mcp" }}
"""


SCRIPT = """
async def orchestrate(ctx, args):
    found = []
    url = args["url"]
    steps = [
        lambda: ctx.run("text.generate", {"prompt": "a"}),
        lambda: ctx.run("text.generate", {"prompt": "chosen"}),
        lambda: ctx.run("text.form", {"prompt": "a"}),
        lambda: ctx.run("text.form", {"prompt": "chosen"}),
        lambda: ctx.run("storyboard.plan", {"brief": "chosen", "shots": 1}),
        lambda: ctx.run("image.generate", {"prompt": "a"}),
        lambda: ctx.run("image.generate", {"prompt": "chosen"}),
        lambda: ctx.run("http.get", {"url": url + "/echo"}),
        lambda: ctx.run("http.get", {"url": url + "/fail"}),
        lambda: ctx.run("http.get", {"url": url + "/lost"}),
        lambda: ctx.run("http.get", {"url": url + "/file"}),
        lambda: ctx.run("http.get", {"url": url + "/look"}),
        lambda: ctx.run("agent.run", {"task": "work"}),
        lambda: ctx.run("mail.send", {"to": "a@example.com", "subject": "s", "body": "b"}),
        lambda: ctx.run("mail.send", {"to": "b@example.com", "subject": "s", "body": "b"}),
        lambda: ctx.run("tools.echo", {}),
        lambda: ctx.run("tools.fail", {}),
    ]
    image = None
    for step in steps:
        try:
            value = await step()
            ctx.log(str(value))
            found.append(value)
        except CapabilityError as error:
            ctx.log(error.message)
            found.append({"failed": error.message})
    for name in ["a", "chosen"]:
        try:
            found.append(await ctx.run("review.visual", {"image": found[5], "criteria": name}))
        except CapabilityError as error:
            found.append({"failed": error.message})
    return found
"""
LOST = """
async def orchestrate(ctx, args):
    return await ctx.run("http.post", {"method": "POST", "url": args["url"] + "/lost"})
"""
FAILS = """
async def orchestrate(ctx, args):
    return await ctx.run("http.get", {"url": args["url"] + "/fail"})
"""


@pytest.mark.parametrize("sandbox", ["monty", "bwrap"])
def test_no_secret_is_anywhere(
    rig: Rig, sandbox: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not in the store or beside it, an output, an event, a log, a span, an export, a plan, or the sandbox."""
    if sandbox != "monty":
        need(sandbox)
    spans = exporting(monkeypatch)
    rig.openai.faults = [Fault(status=400, echo=True, when="chosen", times=10)]
    args = json.dumps({"url": rig.web.url})
    for name, source in {"all.py": SCRIPT, "lost.py": LOST, "fails.py": FAILS}.items():
        (rig.folder / name).write_text(source, "utf-8")
    settings = f'provider = "services.toml"\nsandbox = "{sandbox}"\nbackoff = 0.0\nlog = "events.log"\n'
    (rig.folder / "addendum.toml").write_text(
        f'{settings}log_level = "debug"\ntelemetry = "content"\noperator = "tester"\n', "utf-8"
    )

    codes = {}
    for command in (
        "catalog pin tools --yes",
        "catalog show",
        f"run all.py --id all --args '{args}'",
        f"run lost.py --id lost --args '{args}' --json",
        f"run fails.py --id fails --args '{args}'",
        "resume lost --json",
        "repair fails --show-brief",
        "repair fails --show-brief --json",
        "repair fails --max-attempts 1 --json",
        "repair fails --max-attempts 1",
        "author 'call it' --max-attempts 1 --id written --json",
        *(f"{each} {run}" for run in ("all", "lost", "fails", "written") for each in LOOKS),
        "plan fails all.py --json",
        "plan fails all.py",
        "artifact list --json",
        "runs --json",
    ):
        codes[command] = main(shlex.split(command))
    output = capsys.readouterr()

    assert codes[f"run all.py --id all --args '{args}'"] == 0, output.err
    assert codes[f"run lost.py --id lost --args '{args}' --json"] == 4, output.out
    found = {"stdout": output.out.encode(), "stderr": output.err.encode(), "spans": spans().encode()}
    found |= {str(path): path.read_bytes() for path in rig.folder.rglob("*") if path.is_file()}
    found |= rig.seen
    assert {name: leaks(data) for name, data in found.items() if leaks(data)} == {}
    assert "# [secret env]" in output.out, "the script that the model wrote"
    everybody_was_asked(rig, output.out)


LOOKS = (
    "show",
    "show --json",
    "attempts",
    "attempts --json",
    "certificate --json",
    "certificate --verify",
    "meters --json",
    "diff --json",
)


def everybody_was_asked(rig: Rig, output: str) -> None:
    """Check that every service had its secret and gave it away, so that the test tests something."""
    said = set(re.findall(r"\[secret (\w+)\]", output))
    assert said == set(SECRETS)
    assert rig.seen, "no process was looked at"
    assert rig.web.got[0].headers["x-key"] == SECRETS["file"]
    assert rig.mail.logins[0] == ("me", SECRETS["ring"])
    assert [mail.recipients for mail in rig.mail.mails] == [("a@example.com",)]
    for path in ("chat", "images"):
        assert [each for each in rig.openai.requests if path in each.path or "responses" in each.path]
    kept = {path.read_bytes() for path in (rig.folder / ".addendum" / "artifacts").rglob("*") if path.is_file()}
    assert [data for data in kept if b"[secret file]" in data and data.startswith(b"\x00\xff")], "the echoed file"
    assert [data for data in kept if b"[secret file]" in data and data.startswith(b"diff ")], "the agent's patch"


def exporting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Collect spans; return what returns all of them as text."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "get_tracer", lambda *a, **k: provider.get_tracer("addendum"))
    return lambda: "".join(span.to_json() for span in memory.get_finished_spans())


def test_a_tool_that_is_defined_by_a_secret(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """An MCP server that puts its secret into what it says of its tools isn't pinned, and nothing of it is kept."""
    described = MCP_SERVER.replace("tool()", 'tool(description="Use it with " + os.environ["TOKEN"])', 1)
    (rig.folder.parent / "away" / "server.py").write_text(described, "utf-8")
    (rig.folder / "addendum.toml").write_text('provider = "services.toml"\n', "utf-8")
    assert main(["catalog", "pin", "tools", "--yes"]) == 2
    output = capsys.readouterr()
    assert "puts a secret into the definition" in output.err
    assert leaks((output.out + output.err).encode()) == []
    assert not list(rig.folder.glob("*.pins.json"))


def test_leaks_are_found() -> None:
    """What this test looks for is found, however it is spelt and whatever stands around it."""
    for name, secret in SECRETS.items():
        for around in ("", "u:", "us:", "use:"):
            data = f"{around}{secret}!".encode()
            for text in (data, base64.b64encode(data), data.hex().encode(), urllib.parse.quote(data).encode()):
                assert leaks(b"... " + text + b" ...") == [name]
    assert leaks(b"[secret env]") == []
