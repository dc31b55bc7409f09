"""One page on two evaluators: is one better, at what, by how much, and how many pairs would show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from storage_schemas.errors import UserInputError, suggestion
from tasks.report.figures import INK, LINE, PALETTE, QUIET, Figure, inline_svg, one_figure
from tasks.report.formats import csv_text, latex_text, markdown_text, render
from tasks.report.judged_pairs import JudgedPairs, small_sample
from tasks.report.table import ALL, ASPECT, Column, Table, aspect_title, interval_columns
from tasks.statistics.comparisons import Comparison, compare, holm
from tasks.statistics.intervals import ALPHA
from tasks.statistics.power import POWER
from tasks.statistics.trials import Trial, Who, grouped, pair_points

#: Stem of all file names.
NAME = "comparison"
#: A difference of accuracies that matters, unless another is asked for.
DIFFERENCE = 0.05
_POINTS = Column("difference", "difference", "points")
_PERCENT = Column("accuracy", "accuracy", "percent")
_P = Column("p", "p", "p")


@dataclass(frozen=True)
class AspectComparison:
    """Two evaluators on one aspect, on the pairs that both answered.

    Parameters
    ----------
    aspect
        The aspect, or ``all``.
    accuracies
        Of the first and the second, as means over the common pairs; None without any.
    better
        0 or 1 where it is shown which is better, else None: by a sign-flip test by source, with Holm's
        correction over the aspects.
    p_holm
        Corrected over the aspects; not for all aspects together. None without common pairs.
    pairs_for_seen
        Number of pairs needed to detect the observed difference; None if there is none.
    pairs_for_asked
        Number of pairs that would show the difference that was asked for; None if the two differ more rarely.
    """

    aspect: str
    accuracies: tuple[float | None, float | None]
    comparison: Comparison
    better: int | None
    p_holm: float | None
    pairs_for_seen: int | None
    pairs_for_asked: int | None


@dataclass(frozen=True)
class EvaluatorComparison:
    """Two evaluators on the same pairs; `aspects` ends with all of them together if there are several."""

    gathered: JudgedPairs
    names: tuple[str, str]
    difference: float
    aspects: tuple[AspectComparison, ...]


def compare_evaluators(
    gathered: JudgedPairs, first: str, second: str, difference: float = DIFFERENCE
) -> EvaluatorComparison:
    """Compare two evaluators on the pairs that both answered.

    Parameters
    ----------
    first, second
        Names as in a report's tables.
    difference
        The difference of accuracies for which numbers of pairs are wanted.

    Raises
    ------
    UserInputError
        If a name is unknown or has several settings, or both are the same.
    """
    whos = _who(gathered, first), _who(gathered, second)
    if whos[0] == whos[1]:
        raise UserInputError(f"{first} is compared with itself: name two evaluators")
    if not 0 < difference < 1:
        raise UserInputError(f"a difference of {100 * difference:g} points: give one between 0 and 100")
    by_who = gathered.by_who()
    trials = by_who.get(whos[0], []), by_who.get(whos[1], [])
    held = [grouped(some, lambda trial: trial.pair.aspect) for some in trials]
    aspects = [aspect for aspect in gathered.aspects if aspect in held[0] and aspect in held[1]]
    parts = [(held[0][aspect], held[1][aspect]) for aspect in aspects]
    made = [compare(ours, theirs, gathered.ties) for ours, theirs in parts]
    corrected = holm([one.p for one in made])
    rows = [
        _row(aspect, part, one, p, gathered, difference)
        for aspect, part, one, p in zip(aspects, parts, made, corrected, strict=True)
    ]
    if len(rows) > 1:
        total = compare(*trials, gathered.ties)
        rows.append(_row(ALL, trials, total, total.p, gathered, difference))
    return EvaluatorComparison(
        gathered, (gathered.names[whos[0]], gathered.names[whos[1]]), difference, tuple(rows)
    )


def _who(gathered: JudgedPairs, name: str) -> Who:
    for who, shown in gathered.names.items():
        if shown == name:
            return who
    several = [f"'{shown}'" for who, shown in gathered.names.items() if who[0] == name]
    if several:
        raise UserInputError(f"{name} judged with several settings, name one of: {', '.join(several)}")
    names = list(gathered.names.values())
    near = suggestion(name, names, "judged by")
    raise UserInputError(f"{name} has not judged these pairs: {near}")


def _row(
    aspect: str,
    trials: Sequence[Sequence[Trial]],
    comparison: Comparison,
    p_holm: float | None,
    gathered: JudgedPairs,
    asked: float,
) -> AspectComparison:
    points = [pair_points(some, gathered.ties) for some in trials]
    common = [pair for pair in points[0] if pair in points[1]]
    accuracies = [fmean(one[pair] for pair in common) if common else None for one in points]
    seen = comparison.difference or 0.0
    better = None
    if p_holm is not None and p_holm < ALPHA and seen:
        better = 0 if seen > 0 else 1
    return AspectComparison(
        aspect=aspect,
        accuracies=(accuracies[0], accuracies[1]),
        comparison=comparison,
        better=better,
        p_holm=p_holm,
        pairs_for_seen=comparison.pairs_needed(seen),
        pairs_for_asked=comparison.pairs_needed(asked),
    )


def comparison_table(made: EvaluatorComparison) -> Table:
    """Return the comparison as a table, a row for each aspect."""
    first, second = made.names
    asked = f"{100 * made.difference:g}"
    rows = [
        {
            "aspect": row.aspect,
            "better": None if row.better is None else made.names[row.better],
            "pairs": row.comparison.pairs,
            "sources": row.comparison.sources,
            "first": row.accuracies[0],
            "second": row.accuracies[1],
            "difference": row.comparison.difference,
            "low": row.comparison.interval.low if row.comparison.interval else None,
            "high": row.comparison.interval.high if row.comparison.interval else None,
            "first_better": row.comparison.first_better,
            "second_better": row.comparison.second_better,
            "p_holm": row.p_holm,
            "shown": row.comparison.difference_shown(),
            "pairs_for_seen": row.pairs_for_seen,
            "pairs_for_asked": row.pairs_for_asked,
        }
        for row in made.aspects
    ]
    return Table(
        NAME,
        f"{first} against {second}",
        (
            ASPECT,
            Column("better", "better"),
            Column("pairs", "pairs of both", "count"),
            Column("sources", "of sources", "count", shown=False),
            Column("first", first, "percent"),
            Column("second", second, "percent"),
            _POINTS,
            *interval_columns("95 %", "points"),
            Column("first_better", "only the first right", "count"),
            Column("second_better", "only the second right", "count"),
            Column("p_holm", "p, Holm", "p"),
            Column("shown", "difference shown", "points"),
            Column("pairs_for_seen", "pairs for this difference", "count"),
            Column("pairs_for_asked", f"pairs for {asked} points", "count"),
        ),
        tuple(rows),
        "On the pairs that both answered; first minus second. Better: who is shown to be, by a sign-flip "
        "test by source; p is corrected by Holm over the aspects, not for all of them together. "
        "Difference shown: the smallest that these pairs show. Pairs: how many would show this "
        f"difference, and one of {asked} points, where the two differ as often as here and pairs of a source "
        "are as alike; a dash where they differ more rarely than that. "
        f"Two-sided at 5 %, power {100 * POWER:g} %.",
        "" if rows else "There is no pair that both answered.",
    )


def verdict(made: EvaluatorComparison) -> list[str]:
    """Return the answer in sentences: who is better, at what, by how much, and what would be needed."""
    if not made.aspects:
        return [f"There is no pair that both {made.names[0]} and {made.names[1]} answered."]
    sentences = []
    total = made.aspects[-1] if made.aspects[-1].aspect == ALL else None
    aspects = made.aspects[:-1] if total is not None else made.aspects
    if total is not None:
        sentences.append(_on(total, made, "Over all aspects"))
    for index, name in enumerate(made.names):
        at = [aspect_title(row.aspect) for row in aspects if row.better == index]
        if at:
            sentences.append(f"{name} is better at {', '.join(at)}.")
    unclear = [row for row in aspects if row.better is None]
    if unclear:
        names = ", ".join(aspect_title(row.aspect) for row in unclear)
        sentences.append(f"No significant difference for {names}.")
    needed = [row for row in unclear if row.pairs_for_seen is not None]
    few = small_sample(max(row.comparison.sources for row in made.aspects))
    if few:
        sentences.append(few)
    if needed:
        row = max(needed, key=lambda one: one.pairs_for_seen or 0)
        sentences.append(
            f"Detecting the observed differences takes up to {row.pairs_for_seen:,} pairs per aspect "
            f"({aspect_title(row.aspect)}); there are {row.comparison.pairs:,}."
        )
    return sentences


def _on(row: AspectComparison, made: EvaluatorComparison, where: str) -> str:
    comparison = row.comparison
    if comparison.difference is None:
        return f"{where} there is nothing to compare: there is no pair that both answered."
    facts = [f"p = {_P.text(row.p_holm)}".replace("= <", "<")]
    interval, sign = comparison.interval, -1 if row.better == 1 else 1
    if interval is not None:
        ends = map(_POINTS.text, sorted(sign * end for end in (interval.low, interval.high)))
        facts.insert(0, f"95 %: {' to '.join(ends)}")
    size = f"{_POINTS.text(sign * comparison.difference)} points ({'; '.join(facts)})"
    if row.better is None:
        return f"{where} no significant difference: {size}."
    return f"{where} {made.names[row.better]} is better than {made.names[1 - row.better]}: {size}."


def comparison_files(made: EvaluatorComparison) -> dict[str, bytes]:
    """Return the page, its table and its figure by file name."""
    table = comparison_table(made)
    files = {
        f"{NAME}.csv": csv_text(table).encode(),
        f"{NAME}.md": markdown_text(table).encode(),
        f"{NAME}.tex": latex_text(table).encode(),
    }
    figure = one_figure(table, _differences) if any(_has_interval(row) for row in table.rows) else None
    if figure is not None:
        files |= {f"{NAME}.svg": figure.svg, f"{NAME}.pdf": figure.pdf}
    return files | {f"{NAME}.html": _page(made, table, figure)}


def _has_interval(row: Any) -> bool:
    return row["low"] is not None


def _differences(table: Table) -> Canvas:
    rows = [row for row in table.rows if row["difference"] is not None]
    canvas = Canvas(figsize=(6.4, 0.8 + 0.3 * len(rows)), layout="constrained")
    axes = canvas.add_subplot()
    axes.axvline(0, color=QUIET, linewidth=0.7, dashes=(2, 3))
    for index, row in enumerate(reversed(rows)):
        color = PALETTE[0] if row["better"] else QUIET
        if _has_interval(row):
            axes.plot([100 * row["low"], 100 * row["high"]], [index, index], color=color, linewidth=1.6)
        axes.plot(100 * row["difference"], index, "o", color=color, markersize=5)
    axes.set_yticks(range(len(rows)), [aspect_title(row["aspect"]) for row in reversed(rows)])
    for label in axes.get_yticklabels():
        label.set_color(INK)
    first, second = table.title.split(" against ", 1)
    axes.set_xlabel(f"points of accuracy, {first} minus {second}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    return canvas


def _page(made: EvaluatorComparison, table: Table, figure: Figure | None) -> bytes:
    drawing = ""
    if figure is not None:
        drawing = Markup(inline_svg(figure.svg, NAME, f"{figure.title}; the numbers are in the table below"))
    total = made.aspects[-1] if made.aspects else None
    facts = []
    if total is not None:
        facts = [
            *((name, _PERCENT.text(value)) for name, value in zip(made.names, total.accuracies, strict=True)),
            ("Difference, points", _POINTS.text(total.comparison.difference)),
            ("Pairs of both", f"{total.comparison.pairs:,}"),
        ]
    data = {
        "title": table.title,
        "names": made.names,
        "judged": made.gathered.title,
        "facts": facts,
        "sentences": verdict(made),
        "table": table,
        "drawing": drawing,
    }
    return render("comparison.html.j2", data)
