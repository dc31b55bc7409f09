"""Bits flipped at random in every kind of file of a store: all found, and a repair gives the same again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.flips import Flips, kind_of, table


@pytest.mark.slow
def test_every_flipped_bit_is_found_and_what_a_build_makes_is_made_again(tmp_path: Path, ffmpeg: str) -> None:
    flips = Flips(tmp_path, seed=1, films=5)
    flips.run(60)
    records = flips.read()
    assert len(records) == 60
    files = {path for path in flips.whole.rglob("*") if path.is_file()}
    kinds = {kind_of(str(path.relative_to(flips.whole))) for path in files} - {""}
    assert {one["kind"] for one in records} == kinds
    assert [one for one in records if not one["found"]] == []
    assert [one for one in records if not one.get("repaired", True)] == []
    assert "| all | 60 | 60 | 0 |" in table(records)
