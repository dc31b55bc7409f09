from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import Reason, SetAside
from storage_schemas.source import MAX_ID_LENGTH
from tasks.sources.base import check_id, content_id


@pytest.mark.parametrize(
    "source_id", ["a", "-_MRAAhEKio", "two words", 'it\'s "so"', "🐰", "👩‍🚀", "ä" * MAX_ID_LENGTH, "a.b"]
)
def test_harmless_ids_stay(source_id: str) -> None:
    assert check_id(source_id, "x") == source_id


@pytest.mark.parametrize(
    "source_id",
    ["", " ", ".", "..", "../a", "a/b", "a\\b", "/etc/passwd", ".hidden", "a..b", "a\x00b", "a\nb", "\ud800",
     "a\u202eb", "a\u2028b"],
)  # fmt: skip
def test_unsafe_ids(source_id: str) -> None:
    with pytest.raises(SetAside) as caught:
        check_id(source_id, "x")
    assert caught.value.reason is Reason.UNSAFE_ID
    caught.value.message.encode()


@given(st.text(st.characters(codec=None), max_size=30))
def test_what_passes_is_one_safe_part_of_a_path(source_id: str) -> None:
    try:
        check_id(source_id, "x")
    except SetAside:
        return
    source_id.encode()
    assert len(PurePosixPath("root", source_id).parts) == 2
    assert len(PureWindowsPath("root", source_id).parts) <= 2
    assert ".." not in PurePosixPath("root", source_id).parts


def test_content_id_and_a_long_one() -> None:
    assert content_id("ab" * 32) == "v" + "ab" * 10
    with pytest.raises(SetAside) as caught:
        check_id("x" * 300, "x")
    assert caught.value.reason is Reason.ID_TOO_LONG
