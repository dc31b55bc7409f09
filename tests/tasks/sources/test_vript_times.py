"""When Vript's scenes begin and end, in all spellings that are known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storage_schemas.errors import Reason, SetAside
from tasks.sources.vript_times import TimeKeys, parse_time, times_from_cut_meta, times_from_durations
from tests.tasks.sources.vript_layout import VID, Layout, asr, captions, cut_meta, edges


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"start": 0, "end": 4}, {"start": 4, "end": 9.5}),
        ({"start_time": "00:00:00.000", "end_time": "00:00:04.000"}, {"start_time": "4", "end_time": "9.5"}),
        ({"start_time": "00:00", "end_time": "00:04"}, {"start_time": "0:04", "end_time": "00:00:09,5"}),
        ({"span": [0, 4]}, {"timestamp": ["00:00:04", "00:00:09.5"]}),
        ({"start_sec": 0.0, "duration": 4}, {"start_sec": 4.0, "end_sec": 9.5, "duration": 5.5}),
    ],
)
def test_known_spellings_of_times(first: dict[str, Any], second: dict[str, Any]) -> None:
    data = json.dumps(cut_meta(VID, first, second)).encode()
    assert times_from_cut_meta(data, "x") == {1: (0, 4), 2: (4, 9.5)}


@pytest.mark.parametrize(
    "time",
    [{}, {"von": 0, "bis": 1}, {"start": 0}, {"start": "soon", "end": "later"}, {"start": 5, "end": 4},
     {"start": -1, "end": 4}, {"start": 0, "end": 4000, "duration": 4.0}, {"start": True, "end": 2},
     {"start": None, "end": None}, {"span": [1]}, {"span": "ab"}],
)  # fmt: skip
def test_times_that_are_not_understood(time: dict[str, Any]) -> None:
    with pytest.raises(SetAside) as caught:
        times_from_cut_meta(json.dumps(cut_meta(VID, time)).encode(), "x")
    assert caught.value.reason is Reason.CLIP_BOUNDARIES_MISSING


def test_time_codes_and_a_spelling_of_ones_own() -> None:
    data = json.dumps(cut_meta(VID, {"von": 1, "bis": 2})).encode()
    assert times_from_cut_meta(data, "x", TimeKeys(start=("von",), end=("bis",))) == {1: (1, 2)}
    assert parse_time("01:02:03.5") == 3723.5
    assert parse_time("90:00") == 5400
    assert parse_time("00:04:52.208") == parse_time(292.208)
    assert parse_time("nan") is None
    assert parse_time(float("nan")) is None


def test_durations_are_added_up_where_there_is_not_a_cut_meta(layout: Layout) -> None:
    layout.captions(VID, captions(VID, ["A cat.", "A dog."]))
    layout.video(VID)
    layout.pack("vript_long_videos_clips/clips_1_of_9.zip", {f"{VID}/{VID}_asr.jsonl": asr(VID, 3.5, 2.0)})
    (source,), _ = layout.scan()
    assert edges(source) == [(0, 3.5, "A cat."), (3.5, 5.5, "A dog.")]
    # or where it is not understood
    layout.times(VID, cut_meta(VID, {"von": 0}, {"von": 4}))
    layout.write(f"vript_long_videos_clips/{VID}/{VID}_asr.jsonl", asr(VID, 3.0, 2.0))
    (source,), _ = layout.scan()
    assert source.clips[1].start_s == 3.0


def test_a_missing_scene_makes_the_later_starts_unknown() -> None:
    data = asr(VID, 1, 2, 3).split(b"\n")
    assert times_from_durations(b"\n".join(data), "x") == {1: (0, 1), 2: (1, 3), 3: (3, 6)}
    with pytest.raises(SetAside, match="lacks scene 2") as caught:
        times_from_durations(b"\n".join([data[0], data[2]]), "x")
    assert caught.value.reason is Reason.CLIP_BOUNDARIES_MISSING
    with pytest.raises(SetAside):
        times_from_durations(b"", "x")
