"""Words and lengths of prompt suites as tables and figures (LoCoT2V-Bench, appendix B.3)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure as Canvas
from matplotlib.textpath import TextPath

from tasks.prompt_suite.complexity import words_in
from tasks.report.figures import LINE, PALETTE, Figure, one_figure
from tasks.report.table import Column, Table
from tasks.scoring.suites.base import SuitePrompt

#: Words of one bar.
STEP = 50
#: Words of the cloud.
MOST_WORDS = 80
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
#: English words that say nothing of what a prompt is about.
_FUNCTION_WORDS = frozenset(
    "a about above across after against all along also although am among an and another any are around as "
    "at away back be because been before behind being below beneath beside between beyond both but by can "
    "could did do does down during each either else ever every few for from further had has have he her "
    "here hers him his how i if in inside into is it its itself just like many may might more most much "
    "must my near neither no nor not now of off on once one only onto or other others our out outside "
    "over own per same several she should since so some such than that the their theirs them then there "
    "these they this those though through throughout to together too toward towards under until up upon "
    "us used using very was we were what when where whether which while who whom whose why will with "
    "within without would yet you your".split()
)


def counted_words(prompts: Sequence[SuitePrompt]) -> list[tuple[str, int]]:
    """Return the most frequent words, without English function words, in lower case; ties by the alphabet.

    Words are letters with inner apostrophes and hyphens.
    """
    counts = Counter(
        word
        for prompt in prompts
        for word in _WORD.findall(prompt.text.lower())
        if len(word) > 1 and word not in _FUNCTION_WORDS
    )
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS]


def length_table(suites: Mapping[str, Sequence[SuitePrompt]]) -> Table:
    """Return how many prompts of each suite have how many words, in steps of `STEP` words."""
    bins = {name: Counter(words_in(one.text) // STEP for one in prompts) for name, prompts in suites.items()}
    rows = [
        {"suite": name, "least": place * STEP, "below": (place + 1) * STEP, "prompts": counts[place]}
        for name, counts in bins.items()
        if counts
        for place in range(min(counts), max(counts) + 1)
    ]
    columns = (
        Column("suite", "suite"),
        Column("least", "words from", "count"),
        Column("below", "below", "count"),
        Column("prompts", "prompts", "count"),
    )
    return Table("prompt-lengths", "Lengths of prompts", columns, tuple(rows), "Words as in the table above.")


def word_table(suites: Mapping[str, Sequence[SuitePrompt]]) -> Table:
    """Return the most frequent words of all suites together."""
    words = counted_words([prompt for prompts in suites.values() for prompt in prompts])
    return Table(
        "prompt-words",
        "Frequent words",
        (Column("word", "word"), Column("count", "count", "count")),
        tuple({"word": word, "count": count} for word, count in words),
        f"The {MOST_WORDS} most frequent words of all prompts, without English function words.",
        "" if words else "The prompts have no words.",
    )


def length_figures(tables: Mapping[str, Table]) -> list[Figure]:
    """Return the figures of the tables that have rows: lengths, words as a cloud, and means by theme."""
    drawn = {"prompt-lengths": _bars, "prompt-words": _cloud, "prompt-complexity-by-theme": _themes}
    return [one_figure(tables[name], draw) for name, draw in drawn.items() if tables[name].rows]


def _bars(table: Table) -> Canvas:
    names = list(dict.fromkeys(str(row["suite"]) for row in table.rows))
    canvas = Canvas(figsize=(6.0, 0.6 + 1.5 * len(names)), layout="constrained")
    panels = canvas.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for place, (name, axes) in enumerate(zip(names, panels, strict=True)):
        rows = [row for row in table.rows if row["suite"] == name]
        starts, heights = [row["least"] for row in rows], [row["prompts"] for row in rows]
        axes.bar(starts, heights, STEP * 0.94, align="edge", color=PALETTE[place % len(PALETTE)])
        axes.set_title(name, loc="left")
        axes.set_ylabel("prompts")
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.grid(axis="y", color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
    panels[-1].set_xlabel("words")
    return canvas


#: Size of the cloud's letters in points, and its width, in points.
_SMALLEST, _LARGEST, _WIDTH = 7.0, 26.0, 430.0


def _cloud(table: Table) -> Canvas:
    """Words in the alphabet's order, in lines; their area grows with their number."""
    most = max(row["count"] for row in table.rows)
    words = sorted((str(row["word"]), _SMALLEST + (_LARGEST - _SMALLEST) * math.sqrt(row["count"] / most))
                   for row in table.rows)  # fmt: skip
    lines: list[list[tuple[str, float, float]]] = [[]]
    for word, size in words:
        width = float(TextPath((0, 0), word, size=size).get_extents().width) + 0.6 * _SMALLEST
        if lines[-1] and sum(one[2] for one in lines[-1]) + width > _WIDTH:
            lines.append([])
        lines[-1].append((word, size, width))
    heights = [1.25 * max(size for _, size, _ in line) for line in lines]
    canvas = Canvas(figsize=((_WIDTH + 20) / 72, (sum(heights) + 16) / 72))
    axes = canvas.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH + 20), ylim=(0, sum(heights) + 16))
    axes.set_axis_off()
    down = sum(heights) + 8
    for number, (line, height) in enumerate(zip(lines, heights, strict=True)):
        down -= height
        across = 10 + (_WIDTH - sum(width for *_, width in line)) / 2
        for place, (word, size, width) in enumerate(line):
            color = PALETTE[(number + place) % len(PALETTE)]
            axes.text(across, down + 0.25 * height, word, fontsize=size, color=color)
            across += width
    return canvas


def _themes(table: Table) -> Canvas:
    """Mean words and complexity of each theme, each as a share of the greatest."""
    keys = (("words", "mean words"), ("complexity", "mean complexity"))
    names = [f"{row['theme']} ({row['suite']})" for row in table.rows]
    canvas = Canvas(figsize=(6.0, 0.9 + 0.34 * len(names)), layout="constrained")
    axes = canvas.add_subplot()
    for offset, (key, label) in enumerate(keys):
        values = [row[key] for row in table.rows]
        most = max((value for value in values if value), default=0)
        if most:
            places = [
                place + (offset - 0.5) * 0.38 for place, value in enumerate(values) if value is not None
            ]
            shares = [value / most for value in values if value is not None]
            axes.barh(places, shares, 0.36, color=PALETTE[offset], label=label)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("share of the greatest")
    canvas.legend(loc="outside upper left", ncols=2, fontsize=8.0)
    return canvas
