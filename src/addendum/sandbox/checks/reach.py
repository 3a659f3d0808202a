"""What code in the worker can reach: network, files, other processes' data."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from addendum.ports import Raised
from addendum.sandbox.acceptance import Bench, Check, Outcome

TRY = """
found = {}
def attempt(name, function):
    try:
        found[name] = "reached: " + repr(function())[:200]
    except BaseException as error:
        found[name] = "refused: " + type(error).__name__ + ": " + str(error)[:80]
"""
"""Notes for each attempt whether it was refused."""


def _names(bench: Bench, *statements: str) -> Outcome:
    """Check that Monty has none of what the statements name or do."""
    for statement in statements:
        end = bench.run(f"async def orchestrate(ctx, args):\n    {statement}\n    return 1\n")
        if not isinstance(end, Raised):
            return "failed", f"`{statement}` ran"
    return "passed", f"Monty refuses {', '.join(f'`{statement}`' for statement in statements)}"


def _refused(found: object) -> Outcome:
    """Return the verdict on what `TRY` noted."""
    if not isinstance(found, dict):
        return "failed", f"the attempt ended in {found!r}"
    reached = {name: said for name, said in found.items() if not str(said).startswith("refused")}
    if reached:
        return "failed", f"{reached}"
    return "passed", "; ".join(f"{name} {said}" for name, said in found.items())


def _socket(bench: Bench, family: int, kind: int, address: str | bytes | tuple[str, int], attempt: str) -> Outcome:
    """Listen on this machine and let the worker try to come through."""
    with socket.socket(family, kind) as server:
        server.bind(address)
        heard: list[int] = []
        server.settimeout(0.2)
        if kind == socket.SOCK_STREAM:
            server.listen()

        def listen() -> None:
            try:
                if kind == socket.SOCK_STREAM:
                    caller, _ = server.accept()
                    caller.close()
                else:
                    server.recvfrom(64)
                heard.append(1)
            except OSError:
                pass  # nobody came: that is what is wanted

        thread = threading.Thread(target=listen)
        thread.start()
        verdict, detail = _refused(bench.python(TRY + attempt.format(server.getsockname())))
        thread.join()
    return ("failed", "the host's socket was reached") if heard else (verdict, detail)


def tcp(bench: Bench) -> Outcome:
    """A TCP connection to a port of the host."""
    if bench.monty:
        return _names(bench, "import socket", "import urllib.request", "import http.client")
    code = 'attempt("tcp", lambda: __import__("socket").create_connection({0!r}, 1))'
    return _socket(bench, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0), code)


def udp(bench: Bench) -> Outcome:
    """A datagram to a port of the host."""
    if bench.monty:
        return _names(bench, "import socket")
    code = 's = __import__("socket")\nattempt("udp", lambda: s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b"x", {0!r}))'
    return _socket(bench, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0), code)


def dns(bench: Bench) -> Outcome:
    """A question to a name server, on this machine's address for one, and the host's own name."""
    if bench.monty:
        return _names(bench, "import socket")
    code = TRY + (
        's = __import__("socket")\n'
        'question = b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\0\\0\\1\\0\\1"\n'
        'attempt("dns", lambda: s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(question, ("127.0.0.1", 53)))\n'
        f'attempt("name", lambda: s.getaddrinfo({socket.gethostname()!r}, 80))\n'
    )
    return _refused(bench.python(code))


def unix(bench: Bench) -> Outcome:
    """A Unix socket in the host's file system."""
    if bench.monty:
        return _names(bench, "import socket")
    code = 's = __import__("socket")\nattempt("unix", lambda: s.socket(s.AF_UNIX).connect({0!r}))'
    return _socket(bench, socket.AF_UNIX, socket.SOCK_STREAM, str(bench.secret.with_name("s")), code)


def abstract(bench: Bench) -> Outcome:
    """A Unix socket without a file: only a network namespace keeps it away."""
    if bench.monty:
        return _names(bench, "import socket")
    if not hasattr(socket, "AF_UNIX") or os.uname().sysname != "Linux":
        return "not_applicable", "abstract sockets are Linux's"
    code = 's = __import__("socket")\nattempt("abstract", lambda: s.socket(s.AF_UNIX).connect({0!r}))'
    return _socket(bench, socket.AF_UNIX, socket.SOCK_STREAM, b"\0addendum-" + bench.token.encode(), code)


def read_only(bench: Bench) -> Outcome:
    """Making a file anywhere."""
    if bench.monty:
        return _names(bench, "open('/x', 'w')", "__import__('os').mkdir('/x')")
    places = (
        "/",
        "/tmp",
        "/var/tmp",
        "/dev",
        "/dev/shm",
        "/dev/mqueue",
        "/run",
        "/home",
        "/usr",
        "/python",
        "/python/lib",
        ".",
        "~",
    )
    code = TRY + (
        "import os\n"
        "def make(path):\n"
        "    open(path, 'w').close()\n"
        "    os.remove(path)  # only where the check fails\n"
        f"for place in {places!r}:\n"
        f"    attempt(place, lambda: make(place + '/{bench.token}'))\n"
    )
    return _refused(bench.python(code))


def files(bench: Bench) -> Outcome:
    """Reading files of the host: a secret, the users, keys, the machine's name."""
    if bench.monty:
        return _names(
            bench, f"open({str(bench.secret)!r}).read()", "__import__('pathlib').Path('/etc/passwd').read_text()"
        )
    home = Path.home()
    paths = [bench.secret, home / ".ssh", home / ".netrc", home / ".aws", Path("/etc/shadow")]
    code = "".join(f"attempt({str(path)!r}, lambda: open({str(path)!r}).read())\n" for path in paths)
    # A container has some of these of its own: they must not be the host's.
    code += "import hashlib\ndef own(path, host):\n    with open(path, 'rb') as file: data = file.read()\n"
    code += "    if hashlib.sha256(data).hexdigest() not in host: raise PermissionError('not the host\\'s')\n"
    for path in (Path("/etc", name) for name in ("hostname", "hosts", "resolv.conf", "passwd", "machine-id")):
        host = [hashlib.sha256(path.read_bytes()).hexdigest()] if path.is_file() else []
        code += f"attempt({str(path)!r}, lambda: own({str(path)!r}, {host!r}))\n"
    return _refused(bench.python(TRY + code))


def processes(bench: Bench) -> Outcome:
    """The host's processes in /proc: their environments hold credentials."""
    if bench.monty:
        return _names(bench, "open('/proc/self/environ').read()", f"open('/proc/{os.getpid()}/environ').read()")
    here = os.readlink("/proc/self/ns/pid") if os.path.exists("/proc/self/ns/pid") else ""
    code = TRY + (
        "import os\n"
        "def space():\n"
        "    seen = os.readlink('/proc/self/ns/pid')\n"
        f"    if seen != {here!r}: raise PermissionError('a space of processes of its own')\n"
        f"attempt('a process of the host', lambda: open('/proc/{os.getpid()}/environ').read())\n"
        "attempt('all processes', space)\n"
    )
    return _refused(bench.python(code))


def environment(bench: Bench) -> Outcome:
    """Variables of the host, in the worker's environment."""
    for pid in bench.inside():
        try:
            seen = Path("/proc", str(pid), "environ").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            break
        return _variables(dict(entry.split("=", 1) for entry in seen if "=" in entry))
    if bench.monty:
        return _names(bench, "__import__('os').environ['PATH']")
    found = bench.python("import os\nfound = dict(os.environ)")
    return _variables(found) if isinstance(found, dict) else ("failed", f"{found!r}")


def _variables(seen: dict[str, str]) -> Outcome:
    own = {"PYTHONHASHSEED", "PWD", "LC_CTYPE", "PATH", "HOME", "HOSTNAME", "TERM", "container"}
    leaked = [name for name, value in seen.items() if value and name not in own and os.environ.get(name) == value]
    return ("failed", f"of the host: {leaked}") if leaked else ("passed", f"there are only {sorted(seen)}")


def descriptors(bench: Bench) -> Outcome:
    """Files that the host had open, left to the worker."""
    for pid in bench.inside():
        try:
            links = [os.readlink(entry) for entry in Path("/proc", str(pid), "fd").iterdir()]
        except OSError:
            break
        odd = [link for link in links if not link.startswith("pipe:") and link != "/dev/null"]
        return ("failed", f"it holds {odd}") if odd else ("passed", f"it holds {len(links)}: pipes and /dev/null")
    if bench.monty:
        return "not_applicable", "Monty has no way to name a descriptor, and its process can't be looked at here"
    found = bench.python(
        "import os\nfound = []\n"
        "for n in range(256):\n    try: found.append(os.fstat(n).st_mode)\n    except OSError: pass"
    )
    if not isinstance(found, list):
        return "failed", f"{found!r}"
    odd = [mode for mode in found if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode)]
    return ("failed", f"it holds {len(odd)} that are no pipes") if odd else ("passed", f"it holds {len(found)} pipes")


def _check(name: str, run: Callable[[Bench], Outcome]) -> Check:
    return Check(name, (run.__doc__ or "").strip(), run)


CHECKS = (
    _check("network.tcp", tcp),
    _check("network.udp", udp),
    _check("network.dns", dns),
    _check("network.unix", unix),
    _check("network.abstract", abstract),
    _check("files.read_only", read_only),
    _check("files.secrets", files),
    _check("host.processes", processes),
    _check("host.environment", environment),
    _check("host.descriptors", descriptors),
)
