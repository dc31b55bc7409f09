"""Thresholds of simulated judges: how often intervals contain them, and what adaptive runs save.

``python -m bench.thresholds`` writes ``docs/results/thresholds.md``. Each judge has a randomly drawn
threshold, width and lapse rate, and answers each pair once. A search continues until the interval's ends
have a given ratio; a full ladder asks about all doses of one source after the other, until the same is true.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scipy.special import ndtr

from storage_schemas.commit import write_atomic
from storage_schemas.rng import keyed_rng
from tasks.statistics.adaptive import LadderPair, Search
from tasks.statistics.psychometric import Dose, Ladder, PsychometricFit, fit_psychometric

ROOT = Path(__file__).resolve().parents[1]
#: Doublings of the ladder's strengths, in steps of half a doubling.
DOUBLINGS = 10
SOURCES = 120
PRECISION = 1.5


@dataclass(frozen=True)
class Result:
    """Results of several judges.

    Parameters
    ----------
    covered, covered_full
        Share of judges whose threshold is in the interval, for the search and the full ladder.
    requests, requests_full
        Mean number of requests of each.
    """

    judges: int
    covered: float
    covered_full: float
    requests: float
    requests_full: float

    @property
    def share(self) -> float:
        """Requests of the searches over those of the full ladders."""
        return self.requests / self.requests_full


@dataclass(frozen=True)
class Simulated:
    """A judge with a known function; a source's answers are independent."""

    threshold: float
    width: float
    lapse: float
    exchange: float
    seed: int

    @classmethod
    def drawn(cls, seed: int, number: int, doublings: int) -> Simulated:
        """Draw a judge whose threshold is in the middle half of the ladder."""
        draw = keyed_rng("simulated-judge", seed, number).random(4)
        return cls(
            threshold=2.0 ** (-doublings * (0.25 + 0.5 * draw[0])),
            width=0.75 + 0.75 * draw[1],
            lapse=0.05 * draw[2],
            exchange=draw[3],
            seed=1000 * seed + number,
        )

    def points(self, pair: LadderPair, clips: int) -> list[float]:
        """Return the points for its answer on a pair."""
        position = math.log2(pair.dose.strength) + self.exchange * math.log2(pair.dose.clips / clips)
        risen = float(ndtr(3.2897 * (position - math.log2(self.threshold)) / self.width))
        chance = 0.5 + (0.5 - self.lapse) * risen
        return [float(keyed_rng("simulated", self.seed, pair.pair_id).random() < chance)]


def ladder_search(doublings: int, clips: Sequence[int], sources: int, precision: float) -> Search:
    """Return a search over a crossed ladder; its strength applies at the middle number of clips."""
    strengths = [2.0 ** (-step / 2) for step in range(2 * doublings + 1)]
    doses = [Dose(strength, count) for strength in strengths for count in clips]
    pairs = [
        LadderPair(f"{source}/{dose.strength}/{dose.clips}", f"{source}", dose)
        for source in range(sources)
        for dose in doses
    ]
    return Search(Ladder.of(doses, clips[len(clips) // 2]), tuple(pairs), precision)


def simulated(
    seed: int,
    judges: int,
    doublings: int = DOUBLINGS,
    clips: Sequence[int] = (5,),
    sources: int = SOURCES,
    precision: float = PRECISION,
) -> Result:
    """Ask simulated judges adaptively and by a full ladder."""
    search = ladder_search(doublings, clips, sources, precision)
    inside, inside_full, requests, requests_full = 0, 0, 0, 0
    for number in range(judges):
        judge = Simulated.drawn(seed, number, doublings)
        points: dict[str, Sequence[float]] = {}
        while pairs := search.next_pairs(points):
            points |= {pair.pair_id: judge.points(pair, search.ladder.clips) for pair in pairs}
        fit = fit_psychometric(search.ladder, search.answers(points))
        inside += _contains(fit, judge.threshold)
        requests += len(points)
        full: dict[str, Sequence[float]] = {}
        doses = len(search.ladder.doses)
        for index in range(sources):
            some = search.pairs[index * doses : (index + 1) * doses]
            full |= {pair.pair_id: judge.points(pair, search.ladder.clips) for pair in some}
            if search.ending(full) == "precise":
                break
        fit = fit_psychometric(search.ladder, search.answers(full))
        inside_full += _contains(fit, judge.threshold)
        requests_full += len(full)
    count = judges
    return Result(count, inside / count, inside_full / count, requests / count, requests_full / count)


def _contains(fit: PsychometricFit | None, threshold: float) -> bool:
    """Return whether an interval, open ends included, contains a threshold."""
    assert fit is not None
    return (fit.low or 0.0) <= threshold <= (fit.high or math.inf)


#: Ladders that the page compares: doublings, numbers of clips, and the ratio of the interval's ends.
LADDERS = ((10, (5,), 1.5), (10, (5,), 2.0), (6, (5,), 1.5))
#: Judges of the worked example: threshold, width and lapse rate; one sees nothing, one needs no damage.
KINDS = {
    "sees weak damage": (0.03, 1.0, 0.0),
    "sees strong damage": (0.3, 1.0, 0.0),
    "rises slowly": (0.1, 4.0, 0.0),
    "answers one in five without looking": (0.1, 1.0, 0.1),
    "sees nothing": (1000.0, 1.0, 0.0),
    "reads a shortcut": (1e-6, 1.0, 0.0),
}

PAGE = """# Thresholds of simulated judges

`python -m bench.thresholds --judges {judges} --seed {seed}` wrote this page; [thresholds](../thresholds.md)
explains it.

## Six judges

Each is asked adaptively on a ladder of 21 strengths over ten doublings, 40 sources, until the interval's
upper end is at most twice the lower. All pairs would take 840 requests.

{example}
## Coverage, and what adaptive runs save

{judges} judges per ladder: threshold in its middle half, width of 0.75 to 1.5 doublings, up to 5 % lapses.
*Covered*: the interval of the search, or of the full
ladder, contains the true threshold. *Requests*: mean number until the interval's ends have the ratio
*precision*; a full ladder adds all doses of one source at a time.

{table}
Savings grow with the part of the ladder that says nothing about the threshold: with long ladders and steep
judges.
"""


def example() -> str:
    """Return the table of the worked example."""
    search = ladder_search(10, (5,), 40, 2.0)
    lines = [
        "| judge | true threshold | fitted | 95 % | slope, points | requests | ended |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for number, (name, (threshold, width, lapse)) in enumerate(KINDS.items()):
        judge = Simulated(threshold, width, lapse, 0.0, number)
        points: dict[str, Sequence[float]] = {}
        while pairs := search.next_pairs(points):
            points |= {pair.pair_id: judge.points(pair, search.ladder.clips) for pair in pairs}
        fit = fit_psychometric(search.ladder, search.answers(points))
        assert fit is not None
        found = f"{fit.threshold:.3f}" if fit.reached == "reached" else "–"
        ends = " to ".join("–" if end is None else f"{end:.3f}" for end in (fit.low, fit.high))
        inside = search.ladder.ends[0] <= threshold <= search.ladder.ends[1]
        lines.append(
            f"| {name} | {f'{threshold:g}' if inside else '–'} | {found} | {ends} | "
            f"{f'{100 * fit.slope:.0f}' if inside else '–'} | {len(points)} | "
            f"{search.ending(points).replace('_', ' ')} |"
        )
    return "\n".join(lines) + "\n"


def ladder_row(seed: int, judges: int, ladder: tuple[int, tuple[int, ...], float], folder: Path) -> str:
    """Return a ladder's row, stored in a folder so that an interrupted run continues."""
    doublings, clips, precision = ladder
    path = folder / f"{doublings}-{'-'.join(map(str, clips))}-{precision:g}-{judges}-{seed}.json"
    if path.exists():
        one = Result(**json.loads(path.read_text(encoding="utf-8")))
    else:
        one = simulated(seed, judges, doublings, clips, precision=precision)
        write_atomic(path, json.dumps(asdict(one)).encode())
    return (
        f"| {doublings} doublings, clips {', '.join(map(str, clips))} | {precision:g} | {one.covered:.1%} | "
        f"{one.covered_full:.1%} | {one.requests:.0f} | {one.requests_full:.0f} | {one.share:.0%} |\n"
    )


def main() -> None:
    """Write ``docs/results/thresholds.md``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judges", type=int, default=100)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "results" / "thresholds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "thresholds.md")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    table = "| ladder | precision | covered | covered, full | requests | full | share |\n"
    table += "|---|---:|---:|---:|---:|---:|---:|\n"
    for ladder in LADDERS:
        table += ladder_row(given.seed, given.judges, ladder, given.folder)
    text = PAGE.format(judges=given.judges, seed=given.seed, example=example(), table=table)
    write_atomic(given.out, text.encode())


if __name__ == "__main__":
    main()
