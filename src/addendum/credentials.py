"""Secrets by handle: where a value lies is configured, the value itself is read when it is needed and goes nowhere else
(DESIGN section 11).

    handle ─ Credentials.get ─ Secret ─ reveal() ─ a header, a login, a variable of a command
                    │
                    └─ redact(): whatever comes back from outside has every value that was read taken out again

A value has many spellings. What comes back is searched for all those that servers, libraries and shells use: as it is,
percent-encoded, escaped as in JSON, HTML or Python, in hexadecimal digits, and in base64 at any offset (a login is
`base64(user:password)`). A value that was cut off at the end of a text is found by its beginning. What no search finds
is one that was encrypted, hashed or taken apart: cut after redacting.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Never, NoReturn
from urllib.parse import urlsplit

from addendum.canon import Json
from addendum.errors import ConfigError

SHORTEST: Final = 6
"""Characters. A shorter value would stand in texts by chance, so that it couldn't be taken out of them."""
LONGEST: Final = 16 * 1024
_SOURCES: Final = ("env", "file", "keyring")
_HANDLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without NONBLOCK, a pipe in the file's place would be waited for."""


def here(host: str) -> bool:
    """Whether a host is this machine, as it is written (an IPv6 address without brackets): `localhost`, or an address
    of 127.0.0.0/8 or ::1. A name is never looked up: who answers for it could say otherwise the next time."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # Python judges IPv4 addresses that are written as IPv6 from 3.13 on only.
    return ((address.version == 6 and address.ipv4_mapped) or address).is_loopback


def in_clear(url: str) -> bool:
    """Whether what is sent to an address can be read on the way: `http://` to another machine. An address that can't be
    read is for its own check to refuse."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and not here(parts.hostname or "")
    except ValueError:
        return False


class InClear(ValueError):
    """A secret would be sent where it can be read on its way. `key` says where the address stands in its table."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"it would send a secret over http:// to another machine, where anybody on the way can read it ({key})"
        )
        self.key = key


def guard(sends: Iterable[tuple[str, str]]) -> None:
    """Check the addresses that secrets are sent to, each behind its key. Raises `InClear`."""
    for key, url in sends:
        if in_clear(url):
            raise InClear(key)


class Secret:
    """A value that can be had by `reveal()` only. It shows its handle, equals nothing but itself, and can neither be
    pickled nor written as JSON."""

    __slots__ = ("__value", "handle")

    handle: str
    __value: str

    def __init__(self, handle: str, value: str) -> None:
        object.__setattr__(self, "handle", handle)
        object.__setattr__(self, "_Secret__value", value)

    def reveal(self) -> str:
        """Return the value. Put it where it has to go, and into no variable that outlives that."""
        return self.__value

    def __repr__(self) -> str:
        return f"Secret({self.handle})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret doesn't change")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("a Secret can't be pickled")

    def __getstate__(self) -> Never:
        raise TypeError("a Secret has no state to show")


class _Later(Secret):
    """A secret that is read when it is revealed for the first time."""

    __slots__ = ("__get",)

    __get: Callable[[], Secret]

    def __init__(self, handle: str, get: Callable[[], Secret]) -> None:
        super().__init__(handle, "")
        object.__setattr__(self, "_Later__get", get)

    def reveal(self) -> str:
        """Return the value. Raises `ConfigError` when it can't be read."""
        return self.__get().reveal()


class Credentials:
    """The secrets of one services file. `handles` maps each handle to its source: `env:NAME`, `file:PATH` (relative to
    `folder`), `keyring:SERVICE/USER`. Safe to use from any thread.

    Raises `ConfigError` for a source that can't be one.
    """

    def __init__(self, handles: Mapping[str, str], folder: Path, environ: Mapping[str, str]) -> None:
        for handle, source in handles.items():
            _check(handle, source)
        self._handles = dict(handles)
        self._folder = folder
        self._environ = environ
        self._lock = threading.Lock()
        self._read: dict[str, Secret] = {}
        self._patterns: dict[str, Spelt] = {}
        self._raw: dict[str, Spelt] = {}

    def __repr__(self) -> str:
        return f"Credentials({', '.join(sorted(self._handles))})"

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("Credentials can't be pickled")

    def get(self, handle: str) -> Secret:
        """Return a secret, read now if it wasn't yet. Raises `ConfigError` that says how to put it there."""
        with self._lock:
            if handle not in self._read:
                self._read[handle] = self._fetch(handle)
            return self._read[handle]

    def later(self, handle: str) -> Secret:
        """Return a secret that is read when it is revealed: a catalog can be shown where no secret is. Raises
        `ConfigError` for a handle that isn't there."""
        if handle not in self._handles:
            return self.get(handle)
        return _Later(handle, lambda: self.get(handle))

    def redact(self, text: str) -> str:
        """Return a text with every value that was read replaced by `[secret HANDLE]`, however it is spelt."""
        return _replaced(text, self._patterns)

    def redact_value(self, value: Json) -> Json:
        """Return a JSON value with every text and key of it redacted, and numbers that are a value replaced by text."""
        if not self._patterns:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {self.redact(key): self.redact_value(v) for key, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_value(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            said = repr(value)
            cleaned = self.redact(said)
            return value if cleaned == said else cleaned
        return value

    def redact_bytes(self, data: bytes) -> bytes:
        """Return bytes with every value that was read replaced."""
        if not self._raw:
            return data
        return _replaced(data.decode("latin-1"), self._raw).encode("latin-1")

    def _fetch(self, handle: str) -> Secret:
        source = self._handles.get(handle)
        if source is None:
            known = ", ".join(sorted(self._handles)) or "none"
            raise ConfigError(
                f"There is no secret {handle!r}.",
                hint=f"Name it under [secret] in the services file; there is {known}.",
            )
        kind, _, rest = source.partition(":")
        if kind == "env":
            value = self._environ.get(rest, "")
            if not value:
                raise ConfigError(
                    f"The secret {handle} isn't there: the environment has no {rest}.",
                    hint=f"Set {rest} and try again.",
                )
        elif kind == "file":
            value = _from_file(handle, self._folder / rest)
        else:
            value = _from_keyring(handle, rest)
        if not SHORTEST <= len(value) <= LONGEST:
            raise ConfigError(
                f"The secret {handle} from {source} has {len(value)} characters.",
                hint=f"A secret has {SHORTEST} to {LONGEST:,}: a shorter one can't be kept out of logs and errors.",
            )
        # The longest is replaced first: a value may contain another one.
        spelt, raw = Spelt.of(value), value.encode("utf-8", "surrogateescape").decode("latin-1")
        self._patterns = _with(self._patterns, handle, spelt)
        self._raw = _with(self._raw, handle, spelt if raw == value else Spelt.of(raw))
        return Secret(handle, value)


# --- sources ----------------------------------------------------------------------------------------------------


def _check(handle: str, source: str) -> None:
    if not _HANDLE.fullmatch(handle):
        raise ConfigError(f"{handle!r} is no handle of a secret.", hint="Use letters, digits, dots and dashes.")
    kind, colon, rest = source.partition(":")
    if not colon or kind not in _SOURCES or not rest or (kind == "keyring" and not all(rest.partition("/"))):
        # The text isn't shown: it may be the value itself, written into the wrong place.
        raise ConfigError(
            f"The secret {handle} doesn't say where it lies.",
            hint="Write env:NAME, file:PATH or keyring:SERVICE/USER; never the value itself.",
        )


def _from_file(handle: str, path: Path) -> str:
    """Read a secret's file. Whoever could put another file in its place could have any file of this user sent out as a
    secret, so the folder counts too, and so does a second name of the file."""
    folder = os.path.realpath(path.parent)
    try:
        above = os.open(folder, _FOLDER)
    except OSError as error:
        raise _unreadable(handle, path, error.strerror or "its folder can't be opened") from None
    try:
        _private_folder(handle, folder, os.fstat(above))
        try:
            descriptor = os.open(path.name, _FILE, dir_fd=above)
        except OSError as error:
            why = "it is a symbolic link" if path.is_symlink() else error.strerror or "it can't be opened"
            raise _unreadable(handle, path, why) from None
    finally:
        os.close(above)
    try:
        _private_file(handle, path, os.fstat(descriptor))
        data = os.read(descriptor, 4 * LONGEST + 2)
    finally:
        os.close(descriptor)
    try:
        return data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise _unreadable(handle, path, "it is no text in UTF-8") from None


def _private_file(handle: str, path: Path, found: os.stat_result) -> None:
    why = ""
    if not stat.S_ISREG(found.st_mode):
        why = "it is no regular file"
    elif found.st_uid != os.geteuid():
        why = "it belongs to another user"
    elif found.st_nlink != 1:
        why = "it has a second name (a hard link)"
    if why:
        raise _unreadable(handle, path, why)
    if found.st_mode & 0o077:
        raise ConfigError(
            f"The secret {handle} can't be read from {path}: others may read it (mode {found.st_mode & 0o777:o}).",
            hint=f"Run: chmod 600 {path}",
        )


def _private_folder(handle: str, folder: str, found: os.stat_result) -> None:
    ours = found.st_uid in (os.geteuid(), 0)
    if not ours or (found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX):
        raise ConfigError(
            f"The secret {handle} lies in {folder}, where others can put another file in its place.",
            hint=f"Run: chmod go-w {folder}" if ours else "Keep it in a folder of your own.",
        )


def _unreadable(handle: str, path: Path, why: str) -> ConfigError:
    why = why[:1].lower() + why[1:]
    return ConfigError(
        f"The secret {handle} can't be read from {path}: {why}.", hint="Put it into a file of your own, with mode 600."
    )


def _from_keyring(handle: str, where: str) -> str:
    service, _, user = where.partition("/")
    try:
        import keyring
        import keyring.errors
    except ImportError:
        raise ConfigError(
            f"The secret {handle} lies in the keyring, which needs the extra keyring.",
            hint="Run: pip install 'addendum[keyring]'",
        ) from None
    try:
        value = keyring.get_password(service, user)
    except keyring.errors.NoKeyringError:
        raise ConfigError(
            f"The secret {handle} can't be read: this machine has no keyring.",
            hint="Use env: or file:, or install a backend (Secret Service, KWallet, macOS keychain).",
        ) from None
    except keyring.errors.KeyringLocked:
        raise ConfigError(
            f"The secret {handle} can't be read: the keyring is locked.", hint="Unlock it and try again."
        ) from None
    except Exception as error:  # noqa: BLE001 - a backend speaks to a service of the system, and raises what it likes
        raise ConfigError(
            f"The secret {handle} can't be read: the keyring failed ({type(error).__name__}).",
            hint="Use env: or file: meanwhile.",
        ) from None
    if value is None:
        raise ConfigError(
            f"The secret {handle} isn't there: the keyring has no {user} of {service}.",
            hint=f"Run: keyring set {service} {user}",
        )
    return value


# --- spellings --------------------------------------------------------------------------------------------------


def _with(patterns: Mapping[str, Spelt], handle: str, spelt: Spelt) -> dict[str, Spelt]:
    found = {**patterns, handle: spelt}
    return dict(sorted(found.items(), key=lambda item: -item[1].longest))


def spellings(value: str) -> re.Pattern[str]:
    """Return the pattern of everything that a value may look like in a text."""
    return re.compile("|".join(whole.pattern for whole in Spelt.of(value).wholes))


def _replaced(text: str, patterns: Mapping[str, Spelt]) -> str:
    """Return a text with all values replaced, then the beginning of one if the text ends in it."""
    for handle, spelt in patterns.items():
        for whole in spelt.wholes:
            text = whole.sub(f"[secret {handle}]", text)
    for handle, spelt in patterns.items():
        at = spelt.cut_off(text)
        if at is not None:
            text = f"{text[:at]}[secret {handle}]"
    return text


@dataclass(frozen=True, slots=True)
class Spelt:
    """What a value may look like in a text, one entry a form: the whole of it, and its first letters one by one.

    `least` is how many letters have to stand at the end of a text to be taken for the value's beginning, `longest` the
    most characters that a form may have."""

    wholes: tuple[re.Pattern[str], ...]
    beginnings: tuple[tuple[re.Pattern[str], ...], ...]
    least: int
    longest: int

    @classmethod
    def of(cls, value: str) -> Spelt:
        """Return the spellings of a value."""
        data = value.encode("utf-8", "surrogateescape")
        forms = [
            ([_letter(letter, n) for n, letter in enumerate(value)], "", ""),
            ([f"(?i:{byte:02x})" for byte in data], _COLON, ""),
            *((form, _BREAK, r"[A-Za-z0-9+/_=-]{0,2}") for form in _base64(data)),
        ]
        return cls(
            wholes=tuple(re.compile(between.join(letters) + edge) for letters, between, edge in forms),
            beginnings=tuple(
                tuple(
                    re.compile(letter if n == 0 else between + letter) for n, letter in enumerate(letters[:_BEGINNING])
                )
                for letters, between, _ in forms
            ),
            least=min(len(value) - 1, max(SHORTEST, len(value) // 4), _BEGINNING),
            longest=12 * len(data) + 16,
        )

    def cut_off(self, text: str) -> int | None:
        """Return where the value begins that the text ends in the middle of, None if it doesn't."""
        for letters in self.beginnings:
            for first in letters[0].finditer(text, max(0, len(text) - self.longest)):
                at, count = first.end(), 1
                while count < len(letters) and (following := letters[count].match(text, at)) is not None:
                    at, count = following.end(), count + 1
                if count == _BEGINNING or (count >= self.least and _END.fullmatch(text, at) is not None):
                    return int(first.start())
        return None


def _letter(letter: str, number: int) -> str:
    if number >= _ESCAPED and letter.isascii() and letter.isalnum():
        return letter
    code = ord(letter)
    units = letter.encode("utf-16-be", "surrogatepass")
    unicode = "".join(rf"\\{{1,8}}u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    percent = "".join(f"%(?:25)?{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
    # The letter itself comes last: it may be the beginning of what it is written as.
    found = [
        *([_NAMED[letter]] if letter in _NAMED else []),
        f"(?i:{percent})",
        f"(?i:{unicode})",
        rf"(?i:\\{{1,8}}(?:u(?:{code:08x}|\{{0{{0,6}}{code:x}\}})|x{code:02x}))",
        rf"(?i:&#0{{0,6}}(?:{code}|x0{{0,6}}{code:x});)",
        rf"\\{{0,8}}{re.escape(letter)}",
    ]
    return f"(?:{'|'.join(found)})"


def _base64(data: bytes) -> list[list[str]]:
    """Return the patterns for the value within base64, letter by letter, for each offset at which it may begin.

    The letters at both ends hold bits of the neighbours and can't be known; they are taken out with the rest."""
    found: list[list[str]] = []
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + data + b"\0" * (-(offset + len(data)) % 3)).decode("ascii")
        core = text[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]
        found.append([_LETTER.get(letter, letter) for letter in core])
    return found


_NAMED: Final[Mapping[str, str]] = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&apos;",
    " ": r"\+",
    **{char: rf"\\{{1,8}}{name}" for char, name in zip("\a\b\t\n\v\f\r", "abtnvfr", strict=True)},
}
_LETTER: Final[Mapping[str, str]] = {"+": r"(?:[+-]|%2[Bb])", "/": r"(?:[/_]|%2[Ff])"}
_BREAK: Final = r"(?:\s|\\{1,2}[rn]){0,4}"
"""Base64 in mails is broken into lines. Every repetition has an end, so that no text takes long to search."""
_COLON: Final = r"[\s:]?"
_BEGINNING: Final = 32
"""Letters of a beginning that are compared one by one. Where so many are there without the whole, no more is asked."""
_ESCAPED: Final = 256
"""Letters of a value that may be escaped although nothing asks for it; beyond them a letter or digit stands as it is,
so that the pattern of a long token doesn't take seconds to make."""
_END: Final = re.compile(r"(?:[%\\&][\\#{A-Za-z0-9]{0,9}|[xuU{0-9a-fA-F:]{0,5})(?:\.{3}|[\s…\"')\]}>]){0,8}")
"""What may stand behind a value that was cut off: half a letter, and what tells of the cut or closes a quotation."""
