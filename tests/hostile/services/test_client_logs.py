"""What the libraries under the services log, with everything turned on: no key is in it, whatever header it is sent in.

The loggers of a process are its owner's, and `openai`, `httpx` and `httpcore` tell much of what they send when they are
asked to. They are asked here.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("openai")

from tests.services import CANARY, ask, opened

from addendum.errors import CapabilityError
from addendum.testing.openai_server import Fault, OpenAIServer

HEADERS = ("Authorization", "api-key", "X-Gateway-Token")
TEXT: tuple[str, dict[str, Any], Any] = ("text", {"model": "openai:gpt-5-mini"}, {"prompt": "a lighthouse"})
IMAGE: tuple[str, dict[str, Any], Any] = (
    "image",
    {"model": "local-image", "price_usd": "0.02"},
    {"prompt": "a lighthouse"},
)


@pytest.mark.parametrize(("asked", "header"), [(TEXT, HEADERS[0]), *((IMAGE, header) for header in HEADERS)])
def test_no_library_logs_a_key(
    asked: tuple[str, dict[str, Any], Any], header: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither when all goes well nor when the service repeats the key in its error."""
    kind, spec, payload = asked
    more = {"key_header": header} if kind == "image" else {}
    caplog.set_level(logging.DEBUG)
    with OpenAIServer(key=CANARY, key_header=header, faults=[Fault(status=400, echo=True, times=1)]) as server:
        service = opened(kind, f"{kind}.run", url=server.url, secret="local", **spec, **more)
        with pytest.raises(CapabilityError):
            ask(service, payload)
        ask(service, payload)
        assert server.requests[0].headers[header.lower()].endswith(CANARY), "the key was sent"
    names = {record.name.partition(".")[0] for record in caplog.records}
    assert names >= {"openai"}, names
    logged = [record.getMessage() + str(record.exc_info or "") for record in caplog.records]
    assert [line for line in logged if CANARY in line] == []
