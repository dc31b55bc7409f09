"""Trials: judgements joined with their pairs, and the units that count once in an accuracy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Choice, Failure, Judgement, Order, Preferred
from storage_schemas.pair import PairRecord

#: Value of a tie: half a point, the same as a wrong answer, or excluded.
TiePolicy = Literal["half", "wrong", "dropped"]
Outcome = Literal["right", "wrong", "tie", "failed"]
#: An evaluator's name and the checksum of its settings; other settings make another evaluator.
Who = tuple[str, str]

DEFAULT_TIES: TiePolicy = "half"
_OUTCOMES: Mapping[Preferred, Outcome] = {"high": "right", "low": "wrong", "tie": "tie"}
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
    """One request to one evaluator and its result; `preferred` is None if it failed."""

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
        held = rows.get(id_)
        if held is None or not held.answered:
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
    """Return the points of a trial between 0 and 1, None if it does not count."""
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
    """Return the units of one evaluator's trials; trials without points give no unit.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    of_one_evaluator(trials)
    units = []
    for held in grouped(trials, lambda trial: trial.pair).items():
        pair, presented = held
        for order, together in _presentations(presented).items():
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
    """Return whether one pair's trials cover both orders by design: one repeat has both."""
    orders = grouped(trials, lambda trial: trial.repeat).values()
    return any({"high_first", "low_first"} <= {trial.order for trial in presented} for presented in orders)


def _presentations(trials: list[Trial]) -> dict[Order | None, list[Trial]]:
    if asked_both_orders(trials):
        return grouped(trials, lambda trial: trial.order)
    return {None: trials}
