"""The judgements of one release, joined with its pairs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from storage_schemas.judgements import Judgement, JudgementsStore
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from tasks.pairs.strength_number import strength_number
from tasks.recipe import recipe_from
from tasks.report.judged_pairs import Asides, JudgedPairs, names_of, rows_of
from tasks.statistics.trials import (
    DEFAULT_TIES,
    FailurePolicy,
    TiePolicy,
    Trial,
    TrialPair,
    failures_count,
    trial_pair,
    trials_of,
)
from tasks.votes.release_votes import ReleaseVotes


@dataclass(frozen=True, kw_only=True)
class JudgedRelease(JudgedPairs):
    """Judgements and pairs of a release.

    Accuracies are of the pairs at the recipe's main severity; all tables use them except those on severity.

    Parameters
    ----------
    strengths
        Strengths in use by aspect, the weakest first.
    main_strength
        The recipe's strength by aspect; empty where the release has no further severities.
    clip_levels
        Numbers of degraded clips that the recipe names.
    people
        People's votes on the release; None if there are none.
    control_trials
        Those on controls, which count towards no accuracy.
    length_trials
        Those on excerpts, which no accuracy contains either.
    """

    release: Release
    strengths: Mapping[str, tuple[str, ...]]
    main_strength: Mapping[str, str]
    main_clips: int
    clip_levels: tuple[int, ...] = ()
    people: ReleaseVotes | None = None
    control_trials: tuple[Trial, ...] = ()
    length_trials: tuple[Trial, ...] = ()

    @property
    def title(self) -> str:
        """The release's name and version."""
        return f"{self.release.name}, version {self.release.version}"

    @property
    def aspects(self) -> list[str]:
        """The aspects that were judged, in the recipe's order."""
        judged = {trial.pair.aspect for trial in self.all_trials}
        ordered = [aspect for aspect in self.release.recipe.get("aspects", {}) if aspect in judged]
        return ordered + sorted(judged - set(ordered))

    def is_main(self, record: PairRecord) -> bool:
        """Return whether accuracies are of a pair."""
        return _is_main(trial_pair(record), self.main_strength, self.main_clips)


def load_judged_release(
    release: Release,
    evaluators: Collection[str] = (),
    ties: TiePolicy = DEFAULT_TIES,
    kept: Mapping[str, bool] | None = None,
    judgements: Sequence[Judgement] | None = None,
    people: ReleaseVotes | None = None,
    failures: FailurePolicy = "ignored",
) -> JudgedRelease:
    """Read and join the judgements on a release.

    Parameters
    ----------
    evaluators
        Names of the evaluators to include; all by default.
    kept
        Whether a pair passed the filter, by its id; pairs not in it were not shown.
    judgements
        Rows to use instead of the store's.
    people
        People's votes: they become the evaluator `human`, and determine the kept pairs unless `kept` is
        given.
    failures
        Points for a request without an answer.

    Raises
    ------
    UserInputError
        If it has no judgements, or none from a named evaluator.
    """
    records = release.pairs()
    if kept is None:
        # a filtered release has only kept pairs: there is nothing to compare with
        kept = people.kept if people is not None and not people.filtered else {}
    pairs = [trial_pair(record, kept.get(record.pair_id)) for record in records]
    if judgements is None:
        store = JudgementsStore(release.store)
        judgements = store.rows(pair_ids=[pair.pair_id for pair in pairs])
    if people is not None:
        here = {pair.pair_id for pair in pairs}
        judgements = [*judgements, *(row for row in people.judgements if row.pair_id in here)]
    what = f"release {release.name}, version {release.version}"
    asides = Asides.of(judgements, evaluators)
    rows = rows_of(asides.own, evaluators, what, "`slvmeval evaluate` does it")
    gathered = _gathered(release, records, rows, pairs, ties, failures)
    main, clips = gathered.main_strength, gathered.main_clips

    def of_main(some: Sequence[Judgement]) -> Iterator[Trial]:
        found = failures_count(trials_of(some, pairs), failures)
        return (trial for trial in found if _is_main(trial.pair, main, clips))

    return replace(gathered, people=people, **asides.fields(of_main))


def _gathered(
    release: Release,
    records: list[PairRecord],
    rows: tuple[Judgement, ...],
    pairs: list[TrialPair],
    ties: TiePolicy,
    failures: FailurePolicy,
) -> JudgedRelease:
    joined = failures_count(trials_of(rows, pairs), failures)
    trials = tuple(trial for trial in joined if not trial.pair.control and trial.pair.length is None)
    main, strengths, levels, clips = main_points(release, records)
    return JudgedRelease(
        release=release,
        rows=rows,
        names=names_of({trial.who for trial in joined}),
        trials=tuple(trial for trial in trials if _is_main(trial.pair, main, clips)),
        all_trials=trials,
        strengths=strengths,
        main_strength=main,
        main_clips=clips,
        clip_levels=levels,
        ties=ties,
        failures=failures,
        control_trials=tuple(trial for trial in joined if trial.pair.control),
        length_trials=tuple(trial for trial in joined if trial.pair.length is not None),
    )


def main_points(
    release: Release, records: Sequence[PairRecord]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]], tuple[int, ...], int]:
    """Return the recipe's strength by aspect, the strengths in use, its numbers of clips, and the main one.

    A release without additional severities has one point, whatever its pairs record.
    """
    recipe = recipe_from(release.recipe, stored=True)
    used: dict[str, list[str]] = {}
    for record in records:
        if record.control or record.excerpt is not None:
            continue
        used.setdefault(record.aspect, []).append(record.strength)
    if not recipe.severity.clips and not recipe.severity.strengths:
        return {}, {}, (), recipe.clips_per_pair
    main = {aspect: recipe.strength_label(aspect) for aspect in used if aspect in recipe.aspects}
    order = {aspect: list(recipe.operation(aspect).strengths) for aspect in main}
    numbers = {(record.aspect, record.strength): strength_number(record) or 0.0 for record in records}
    strengths: dict[str, tuple[str, ...]] = {}
    for aspect, names in used.items():
        ordered = _in_order(names, order.get(aspect, []))
        strengths[aspect] = tuple(sorted(ordered, key=partial(_number_of, numbers, aspect)))
    levels = {clips for clips in recipe.severity.clips if isinstance(clips, int)} | {recipe.clips_per_pair}
    return main, strengths, tuple(sorted(levels)), recipe.clips_per_pair


def _number_of(numbers: Mapping[tuple[str, str], float], aspect: str, strength: str) -> float:
    return numbers[aspect, strength]


def main_pairs(release: Release) -> frozenset[str]:
    """Return the ids of the pairs that accuracies are of."""
    records = release.pairs()
    main, _, _, clips = main_points(release, records)
    return frozenset(one.pair_id for one in records if _is_main(trial_pair(one), main, clips))


def _in_order(names: Collection[str], order: list[str]) -> tuple[str, ...]:
    """Return names in the given order, followed by those not in it."""
    return tuple(sorted(set(names), key=lambda n: (order.index(n) if n in order else len(order), n)))


def _is_main(pair: TrialPair, main: Mapping[str, str], clips: int) -> bool:
    if pair.control or pair.length is not None:
        return False
    return pair.aspect not in main or (pair.strength == main[pair.aspect] and pair.clips == clips)
