"""Trials.

Judgements joined with what is known of their pairs, and the units that count once in an accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Choice, Failure, Judgement, Order, Preferred
from storage_schemas.pair import PairRecord

#: What a tie counts: half a point, as much as a wrong answer, or nothing at all.
TiePolicy = Literal["half", "wrong", "dropped"]
Outcome = Literal["right", "wrong", "tie", "failed"]
#: An evaluator's name and its settings' checksum: two settings of one evaluator are two evaluators.
Who = tuple[str, str]

DEFAULT_TIES: TiePolicy = "half"
_OUTCOMES: Mapping[Preferred, Outcome] = {"high": "right", "low": "wrong", "tie": "tie"}
_TIE_POINTS: Mapping[TiePolicy, float | None] = {"half": 0.5, "wrong": 0.0, "dropped": None}

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TrialPair:
    """What the statistics need to know of a pair.

    Parameters
    ----------
    duration_s
        Length of the high-quality video, seconds.
    clips
        How many clips are degraded; None for pairs that no build made.
    strength
        Name of the operation's strength, empty where it has none.
    kept
        Whether people kept the pair; None where nobody was asked.
    gold_tie
        Whether the right answer is that both are equal, as other people's sets have it.
    """

    pair_id: str
    source_id: str
    aspect: str
    duration_s: float
    clips: int | None = None
    strength: str = ""
    kept: bool | None = None
    gold_tie: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """One request to one evaluator, and what came of it; `preferred` is None where it failed."""

    evaluator: str
    settings: str
    pair: TrialPair
    order: Order
    repeat: int
    preferred: Preferred | None
    choice: Choice | None = None
    failure: Failure | None = None

    @property
    def who(self) -> Who:
        """The evaluator, its settings included."""
        return self.evaluator, self.settings

    @property
    def outcome(self) -> Outcome:
        """What the answer is worth; where both videos are equal, a tie is right and the rest wrong."""
        if self.preferred is None:
            return "failed"
        if self.pair.gold_tie:
            return "right" if self.preferred == "tie" else "wrong"
        return _OUTCOMES[self.preferred]


def trial_pair(record: PairRecord, kept: bool | None = None) -> TrialPair:
    """Return what the statistics need of a pair of a release."""
    return TrialPair(
        pair_id=record.pair_id,
        source_id=record.source_id,
        aspect=record.aspect,
        duration_s=record.high_frames / record.fps,
        clips=record.clips_degraded,
        strength=record.strength,
        kept=kept,
    )


def settled(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Return one row a request and pair, in order of first appearance.

    The store is append-only: a request that failed and was asked again has several rows under one key.
    The first answer counts; where there is none, the last failure. Two pairs of the same two videos share
    the key, and have a row each.
    """
    rows: dict[tuple[str, str], Judgement] = {}
    for row in judgements:
        id_ = row.key, row.pair_id
        held = rows.get(id_)
        if held is None or not held.answered:
            rows[id_] = row
    return list(rows.values())


def trials_of(judgements: Iterable[Judgement], pairs: Iterable[TrialPair]) -> tuple[Trial, ...]:
    """Return the trials of judgements, one a request.

    Parameters
    ----------
    judgements
        Rows of the table, also with failures that were asked again later.
    pairs
        The pairs; those nobody judged give no trial.

    Raises
    ------
    UserInputError
        If a judgement is about a pair that `pairs` lack, or that has another aspect there.
    """
    known = {pair.pair_id: pair for pair in pairs}
    trials = []
    for row in settled(judgements):
        pair = known.get(row.pair_id)
        if pair is None:
            raise UserInputError(
                f"{row.evaluator} judged pair {row.pair_id}, which is not among these {len(known)} pairs: "
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
            )
        )
    return tuple(trials)


def points_of(trial: Trial, ties: TiePolicy = DEFAULT_TIES) -> float | None:
    """Return what a trial counts between 0 and 1, None where it does not count."""
    if trial.outcome == "failed":
        return None
    if trial.outcome == "tie":
        return _TIE_POINTS[ties]
    return float(trial.outcome == "right")


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return items by key, keys in order of first appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def of_one_evaluator(trials: Sequence[Trial]) -> None:
    """Check that trials come from one evaluator, as most statistics need it.

    Raises
    ------
    ValueError
        If they come from several: points of different evaluators would be mixed.
    """
    found = sorted({trial.who for trial in trials})
    if len(found) > 1:
        raise ValueError(f"trials of several evaluators: {found}")


@dataclass(frozen=True, slots=True)
class CountedUnit:
    """Points between 0 and 1 for one pair in one order; `order` is None where the orders count together."""

    pair: TrialPair
    order: Order | None
    points: float


def units_of(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> tuple[CountedUnit, ...]:
    """Return the units of one evaluator's trials; what has no points gives no unit.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    of_one_evaluator(trials)
    units = []
    for held in grouped(trials, lambda trial: trial.pair).items():
        pair, asked = held
        for order, together in _presentations(asked).items():
            counted = [points for trial in together if (points := points_of(trial, ties)) is not None]
            if counted:
                units.append(CountedUnit(pair, order, sum(counted) / len(counted)))
    return tuple(units)


def pair_points(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> dict[TrialPair, float]:
    """Return the mean points of each pair over its units; pairs without points are absent."""
    return {
        pair: sum(unit.points for unit in units) / len(units)
        for pair, units in grouped(units_of(trials, ties), lambda unit: unit.pair).items()
    }


def asked_both_orders(trials: Sequence[Trial]) -> bool:
    """Tell whether one pair's trials show it in both orders by design: one repeat has both."""
    orders = grouped(trials, lambda trial: trial.repeat).values()
    return any({"high_first", "low_first"} <= {trial.order for trial in asked} for asked in orders)


def _presentations(trials: list[Trial]) -> dict[Order | None, list[Trial]]:
    if asked_both_orders(trials):
        return grouped(trials, lambda trial: trial.order)
    return {None: trials}
