"""Coverage of intervals, and false positives of tests: `python -m bench.source_clusters`.

Two equally good evaluators answer pairs in both orders, several pairs per source. A pair's easiness for an
evaluator is the sum of effects of the source, the pair and the answer; both evaluators share half of the
first two.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, norm

from tasks.statistics.comparisons import compare_points
from tasks.statistics.intervals import ALPHA, clustered_interval, wilson_interval

SOURCES = (3, 5, 10, 20, 50, 140)
PAIRS_OF_SOURCE = (1, 4, 10)
#: Standard deviations of the source and pair effects; that of the answer effect is 1.
SOURCE, PAIR = 1.0, 0.7
ACCURACY = 0.75


@dataclass(frozen=True)
class Rates:
    """Shares of simulated data sets.

    Parameters
    ----------
    accuracy, plain
        Share in which the interval contains the true accuracy: clustered by source, and Wilson's with n =
        pairs.
    difference
        Share in which the interval contains the true difference, 0; data sets without an interval do not
        count.
    error, mcnemar
        Share with p < 0.05: the sign-flip test by source, and McNemar's exact test on all pairs.
    """

    accuracy: float
    plain: float
    difference: float
    error: float
    mcnemar: float


def points(rng: np.random.Generator, sources: int, pairs: int) -> np.ndarray:
    """Return whether answers are right, by evaluator, pair (those of a source adjacent) and order."""

    def effect(size: float, *shape: int) -> np.ndarray:
        shared, own = rng.normal(0, size, (1, *shape)), rng.normal(0, size, (2, *shape))
        return (shared + own) / np.sqrt(2)

    brought = np.repeat(effect(SOURCE, sources), pairs, axis=1) + effect(PAIR, sources * pairs)
    level = norm.ppf(ACCURACY) * np.sqrt(1 + SOURCE**2 + PAIR**2)
    return (level + brought[..., None] + rng.normal(0, 1, (2, sources * pairs, 2)) > 0).astype(np.float64)


def rates(sources: int, pairs: int, trials: int) -> Rates:
    """Simulate data sets with this number of sources, and of pairs per source."""
    hits: dict[str, list[bool]] = {name: [] for name in Rates.__annotations__}
    clusters = [f"source-{number}" for number in np.repeat(np.arange(sources), pairs)]
    for trial in range(trials):
        right = points(np.random.default_rng([trial, sources, pairs]), sources, pairs)
        clustered = clustered_interval(right[0].ravel().tolist(), np.repeat(clusters, 2).tolist())
        plain = wilson_interval(float(right[0].mean()), sources * pairs)
        assert clustered is not None
        assert plain is not None
        hits["accuracy"].append(ACCURACY in clustered)
        hits["plain"].append(ACCURACY in plain)
        found = compare_points(right[0].mean(1) - right[1].mean(1), clusters, str(trial))
        if found.interval is not None:
            hits["difference"].append(0 in found.interval)
        hits["error"].append(found.p is not None and found.p < ALPHA)
        differing = found.first_better + found.second_better
        hits["mcnemar"].append(differing > 0 and binomtest(found.first_better, differing).pvalue < ALPHA)
    return Rates(**{name: float(np.mean(held or [np.nan])) for name, held in hits.items()})


def main() -> None:
    """Print a line for each number of sources and pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000, help="data sets for each line")
    chosen = parser.parse_args()
    print("| sources | pairs of each | accuracy, clustered | Wilson | difference | p < 0.05 | McNemar |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for pairs in PAIRS_OF_SOURCE:
        for sources in SOURCES:
            one = rates(sources, pairs, chosen.trials)
            shares = (one.accuracy, one.plain, one.difference, one.error, one.mcnemar)
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            print(f"| {sources} | {pairs} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
