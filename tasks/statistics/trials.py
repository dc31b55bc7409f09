"""Trials: judgements joined with their pairs, and the units that count once in an accuracy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Choice, Failure, Judgement, Order, Preferred
from storage_schemas.pair import PairRecord

#: Value of a tie: half a point, the same as a wrong answer, or excluded.
TiePolicy = Literal["half", "wrong", "dropped"]
#: Value of a request without an answer.
FailurePolicy = Literal["ignored", "half", "wrong"]
Outcome = Literal["right", "wrong", "tie", "failed"]
#: An evaluator's name and the checksum of its settings; other settings make another evaluator.
Who = tuple[str, str]

DEFAULT_TIES: TiePolicy = "half"
BOTH_ORDERS: tuple[Order, ...] = ("high_first", "low_first")
_OUTCOMES: Mapping[Preferred, Outcome] = {"high": "right", "low": "wrong", "tie": "tie"}
_FAILURE_POINTS: Mapping[FailurePolicy, float | None] = {"ignored": None, "half": 0.5, "wrong": 0.0}
_TIE_POINTS: Mapping[TiePolicy, float | None] = {"half": 0.5, "wrong": 0.0, "dropped": None}

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TrialPair:
    """The properties of a pair used in statistics.

    Parameters
    ----------
    duration_s
        Length of the high-quality video, seconds.
    clips
        Number of degraded clips; None for pairs not made by a build.
    strength
        Name of the operation's strength; empty if it has none.
    kept
        Whether the human filter kept the pair; None without votes.
    gold_tie
        Whether the gold answer is a tie, as in some meta-evaluation sets.
    control
        Whether it is a control: its points give how often the untouched side is preferred.
    length, position
        Of an excerpt, its share of the source and where the damage is in it; None and empty otherwise.
    """

    pair_id: str
    source_id: str
    aspect: str
    duration_s: float
    clips: int | None = None
    strength: str = ""
    kept: bool | None = None
    gold_tie: bool = False
    control: bool = False
    length: float | None = None
    position: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One request to one evaluator and its result.

    Parameters
    ----------
    preferred
        None if the request failed.
    failed_points
        Points for a failure; None if it is not counted.
    p_first
        Probability of "first" according to the model's tokens; None if it is unknown.
    """

    evaluator: str
    settings: str
    pair: TrialPair
    order: Order
    repeat: int
    preferred: Preferred | None
    choice: Choice | None = None
    failure: Failure | None = None
    failed_points: float | None = None
    p_first: float | None = None

    @property
    def who(self) -> Who:
        """The evaluator, its settings included."""
        return self.evaluator, self.settings

    @property
    def outcome(self) -> Outcome:
        """Outcome of the answer; for a gold tie, a tie is right and any other answer wrong."""
        if self.preferred is None:
            return "failed"
        if self.pair.gold_tie:
            return "right" if self.preferred == "tie" else "wrong"
        return _OUTCOMES[self.preferred]


def trial_pair(record: PairRecord, kept: bool | None = None) -> TrialPair:
    """Return the statistical properties of a pair of a release."""
    return TrialPair(
        pair_id=record.pair_id,
        source_id=record.source_id,
        aspect=record.aspect,
        duration_s=record.high_frames / record.fps,
        clips=record.clips_degraded,
        strength=record.strength,
        kept=kept,
        control=record.control,
        length=None if record.excerpt is None else record.excerpt.share,
        position="" if record.excerpt is None else record.excerpt.position,
    )


def settled(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Return one row per request and pair, in order of first appearance.

    The store is append-only: a request retried after a failure has several rows with the same key. The first
    answer counts, or else the last failure. Two pairs of the same two videos share the key but have separate
    rows.
    """
    rows: dict[tuple[str, str], Judgement] = {}
    for row in judgements:
        id_ = row.key, row.pair_id
        record = rows.get(id_)
        if record is None or not record.answered:
            rows[id_] = row
    return list(rows.values())


def trials_of(judgements: Iterable[Judgement], pairs: Iterable[TrialPair]) -> tuple[Trial, ...]:
    """Return the trials of judgements, one per request.

    Parameters
    ----------
    judgements
        Rows of the table, possibly with failures that were retried.
    pairs
        The pairs; those without judgements give no trial.

    Raises
    ------
    UserInputError
        If a judgement refers to a pair that is not in `pairs` or has another aspect there.
    """
    by_id = {pair.pair_id: pair for pair in pairs}
    trials = []
    for row in settled(judgements):
        pair = by_id.get(row.pair_id)
        if pair is None:
            raise UserInputError(
                f"{row.evaluator} judged pair {row.pair_id}, which is not among these {len(by_id)} pairs: "
                "take the judgements of this release only"
            )
        if pair.aspect != row.aspect:
            raise UserInputError(
                f"{row.evaluator} judged pair {row.pair_id} for {row.aspect!r}, but it is a pair of "
                f"{pair.aspect!r}: take the judgements of this release only"
            )
        trials.append(
            Trial(
                evaluator=row.evaluator,
                settings=row.settings,
                pair=pair,
                order=row.order,
                repeat=row.repeat,
                preferred=row.preferred,
                choice=row.choice if row.answered else None,
                failure=None if row.answered else row.failure,
                p_first=row.p_first if row.answered else None,
            )
        )
    return tuple(trials)


def points_of(trial: Trial, ties: TiePolicy = DEFAULT_TIES) -> float | None:
    """Return the points of a trial between 0 and 1, None if it does not count."""
    if trial.outcome == "failed":
        return trial.failed_points
    if trial.outcome == "tie":
        return _TIE_POINTS[ties]
    return float(trial.outcome == "right")


def failures_count(trials: Iterable[Trial], points: FailurePolicy | float) -> tuple[Trial, ...]:
    """Return trials whose failures count by a policy, or a number of points."""
    counted = _FAILURE_POINTS[points] if isinstance(points, str) else points
    return tuple(
        replace(trial, failed_points=counted) if trial.outcome == "failed" else trial for trial in trials
    )


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return items by key, keys in order of first appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def of_one_evaluator(trials: Sequence[Trial]) -> None:
    """Check that trials come from one evaluator, as required by most statistics.

    Raises
    ------
    ValueError
        If they come from several, whose points must not be mixed.
    """
    evaluators = sorted({trial.who for trial in trials})
    if len(evaluators) > 1:
        raise ValueError(f"trials of several evaluators: {evaluators}")


@dataclass(frozen=True, slots=True)
class CountedUnit:
    """Points between 0 and 1 for one pair in one order; `order` is None if the orders count together."""

    pair: TrialPair
    order: Order | None
    points: float


def units_of(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> tuple[CountedUnit, ...]:
    """Return the units of one evaluator's trials.

    A pair that is to be asked in both orders needs points in both: an evaluator that prefers what it sees
    first, and fails wherever that would be wrong, would otherwise be always right.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    of_one_evaluator(trials)
    both = both_order_aspects(trials)
    units = []
    for pair, asked in grouped(trials, lambda trial: trial.pair).items():
        wanted = BOTH_ORDERS if pair.aspect in both else (None,)
        made = []
        for order in wanted:
            points = [points_of(trial, ties) for trial in asked if order in (None, trial.order)]
            counted = [one for one in points if one is not None]
            if counted:
                made.append(CountedUnit(pair, order, sum(counted) / len(counted)))
        if len(made) == len(wanted):
            units += made
    return tuple(units)


def pair_points(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> dict[TrialPair, float]:
    """Return the mean points of each pair over its units; pairs without points are absent."""
    return {
        pair: sum(unit.points for unit in units) / len(units)
        for pair, units in grouped(units_of(trials, ties), lambda unit: unit.pair).items()
    }


def both_order_aspects(trials: Sequence[Trial]) -> set[str]:
    """Return the aspects whose pairs one evaluator is asked in both orders: one repeat of a pair has both.

    One pair tells it for all of its aspect, since a run may have ended between the two orders of another.
    """
    presented = grouped(trials, lambda trial: (trial.pair, trial.repeat))
    return {
        pair.aspect
        for (pair, _), some in presented.items()
        if set(BOTH_ORDERS) <= {trial.order for trial in some}
    }


def expected_requests(trials: Sequence[Trial], pairs: int | None = None) -> int:
    """Return how many requests a complete judgement by one evaluator has.

    Parameters
    ----------
    pairs
        Number of pairs to be judged; by default, those of `trials`. A pair without trials needs as many
        requests as the others have on average.
    """
    both = both_order_aspects(trials)
    asked = grouped(trials, lambda trial: trial.pair)
    needed = sum(
        (2 if pair.aspect in both else 1) * len({trial.repeat for trial in some})
        for pair, some in asked.items()
    )
    if not asked:
        return pairs or 0
    never = max(0, (pairs or 0) - len(asked))
    return needed + round(never * needed / len(asked))
