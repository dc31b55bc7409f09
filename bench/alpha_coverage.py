"""How often the interval of Krippendorff's α contains the true α: `python -m bench.alpha_coverage`.

Answers of five raters are simulated with a model in which pairs of one source are alike. A pair's clarity is
the sum of a source effect and a pair effect; a rater's answer is the clarity plus noise, cut into A, B and
C. The true α is computed from many sources.
"""

from __future__ import annotations

import argparse

import numpy as np

from tasks.statistics.krippendorff import RaterAnswer, alpha_of

VALUES = ("A", "B", "C")
RATERS, PAIRS_OF_SOURCE = 5, 3
#: Thresholds of clarity at which an answer becomes B or C.
CUTS = (0.6, 1.6)
SIZES = (2, 5, 10, 20, 50, 100)
#: Standard deviation of a rater's noise: clear, mixed and unclear pairs.
NOISES = (0.4, 0.8, 1.6)


def simulated(
    rng: np.random.Generator, sources: int, noise: float
) -> tuple[list[RaterAnswer], dict[str, int]]:
    """Return answers of all raters on three pairs of each source, and the source of each pair."""
    brought = np.repeat(rng.normal(0, 0.7, sources), PAIRS_OF_SOURCE)
    clearness = brought + rng.normal(0, 0.7, len(brought))
    seen = clearness[:, None] + rng.normal(0, noise, (len(clearness), RATERS))
    levels = np.digitize(seen, CUTS)
    answers = [
        RaterAnswer(f"pair-{pair}", f"rater-{rater}", VALUES[levels[pair, rater]])
        for pair in range(len(clearness))
        for rater in range(RATERS)
    ]
    return answers, {f"pair-{pair}": pair // PAIRS_OF_SOURCE for pair in range(len(clearness))}


def coverage(sources: int, noise: float, true: float, trials: int, draws: int) -> tuple[float, float, int]:
    """Return the share of intervals that contain the true α, their mean width, and the trials without one."""
    widths, hits = [], 0
    for trial in range(trials):
        rng = np.random.default_rng([trial, sources, int(noise * 10)])
        answers, cluster = simulated(rng, sources, noise)
        interval = alpha_of(
            answers, VALUES, "ordinal", key=("coverage", trial), cluster=cluster, draws=draws
        ).interval
        if interval is not None:
            hits += true in interval
            widths.append(interval.high - interval.low)
    return hits / max(1, len(widths)), float(np.mean(widths or [0.0])), trials - len(widths)


def main() -> None:
    """Print a line for each number of sources and noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000, help="data sets for each line")
    parser.add_argument("--draws", type=int, default=400, help="bootstrap draws for each data set")
    chosen = parser.parse_args()
    print("| sources | true α | contains it | mean width | without an interval |")
    print("|---:|---:|---:|---:|---:|")
    for noise in NOISES:
        answers, _ = simulated(np.random.default_rng(1), 20_000, noise)
        true = alpha_of(answers, VALUES, "ordinal").alpha
        assert true is not None
        for sources in SIZES:
            share, width, without = coverage(sources, noise, true, chosen.trials, chosen.draws)
            print(f"| {sources} | {true:.2f} | {100 * share:.1f} % | {width:.2f} | {without} |", flush=True)


if __name__ == "__main__":
    main()
