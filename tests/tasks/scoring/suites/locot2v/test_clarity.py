"""Content clarity over real HTTP: rounds, what is shared, what is missing, and what is never zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage_schemas.judgements import Failure
from tasks.scoring.suites.base import ScoredVideo
from tasks.scoring.suites.locot2v.dimensions import CLARITY_NAMES
from tests.tasks.scoring.suites.locot2v.talking import MODELS, PROMPT, Talk, failure, score, steps, value
from tests.tiny_models.faulty_server import FaultyServer, Reply


def scores(*values: Any) -> dict[str, Any]:
    return {name: {"reason": "-", "score": one} for name, one in zip(CLARITY_NAMES, values, strict=True)}


def test_the_number_is_the_mean_of_the_rounds_over_four(tmp_path: Path) -> None:
    rounds = [scores(4, 3, 0, 1), scores(4, 2, 0, 1), scores(1, 1, 0, 4)]
    with FaultyServer(Talk(clarity=rounds), MODELS) as server:
        result = [score(tmp_path, server, name) for name in CLARITY_NAMES]
        # one request a round for all four
        assert steps(server) == ["clarity"] * 3
    assert [value(one) for one in result] == [0.75, 0.5, 0, 0.5]
    assert [one.calls for one in result if isinstance(one, ScoredVideo)] == [3, 0, 0, 0]
    assert isinstance(result[0], ScoredVideo)
    assert result[0].details["rounds"] == [4, 4, 1]


def test_each_round_has_a_seed_of_its_own_and_no_round_knows_the_prompt(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server, "theme_clarity")
        score(tmp_path, server, "theme_clarity", repeat=1)
        bodies = [seen.body for seen in server.seen]
    assert [(body["temperature"], body["seed"]) for body in bodies] == [
        (0.7, 0), (0.7, 1), (0.7, 2), (0.7, 1000), (0.7, 1001), (0.7, 1002)
    ]  # fmt: skip
    assert all(PROMPT.details["base"] not in str(body["messages"]) for body in bodies)


def test_a_server_that_wants_no_temperature_gets_none(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        model = {"model": "sees", "server": "s", "temperature": None}
        score(tmp_path, server, "theme_clarity", multimodal=model, round_temperature=None)
        assert len(server.seen) == 3
        assert not any({"temperature", "seed"} & set(seen.body) for seen in server.seen)


def test_more_rounds_later_pay_for_the_new_ones_only(tmp_path: Path) -> None:
    rounds = [scores(4, 0, 0, 0)] * 3 + [scores(0, 0, 0, 0)]
    with FaultyServer(Talk(clarity=rounds), MODELS) as server:
        assert value(score(tmp_path, server, "theme_clarity")) == 1
        assert value(score(tmp_path, server, "theme_clarity", rounds=4)) == 0.75
        assert len(server.seen) == 4


@pytest.mark.parametrize(
    "odd",
    [
        "Very clear.",
        scores(5, -1, "4", 2.5),
        scores(None, True, [4], {}),
        {"theme_clarity": 4},
        [],
        Reply('{"theme', finish_reason="length"),
        Reply(""),
        Reply(status=400, body=b'{"error": {"message": "bad image"}}'),
    ],
)
def test_a_failed_round_is_missing_and_never_zero(tmp_path: Path, odd: Any) -> None:
    answers = [scores(4, 4, 4, 4), Reply("[]") if odd == [] else odd, scores(2, 2, 2, 2)]
    with FaultyServer(Talk(clarity=answers), MODELS) as server:
        result = score(tmp_path, server, "logical_structure")
    assert isinstance(result, ScoredVideo)
    assert result.value == 0.75
    assert result.details["rounds"] == [4, None, 2]
    assert len(result.details["failed"]) == 1
    assert result.usage.tokens_in >= 200


def test_one_dimension_outside_the_scale_harms_no_other(tmp_path: Path) -> None:
    with FaultyServer(Talk(clarity=scores(9, 4, 4, 4)), MODELS) as server:
        result = failure(score(tmp_path, server, "theme_clarity"))
        assert result.failure is Failure.NOT_UNDERSTOOD
        assert value(score(tmp_path, server, "logical_structure")) == 1
        assert len(server.seen) == 3


def test_without_any_round_there_is_no_score(tmp_path: Path) -> None:
    with FaultyServer(Talk(clarity="no"), MODELS) as server:
        result = failure(score(tmp_path, server, "theme_clarity"))
    assert result.failure is Failure.NOT_UNDERSTOOD
    assert "round 3" in result.message
    assert sum(one.tokens_in for one in result.usage.others) == 300


def test_a_server_that_goes_away_costs_no_round(tmp_path: Path) -> None:
    away = [scores(4, 4, 4, 4), Reply(status=503)]
    with FaultyServer(Talk(clarity=away), MODELS) as server:
        result = failure(score(tmp_path, server, "theme_clarity"))
        assert result.failure is Failure.SERVER_DOWN
    with FaultyServer(Talk(), MODELS) as server:
        # the first round is kept, the other two are asked now
        assert value(score(tmp_path, server, "theme_clarity")) == pytest.approx((4 + 3 + 3) / 12)
        assert len(server.seen) == 2
