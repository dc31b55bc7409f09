from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage_schemas.errors import IntegrityError, Reason, StoreError
from storage_schemas.model import Frozen
from storage_schemas.pair import (
    DEGRADED_CLIPS,
    EDITS,
    EXCERPT_FIELD,
    PAIRS_WITH_CONTROLS,
    DegradedClipRow,
    Excerpt,
    PairRecord,
    Segment,
)
from storage_schemas.parquet import read_dicts, read_rows, write_rows
from storage_schemas.set_aside import SET_ASIDE, SetAsideRow
from storage_schemas.source import CLIPS, SOURCES, ClipRow, SourceRow

plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
objects = st.dictionaries(st.text(), plain | st.lists(plain, max_size=3), max_size=4)
JSON_FIELDS = ("choice", "provenance")
TABLES: list[tuple[type[Frozen], pa.Schema, tuple[str, ...]]] = [
    (SetAsideRow, SET_ASIDE, ()),
    (ClipRow, CLIPS, ()),
    (SourceRow, SOURCES, ()),
    (DegradedClipRow, DEGRADED_CLIPS, JSON_FIELDS),
]


@pytest.mark.parametrize(("model", "schema", "json_fields"), TABLES, ids=lambda value: "")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_come_back(
    model: type[Frozen], schema: pa.Schema, json_fields: tuple[str, ...], tmp_path: Path, data: st.DataObject
) -> None:
    fields: dict[str, Any] = dict.fromkeys(json_fields, objects)
    for name, field in model.model_fields.items():
        most = (1 << 40) if pa.types.is_int64(schema.field(name).type) else (1 << 31) - 1
        values: dict[Any, Any] = {float: st.floats(0, 1e6), int: st.integers(0, most), str: st.text()}
        kind: Any = field.annotation
        fields.setdefault(name, values[kind] if kind in values else st.from_type(kind))
    drawn = data.draw(st.lists(st.fixed_dictionaries(fields), max_size=5))
    rows = [model.model_validate(row) for row in drawn]
    write_rows(tmp_path / "x.parquet", schema, rows)
    assert read_rows(tmp_path / "x.parquet", model, json_fields) == rows


def test_every_field_of_a_model_has_a_column() -> None:
    for model, schema, _ in TABLES:
        assert set(model.model_fields) == set(schema.names)
    assert set(PairRecord.model_fields) - {"segments"} == {*PAIRS_WITH_CONTROLS.names, EXCERPT_FIELD.name}
    assert set(Excerpt.model_fields) == {field.name for field in EXCERPT_FIELD.type}
    assert {*Segment.model_fields, "pair_id", "position"} == set(EDITS.names)


def aside(number: int) -> SetAsideRow:
    return SetAsideRow(source_id=f"{number}", stage="s", reason=Reason.TOO_SHORT, message="m")


@pytest.mark.parametrize("damage", ["not parquet", "cut off", "bytes in the middle"])
def test_a_damaged_table_is_reported(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.parquet"
    write_rows(path, SET_ASIDE, map(aside, range(99)))
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


def test_a_missing_table_and_one_of_another_kind_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with pytest.raises(StoreError, match="is missing"):
        read_rows(path, ClipRow)
    write_rows(path, EDITS, [])
    assert list(read_dicts(path)) == read_rows(path, ClipRow) == []
    write_rows(path, SET_ASIDE, [aside(1)])
    with pytest.raises(IntegrityError, match="does not fit ClipRow"):
        read_rows(path, ClipRow)
    with pytest.raises(IntegrityError, match="does not fit SetAsideRow"):
        read_rows(path, SetAsideRow, ("message",))
