from __future__ import annotations

import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Failure
from tasks.statistics.trials import TiePolicy, points_of, settled, trial_pair, trials_of
from tests.tasks.statistics.making import judgement, pair, trial

ONE, TWO = pair(1), pair(2)


def test_answers_become_outcomes() -> None:
    rows = [
        judgement(ONE, "high", order="low_first", choice="second"),
        judgement(TWO, "low", order="high_first", choice="second"),
        judgement(TWO, "tie", order="low_first", choice="tie"),
        judgement(ONE, None, order="high_first", failure=Failure.CUT_OFF),
    ]
    trials = trials_of(rows, [ONE, TWO])
    assert [held.outcome for held in trials] == ["right", "wrong", "tie", "failed"]
    assert [held.preferred for held in trials] == ["high", "low", "tie", None]
    assert trials[3].failure is Failure.CUT_OFF
    assert trials[0].pair is ONE
    assert trials[0].who == ("judge", "s")


@pytest.mark.parametrize(("ties", "points"), [("half", 0.5), ("wrong", 0.0), ("dropped", None)])
def test_what_a_tie_counts(ties: TiePolicy, points: float | None) -> None:
    assert points_of(trial(ONE, "tie"), ties) == points


@pytest.mark.parametrize("ties", ["half", "wrong", "dropped"])
def test_a_failed_request_has_no_points(ties: TiePolicy) -> None:
    assert points_of(trial(ONE, "failed"), ties) is None
    assert points_of(trial(ONE, "right"), ties) == 1
    assert points_of(trial(ONE, "wrong"), ties) == 0


def test_a_request_that_failed_first_counts_by_its_answer() -> None:
    failed = judgement(ONE, None, failure=Failure.SERVER_DOWN)
    answered = judgement(ONE, "low")
    again = judgement(ONE, "high")
    assert settled([failed, answered]) == [answered]
    assert settled([answered, failed]) == [answered]
    assert settled([answered, again]) == [answered]
    later = judgement(ONE, None, failure=Failure.REFUSED)
    assert settled([failed, later]) == [later]


def test_where_both_are_equal_a_tie_is_right() -> None:
    equal = pair(3, gold_tie=True)
    rows = [
        judgement(equal, "tie", order="high_first", choice="tie"),
        judgement(equal, "high", order="low_first", choice="second"),
    ]
    trials = trials_of(rows, [equal])
    assert [held.outcome for held in trials] == ["right", "wrong"]
    assert [held.preferred for held in trials] == ["tie", "high"]


def test_a_pair_that_is_not_there_is_the_users_matter() -> None:
    with pytest.raises(UserInputError, match="pair-2, which is not among these 1 pairs"):
        trials_of([judgement(TWO, "high")], [ONE])


def test_a_pair_of_another_aspect_is_the_users_matter() -> None:
    with pytest.raises(UserInputError, match="for 'aesthetics', but it is a pair of 'color'"):
        trials_of([judgement(ONE, "high", aspect="aesthetics")], [ONE])


def test_no_judgements_give_no_trials() -> None:
    assert trials_of([], [ONE]) == ()


def test_facts_come_from_a_record() -> None:
    from storage_schemas.pair import PairRecord

    record = PairRecord.model_construct(
        pair_id="p",
        source_id="s",
        aspect="color",
        high_frames=90,
        fps=2.0,
        clips_degraded=5,
        strength="paper",
    )
    result = trial_pair(record, kept=True)
    assert (result.duration_s, result.clips, result.strength, result.kept) == (45.0, 5, "paper", True)
