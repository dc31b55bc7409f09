"""Psychometric functions fitted to answers at several doses of damage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from tasks.statistics.psychometric import (
    FINE,
    Answer,
    Dose,
    Ladder,
    PsychometricFit,
    coarse_grid,
    fit_psychometric,
    focused_grid,
    tally,
)
from tests.tasks.statistics.making import known

Counts = list[tuple[float, int, int]]

#: The example of psignifit's documentation: 13 contrasts, number of right answers, of 90 each.
CONTRASTS: Counts = [
    (0.0010, 45, 90), (0.0015, 50, 90), (0.0020, 44, 90), (0.0025, 44, 90), (0.0030, 52, 90),
    (0.0035, 53, 90), (0.0040, 62, 90), (0.0045, 64, 90), (0.0050, 76, 90), (0.0060, 79, 90),
    (0.0070, 88, 90), (0.0080, 90, 90), (0.0100, 90, 90),
]  # fmt: skip
FEW: Counts = [(1, 11, 20), (2, 12, 20), (5, 16, 20), (10, 19, 20)]
LAPSING: Counts = [(1, 20, 40), (2, 21, 40), (4, 30, 40), (8, 37, 40), (16, 36, 40)]


def answers_of(counts: Counts, repeats: int = 1) -> list[Answer]:
    """One source an answer; each is repeated so often."""
    found = []
    for number, right, of in counts:
        for place in range(of):
            answer = Answer(Dose(strength=number), float(place < right), (number, place))
            found += [answer] * repeats
    return found


def fitted(counts: Counts, repeats: int = 1) -> PsychometricFit:
    answers = answers_of(counts, repeats)
    return known(fit_psychometric(Ladder.of(answer.dose for answer in answers), answers))


@pytest.mark.parametrize(
    ("counts", "threshold", "width", "lapse", "interval"),
    [
        # psignifit 4.3, computed once: 2AFC, cumulative normal on log2 of the level, no overdispersion, and
        # its prior of the width divided by the width
        (CONTRASTS, -7.78182, 1.29875, 0.0, (-7.89885, -7.70694)),
        (FEW, 2.08590, 2.93103, 0.0, (0.49344, 2.61303)),
        (LAPSING, 1.86390, 1.86854, 0.07512, (1.21329, 2.42174)),
    ],
)
def test_fits_agree_with_psignifit(
    counts: Counts, threshold: float, width: float, lapse: float, interval: tuple[float, float]
) -> None:
    fit = fitted(counts)
    assert math.log2(fit.threshold) == pytest.approx(threshold, abs=0.002)
    assert (fit.width, fit.lapse) == (pytest.approx(width, rel=0.002), pytest.approx(lapse, abs=0.001))
    assert fit.reached == "reached"
    # its interval is of a coarser grid, whose nodes are 0.1 apart
    assert posterior_interval(counts) == pytest.approx(interval, abs=0.08)


def posterior_interval(counts: Counts) -> list[float]:
    """The quantiles of the threshold's posterior."""
    answers = answers_of(counts)
    ladder = Ladder.of(answer.dose for answer in answers)
    seen = tally(ladder, answers)
    grid = focused_grid(ladder, *seen, count=FINE)
    return grid.quantiles(grid.posterior(*seen), [0.025, 0.975]).tolist()


def test_posterior_agrees_with_the_integral_over_a_dense_grid() -> None:
    # 401 thresholds, 201 widths and 161 lapse rates, computed once
    for counts, interval in ((FEW, (0.54844, 2.67188)), (LAPSING, (1.25415, 2.46384))):
        assert posterior_interval(counts) == pytest.approx(interval, abs=0.012)


@pytest.mark.parametrize("counts", [CONTRASTS, FEW, LAPSING])
def test_interval_agrees_with_the_profile_over_dense_nodes(counts: Counts) -> None:
    fit = fitted(counts)
    doses = np.log2([dose for dose, _, _ in counts])
    right = np.array([right for _, right, _ in counts])
    wrong = np.array([of - right for _, right, of in counts])
    widths = np.linspace(np.diff(doses).min(), 3 * (doses[-1] - doses[0]), 200)[:, None, None]
    lapses = np.linspace(0, 0.4, 81)[1:, None]
    prior = stats.beta.logpdf(lapses[:, 0], 1, 10)

    def profile(threshold: float) -> float:
        chance = 0.5 + (0.5 - lapses) * special.ndtr(3.2897073 * (doses - threshold) / widths)
        return float((np.log(chance) @ right + np.log1p(-chance) @ wrong + prior).max())

    best = optimize.minimize_scalar(lambda at: -profile(at), bounds=(doses[0], doses[-1]), method="bounded")
    limit = -best.fun - stats.chi2.isf(0.05, 1) / 2
    for end, outside in ((fit.low, doses[0]), (fit.high, doses[-1])):
        expected = optimize.brentq(lambda at: profile(at) - limit, best.x, outside, xtol=1e-3)
        assert math.log2(known(end)) == pytest.approx(expected, abs=0.05)


def test_slope_is_the_rise_of_accuracy_over_a_doubling() -> None:
    fit = fitted(LAPSING)
    step = 1e-4
    below, above = fit.accuracy([fit.threshold * 2**-step, fit.threshold * 2**step])
    assert fit.slope == pytest.approx((above - below) / (2 * step), rel=1e-4)
    assert fit.accuracy([fit.threshold]) == pytest.approx([0.75 - fit.lapse / 2])


def test_repeated_answers_say_no_more_than_one() -> None:
    once, thrice = fitted(LAPSING), fitted(LAPSING, repeats=3)
    assert thrice.answers == 3 * once.answers
    assert (thrice.sources, once.design_effect) == (once.sources, 1.0)
    assert thrice.design_effect == pytest.approx(3, rel=0.15)
    widths = [math.log2(known(fit.high) / known(fit.low)) for fit in (once, thrice)]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)


def test_a_source_alone_has_no_interval() -> None:
    answers = [Answer(Dose(clips=n), float(n > 2), "film") for n in (1, 2, 4, 8) for _ in range(5)]
    fit = known(fit_psychometric(Ladder.of(answer.dose for answer in answers), answers))
    assert (fit.axis, fit.low, fit.high, fit.sources) == ("clips", None, None, 1)
    assert 2 < fit.threshold < 4


def test_thresholds_outside_of_the_ladder() -> None:
    blind = fitted([(0.25, 20, 40), (0.5, 20, 40), (1, 20, 40)])
    assert (blind.reached, blind.high) == ("not_reached", None)
    sharp = fitted([(0.25, 40, 40), (0.5, 40, 40), (1, 40, 40)])
    assert (sharp.reached, sharp.low) == ("below_smallest", None)


def test_most_probable_threshold_outside_of_the_ladder_is_not_reached() -> None:
    # the median of the posterior is inside
    fit = fitted([(0.2, 5, 9), (0.4, 5, 9), (0.7, 6, 9), (1, 6, 9)])
    assert (fit.threshold > 1, fit.reached) == (True, "not_reached")


def test_nothing_to_fit() -> None:
    assert fit_psychometric(Ladder.of([Dose(1.0), Dose(0.5)]), []) is None
    assert fit_psychometric(Ladder.of([Dose(1.0)]), [Answer(Dose(1.0), 1.0, 0)]) is None


def test_two_axes_share_one_threshold() -> None:
    """With an exchange of one half, four times the clips make up for half the strength."""
    doses = [Dose(strength, clips) for strength in (0.25, 0.5, 1.0, 2.0) for clips in (1, 4, 16)]
    ladder = Ladder.of(doses, clips=4)
    rng = np.random.default_rng(3)
    answers = []
    for source in range(60):
        for dose in doses:
            place = math.log2(dose.strength) + 0.5 * math.log2(dose.clips / 4)
            chance = 0.5 + 0.5 * float(1 / (1 + math.exp(-3 * (place + 1))))
            answers.append(Answer(dose, float(rng.random() < chance), source))
    fit = known(fit_psychometric(ladder, answers))
    assert fit.axis == "strength"
    assert known(fit.low) < 0.5 < known(fit.high)
    assert known(fit.exchange) == pytest.approx(0.5, abs=0.15)
    # of one number of clips nothing is known about the other axis
    some = [answer for answer in answers if answer.dose.clips == 4]
    alone = known(fit_psychometric(Ladder.of((answer.dose for answer in some), clips=4), some))
    assert (alone.exchange, alone.axis) == (None, "strength")


def test_posterior_is_a_distribution_and_the_order_of_answers_does_not_matter() -> None:
    answers = answers_of(FEW)
    ladder = Ladder.of(answer.dose for answer in answers)
    assert coarse_grid(ladder) is coarse_grid(Ladder.of(reversed(ladder.doses)))
    assert fit_psychometric(ladder, answers) == fit_psychometric(ladder, answers[::-1])
    grid = coarse_grid(ladder)
    assert grid.posterior(np.zeros(4), np.zeros(4)).sum() == pytest.approx(1)
