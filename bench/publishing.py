"""Figures of materialising: the cost of a low-quality video once its source is encoded."""

from __future__ import annotations

import statistics
from typing import Any

from bench.building import pixel_pairs, seven_release
from bench.measuring import child
from bench.report import BenchFigure
from bench.settings import Settings
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release

ORDER = ("comprehensiveness", "temporal_flow")


def _over_encoding_whole(settings: Settings, release: Release, records: list[PairRecord]) -> BenchFigure:
    """Compare only the CPU of the work: starting Python takes longer than copying packets."""
    store = release.store.root
    runs: list[dict[str, Any]] = []
    aspects: dict[str, float] = {}
    for record in records:
        ratios = []
        for _ in range(settings.times(3)):
            with settings.scratch() as scratch:
                ours = child("materialise", store, record.pair_id, scratch).output
                whole = child("encode_whole", store, record.pair_id, scratch).output
            ratios.append(ours["cpu_s"] / whole["cpu_s"])
            runs.append({"numerator": ours, "denominator": whole})
        aspects[record.aspect] = round(statistics.median(ratios), 4)
    turns = range(settings.times(3))
    sums = [
        (
            sum(run["numerator"]["cpu_s"] for run in runs[turn :: len(turns)]),
            sum(run["denominator"]["cpu_s"] for run in runs[turn :: len(turns)]),
        )
        for turn in turns
    ]
    return BenchFigure(
        statistics.median(ours / whole for ours, whole in sums),
        statistics.median(ours for ours, _ in sums),
        statistics.median(whole for _, whole in sums),
        "CPU s",
        "writing the low-quality MP4s of the pairs, the source being encoded, over encoding all of their "
        "frames with the same settings; the work alone, without the start of Python",
        [settings.films.bunny.name],
        aspects,
        runs,
    )


def materialise_pixels(settings: Settings) -> BenchFigure:
    """CPU of materialising pairs with new pixels, compared with encoding whole videos."""
    release = seven_release(settings)
    return _over_encoding_whole(settings, release, pixel_pairs(release))


def materialise_order(settings: Settings) -> BenchFigure:
    """CPU of materialising pairs in another order, compared with encoding whole videos."""
    release = seven_release(settings)
    return _over_encoding_whole(
        settings, release, [record for record in release.pairs() if record.aspect in ORDER]
    )
