"""The choice of pairs that say most about a threshold, and what simulated judges show of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pytest
from scipy.special import ndtr

from storage_schemas.rng import keyed_rng
from tasks.statistics.adaptive import LadderPair, Search, expected_pairs
from tasks.statistics.psychometric import Dose, Ladder, fit_psychometric
from tests.tasks.statistics.making import known

STRENGTHS = tuple(2.0 ** (-step / 2) for step in range(13))
Points = dict[str, Sequence[float]]


def search_of(sources: int, clips: Sequence[int] = (5,), precision: float = 2.0) -> Search:
    doses = [Dose(strength, count) for strength in STRENGTHS for count in clips]
    pairs = [
        LadderPair(f"{source}-{dose.strength:.4f}-{dose.clips}", f"film-{source}", dose)
        for source in range(sources)
        for dose in doses
    ]
    return Search(Ladder.of(doses, 5), tuple(pairs), precision)


def answer(pair: LadderPair, threshold: float, width: float = 1.2, lapse: float = 0.02) -> list[float]:
    """A keyed answer of a judge with a known function; the clips do not matter to it."""
    deviate = 3.29 * math.log2(pair.dose.strength / threshold) / width
    chance = 0.5 + (0.5 - lapse) * float(ndtr(deviate))
    return [float(keyed_rng("judge", threshold, pair.pair_id).random() < chance)]


def finished(search: Search, threshold: float, points: Points | None = None) -> Points:
    points = {} if points is None else points
    while pairs := search.next_pairs(points):
        assert not {pair.pair_id for pair in pairs} & set(points)
        points |= {pair.pair_id: answer(pair, threshold) for pair in pairs}
    return points


def test_search_finds_a_known_threshold_with_few_of_the_pairs() -> None:
    search = search_of(60)
    points = finished(search, 0.2)
    fit = known(fit_psychometric(search.ladder, search.answers(points)))
    assert search.ending(points) == "precise"
    assert known(fit.low) < 0.2 < known(fit.high)
    assert known(fit.high) / known(fit.low) < 2.1
    assert len(points) < 0.3 * len(search.pairs)
    # sources share the answers
    counts = Counter(pair_id.split("-")[0] for pair_id in points)
    assert max(counts.values()) - min(counts.values()) <= 2


def test_next_pairs_follow_from_the_answers_alone() -> None:
    """A run that was stopped, or that finds answers of another run, continues from what there is."""
    search = search_of(20)
    first = search.next_pairs({})
    assert first == search.next_pairs({})
    points = {pair.pair_id: answer(pair, 0.2) for pair in reversed(first)}
    second = search.next_pairs(points)
    assert second == search.next_pairs(dict(reversed(points.items())))
    assert not {pair.pair_id for pair in second} & set(points)
    # half of a round, as after a kill
    some = dict(list(points.items())[:4])
    assert search.next_pairs(some, 3)


def test_judges_outside_of_the_ladder_end_soon() -> None:
    search = search_of(60)
    blind = finished(search, 500.0)
    assert search.ending(blind) == "not_reached"
    sharp = finished(search, 0.0001)
    assert search.ending(sharp) == "below_smallest"
    assert max(len(blind), len(sharp)) < 0.4 * len(search.pairs)


def test_search_ends_with_its_budget_or_its_pairs() -> None:
    search = search_of(3)
    assert search.ending(finished(search, 0.2)) == "exhausted"
    limited = Search(search.ladder, search.pairs, most_pairs=10)
    points = finished(limited, 0.2)
    assert (len(points), limited.ending(points)) == (10, "budget")


def test_pairs_without_answers_are_not_asked_again() -> None:
    search = search_of(4)
    failed: Points = {pair.pair_id: [] for pair in search.next_pairs({})}
    assert not {pair.pair_id for pair in search.next_pairs(failed)} & set(failed)
    everything: Points = {pair.pair_id: [] for pair in search.pairs}
    assert (search.next_pairs(everything), search.ending(everything)) == ((), "exhausted")


def test_ladder_of_clips_alone() -> None:
    doses = [Dose(clips=count) for count in (1, 2, 4, 8, 16)]
    pairs = [LadderPair(f"{n}-{dose.clips}", str(n), dose) for n in range(80) for dose in doses]
    search = Search(Ladder.of(doses), tuple(pairs))
    points: Points = {}
    while some := search.next_pairs(points):
        for pair in some:
            chance = 0.5 + 0.5 * float(ndtr(2 * math.log2(pair.dose.clips / 4)))
            points[pair.pair_id] = [float(keyed_rng("clips", pair.pair_id).random() < chance)]
    fit = known(fit_psychometric(search.ladder, search.answers(points)))
    assert (fit.axis, search.ending(points)) == ("clips", "precise")
    assert known(fit.low) < 4 < known(fit.high)


def test_expected_number_of_pairs_is_that_of_a_middling_judge() -> None:
    search = search_of(60)
    assert expected_pairs(search) == expected_pairs(search)
    assert 20 < expected_pairs(search) < 0.3 * len(search.pairs)
    assert expected_pairs(search_of(60, precision=1.5)) > expected_pairs(search)


@pytest.mark.slow
@pytest.mark.parametrize("doublings", [10, 6])
def test_intervals_of_searches_cover_known_thresholds(doublings: int) -> None:
    """Each draw is another threshold, width and lapse rate; the page of results has other numbers of them."""
    from bench.thresholds import simulated

    result = simulated(seed=3, judges=60, doublings=doublings, precision=1.5)
    assert 0.93 <= result.covered <= 0.97
    assert result.share <= 0.25
