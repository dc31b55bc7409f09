"""Few-shot scoring over real HTTP: one request for a prompt's videos, batches, odd answers, resuming."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.judgements import TRANSIENT_FAILURES, Failure
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import ScoredVideo, SuiteVideo
from tasks.scoring.suites.blurred_video import BlurredSide
from tasks.scoring.suites.video_bench.dimensions import DIMENSIONS, QUALITY
from tasks.scoring.suites.video_bench.few_shot import video_groups
from tests.storage_schemas.full_disk import fill
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.video_bench.talking import (
    MODELS,
    PROMPT,
    Damaged,
    Talk,
    addresses,
    film,
    lights,
    steps,
    suite,
    text,
    video,
)
from tests.tiny_models.faulty_server import FaultyServer, Reply

NAMES = [dimension.name for dimension in DIMENSIONS if dimension.group == QUALITY]
LUMAS = (20, 90, 150, 215)


def score(
    folder: Path,
    server: FaultyServer,
    films: Sequence[FrameList],
    name: str = "imaging_quality",
    repeat: int = 0,
    **settings: Any,
) -> list[ScoredVideo | NotJudged]:
    videos = [video(f"m{place}", one) for place, one in enumerate(films)]
    return list(suite(folder, server, **settings).scorer(name).score(PROMPT, videos, repeat))


def values(found: Sequence[ScoredVideo | NotJudged]) -> list[float | str]:
    return [one.value if isinstance(one, ScoredVideo) else one.failure.value for one in found]


@pytest.mark.parametrize("name", NAMES)
def test_the_videos_of_a_prompt_are_one_request(tmp_path: Path, name: str) -> None:
    films = [film(luma=luma) for luma in LUMAS]
    # grids of four at 8 frames a second, or two frames a second and the last
    images = 2 if name in ("temporal_consistency", "motion_effects") else 5
    with FaultyServer(Talk(), MODELS) as server:
        result = score(tmp_path, server, films, name)
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


def test_no_model_is_always_shown_first(tmp_path: Path) -> None:
    firsts = set()
    with FaultyServer(Talk(), MODELS) as server:
        scorer = suite(tmp_path, server).scorer("imaging_quality")
        for prompt in range(12):
            films = [
                video(f"m{place}", film(luma=luma + prompt), digest=f"{prompt}-{place}")
                for place, luma in enumerate(LUMAS)
            ]
            scorer.score(PROMPT, films)
            shown = lights(server.seen[-1].body)
            firsts.add(sorted(shown).index(shown[0]))
            # the manifest's order changes nothing
            scorer.score(PROMPT, films[::-1])
        assert len(server.seen) == 12
    assert len(firsts) == 4


def test_the_order_given_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    films = [film(luma=luma) for luma in (150, 20, 90)]
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server, films, order="given", quality_prompt=["imaging_quality"])
        shown = lights(server.seen[0].body)
        assert PROMPT.text in text(server.seen[0].body)
    assert shown[0] > shown[2] > shown[1]


@pytest.mark.parametrize(
    ("rest", "sizes", "shown"),
    [("even", [3, 3], [3, 3]), ("short", [4, 2], [4, 2]), ("fill", [4, 2], [4, 4])],
)
def test_more_videos_than_a_batch_holds(
    tmp_path: Path, rest: str, sizes: list[int], shown: list[int]
) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        result = score(tmp_path, server, [film(luma=20 + 30 * at) for at in range(6)], shots=4, rest=rest)
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


@pytest.mark.parametrize(
    ("answer", "failure", "said"),
    [
        ({"scores": []}, Failure.NOT_UNDERSTOOD, "0 scores were given for 3 videos"),
        (
            {"scores": [{"video": at, "reason": "", "score": 3} for at in (1, 2)]},
            Failure.NOT_UNDERSTOOD,
            "2 scores were given for 3 videos",
        ),
        (
            {"scores": [{"video": at, "reason": "", "score": 3} for at in (1, 2, 3, 4)]},
            Failure.NOT_UNDERSTOOD,
            "4 scores",
        ),
        (
            {"scores": [{"video": at, "reason": "", "score": 3} for at in (1, 2, 2)]},
            Failure.NOT_UNDERSTOOD,
            "videos 1, 2, 2 in place of 1 to 3",
        ),
        ({"scores": [3, 4, 5]}, Failure.NOT_UNDERSTOOD, "no list"),
        ("3, 4 and 5", Failure.NOT_UNDERSTOOD, "not JSON"),
        (Reply("", finish_reason="content_filter"), Failure.MODEL_REFUSED, "few-shot: "),
    ],
)
def test_an_answer_for_other_videos_is_none_for_the_whole_batch(
    tmp_path: Path, answer: Any, failure: Failure, said: str
) -> None:
    with FaultyServer(Talk({"few-shot": answer}), MODELS) as server:
        result = score(tmp_path, server, [film(luma=luma) for luma in LUMAS[:3]])
    assert len(result) == 3
    for one in result:
        assert isinstance(one, NotJudged)
        assert one.failure is failure
        assert said in one.message
    assert sum(one.usage.tokens()[0] for one in result) == 100


@pytest.mark.parametrize("odd", [0, 6, 3.5, "4", None, True, -1])
def test_one_odd_score_harms_no_other_video(tmp_path: Path, odd: Any) -> None:
    def scores(shown: list[float]) -> list[Any]:
        return [odd if light == min(shown) else 4.0 for light in shown]

    films = [film(luma=luma) for luma in LUMAS]
    with FaultyServer(Talk(scores=scores), MODELS) as server:
        result = score(tmp_path, server, films)
    assert values(result) == ["not_understood", 4, 4, 4]
    assert sum(one.usage.tokens()[0] for one in result) == 100
    assert sum(one.calls for one in result if isinstance(one, ScoredVideo)) <= 1
    with FaultyServer(Talk(), MODELS) as server:
        # such an answer is not kept
        assert values(score(tmp_path, server, films)) == [1, 2, 3, 4]


def test_a_batch_that_fails_harms_no_other_batch(tmp_path: Path) -> None:
    def scores(shown: list[float]) -> list[Any]:
        return [1] if min(shown) < 20 else [3] * len(shown)

    with FaultyServer(Talk(scores=scores), MODELS) as server:
        result = score(tmp_path, server, [film(luma=luma) for luma in LUMAS], shots=2, order="given")
    assert values(result) == ["not_understood", "not_understood", 3, 3]


def test_a_damaged_or_empty_video_harms_no_other(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        result = score(tmp_path, server, [film(luma=20), Damaged(), film(0), film(luma=215)])
        assert [len(lights(seen.body)) for seen in server.seen] == [2]
    assert values(result) == [1, "video_unreadable", "video_unreadable", 4]


def test_one_video_alone_and_a_video_of_one_frame(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        assert values(score(tmp_path, server, [film(frames=1, luma=90)])) == [2]
        assert len(addresses(server.seen[0].body)) == 1
        assert "There is one video." in text(server.seen[0].body)


def test_what_was_answered_is_not_paid_again(tmp_path: Path) -> None:
    films = [film(luma=luma) for luma in LUMAS]
    down = Talk()

    def second_fails(number: int, body: dict[str, Any]) -> Reply:
        return down(number, body) if number == 0 else Reply(status=503)

    with FaultyServer(second_fails, MODELS) as server:
        first = score(tmp_path, server, films, shots=2)
    assert values(first).count("server_down") == 2
    with FaultyServer(Talk(), MODELS) as server:
        again = score(tmp_path, server, films, shots=2)
        assert len(server.seen) == 1
        score(tmp_path, server, films, shots=2)
        assert len(server.seen) == 1
        score(tmp_path, server, films, shots=2, repeat=1)
        assert len(server.seen) == 3
    assert all(isinstance(one, ScoredVideo) for one in again)
    assert sum(one.calls for one in again if isinstance(one, ScoredVideo)) == 1


def test_a_dry_run_has_one_request_a_batch(tmp_path: Path) -> None:
    videos = [video(f"m{at}", film(luma=20 + at)) for at in range(5)]
    with FaultyServer(Talk(), MODELS) as server:
        scorer = suite(tmp_path, server, shots=3).scorer("motion_effects")
        expected = scorer.estimate(PROMPT, videos)
        assert not server.seen
        assert sorted(one.images for one in expected) == [4, 6]
        assert {one.model for one in expected} == {MODELS[0]}
        scorer.score(PROMPT, videos)
        assert list(scorer.estimate(PROMPT, videos)) == []
        again = scorer.estimate(PROMPT, videos, 1)
        # a repeat is asked anew, and its requests are others than those of the first time
        assert len(again) == 2
        assert not {one.once for one in again} & {one.once for one in expected}


def test_what_a_failed_batch_took_and_said_is_told_once(tmp_path: Path) -> None:
    videos = [video(f"m{at}", film(luma=20 + at)) for at in range(3)]
    with FaultyServer(Talk(scores=lambda lights: [3] * 2), MODELS) as server:
        result = suite(tmp_path, server).scorer("imaging_quality").score(PROMPT, videos)
        assert len(server.seen) == 1
    failed = [one for one in result if isinstance(one, NotJudged)]
    assert len(failed) == 3
    assert sorted(one.calls or 0 for one in failed) == [0, 0, 1]
    assert sum(one.usage.tokens()[0] for one in failed) == 100
    assert all(one.message.startswith("few-shot: 2 scores") for one in failed)
    assert all(one.details["conversation"][0]["answer"] == failed[0].raw for one in failed)


@pytest.mark.parametrize("name", ["imaging_quality", "color_consistency"])
def test_what_was_paid_is_known_where_the_answer_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        with monkeypatch.context() as patched:
            fill(patched, tmp_path / "store" / "suites")
            (result,) = score(tmp_path, server, [film()], name)
        assert isinstance(result, NotJudged)
        assert result.failure in TRANSIENT_FAILURES
        assert "no space left below" in result.message
        assert (result.calls, result.usage.tokens()[0], len(server.seen)) == (1, 100, 1)
        assert isinstance(score(tmp_path, server, [film()], name)[0], ScoredVideo)


def test_a_blurred_or_otherwise_sampled_video_is_another_one(tmp_path: Path) -> None:
    plain = film(luma=90)
    slower = film(luma=90, fps=2.0, frames=8)
    with FaultyServer(Talk(), MODELS) as server:
        scorer = suite(tmp_path, server).scorer("imaging_quality")
        for one in (plain, BlurredSide(film(luma=90), 0.7), slower, film(luma=90)):
            # all with the checksum of one file
            scorer.score(PROMPT, [SuiteVideo("a", "p", 0, "one file", one)])
        assert len(server.seen) == 3


def test_grids_are_sent_for_moving_dimensions_alone(tmp_path: Path) -> None:
    grid = {"rows": 1, "columns": 4, "fps": 4.0, "cell_side": 16}
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server, [film(frames=8)], "temporal_consistency", grid=grid)
        score(tmp_path, server, [film(frames=8)], "imaging_quality", grid=grid)
        assert [len(addresses(seen.body)) for seen in server.seen] == [2, 5]


@pytest.mark.parametrize("off", [None, False])
def test_without_grids_each_frame_is_an_image(tmp_path: Path, off: bool | None) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server, [film(frames=8)], "motion_effects", grid=off)
        assert len(addresses(server.seen[0].body)) == 5


def test_no_prompt_where_no_dimension_is_named(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server, [film()], "aesthetic_quality", quality_prompt=[])
        assert PROMPT.text not in text(server.seen[0].body)
