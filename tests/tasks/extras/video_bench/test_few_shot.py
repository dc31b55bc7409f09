"""Few-shot scoring over real HTTP: which frames are shown, one request for a batch, odd answers, resuming."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.judgements import TRANSIENT_FAILURES, Failure
from tasks.extras.video_bench.dimensions import DIMENSIONS, QUALITY
from tasks.extras.video_bench.few_shot import video_groups
from tasks.extras.video_bench.settings import READY, VideoBenchSettings
from tasks.llm.usage import NotJudged
from tasks.llm.vision_models import VlmModel
from tasks.scoring.suites.base import ScoredVideo, SuiteVideo
from tasks.scoring.suites.blurred_video import BlurredSide
from tasks.scoring.suites.shown_videos import Grid, SampledVideo, ShownFrames, evenly, sampled_indices
from tests.storage_schemas.full_disk import fill
from tests.tasks.extras.video_bench.talking import (
    MODELS,
    PROMPT,
    Talk,
    addresses,
    lights,
    pictures,
    steps,
    suite,
    video,
)
from tests.tasks.scoring.sides import Damaged, FrameList
from tests.tasks.scoring.suites.told import Told, film, text
from tests.tiny_models.faulty_server import Reply

NAMES = [dimension.name for dimension in DIMENSIONS if dimension.group == QUALITY]
LUMAS = (20, 90, 150, 215)


def score(
    server: Told, films: Sequence[FrameList], name: str = "imaging_quality", repeat: int = 0, **settings: Any
) -> list[ScoredVideo | NotJudged]:
    videos = [video(f"m{place}", one) for place, one in enumerate(films)]
    return list(suite(server, **settings).scorer(name).score(PROMPT, videos, repeat))


def values(found: Sequence[ScoredVideo | NotJudged]) -> list[float | str]:
    return [one.value if isinstance(one, ScoredVideo) else one.failure.value for one in found]


@pytest.mark.parametrize("name", NAMES)
def test_the_videos_of_a_prompt_are_one_request(server: Told, name: str) -> None:
    films = [film(luma=luma) for luma in LUMAS]
    # grids of four at 8 frames a second, or two frames a second and the last
    images = 2 if name in ("temporal_consistency", "motion_effects") else 5
    result = score(server, films, name)
    assert steps(server) == ["few-shot"]
    (seen,) = server.seen
    assert [one["detail"] for one in addresses(seen.body)] == ["low"] * 4 * images
    assert seen.body["temperature"] == 0
    assert seen.body["model"] == MODELS[0]
    # only the composition is held against the text's demands
    assert (PROMPT.text in text(seen.body)) == (name == "aesthetic_quality")
    # each video has its own score, whatever the order in which it was shown
    expected = [1 + round(luma - 16) * 255 // 219 // 60 for luma in LUMAS]
    assert values(result) == expected == sorted(expected)
    scored = [one for one in result if isinstance(one, ScoredVideo)]
    assert sum(one.calls for one in scored) == 1
    assert sum(one.usage.tokens_in for one in scored) == 100
    assert max(one.usage.tokens_in for one in scored) - min(one.usage.tokens_in for one in scored) <= 1


def test_no_model_is_always_shown_first(server: Told) -> None:
    firsts = set()
    scorer = suite(server).scorer("imaging_quality")
    for prompt in range(12):
        films = [
            video(f"m{place}", film(1, luma=luma + prompt), digest=f"{prompt}-{place}")
            for place, luma in enumerate(LUMAS)
        ]
        scorer.score(PROMPT, films)
        shown = lights(server.seen[-1].body)
        firsts.add(sorted(shown).index(shown[0]))
        # the manifest's order changes nothing
        scorer.score(PROMPT, films[::-1])
    assert len(server.seen) == 12
    assert len(firsts) == 4


def test_the_order_given_is_kept_where_it_is_asked_for(server: Told) -> None:
    films = [film(luma=luma) for luma in (150, 20, 90)]
    score(server, films, order="given", quality_prompt=["imaging_quality"])
    shown = lights(server.seen[0].body)
    assert shown[0] > shown[2] > shown[1]
    assert PROMPT.text in text(server.seen[0].body)
    # no prompt where no dimension is named
    score(server, films, "aesthetic_quality", quality_prompt=[])
    assert PROMPT.text not in text(server.seen[1].body)


@pytest.mark.parametrize(
    ("rest", "sizes", "shown"),
    [("even", [3, 3], [3, 3]), ("short", [4, 2], [4, 2]), ("fill", [4, 2], [4, 4])],
)
def test_more_videos_than_a_batch_holds(server: Told, rest: str, sizes: list[int], shown: list[int]) -> None:
    result = score(server, [film(luma=20 + 30 * at) for at in range(6)], shots=4, rest=rest)
    assert [len(lights(seen.body)) for seen in server.seen] == shown
    assert all(isinstance(one, ScoredVideo) for one in result)
    assert [len(batch.counted) for batch in video_groups(6, 4, rest)] == sizes  # type: ignore[arg-type]


@given(count=st.integers(0, 40), shots=st.integers(1, 9), rest=st.sampled_from(["even", "short", "fill"]))
def test_every_video_is_scored_once_in_a_batch_that_fits(count: int, shots: int, rest: Any) -> None:
    result = video_groups(count, shots, rest)
    assert sorted(place for batch in result for place in batch.counted) == list(range(count))
    assert len(result) == -(-count // shots)
    for batch in result:
        assert 1 <= len(batch.shown) <= shots
        assert len(set(batch.shown)) == len(batch.shown)
    sizes = [len(batch.counted) for batch in result]
    if rest == "even" and sizes:
        assert max(sizes) - min(sizes) <= 1
    if rest == "fill" and len(result) > 1:
        assert {len(batch.shown) for batch in result} == {shots}


def of(*videos: int) -> dict[str, Any]:
    return {"scores": [{"video": at, "reason": "", "score": 3} for at in videos]}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"scores": []}, "0 scores were given for 3 videos"),
        (of(1, 2), "2 scores were given for 3 videos"),
        (of(1, 2, 3, 4), "4 scores"),
        (of(1, 2, 2), "videos 1, 2, 2 in place of 1 to 3"),
        ({"scores": [3, 4, 5]}, "no list"),
        ("3, 4 and 5", "not JSON"),
        (Reply("", finish_reason="content_filter"), ""),
    ],
)
def test_an_answer_for_other_videos_is_none_for_the_whole_batch(server: Told, answer: Any, said: str) -> None:
    server.say(Talk({"few-shot": answer}))
    result = score(server, [film(luma=luma) for luma in LUMAS[:3]])
    failed = [one for one in result if isinstance(one, NotJudged)]
    assert len(failed) == len(result) == 3
    assert {one.failure for one in failed} == {Failure.NOT_UNDERSTOOD if said else Failure.MODEL_REFUSED}
    assert all(one.message.startswith("few-shot: ") and said in one.message for one in failed)
    # what it took and said is told once
    assert sorted(one.calls or 0 for one in failed) == [0, 0, 1]
    assert sum(one.usage.tokens()[0] for one in failed) == 100
    assert all(one.details["conversation"][0]["answer"] == failed[0].raw for one in failed)


@pytest.mark.parametrize("odd", [0, 6, 3.5, "4", None, True, -1])
def test_one_odd_score_harms_no_other_video(server: Told, odd: Any) -> None:
    def scores(shown: list[float]) -> list[Any]:
        return [odd if light == min(shown) else 4.0 for light in shown]

    films = [film(luma=luma) for luma in LUMAS]
    server.say(Talk(scores=scores))
    result = score(server, films)
    assert values(result) == ["not_understood", 4, 4, 4]
    assert sum(one.usage.tokens()[0] for one in result) == 100
    assert sum(one.calls for one in result if isinstance(one, ScoredVideo)) <= 1
    # such an answer is not kept
    server.say(Talk())
    assert values(score(server, films)) == [1, 2, 3, 4]


def test_what_fails_harms_no_other_batch_or_video(server: Told) -> None:
    def scores(shown: list[float]) -> list[Any]:
        return [1] if min(shown) < 20 else [3] * len(shown)

    server.say(Talk(scores=scores))
    result = score(server, [film(luma=luma) for luma in LUMAS], shots=2, order="given")
    assert values(result) == ["not_understood", "not_understood", 3, 3]
    # a damaged or an empty video
    server.say(Talk())
    result = score(server, [film(luma=20), Damaged(), film(0), film(luma=215)])
    assert [len(lights(seen.body)) for seen in server.seen] == [2]
    assert values(result) == [1, "video_unreadable", "video_unreadable", 4]
    # one video alone, of one frame
    assert values(score(server, [film(frames=1, luma=90)])) == [2]
    assert len(addresses(server.seen[1].body)) == 1
    assert "Number of videos: 1" in text(server.seen[1].body)


def test_what_was_answered_is_not_paid_again(server: Told) -> None:
    films = [film(luma=luma) for luma in LUMAS]
    server.say(lambda number, body: Reply(status=503) if number else Talk()(number, body))
    assert values(score(server, films, shots=2)).count("server_down") == 2
    server.say(Talk())
    again = score(server, films, shots=2)
    assert sum(one.calls for one in again if isinstance(one, ScoredVideo)) == 1
    assert all(isinstance(one, ScoredVideo) for one in again)
    score(server, films, shots=2)
    assert len(server.seen) == 1
    score(server, films, shots=2, repeat=1)
    assert len(server.seen) == 3


def test_a_dry_run_has_one_request_a_batch(server: Told) -> None:
    videos = [video(f"m{at}", film(luma=20 + at)) for at in range(5)]
    scorer = suite(server, shots=3).scorer("motion_effects")
    expected = scorer.estimate(PROMPT, videos)
    assert not server.seen
    assert sorted(one.images for one in expected) == [4, 6]
    assert {one.model for one in expected} == {MODELS[0]}
    scorer.score(PROMPT, videos)
    assert list(scorer.estimate(PROMPT, videos)) == []
    # a repeat is asked again, and its requests are others than those of the first time
    again = scorer.estimate(PROMPT, videos, 1)
    assert len(again) == 2
    assert not {one.once for one in again} & {one.once for one in expected}
    # a blurred or otherwise sampled video is another one, also with the checksum of one file
    server.seen.clear()
    for one in (film(), BlurredSide(film(), 0.7), film(fps=2.0, frames=8), film()):
        suite(server).scorer("imaging_quality").score(PROMPT, [SuiteVideo("a", "p", 0, "one file", one)])
    assert len(server.seen) == 3


@pytest.mark.parametrize("name", ["imaging_quality", "color_consistency"])
def test_full_store_cost(server: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with monkeypatch.context() as patched:
        fill(patched, tmp_path / "store" / "suites")
        (result,) = score(server, [film()], name)
    assert isinstance(result, NotJudged)
    assert result.failure in TRANSIENT_FAILURES
    assert "no space left below" in result.message
    assert (result.calls, result.usage.tokens()[0], len(server.seen)) == (1, 100, 1)
    assert isinstance(score(server, [film()], name)[0], ScoredVideo)


@pytest.mark.parametrize(
    ("name", "grid", "images"),
    [
        ("temporal_consistency", {"rows": 1, "columns": 4, "fps": 4.0, "cell_side": 16}, 2),
        ("imaging_quality", {"rows": 1, "columns": 4, "fps": 4.0, "cell_side": 16}, 5),
        # without grids each frame is an image
        ("motion_effects", None, 5),
        ("motion_effects", False, 5),
    ],
)
def test_grids_are_sent_for_moving_dimensions_alone(server: Told, name: str, grid: Any, images: int) -> None:
    score(server, [film(frames=8)], name, grid=grid)
    assert len(addresses(server.seen[0].body)) == images


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


def test_images_of_the_papers_models_count_as_the_guide_says() -> None:
    high = GPT.model_copy(update={"detail": "high"})
    assert (GPT.image_tokens(1920, 1080), READY["gpt-4o-mini"].image_tokens(512, 288)) == (85, 2833)
    assert (high.image_tokens(1024, 1024), high.image_tokens(512, 288)) == (85 + 4 * 170, 85 + 170)
