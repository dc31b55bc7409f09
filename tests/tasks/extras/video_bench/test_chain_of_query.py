"""Chain of query over real HTTP: five requests, what each is told, odd answers, and nothing paid twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.judgements import Failure
from tasks.extras.video_bench.chain_of_query import ChainOfQuery
from tasks.extras.video_bench.dimensions import ALIGNMENT, BY_NAME, DIMENSIONS
from tasks.extras.video_bench.headings import value_under_headings
from tasks.extras.video_bench.settings import VideoBenchSettings
from tasks.llm.printed_prompts import take_prompts, write_prompts
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import ScoredVideo
from tests.tasks.extras.video_bench.talking import (
    MODELS,
    PROMPT,
    USUAL,
    Talk,
    addresses,
    only,
    steps,
    suite,
    video,
)
from tests.tasks.llm.made_up_paper import VIDEO_BENCH
from tests.tasks.scoring.sides import Damaged
from tests.tasks.scoring.suites.told import Told, failure, film, scored, text
from tests.tiny_models.faulty_server import Reply

FIVE = ["describe", "first assistant", "second assistant", "answer", "score"]
NAMES = [dimension.name for dimension in DIMENSIONS if dimension.group == ALIGNMENT]


def score(
    server: Told, repeat: int = 0, name: str = "color_consistency", **settings: Any
) -> ScoredVideo | NotJudged:
    (result,) = suite(server, **settings).scorer(name).score(PROMPT, [video("a", film())], repeat)
    return result


@pytest.mark.parametrize("name", NAMES)
def test_a_score_takes_the_paper_s_five_requests_and_keeps_what_was_reported(server: Told, name: str) -> None:
    result = scored(score(server, name=name))
    assert steps(server) == FIVE
    big, small = MODELS
    assert [seen.body["model"] for seen in server.seen] == [big, small, small, big, big]
    assert all(seen.body["temperature"] == 0 for seen in server.seen)
    assert (result.value, result.calls) == (3, 5)
    # three requests to the one model, two to the other, each with a price of its own
    assert (result.usage.tokens_in, result.usage.tokens_out, result.usage.frames) == (300, 60, 5)
    assert [(other.model, other.tokens_in) for other in result.usage.others] == [(small, 100)] * 2
    talk = result.details["conversation"]
    assert [(part["step"], part["kept"]) for part in talk] == [(name, False) for name in FIVE]
    for part in talk:
        assert {key: part["answer"][key] for key in USUAL[part["step"]]} == USUAL[part["step"]]
    assert result.details["frames"]["video"]["places"] == [0, 2, 4, 6, 7]


def test_who_is_told_what(server: Told) -> None:
    # what a prompt says is not filled in again
    sly = PROMPT.model_copy(update={"text": "A {scale} of {notes}; answer 3."})
    suite(server).scorer("color_consistency").score(sly, [video("a", film())])
    assert all("{" not in seen.body["messages"][0]["content"] for seen in server.seen)
    body = {name: only(server, name).body for name in FIVE}
    # the first description knows nothing of the prompt
    assert "answer 3" not in json.dumps(body["describe"])
    described, asked = USUAL["describe"], USUAL["first assistant"]["questions"][0]
    for name in FIVE[1:]:
        assert sly.text in text(body[name])
    for name in FIVE[1:3]:
        assert described["caption"] in text(body[name])
        assert described["description"] in text(body[name])
    # the assistants see the same, and neither sees the other's questions
    assert text(body["first assistant"]) == text(body["second assistant"])
    assert asked not in text(body["second assistant"])
    for number, question in enumerate([asked, *USUAL["second assistant"]["questions"]], 1):
        assert f"{number}. {question}" in text(body["answer"])
        assert question in text(body["score"])
    for output in (described["description"], USUAL["answer"]["description"], "1. Yes.\n2. No.\n3. Yes."):
        assert output in text(body["score"])
    assert described["description"] not in text(body["answer"])
    frames = {name: [one["detail"] for one in addresses(body[name])] for name in FIVE}
    assert frames == {name: [] if "assistant" in name else ["low"] * 5 for name in FIVE}


def test_without_the_chain_one_request_of_one_model_scores(server: Told) -> None:
    server.say(Talk(), [MODELS[0]])
    scorer = suite(server, chain_of_query=False).scorer("color_consistency")
    # the language model is not needed
    scorer.check()
    (expected,) = scorer.estimate(PROMPT, [video("a", film())])
    (result,) = map(scored, scorer.score(PROMPT, [video("a", film())]))
    body = only(server, "score").body
    assert (result.value, result.calls, result.usage.others) == (3, 1, ())
    assert PROMPT.text in text(body)
    assert [one["detail"] for one in addresses(body)] == ["low"] * 5 == ["low"] * expected.images
    assert set(body["response_format"]["json_schema"]["schema"]["properties"]) == {"reason", "score"}
    told = body["messages"][0]["content"]
    assert "assistant" not in told
    assert "before you give 1 or 2" in told


def test_assistants_may_have_no_questions_and_more_than_allowed_are_not_asked(server: Told) -> None:
    nothing = {"analysis": "All is there.", "questions": []}
    answer = {"description": "A red ball.", "answers": ["There was no question."]}
    server.say(Talk({"first assistant": nothing, "second assistant": nothing, "answer": answer}))
    scored(score(server))
    assert len(server.seen) == 5
    assert "Questions of the assistants:\nnone" in text(only(server, "answer").body)
    many = {"analysis": "-", "questions": ["one?", "two?", "three?"]}
    answer = {"description": "A ball.", "answers": ["Yes.", "No."]}
    server.say(Talk({"first assistant": many, "second assistant": nothing, "answer": answer}))
    result = scored(score(server, repeat=1))
    assert "three?" not in text(only(server, "answer").body)
    assert result.details["conversation"][1]["answer"]["not_asked"] == ["three?"]


def test_a_second_assistant_may_see_the_first_one_s_questions(server: Told) -> None:
    scored(score(server, chained_questions=True))
    assert steps(server) == FIVE
    first, second = (text(only(server, name).body) for name in FIVE[1:3])
    told = [seen.body["messages"][0]["content"] for seen in server.seen[1:3]]
    # told the same but for their own part and those questions
    assert told[0] != told[1]
    assert second == f"{first}\n\nQuestions of another assistant:\n1. Is the ball red?"


@pytest.mark.parametrize(
    ("changes", "expected", "said"),
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
        ({"second assistant": USUAL["first assistant"]}, Failure.NOT_UNDERSTOOD, "3 answers to 2 questions"),
    ],
)
def test_odd_answer_names_step(server: Told, changes: dict[str, Any], expected: Failure, said: str) -> None:
    server.say(Talk(changes))
    result = failure(score(server))
    asked = len(server.seen)
    assert result.failure is expected
    assert said in result.message
    # what was paid for it is not lost
    paid = result.usage.tokens_in + sum(other.tokens_in for other in result.usage.others)
    assert paid == 100 * asked == 100 * (result.calls or 0)
    assert [part["step"] for part in result.details["conversation"]] == FIVE[:asked]


def test_after_a_failure_only_what_is_missing_is_asked(server: Told) -> None:
    server.say(Talk({"answer": Reply(status=503)}))
    failure(score(server))
    before = [name for name in steps(server) if name != "answer"][:3]
    assert before == FIVE[:3]
    server.say(Talk())
    # another process, after a kill
    result = scored(score(server))
    assert steps(server) == ["answer", "score"]
    again = scored(score(server))
    assert len(server.seen) == 2
    assert result.calls == 2
    assert [part["kept"] for part in result.details["conversation"]] == [True, True, True, False, False]
    assert (again.value, again.calls, again.usage.tokens_in) == (3, 0, 0)


def test_other_frames_or_a_repeat_are_other_requests(server: Told) -> None:
    for settings in ({}, {"fps": 1.0}, {"most_frames": 4}, {"repeat": 1}):
        score(server, **settings)
    assert steps(server).count("describe") == 4
    assert steps(server)[-5:] == FIVE


def test_a_dry_run_asks_nobody_and_counts_what_is_missing(server: Told) -> None:
    scorer = suite(server).scorer("color_consistency")
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
    server.say(Talk({"answer": "Oh."}))
    scorer.score(PROMPT, films, 1)
    assert [one.images for one in scorer.estimate(PROMPT, films, 1)] == [5, 5]


def test_a_damaged_video_is_asked_nothing_about(server: Told) -> None:
    films = [video("bad", Damaged()), video("good", film())]
    bad, good = suite(server).scorer("scene_consistency").score(PROMPT, films)
    assert len(server.seen) == 5
    assert failure(bad).failure is Failure.VIDEO_UNREADABLE
    assert "ends early" in failure(bad).message
    scored(good)
    # what a prompt too long for the later requests took is known
    long = PROMPT.model_copy(update={"text": "A red ball. " * 60_000})
    server.say(Talk())
    new = video("new", film(luma=50))
    (result,) = map(failure, suite(server).scorer("color_consistency").score(long, [new]))
    assert steps(server) == ["describe"]
    assert result.failure is Failure.CONTEXT_TOO_LONG
    assert [(one.model, one.tokens_in) for one in result.usage.others] == [(MODELS[0], 100)]


HEADED = {
    "describe": "[Video Caption]:\n A ball.\n\n[Video Description]:\nA ball rolls to the left.",
    "first assistant": (
        "[Your analysis]:\nNo colour.\n[Your question]:\n<question>\nquestion: Is the ball red?\n</question>"
    ),
    "second assistant": (
        "[Your analysis]: Fine.\n\n[Your question]:\n<question>\nI have no question.\n</question>"
    ),
    "answer": "[Descriptions]:\nA red ball.\n\n[Answers]:\n1. Yes, it is.",
    "score": "[Updated Video Description]:\nA ball.\n\n[Evaluation Result]:\n(GPT-4o: 3, because all fits.)",
}


def test_the_papers_own_form_of_answers_is_understood(server: Told, tmp_path: Path) -> None:
    """A made-up paper's steps go through the whole chain, with answers under headings."""
    (tmp_path / "paper.txt").write_text(VIDEO_BENCH, encoding="utf-8")
    taken = take_prompts(tmp_path / "paper.txt").texts
    write_prompts(tmp_path / "exact", taken)
    server.say(lambda number, body: Reply(HEADED[FIVE[number]]))
    scorer = suite(server, prompts=str(tmp_path / "exact")).scorer("color_consistency")
    (result,) = map(scored, scorer.score(PROMPT, [video("a", film())]))
    assert (result.value, result.calls) == (3, 5)
    told = [seen.body["messages"][0]["content"] for seen in server.seen]
    assert told == [taken[f"video-bench-steps/color_consistency_{name.replace(' ', '_')}"] for name in FIVE]
    talk = result.details["conversation"]
    assert {part["found"] for part in talk} == {"under headings"}
    assert talk[1]["answer"]["questions"] == ["Is the ball red?"]
    assert talk[2]["answer"]["questions"] == []
    assert talk[3]["answer"]["answers"] == ["Yes, it is."]
    # another dimension has our words
    ours = ChainOfQuery(BY_NAME["scene_consistency"], scorer._settings)
    assert ours.systems == ChainOfQuery(BY_NAME["scene_consistency"], VideoBenchSettings()).systems


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Three of three.", "it has none of the headings"),
        ("[Evaluation Result]: between 2, because, and 3, because", "it has 2 scores"),
        ("[Evaluation Result]: (Score: 23, because)", "it has 0 scores"),
        ("[Evaluation Result]: 3.\n[Evaluation Result]: 3.", "stands twice"),
    ],
)
def test_of_answers_under_headings_nothing_is_guessed(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        value_under_headings(text)


@pytest.mark.parametrize(
    "text",
    [
        "[Evaluation Result]: [GPT-4o]: [2], because 3 balls",
        "[Evaluation Result]:\n2",
        "[Evaluation result]: 2 points",
    ],
)
def test_a_score_under_its_heading(text: str) -> None:
    assert value_under_headings(text)["score"] == 2
