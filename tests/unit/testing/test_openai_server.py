"""The local OpenAI server: what it answers, what it remembers, and how it fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection, IncompleteRead, RemoteDisconnected
from typing import Any

import pytest

from addendum.testing.openai_answers import picture
from addendum.testing.openai_server import Fault, OpenAIServer, ToolCall

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server that says ok."""
    with OpenAIServer() as opened:
        yield opened


def ask(
    server: OpenAIServer, body: Any = None, path: str = "/v1/chat/completions", *, timeout: float = 5, **headers: str
) -> tuple[int, dict[str, str], Any]:
    """Send one request; status, headers, and the body (parsed if it is JSON)."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    named = {"authorization": f"Bearer {server.key}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    try:
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), named)
        got = connection.getresponse()
        data = got.read()
        heads = {name.lower(): value for name, value in got.getheaders()}
        return got.status, heads, json.loads(data) if "json" in heads["content-type"] else data
    finally:
        connection.close()


def test_a_chat_completion_has_its_text_and_its_usage(server: OpenAIServer) -> None:
    """Four characters are a token."""
    server.answer = "twelve chars"
    status, _, body = ask(server, CHAT)
    assert (status, body["choices"][0]["message"]["content"]) == (200, "twelve chars")
    assert body["usage"]["completion_tokens"] == 3
    assert server.requests[0].body == CHAT


def test_the_responses_api_is_spoken_too(server: OpenAIServer) -> None:
    """The same answer in the other shape."""
    body = ask(server, {"model": "m", "input": "hi"}, "/v1/responses")[2]
    assert body["output"][0]["content"][0]["text"] == "ok"
    assert body["status"] == "completed"


def test_a_request_that_must_call_a_tool_is_answered_by_a_call(server: OpenAIServer) -> None:
    """As clients ask for structured output where there is no JSON mode."""
    server.answer = {"n": 1}
    tools = [{"type": "function", "function": {"name": "final", "parameters": {}}}]
    call = ask(server, {**CHAT, "tools": tools, "tool_choice": "required"})[2]["choices"][0]["message"]["tool_calls"][0]
    assert call["function"] == {"name": "final", "arguments": '{"n": 1}'}
    server.answer = ToolCall("look", {"at": "it"})
    assert ask(server, CHAT)[2]["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "look"


def test_an_answer_over_the_limit_of_tokens_is_cut_and_says_so(server: OpenAIServer) -> None:
    """The finish reason is length."""
    server.answer = "x" * 100
    choice = ask(server, {**CHAT, "max_tokens": 3})[2]["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("x" * 12, "length")


def test_answers_are_used_up_before_the_lasting_one(server: OpenAIServer) -> None:
    """A function of the body is an answer as well."""
    server.answers.extend(["first", lambda body: body["model"]])
    said = [ask(server, CHAT)[2]["choices"][0]["message"]["content"] for _ in range(3)]
    assert said == ["first", "m", "ok"]


def test_without_the_key_nothing_is_done(server: OpenAIServer) -> None:
    """401, as the API answers."""
    assert ask(server, CHAT, authorization="Bearer other")[0] == 401
    assert server.worked == []


def test_a_key_can_stand_in_another_header() -> None:
    """Compatible services have their own names for it."""
    with OpenAIServer(key_header="X-Api-Key", key="k") as server:
        assert ask(server, CHAT)[0] == 401
        assert ask(server, CHAT, x_api_key="k")[0] == 200


def test_images_come_inline_or_by_an_address_that_expires(server: OpenAIServer) -> None:
    """An expired address answers 403."""
    inline = ask(server, {"model": "gpt-image-1", "prompt": "a"}, "/v1/images/generations")[2]["data"][0]
    assert inline["b64_json"].startswith("iVBORw0KGgo")
    url = ask(server, {"model": "x", "prompt": "a", "n": 2}, "/v1/images/generations")[2]["data"][1]["url"]
    path = url.removeprefix(server.origin)
    assert (path, ask(server, path=path)[2]) == ("/files/2", picture("a/2"))
    server.expired.add(2)
    assert ask(server, path=path)[0] == 403


def test_an_idempotency_key_gets_the_same_answer_and_no_more_work(server: OpenAIServer) -> None:
    """Another body under the key is refused."""
    server.answers.extend(["one", "two"])
    first = ask(server, CHAT, idempotency_key="k")[2]
    assert ask(server, CHAT, idempotency_key="k")[2] == first
    assert (len(server.worked), server.repeats["k"]) == (1, 1)
    assert ask(server, {**CHAT, "model": "n"}, idempotency_key="k")[0] == 422


def test_an_error_has_its_status_and_its_pause(server: OpenAIServer) -> None:
    """It is used once, and nothing is worked for it."""
    server.faults.append(Fault(status=429, retry_after=7, code="rate_limit_exceeded", echo=True))
    status, heads, body = ask(server, CHAT)
    assert (status, heads["retry-after"], body["error"]["code"]) == (429, "7", "rate_limit_exceeded")
    assert server.key in body["error"]["message"]
    assert server.worked == []
    assert ask(server, CHAT)[0] == 200


def test_a_dropped_request_was_never_worked_on_and_a_cut_one_was(server: OpenAIServer) -> None:
    """The client sees a lost connection both times."""
    server.faults.extend([Fault(drop=True), Fault(cut=True)])
    with pytest.raises(RemoteDisconnected):
        ask(server, CHAT)
    assert server.worked == []
    with pytest.raises(IncompleteRead):
        ask(server, CHAT)
    assert server.worked == [CHAT]


def test_a_slow_answer_outlives_its_client(server: OpenAIServer) -> None:
    """The work is done; closing the server lets the answer go."""
    server.faults.append(Fault(slow=600))
    with pytest.raises(TimeoutError):
        ask(server, CHAT, timeout=0.05)
    until = time.monotonic() + 10
    while not server.worked and time.monotonic() < until:
        time.sleep(0.01)  # the request may not have been read yet when its client goes
    server.close()
    assert server.worked == [CHAT]


def test_a_fault_hits_the_request_that_it_names(server: OpenAIServer) -> None:
    """By path and by a text of the body."""
    server.faults.extend([Fault(status=500, path="images"), Fault(status=503, when="hello")])
    assert ask(server, CHAT)[0] == 200
    assert ask(server, {**CHAT, "messages": [{"role": "user", "content": "hello"}]})[0] == 503
    assert ask(server, {"prompt": "x"}, "/v1/images/generations")[0] == 500


def test_what_it_does_not_speak_is_an_error(server: OpenAIServer) -> None:
    """Streams, other paths, bodies that aren't objects."""
    assert ask(server, {**CHAT, "stream": True})[0] == 400
    assert ask(server, {}, "/v1/embeddings")[0] == 404
    assert ask(server, [])[0] == 400
    assert ask(server, path="/v1/models")[2]["data"][0]["id"] == "local"
    assert ask(server, path="/files/9")[0] == 404
    assert ask(server, path="/v1/other")[0] == 404
