"""The leaderboard of a suite: mean scores by model and dimension, average ranks (Video-Bench, table 1)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from storage_schemas.judgements import Failure
from storage_schemas.suite_score import SuiteScore
from tasks.scoring.suites.base import Dimension
from tasks.statistics.intervals import ClusteredInterval, mean_interval

#: Means that differ by less are equal: rounding of floating point.
_SAME = 1e-9


@dataclass(frozen=True)
class Mean:
    """One model in one dimension.

    Parameters
    ----------
    value
        Mean over its videos; videos without a score are ignored, never zero. None without scores.
    videos, failed
        Videos with a score, and without one.
    interval
        95 % interval of the mean, clustered by prompt; None for fewer than two prompts.
    """

    value: float | None
    videos: int = 0
    failed: int = 0
    interval: ClusteredInterval | None = None


@dataclass(frozen=True)
class BoardCell:
    """A model's standing in some dimensions: its mean rank, and the rank of that mean."""

    mean_rank: float | None
    rank: int | None
    dimensions: int = 0


@dataclass(frozen=True)
class Line:
    """One model, with its mean, its rank in each dimension, and its standing by group and overall.

    Parameters
    ----------
    group_means, mean
        Mean of its means in each group's dimensions, and the mean over groups; None without scores or if
        dimensions have different scales.
    """

    model: str
    means: Mapping[str, Mean]
    ranks: Mapping[str, int]
    groups: Mapping[str, BoardCell]
    overall: BoardCell
    group_means: Mapping[str, float | None]
    mean: float | None


@dataclass(frozen=True)
class SuiteBoard:
    """The models, best first; `dimensions` are those with rows.

    Parameters
    ----------
    averaged
        Whether all dimensions that count in means have one scale, so that groups have means (LoCoT2V-Bench,
        table 2).
    prompts
        Whose prompts were sent, by dimension; without dimensions that send none.
    """

    title: str
    dimensions: tuple[Dimension, ...]
    lines: tuple[Line, ...]
    averaged: bool
    other_settings: Mapping[str, int] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of its dimensions in their order."""
        return tuple(dict.fromkeys(dimension.group for dimension in self.dimensions))


def current(
    rows: Iterable[SuiteScore], settings: Sequence[str] = ()
) -> tuple[list[SuiteScore], dict[str, int]]:
    """Return the newest score of each video, with the newest settings of its dimension.

    An older score stays in the store: of another file, other settings, another batch.

    Parameters
    ----------
    settings
        Prefixes of the settings to use instead of the newest ones.

    Returns
    -------
    tuple
        The rows, and by dimension the number of other settings in the store.
    """
    by_dimension: dict[str, list[SuiteScore]] = defaultdict(list)
    for row in rows:
        by_dimension[row.dimension].append(row)
    current_scores: list[SuiteScore] = []
    others: dict[str, int] = {}
    for name, of_dimension in by_dimension.items():
        wanted = [row for row in of_dimension if any(row.settings.startswith(one) for one in settings)]
        # without newer attempts, earlier scores count
        tried = [row for row in of_dimension if row.failure is not Failure.PREREQUISITE_MISSING]
        newest = max(wanted or tried or of_dimension, key=lambda row: row.at).settings
        stored = {row.settings for row in of_dimension}
        if len(stored) > 1:
            others[name] = len(stored) - 1
        latest: dict[tuple[str, str, int, int], SuiteScore] = {}
        newest_rows = [row for row in of_dimension if row.settings == newest]
        # an attempt that could not run, such as a batch with one more model, hides no earlier score
        for row in sorted(
            newest_rows, key=lambda row: (row.failure is not Failure.PREREQUISITE_MISSING, row.at)
        ):
            latest[row.model, row.prompt_id, row.sample, row.repeat] = row
        current_scores += latest.values()
    return current_scores, others


def means_of(rows: Iterable[SuiteScore]) -> dict[str, dict[str, Mean]]:
    """Return the mean of each dimension and model; repeats of one video are averaged first."""
    by_cell: dict[tuple[str, str], dict[tuple[str, int], list[float | None]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        by_cell[row.dimension, row.model][row.prompt_id, row.sample].append(row.score)
    means: dict[str, dict[str, Mean]] = defaultdict(dict)
    for (dimension, model), videos in by_cell.items():
        given = {video: [score for score in scores if score is not None] for video, scores in videos.items()}
        scored = {video: math.fsum(scores) / len(scores) for video, scores in given.items() if scores}
        values = list(scored.values())
        mean = math.fsum(values) / len(values) if values else None
        interval = mean_interval(np.array(values), [prompt for prompt, _ in scored])
        means[dimension][model] = Mean(mean, len(values), len(given) - len(values), interval)
    return dict(means)


def prompts_sent(rows: Iterable[SuiteScore]) -> dict[str, str]:
    """Return whose prompts were sent, by dimension; without dimensions that send none.

    Folders with other names may have the same content, so that a dimension may have several labels.
    """
    labels: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.prompts:
            labels[row.dimension].add(row.prompts)
    return {name: "; ".join(sorted(labels_of)) for name, labels_of in labels.items()}


def common_prompts(rows: Sequence[SuiteScore]) -> list[SuiteScore]:
    """Return the rows of prompts for which every model has a score in that dimension."""
    models: dict[str, set[str]] = defaultdict(set)
    scored: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        models[row.dimension].add(row.model)
        if row.score is not None:
            scored[row.dimension, row.prompt_id].add(row.model)
    return [row for row in rows if scored[row.dimension, row.prompt_id] == models[row.dimension]]


def ranks_of(values: Mapping[str, float], least_first: bool = False) -> dict[str, int]:
    """Return ranks from 1; equal values share the better rank.

    Examples
    --------
    >>> ranks_of({"a": 4.2, "b": 4.5, "c": 4.5, "d": 1.0})
    {'a': 3, 'b': 1, 'c': 1, 'd': 4}
    """
    sign = -1.0 if least_first else 1.0
    return {
        name: 1 + sum(sign * other > sign * value + _SAME for other in values.values())
        for name, value in values.items()
    }


def board_of(
    title: str,
    dimensions: Sequence[Dimension],
    means: Mapping[str, Mapping[str, Mean]],
    other_settings: Mapping[str, int] | None = None,
    prompts: Mapping[str, str] | None = None,
) -> SuiteBoard:
    """Return the leaderboard of some means.

    A model's average rank is the mean of its ranks in the dimensions in which it has a score; models are
    ranked by that, by group and overall. Where all dimensions have one scale, groups have means as well.
    """
    shown = tuple(one for one in dimensions if one.name in means)
    models = sorted({model for by_model in means.values() for model in by_model})
    ranks: dict[str, dict[str, int]] = {}
    for one in shown:
        given = {model: mean.value for model, mean in means[one.name].items() if mean.value is not None}
        ranks[one.name] = ranks_of(given)
    groups = dict.fromkeys(one.group for one in shown)
    standings = {
        group: _standings(models, [ranks[one.name] for one in shown if one.group == group])
        for group in groups
    }
    overall = _standings(models, list(ranks.values()))
    averaged = len({(one.low, one.high) for one in dimensions if one.averaged}) == 1
    lines = []
    for model in models:
        own = {one.name: means[one.name].get(model, Mean(None)) for one in shown}
        by_group = {
            group: _mean(
                [own[one.name].value for one in shown if averaged and one.averaged and one.group == group]
            )
            for group in groups
        }
        lines.append(
            Line(
                model=model,
                means=own,
                ranks={name: by_model[model] for name, by_model in ranks.items() if model in by_model},
                groups={group: standings[group][model] for group in groups},
                overall=overall[model],
                group_means=by_group,
                mean=_mean(list(by_group.values())),
            )
        )
    lines.sort(key=lambda line: (line.overall.mean_rank or math.inf, line.model))
    return SuiteBoard(title, shown, tuple(lines), averaged, dict(other_settings or {}), dict(prompts or {}))


def _mean(values: Sequence[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return math.fsum(given) / len(given) if given else None


def _standings(models: Sequence[str], ranks: Sequence[Mapping[str, int]]) -> dict[str, BoardCell]:
    by_name = {model: [by_model[model] for by_model in ranks if model in by_model] for model in models}
    means = {model: math.fsum(own) / len(own) for model, own in by_name.items() if own}
    standings = ranks_of(means, least_first=True)
    return {model: BoardCell(means.get(model), standings.get(model), len(by_name[model])) for model in models}
