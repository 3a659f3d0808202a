"""Messages that the worker may not send."""

from __future__ import annotations

from addendum.errors import ProtocolViolation
from addendum.sandbox.acceptance import Bench, Check, Outcome


def _forge(bench: Bench, message: str) -> Outcome:
    """Send a message of the guest; `NONCE` in it stands for the session's own."""
    send, nonce = "_wf_host", "_wf_nonce"
    if not bench.monty:
        send, nonce = (f"ctx.log.__globals__['{name}']" for name in (send, nonce))
    call = f"{send}({message.replace('NONCE', nonce)})"
    end = bench.run(
        f"async def orchestrate(ctx, args):\n    {call}\n    await ctx.run('', 'orchestrate/a.b#0', 'a.b', {{}})\n"
    )
    return ("passed" if isinstance(end, ProtocolViolation) else "failed"), f"{end!s}"


def foreign_site(bench: Bench) -> Outcome:
    """A call at a place that isn't in the script."""
    return _forge(bench, "NONCE, 'call', 'orchestrate/mail.send#0', 'mail.send', '{}', 1, []")


def foreign_capability(bench: Bench) -> Outcome:
    """Another call than the one that is written at the place."""
    return _forge(bench, "NONCE, 'call', 'orchestrate/a.b#0', 'mail.send', '{}', 1, []")


def foreign_nonce(bench: Bench) -> Outcome:
    """A call of another session."""
    return _forge(bench, "'0' * 32, 'call', 'orchestrate/a.b#0', 'a.b', '{}', 1, []")


def unknown_answer(bench: Bench) -> Outcome:
    """A claim that a call was answered already."""
    return _forge(bench, "NONCE, 'say', 'log', 'x', None, None, [('orchestrate/a.b#0', 'a.b', '{}', 1)]")


def raw(bench: Bench) -> Outcome:
    """Bytes of its own on the channel."""
    if bench.monty:
        return "not_applicable", "Monty has no way to name its channel"
    code = "import os\npipe = guest['_wf_host'].__closure__[0].cell_contents\nos.write(pipe.write_fd, b'{}')\nfound = 1"
    verdicts = [bench.python(code.format(data)) for data in ("\\xff" * 64, "\\0\\0\\0\\2[]", "HTTP/1.1 200 OK")]
    good = all(isinstance(verdict, ProtocolViolation) for verdict in verdicts)
    return ("passed" if good else "failed"), "; ".join(str(verdict) for verdict in verdicts)


CHECKS = tuple(
    Check(name, (run.__doc__ or "").strip(), run)
    for name, run in (
        ("protocol.foreign_site", foreign_site),
        ("protocol.foreign_capability", foreign_capability),
        ("protocol.foreign_nonce", foreign_nonce),
        ("protocol.unknown_answer", unknown_answer),
        ("protocol.raw_bytes", raw),
    )
)
