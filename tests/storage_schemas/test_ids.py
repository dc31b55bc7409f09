from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
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
    max_leaves=6,
)
objects = st.dictionaries(st.text(), values, max_size=5)


def backwards(value: Any) -> Any:
    """The same value with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: backwards(part) for key, part in reversed(value.items())}
    return [backwards(part) for part in value] if isinstance(value, list) else value


@settings(max_examples=25)
@given(values)
def test_canonical_json_is_json_and_loses_nothing(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@settings(max_examples=25)
@given(objects, objects, st.text(), values)
def test_artifact_id_follows_what_is_consumed(
    one: dict[str, Any], two: dict[str, Any], key: str, value: Any
) -> None:
    id_ = artifact_id("pair", one)
    assert id_ == artifact_id("pair", backwards(one)) != artifact_id("frames", one)
    same = canonical_json(one) == canonical_json(two)
    assert (id_ == artifact_id("pair", two)) is same
    if key not in one:
        assert id_ != artifact_id("pair", {**one, key: value})


def test_ids_are_the_same_on_every_machine() -> None:
    assert artifact_id("frames", {"fps": "1", "long_side": 512}) == (
        "91299f5d0f4b5e07a0d467a91a174e206854d2f71589ebe46ad7d5428d602a6a"
    )
    value = {"b": [1, 2.5, None, True], "a": {"é": "ü\n"}}
    assert canonical_json(value) == '{"a":{"é":"ü\\n"},"b":[1,2.5,null,true]}'
    assert digest_value(value) == ("d747e37fe3022d8295937efb2f7d593d2fe639d8536f14f7f6b3b2f10da02b6c")
    frame = np.arange(24, dtype=np.uint8).reshape(6, 4)
    assert digest_frame(frame) == 4600343717282824395
    assert digest_frames([digest_frame(frame), 0]) == (
        "e5845e48d94818544b5ca941a0a25ed417dcc9891f0c1ebf9659f4f15eefbe51"
    )


def test_canonical_json_refuses_what_has_no_canonical_form() -> None:
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical_json({"x": value})
    with pytest.raises(TypeError, match="set has no canonical JSON form"):
        canonical_json({"x": {1}})


def test_canonical_json_takes_numpy_numbers_paths_and_models() -> None:
    clip = Clip(index=0, start_s=0.5, end_s=1.0, caption="a")
    assert canonical_json([np.int64(3), Path("a/b"), clip]) == canonical_json([3, "a/b", clip.model_dump()])


def test_digest_file_reads_all_of_a_long_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a" * (1 << 20) + b"b")
    two.write_bytes(b"a" * (1 << 20) + b"c")
    assert digest_file(one) != digest_file(two)
    assert digest_file(one) == digest_text("a" * (1 << 20) + "b")
    # names that are not UTF-8 have a digest
    assert digest_text("\udcff") != digest_text("\udcfe")


def test_digest_frame_does_not_depend_on_the_memory_layout() -> None:
    frame = np.arange(48, dtype=np.uint8).reshape(6, 8)
    assert digest_frame(np.asfortranarray(frame)) == digest_frame(frame)
    assert digest_frame(frame[:, ::2]) == digest_frame(frame[:, ::2].copy())
    # their order matters
    assert digest_frames([1, 2]) != digest_frames([2, 1])
    assert digest_frames(np.asarray([1, 2], "uint64")) == digest_frames([1, 2])
