"""A video that is read frame by frame is decoded once, not from the key frame on for each frame."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tasks.media.decode import FrameSampler, SampledFrame
from tasks.pairs.file_pairs import VideoSide
from tests.tasks.scoring.sides import film


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int | None]]:
    begun: list[tuple[int, int | None]] = []
    frames = FrameSampler.frames

    def counted(self: FrameSampler, start: int = 0, stop: int | None = None) -> Iterator[SampledFrame]:
        begun.append((start, stop))
        return frames(self, start, stop)

    monkeypatch.setattr(FrameSampler, "frames", counted)
    return begun


@pytest.mark.parametrize("every", [1, 3, 8])
def test_one_after_the_other(
    ffmpeg: str, tmp_path: Path, decodings: list[tuple[int, int | None]], every: int
) -> None:
    film(ffmpeg, tmp_path / "film.mp4")
    whole = VideoSide(tmp_path / "film.mp4", Fraction(8), 96)
    assert whole.sampler.mode == "packet_plan"
    wanted = whole.planes(range(len(whole)))
    decodings.clear()
    single = VideoSide(tmp_path / "film.mp4", Fraction(8), 96)
    result = np.stack([single[place] for place in range(0, len(single), every)])
    assert (result == wanted[::every]).all()
    assert len(wanted) == 192
    assert len(decodings) == 2


def test_here_and_there_only_what_is_wanted_is_decoded(
    ffmpeg: str, tmp_path: Path, decodings: list[tuple[int, int | None]]
) -> None:
    film(ffmpeg, tmp_path / "film.mp4")
    side = VideoSide(tmp_path / "film.mp4", Fraction(8), 96)
    whole = VideoSide(tmp_path / "film.mp4", Fraction(8), 96).planes(range(192))
    decodings.clear()
    order = [100, 101, 5, 6, 7, 180, 102, 103]
    assert all((side[place] == whole[place]).all() for place in order)
    assert decodings[0] == (100, 101)
    assert (180, 181) in decodings
    assert (5, 6) in decodings
