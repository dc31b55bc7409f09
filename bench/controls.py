"""Controls of the demonstration's film, and judges' answers on them: ``python -m bench.controls``.

Cuts the film into parts, used as sources, builds every aspect of the recipe `cpu-approx` with its control,
lets the trivial baselines and their probes judge the pairs, adds the answers of simulated judges of known
kinds, and writes ``docs/results/controls.md``. Builds and judgements are kept: an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.film_severity import ROOT, slvmeval
from bench.films import BUNNY, run_ffmpeg
from bench.known_judges import JUDGES, known_rows
from slvmeval.demo.fetch import fetch_demo, read_captions
from storage_schemas.commit import write_atomic
from storage_schemas.errors import Reason
from storage_schemas.judgements import JudgementsStore
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.aspects.registry import BUILT_IN as ASPECTS
from tasks.aspects.registry import aspect as find_aspect
from tasks.pairs.degrade_clip import absolute_difference
from tasks.pairs.view import open_record
from tasks.report.detection_tables import TRIVIAL, detection_table
from tasks.report.figures import figures_of
from tasks.report.formats import markdown_text
from tasks.report.judged_release import JudgedRelease, load_judged_release
from tasks.report.probe_tables import probe_tables
from tasks.report.table import ALL, Column, Table
from tasks.statistics.trials import Trial, pair_points

RELEASE = "controls"
#: Clips per part of the film, and damaged clips per pair.
CLIPS, DAMAGED = 10, 2
PROBES = "one-frame,shuffled"
#: A small model with its real weights.
MODEL = "brisque"
#: A baseline within this distance of one half counts as at chance.
CHANCE = 0.15
RECIPE = f"""base = "cpu-approx"
name = "controls"
controls = true
clips_per_pair = {DAMAGED}
least_duration_s = 5
"""


def parts_of_film(film: Path, folder: Path) -> None:
    """Write the parts of the film with their captions, and the licences."""
    folder.mkdir(parents=True, exist_ok=True)
    clips = [json.loads(line) for line in read_captions("big_buck_bunny.jsonl").decode().splitlines()]
    for number, first in enumerate(range(0, len(clips), CLIPS)):
        some = clips[first : first + CLIPS]
        start, end = some[0]["start_s"], some[-1]["end_s"]
        path = folder / f"part{number}.mp4"
        if not path.exists():
            draft = folder / f"draft-{path.name}"
            cut = ("-ss", f"{start}", "-i", film, "-t", f"{end - start:.3f}", "-an", "-vf", "scale=640:-2")
            run_ffmpeg(*cut, "-c:v", "libx264", "-preset", "veryfast", "-crf", "18", draft)
            draft.replace(path)
        # the last frame may end slightly before its clip
        moved = [
            {**clip, "start_s": clip["start_s"] - start, "end_s": clip["end_s"] - start} for clip in some
        ]
        moved[-1]["end_s"] -= 0.1
        write_atomic(path.with_suffix(".jsonl"), "".join(json.dumps(one) + "\n" for one in moved).encode())


def judged_parts(folder: Path, release: str, recipe: str, workers: int) -> tuple[str | Path, ...]:
    """Build the parts of the film with a recipe, let trivial baselines judge them, and return the options."""
    demo = fetch_demo(folder / "demo")
    parts_of_film(demo.videos / BUNNY, folder / "parts")
    path = folder / f"{release}.toml"
    write_atomic(path, recipe.encode())
    site = ("--store", folder / "store", "--model-folder", demo.u2netp.parent)
    site = (*site, "--workers", str(workers), "--direct", "--quiet")
    slvmeval("build", release, "-s", folder / "parts", "--recipe", path, *site)
    slvmeval("evaluate", release, *(word for name in TRIVIAL for word in ("-e", name)), *site)
    return site


def build(folder: Path, workers: int) -> None:
    """Build and judge."""
    site = judged_parts(folder, RELEASE, RECIPE, workers)
    slvmeval("evaluate", RELEASE, "-e", MODEL, *site)
    # the others see no frames, or not their order
    probed = [word for name in ("motion", "scenes", "sharpness", MODEL) for word in ("-e", name)]
    slvmeval("evaluate", RELEASE, *probed, "--probe", PROBES, *site)
    store = Store.open(folder / "store")
    judged = JudgementsStore(store)
    failures = judged.failures()
    rows = known_rows(Release.open(store, RELEASE).pairs())
    judged.add(row for row in rows if (row.key, row.pair_id) not in failures)


def footprint(store: Store, records: Iterable[PairRecord]) -> str:
    """Return the medians of how much an edited clip changes, and of how much shorter the video is."""
    differences, shorter = [], []
    for record in records:
        shorter.append((record.high_frames - record.low_frames) / record.fps)
        pair = open_record(store, record, "")
        position = 0
        for segment in record.segments:
            if segment.kind == "degraded":
                count = segment.frame_count
                before = pair.high.planes(range(segment.first_frame, segment.first_frame + count))
                after = pair.low.planes(range(position, position + count))
                differences.append(absolute_difference(before, after) / before.size)
            position += segment.frame_count
    if differences:
        return f"{median(differences):.1f} steps"
    return f"{median(shorter):.0f} s shorter" if any(shorter) else "order of clips"


def reached(trials: Sequence[Trial]) -> float:
    """Return the share of pairs in which the untouched side is preferred."""
    points = pair_points(trials)
    return sum(points.values()) / len(points)


def shares(damaged: Sequence[Trial], controls: Sequence[Trial]) -> str:
    """Return a baseline's hits and false alarms, the latter in bold if not at chance."""
    hit, alarm = reached(damaged), reached(controls)
    alarms = f"{100 * alarm:.0f}"
    return f"{100 * hit:.0f} / {alarms if abs(alarm - 0.5) <= CHANCE else f'**{alarms}**'}"


def baseline_table(gathered: JudgedRelease) -> str:
    """Return hits and false alarms of each baseline, by aspect."""
    names = (*TRIVIAL, MODEL)
    lines = [f"| aspect | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for aspect in ASPECTS:
        cells = []
        for name in names:
            damaged, controls = (
                [t for t in trials if (t.evaluator, t.pair.aspect) == (name, aspect)]
                for trials in (gathered.trials, gathered.control_trials)
            )
            cells.append(shares(damaged, controls) if damaged and controls else "–")
        lines.append(f"| {aspect} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def operations_table(store: Store, release: Release) -> str:
    """Return each aspect's control: what is done, and its footprint."""
    lines = ["| aspect | operation | damage | control | controls |", "|---" * 5 + "|"]
    for aspect in ASPECTS:
        control = find_aspect(aspect).control
        assert control is not None
        own = [[r for r in release.pairs(aspect) if r.control is kind] for kind in (False, True)]
        sizes = [footprint(store, records) if records else "–" for records in own]
        of_controls = f"{len(own[1])} of {len(own[0])}"
        lines.append(f"| {aspect} | `{control.operation.name}` | {' | '.join(sizes)} | {of_controls} |")
    return "\n".join(lines) + "\n"


def _only(table: Table, keep: Mapping[str, str], aspects: Sequence[str], names: Iterable[str]) -> Table:
    columns = tuple(Column(c.key, keep[c.key], c.kind) for c in table.columns if c.key in keep)
    chosen = set(names)
    rows = (row for row in table.rows if row["aspect"] in aspects and row["evaluator"] in chosen)
    return replace(table, columns=columns, rows=tuple(rows), note="")


def _lost(release: Release) -> Iterator[str]:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for row in release.set_aside():
        if row.stage == "control":
            why = "too few clips" if row.reason is Reason.TOO_FEW_ELIGIBLE_CLIPS else row.reason.value
            counts[row.aspect, why] += 1
    for (aspect, why), count in sorted(counts.items()):
        yield f"{aspect} {count} ({why.replace('_', ' ')})"


def page(store: Store, release: Release, gathered: JudgedRelease) -> str:
    """Return the page."""
    shown = {
        "evaluator": "judge",
        "aspect": "aspect",
        "hits": "hits",
        "alarms": "false alarms",
        "d_damage": "d′ damage",
        "d_edit": "d′ edit",
        "d_beyond": "d′ beyond the edit",
        "d_beyond_low": "from",
        "d_beyond_high": "to",
        "bias": "bias c",
    }
    detected = detection_table(gathered)
    examples = _only(detected, shown, (ALL, "comprehensiveness"), JUDGES)
    accuracy = ("evaluator", "accuracy", "one-frame", "shuffled")
    probes, _ = probe_tables(gathered)
    rests = _only(probes, dict(zip(accuracy, accuracy, strict=True)), (ALL,), (*TRIVIAL, MODEL))
    values: dict[str, Any] = {
        "parts": len(release.sources()),
        "clips": CLIPS,
        "damaged": DAMAGED,
        "operations": operations_table(store, release),
        "baselines": baseline_table(gathered),
        "lost": "; ".join(_lost(release)) or "none",
        "examples": markdown_text(examples).split("\n\n", 1)[-1].strip() + "\n",
        "probes": markdown_text(rests).split("\n\n", 1)[-1].strip() + "\n",
        "chance": f"{100 * CHANCE:.0f}",
    }
    return PAGE.format(**values)


PAGE = """# Controls: seeing damage, noticing edits, taking shortcuts

Sources: *Big Buck Bunny* in {parts} parts of {clips} clips. All ten aspects of the recipe `cpu-approx`,
{damaged} damaged clips in each pair, and a control for each pair. [Signal
detection](../signal-detection.md) explains the numbers; `python -m bench.controls` wrote this page.

## The controls

Damage and control: median of the mean difference of an edited clip over all planes, in 8-bit steps, or what
else distinguishes the sides. [Recipes](../recipes.md#controls) says why no side of a control is better.

{operations}
Controls left out (their pairs remain): {lost}.

## Trivial numbers and a small model: damage and controls

`brisque` is BRISQUE with its published weights, the mean over frames. Hits / false alarms in per cent: how
often the untouched side has the greater number or the better score, on damaged pairs and on controls; ties
count half and 50 is chance. Bold: more than {chance} points from chance on controls.

{baselines}
## Four simulated judges

`sees` prefers the better side of damage and guesses on controls, `edits` prefers the untouched side of any
edit, `first` the video shown first, `length` the longer one. The first two err one time in ten.

{examples}
![Hits against false alarms, by aspect](controls.svg)

Accuracy does not separate `sees` from `edits`; false alarms do: beyond the edit, nothing remains of `edits`.
`first` has hits and false alarms of one half, and a bias. `length` is perfect at `comprehensiveness` and at
its controls, where nothing is missing: its accuracy there is a shortcut's.

## Probes

{probes}
Means over frames ignore their order; numbers that compare neighbours change. Only `brisque` has some accuracy
to lose.

## Limits

Parts of one film are not independent: intervals come from {parts} sources and are too narrow for film in
general. No person checked that the controls are equal.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, judge and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.controls", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "controls", help="films and store")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument(
        "--written", action="store_true", help="only write the page, from existing judgements"
    )
    chosen = parser.parse_args(arguments)
    folder, out = chosen.folder.resolve(), chosen.out.resolve()
    if not chosen.written:
        build(folder, chosen.workers)
    store = Store.open(folder / "store")
    release = Release.open(store, RELEASE)
    gathered = load_judged_release(release)
    table = detection_table(gathered)
    of_judges = replace(table, rows=tuple(row for row in table.rows if row["evaluator"] in JUDGES))
    out.mkdir(parents=True, exist_ok=True)
    (figure,) = figures_of({table.name: of_judges}, tuple(JUDGES))
    write_atomic(out / "controls.svg", figure.svg)
    write_atomic(out / "controls.md", page(store, release, gathered).encode())
    print(out / "controls.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
