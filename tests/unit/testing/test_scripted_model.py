"""The scripted model's file, and what is beyond the port's own suite."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from addendum.errors import CapabilityError, ConfigError, UnknownOutcome
from addendum.ports import Message, Prompt, Usage, Written
from addendum.testing import ScriptedModel

ANY = Prompt(messages=(Message("user", "go"),), schema={"type": "object"})


def write(model: ScriptedModel, prompt: Prompt = ANY) -> Written:
    """Ask once."""
    return asyncio.run(model.write(prompt))


def file(folder: Path, answers: Any) -> Path:
    """A file of answers."""
    path = folder / "answers.json"
    path.write_text(json.dumps(answers), "utf-8")
    return path


def test_a_file_gives_its_answers_in_their_order(tmp_path: Path) -> None:
    """What an answer costs stands beside its value, and what is reserved is the dearest."""
    answers = [
        {"script": "a", "moves": [], "cost_usd": "0.02", "tokens": 500},
        {"error": "rate_limited", "message": "wait", "retryable": True, "retry_after": 3},
        {"error": "unknown"},
        {"script": "b"},
    ]
    model = ScriptedModel.load(file(tmp_path, answers))
    assert (model.most, model.most_tokens) == (20_000_000, 500)
    assert write(model) == Written({"script": "a", "moves": []}, Usage(20_000_000, 500), "scripted:answers.json")
    with pytest.raises(CapabilityError) as caught:
        write(model)
    assert (caught.value.code, caught.value.retryable, caught.value.retry_after) == ("rate_limited", True, 3)
    with pytest.raises(UnknownOutcome):
        write(model)
    assert write(model).value == {"script": "b"}
    with pytest.raises(CapabilityError, match="no more answers"):
        write(model)
    assert len(model.prompts) == 5


@pytest.mark.parametrize("content", ["{", "{}", '[{"error": "strange"}]'])
def test_a_file_that_is_none_names_itself(tmp_path: Path, content: str) -> None:
    """And says what it should be."""
    path = tmp_path / "answers.json"
    path.write_text(content, "utf-8")
    with pytest.raises(ConfigError, match=r"answers\.json"):
        ScriptedModel.load(path)
    with pytest.raises(ConfigError, match=r"none\.json"):
        ScriptedModel.load(tmp_path / "none.json")


def test_an_answer_can_be_made_of_the_prompt() -> None:
    """By a function, once or always."""
    model = ScriptedModel(lambda prompt: {"said": prompt.messages[-1].text})
    assert write(model).value == {"said": "go"}
    assert write(ScriptedModel([lambda prompt: Written({}, Usage(3, 4), "m")])).usage == Usage(3, 4)
