from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.ids import (
    artifact_id,
    canonical_json,
    digest_file,
    digest_frame,
    digest_frames,
    digest_text,
    digest_value,
)
from storage_schemas.source import Clip

plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(
    plain,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(), part, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), values, max_size=5)


def backwards(value: Any) -> Any:
    """The same value with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: backwards(part) for key, part in reversed(value.items())}
    return [backwards(part) for part in value] if isinstance(value, list) else value


def test_canonical_json_has_one_spelling() -> None:
    assert canonical_json({"b": [1, 2.5, None, True], "a": {"é": "ü\n"}}) == (
        '{"a":{"é":"ü\\n"},"b":[1,2.5,null,true]}'
    )


@given(values)
def test_canonical_json_is_json_and_loses_nothing(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@given(objects)
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert artifact_id("pair", value) == artifact_id("pair", backwards(value))


@given(objects, objects)
def test_an_id_changes_with_what_is_consumed_and_only_then(one: dict[str, Any], two: dict[str, Any]) -> None:
    same = canonical_json(one) == canonical_json(two)
    assert (artifact_id("pair", one) == artifact_id("pair", two)) is same


@given(objects, st.text(), values)
def test_one_more_consumed_value_is_another_id(one: dict[str, Any], key: str, value: Any) -> None:
    if key not in one:
        assert artifact_id("pair", one) != artifact_id("pair", {**one, key: value})


def test_the_kind_is_part_of_the_id() -> None:
    assert artifact_id("frames", {"n": 1}) != artifact_id("timeline", {"n": 1})


def test_ids_are_the_same_on_every_machine() -> None:
    assert artifact_id("frames", {"fps": "1", "long_side": 512}) == (
        "91299f5d0f4b5e07a0d467a91a174e206854d2f71589ebe46ad7d5428d602a6a"
    )
    assert digest_value({"b": [1, 2.5, None, True], "a": {"é": "ü\n"}}) == (
        "d747e37fe3022d8295937efb2f7d593d2fe639d8536f14f7f6b3b2f10da02b6c"
    )
    frame = np.arange(24, dtype=np.uint8).reshape(6, 4)
    assert digest_frame(frame) == 4600343717282824395
    assert digest_frames([digest_frame(frame), 0]) == (
        "e5845e48d94818544b5ca941a0a25ed417dcc9891f0c1ebf9659f4f15eefbe51"
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_does_not_have_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"x": value})


def test_types_without_a_canonical_form_are_refused() -> None:
    with pytest.raises(TypeError, match="set has no canonical JSON form"):
        canonical_json({"x": {1}})


def test_numpy_numbers_paths_and_models_are_plain_values() -> None:
    clip = Clip(index=0, start_s=0.5, end_s=1.0, caption="a")
    assert canonical_json([np.int64(3), Path("a/b"), clip]) == canonical_json([3, "a/b", clip.model_dump()])


def test_names_that_are_not_utf8_have_a_digest() -> None:
    assert digest_text("\udcff") != digest_text("\udcfe")


def test_digest_file_reads_all_of_a_long_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a" * (1 << 20) + b"b")
    two.write_bytes(b"a" * (1 << 20) + b"c")
    assert digest_file(one) != digest_file(two)
    assert digest_file(one) == digest_text("a" * (1 << 20) + "b")


def test_a_frame_digest_does_not_depend_on_the_memory_layout() -> None:
    frame = np.arange(48, dtype=np.uint8).reshape(6, 8)
    assert digest_frame(np.asfortranarray(frame)) == digest_frame(frame)
    assert digest_frame(frame[:, ::2]) == digest_frame(frame[:, ::2].copy())


def test_the_order_of_frames_matters() -> None:
    assert digest_frames([1, 2]) != digest_frames([2, 1])
    assert digest_frames(np.asarray([1, 2], "uint64")) == digest_frames([1, 2])
