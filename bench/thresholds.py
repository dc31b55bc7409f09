"""Thresholds of simulated judges: how often intervals contain them, and what adaptive runs save.

``python -m bench.thresholds --judges 200``. Each judge has a threshold, width and lapse rate of its own, all
drawn, and answers each pair once. A search goes on until the interval's ends have a given ratio; a full
ladder gets all doses of one source after the other, until the same holds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtr

from storage_schemas.rng import keyed_rng
from tasks.statistics.adaptive import LadderPair, Search
from tasks.statistics.psychometric import Dose, Ladder, PsychometricFit, fit_psychometric

#: Doublings of the ladder's strengths, in steps of half a doubling.
DOUBLINGS = 10
SOURCES = 120
PRECISION = 1.5


@dataclass(frozen=True)
class Result:
    """What a number of judges show.

    Parameters
    ----------
    covered, covered_full
        Share of judges whose threshold is in the interval, of the search and of the full ladder.
    requests, requests_full
        Mean number of requests of either.
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
        """Return the points of its answer on a pair."""
        place = math.log2(pair.dose.strength) + self.exchange * math.log2(pair.dose.clips / clips)
        risen = float(ndtr(3.2897 * (place - math.log2(self.threshold)) / self.width))
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
    """Let simulated judges be asked adaptively and by a full ladder."""
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
        for place in range(sources):
            some = search.pairs[place * doses : (place + 1) * doses]
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


def main() -> None:
    """Print a table of ladders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judges", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2)
    given = parser.parse_args()
    print("| ladder | precision | covered | covered, full | requests | full | share |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for doublings, clips, precision in (
        (10, (5,), 1.5),
        (10, (5,), 2.0),
        (6, (5,), 1.5),
        (10, (1, 5, 20), 1.5),
        (10, (1, 5, 20), 2.0),
    ):
        one = simulated(given.seed, given.judges, doublings, clips, precision=precision)
        name = f"{doublings} doublings, clips {', '.join(map(str, clips))}"
        print(
            f"| {name} | {precision:g} | {one.covered:.1%} | {one.covered_full:.1%} | {one.requests:.0f} | "
            f"{one.requests_full:.0f} | {one.share:.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
