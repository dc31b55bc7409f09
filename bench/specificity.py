"""What affects the dimensions of LoCoT2V-Bench that run on a CPU: ``python -m bench.specificity``.

*Big Buck Bunny* is cut into pieces at its clips, so that intervals have sources; all aspects of the recipe
`cpu-approx` are built from each at several strengths, and judged by ``locot2v-bench?dimension=all`` with the
base `cpu-approx` next to trivial numbers of pictures. Writes ``docs/results/specificity.md`` with its figure
and table. Builds and judgements are kept: an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.film_severity import ROOT, slvmeval
from bench.films import Films, run_ffmpeg
from slvmeval.demo.fetch import read_captions
from storage_schemas.commit import write_atomic
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.report.detection_tables import TRIVIAL
from tasks.report.figures import figures_of
from tasks.report.formats import csv_text, markdown_text
from tasks.report.judged_release import load_judged_release
from tasks.report.specificity_tables import specificity_tables

RELEASE = "specificity"
JUDGE = "locot2v-bench?dimension=all&visual=cpu-approx"
#: Longer side of the frames, in px.
LONG_SIDE = 384
RECIPE = f"""base = "cpu-approx"
name = "{RELEASE}"
clips_per_pair = 1
pairs_per_bin = 100
long_side = {LONG_SIDE}

[severity]
strengths = ["weak"]
"""


def cut(film: Path, captions: bytes, folder: Path, pieces: int, most: int) -> None:
    """Cut the first clips of a film into pieces with equal numbers of clips, with their captions."""
    clips = [json.loads(line) for line in captions.decode().splitlines() if line.strip()][:most]
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(pieces):
        some = clips[len(clips) * number // pieces : len(clips) * (number + 1) // pieces]
        start, end = some[0]["start_s"], some[-1]["end_s"]
        target = folder / f"piece-{number}.mp4"
        if not target.exists():
            draft = target.with_name(f"draft-{number}.tmp.mp4")
            sizes = ["-an", "-vf", f"scale={LONG_SIDE}:-2", "-c:v", "libx264", "-preset", "veryfast"]
            run_ffmpeg("-ss", str(start), "-i", film, "-t", f"{end - start:.3f}", *sizes, draft)
            draft.replace(target)
        lines = [
            json.dumps({**one, "start_s": one["start_s"] - start, "end_s": one["end_s"] - start})
            for one in some
        ]
        write_atomic(target.with_suffix(".jsonl"), ("\n".join(lines) + "\n").encode())


PAGE = """# What moves a dimension?

`python -m bench.specificity --pieces {pieces} --clips {clips}` wrote this page;
[evaluating](../evaluating.md#dimensions-of-a-suite) explains it.

Each dimension of LoCoT2V-Bench that runs on a CPU scores all pairs, whatever their aspect. A specific
dimension has an AUC near 1 for the aspects that the suite's mapping assigns to it (framed), and near 0.5 for
others. Trivial numbers are shown for comparison.

![AUC by dimension and aspect](specificity.svg)

## At the recipe's strength

{summary}
## Limits

- **One film.** The sources are {pieces} pieces of the first {clips} clips of *Big Buck Bunny*, longer side
  {side} px: {pairs} pairs with one damaged clip each. Intervals are too narrow for films in general.
- **Dimensions**: {dimensions}. Optical flow is OpenCV's DIS in place of RAFT, at one frame a second: nearly
  everything moves, so flickering, which needs still neighbours, has few answers ([cells](specificity.csv)
  with their pairs). Others need weights or a model server.
- **Draws** depend on the bytes of the pieces: another version of FFmpeg cuts others, with other numbers.

[All cells with their intervals](specificity.csv).
"""


def main() -> None:
    """Build, judge and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pieces", type=int, default=10)
    parser.add_argument("--clips", type=int, default=60, help="number of the film's first clips")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "specificity")
    parser.add_argument("--films", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    work: Path = options.work
    films = Films.find(options.films, work / "films", ROOT / "build" / "demo")
    cut(films.bunny, read_captions("big_buck_bunny.jsonl"), work / "sources", options.pieces, options.clips)
    write_atomic(work / "recipe.toml", RECIPE.encode())
    site = ("--store", work / "store", "--model-folder", films.model_folder)
    site += ("--workers", str(options.workers), "--direct", "--quiet")
    slvmeval("build", RELEASE, "-s", work / "sources", "--recipe", work / "recipe.toml", *site)
    chosen = [word for name in (JUDGE, *TRIVIAL) for word in ("-e", name)]
    slvmeval("evaluate", RELEASE, *chosen, *site)
    release = Release.open(Store.open(work / "store"), RELEASE)
    matrix, summary = specificity_tables(load_judged_release(release))
    out = ROOT / "docs" / "results"
    (figure,) = figures_of({"specificity": matrix}, [])
    write_atomic(out / "specificity.svg", figure.svg)
    write_atomic(out / "specificity.csv", csv_text(matrix).encode())
    names = dict.fromkeys(row["evaluator"] for row in matrix.rows if row["claims"])
    page = PAGE.format(
        pieces=options.pieces,
        clips=options.clips,
        side=LONG_SIDE,
        pairs=len([one for one in release.pairs() if not one.control]),
        summary=markdown_text(summary),
        dimensions=", ".join(name.partition(".")[2].replace("_", " ") for name in names),
    )
    write_atomic(out / "specificity.md", page.encode())


if __name__ == "__main__":
    main()
