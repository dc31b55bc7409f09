from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import Reason, SetAside
from storage_schemas.source import Clip
from tasks.sources.clips import (
    check_clips_against_duration,
    clean_caption,
    clips_from_lines,
    parse_caption_lines,
)


def clips(*rows: Any) -> list[tuple[float, float, str]]:
    data = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()
    parsed = clips_from_lines(parse_caption_lines(data, "x.jsonl"), "x.jsonl")
    assert [clip.index for clip in parsed] == list(range(len(parsed)))
    return [(clip.start_s, clip.end_s, clip.caption) for clip in parsed]


def line(start_s: Any, end_s: Any, caption: Any = "c") -> dict[str, Any]:
    return {"start_s": start_s, "end_s": end_s, "caption": caption}


def refused(*rows: Any) -> SetAside:
    with pytest.raises(SetAside) as caught:
        clips(*rows)
    return caught.value


def test_blank_lines_marks_windows_line_ends_and_more_keys_are_fine() -> None:
    first = "\ufeff" + json.dumps({**line(0, 1), "note": 3}) + "\r"
    assert clips(first, "", "  \r", line(2, 3)) == [(0, 1, "c"), (2, 3, "c")]


def test_overlapping_clips_are_cut_at_the_later_start_and_a_blank_caption_leaves_a_gap() -> None:
    rows = [line(0, 10, "a"), line(4, 6, "b"), line(5, 9, "d")]
    assert clips(*rows) == [(0, 4, "a"), (4, 5, "b"), (5, 9, "d")]
    assert clips(line(0, 1, "a"), line(1, 2, " \u200b\n"), line(2, 3, "b")) == [(0, 1, "a"), (2, 3, "b")]


@pytest.mark.parametrize("rows", [[], [line(0, 1, "")], [line(0, 1, "\x00"), line(1, 2, "\t")]])
def test_nothing_left_is_empty(rows: list[Any]) -> None:
    assert refused(*rows).reason is Reason.CAPTIONS_EMPTY


def test_clips_out_of_order_or_with_the_same_start_name_the_line() -> None:
    problem = refused(line(0, 1), "", line(5, 6), line(2, 3))
    assert problem.reason is Reason.CLIPS_OUT_OF_ORDER
    assert "line 4" in problem.message
    problem = refused(line(0, 4), line(1, 2), line(1, 3))
    assert problem.reason is Reason.CAPTIONS_MALFORMED
    assert "line 3" in problem.message


@pytest.mark.parametrize(
    "row",
    [
        "3", "[]", "null", '{"start_s": NaN, "end_s": 1, "caption": "c"}',
        '{"start_s": 0, "end_s": Infinity, "caption": "c"}',
        '{"start_s": 0, "end_s": 1' + "0" * 400 + ', "caption": "c"}',
        line(-1, 1), line(1, 1), line(2, 1), line("0", 1), line(True, 2), line(None, 1),
        line(0, 1, None), line(0, 1, ["c"]), {"start_s": 0, "end_s": 1}, {"caption": "c"},
    ],
)  # fmt: skip
def test_malformed_lines_are_named(row: Any, says: str = "") -> None:
    problem = refused(line(0, 1), row)
    assert problem.reason is Reason.CAPTIONS_MALFORMED
    assert "line 2" in problem.message
    assert says in problem.message


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"start_s": 0, "end_s": 1, "end_s": 2, "caption": "c"}', "the key 'end_s' occurs twice"),
        ("{", "is not JSON at character 2"),
        ("[" * 100_000, "nested too deeply"),
        ('{"start_s": 1' + "0" * 5000 + "}", "a number with thousands of digits"),
    ],
)
def test_why_a_line_is_malformed_is_reported_in_the_users_words(row: str, says: str) -> None:
    test_malformed_lines_are_named(row, says)


def test_too_many_clips_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.sources.clips.MAX_CLIPS", 2)
    assert len(clips(line(0, 1), line(1, 2), line(2, 3, ""))) == 2
    problem = refused(line(0, 1), line(1, 2), line(2, 3))
    assert problem.reason is Reason.CAPTIONS_MALFORMED
    assert "3 captioned clips, more than 2: split the video" in problem.message


def test_not_utf8_names_the_line() -> None:
    with pytest.raises(SetAside, match="line 2") as caught:
        parse_caption_lines(b'{"start_s": 0}\n"\xe9"', "x.jsonl")
    assert caught.value.reason is Reason.CAPTIONS_NOT_UTF8


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a\nb", "a b"), ("a \r\n\r\n b", "a b"), ("a\x00b", "a b"), ("a\u2028b", "a b"), ("  a  b ", "a  b"),
        ("a\u202eb\u2069", "ab"),
        ("\ud800x", "\ufffdx"), ("👩‍🚀 walks", "👩‍🚀 walks"), ("\u200b", ""), ("日本", "日本"),
    ],
)  # fmt: skip
def test_a_caption_becomes_one_line(raw: str, clean: str) -> None:
    assert clean_caption(raw) == clean


@given(st.text(st.characters(codec=None)))
def test_a_clean_caption_is_one_encodable_line_and_stays(text: str) -> None:
    clean = clean_caption(text)
    assert len(clean.splitlines()) <= 1
    assert clean.encode().decode() == clean
    assert clean_caption(clean) == clean


@given(st.binary(max_size=200))
def test_any_bytes_are_clips_or_set_aside(data: bytes) -> None:
    try:
        clips_from_lines(parse_caption_lines(data, "x"), "x")
    except SetAside as problem:
        assert problem.message


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0.5, 50), st.text(max_size=3)), min_size=1, max_size=8)
)
def test_clips_never_overlap_and_keep_their_starts(rows: list[tuple[float, float, str]]) -> None:
    data = "\n".join(json.dumps(line(start, start + length, text)) for start, length, text in sorted(rows))
    try:
        made = clips_from_lines(parse_caption_lines(data.encode(), "x"), "x")
    except SetAside as problem:
        assert problem.reason in {Reason.CAPTIONS_EMPTY, Reason.CAPTIONS_MALFORMED}
        return
    assert all(clip.start_s < clip.end_s and clip.caption for clip in made)
    assert all(a.end_s <= b.start_s for a, b in pairwise(made))
    assert {clip.start_s for clip in made} <= {start for start, _, _ in rows}


def test_past_the_end() -> None:
    made = [Clip(index=0, start_s=0, end_s=5, caption="a"), Clip(index=1, start_s=5, end_s=10.9, caption="b")]
    check_clips_against_duration(made, 10.0)
    with pytest.raises(SetAside, match=r"clip from 5 to 10\.9 s ends after the video's 9 s") as caught:
        check_clips_against_duration(made, 9.0)
    assert caught.value.reason is Reason.CLIP_PAST_END
    with pytest.raises(SetAside):
        check_clips_against_duration(made, 10.0, tolerance_s=0.5)
