"""Builds of many sources keep many workers busy with few tasks."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench.large_cluster import Site, simulate
from flows.batches import ItemSizes, Waiting
from flows.release.run import MAX_TASKS
from flows.release.stage_seconds import BASE_S, MIN_MEASURED_S, UNIT_S, UNKNOWN_S, StageSeconds, lengths
from infra.executor import WorkerLimits
from infra.pool import seconds_of
from storage_schemas.source import Clip, Source
from storage_schemas.store import Store


@pytest.mark.parametrize(
    ("longest_item", "tasks"),
    [("00:45:00", MAX_TASKS), ("00:30:00", 2 * MAX_TASKS)],
    ids=["few tasks", "items would be too long"],
)
@pytest.mark.slow
def test_ten_thousand_sources_on_1600_workers(longest_item: str, tasks: int) -> None:
    site = Site(longest_item=longest_item)
    simulated = simulate(site)
    assert simulated.tasks <= tasks
    assert simulated.longest_item_s <= seconds_of(longest_item)
    assert simulated.least_busy >= 0.9
    assert simulated.hours <= 1.35 * simulated.ideal_hours


def test_few_workers_lose_nothing() -> None:
    simulated = simulate(Site(workers=16, sources=1000))
    assert simulated.tasks <= MAX_TASKS
    assert simulated.hours <= 1.01 * simulated.ideal_hours


def test_what_waits_is_taken_by_rank_and_then_the_longest_first() -> None:
    waiting = Waiting[str]()
    for name, rank, kind, seconds in (
        ("short", 1, "a", 1.0),
        ("long", 1, "a", 9.0),
        ("other", 1, "b", 5.0),
        ("middle", 1, "a", 4.0),
        ("late", 2, "a", 99.0),
        ("first", 0, "a", 2.0),
    ):
        waiting.add(name, rank, (kind,), seconds)
    # about 13 s, and no more than 12 s if there are several
    taken = [waiting.take(13.0, 12.0)[1] for _ in range(4)]
    assert taken == [["first"], ["long", "short"], ["other"], ["middle"]]
    assert (len(waiting), waiting.seconds) == (1, 99.0)
    assert waiting.take(0.0, 12.0) == (("a",), ["late"])


def test_where_stages_take_longer_than_estimated_items_are_shorter() -> None:
    sizes, limits = ItemSizes(10, 1000.0), WorkerLimits(2, 600.0)
    before = sizes.next("cpu", 1000.0, 100, limits)[1]
    sizes.ran("cpu", 10.0, 30.0)
    assert sizes.next("cpu", 1000.0, 100, limits)[1] == before / 3
    sizes.ran("cpu", 1000.0, 0.0)
    assert sizes.next("cpu", 1000.0, 100, limits)[1] == before


def test_the_seconds_of_stages_are_those_of_earlier_runs(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    first = StageSeconds(store, "paper")
    assert first.of("ingest", 100.0) == BASE_S + 100 * UNIT_S["ingest"]
    first.ran("ingest", 10.0, MIN_MEASURED_S - 1)
    first.ran("ingest", 0.0, 1e6)
    first.ran("verify", 10.0, MIN_MEASURED_S)
    first.keep()
    later = StageSeconds(store, "paper")
    assert later.of("ingest", 100.0) == BASE_S + 100 * UNIT_S["ingest"], "too little was measured"
    assert later.of("verify", 100.0) == BASE_S + 100 * MIN_MEASURED_S / 10
    later.ran("verify", 100.0, MIN_MEASURED_S)
    later.keep()
    units, seconds = 5.0 + 100.0, 1.5 * MIN_MEASURED_S
    assert math.isclose(StageSeconds(store, "paper").of("verify", 1.0), BASE_S + seconds / units)
    assert StageSeconds(store, "other").of("verify", 100.0) == BASE_S + 100 * UNIT_S["verify"]
    (store.cache / "stage-seconds.json").write_text("{}")
    assert StageSeconds(store, "paper").of("verify", 100.0) == BASE_S + 100 * UNIT_S["verify"]


def test_an_unknown_source_is_as_long_as_its_captions_or_the_others() -> None:
    def source(id_: str, *ends_s: float) -> Source:
        clips = tuple(Clip(index=n, start_s=0.0, end_s=end_s, caption="") for n, end_s in enumerate(ends_s))
        return Source(id=id_, adapter="none", title=id_, video="", content_sha256="", clips=clips)

    assert lengths([source("a", 10.0, 30.0), source("b", 90.0), source("c")], {}) == {
        "a": 30,
        "b": 90,
        "c": 60,
    }
    assert lengths([source("c")], {}) == {"c": UNKNOWN_S}
