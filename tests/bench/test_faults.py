"""The fault campaign: its draws, its records, and that it finds what a build lost, changed or made again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.faults.campaign import BUILDS, LATEST, RECORDS, Campaign, Fault, table
from bench.faults.disturbed import DisturbedBuild
from bench.faults.kinds import KINDS
from bench.faults.outcome import Outcome, compare
from flows.release.options import BuildOptions
from storage_schemas.release import Release
from storage_schemas.store import FRAMES, PAIR, Store
from tests.inline import build_inline
from tests.resealed import reseal

CLEAN = {"lost": 0, "differing": 0, "made_twice": 0, "stuck": 0, "left_over": 0, "set_aside": 0}


def test_a_draw_depends_on_seed_number_and_attempt_only() -> None:
    kinds = list(KINDS)
    drawn = [Fault.drawn(1, number, 0, kinds) for number in range(300)]
    assert drawn == [Fault.drawn(1, number, 0, kinds) for number in range(300)]
    assert {fault.kind for fault in drawn} == set(KINDS)
    assert all(0 <= fault.share < LATEST for fault in drawn)
    assert Fault.drawn(1, 0, 1, kinds) != drawn[0]
    assert Fault.drawn(2, 0, 0, kinds) != drawn[0]


def test_it_resumes_with_the_numbers_that_are_missing(tmp_path: Path) -> None:
    records = [{"number": number, "kind": "kill_worker"} for number in (0, 1, 3)]
    (tmp_path / RECORDS).write_text("".join(f"{json.dumps(record)}\n" for record in records) + '{"numb')
    (tmp_path / BUILDS).write_text('{"build": 1}\n')
    campaign = Campaign(tmp_path, count=6, seed=1)
    assert sorted(fault.number for fault in campaign._drawn()) == [2, 4, 5]
    assert campaign.builds == 1


def test_the_table_counts_faults_and_the_builds_with_findings(tmp_path: Path) -> None:
    records = [
        {"kind": "kill_worker", "build": 1, "consequence": {**CLEAN, "lost": 3}},
        {"kind": "kill_worker", "build": 1, "consequence": {**CLEAN, "lost": 3}},
        {"kind": "store_full", "build": 2, "consequence": {**CLEAN, "set_aside": 1}},
    ]
    (tmp_path / RECORDS).write_text("".join(f"{json.dumps(record)}\n" for record in records))
    lines = table(tmp_path).splitlines()
    assert "| `kill -9` of a worker process | 2 | 1 | 0 | 0 | 0 | 0 | 0 |" in lines
    assert "| the store full | 1 | 0 | 0 | 0 | 0 | 0 | 1 |" in lines
    assert lines[-1] == "| all | 3 | 1 | 0 | 0 | 0 | 0 | 1 |"


@pytest.mark.slow
def test_it_finds_what_is_lost_differs_or_was_made_again(
    options: BuildOptions, add_film: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    undisturbed = build_inline(options).release
    shutil.copytree(tmp_path / "store", tmp_path / "disturbed")
    store = Store.open(tmp_path / "disturbed")

    def found(**changed: Any) -> Outcome:
        build = {"release": lambda: Release.open(store, "main"), "seen": {}, "folder": tmp_path}
        outcome = Outcome()
        compare(cast(DisturbedBuild, SimpleNamespace(**build | changed)), undisturbed, outcome)
        return outcome

    assert found().is_clean
    assert found(seen={"artifacts/pair/a": {1, 2}, "artifacts/pair/b": {1}}).made_twice == [
        "artifacts/pair/a"
    ]
    pair = next(iter(store.manifests(PAIR)))
    store.remove(PAIR, pair.id)
    assert found().lost == [f"pair {pair.id}"]
    frames = next(iter(store.manifests(FRAMES)))
    reseal(store.artifact_path(FRAMES, frames.id), content_checksum="0" * 64)
    assert found().differing == [f"frames {frames.id}"]
    (tmp_path / "planted-was-imported").touch()
    assert found().differing[-1] == "the planted tasks.py was imported"
