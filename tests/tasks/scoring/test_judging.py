"""A judgement's row has what models said and what was paid, also where there is no answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import Reason, SetAside
from storage_schemas.judgements import Failure, Judgement
from tasks.llm.usage import Estimate, ModelUsage, NotJudged, Price, Prices, Usage
from tasks.scoring.base import AspectText, Evaluator, JudgeAnswer, PairwiseJudge, PointwiseScorer, Score
from tasks.scoring.judging import Judging, JudgingWork
from tasks.scoring.registry import EvaluatorChoice
from tasks.scoring.request import PairFacts, Request
from tasks.scoring.setup import Setup
from tests.tasks.scoring.kinds import NumberedPairs, Scripted, new_store

#: A dollar a token.
PRICES = Prices(models={"toy": Price(input_per_million=1e6, output_per_million=1e6)})
TALK = {"conversation": [{"step": "look", "answer": "No JSON.", "failure": "not_understood"}]}


def failure(**fields: Any) -> NotJudged:
    usage = Usage(others=(ModelUsage("toy", 3, 4),))
    return NotJudged(
        Failure.NOT_UNDERSTOOD, "look: the answer is not JSON", "No JSON.", usage=usage, **fields
    )


class Unable(Scripted, PairwiseJudge):
    name = "unable"

    def compare(self, prompt: str, first: Any, second: Any, aspect: AspectText) -> JudgeAnswer:
        raise failure(details=TALK)


class Scores(Scripted, PointwiseScorer):
    """Scores videos in turn by what is planned."""

    name = "scores"

    def __init__(self, *planned: Score | NotJudged) -> None:
        self.planned = list(planned)

    def estimate(self, prompt: str, first: Any, second: Any, aspect: AspectText) -> Estimate:
        return Estimate(model="toy")

    def score(self, prompt: str, video: Any, aspect: AspectText) -> Score:
        planned = self.planned.pop(0)
        if isinstance(planned, NotJudged):
            raise planned
        return planned


class CannotRead(Scripted, PairwiseJudge):
    name = "cannot-read"

    def compare(self, prompt: str, first: Any, second: Any, aspect: AspectText) -> JudgeAnswer:
        raise self.problem

    def __init__(self, problem: Exception) -> None:
        self.problem = problem


@pytest.mark.parametrize(
    ("problem", "failure"),
    [
        (SetAside(Reason.UNDECODABLE_VIDEO, "frame 3 cannot be decoded"), Failure.VIDEO_UNREADABLE),
        (SetAside(Reason.STORAGE_AWAY, "the file system does not answer"), Failure.INTERNAL_ERROR),
        (OSError("gone"), Failure.VIDEO_UNREADABLE),
    ],
)
def test_a_video_that_cannot_be_read_is_a_row_with_its_reason(
    folder: Path, problem: Exception, failure: Failure, caplog: pytest.LogCaptureFixture
) -> None:
    made, _ = row(judging(folder, CannotRead(problem)))
    assert (made.failure, made.cost_usd) == (failure, 0.0)
    assert str(problem) in made.message
    assert "Traceback" not in caplog.text


def test_an_error_of_an_evaluator_is_traced_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    kind = judging(folder, CannotRead(RuntimeError("fell over")))
    for high in ("h", "i"):
        assert row(kind, high)[0].message == "RuntimeError: fell over"
    assert caplog.text.count("Traceback") == 1
    assert "on pair il failed:\nRuntimeError: fell over" in caplog.text


def test_the_cost_of_an_answer_that_was_not_counted_is_unknown_and_estimated(folder: Path) -> None:
    usage = Usage(tokens_out=2, uncounted=1, estimated_in=50)
    made, details = row(judging(folder, Scores(Score(0.5, "toy", usage), Score(0.2, "toy", usage))))
    assert made.cost_usd is None
    assert details["estimated"] == {"tokens_in": 100, "tokens_out": 4, "usd": 104.0}
    assert made.estimated is not None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_store(tmp_path)


def judging(folder: Path, evaluator: Evaluator) -> Judging:
    work = JudgingWork("run", str(folder), PRICES, setup=Setup(store_path=str(folder)), pairs=NumberedPairs())
    return Judging(evaluator, evaluator.name, EvaluatorChoice(use="coin"), work)


def row(kind: Judging, high: str = "h", low: str = "l") -> tuple[Judgement, Mapping[str, Any]]:
    """Return the row of a pair, and its details."""
    facts = PairFacts(f"{high}{low}", "v", "a", "a", "d", high, low, 1.0)
    (made,) = kind.answer(Request("key", facts, "high_first"))
    return made, json.loads(made.details)


def test_the_conversation_of_a_failed_judgement_is_in_its_row(folder: Path) -> None:
    made, details = row(judging(folder, Unable()))
    assert made.failure is Failure.NOT_UNDERSTOOD
    assert (made.message, made.raw) == ("look: the answer is not JSON", "No JSON.")
    assert details == TALK
    assert (made.tokens_in, made.tokens_out, made.cost_usd) == (3, 4, 7.0)


def scored(value: float) -> Score:
    return Score(value, "toy", Usage(tokens_in=1, tokens_out=1), {"frames": 8})


def test_a_failed_score_has_the_conversations_on_both_videos_and_what_both_took(folder: Path) -> None:
    made, details = row(judging(folder, Scores(scored(0.5), failure(details=TALK))))
    assert made.failure is Failure.NOT_UNDERSTOOD
    assert details == {"high": {"frames": 8}, "low": TALK}
    assert (made.tokens_in, made.tokens_out, made.cost_usd) == (4, 5, 9.0)
    # a video that failed is paid for once
    kind = judging(folder, Scores(failure(details=TALK)))
    paid, _ = row(kind)
    again, details = row(kind, low="other")
    assert (paid.cost_usd, again.cost_usd) == (7.0, 0.0)
    assert again.failure is Failure.NOT_UNDERSTOOD
    assert details == {"high": TALK}
    # a score that is not a number has cost what it took
    made, details = row(judging(folder, Scores(scored(float("nan")))))
    assert (made.failure, made.cost_usd) == (Failure.NO_ANSWER, 2.0)
    assert details == {"high": {"frames": 8}}
