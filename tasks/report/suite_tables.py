"""Tables and figures that compare a suite's scores with people's ratings, and list unused ratings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from storage_schemas.suite_score import SuiteScore
from tasks.report.figures import INK, LINE, PALETTE, QUIET, Figure, one_figure
from tasks.report.formats import csv_text, latex_text, markdown_text
from tasks.report.owned_folder import OwnedFolder
from tasks.report.table import Column, Kind, Table
from tasks.scoring.suites.base import Dimension, SuitePrompt
from tasks.scoring.suites.human_agreement import (
    COVERS,
    PeopleAlignment,
    Robustness,
    Stability,
    people_alignment,
    rank_agreement,
    robustness,
    stability,
)
from tasks.scoring.suites.human_ratings import Rating, VideoKey
from tasks.scoring.user_files import UnusedLine
from tasks.statistics.correlations import (
    Correlation,
    DimensionCorrelation,
    complexity_correlations,
    dimension_correlations,
    group_means,
    mean_of,
)

#: The list of a folder's own files; no other file is ever removed.
LIST_NAME = "suite-tables.json"
#: Characters of a theme used in file names; a file name has at most 255 bytes.
_MAX_SLUG_LENGTH = 50
#: Scores of one dimension by repeat, then by video.
Runs = Mapping[int, Mapping[VideoKey, float]]


def runs_of(rows: Iterable[SuiteScore]) -> dict[str, dict[int, dict[VideoKey, float]]]:
    """Return the scores by dimension, repeat and video, without failures."""
    runs_by_dimension: dict[str, dict[int, dict[VideoKey, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row.score is not None:
            video = VideoKey(model=row.model, prompt_id=row.prompt_id, sample=row.sample)
            runs_by_dimension[row.dimension][row.repeat][video] = row.score
    return {name: dict(runs) for name, runs in runs_by_dimension.items()}


def means_over(runs: Runs) -> dict[VideoKey, float]:
    """Return each video's mean over its repeats."""
    scores_of: dict[VideoKey, list[float]] = defaultdict(list)
    for run in runs.values():
        for video, score in run.items():
            scores_of[video].append(score)
    return {video: math.fsum(scores) / len(scores) for video, scores in scores_of.items()}


def alignment_table(
    dimensions: Sequence[Dimension],
    runs: Mapping[str, Runs],
    ratings: Sequence[Rating],
    blurred: Mapping[str, Runs],
    seed: int = 0,
    baselines: Sequence[tuple[str, str, Runs]] = (),
) -> Table:
    """Return how well a suite agrees with people, with itself, and with its scores of blurred videos.

    Parameters
    ----------
    runs, blurred
        Scores by dimension; there may be none of blurred videos.
    baselines
        Metrics that take the place of dimensions (Video-Bench, table 2): dimension, name and values. They get
        a row with ρ alone, since their scales are their own.
    """
    rows = []
    for one in dimensions:
        if one.name not in runs:
            continue
        scale = (math.floor(one.low), math.ceil(one.high))
        run = runs[one.name]
        scores = {video: min(max(score, one.low), one.high) for video, score in means_over(run).items()}
        people = people_alignment(one.name, scale, ratings, scores, seed)
        repeated = stability(scale, list(run.values())) if len(run) > 1 else None
        changed = _robustness(scores, blurred.get(one.name, {}))
        rows.append({"dimension": one.title, **_people(people), **_stable(repeated), **_moved(changed)})
        for metric, values in [(name, values) for index, name, values in baselines if index == one.name]:
            rated = [rating for rating in ratings if rating.dimension == one.name]
            found = rank_agreement(rated, means_over(values))
            row = {"dimension": one.title, "metric": metric, "videos": found.n}
            rows.append({**row, "spearman": found.coefficient, "p": found.p})
    return Table(
        "alignment",
        "Agreement with people",
        (
            Column("dimension", "dimension"),
            Column("metric", "baseline", shown=bool(baselines)),
            Column("videos", "videos", "count"),
            Column("ratings", "ratings", "count"),
            Column("spearman", "Spearman ρ", "number"),
            Column("p", "p", "p"),
            Column("people_alpha", "α people", "number"),
            Column("people_alpha_low", "α people from", "number", shown=False),
            Column("people_alpha_high", "to", "number", shown=False),
            Column("machine_alpha", "α with machine", "number"),
            Column("machine_alpha_low", "α with machine from", "number", shown=False),
            Column("machine_alpha_high", "to", "number", shown=False),
            Column("difference", "mean difference", "number"),
            Column("difference_low", "from", "number"),
            Column("difference_high", "to", "number"),
            Column("runs", "repeats", "count"),
            Column("total_agreement", "TARA", "percent"),
            Column("repeat_alpha", "α of repeats", "number"),
            Column("blur_error", "moved by blur", "percent"),
            Column("blur_error_of_means", "moved by blur, means", "percent", shown=False),
        ),
        tuple(rows),
        "Spearman's ρ of the machine's score and the mean of a video's ratings. α: Krippendorff's, ordinal. "
        f"Mean difference: the machine's score minus a person's rating, with the middle {COVERS:.0%} of a "
        "bootstrap. TARA: share of videos with the same score in all repeats (--repeats). Moved by blur: "
        "mean relative change of scores of the same videos, blurred (--set blur=…).".replace("%", " %"),
        "" if rows else "There are no scores.",
    )


def _robustness(scores: Mapping[VideoKey, float], blurred: Runs) -> Robustness | None:
    changed = means_over(blurred)
    shared = {video: score for video, score in scores.items() if video in changed and score > 0}
    return robustness(shared, changed) if shared else None


def _people(alignment: PeopleAlignment) -> dict[str, Any]:
    row: dict[str, Any] = {
        "videos": alignment.videos,
        "ratings": alignment.ratings,
        "spearman": alignment.spearman.coefficient,
        "p": alignment.spearman.p,
    }
    for key, alpha in (("people_alpha", alignment.people), ("machine_alpha", alignment.with_machine)):
        row[key] = alpha.alpha
        if alpha.interval is not None:
            row |= {f"{key}_low": alpha.interval.low, f"{key}_high": alpha.interval.high}
    if alignment.difference is not None:
        inner = alignment.difference.interval
        row |= {
            "difference": alignment.difference.mean,
            "difference_low": inner.low,
            "difference_high": inner.high,
        }
    return row


def _stable(stable: Stability | None) -> dict[str, Any]:
    if stable is None:
        return {}
    return {
        "runs": stable.runs,
        "total_agreement": stable.total_agreement,
        "repeat_alpha": stable.alpha.alpha,
    }


def _moved(moved: Robustness | None) -> dict[str, Any]:
    return (
        {} if moved is None else {"blur_error": moved.mean_error, "blur_error_of_means": moved.error_of_means}
    )


def correlation_tables(
    runs: Mapping[str, Runs], dimensions: Sequence[Dimension], prompts: Mapping[str, SuitePrompt]
) -> list[Table]:
    """Return how the dimensions and their groups correlate; given prompts, also means by category and by
    theme, and correlations by theme and with complexity.

    Groups and categories are those of LoCoT2V-Bench, tables 5 and 6; they need dimensions of one scale.
    """
    titles = {one.name: one.title for one in dimensions}
    by_video: dict[VideoKey, dict[str, float]] = defaultdict(dict)
    for name, run in runs.items():
        for video, score in means_over(run).items():
            by_video[video][titles.get(name, name)] = score
    videos = sorted(by_video, key=str)
    rows = [by_video[video] for video in videos]
    # in the suite's order, so that dimensions of one group are adjacent
    order = list(dict.fromkeys([*titles.values(), *sorted({name for row in rows for name in row})]))
    whole = dimension_correlations(rows, _pairs(rows, order))
    tables = [_correlations("correlations", "Correlations of the dimensions", whole)]
    counted = [one for one in dimensions if one.averaged]
    groups = _groups(counted)
    if len(groups) > 1:
        by_group = [_group_row(row, groups) for row in rows]
        between = dimension_correlations(by_group, _pairs(by_group, groups))
        tables.append(_correlations("correlations-groups", "Correlations of the groups", between))
    of_videos = [prompts.get(video.prompt_id) for video in videos]
    if groups and any(prompt and prompt.category for prompt in of_videos):
        shares = counted[0].low >= 0 and counted[0].high <= 1
        tables.append(_categories(videos, rows, of_videos, groups, "percent" if shares else "number"))
    themed = [
        (row, prompt.theme) for row, prompt in zip(rows, of_videos, strict=True) if prompt and prompt.theme
    ]
    if themed:
        means = group_means([row for row, _ in themed], [theme for _, theme in themed])
        tables.append(
            Table(
                "themes",
                "Means by theme",
                (
                    Column("theme", "theme"),
                    Column("dimension", "dimension"),
                    Column("videos", "videos", "count"),
                    Column("mean", "mean", "number"),
                ),
                tuple(
                    {"theme": one.group, "dimension": one.dimension, "videos": one.videos, "mean": one.mean}
                    for one in means
                ),
            )
        )
        names: set[str] = set()
        for theme in sorted({theme for _, theme in themed}):
            of_theme = [row for row, other in themed if other == theme]
            correlations = dimension_correlations(of_theme, _pairs(of_theme, order))
            tables.append(_correlations(_file_name(theme, names), f"Theme: {theme}", correlations))
    complexity = [_complexity(prompt) for prompt in of_videos]
    if any(complexity):
        tables.append(
            _correlations(
                "correlations-complexity",
                "Dimensions and the prompt's complexity",
                complexity_correlations(rows, complexity),
            )
        )
    return tables


def _groups(counted: Sequence[Dimension]) -> dict[str, list[str]]:
    """Return the titles of the dimensions of each group; none if they have different scales."""
    groups: dict[str, list[str]] = {}
    if len({(one.low, one.high) for one in counted}) == 1:
        for one in counted:
            groups.setdefault(one.group, []).append(one.title)
    return groups


def _group_row(row: Mapping[str, float], groups: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the mean of each group's dimensions that have a score."""
    means = {group: mean_of(row, titles) for group, titles in groups.items()}
    return {group: mean for group, mean in means.items() if mean is not None}


def _categories(
    videos: Sequence[VideoKey],
    rows: Sequence[Mapping[str, float]],
    prompts: Sequence[SuitePrompt | None],
    groups: Mapping[str, Sequence[str]],
    kind: Kind,
) -> Table:
    """Return the means of each model in each category: of its dimensions, then of groups, then of these."""
    by_category: dict[tuple[str, str], list[Mapping[str, float]]] = defaultdict(list)
    for video, row, prompt in zip(videos, rows, prompts, strict=True):
        if prompt is not None and prompt.category:
            by_category[prompt.category, video.model].append(row)
    lines = []
    for (category, model), some in sorted(by_category.items()):
        means = {one.dimension: one.mean for one in group_means(some, [""] * len(some))}
        by_group = _group_row(means, groups)
        lines.append(
            {
                "category": category,
                "model": model,
                "videos": len(some),
                **by_group,
                "mean": mean_of(by_group, groups),
            }
        )
    return Table(
        "categories",
        "Models by category",
        (
            Column("category", "category"),
            Column("model", "model"),
            Column("videos", "videos", "count"),
            *(Column(group, group[:1].upper() + group[1:], kind) for group in groups),
            Column("mean", "mean", kind),
        ),
        tuple(lines),
        "As in the leaderboard: means of dimensions over a model's videos, of these by group, of the groups.",
    )


def _pairs(rows: Iterable[Mapping[str, float]], order: Iterable[str]) -> list[tuple[str, str]]:
    dimensions = {name for row in rows for name in row}
    return list(combinations([name for name in order if name in dimensions], 2))


def _file_name(theme: str, taken: set[str]) -> str:
    """Return a unique name for a theme's table, and remember it."""
    slug = "".join(sign if sign.isalnum() else "-" for sign in theme.lower())[:_MAX_SLUG_LENGTH]
    name, number = slug, 2
    while name in taken:
        name, number = f"{slug}-{number}", number + 1
    taken.add(name)
    return f"correlations-theme-{name}"


def _complexity(prompt: SuitePrompt | None) -> dict[str, float]:
    given = prompt.details.get("complexity") if prompt is not None else None
    if not isinstance(given, Mapping):
        return {}
    return {
        str(kind): float(value)
        for kind, value in given.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _correlations(name: str, title: str, correlations: Sequence[DimensionCorrelation]) -> Table:
    kinds = ("pearson", "spearman", "kendall")
    rows = []
    for one in correlations:
        row: dict[str, Any] = {"first": one.first, "second": one.second, "videos": one.pearson.n}
        for kind in kinds:
            correlation: Correlation = getattr(one, kind)
            row |= {kind: correlation.coefficient, f"{kind}_p": correlation.p}
        rows.append(row)
    columns = [Column("first", "first"), Column("second", "second"), Column("videos", "videos", "count")]
    for kind in kinds:
        columns += [Column(kind, kind.capitalize(), "number"), Column(f"{kind}_p", "p", "p")]
    return Table(
        name,
        title,
        tuple(columns),
        tuple(rows),
        "Over the videos that have both; videos without a score are left out. The p values are not "
        "corrected for "
        "the number of comparisons.",
        "" if rows else "Fewer than two dimensions have scores.",
    )


def write_tables(
    target: Path,
    tables: Iterable[Table],
    figures: Iterable[Figure],
    more: Callable[[OwnedFolder], None] | None = None,
) -> list[Path]:
    """Write tables as CSV, Markdown and LaTeX and figures as SVG and PDF; return the paths.

    Parameters
    ----------
    more
        Writes what else belongs into the folder.

    Raises
    ------
    UserInputError
        If `target` holds something else.
    """
    owned = OwnedFolder(target, LIST_NAME)
    files: dict[str, bytes] = {}
    for table in tables:
        files |= {
            f"{table.name}.csv": csv_text(table).encode(),
            f"{table.name}.md": markdown_text(table).encode(),
            f"{table.name}.tex": latex_text(table).encode(),
        }
    for figure in figures:
        files |= {f"{figure.name}.svg": figure.svg, f"{figure.name}.pdf": figure.pdf}
    for name, content in files.items():
        owned.write(name, content)
    if more is not None:
        more(owned)
    owned.settle()
    return [target / name for name in files]


#: Names of the correlations, as in the tables.
NUMBER = Column("value", "value", "number")


def alignment_figure(table: Table) -> Figure:
    """Return Spearman's ρ and α by dimension, from the table of agreement."""
    return one_figure(table, _alignment)


def correlation_figure(table: Table) -> Figure:
    """Return Spearman's ρ of every two names, from a table of correlations."""
    return one_figure(table, _grid)


def _alignment(table: Table) -> Canvas:
    keys = (("spearman", "Spearman ρ"), ("people_alpha", "α people"), ("machine_alpha", "α with machine"))
    count = len(table.rows)
    canvas = Canvas(figsize=(6.0, 0.9 + 0.42 * count), layout="constrained")
    axes = canvas.add_subplot()
    for offset, (key, label) in enumerate(keys):
        points = [
            (row[key], index + (offset - 1) * 0.2)
            for index, row in enumerate(table.rows)
            if row.get(key) is not None
        ]
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            "osD"[offset],
            color=PALETTE[offset],
            markersize=5,
            label=label,
        )
    axes.set_yticks(range(count), [str(row.get("metric") or row["dimension"]) for row in table.rows])
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_xlim(-1.02, 1.02)
    axes.axvline(0, color=QUIET, linewidth=0.7, dashes=(2, 3))
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    canvas.legend(loc="outside upper left", ncols=3, fontsize=8.0)
    return canvas


def _grid(table: Table) -> Canvas:
    rows = list(dict.fromkeys(str(row["first"]) for row in table.rows))
    columns = list(dict.fromkeys(str(row["second"]) for row in table.rows))
    values = np.full((len(rows), len(columns)), np.nan)
    for row in table.rows:
        if row["spearman"] is not None:
            values[rows.index(str(row["first"])), columns.index(str(row["second"]))] = row["spearman"]
    canvas = Canvas(figsize=(2.2 + 0.45 * len(columns), 1.6 + 0.34 * len(rows)), layout="constrained")
    axes = canvas.add_subplot()
    shown = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    for (down, across), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "white" if abs(value) > 0.6 else INK
            axes.text(across, down, NUMBER.text(value), ha="center", va="center", fontsize=6.5, color=ink)
    canvas.colorbar(shown, ax=axes, label="Spearman ρ", shrink=0.8)
    return canvas


#: The video has no score in the dimension in which it is rated.
NO_SCORE = "no_score"
_SHOWN = 3


def without_score(ratings: Iterable[Rating], scores: Iterable[SuiteScore]) -> dict[str, list[UnusedLine]]:
    """Return by dimension the rated videos without a score, with the reason if it failed.

    Parameters
    ----------
    scores
        The suite's rows with the current settings, including failures.
    """
    scored: set[tuple[VideoKey, str]] = set()
    failed: dict[tuple[VideoKey, str], str] = {}
    for row in scores:
        id_ = VideoKey(model=row.model, prompt_id=row.prompt_id, sample=row.sample), row.dimension
        if row.score is not None:
            scored.add(id_)
        elif row.failure is not None:
            failed[id_] = f"it failed with {row.failure.value}: {row.message}"
    counts: dict[tuple[VideoKey, str], int] = defaultdict(int)
    for rating in ratings:
        if (rating.video, rating.dimension) not in scored:
            counts[rating.video, rating.dimension] += 1
    unused: dict[str, list[UnusedLine]] = defaultdict(list)
    for (video, dimension), count in counts.items():
        why = failed.get((video, dimension), "it was not scored with these settings")
        message = f"{count} rating{'s' if count > 1 else ''} of a video without a score: {why}"
        unused[dimension].append(UnusedLine(f"{video} in {dimension}", NO_SCORE, message))
    return dict(unused)


def in_words(dimension: str, left_out: Sequence[UnusedLine]) -> str:
    """Return one line with the rated videos of a dimension that have no score."""
    names = [one.where.removesuffix(f" in {dimension}") for one in left_out]
    some = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f"{dimension}: {len(names)} rated video{'s' if len(names) > 1 else ''} without a score: {some}"


def left_out_table(left_out: Iterable[UnusedLine]) -> Table:
    """Return the ratings that were left out, with reasons."""
    rows = tuple({"where": one.where, "reason": one.reason, "message": one.message} for one in left_out)
    return Table(
        "alignment-left-out",
        "Ratings that were left out",
        (Column("where", "where"), Column("reason", "reason"), Column("message", "what is wrong")),
        rows,
        "",
        "" if rows else "Every rating was used.",
    )
