"""Which frames belong to which event: intervals over real HTTP, checked, and what becomes of odd ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.judgements import Failure
from tasks.llm.conversation import LiveAsker
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.locot2v.askers import roles_of
from tasks.scoring.suites.locot2v.events import EventClip, PromptEvent, clips_of, event_clips
from tasks.scoring.suites.shown_videos import SampledVideo
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.locot2v.talking import (
    LOCATES,
    MODELS,
    PROMPT,
    Talk,
    film,
    images,
    setup,
    step,
    steps,
    suite,
    text,
)
from tests.tiny_models.faulty_server import FaultyServer


def clips(folder: Path, server: FaultyServer, of: FrameList | None = None, **more: Any) -> list[EventClip]:
    settings = suite(folder, server, **more).settings
    asking = LiveAsker(roles_of(setup(folder, server), settings))
    return event_clips(asking, PROMPT, SampledVideo("digest", film() if of is None else of), settings)


def located(*intervals: Any) -> dict[str, Any]:
    entries = [
        {
            "number": number,
            "seen": one is not None,
            "start": one[0] if one else 0,
            "end": one[1] if one else 0,
        }
        for number, one in enumerate(intervals, 1)
    ]
    return {"events": entries}


def test_the_model_sees_times_and_events_and_gives_intervals(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        (result,) = clips(tmp_path, server)
        assert steps(server) == ["events", "locate"]
        assert clips(tmp_path, server) == [result]
        assert len(server.seen) == 2
        (body,) = [seen.body for seen in server.seen if step(seen.body) == "locate"]
    # 8 frames at 4 a second: the first four are on the screen until second 1
    assert (result.number, result.event.subject, result.first, result.end) == (0, "sun", 0, 4)
    assert body["model"] == LOCATES
    assert images(body) == 3
    output = text(body)
    assert "1. sun rises\n2. man waves" in output
    assert [line for line in output.splitlines() if line.endswith(" s:")] == ["0.0 s:", "1.0 s:", "1.8 s:"]
    assert "lasts 2.0 seconds" in body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("interval", "frames"),
    [((0.0, 2.0), (0, 8)), ((0.3, 0.6), (1, 3)), ((1.9, 2.4), (7, 8)), ((0.5, 0.501), (2, 3))],
)
def test_intervals_become_the_frames_on_the_screen(
    interval: tuple[float, float], frames: tuple[int, int]
) -> None:
    (result,) = clips_of([PromptEvent(event="e")], [interval], np.arange(8) / 4)
    assert (result.first, result.end) == frames


@pytest.mark.parametrize(
    "odd",
    [
        "The sun rises at first.",
        located((0, 1)),
        located((0, 1), (0, 1), (0, 1)),
        located((1, 1), None),
        located((1, 0.5), None),
        located((-1, 1), None),
        located((0, 3), None),
        located((2.2, 2.4), None),
        located(("0", 1), None),
        located((True, 1.5), None),
        {"events": [{"number": 1, "seen": "yes", "start": 0, "end": 1}, {"number": 2, "seen": False}]},
    ],
)
def test_intervals_that_do_not_fit_are_a_reason_and_asked_again(tmp_path: Path, odd: Any) -> None:
    with FaultyServer(Talk(locate=[odd, located((0, 1), (1, 2.3))]), MODELS) as server:
        with pytest.raises(NotJudged) as problem:
            clips(tmp_path, server)
        assert problem.value.failure is Failure.NOT_UNDERSTOOD
        assert "locate events" in problem.value.message
        # a little past the end is cut there
        assert [(one.start_s, one.end_s) for one in clips(tmp_path, server)] == [(0, 1), (1, 2)]


def test_a_video_without_frames_is_a_reason(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server, pytest.raises(NotJudged) as problem:
        clips(tmp_path, server, FrameList([]))
    assert problem.value.failure is Failure.VIDEO_UNREADABLE


def test_a_video_of_one_frame_is_not_said_to_last_no_time(tmp_path: Path) -> None:
    with FaultyServer(Talk(locate=located((0, 0.04), None)), MODELS) as server:
        (result,) = clips(tmp_path, server, of=film(1, fps=24.0))
        (body,) = [seen.body for seen in server.seen if step(seen.body) == "locate"]
    assert "lasts 0.04 seconds" in body["messages"][0]["content"]
    assert (result.first, result.end) == (0, 1)


def test_room_for_times_is_left_for_the_frames_that_can_be_shown_and_no_more(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        (result,) = clips(tmp_path, server, most_frames=100_000)
        (body,) = [seen.body for seen in server.seen if step(seen.body) == "locate"]
    assert images(body) == 3
    assert result.number == 0
