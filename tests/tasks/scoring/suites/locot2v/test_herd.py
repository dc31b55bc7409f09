"""Binary questions with polarity over real HTTP: what is asked, what counts, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage_schemas.judgements import Failure
from tasks.scoring.suites.base import ScoredVideo, SuitePrompt
from tasks.scoring.suites.locot2v.dimensions import HERD_NAMES
from tests.tasks.scoring.suites.locot2v.talking import (
    MODELS,
    Talk,
    failure,
    images,
    score,
    steps,
    text,
    value,
)
from tests.tiny_models.faulty_server import FaultyServer


def asked(*polarities: str, of: str = "themes") -> SuitePrompt:
    questions = [
        {"question": f"Is it number {number}?", "polarity": one} for number, one in enumerate(polarities)
    ]
    return SuitePrompt(prompt_id="p", text="A secret prompt.", details={"questions": {of: questions}})


def answers(*words: Any) -> dict[str, Any]:
    return {"answers": [{"number": n, "reason": "-", "answer": word} for n, word in enumerate(words, 1)]}


@pytest.mark.parametrize(
    ("polarities", "said", "expected"),
    [
        (("positive", "negative"), ("yes", "no"), 1.0),
        (("positive", "negative"), ("no", "yes"), 0.0),
        (("positive", "positive", "negative"), ("yes", "unclear", "yes"), 0.5),
        (("negative", "negative", "negative"), ("no", "unclear", "unclear"), 1.0),
    ],
)
def test_the_share_of_good_answers_leaves_unclear_ones_out(
    tmp_path: Path, polarities: tuple[str, ...], said: tuple[str, ...], expected: float
) -> None:
    with FaultyServer(Talk(questions=answers(*said)), MODELS) as server:
        result = score(tmp_path, server, "themes", asked(*polarities))
    assert isinstance(result, ScoredVideo)
    assert result.value == expected
    assert result.details["unclear"] == said.count("unclear")
    assert [one["answer"] for one in result.details["questions"]] == list(said)


def test_the_model_knows_neither_the_prompt_nor_what_is_good(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server, "themes", asked("positive", "negative"))
        (seen,) = server.seen
    output = text(seen.body)
    assert "1. Is it number 0?\n2. Is it number 1?" in output
    assert images(seen.body) == 3
    assert "secret" not in str(seen.body["messages"])
    assert "positive" not in str(seen.body["messages"])


@pytest.mark.parametrize("name", HERD_NAMES)
def test_each_attribute_asks_its_own_questions(tmp_path: Path, name: str) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        assert value(score(tmp_path, server, name, asked("positive", of=name))) == 1
        other = next(one for one in HERD_NAMES if one != name)
        assert (
            failure(score(tmp_path, server, other, asked("positive", of=name))).failure is Failure.NO_ANSWER
        )
        assert len(server.seen) == 1


def test_questions_are_asked_in_requests_of_a_settings_size(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        prompt = asked(*["positive"] * 4, "negative")
        assert value(score(tmp_path, server, "themes", prompt, questions_at_once=2)) == 0.8
        assert steps(server) == ["questions"] * 3
        # each request counts from 1
        assert "1. Is it number 4?" in text(server.seen[2].body)


def test_nothing_decided_is_missing(tmp_path: Path) -> None:
    with FaultyServer(Talk(questions=answers("unclear", "unclear")), MODELS) as server:
        result = failure(score(tmp_path, server, "themes", asked("positive", "negative")))
    assert result.failure is Failure.NO_ANSWER
    assert "2 questions" in result.message


@pytest.mark.parametrize(
    "odd",
    [answers("yes"), answers("yes", "no", "no"), answers("yes", "maybe"), answers("yes", None), "yes, no"],
)
def test_odd_answers_are_a_reason_and_asked_again(tmp_path: Path, odd: Any) -> None:
    with FaultyServer(Talk(questions=[odd, answers("yes", "no")]), MODELS) as server:
        prompt = asked("positive", "negative")
        assert failure(score(tmp_path, server, "themes", prompt)).failure is Failure.NOT_UNDERSTOOD
        assert value(score(tmp_path, server, "themes", prompt)) == 1


@pytest.mark.parametrize(
    "questions",
    [
        "Is it?",
        {"themes": "Is it?"},
        {"themes": ["Is it?"]},
        {"themes": [{"question": "Is it?"}]},
        {"themes": [{"question": "Is it?", "polarity": "maybe"}]},
        {"themes": [{"question": " ", "polarity": "positive"}]},
        {"themes": []},
        {},
    ],
)
def test_odd_questions_of_a_prompts_file_are_a_reason(tmp_path: Path, questions: Any) -> None:
    prompt = SuitePrompt(prompt_id="p", text="-", details={"questions": questions})
    with FaultyServer(Talk(), MODELS) as server:
        result = failure(score(tmp_path, server, "themes", prompt))
        assert result.failure in (Failure.NO_ANSWER, Failure.NOT_UNDERSTOOD)
        assert "themes" in result.message
        assert not server.seen
