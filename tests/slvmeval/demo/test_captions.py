"""The captions of the two films are consistent and name what the aspects need."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from slvmeval.demo.fetch import read_captions

#: Seconds of video in the film's file.
DURATION = {"big_buck_bunny": 596.458, "cityCC0": 7.6}
COLOURS = "black|white|red|green|yellow|blue|brown|purple|pink|orange|grey"


def clips_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_captions(f"{name}.jsonl").decode("utf-8").splitlines()]


@pytest.mark.parametrize("name", DURATION)
def test_clips_follow_each_other_and_captions_are_dense_and_all_different(name: str) -> None:
    previous, clips = 0.0, clips_of(name)
    assert len({clip["caption"] for clip in clips}) == len(clips)
    for clip in clips:
        assert set(clip) == {"start_s", "end_s", "caption"}
        assert previous <= clip["start_s"] < clip["end_s"] <= DURATION[name]
        assert clip["end_s"] - clip["start_s"] <= 25
        previous = clip["end_s"]
        caption = clip["caption"]
        assert 40 <= len(caption.split()) <= 110
        assert caption == " ".join(caption.split())
        assert caption.endswith(".")
        assert caption.isascii()


def test_the_long_film_has_clips_enough_for_every_aspect() -> None:
    clips = clips_of("big_buck_bunny")
    assert 45 <= len(clips) <= 60
    assert min(clip["end_s"] - clip["start_s"] for clip in clips) >= 5

    def naming(pattern: str) -> int:
        return sum(re.search(pattern, clip["caption"].lower()) is not None for clip in clips)

    assert naming(r"\b(left|right)\b") >= 10
    assert naming(r"\bin the background\b|\bfills the background\b") >= 15
    assert naming(rf"\b({COLOURS}) (rabbit|squirrel|chinchilla|butterfly|apple|bird)\b") >= 15
