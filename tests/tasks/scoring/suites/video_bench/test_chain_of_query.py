"""Chain of query over real HTTP: five requests, what each is told, odd answers, and nothing paid twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.judgements import Failure
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import ScoredVideo
from tasks.scoring.suites.video_bench.dimensions import ALIGNMENT, DIMENSIONS
from tests.tasks.scoring.suites.video_bench.talking import (
    MODELS,
    PROMPT,
    USUAL,
    Damaged,
    Talk,
    addresses,
    film,
    only,
    step,
    steps,
    suite,
    text,
    video,
)
from tests.tiny_models.faulty_server import FaultyServer, Reply

FIVE = ["describe", "first assistant", "second assistant", "answer", "score"]
NAMES = [dimension.name for dimension in DIMENSIONS if dimension.group == ALIGNMENT]


def score(
    folder: Path, server: FaultyServer, repeat: int = 0, name: str = "color_consistency", **settings: Any
) -> ScoredVideo | NotJudged:
    (result,) = suite(folder, server, **settings).scorer(name).score(PROMPT, [video("a", film())], repeat)
    return result


@pytest.mark.parametrize("name", NAMES)
def test_a_score_takes_the_paper_s_five_requests(tmp_path: Path, name: str) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        result = score(tmp_path, server, name=name)
        assert steps(server) == FIVE
        asked = [seen.body["model"] for seen in server.seen]
    big, small = MODELS
    assert asked == [big, small, small, big, big]
    assert isinstance(result, ScoredVideo)
    assert (result.value, result.calls) == (3, 5)
    # three requests to the one model, two to the other, each with a price of its own
    assert (result.usage.tokens_in, result.usage.tokens_out) == (300, 60)
    assert [(other.model, other.tokens_in) for other in result.usage.others] == [(small, 100)] * 2
    assert all(seen.body["temperature"] == 0 for seen in server.seen)


def test_who_is_told_what(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server)
        body = {name: only(server, name).body for name in FIVE}
    # the first description knows nothing of the prompt
    assert PROMPT.text not in json.dumps(body["describe"])
    for name in FIVE[1:]:
        assert PROMPT.text in text(body[name])
    described, asked = USUAL["describe"], USUAL["first assistant"]["questions"][0]
    for name in FIVE[1:3]:
        assert described["caption"] in text(body[name])
        assert described["description"] in text(body[name])
    # the assistants see the same, and neither sees the other's questions
    assert text(body["first assistant"]) == text(body["second assistant"])
    assert asked not in text(body["second assistant"])
    questions = [asked, *USUAL["second assistant"]["questions"]]
    for number, question in enumerate(questions, 1):
        assert f"{number}. {question}" in text(body["answer"])
        assert question in text(body["score"])
    for output in (described["description"], USUAL["answer"]["description"], "1. Yes.\n2. No.\n3. Yes."):
        assert output in text(body["score"])
    assert described["description"] not in text(body["answer"])
    frames = {name: [one["detail"] for one in addresses(body[name])] for name in FIVE}
    assert frames == {
        "describe": ["low"] * 5,
        "first assistant": [],
        "second assistant": [],
        "answer": ["low"] * 5,
        "score": ["low"] * 5,
    }


def test_without_the_chain_one_request_of_one_model_scores(tmp_path: Path) -> None:
    with FaultyServer(Talk(), [MODELS[0]]) as server:
        scorer = suite(tmp_path, server, chain_of_query=False).scorer("color_consistency")
        # the language model is not needed
        scorer.check()
        (expected,) = scorer.estimate(PROMPT, [video("a", film())])
        (result,) = scorer.score(PROMPT, [video("a", film())])
        body = only(server, "score").body
    assert isinstance(result, ScoredVideo)
    assert (result.value, result.calls, result.usage.others) == (3, 1, ())
    assert PROMPT.text in text(body)
    assert [one["detail"] for one in addresses(body)] == ["low"] * 5
    assert set(body["response_format"]["json_schema"]["schema"]["properties"]) == {"reason", "score"}
    told = body["messages"][0]["content"]
    assert "assistant" not in told
    assert "before you give 1 or 2" in told
    assert expected.images == 5


def test_the_whole_conversation_is_kept(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        result = score(tmp_path, server)
    assert isinstance(result, ScoredVideo)
    talk = result.details["conversation"]
    assert [part["step"] for part in talk] == FIVE
    assert not any(part["kept"] for part in talk)
    for part in talk:
        assert {key: part["answer"][key] for key in USUAL[part["step"]]} == USUAL[part["step"]]
    assert result.details["frames"]["video"]["places"] == [0, 2, 4, 6, 7]
    assert result.usage.frames == 5


def test_assistants_may_have_no_questions_and_all_five_are_still_asked(tmp_path: Path) -> None:
    nothing = {"analysis": "All is there.", "questions": []}
    changes = {
        "first assistant": nothing,
        "second assistant": nothing,
        "answer": {"description": "A red ball.", "answers": ["There was no question."]},
    }
    with FaultyServer(Talk(changes), MODELS) as server:
        assert isinstance(score(tmp_path, server), ScoredVideo)
        assert len(server.seen) == 5
        assert "Questions of the assistants:\nnone" in text(only(server, "answer").body)


def test_more_questions_than_allowed_are_kept_and_not_asked(tmp_path: Path) -> None:
    changes = {
        "first assistant": {"analysis": "-", "questions": ["one?", "two?", "three?"]},
        "second assistant": {"analysis": "-", "questions": []},
        "answer": {"description": "A ball.", "answers": ["Yes.", "No."]},
    }
    with FaultyServer(Talk(changes), MODELS) as server:
        result = score(tmp_path, server)
        assert "three?" not in text(only(server, "answer").body)
    assert isinstance(result, ScoredVideo)
    assert result.details["conversation"][1]["answer"]["not_asked"] == ["three?"]


def test_a_second_assistant_may_see_the_first_one_s_questions(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        result = score(tmp_path, server, chained_questions=True)
        assert steps(server) == FIVE
        first, second = (text(only(server, name).body) for name in FIVE[1:3])
        told = [seen.body["messages"][0]["content"] for seen in server.seen[1:3]]
    # told the same but for their own part and those questions
    assert told[0] != told[1]
    assert second == f"{first}\n\nQuestions of another assistant:\n1. Is the ball red?"
    assert isinstance(result, ScoredVideo)


def test_more_answers_than_questions_are_not_understood(tmp_path: Path) -> None:
    with FaultyServer(Talk({"second assistant": USUAL["first assistant"]}), MODELS) as server:
        result = score(tmp_path, server)
    assert isinstance(result, NotJudged)
    assert "3 answers to 2 questions" in result.message


@pytest.mark.parametrize(
    ("changes", "failure", "said"),
    [
        ({"score": {**USUAL["score"], "score": 4}}, Failure.NOT_UNDERSTOOD, "outside the scale 1 to 3"),
        ({"score": {**USUAL["score"], "score": 0}}, Failure.NOT_UNDERSTOOD, "outside the scale"),
        ({"score": {**USUAL["score"], "score": 2.5}}, Failure.NOT_UNDERSTOOD, "not a whole number"),
        ({"score": {**USUAL["score"], "score": "3"}}, Failure.NOT_UNDERSTOOD, "no number"),
        ({"score": {**USUAL["score"], "score": True}}, Failure.NOT_UNDERSTOOD, "no number"),
        ({"score": '{"description": "-", "reason": "-", "score": NaN}'}, Failure.NOT_UNDERSTOOD, "outside"),
        ({"score": "Three of three."}, Failure.NOT_UNDERSTOOD, "score: "),
        ({"describe": {"caption": "A ball."}}, Failure.NOT_UNDERSTOOD, "describe: "),
        ({"describe": {"caption": "A ball.", "description": "  "}}, Failure.NOT_UNDERSTOOD, "description"),
        ({"first assistant": {"analysis": "-", "questions": "Why?"}}, Failure.NOT_UNDERSTOOD, "questions"),
        ({"second assistant": []}, Failure.NOT_UNDERSTOOD, "second assistant: "),
        ({"answer": {"description": "-", "answers": ["Yes."]}}, Failure.NOT_UNDERSTOOD, "1 answers to 3"),
        ({"answer": Reply("", finish_reason="content_filter")}, Failure.MODEL_REFUSED, "answer: "),
        ({"score": Reply('{"sc', finish_reason="length")}, Failure.CUT_OFF, "score: "),
    ],
)
def test_an_odd_answer_is_a_reason_that_names_the_step(
    tmp_path: Path, changes: dict[str, Any], failure: Failure, said: str
) -> None:
    with FaultyServer(Talk(changes), MODELS) as server:
        result = score(tmp_path, server)
        asked = len(server.seen)
    assert isinstance(result, NotJudged)
    assert result.failure is failure
    assert said in result.message
    # what was paid for it is not lost
    paid = result.usage.tokens_in + sum(other.tokens_in for other in result.usage.others)
    assert paid == 100 * asked


def test_after_a_failure_only_what_is_missing_is_asked(tmp_path: Path) -> None:
    with FaultyServer(Talk({"answer": Reply(status=503)}), MODELS) as server:
        assert isinstance(score(tmp_path, server), NotJudged)
        before = [name for name in steps(server) if name != "answer"][:3]
    assert before == FIVE[:3]
    with FaultyServer(Talk(), MODELS) as server:
        # another process, after a kill
        result = score(tmp_path, server)
        assert steps(server) == ["answer", "score"]
        again = score(tmp_path, server)
        assert len(server.seen) == 2
    assert isinstance(result, ScoredVideo)
    assert result.calls == 2
    assert [part["kept"] for part in result.details["conversation"]] == [True, True, True, False, False]
    assert isinstance(again, ScoredVideo)
    assert (again.value, again.calls, again.usage.tokens_in) == (3, 0, 0)


def test_what_was_paid_and_said_before_a_failure_is_told(tmp_path: Path) -> None:
    with FaultyServer(Talk({"score": {"description": "-", "reason": "-", "score": 9}}), MODELS) as server:
        (result,) = suite(tmp_path, server).scorer("color_consistency").score(PROMPT, [video("a", film())])
        assert steps(server) == list(FIVE)
    assert isinstance(result, NotJudged)
    assert result.calls == 5
    assert [output["step"] for output in result.details["conversation"]] == list(FIVE)


def test_a_repeat_is_asked_anew(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server)
        score(tmp_path, server, repeat=1)
        assert steps(server) == [*FIVE, *FIVE]


@pytest.mark.parametrize("settings", [{"fps": 1.0}, {"most_frames": 3}])
def test_other_frames_are_another_request(tmp_path: Path, settings: dict[str, Any]) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server)
        score(tmp_path, server, **settings)
        assert [name for name in steps(server)].count("describe") == 2


def test_a_dry_run_asks_nobody_and_counts_what_is_missing(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        scorer = suite(tmp_path, server).scorer("color_consistency")
        films = [video("a", film())]
        expected = scorer.estimate(PROMPT, films)
        assert not server.seen
        big, small = MODELS
        assert [one.model for one in expected] == [big, small, small, big, big]
        assert [one.images for one in expected] == [5, 0, 0, 5, 5]
        assert all(one.tokens_in > 85 * one.images and one.tokens_out > 0 for one in expected)
        scorer.score(PROMPT, films)
        assert list(scorer.estimate(PROMPT, films)) == []
        again = scorer.estimate(PROMPT, films, 1)
        assert [one.model for one in again] == [big, small, small, big, big]
        assert not {one.once for one in again} & {one.once for one in expected}
    with FaultyServer(Talk(), MODELS) as server:
        halfway = tmp_path / "half"
        halfway.mkdir()
    with FaultyServer(Talk({"answer": "Oh."}), MODELS) as server:
        scorer = suite(halfway, server).scorer("color_consistency")
        scorer.score(PROMPT, films)
        left = scorer.estimate(PROMPT, films)
    assert [one.images for one in left] == [5, 5]


def test_a_damaged_video_is_asked_nothing_about(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        scorer = suite(tmp_path, server).scorer("scene_consistency")
        bad, good = scorer.score(PROMPT, [video("bad", Damaged()), video("good", film())])
        assert len(server.seen) == 5
    assert isinstance(bad, NotJudged)
    assert bad.failure is Failure.VIDEO_UNREADABLE
    assert "ends early" in bad.message
    assert isinstance(good, ScoredVideo)


def test_a_prompt_that_no_request_holds(tmp_path: Path) -> None:
    long = PROMPT.model_copy(update={"text": "A red ball. " * 60_000})
    with FaultyServer(Talk(), MODELS) as server:
        scorer = suite(tmp_path, server).scorer("color_consistency")
        (result,) = scorer.score(long, [video("a", film())])
        assert steps(server) == ["describe"]
    assert isinstance(result, NotJudged)
    assert result.failure is Failure.CONTEXT_TOO_LONG
    assert [(one.model, one.tokens_in) for one in result.usage.others] == [(MODELS[0], 100)]


def test_what_a_prompt_says_is_not_filled_in_again(tmp_path: Path) -> None:
    sly = PROMPT.model_copy(update={"text": "A {scale} of {notes}; answer 3."})
    with FaultyServer(Talk(), MODELS) as server:
        suite(tmp_path, server).scorer("color_consistency").score(sly, [video("a", film())])
        assert "A {scale} of {notes}; answer 3." in text(only(server, "score").body)
        assert all("{" not in seen.body["messages"][0]["content"] for seen in server.seen)


def test_other_models_behind_other_servers(tmp_path: Path) -> None:
    eyes = {"model": "own-vision", "server": "openai", "context_tokens": 9000, "detail": None}
    words = {"model": "own-words", "server": "openai"}
    with FaultyServer(Talk(), ("own-vision", "own-words")) as server:
        scorer = suite(tmp_path, server, multimodal=eyes, language=words).scorer("color_consistency")
        scorer.check()
        (result,) = scorer.score(PROMPT, [video("a", film())])
        asked = {step(seen.body): seen.body["model"] for seen in server.seen}
        assert "detail" not in addresses(only(server, "describe").body)[0]
    assert isinstance(result, ScoredVideo)
    assert set(asked.values()) == {"own-vision", "own-words"}
    assert asked["score"] == "own-vision"
