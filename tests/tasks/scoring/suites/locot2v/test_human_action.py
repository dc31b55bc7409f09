"""Human action over real HTTP: what is extracted, what is looked for, and how answers become a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage_schemas.judgements import Failure
from tasks.scoring.suites.base import ScoredVideo
from tasks.scoring.suites.locot2v.human_action import action_value
from tests.tasks.scoring.suites.locot2v.talking import (
    MODELS,
    PROMPT,
    READS,
    SEES,
    Talk,
    failure,
    images,
    score,
    steps,
    text,
    value,
)
from tests.tiny_models.faulty_server import FaultyServer, Reply


def entry(number: Any, present: Any = "yes", smooth: Any = "yes") -> dict[str, Any]:
    return {"number": number, "reason": "-", "present": present, "smooth": smooth}


def test_actions_are_extracted_then_looked_for(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        result = score(tmp_path, server, "human_action")
        first, second = (seen.body for seen in server.seen)
    assert steps(server) == ["actions", "look"]
    assert (first["model"], second["model"]) == (READS, SEES)
    assert PROMPT.details["base"] in text(first)
    assert not images(first)
    assert "1. A man waves.\n2. A man sits." in text(second)
    assert images(second) == 3
    # the first is there and smooth, the second is there and not
    assert isinstance(result, ScoredVideo)
    assert result.value == 0.75
    assert result.details["actions"] == [
        {"action": "A man waves.", "present": "yes", "smooth": "yes"},
        {"action": "A man sits.", "present": "yes", "smooth": "no"},
    ]


def test_actions_of_the_prompts_file_cost_nothing(tmp_path: Path) -> None:
    prompt = PROMPT.model_copy(update={"details": {"actions": ["Somebody dances."]}})
    with FaultyServer(Talk(look={"actions": [entry(1, "no", "no")]}), MODELS) as server:
        assert value(score(tmp_path, server, "human_action", prompt)) == 0
        assert steps(server) == ["look"]
        assert "1. Somebody dances." in text(server.seen[0].body)


def test_what_an_unsmooth_action_counts_is_a_setting() -> None:
    seen = [{"present": "yes", "smooth": "no"}, {"present": "no", "smooth": "yes"}]
    assert [action_value(seen, worth) for worth in (0.0, 0.5, 1.0)] == [0, 0.25, 0.5]


def test_the_setting_is_the_suite_s(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        assert value(score(tmp_path, server, "human_action", unsmooth_action=0.0)) == 0.5


def test_a_prompt_without_actions_has_no_score_and_no_frame_is_sent(tmp_path: Path) -> None:
    with FaultyServer(Talk(actions={"actions": []}), MODELS) as server:
        result = failure(score(tmp_path, server, "human_action"))
        assert result.failure is Failure.NO_ANSWER
        assert steps(server) == ["actions"]
    nothing = PROMPT.model_copy(update={"details": {"actions": []}})
    with FaultyServer(Talk(), MODELS) as server:
        assert failure(score(tmp_path, server, "human_action", nothing)).failure is Failure.NO_ANSWER
        assert not server.seen


@pytest.mark.parametrize(
    "look",
    [
        "Both are there.",
        {"actions": [entry(1)]},
        {"actions": [entry(1), entry(2), entry(3)]},
        {"actions": [entry(1), entry(1)]},
        {"actions": [entry(1), entry("2")]},
        {"actions": [entry(1), entry(True)]},
        {"actions": [entry(1), entry(2, "perhaps")]},
        {"actions": [entry(1), entry(2, "yes", True)]},
        {"actions": [entry(1), "yes"]},
        ["yes", "yes"],
    ],
)
def test_odd_answers_are_a_reason_and_only_that_step_is_asked_again(tmp_path: Path, look: Any) -> None:
    good = {"actions": [entry(1), entry(2)]}
    answers = [Reply(str(look)) if isinstance(look, str) else look, good]
    if isinstance(look, list):
        answers = [Reply('["yes", "yes"]'), good]
    with FaultyServer(Talk(look=answers), MODELS) as server:
        result = failure(score(tmp_path, server, "human_action"))
        assert result.failure is Failure.NOT_UNDERSTOOD
        assert result.message.startswith("look for actions")
        assert sum(one.tokens_in for one in result.usage.others) == 200
        assert value(score(tmp_path, server, "human_action")) == 1
        assert steps(server) == ["actions", "look", "look"]


@pytest.mark.parametrize("actions", [{"actions": "waves"}, {"actions": ["waves"] * 21}, {"actions": [1]}])
def test_odd_actions_are_a_reason(tmp_path: Path, actions: Any) -> None:
    with FaultyServer(Talk(actions=actions), MODELS) as server:
        assert failure(score(tmp_path, server, "human_action")).failure is Failure.NOT_UNDERSTOOD


def test_odd_actions_of_the_prompts_file_are_a_reason(tmp_path: Path) -> None:
    prompt = PROMPT.model_copy(update={"details": {"actions": "waves"}})
    with FaultyServer(Talk(), MODELS) as server:
        result = failure(score(tmp_path, server, "human_action", prompt))
    assert result.failure is Failure.NOT_UNDERSTOOD
    assert "mend its details" in result.message
