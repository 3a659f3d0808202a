"""Secrets: where they are read from, what they never show, and how they are taken out of what comes back."""

from __future__ import annotations

import base64
import copy
import html
import json
import os
import pickle
import sys
import traceback
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.backend
import keyring.backends.fail
import keyring.errors
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addendum.credentials import Credentials, Secret
from addendum.errors import ConfigError

VALUE = 'sk-CANARY+/=ü&<"\\ 7f3a'


def one(source: str, folder: Path = Path("."), **environ: str) -> Credentials:
    """Return credentials with the one handle `key`."""
    return Credentials({"key": source}, folder, environ)


def held(value: str = VALUE) -> Credentials:
    """Return credentials that have read a value."""
    found = one("env:KEY", KEY=value)
    found.get("key")
    return found


class Memory(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.error: Exception | None = None

    def get_password(self, service: str, username: str) -> str | None:
        """Return what was set."""
        if self.error is not None:
            raise self.error
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        """Keep a value."""
        self.kept[service, username] = password


@pytest.fixture
def ring() -> Iterator[Memory]:
    """Put a keyring in the system's place."""
    before = keyring.get_keyring()
    found = Memory()
    keyring.set_keyring(found)
    yield found
    keyring.set_keyring(before)


# --- sources ----------------------------------------------------------------------------------------------------


def test_from_the_environment() -> None:
    """A variable is read when it is asked for, and one that isn't there is an error that names it."""
    environ: dict[str, str] = {}
    found = Credentials({"key": "env:KEY"}, Path("."), environ)
    with pytest.raises(ConfigError, match=r"no KEY\. Set KEY"):
        found.get("key")
    environ["KEY"] = VALUE
    assert found.get("key").reveal() == VALUE
    assert found.get("key") is found.get("key")


def test_from_a_file(tmp_path: Path) -> None:
    """A file of this user that nobody else may read is read, relative to a folder, without its last newline."""
    path = tmp_path / "keys" / "openai"
    path.parent.mkdir(mode=0o700)
    path.write_text(VALUE + "\n", "utf-8")
    path.chmod(0o600)
    assert one("file:keys/openai", tmp_path).get("key").reveal() == VALUE
    assert one(f"file:{path}").get("key").reveal() == VALUE


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_file_that_others_may_read(tmp_path: Path, mode: int) -> None:
    """Any bit for group or others is refused, with the command that takes it away."""
    path = tmp_path / "key"
    path.write_text(VALUE)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=r"others may read it .* chmod 600"):
        one("file:key", tmp_path).get("key")


def test_file_by_a_trick(tmp_path: Path) -> None:
    """What somebody could slip in for the file isn't read: a link, a second name of another file, a pipe, a folder."""
    private = tmp_path / "id_rsa"
    private.write_text(VALUE)
    private.chmod(0o600)
    (tmp_path / "link").symlink_to(private)
    (tmp_path / "hard").hardlink_to(private)
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name, why in (
        ("link", "symbolic link"),
        ("hard", "second name"),
        ("pipe", "no regular file"),
        ("folder", "no regular file"),
        ("none", "no such file"),
        ("none/none", "no such file"),
    ):
        with pytest.raises(ConfigError, match=why) as caught:
            one(f"file:{name}", tmp_path).get("key")
        assert VALUE not in str(caught.value)


def test_file_in_a_folder_of_everybody(tmp_path: Path) -> None:
    """A folder that others may write to is refused, unless only its owners may rename what is in it."""
    folder = tmp_path / "open"
    folder.mkdir()
    (folder / "key").write_text(VALUE)
    (folder / "key").chmod(0o600)
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match=r"another file in its place\. Run: chmod go-w"):
        one("file:open/key", tmp_path).get("key")
    folder.chmod(0o1777)
    assert one("file:open/key", tmp_path).get("key").reveal() == VALUE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_file_of_another_user(tmp_path: Path) -> None:
    """A file or a folder of another user is refused."""
    path = tmp_path / "key"
    path.write_text(VALUE)
    path.chmod(0o600)
    os.chown(path, 65534, 65534)
    with pytest.raises(ConfigError, match="another user"):
        one("file:key", tmp_path).get("key")
    os.chown(path, 0, 0)
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(ConfigError, match="folder of your own"):
        one("file:key", tmp_path).get("key")


def test_file_that_is_no_text(tmp_path: Path) -> None:
    """Bytes that aren't UTF-8 are refused without being shown."""
    path = tmp_path / "key"
    path.write_bytes(b"\xff\xfesecret")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="UTF-8") as caught:
        one("file:key", tmp_path).get("key")
    assert "secret\\" not in str(caught.value)


def test_from_the_keyring(ring: Memory) -> None:
    """A keyring's entry is read; one that isn't there is an error with the command that sets it."""
    keyring.set_password("addendum", "openai", VALUE)
    assert one("keyring:addendum/openai").get("key").reveal() == VALUE
    with pytest.raises(ConfigError, match="keyring set addendum other"):
        one("keyring:addendum/other").get("key")


def test_keyring_that_fails(ring: Memory) -> None:
    """Whatever a backend raises is an error with a way out, and none of its text is in it."""
    for error, why in (
        (keyring.errors.NoKeyringError(VALUE), "no keyring"),
        (keyring.errors.KeyringLocked(VALUE), "locked"),
        (RuntimeError(VALUE), "RuntimeError"),
    ):
        ring.error = error
        with pytest.raises(ConfigError, match=why) as caught:
            one("keyring:addendum/openai").get("key")
        assert VALUE not in "".join(traceback.format_exception(caught.value))


def test_no_backend() -> None:
    """A machine without a keyring says so."""
    before = keyring.get_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())
    try:
        with pytest.raises(ConfigError, match="this machine has no keyring"):
            one("keyring:addendum/openai").get("key")
    finally:
        keyring.set_keyring(before)


def test_no_keyring_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the error names it."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"addendum\[keyring\]"):
        one("keyring:addendum/openai").get("key")


@pytest.mark.parametrize("source", [VALUE, "", "env:", "file:", "keyring:x", "keyring:/x", "keyring:x/", "vault:x"])
def test_source_that_is_none(source: str) -> None:
    """A source of no known kind is refused without being shown: it may be the value, in the wrong place."""
    with pytest.raises(ConfigError, match="where it lies") as caught:
        Credentials({"key": source}, Path("."), {})
    assert not source or source not in str(caught.value).replace("file:PATH", "").replace("env:NAME", "")


def test_handle_that_is_none_or_unknown() -> None:
    """A handle is a word; one that isn't named is an error that lists those that are."""
    with pytest.raises(ConfigError, match="no handle"):
        Credentials({"a b": "env:X"}, Path("."), {})
    with pytest.raises(ConfigError, match="there is key"):
        one("env:KEY").get("other")


@pytest.mark.parametrize("value", ["2shrt", "x" * 20000])
def test_length(value: str) -> None:
    """A value that would stand in texts by chance is refused, and one that is too long to be a secret."""
    with pytest.raises(ConfigError, match="characters") as caught:
        one("env:KEY", KEY=value).get("key")
    assert value not in str(caught.value)


# --- what is never shown ----------------------------------------------------------------------------------------


def test_nothing_shows_the_value() -> None:
    """No text form, pickle, copy, JSON or comparison of a secret or its credentials has the value."""
    found = held()
    secret = found.get("key")
    assert [repr(secret), str(secret), f"{secret:>12}"] == ["Secret(key)", "Secret(key)", " Secret(key)"]
    assert VALUE not in repr(found) + repr(vars(found)["_read"])
    for thing in (secret, found):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="pickled"):
                pickle.dumps(thing, protocol)
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError):
        secret.__getstate__()
    with pytest.raises(AttributeError):
        secret.handle = "other"
    assert secret != VALUE
    assert secret != Secret("key", VALUE)
    assert copy.copy(secret) is secret
    assert copy.deepcopy({"a": secret})["a"] is secret
    assert not hasattr(secret, "__dict__")


def test_traceback_with_locals() -> None:
    """A traceback that shows the locals of each frame doesn't show the value."""

    def client(secret: Secret, found: Credentials) -> None:
        raise RuntimeError("refused")

    found = held("sk-CANARY-7f3a")
    try:
        client(found.get("key"), found)
    except RuntimeError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "Secret(key)" in shown
    assert not [line for line in shown.splitlines() if "CANARY" in line and "held(" not in line]


# --- redaction --------------------------------------------------------------------------------------------------


def units(value: str) -> list[bytes]:
    """Return a text's UTF-16 units."""
    data = value.encode("utf-16-be")
    return [data[i : i + 2] for i in range(0, len(data), 2)]


SPELLINGS = {
    "as it is": lambda v: v,
    "percent": lambda v: urllib.parse.quote(v, safe=""),
    "percent, lower case": lambda v: "".join(f"%{byte:02x}" for byte in v.encode()),
    "percent twice": lambda v: urllib.parse.quote(urllib.parse.quote(v, safe=""), safe=""),
    "form": urllib.parse.quote_plus,
    "JSON": lambda v: json.dumps(v)[1:-1],
    "JSON, letters kept": lambda v: json.dumps(v, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda v: json.dumps(json.dumps(v)[1:-1])[1:-1],
    "JSON, all escaped": lambda v: "".join(f"\\u{unit.hex().upper()}" for unit in units(v)),
    "HTML": html.escape,
    "HTML, all escaped": lambda v: "".join(f"&#{ord(c)};" for c in v),
    "Python": lambda v: repr(v)[1:-1],
    "Python, ASCII": lambda v: ascii(v)[1:-1],
    "hexadecimal": lambda v: v.encode().hex(),
    "hexadecimal, upper case": lambda v: v.encode().hex(":").upper(),
}
ENCODED = {
    "base64": base64.b64encode,
    "base64 for URLs": base64.urlsafe_b64encode,
    "base64 in lines": lambda data: base64.encodebytes(b"-" * 50 + data),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str) -> None:
    """However a server spells the value, it is taken out and the rest stays."""
    assert held().redact(f"before {SPELLINGS[name](VALUE)} after") == "before [secret key] after"


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("user", ["", "u:", "us:", "use:"])
def test_base64_at_any_offset(name: str, user: str) -> None:
    """A login in base64 has no letter left of the value, whatever stands before and after it."""
    for after in ("", "!", "!!", "!!!"):
        text = ENCODED[name](f"{user}{VALUE}{after}".encode()).decode()
        left = held().redact(f"Basic {text}")
        assert "[secret key]" in left
        assert "CANARY" not in left
        rest = left.replace("Basic ", "").replace("[secret key]", "").strip()
        assert len(rest) <= 4 * (50 + len(user) + len(after)) // 3 + 4 if "lines" in name else len(rest) <= 8


@pytest.mark.parametrize("name", [*SPELLINGS, "base64", "base64 for URLs"])
@pytest.mark.parametrize("after", ["", "…", "...", '"', "')]"])
def test_cut_off(name: str, after: str) -> None:
    """A value that was cut at the end of a text is taken out as far as it is there."""
    found = held()
    whole = SPELLINGS[name](VALUE) if name in SPELLINGS else ENCODED[name](VALUE.encode()).decode()
    for end in range(len(whole) * 2 // 3, len(whole)):
        left = found.redact(f"invalid key {whole[:end]}{after}")
        assert left.startswith("invalid key ")
        assert "[secret key]" in left
        assert "CANARY" not in left
        assert whole[:6] not in left


def test_not_cut_off() -> None:
    """A few letters that a value happens to begin with stay, and so does a beginning in the middle of a text."""
    assert held().redact("a key is like sk-C") == "a key is like sk-C"
    assert held().redact("sk-CANARY is how it begins") == "sk-CANARY is how it begins"
    assert held().redact("") == ""


@pytest.mark.slow
def test_a_long_token() -> None:
    """A long token is found as a whole, and so is one that was cut off anywhere."""
    token = "eyJ" + "".join(f"{n:04x}-." for n in range(150))
    found = held(token)
    for text in (token, json.dumps(token)[1:-1], urllib.parse.quote(token), base64.b64encode(token.encode()).decode()):
        assert found.redact(f"<{text}>").startswith("<[secret key]")
        assert len(found.redact(f"<{text}>")) < 20
        for end in (60, len(text) // 2, len(text) - 1):
            assert found.redact(f"<{text[:end]}") == "<[secret key]"


def test_longest_first() -> None:
    """A value that contains another one is replaced as a whole."""
    found = Credentials({"a": "env:A", "b": "env:B"}, Path("."), {"A": "canary", "B": "canary-and-more"})
    found.get("a")
    found.get("b")
    assert found.redact("canary-and-more, canary") == "[secret b], [secret a]"


def test_value_of_json() -> None:
    """Texts, keys and numbers of a value are redacted at any depth; what has nothing to hide stays what it is."""
    found = held("123456")
    value = {"a": ["x 123456", {"123456": 123456}], "n": 1.5, "t": True, "none": None, "big": 91234567}
    assert found.redact_value(value) == {
        "a": ["x [secret key]", {"[secret key]": "[secret key]"}],
        "n": 1.5,
        "t": True,
        "none": None,
        "big": "9[secret key]7",
    }
    assert one("env:KEY").redact_value(value) is value


def test_bytes() -> None:
    """Bytes are redacted in place."""
    assert held().redact_bytes(b"\xff" + VALUE.encode() + b"\xfe") == b"\xff[secret key]\xfe"
    assert one("env:KEY").redact_bytes(b"\xff") == b"\xff"


def test_what_was_not_read_is_not_searched() -> None:
    """A value that nobody asked for isn't known, and costs nothing."""
    assert one("env:KEY", KEY=VALUE).redact(VALUE) == VALUE


@pytest.mark.slow
@settings(max_examples=60)
@given(st.text(min_size=6, max_size=40).filter(lambda t: len(set(t)) > 3), st.sampled_from(sorted(SPELLINGS)))
def test_any_value(value: str, name: str) -> None:
    """For any value, none of its spellings passes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return
    spelt = SPELLINGS[name](value)
    assert held(value).redact(f"<<{spelt}>>") == "<<[secret key]>>"
