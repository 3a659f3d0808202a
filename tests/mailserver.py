"""A real SMTP server for tests: it keeps what it was sent, and does as it is told."""

from __future__ import annotations

import asyncio
import ssl
import threading
from dataclasses import dataclass
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


@dataclass(frozen=True, slots=True)
class Mail:
    """What came."""

    sender: str
    recipients: tuple[str, ...]
    data: bytes


class MailServer:
    """Serves on a free port of 127.0.0.1 while it is entered.

    `answers` are replies by command (MAIL, RCPT, DATA); `drop` names the command at which it ends the connection, after
    it took what belongs to it. `wait` is waited for before the final dot is answered."""

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, implicit: bool = False, login: tuple[str, str] | None = None
    ) -> None:
        self.mails: list[Mail] = []
        self.logins: list[tuple[str, str]] = []
        self.answers: dict[str, str] = {}
        self.drop = ""
        self.wait: threading.Event | None = None
        self.arrived = threading.Event()
        self.port = 0
        self._tls, self._implicit, self._login = tls, implicit, login
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready = threading.Event()
        self._made: list[SMTP] = []

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take the sender."""
        envelope.mail_from = address
        return self._answer(server, "MAIL")

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient."""
        envelope.rcpt_tos.append(address)
        return self._answer(server, f"RCPT {address}")

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Take a mail."""
        assert isinstance(envelope.original_content, bytes)
        self.mails.append(Mail(str(envelope.mail_from), tuple(envelope.rcpt_tos), envelope.original_content))
        self.arrived.set()
        if self.wait is not None:
            await asyncio.to_thread(self.wait.wait, 30)
        return self._answer(server, "DATA")

    def _answer(self, server: SMTP, command: str) -> str:
        if self.drop == command:
            assert server.transport is not None
            server.transport.abort()
        return self.answers.get(command, "250 OK")

    def _authenticated(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        found = (data.login.decode(), data.password.decode())
        self.logins.append(found)
        if found == self._login:
            return AuthResult(success=True)
        return AuthResult(success=False, handled=False, message=f"535 5.7.8 {found[1]} is wrong")

    def _protocol(self) -> SMTP:
        made = SMTP(
            self,
            hostname="test",
            tls_context=None if self._implicit else self._tls,
            authenticator=self._authenticated if self._login else None,
            auth_require_tls=self._tls is not None and not self._implicit,
            loop=self._loop,
        )
        self._made.append(made)
        return made

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(lambda loop, context: None)
        made = self._loop.create_server(self._protocol, "127.0.0.1", 0, ssl=self._tls if self._implicit else None)
        server = self._loop.run_until_complete(made)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for protocol in self._made:
            if protocol.transport is not None:
                protocol.transport.abort()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0.01))  # what was aborted is closed by the loop
        self._loop.close()

    def __enter__(self) -> MailServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
