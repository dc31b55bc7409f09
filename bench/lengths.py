"""Accuracy by length and position around the same damage: ``python -m bench.lengths``.

Builds excerpts of several lengths and positions from parts of the demonstration's film, lets the trivial
baselines and simulated judges judge them, and writes ``docs/results/lengths.md`` with its figure. Builds and
judgements are kept: an interrupted run continues.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.controls import judged_parts
from bench.known_judges import known_rows, overlooks
from storage_schemas.commit import write_atomic
from storage_schemas.judgements import JudgementsStore
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.aspects.registry import BUILT_IN as ASPECTS
from tasks.report.detection_tables import TRIVIAL
from tasks.report.figures import figures_of
from tasks.report.formats import markdown_text
from tasks.report.judged_release import JudgedRelease, load_judged_release
from tasks.report.length_tables import length_tables
from tasks.report.table import ALL, Column, Table

ROOT = Path(__file__).resolve().parents[1]
RELEASE = "lengths"
JUDGES = ("sees", "overlooks")
RECIPE = """base = "cpu-approx"
name = "lengths"
clips_per_pair = 1
least_duration_s = 5

[lengths]
shares = [0.2, 0.5]
positions = ["early", "middle", "late"]
"""


def build(folder: Path, workers: int) -> None:
    """Build and judge."""
    judged_parts(folder, RELEASE, RECIPE, workers)
    store = Store.open(folder / "store")
    judged = JudgementsStore(store)
    failures = judged.failures()
    rows = known_rows(Release.open(store, RELEASE).pairs(), {"overlooks": overlooks})
    rows = [*rows, *known_rows(Release.open(store, RELEASE).pairs())]
    judged.add(row for row in rows if row.evaluator in JUDGES and (row.key, row.pair_id) not in failures)


def baseline_rows(table: Table) -> Iterator[str]:
    """Yield each aspect's baselines: their accuracies by share, at the damage's own position."""
    for aspect in (*ASPECTS, ALL):
        counts, same, changing = "", [], []
        for name in TRIVIAL:
            rows = [
                row
                for row in table.rows
                if (row["aspect"], row["evaluator"], row["position"]) == (aspect, name, "own")
            ]
            if rows and any(row["accuracy"] != 0.5 for row in rows):
                counts = ", ".join(str(row["pairs"]) for row in rows)
                shares = [f"{100 * row['accuracy']:.0f}" for row in rows]
                if len(set(shares)) == 1:
                    same.append(f"{name} {shares[0]}")
                else:
                    changing.append(f"{name} {', '.join(shares)}")
        if counts:
            cells = " | ".join("; ".join(some) or "–" for some in (same, changing))
            yield f"| {aspect.replace('_', ' ')} | {counts} | {cells} |"


def page(gathered: JudgedRelease, records: Sequence[PairRecord]) -> str:
    """Return the page."""
    curve, change = length_tables(gathered)
    # for the other positions, the changes are enough
    own = tuple(row for row in _of_judges(curve) if row["position"] == "own")
    tables = [
        replace(curve, rows=own, columns=_without(curve, "aspect", "sources", "position"), note=""),
        replace(change, rows=_of_judges(change), columns=_without(change, "aspect", "sources"), note=""),
    ]
    excerpts = [record.excerpt for record in records if record.excerpt is not None]
    return PAGE.format(
        parts=len(gathered.release.sources()),
        excerpts=len(excerpts),
        short=sum(one.share < 1 for one in excerpts),
        baselines="\n".join(baseline_rows(curve)),
        curve=markdown_text(tables[0]).split("\n\n", 1)[-1].strip(),
        change=markdown_text(tables[1]).split("\n\n", 1)[-1].strip(),
    )


def _without(table: Table, *keys: str) -> tuple[Column, ...]:
    return tuple(column for column in table.columns if column.key not in keys)


def _of_judges(table: Table) -> tuple[dict[str, object], ...]:
    return tuple(dict(row) for row in table.rows if row["aspect"] == ALL and row["evaluator"] in JUDGES)


PAGE = """# Length and position around the same damage

Sources: *Big Buck Bunny* in {parts} parts of ten clips. All ten aspects of the recipe `cpu-approx`, one
damaged clip in each pair, and [excerpts](../recipes.md#lengths) of a fifth and half of each part around it:
{excerpts} pairs, {short} of them shorter than their part. `python -m bench.lengths` wrote this page.

## Trivial numbers

Accuracy in per cent at 20, 50 and 100 % of the part, with the damage at its own relative position; numbers
that always tie are left out. A number over all frames differs by the damage alone, so it mostly answers the
same at every length: a judge whose accuracy falls with length takes no such shortcut.

| aspect | pairs | same at every length | changing |
|---|---|---|---|
{baselines}

## Two simulated judges

`sees` errs one time in ten. `overlooks` sees damage with a probability of the square root of its share of
the video, up to 90 %, and guesses otherwise: the longer the video, the less it sees. Over all aspects,
{parts} sources:

{curve}

{change}

![Accuracy by length, all aspects](lengths.svg)

## Limits

Parts of one film are not independent: intervals come from {parts} sources and are too narrow for film in
general. Parts last at most 100 s: this shows how the axis works, not which length is too long for a model.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, judge and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.lengths", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "lengths", help="films and store")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument(
        "--written", action="store_true", help="only write the page, from existing judgements"
    )
    chosen = parser.parse_args(arguments)
    folder, out = chosen.folder.resolve(), chosen.out.resolve()
    if not chosen.written:
        folder.mkdir(parents=True, exist_ok=True)
        build(folder, chosen.workers)
    release = Release.open(Store.open(folder / "store"), RELEASE)
    gathered = load_judged_release(release)
    table, _ = length_tables(gathered)
    (figure,) = figures_of({table.name: replace(table, rows=_of_judges(table))}, JUDGES)
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "lengths.svg", figure.svg)
    write_atomic(out / "lengths.md", page(gathered, release.pairs()).encode())
    print(out / "lengths.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
