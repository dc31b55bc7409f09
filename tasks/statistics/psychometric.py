"""Psychometric functions: accuracy as a function of the damage, with threshold, slope and lapse rate.

The damage of a pair is its *dose*: the strength of the operation, the number of degraded clips, or both. On a
logarithmic scale (doublings) accuracy rises from the guess rate, one half, to one minus the lapse rate, as a
cumulative normal distribution. The threshold is the dose in the middle between the two.

The posterior is computed on a grid of the parameters, with the priors of psignifit (Schütt, Harmeling, Macke
and Wichmann, Vision Research 2016), but for the width's. The interval is that of the profile likelihood:
quantiles of the posterior, which expects functions much wider than most are, covered 97 to 99 %. Answers of
one source are alike: the likelihood counts only as many answers as independent ones would say as much.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize
from scipy.special import ndtr

from tasks.statistics.intervals import ALPHA

#: Accuracy of a judge that sees nothing.
GUESS_RATE = 0.5
#: Standard deviations between 5 and 95 % of a normal distribution: the unit of the width.
_WIDTH_SDS = 2 * 1.6448536269514722
#: Lapse rates have a Beta distribution with 1 and this.
_LAPSE = 10
#: How much a doubling of the clips counts, in doublings of the strength.
_EXCHANGES = (0.0, 0.25, 0.5, 0.75, 1.0)
#: Nodes of threshold, width and lapse rate; more of them where the posterior is.
_COARSE, FINE = (41, 9, 7), (61, 21, 13)
#: Posterior mass outside the second grid, at each end.
_OUTSIDE = 1e-5

Axis = Literal["strength", "clips"]
Reached = Literal["reached", "below_smallest", "not_reached"]
Array = NDArray[np.float64]
#: Threshold and width in doublings, lapse rate, and exchange of clips for strength.
Parameters = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, order=True)
class Dose:
    """How strongly, and in how many clips, a pair is degraded; both are positive.

    Strengths of one operation are numbers on its scale, 1 for its full strength.
    """

    strength: float = 1.0
    clips: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The points, 0 to 1, of one answer on a pair with this dose, and the pair's source."""

    dose: Dose
    points: float
    source: Hashable


@dataclass(frozen=True)
class Ladder:
    """The doses of a release for one aspect.

    If strengths differ, the threshold is a strength, at `clips` degraded clips. Otherwise it is a number of
    clips. It is unknown how many clips make up for a lower strength; that is estimated too.

    Parameters
    ----------
    doses
        In ascending order, each once.
    clips
        The number of clips at which the threshold's strength applies.
    """

    doses: tuple[Dose, ...]
    clips: int = 1

    @classmethod
    def of(cls, doses: Iterable[Dose], clips: int = 1) -> Ladder:
        """Return the ladder of some doses in any order."""
        return cls(tuple(sorted(set(doses))), clips)

    @cached_property
    def axis(self) -> Axis:
        """Unit of the threshold."""
        return "strength" if len({dose.strength for dose in self.doses}) > 1 else "clips"

    @cached_property
    def exchanges(self) -> tuple[float, ...]:
        """The possible values of a doubling of the clips, in doublings of the strength."""
        if self.axis == "clips":
            return (1.0,)
        return _EXCHANGES if len({dose.clips for dose in self.doses}) > 1 else (0.0,)

    def positions(self, exchanges: Array) -> Array:
        """Return each dose on the logarithmic axis of the threshold, shape ``(exchanges, doses)``."""
        if self.axis == "clips":
            return np.log2([[dose.clips for dose in self.doses]]) + 0 * exchanges[:, None]
        strengths = np.log2([dose.strength for dose in self.doses])
        clips = np.log2([dose.clips / self.clips for dose in self.doses])
        return strengths + exchanges[:, None] * clips

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The lowest and highest number of the axis."""
        numbers = [float(getattr(dose, self.axis)) for dose in self.doses]
        return min(numbers), max(numbers)

    @cached_property
    def steps(self) -> tuple[float, float]:
        """The smallest step between neighbours and the whole range, in doublings.

        Raises
        ------
        ValueError
            If all doses are equal.
        """
        numbers = np.log2(sorted({float(getattr(dose, self.axis)) for dose in self.doses}))
        if len(numbers) < 2:
            raise ValueError("a psychometric function needs two doses or more")
        return float(np.diff(numbers).min()), float(numbers[-1] - numbers[0])


@dataclass(frozen=True, slots=True)
class PsychometricFit:
    """A fitted psychometric function.

    Parameters
    ----------
    axis
        What `threshold`, `low` and `high` are numbers of.
    threshold
        The most probable one, in the middle between guess rate and one minus the lapse rate.
    low, high
        Its 95 % interval (:meth:`Grid.interval`); None beyond the doses of the ladder, both with fewer than
        two sources.
    reached
        ``below_smallest`` if the most probable threshold, or the median of its posterior, is below the lowest
        dose, ``not_reached`` if one of them is above the highest.
    width
        Doublings of the dose from 5 to 95 % of the rise.
    lapse
        How far the highest accuracy is below 1. Twice as many answers are given without looking.
    exchange
        How much a doubling of the clips counts, in doublings of the strength; None if one of them is fixed.
    answers, sources
        Number of answers and of their sources.
    design_effect
        By how much the variance of the threshold exceeds that of independent answers.
    """

    axis: Axis
    threshold: float
    low: float | None
    high: float | None
    reached: Reached
    width: float
    lapse: float
    exchange: float | None
    answers: int
    sources: int
    design_effect: float

    @property
    def slope(self) -> float:
        """How much a doubling of the dose adds to the accuracy at the threshold."""
        return (1 - GUESS_RATE - self.lapse) * _WIDTH_SDS / (self.width * math.sqrt(2 * math.pi))

    def accuracy(self, numbers: Sequence[float]) -> list[float]:
        """Return the fitted accuracy at some numbers of the axis."""
        found = accuracy_at(np.asarray(numbers, np.float64), self.threshold, self.width, self.lapse)
        return [float(one) for one in found]


def accuracy_at(numbers: Array, threshold: float, width: float, lapse: float) -> Array:
    """Return the accuracy of a psychometric function at some numbers of its axis."""
    risen: Array = ndtr(_WIDTH_SDS * (np.log2(numbers) - math.log2(threshold)) / width)
    return GUESS_RATE + (1 - GUESS_RATE - lapse) * risen


@dataclass(frozen=True)
class Grid:
    """Combinations of parameters with their prior weights, and the accuracy of each at each dose.

    Parameters
    ----------
    thresholds, widths, lapses, exchanges
        The nodes; thresholds and widths in doublings.
    prior
        Logarithm of each combination's weight, shape of the four.
    accuracy
        Shape of the four and doses.
    """

    ladder: Ladder
    thresholds: Array
    widths: Array
    lapses: Array
    exchanges: Array
    prior: Array
    accuracy: Array

    @classmethod
    def over(cls, ladder: Ladder, thresholds: Array, widths: Array, lapses: Array) -> Grid:
        """Return the grid of some nodes."""
        exchanges = np.array(ladder.exchanges)
        smallest, whole = ladder.steps
        low, high = math.log2(ladder.ends[0]), math.log2(ladder.ends[1])
        with np.errstate(divide="ignore"):
            prior = (
                np.log(_threshold_prior(thresholds, low, high) * np.gradient(thresholds))[:, None, None, None]
                + np.log(_width_prior(widths, smallest, whole) * np.gradient(widths))[:, None, None]
                + np.log(_lapse_prior(lapses) * np.gradient(lapses))[:, None]
                - math.log(len(exchanges))
            ) + 0 * exchanges
        positions = ladder.positions(exchanges)
        deviates = _WIDTH_SDS * (positions[None, None] - thresholds[:, None, None, None])
        risen = ndtr(deviates / widths[:, None, None])[:, :, None]
        accuracy = GUESS_RATE + (1 - GUESS_RATE - lapses[:, None, None]) * risen
        return cls(ladder, thresholds, widths, lapses, exchanges, prior, accuracy)

    def best(self, posterior: Array) -> Parameters:
        """Return the most probable combination."""
        at = np.unravel_index(int(posterior.argmax()), posterior.shape)
        return (
            float(self.thresholds[at[0]]),
            float(self.widths[at[1]]),
            float(self.lapses[at[2]]),
            float(self.exchanges[at[3]]),
        )

    @cached_property
    def logs(self) -> tuple[Array, Array]:
        """Logarithms of the chances of a right and a wrong answer, shape ``(combinations, doses)``."""
        flat = self.accuracy.reshape(-1, self.accuracy.shape[-1])
        return np.log(flat), np.log1p(-flat)

    def posterior(self, right: Array, wrong: Array, weight: float = 1.0) -> Array:
        """Return the probability of each combination, shape of the four parameters.

        Parameters
        ----------
        right, wrong
            Sum of points and of points lost at each dose.
        weight
            Points for each answer.
        """
        yes, no = self.logs
        logs = self.prior + weight * (yes @ right + no @ wrong).reshape(self.prior.shape)
        mass = np.exp(logs - logs.max())
        return np.asarray(mass / mass.sum(), np.float64)

    def quantiles(self, posterior: Array, shares: Sequence[float]) -> Array:
        """Return quantiles of the threshold, in doublings."""
        return _quantiles(self.thresholds, posterior.sum(axis=(1, 2, 3)), shares)

    def interval(self, right: Array, wrong: Array, sources: int, weight: float = 1.0) -> tuple[float, float]:
        """Return the thresholds that a likelihood-ratio test does not reject at 5 %, in doublings.

        Each threshold has the likelihood of the best other parameters. Lapse rates count as their prior
        has it, because answers at low doses do not show them. As the answers of few sources are themselves
        uncertain, the root of the ratio has a t distribution, as means have in `tasks.statistics.intervals`.

        Parameters
        ----------
        right, wrong, weight
            As in :meth:`posterior`.
        sources
            Number of the answers' sources.
        """
        yes, no = self.logs
        logs = weight * (yes @ right + no @ wrong).reshape(self.prior.shape)
        with np.errstate(divide="ignore"):
            logs = logs + np.log(_lapse_prior(self.lapses))[:, None]
        profile = logs.max(axis=(1, 2, 3))
        limit = profile.max() - float(stats.t.isf(ALPHA / 2, max(1, sources - 1))) ** 2 / 2
        best = int(profile.argmax())
        below, above = profile[: best + 1], profile[best:]
        return (
            _crossing(self.thresholds[: best + 1][::-1], below[::-1], limit),
            _crossing(self.thresholds[best:], above, limit),
        )


@lru_cache(maxsize=32)
def coarse_grid(ladder: Ladder) -> Grid:
    """Return a grid over everything that the prior allows, the same object for equal ladders."""
    smallest, whole = ladder.steps
    low, high = math.log2(ladder.ends[0]), math.log2(ladder.ends[1])
    few, some, less = _COARSE
    # no node where the prior is 0
    thresholds = np.linspace(low - whole / 2, high + whole / 2, few + 2)[1:-1]
    widths = np.geomspace(smallest, 3 * whole, some + 2)[1:-1]
    lapses = stats.beta.ppf((np.arange(less) + 0.5) / less, 1, _LAPSE)
    return Grid.over(ladder, thresholds, widths, lapses)


def _threshold_prior(thresholds: Array, low: float, high: float) -> Array:
    """Return 1 within the doses, falling to 0 over half their range."""
    beyond = np.maximum(low - thresholds, thresholds - high) / (high - low)
    return np.where(beyond <= 0, 1.0, np.where(beyond < 0.5, (1 + np.cos(2 * np.pi * beyond)) / 2, 0.0))


def _width_prior(widths: Array, smallest: float, whole: float) -> Array:
    """Return 1 / width from twice the smallest step to the whole range, less down to one and up to three.

    psignifit's is even there, so that on a long ladder it expects functions as wide as the ladder.
    """
    rising = (1 - np.cos(np.pi * (widths - smallest) / smallest)) / 2
    falling = (1 + np.cos(np.pi / 2 * (widths - whole) / whole)) / 2
    inner = np.where(widths < 2 * smallest, rising, 1.0)
    allowed = np.where(widths >= whole, falling, inner)
    return np.where((widths >= smallest) & (widths <= 3 * whole), allowed / widths, 0.0)


def _lapse_prior(lapses: Array) -> Array:
    density: Array = _LAPSE * (1 - lapses) ** (_LAPSE - 1)
    return density


def _quantiles(nodes: Array, mass: Array, shares: Sequence[float]) -> Array:
    """Return quantiles of a distribution over evenly spaced nodes, each the middle of its part."""
    half = (nodes[1] - nodes[0]) / 2
    edges = np.concatenate([[nodes[0] - half], nodes + half])
    found: Array = np.interp(shares, np.concatenate([[0.0], np.cumsum(mass)]), edges)
    return found


def _crossing(nodes: Array, profile: Array, limit: float) -> float:
    """Return where a profile, from its highest node on, first falls below a limit; else the last node."""
    under = np.flatnonzero(profile < limit)
    if not under.size:
        return float(nodes[-1])
    at = int(under[0])
    share = (profile[at - 1] - limit) / (profile[at - 1] - profile[at])
    return float(nodes[at - 1] + share * (nodes[at] - nodes[at - 1]))


def tally(ladder: Ladder, answers: Iterable[Answer]) -> tuple[Array, Array]:
    """Return the sums of points and of points lost at each dose of a ladder."""
    at = {dose: index for index, dose in enumerate(ladder.doses)}
    right, wrong = np.zeros(len(at)), np.zeros(len(at))
    for answer in answers:
        right[at[answer.dose]] += answer.points
        wrong[at[answer.dose]] += 1 - answer.points
    return right, wrong


def fit_psychometric(ladder: Ladder, answers: Sequence[Answer]) -> PsychometricFit | None:
    """Fit a psychometric function to answers.

    Parameters
    ----------
    answers
        Each on a dose of the ladder; several on one pair, or on one source, are allowed.

    Returns
    -------
    PsychometricFit or None
        None without answers, or if the ladder has one dose only.
    """
    if not answers or len({getattr(dose, ladder.axis) for dose in ladder.doses}) < 2:
        return None
    right, wrong = tally(ladder, answers)
    best = _most_probable(focused_grid(ladder, right, wrong), right, wrong)
    sources = len({answer.source for answer in answers})
    effect = design_effect(ladder, answers, best)
    grid = focused_grid(ladder, right, wrong, 1 / effect, FINE)
    posterior = grid.posterior(right, wrong, 1 / effect)
    low, high = (2**at for at in grid.interval(right, wrong, sources, 1 / effect))
    middle = 2 ** float(grid.quantiles(posterior, [0.5])[0])
    below, above = ladder.ends
    threshold, width, lapse, exchange = best
    reached: Reached = "reached"
    if max(middle, 2**threshold) > above:
        reached = "not_reached"
    elif min(middle, 2**threshold) < below:
        reached = "below_smallest"
    return PsychometricFit(
        axis=ladder.axis,
        threshold=2**threshold,
        low=low if sources > 1 and below <= low <= above else None,
        high=high if sources > 1 and below <= high <= above else None,
        reached=reached,
        width=width,
        lapse=lapse,
        exchange=exchange if len(ladder.exchanges) > 1 else None,
        answers=len(answers),
        sources=sources,
        design_effect=effect,
    )


def focused_grid(
    ladder: Ladder, right: Array, wrong: Array, weight: float = 1.0, count: tuple[int, int, int] = _COARSE
) -> Grid:
    """Return a grid over where the posterior is.

    Parameters
    ----------
    right, wrong, weight
        As in :meth:`Grid.posterior`.
    count
        Nodes of threshold, width and lapse rate.
    """
    grid = coarse_grid(ladder)
    posterior = grid.posterior(right, wrong, weight)
    smallest, whole = ladder.steps
    low, high = math.log2(ladder.ends[0]), math.log2(ladder.ends[1])
    limits = ((low - whole / 2, high + whole / 2), (smallest, 3 * whole), (0.0, 0.5))
    nodes = []
    for axis, axis_nodes in enumerate((grid.thresholds, grid.widths, grid.lapses)):
        mass = posterior.sum(axis=tuple(other for other in range(4) if other != axis))
        inside = np.flatnonzero((np.cumsum(mass) > _OUTSIDE) & (np.cumsum(mass[::-1])[::-1] > _OUTSIDE))
        # to the neighbour without mass, or to the end of the prior
        padded = np.concatenate([[limits[axis][0]], axis_nodes, [limits[axis][1]]])
        ends = padded[[inside[0], inside[-1] + 2]]
        parts = np.arange(1, 2 * count[axis], 2) / (2 * count[axis])
        if axis == 0:
            nodes.append(ends[0] + parts * (ends[1] - ends[0]))
        elif axis == 1:  # most widths are small: the wide ones need no nodes as close
            nodes.append(ends[0] * (ends[1] / ends[0]) ** parts)
        else:  # lapse rates are mostly small
            root, last = np.sqrt(ends)
            nodes.append((root + parts * (last - root)) ** 2)
    return Grid.over(ladder, *nodes)


def _most_probable(grid: Grid, right: Array, wrong: Array) -> Parameters:
    """Return the parameters of the highest posterior density: threshold, width, lapse and exchange."""
    ladder = grid.ladder
    smallest, whole = ladder.steps
    ends = math.log2(ladder.ends[0]), math.log2(ladder.ends[1])

    def loss(given: Array) -> float:
        threshold, width, lapse = given[:3]
        exchange = given[3:] if len(given) > 3 else np.array(ladder.exchanges)
        prior = _threshold_prior(given[:1], *ends)[0] * _width_prior(given[1:2], smallest, whole)[0]
        prior *= _lapse_prior(lapse)
        if prior <= 0:
            return math.inf
        chance = _accuracy(ladder, (float(threshold), float(width), float(lapse), float(exchange[0])))
        return -math.log(prior) - float(right @ np.log(chance) + wrong @ np.log1p(-chance))

    best = grid.best(grid.posterior(right, wrong))
    start = list(best if len(ladder.exchanges) > 1 else best[:3])
    bounds = [(None, None), (smallest, 3 * whole), (0.0, 0.5)]
    bounds += [(ladder.exchanges[0], ladder.exchanges[-1])] * (len(start) - 3)
    options = {"xatol": 1e-5, "fatol": 1e-8, "maxiter": 4000}
    # without lapses there may be a second maximum
    starts = (start, [*start[:2], 0.0, *start[3:]])
    optima = [minimize(loss, one, method="Nelder-Mead", bounds=bounds, options=options) for one in starts]
    found = min(optima, key=lambda one: float(one.fun)).x
    exchange = float(found[3]) if len(found) > 3 else ladder.exchanges[0]
    return float(found[0]), float(found[1]), float(found[2]), exchange


def _accuracy(ladder: Ladder, parameters: Parameters) -> Array:
    """Return the accuracy at each dose."""
    threshold, width, lapse, exchange = parameters
    positions = ladder.positions(np.array([exchange]))[0]
    risen = ndtr(_WIDTH_SDS * (positions - threshold) / width)
    chances: Array = np.clip(GUESS_RATE + (1 - GUESS_RATE - lapse) * risen, 1e-9, 1 - 1e-9)
    return chances


def design_effect(ladder: Ladder, answers: Sequence[Answer], parameters: Parameters) -> float:
    """Return the design effect of one source's answers on the threshold; 1 or more.

    It is the variance of the score of the threshold summed by source, over that of independent answers.
    """
    clusters = {answer.source for answer in answers}
    if len(clusters) in (1, len(answers)):
        return 1.0
    chance = _accuracy(ladder, parameters)
    threshold, width, lapse, exchange = parameters
    deviates = _WIDTH_SDS * (ladder.positions(np.array([exchange]))[0] - threshold) / width
    rises = (1 - GUESS_RATE - lapse) * stats.norm.pdf(deviates)
    spread = chance * (1 - chance)
    at = {dose: index for index, dose in enumerate(ladder.doses)}
    sums: dict[Hashable, float] = {}
    information = 0.0
    for answer in answers:
        index = at[answer.dose]
        score = rises[index] * (answer.points - chance[index]) / spread[index]
        sums[answer.source] = sums.get(answer.source, 0.0) + score
        information += rises[index] ** 2 / spread[index]
    count = len(clusters)
    if information <= 0:
        return 1.0
    factor = count / (count - 1) * sum(one**2 for one in sums.values()) / information
    return float(max(1.0, factor))
