"""The cost of a report, and the size of its pages, by the number of judgements.

``python -m bench.reporting --judgements 1000 10000 40000 --folder DIR`` writes releases without pixels and
answers of twelve simulated evaluators, four of them judges asked in both orders, runs ``slvmeval report`` on
them, and prints a table. A measured size is stored in the folder as JSON and not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measuring import ROOT, run
from storage_schemas.judgements import Judgement, JudgementsStore
from storage_schemas.pair import PairRecord
from storage_schemas.store import Store
from tests.tasks.publish.judging import ASPECTS, build_wide, judged, scored, skilled

SIZES = (1000, 10_000, 40_000)
#: Judges that are asked in both orders, and scorers.
JUDGES, SCORERS = 4, 8


def rows(records: list[PairRecord]) -> Iterator[Judgement]:
    """Yield the answers of evaluators of different skill."""
    for number in range(JUDGES):
        name = f"judge-{number}"
        yield from judged(name, records, skilled(name, 0.55 + 0.1 * number, lean=0.1, fails=0.01))
    for number in range(SCORERS):
        name = f"scorer-{number}"
        yield from scored(name, records, skilled(name, 0.5 + 0.05 * number))


def measure(judgements: int, folder: Path) -> dict[str, Any]:
    """Report on this number of judgements; return time, memory, files and the largest page."""
    kept = folder / f"{judgements}.json"
    if kept.is_file():
        measured: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return measured
    base = folder / str(judgements)
    shutil.rmtree(base, ignore_errors=True)
    sources = math.ceil(judgements / (2 * JUDGES + SCORERS) / len(ASPECTS))
    release = build_wide(base, sources)
    count = JudgementsStore(Store.open(base / "store")).add(rows(release.pairs()))
    words = ["report", "wide", "--store", base / "store", "--out", base / "report", "--quiet"]
    usage = run([sys.executable, "-m", "slvmeval", *words])
    files = [path for path in (base / "report").rglob("*") if path.is_file()]
    pages = [path.stat().st_size for path in files if path.suffix == ".html"]
    measured = {
        "judgements": count,
        "pairs": len(release.pairs()),
        "wall_s": usage.wall_s,
        "cpu_s": usage.cpu_s,
        "peak_mb": usage.peak_mb,
        "files": len(files),
        "mb": sum(path.stat().st_size for path in files) / 1e6,
        "largest_page_mb": max(pages) / 1e6,
    }
    kept.write_text(json.dumps(measured, indent=1), encoding="utf-8")
    return measured


def table(sizes: list[dict[str, Any]]) -> str:
    """Return the table in Markdown, and the growth exponent of the time between the last two sizes."""
    lines = [
        "| judgements | pairs | seconds | CPU s | peak MB | files | MB | largest page, MB |",
        "|---" * 8 + "|",
    ]
    for size in sizes:
        numbers = f"{size['wall_s']:.1f} | {size['cpu_s']:.1f} | {size['peak_mb']:.0f} | {size['files']}"
        pages = f"{size['mb']:.1f} | {size['largest_page_mb']:.2f}"
        lines.append(f"| {size['judgements']:,} | {size['pairs']:,} | {numbers} | {pages} |")
    if len(sizes) > 1:
        few, many = sizes[-2:]
        grown = math.log(many["cpu_s"] / few["cpu_s"]) / math.log(many["judgements"] / few["judgements"])
        lines += ["", f"exponent of CPU: {grown:.2f}"]
    return "\n".join(lines)


def main() -> None:
    """Measure the missing sizes, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--judgements", type=int, nargs="+", default=SIZES)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench" / "reporting")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print(table([measure(count, given.folder.resolve()) for count in sorted(given.judgements)]))


if __name__ == "__main__":
    main()
