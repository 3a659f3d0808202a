"""Fetching a file that a service's answer names, at once, since such addresses expire.

The URL is a provider's word, and the request is made from inside our network: it goes to public addresses only, and to
the hosts that a person named. No redirect, no header of ours, no more bytes than asked for.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from addendum.errors import CapabilityError, UnknownOutcome
from addendum.providers import addresses, urls
from addendum.providers.addresses import Resolve
from addendum.providers.exchange import Came, Exchange, Sent
from addendum.providers.threads import NoThread, Threads
from addendum.providers.urls import Target

TRIES: Final = 3
PAUSE: Final = 0.5
"""Seconds before a second try; the next one waits twice as long."""
_DATA: Final = re.compile(r"data:[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+(?P<base64>;base64)?,")
_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class NotFetched(Exception):
    """A file couldn't be had. The text says why, without the address: a signed one is a key of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloads:
    """Where files may come from. `hosts` are allowed whatever their addresses are, `plain` allows http://. `most`
    is the largest file in bytes."""

    hosts: frozenset[str]
    plain: bool
    most: int
    resolve: Resolve = addresses.system
    pause: float = PAUSE
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    threads: Threads = field(default_factory=Threads)

    async def fetch(self, url: str, seconds: float) -> bytes:
        """Return the bytes of a `data:`, `https:` or `http:` URL. Raises `NotFetched`."""
        if url.startswith("data:"):
            return self._inline(url)
        deadline = time.monotonic() + seconds
        target = self._target(url)
        for tried in range(TRIES):
            last = tried == TRIES - 1
            try:
                came = await self._exchange(target, deadline)
            except (CapabilityError, UnknownOutcome) as error:
                if last or (isinstance(error, CapabilityError) and not error.retryable):
                    raise NotFetched(getattr(error, "message", "") or str(error)) from None
            else:
                if came.status == 200:
                    return self._whole(came)
                if last or came.status not in _AGAIN:
                    raise NotFetched(f"its address answered {came.status}")
            await asyncio.sleep(self.pause * 2**tried)
        raise NotFetched("it wasn't answered")

    def _target(self, url: str) -> Target:
        try:
            target = urls.read(url.partition("#")[0])
        except CapabilityError as error:
            raise NotFetched(error.message) from None
        if target.origin.scheme != "https" and not self.plain:
            raise NotFetched("its address is http://, which anybody on the way can change")
        return target

    async def _exchange(self, target: Target, deadline: float) -> Came:
        named = target.origin.host in self.hosts

        def work() -> Came:
            host, port = target.origin.host, target.origin.port
            why = "" if named or addresses.literal(host) is None else addresses.objection(host, private=False)
            if why:
                raise CapabilityError("refused", f"its address leads to {host}, {why}; nothing was sent")
            found = addresses.judged(host, port, private=named, resolve=self.resolve)
            sent = Sent(method="GET", target=target, addresses=found, headers=[("User-Agent", "addendum")])
            running.append(Exchange(sent, deadline=deadline, most=self.most, tls=self.tls()))
            return running[0].run()

        running: list[Exchange] = []
        try:
            came: Came = await self.threads.run(work)
            return came
        except NoThread:
            # Whoever waits for the file has paid for it: given up, it is not fetched, and that is all.
            raise NotFetched("no thread was free for it in time") from None
        except asyncio.CancelledError:
            for exchange in running:
                exchange.break_off()
            raise

    def _whole(self, came: Came) -> bytes:
        if came.cut:
            raise NotFetched(f"it has more than {self.most:,} bytes")
        return came.body

    def _inline(self, url: str) -> bytes:
        found = _DATA.match(url)
        if found is None:
            raise NotFetched("its data: URL can't be read")
        rest = url[found.end() :]
        if len(rest) > 3 * self.most:
            raise NotFetched(f"it has more than {self.most:,} bytes")
        return decoded(rest, self.most) if found["base64"] else unquote_to_bytes(rest)[: self.most]


def decoded(text: str, most: int) -> bytes:
    """Return the bytes of a base64 text. Raises `NotFetched` for what is none, and for too many."""
    if len(text) > 4 * (most // 3 + 2):
        raise NotFetched(f"it has more than {most:,} bytes")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NotFetched("it is no base64") from None
