"""Which frames are shown: two a second and the last, an even choice of many, one, or grids."""

from __future__ import annotations

import numpy as np
import pytest

from storage_schemas.judgements import Failure
from tasks.extras.video_bench.settings import READY, VideoBenchSettings
from tasks.llm.usage import NotJudged
from tasks.llm.vision_models import VlmModel
from tasks.scoring.suites.shown_videos import Grid, SampledVideo, ShownFrames, evenly, sampled_indices
from tests.tasks.extras.video_bench.talking import film, pictures
from tests.tasks.scoring.sides import FrameList

GPT = READY["gpt-4o-2024-08-06"]


def shown_frames(
    films: list[SampledVideo], dimension: str, settings: VideoBenchSettings, model: VlmModel, text: int
) -> list[ShownFrames]:
    named = {f"video {number}": film for number, film in enumerate(films, 1)}
    lines = settings.image_lines(dimension, "numbered_video_line")
    return list(settings.exhibit(dimension, named, lines).fit(model, text).videos.values())


class LongFilm(FrameList):
    """A film that only says how long it is: to read it would be a fault."""

    def __init__(self, frames: int, fps: float) -> None:
        super().__init__([])
        self._frames, self.fps = frames, fps

    def __len__(self) -> int:
        return self._frames


@pytest.mark.parametrize(
    ("frames", "fps", "expected"),
    [
        (8, 4.0, [0, 2, 4, 6, 7]),
        (9, 4.0, [0, 2, 4, 6, 8]),
        (1, 24.0, [0]),
        (3, 1.0, [0, 1, 2]),  # fewer than two a second: each once
        (0, 24.0, []),
        (31, 30000 / 1001, [0, 14, 29, 30]),  # what is on the screen at 0.5 s began at 0.467 s
    ],
)
def test_two_frames_a_second_and_the_last(frames: int, fps: float, expected: list[int]) -> None:
    assert sampled_indices(np.arange(frames) / fps, 2.0) == expected
    # of uneven time stamps those on the screen: at 0.5, 1.0 and 1.5 s the third frame is still shown
    assert sampled_indices(np.array([0.0, 0.1, 0.2, 1.7, 1.8, 2.0]), 2.0) == [0, 2, 5]


def test_a_long_video_is_shown_evenly_from_first_to_last() -> None:
    three_hours = LongFilm(3 * 3600 * 24, 24.0)
    (shown,) = shown_frames(
        [SampledVideo("d", three_hours)], "color_consistency", VideoBenchSettings(), GPT, 500
    )
    assert len(shown.indices) == 60
    assert shown.sampled == 3 * 3600 * 2 + 1
    assert shown.indices[0] == 0
    assert shown.indices[-1] == len(three_hours) - 1
    steps = np.diff(shown.indices)
    assert steps.max() - steps.min() <= 13
    assert not three_hours.reads
    assert evenly(range(10), 1) == [0]


@pytest.mark.parametrize(
    ("limits", "text", "each"),
    [
        ({"most_images": 20}, 0, 6),
        ({"context_tokens": 4096 + 1000, "answer_tokens": 4096}, 200, 3),  # 800 tokens are 9 images of 85
        ({"context_tokens": 128_000}, 0, 60),
    ],
)
def test_the_videos_of_a_request_share_what_fits_evenly(limits: dict[str, int], text: int, each: int) -> None:
    model = VlmModel(**{**GPT.model_dump(), **limits})
    films = [SampledVideo(str(number), LongFilm(24 * 100, 24.0)) for number in range(3)]
    shown = shown_frames(films, "imaging_quality", VideoBenchSettings(), model, text)
    assert [len(one.indices) for one in shown] == [each] * 3


def test_where_no_frame_fits_and_where_there_is_none() -> None:
    films = [SampledVideo("a", film()), SampledVideo("b", film())]
    with pytest.raises(NotJudged) as long:
        shown_frames(films, "imaging_quality", VideoBenchSettings(), GPT, 123_800)
    assert long.value.failure is Failure.CONTEXT_TOO_LONG
    with pytest.raises(NotJudged) as empty:
        shown_frames([SampledVideo("a", film(0))], "imaging_quality", VideoBenchSettings(), GPT, 0)
    assert empty.value.failure is Failure.VIDEO_UNREADABLE


def test_a_grid_has_the_frames_in_reading_order_and_black_where_there_is_none() -> None:
    grid = Grid(rows=2, columns=2, fps=2.0, cell_side=32)
    settings = VideoBenchSettings(grid=grid)
    one = SampledVideo("a", film(frames=5, fps=2.0, luma=100))
    (shown,) = shown_frames([one], "motion_effects", settings, GPT, 0)
    assert shown.images == 2
    assert len(shown.indices) == 5
    lines = settings.image_lines("motion_effects", "video_line")
    parts = settings.exhibit("motion_effects", {"video": one}, lines).fit(GPT, 0).parts()
    made = pictures({"messages": [{}, {"content": parts}]})
    assert [picture.size for picture in made] == [(64, 32), (64, 32)]
    assert "2 rows and 2 columns" in parts[0]["text"]
    corners = [(x, y, x + 32, y + 16) for y in (0, 16) for x in (0, 32)]
    cells = [
        [np.asarray(one.convert("L").crop(corner), np.float64).mean() for corner in corners] for one in made
    ]
    assert np.all(np.diff(cells[0]) > 0.2)
    assert cells[1][0] > 80
    assert max(cells[1][1:]) < 10
    # other dimensions have an image a frame
    (plain,) = shown_frames([one], "imaging_quality", settings, GPT, 0)
    assert plain.grid is None
    assert plain.images == 5
    # the size of frames is the model's
    small = GPT.model_copy(update={"image_side": 16, "detail": None})
    parts = settings.exhibit("color_consistency", {"video": one}, lines).fit(small, 0).parts()
    assert {picture.size for picture in pictures({"messages": [{}, {"content": parts}]})} == {(16, 8)}
    assert "detail" not in parts[1]["image_url"]


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        (GPT, (1920, 1080), 85),
        (GPT.model_copy(update={"detail": "high"}), (1024, 1024), 85 + 4 * 170),
        (GPT.model_copy(update={"detail": "high"}), (2048, 4096), 85 + 6 * 170),
        (GPT.model_copy(update={"detail": None}), (512, 288), 85 + 170),
        (READY["gpt-4o-mini"], (512, 288), 2833),
    ],
)
def test_images_count_as_the_guide_says(model: VlmModel, size: tuple[int, int], tokens: int) -> None:
    assert model.image_tokens(*size) == tokens
