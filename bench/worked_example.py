"""Simulated judges of known kinds on the demonstration's own release: ``python -m bench.worked_example``.

Builds the demonstration with controls, a ladder of strengths and excerpts in one command, adds the answers of
the judges, makes the report, and writes ``docs/results/worked-example.md`` with its figures. Builds and
judgements are kept: an interrupted run continues.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.film_severity import ROOT, slvmeval
from bench.known_judges import JUDGES, THRESHOLD, known_rows
from storage_schemas.commit import write_atomic
from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.report.detection_tables import detection_table
from tasks.report.figures import figures_of
from tasks.report.formats import markdown_text
from tasks.report.judged_release import JudgedRelease, load_judged_release
from tasks.report.table import ALL, Column, Table
from tasks.statistics.trials import Trial, pair_points

RELEASE = "instrument"
#: `cpu-instrument` without the three aspects that take most of its time.
RECIPE = f"""base = "cpu-instrument"
name = "{RELEASE}"

[aspects.aesthetics]
operation = "ffmpeg-eq"
strength = "paper"

[aspects.technical_quality]
operation = "lanczos-down-up"
strength = "paper"

[aspects.temporal_flow]
operation = "reinsert-window"
strength = "paper"

[aspects.comprehensiveness]
operation = "remove-clips"
strength = "paper"

[aspects.spatial_relationship]
operation = "horizontal-flip"
strength = "paper"

[aspects.dynamics_degree]
operation = "middle-frame"
strength = "human-actions"
parameters = {{human_actions = true}}

[aspects.color]
operation = "named-colour-hue-shift"

[severity]
clips = [1, 2]
strengths = ["0.1", "0.2", "0.4", "0.7"]
"""


def build(folder: Path, workers: int) -> None:
    """Build the demonstration, add the judges' answers, make the report."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{RELEASE}.toml"
    write_atomic(path, RECIPE.encode())
    switches = ("--workers", str(workers), "--direct", "--quiet")
    slvmeval("demo", "--recipe", path, "--out", folder / "demo", *switches)
    store = Store.open(folder / "demo" / "store")
    judged = JudgementsStore(store)
    failures = judged.failures()
    rows = known_rows(Release.open(store, RELEASE).pairs())
    judged.add(row for row in rows if (row.key, row.pair_id) not in failures)
    site = ("--store", folder / "demo" / "store", "--quiet")
    slvmeval("report", RELEASE, "--out", folder / "report", *site)


def kinds_table(gathered: JudgedRelease) -> Table:
    """Return the numbers that distinguish the kinds of judges, one row per judge."""
    records = gathered.release.pairs()
    weakest = min(gathered.release.recipe["severity"]["strengths"], key=float)
    detected = {row["evaluator"]: row for row in detection_table(gathered).rows if row["aspect"] == ALL}
    scaled = {one.aspect for one in records if one.strength == weakest}
    other_length = {one.pair_id for one in records if one.low_frames != one.high_frames}
    rows = []
    for who, name in gathered.names.items():
        if name not in JUDGES:
            continue
        own, main, controls = (
            [trial for trial in trials if trial.who == who]
            for trials in (gathered.all_trials, gathered.trials, gathered.control_trials)
        )
        found = detected[name]
        rows.append(
            {
                "evaluator": name,
                **{key: found.get(key) for key in ("hits", "alarms", "d_beyond", "bias")},
                "weakest": reached(own, lambda t: t.pair.strength == weakest),
                "strongest": reached(main, lambda t: t.pair.aspect in scaled),
                "longer": reached(controls, lambda t: t.pair.pair_id in other_length),
                "same_length": reached(controls, lambda t: t.pair.pair_id not in other_length),
            }
        )
    columns = (
        Column("evaluator", "judge"),
        Column("hits", "hits", "percent"),
        Column("alarms", "false alarms", "percent"),
        Column("d_beyond", "d′ beyond the edit", "number"),
        Column("bias", "bias c", "number"),
        Column("weakest", f"hits at {weakest}", "percent"),
        Column("strongest", "at full strength", "percent"),
        Column("longer", "alarms, other length", "percent"),
        Column("same_length", "same length", "percent"),
    )
    order = list(JUDGES)
    rows.sort(key=lambda row: order.index(str(row["evaluator"])))
    return Table("kinds", "Kinds of judges", columns, tuple(rows), "", "")


def reached(trials: Iterable[Trial], of: Callable[[Trial], bool]) -> float | None:
    """Return the share of pairs in which the untouched side is preferred; None without pairs."""
    points = pair_points([trial for trial in trials if of(trial)])
    return sum(points.values()) / len(points) if points else None


PAGE = """# Four simulated judges on the demonstration

One command, `slvmeval demo --recipe {name}.toml`, built {pairs} pairs from the demonstration's film: damage,
controls, a ladder of strengths, and excerpts. The recipe is `cpu-instrument` with fewer clips and {aspects}
aspects. `python -m bench.worked_example` wrote this page.

| judge | what it prefers |
|---|---|
| `sees` | the better side of damage, half of the time at strength {threshold:g}; guesses on controls |
| `edits` | the untouched side of any edit |
| `first` | the video that is shown first |
| `length` | the longer video; guesses between videos of equal length |

## By number

{table}

- Hits hardly tell `sees` from `edits`; false alarms do, and so does weak damage (aspects with a scale).
- `first` has one half everywhere and a bias far below 0.
- `length` is alarmed by each control that shortens the video.

## By eye

![Hits against false alarms, by aspect](worked-example.svg)

`sees` is at the top centre, `edits` at the top right, `first` and `length` are near the centre; for
`comprehensiveness`, `length` is at the top right.

## Limits

One film is one source: all intervals include chance. See [controls](controls.md),
[thresholds](thresholds.md).
"""


def page(gathered: JudgedRelease) -> str:
    """Return the page."""
    table = markdown_text(kinds_table(gathered)).split("\n\n", 1)[-1].strip()
    aspects = len(gathered.aspects)
    pairs = len(gathered.release.pairs())
    return PAGE.format(name=RELEASE, pairs=pairs, aspects=aspects, table=table, threshold=THRESHOLD)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, judge and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.worked_example", description=__doc__)
    folder = ROOT / "build" / "worked-example"
    parser.add_argument("--folder", type=Path, default=folder, help="the demonstration and the report")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument(
        "--written", action="store_true", help="only write the page, from existing judgements"
    )
    chosen = parser.parse_args(arguments)
    folder, out = chosen.folder.resolve(), chosen.out.resolve()
    if not chosen.written:
        build(folder, chosen.workers)
    gathered = load_judged_release(Release.open(Store.open(folder / "demo" / "store"), RELEASE))
    detected = detection_table(gathered)
    out.mkdir(parents=True, exist_ok=True)
    (figure,) = figures_of({detected.name: detected}, tuple(JUDGES))
    write_atomic(out / "worked-example.svg", figure.svg)
    write_atomic(out / "worked-example.md", page(gathered).encode())
    print(out / "worked-example.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
