"""The simulated campaigns: the targets hold, and the table in docs/annotation.md is what they give."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import binom

from storage_schemas.errors import UserInputError
from tasks.annotation.simulation import BAD, Behaviour, Crowd, SimulatedCampaign, added_up, simulate
from tasks.statistics.intervals import printed_per_cent

DOCS = Path(__file__).parents[3] / "docs" / "annotation.md"
CROWD = Crowd(workers={Behaviour.GOOD: 95, **dict.fromkeys(BAD, 5)})
#: Those who are bad from the start, and do not cheat.
EASY = (Behaviour.LAZY, Behaviour.RANDOM, Behaviour.ALWAYS_A, Behaviour.CONTRARY)
FEWER = Crowd(workers={Behaviour.GOOD: 20, **dict.fromkeys(EASY, 2)}, pairs=100)


LATE = Crowd(workers={Behaviour.GOOD: 20, Behaviour.LATE_LAZY: 4}, pairs=130)
SMALL = Crowd(workers={Behaviour.GOOD: 6, Behaviour.CONTRARY: 1}, pairs=8)
#: Rules were tuned on other seeds.
FIRST_SEED, RUNS = 2000, 6
#: Shares of `FEWER` over 32 seeds, 2000 to 2011 and 3000 to 3019: pairs rightly decided, clear pairs kept,
#: bad workers found in time, good ones listed. Among the seeds the counts vary like binomial draws.
RIGHT, CLEAR_KEPT, IN_TIME, GOOD_LISTED = 0.975, 0.988, 0.949, 0.02


def at_least(share: float, of: int) -> int:
    """Return the count that all but one seed of a thousand reach."""
    return int(binom.ppf(0.001, of, share))


def at_most(share: float, of: int) -> int:
    """Return the count that all but one seed of a thousand keep below or reach."""
    return int(binom.ppf(0.999, of, share))


def assert_hardly_anybody_is_found(paper: SimulatedCampaign, pairs: int) -> None:
    assert (paper.answers, paper.checks, paper.decided) == (5 * pairs, 0, pairs)
    assert sum(paper.in_time.values()) <= 2
    assert paper.listed[Behaviour.ALWAYS_A] == paper.listed[Behaviour.GOOD] == 0
    assert paper.clear_kept < 0.75 * paper.clear


def assert_pairs_are_rightly_decided(strict: SimulatedCampaign, pairs: int) -> None:
    assert strict.decided == strict.pairs == pairs
    assert strict.right >= at_least(RIGHT, pairs)
    assert strict.clear_kept >= at_least(CLEAR_KEPT, strict.clear)
    # the checks are dear, and stopping early pays for a part of them
    assert strict.checks > 1.2 * pairs
    assert strict.answers < 1.5 * 5 * pairs


def assert_bad_are_found(strict: SimulatedCampaign) -> None:
    for kind in EASY:
        assert strict.in_time[kind] >= 0.9 * strict.workers[kind], kind
        assert strict.listed[kind] == strict.workers[kind], kind


def test_a_campaign_finds_bad_workers_soon_and_leaves_good_ones() -> None:
    strict = simulate(FEWER, "strict", FIRST_SEED + 2)
    assert_pairs_are_rightly_decided(strict, 100)
    assert sum(strict.in_time[kind] for kind in EASY) >= at_least(IN_TIME, 8)
    assert sum(strict.listed[kind] for kind in EASY) == 8
    assert strict.listed[Behaviour.GOOD] <= at_most(GOOD_LISTED, 20), "the share of many is below"
    assert sum(one.pairs for one in strict.certainty) == 100


def test_workers_who_become_lazy_are_found() -> None:
    strict = simulate(LATE, "strict", FIRST_SEED + 1)
    assert strict.in_time[Behaviour.LATE_LAZY] >= 2
    assert strict.listed[Behaviour.LATE_LAZY] == 4
    assert strict.listed[Behaviour.GOOD] <= at_most(GOOD_LISTED, 20)


def test_the_paper_s_rule_finds_hardly_anybody() -> None:
    assert_hardly_anybody_is_found(simulate(FEWER, "paper", FIRST_SEED + 1), 100)


def test_the_same_seed_gives_the_same_campaign() -> None:
    one, other = simulate(SMALL, "strict", 1), simulate(SMALL, "strict", 1)
    assert one == other
    assert simulate(SMALL, "strict", 2) != one
    both = added_up([one, other])
    assert (both.answers, both.workers) == (2 * one.answers, {Behaviour.GOOD: 12, Behaviour.CONTRARY: 2})


def test_too_few_workers_leave_pairs_undecided() -> None:
    few = simulate(Crowd(workers={Behaviour.GOOD: 2}, pairs=10), "strict", 0)
    assert (few.decided, few.kept) == (0, 0), "a pair needs three votes of different workers"
    with pytest.raises(UserInputError, match="needs workers"):
        simulate(Crowd(workers={Behaviour.GOOD: 0}), "paper", 0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tables_in_the_docs_are_what_the_simulation_gives() -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + RUNS)
    paper, strict = (
        added_up([simulate(CROWD, rule, seed) for seed in seeds]) for rule in ("paper", "strict")
    )
    assert_hardly_anybody_is_found(paper, RUNS * 500)
    assert_pairs_are_rightly_decided(strict, RUNS * 500)
    assert strict.listed[Behaviour.GOOD] <= 0.02 * strict.workers[Behaviour.GOOD]
    for kind in set(BAD) - {Behaviour.TIRED}:
        assert strict.listed[kind] >= 0.7 * strict.workers[kind], kind
    assert strict.listed[Behaviour.TIRED] >= 0.6 * strict.workers[Behaviour.TIRED]
    assert_bad_are_found(strict)
    assert strict.in_time[Behaviour.LATE_LAZY] >= 0.9 * strict.workers[Behaviour.LATE_LAZY]
    for one in strict.certainty:
        # three points, and three standard errors, which are large where few pairs are
        clear = one.clear / one.pairs
        assert abs(one.error) <= 0.03 + 3 * (clear * (1 - clear) / one.pairs) ** 0.5
    text = DOCS.read_text()
    for kind, number in CROWD.workers.items():
        found = (paper.in_time[kind], strict.in_time[kind], paper.listed[kind], strict.listed[kind])
        assert f"| {kind} | {RUNS * number} | {' | '.join(map(str, found))} |" in text
    for one in (paper, strict):
        shares = (one.kept / one.decided, one.right / one.pairs, one.clear_kept / one.clear)
        numbers = (f"{one.answers / RUNS:,.0f}", f"{one.checks / RUNS:,.0f}", *map(printed_per_cent, shares))
        assert f"| `{one.rule}` | {' | '.join(numbers)} |" in text
