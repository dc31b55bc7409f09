"""A suite's scores next to people's ratings, its own repeats, and under a slight blur (Video-Bench,
section 6).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from storage_schemas.rng import keyed_rng
from tasks.scoring.suites.human_ratings import Rating, VideoKey
from tasks.statistics.correlations import Correlation, spearman
from tasks.statistics.intervals import Interval
from tasks.statistics.krippendorff import Alpha, RaterAnswer, alpha_of

#: Bootstrap draws, pairs per draw, and coverage of its interval (Video-Bench, 6.2 and table 9).
ROUNDS, DRAWN, COVERS = 1000, 100_000, 0.99
#: The machine's name among raters; a person of this name is distinguished.
MACHINE = "\0machine"

#: The machine's score of each video in one dimension.
Scores = Mapping[VideoKey, float]


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """Difference between the machine's scores and people's ratings.

    Parameters
    ----------
    pairs
        Pairs of a person's rating and the machine's score of the same video.
    mean
        Mean of the machine's score less the person's rating over all pairs.
    interval
        Middle 99 % of the bootstrap draws.
    """

    pairs: int
    mean: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class PeopleAlignment:
    """One dimension.

    Parameters
    ----------
    videos, ratings
        Videos that have both a score and a rating, and the ratings of these.
    spearman
        Of the machine's score and the mean of a video's ratings.
    people
        Krippendorff's α among people.
    with_machine
        α with the machine: each rating is paired with the machine's score of the same video, and with nothing
        else, so that the agreement of people among themselves does not count.
    difference
        None without pairs.
    """

    dimension: str
    videos: int
    ratings: int
    spearman: Correlation
    people: Alpha
    with_machine: Alpha
    difference: MeanDifference | None


def people_alignment(
    dimension: str, scale: tuple[int, int], ratings: Sequence[Rating], scores: Scores, seed: int = 0
) -> PeopleAlignment:
    """Return the machine's agreement with people in one dimension.

    Parameters
    ----------
    scale
        Lowest and highest value; scores between two whole numbers are rounded where answers are compared.
    ratings, scores
        Ratings and scores of this dimension; videos without either are ignored.

    Raises
    ------
    ValueError
        If a score lies outside the scale.
    """
    low, high = scale
    for video, score in scores.items():
        if not low <= score <= high:
            raise ValueError(f"{dimension}: {video} has a score of {score}, outside {low} … {high}")
    rated = [rating for rating in ratings if rating.dimension == dimension and rating.video in scores]
    return PeopleAlignment(
        dimension=dimension,
        videos=len({rating.video for rating in rated}),
        ratings=len(rated),
        spearman=rank_agreement(rated, scores),
        people=alpha_of_people(scale, rated),
        with_machine=alpha_with_machine(scale, rated, scores),
        difference=mean_difference(
            [scores[rating.video] - rating.value for rating in rated], ("difference", dimension, seed)
        ),
    )


def rank_agreement(ratings: Iterable[Rating], scores: Scores) -> Correlation:
    """Return Spearman's ρ of the machine's score and the mean of a video's ratings (Video-Bench, 6.1).

    Parameters
    ----------
    ratings, scores
        Of one dimension; videos without either are ignored. The scores may have any scale.
    """
    by_video: dict[VideoKey, list[int]] = defaultdict(list)
    for rating in ratings:
        if rating.video in scores:
            by_video[rating.video].append(rating.value)
    return spearman(
        [scores[video] for video in by_video], [float(np.mean(values)) for values in by_video.values()]
    )


def alpha_of_people(scale: tuple[int, int], ratings: Iterable[Rating]) -> Alpha:
    """Return Krippendorff's α among people in one dimension (HU–HU in Video-Bench, table 3)."""
    return alpha_of(
        [RaterAnswer(str(one.video), one.rater, str(one.value)) for one in ratings], _values(scale), "ordinal"
    )


def alpha_with_machine(scale: tuple[int, int], ratings: Iterable[Rating], scores: Scores) -> Alpha:
    """Return α of each rating and the machine's score of the same video (HU–HA in Video-Bench, table 3).

    Parameters
    ----------
    ratings, scores
        Of one dimension; videos without either are ignored. Scores are rounded to whole numbers.
    """
    answers = []
    for one in ratings:
        if one.video in scores:
            pair = f"{one.video}\0{one.rater}"
            answers.append(RaterAnswer(pair, one.rater, str(one.value)))
            answers.append(RaterAnswer(pair, MACHINE, str(whole(scores[one.video]))))
    return alpha_of(answers, _values(scale), "ordinal")


def _values(scale: tuple[int, int]) -> list[str]:
    return [str(value) for value in range(scale[0], scale[1] + 1)]


def whole(score: float) -> int:
    """Return the nearest whole number, rounding half up."""
    return int(np.floor(score + 0.5))


def mean_difference(
    differences: Sequence[float],
    key: tuple[str | int, ...],
    rounds: int = ROUNDS,
    drawn: int = DRAWN,
    covers: float = COVERS,
) -> MeanDifference | None:
    """Return the mean difference with the bootstrap's interval; None without pairs.

    Each round draws `drawn` pairs with replacement and takes their mean. How often each value is drawn is
    multinomial, so the pairs need not be drawn one by one.

    Parameters
    ----------
    differences
        The machine's score less the person's rating, one for each pair.
    """
    if not len(differences):
        return None
    values, counts = np.unique(np.asarray(differences, dtype=np.float64), return_counts=True)
    taken = keyed_rng(*key).multinomial(drawn, counts / counts.sum(), size=rounds)
    means = taken @ values / drawn
    low, high = np.quantile(means, [(1 - covers) / 2, (1 + covers) / 2])
    mean = math.fsum(differences) / len(differences)
    return MeanDifference(len(differences), mean, Interval(float(low), float(high)))


@dataclass(frozen=True, slots=True)
class Stability:
    """One dimension scored several times over.

    Parameters
    ----------
    runs, videos
        Runs, and videos that have a score in each of them.
    total_agreement
        Share of videos with the same score in all runs: TARA@runs.
    alpha
        Krippendorff's α, ordinal, the runs as raters.
    """

    runs: int
    videos: int
    total_agreement: float | None
    alpha: Alpha


def stability(scale: tuple[int, int], runs: Sequence[Scores]) -> Stability:
    """Return the stability of repeated scores, rounded to the scale's whole numbers.

    Raises
    ------
    ValueError
        If there are fewer than two runs.
    """
    if len(runs) < 2:
        raise ValueError("stability needs two runs or more")
    shared = sorted(set.intersection(*(set(run) for run in runs)), key=str)
    given = {video: [whole(run[video]) for run in runs] for video in shared}
    answers = [
        RaterAnswer(str(video), f"run {number}", str(value))
        for video, values in given.items()
        for number, value in enumerate(values)
    ]
    same = sum(len(set(values)) == 1 for values in given.values())
    low, high = scale
    return Stability(
        runs=len(runs),
        videos=len(shared),
        total_agreement=same / len(shared) if shared else None,
        alpha=alpha_of(answers, [str(value) for value in range(low, high + 1)], "ordinal"),
    )


@dataclass(frozen=True, slots=True)
class Robustness:
    """Scores of videos, compared with scores of the same videos slightly changed.

    Parameters
    ----------
    mean_error
        Mean of |changed − plain| / plain over videos.
    error_of_means
        The same of the two means.
    """

    videos: int
    mean_error: float | None
    error_of_means: float | None


def robustness(plain: Scores, changed: Scores) -> Robustness:
    """Return how much a small change moves the scores; the paper reports less than 5 % (Video-Bench, 6.5).

    Raises
    ------
    ValueError
        If a plain score is not above 0, so that no relative error exists.
    """
    shared = sorted(_both(plain, changed), key=str)
    if any(plain[video] <= 0 for video in shared):
        raise ValueError("relative errors need scores above 0")
    if not shared:
        return Robustness(0, None, None)
    before = np.array([plain[video] for video in shared])
    after = np.array([changed[video] for video in shared])
    return Robustness(
        videos=len(shared),
        mean_error=float(np.mean(np.abs(after - before) / before)),
        error_of_means=float(abs(after.mean() - before.mean()) / before.mean()),
    )


def _both(first: Mapping[VideoKey, float], second: Mapping[VideoKey, float]) -> set[VideoKey]:
    return set(first) & set(second)
