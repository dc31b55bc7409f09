"""Eligible and required clips by film and aspect, as ``sources scan`` and ``build --dry-run`` print them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from slvmeval.cli import terminal

if TYPE_CHECKING:
    from storage_schemas.pair import ClipCount

#: Films that a table shows; JSON lists all.
MAX_FILMS = 50

Counts = Mapping[str, Mapping[str, int]]


def counts_values(counts: Iterable[ClipCount]) -> dict[str, dict[str, int]]:
    """Return the counts of a film by aspect, JSON-serialisable."""
    return {count.aspect: {"eligible": count.eligible, "needed": count.needed} for count in counts}


def advice_values(films: Iterable[Counts]) -> dict[str, str]:
    """Return what captions must describe, for each aspect with too few clips in some film."""
    from tasks.pairs.clip_counts import caption_advice

    short = dict.fromkeys(name for counts in films for name in _short(counts))
    return {name: caption_advice(name) for name in short}


def print_counts(films: Sequence[tuple[str, Counts]]) -> None:
    """Print the counts of films by title, those with too few clips first, and what captions must describe."""
    if not films:
        return
    ranked = sorted(films, key=lambda film: not _short(film[1]))
    cells = [
        (
            title,
            _cell(counts, {*counts} - {*_short(counts)}),
            _cell(counts, _short(counts)),
        )
        for title, counts in ranked[:MAX_FILMS]
    ]
    columns = ("film", "enough clips", "too few clips: no pair")
    terminal.say(terminal.Grid("eligible clips / needed clips, by film and aspect", columns, cells))
    if len(films) > MAX_FILMS:
        terminal.say(f"  … and {len(films) - MAX_FILMS} more films; --format json lists all")
    for name, advice in advice_values(counts for _, counts in films).items():
        short = sum(name in _short(counts) for _, counts in films)
        terminal.say(f"captions:  {name} has too few clips in {short} of {len(films)} films. {advice}")


def _short(counts: Counts) -> list[str]:
    """Return the aspects with too few clips."""
    return [name for name, count in counts.items() if count["eligible"] < count["needed"]]


def _cell(counts: Counts, names: Iterable[str]) -> str:
    shown = set(names)
    return ", ".join(f"{name} {c['eligible']}/{c['needed']}" for name, c in counts.items() if name in shown)
