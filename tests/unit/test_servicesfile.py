"""The services file: what it takes, and that every error names the place and the way out, and shows no secret."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from addendum import wiring
from addendum.config import Settings
from addendum.errors import ConfigError, NotFound, StoreUnavailable, UsageError
from addendum.servicesfile import ServicesFile, is_named

SECRET = "sk-live-0123456789-never-shown"


def read(tmp_path: Path, text: str) -> ServicesFile:
    """Read a services file with the kinds that there are."""
    path = tmp_path / "services.toml"
    path.write_text(text, "utf-8")
    return wiring.services(path)


def test_a_file_becomes_specifications(tmp_path: Path) -> None:
    """Each capability has its kind's own class, paths are relative to the file, and secrets are places."""
    found = read(
        tmp_path,
        """
[secret]
openai = "env:OPENAI_API_KEY"
[author]
model = "openai:gpt-5-mini"
secret = "openai"
[capability."text.generate"]
kind = "text"
model = "openai:gpt-5-mini"
secret = "openai"
timeout = 60
""",
    )
    assert found.folder == tmp_path
    assert found.secrets == {"openai": "env:OPENAI_API_KEY"}
    assert found.author is not None
    assert found.author.max_tokens == 16_000
    assert found.capabilities["text.generate"].timeout == 60


def test_an_empty_file_offers_a_person_only(tmp_path: Path) -> None:
    """`human.approve` is always there."""
    (tmp_path / "services.toml").write_text("", "utf-8")
    provider, catalog = wiring.open_provider(str(tmp_path / "services.toml"))
    wiring.shut(provider)
    assert list(catalog) == ["human.approve"]


SCRIPTED = '[capability."a.b"]\nkind = "text"\nmodel = "scripted:answers.json"\n'
TEXT = '[capability."a.b"]\nkind = "text"\nmodel = "openai:gpt-5-mini"\n'


@pytest.mark.parametrize(
    ("text", "says", "way"),
    [
        ("x = [", "is no TOML", "services.md"),
        ("[secrets]\n", "'secrets'", "Did you mean 'secret'?"),
        ("secret = 1\n", "[secret] has to be a table", "services.md"),
        ("[secret]\na = 1\n", "secret.a is no text", "env:NAME"),
        ("[author]\n", "author.model is missing", "services.md"),
        ('[author]\nmodel = "openai:x"\nmodell = "y"\n', "author has no key 'modell'", "Did you mean 'model'?"),
        ('[author]\nmodel = "openai:x"\nsecret = "none"\n', "names a secret that isn't there: 'none'", "[secret]"),
        ("capability = 1\n", "[capability] has to be a table", "services.md"),
        ('[capability]\n"a.b" = 1\n', '[capability."a.b"] has to be a table', "services.md"),
        ('[capability."a.b"]\n', "doesn't say its kind", "text"),
        ('[capability."a.b"]\nkind = "imge"\n', "has a kind that isn't there: 'imge'", "Did you mean 'image'?"),
        ('[capability."a.b"]\nkind = 7\n', "has a kind that isn't there: 7", "The kinds are agent"),
        ('[capability."a.b"]\nkind = "text"\n', 'capability."a.b".model is missing', "services.md"),
        (TEXT + "max_token = 5\n", "has no key 'max_token'", "Did you mean 'max_tokens'?"),
        (TEXT + 'max_tokens = "5"\n', 'capability."a.b".max_tokens is wrong', "services.md"),
        (TEXT + "max_tokens = 0\n", 'capability."a.b".max_tokens is wrong', "services.md"),
        (TEXT + 'effect = "harmless"\n', 'capability."a.b".effect is wrong', "services.md"),
        (TEXT + "price_usd = 0.05\n", 'capability."a.b".price_usd is wrong: it has to be text', 'price_usd = "0.04"'),
        (TEXT + "system = 5\n", 'capability."a.b".system is wrong: it has to be text', "services.md"),
        (TEXT + 'price_usd = "cheap"\n', 'capability."a.b".price_usd is wrong', "services.md"),
        (TEXT + 'secret = "openai"\n', "names a secret that isn't there: 'openai'", "[secret]"),
        (
            '[capability."a.b"]\nkind = "image"\nmodel = "m"\nextra = {n = 4}\n',
            "n isn't set here: one image for one call",
            "services.md",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_the_way_out(tmp_path: Path, text: str, says: str, way: str) -> None:
    """One error at a time, in the words of the file."""
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert says in caught.value.message
    assert way in caught.value.hint
    assert "services.toml" in caught.value.message


# Each kind that sends something to an address, and whatever of it is secret; ORIGIN is put in.
SENDING = {
    "author": '[author]\nmodel = "openai:m"\nurl = "ORIGIN/v1"\nsecret = "key"\n',
    **{
        kind: f'[capability."a.b"]\nkind = "{kind}"\nmodel = "openai:m"\nurl = "ORIGIN/v1"\nsecret = "key"\n'
        for kind in ("text", "review", "storyboard", "image")
    },
    "structured": '[capability."a.b"]\nkind = "structured"\nmodel = "openai:m"\nurl = "ORIGIN/v1"\nsecret = "key"\n'
    "output = {}\n",
    "header": '[capability."a.b"]\nkind = "http"\nhosts."ORIGIN" = {headers = {X-Key = "Bearer {key}"}}\n',
    "login": '[capability."a.b"]\nkind = "http"\nhosts."ORIGIN" = {basic = {user = "me", secret = "key"}}\n',
    "mcp": '[capability."a.b"]\nkind = "mcp"\nurl = "ORIGIN/mcp"\nsecret = "key"\n',
    "mcp header": '[capability."a.b"]\nkind = "mcp"\nurl = "ORIGIN/mcp"\nheaders = {X-Key = "key"}\n',
}
HELD = '[secret]\nkey = "env:KEY"\n'


@pytest.mark.parametrize("origin", ["http://api.example.com", "HTTP://192.168.0.7:8080", "http://[fd00::1]"])
@pytest.mark.parametrize("table", SENDING.values(), ids=SENDING)
def test_no_secret_goes_to_another_machine_in_clear_text(tmp_path: Path, table: str, origin: str) -> None:
    """The file says so when it is read, with the place and the ways out, for every kind that sends to an address."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, HELD + table.replace("ORIGIN", origin))
    where = "author" if table.startswith("[author]") else 'capability."a.b"'
    assert f"services.toml, {where} would send a secret over http:// to another machine" in caught.value.message
    assert "Write https://, or send no secret there" in caught.value.hint
    assert str(caught.value.facts["place"]).startswith(where)


@pytest.mark.parametrize(
    "origin", ["https://api.example.com", "http://localhost:1", "http://127.8.0.1", "http://[::1]"]
)
@pytest.mark.parametrize("table", SENDING.values(), ids=SENDING)
def test_a_secret_goes_over_tls_or_to_this_machine(tmp_path: Path, table: str, origin: str) -> None:
    """Nothing is on the way to a loopback address; anything that is on another way reads nothing under TLS."""
    assert read(tmp_path, HELD + table.replace("ORIGIN", origin)).secrets == {"key": "env:KEY"}


def test_without_a_secret_an_address_may_be_plain(tmp_path: Path) -> None:
    """What is refused is the secret. In one service, an origin without one may be plain beside one that has one."""
    hosts = 'hosts."http://api.example.com" = {}\nhosts."https://api.example.com" = {headers = {X = "{key}"}}\n'
    model = '[capability."c.d"]\nkind = "text"\nmodel = "openai:m"\nurl = "http://api.example.com"\n'
    found = read(tmp_path, f'{HELD}[capability."a.b"]\nkind = "http"\n{hosts}{model}')
    assert list(found.capabilities) == ["a.b", "c.d"]


@pytest.mark.parametrize(
    "text",
    [
        f'[secret]\nopenai = "{SECRET}"\n',
        f'[secret]\nopenai = "env:X"\n{TEXT}secret = "{SECRET}"\n',
        f'[author]\nmodel = "openai:x"\nsecret = "{SECRET}"\n',
        f'{TEXT}max_tokens = "{SECRET}"\n',
        f'{TEXT}price_usd = "{SECRET}"\n',
        f'[capability."a.b"]\nkind = "http"\nhosts."https://me:{SECRET}@api.example.com" = {{}}\n',
        f'[capability."a.b"]\nkind = "http"\nhosts."https://api.example.com/?key={SECRET}" = {{}}\n',
        f'[capability."a.b"]\nkind = "http"\nhosts."https://me:{SECRET}@api.example.com" = {{paths = 7}}\n',
        f'[capability."a.b"]\nkind = "image"\nmodel = "m"\nprice_usd = "1"\nurl = "https://me:{SECRET}@example.com"\n',
        f'[capability."a.b"]\nkind = "{SECRET}"\n',
    ],
)
def test_a_key_that_was_written_into_the_file_is_not_repeated(tmp_path: Path, text: str) -> None:
    """Where a handle, a place or a number belongs, somebody pastes the key itself: the error doesn't show it."""
    (tmp_path / "services.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        wiring.open_provider(str(tmp_path / "services.toml"))
    assert SECRET not in str(caught.value)
    assert SECRET not in str(caught.value.facts)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Not there, no text, too large: each is an error with a way out."""
    with pytest.raises(NotFound, match="There is no services file"):
        wiring.services(tmp_path / "services.toml")
    (tmp_path / "services.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="it is no text in UTF-8"):
        wiring.services(tmp_path / "services.toml")
    (tmp_path / "services.toml").write_bytes(b"#" * 300_000)
    with pytest.raises(UsageError, match="has more than"):
        wiring.services(tmp_path / "services.toml")


def test_a_provider_is_a_services_file_by_its_name() -> None:
    """`.toml` tells it from a module and its App."""
    assert is_named("services.toml")
    assert not is_named("services:app")
    assert not is_named("demo")


def test_no_value_of_a_secret_is_needed_for_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check`, `plan` and `catalog show` work where no key is set; prices come from the price list."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    pytest.importorskip("pydantic_ai")
    path = tmp_path / "services.toml"
    path.write_text('[secret]\nopenai = "env:OPENAI_API_KEY"\n' + TEXT + 'secret = "openai"\n', "utf-8")
    provider, catalog = wiring.open_provider(str(path))
    wiring.shut(provider)
    assert catalog["a.b"].reserve > 0
    assert catalog["a.b"].most_tokens is not None


def test_a_price_that_nobody_knows_has_to_be_said(tmp_path: Path) -> None:
    """Without one nothing could be reserved."""
    pytest.importorskip("pydantic_ai")
    path = tmp_path / "services.toml"
    path.write_text('[capability."a.b"]\nkind = "image"\nmodel = "m"\n', "utf-8")
    with pytest.raises(ConfigError, match=r"Nobody knows what an image of a\.b costs"):
        wiring.open_provider(str(path))


@pytest.mark.parametrize(("package", "kind"), [("openai", "image"), ("pydantic_ai", "text")])
def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, kind: str) -> None:
    """The base install reads the file, and says what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / "services.toml"
    path.write_text(f'[capability."a.b"]\nkind = "{kind}"\nmodel = "openai:m"\nprice_usd = "0.02"\n', "utf-8")
    assert wiring.services(path).capabilities
    with pytest.raises(ConfigError, match="isn't installed") as caught:
        wiring.open_provider(str(path))
    assert "addendum[models]" in caught.value.hint


def test_what_was_opened_is_closed_when_another_service_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error leaves nothing running."""
    from addendum.providers import text

    closed: list[str] = []
    monkeypatch.setattr(text.Text, "close", lambda self: _note(closed))
    (tmp_path / "answers.json").write_text("[]", "utf-8")
    bad = '[capability."c.d"]\nkind = "image"\nmodel = "m"\n'
    (tmp_path / "services.toml").write_text(SCRIPTED + bad, "utf-8")
    with pytest.raises(ConfigError):
        wiring.open_provider(str(tmp_path / "services.toml"))
    assert closed == ["closed"]


@pytest.mark.parametrize("broken", ["catalog", "store", "sandbox"])
def test_services_are_closed_when_what_they_are_for_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Whichever part it is."""
    from addendum.providers import text

    closed: list[str] = []
    monkeypatch.setattr(text.Text, "close", lambda self: _note(closed))
    (tmp_path / "answers.json").write_text("[]", "utf-8")
    (tmp_path / "services.toml").write_text(SCRIPTED, "utf-8")
    parts = {"store": str(tmp_path / "store.db"), broken: "none://none.toml"}
    with pytest.raises(UsageError):
        wiring.open_context(Settings(provider=str(tmp_path / "services.toml"), **parts))
    assert closed == ["closed"]


def test_each_part_is_closed_whatever_becomes_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that can't be closed leaves no service open and no store."""
    from addendum.providers import text

    closed: list[str] = []
    monkeypatch.setattr(text.Text, "close", lambda self: _note(closed))
    (tmp_path / "answers.json").write_text("[]", "utf-8")
    (tmp_path / "services.toml").write_text(SCRIPTED, "utf-8")
    settings = Settings(provider=str(tmp_path / "services.toml"), store=str(tmp_path / "store.db"))
    context = wiring.open_context(settings)
    monkeypatch.setattr(type(context.sandbox), "close", lambda self: pytest.fail("it hangs"))
    with pytest.raises(pytest.fail.Exception, match="it hangs"):
        wiring.shut_context(context)
    assert closed == ["closed"]
    with pytest.raises(StoreUnavailable):
        context.store.runs()


async def _note(closed: list[str]) -> None:
    closed.append("closed")
