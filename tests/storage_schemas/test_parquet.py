from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage_schemas.errors import IntegrityError, Reason, StoreError
from storage_schemas.pair import DEGRADED_CLIPS, EDITS, PAIRS, DegradedClipRow, PairRecord, Segment
from storage_schemas.parquet import read_dicts, read_rows, write_rows
from storage_schemas.set_aside import SET_ASIDE, SetAsideRow
from storage_schemas.source import CLIPS, SOURCES, ClipRow, SourceRow

utf8 = st.text()
plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | utf8
objects = st.dictionaries(utf8, plain | st.lists(plain, max_size=3), max_size=4)

slow_files = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@slow_files
@given(st.lists(st.tuples(utf8, st.sampled_from(Reason), utf8), max_size=5))
def test_set_aside_round_trip(tmp_path: Path, items: list[tuple[str, Reason, str]]) -> None:
    rows = [
        SetAsideRow(source_id=id_, stage="ingest", reason=reason, message=message, key="k", at="now")
        for id_, reason, message in items
    ]
    write_rows(tmp_path / "x.parquet", SET_ASIDE, rows)
    assert read_rows(tmp_path / "x.parquet", SetAsideRow) == rows


@slow_files
@given(st.lists(st.tuples(utf8, st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 1 << 40)), max_size=5))
def test_clips_round_trip(tmp_path: Path, items: list[tuple[str, float, float, int]]) -> None:
    rows = [
        ClipRow(
            source_id="s",
            clip=index,
            start_s=start,
            end_s=end,
            first_frame=first,
            frame_count=3,
            caption=caption,
        )
        for index, (caption, start, end, first) in enumerate(items)
    ]
    write_rows(tmp_path / "x.parquet", CLIPS, rows)
    assert read_rows(tmp_path / "x.parquet", ClipRow) == rows


@slow_files
@given(objects, objects)
def test_json_fields_round_trip(tmp_path: Path, choice: dict[str, Any], provenance: dict[str, Any]) -> None:
    row = DegradedClipRow(
        degraded_clip="d",
        source_id="s",
        aspect="color",
        operation="o",
        clip=3,
        first_frame=10,
        frame_count=2,
        height=16,
        width=32,
        difference=0.5,
        content_checksum="c",
        bytes=1 << 40,
        path="artifacts/d",
        choice=choice,
        provenance=provenance,
    )
    write_rows(tmp_path / "x.parquet", DEGRADED_CLIPS, [row])
    assert read_rows(tmp_path / "x.parquet", DegradedClipRow, ("choice", "provenance")) == [row]


def test_sources_round_trip(tmp_path: Path) -> None:
    row = SourceRow(
        source_id='ü "id"',
        adapter="folder",
        title="t",
        video="/v.mp4",
        content_sha256="0" * 64,
        licence="CC0",
        redistributable=True,
        credit="",
        duration_s=12.25,
        frames_id="f",
        frames_checksum="c",
        frame_count=12,
        width=32,
        height=16,
        prompt_characters=9,
    )
    write_rows(tmp_path / "x.parquet", SOURCES, [row])
    assert read_rows(tmp_path / "x.parquet", SourceRow) == [row]


def test_every_field_of_a_model_has_a_column() -> None:
    for model, schema, apart in (
        (SourceRow, SOURCES, set()),
        (ClipRow, CLIPS, set()),
        (SetAsideRow, SET_ASIDE, set()),
        (DegradedClipRow, DEGRADED_CLIPS, set()),
        (PairRecord, PAIRS, {"segments"}),
    ):
        assert set(model.model_fields) - apart == set(schema.names)
    assert {*Segment.model_fields, "pair_id", "position"} == set(EDITS.names)


def test_an_empty_table_keeps_its_columns(tmp_path: Path) -> None:
    write_rows(tmp_path / "x.parquet", EDITS, [])
    assert list(read_dicts(tmp_path / "x.parquet")) == []


def test_a_missing_table_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is missing"):
        read_rows(tmp_path / "x.parquet", ClipRow)


@pytest.mark.parametrize("damage", ["not parquet", "cut off", "bytes in the middle"])
def test_a_damaged_table_is_said_so(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.parquet"
    rows = [SetAsideRow(source_id=f"{n}", stage="s", reason=Reason.TOO_SHORT, message="m") for n in range(99)]
    write_rows(path, SET_ASIDE, rows)
    raw = bytearray(path.read_bytes())
    if damage == "not parquet":
        raw[:] = b"hello"
    elif damage == "cut off":
        del raw[len(raw) // 2 :]
    else:
        raw[4:60] = bytes(56)
    path.write_bytes(raw)
    with pytest.raises(IntegrityError, match="is damaged"):
        read_rows(path, SetAsideRow)


def test_a_table_of_another_kind_is_said_so(tmp_path: Path) -> None:
    write_rows(tmp_path / "x.parquet", EDITS, [])
    assert read_rows(tmp_path / "x.parquet", ClipRow) == []
    write_rows(
        tmp_path / "x.parquet",
        SET_ASIDE,
        [SetAsideRow(source_id="s", stage="s", reason=Reason.TOO_SHORT, message="m")],
    )
    with pytest.raises(IntegrityError, match="does not fit ClipRow"):
        read_rows(tmp_path / "x.parquet", ClipRow)
    with pytest.raises(IntegrityError, match="does not fit SetAsideRow"):
        read_rows(tmp_path / "x.parquet", SetAsideRow, ("message",))
