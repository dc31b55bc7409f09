"""The rule of choice against FFmpeg's fps filter itself."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest
from av.filter import Graph
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.media.frame_rule import AbsurdTime, Chooser, FrameRule, choose, round_half_away, ticks_of

RATES = [Fraction(1), Fraction(2), Fraction(1, 2), Fraction(30000, 1001), Fraction(5, 3)]
MILLISECOND = Fraction(1, 1000)


def filtered(pts: list[int], duration: int, fps: Fraction) -> list[tuple[int, int]]:
    """(output number, input index) as the fps filter gives them."""
    graph = Graph()
    source = graph.add("buffer", "video_size=8x2:pix_fmt=gray:time_base=1/1000:pixel_aspect=1/1")
    graph.link_nodes(source, graph.add("fps", f"{fps}"), graph.add("buffersink")).configure()
    result = []

    def drain() -> None:
        while True:
            try:
                frame = graph.vpull()
            except (av.BlockingIOError, av.EOFError):
                return
            result.append((frame.pts, int(frame.to_ndarray()[0, :4].copy().view("<u4")[0])))

    for index, at in enumerate(pts):
        picture = np.zeros((2, 8), dtype=np.uint8)
        picture[0, :4] = np.array([index], dtype="<u4").view(np.uint8)
        frame = av.VideoFrame.from_ndarray(picture, format="gray")
        frame.pts, frame.time_base, frame.duration = at, MILLISECOND, duration
        graph.vpush(frame)
        drain()
    graph.vpush(None)
    drain()
    return result


def streamed(pts: list[int], duration: int, fps: Fraction) -> list[tuple[int, int]]:
    rule = FrameRule(fps * MILLISECOND)
    result = []
    for index, at in enumerate(pts):
        result += [(k, index - 1) for k in rule.push(at)]
    return result + [(k, len(pts) - 1) for k in rule.push(pts[-1] + duration)]


steps = st.lists(st.one_of(st.integers(1, 120), st.sampled_from([500, 1000, 1500, 3700])), max_size=60)


@settings(max_examples=50)
@given(start=st.integers(-2500, 2500), steps=steps, duration=st.integers(1, 2200), fps=st.sampled_from(RATES))
def test_choice_is_that_of_the_fps_filter(start: int, steps: list[int], duration: int, fps: Fraction) -> None:
    pts = np.cumsum([start, *steps])
    expected = filtered(pts.tolist(), duration, fps)
    assert streamed(pts.tolist(), duration, fps) == expected
    first, chosen = choose(pts, int(pts[-1]) + duration, fps * MILLISECOND)
    assert list(enumerate(chosen.tolist(), first)) == [(k, i) for k, i in expected if k >= 0]


@settings(max_examples=50)
@given(pts=st.lists(st.integers(-1500, 6000), min_size=1, max_size=25), duration=st.integers(1, 900))
def test_time_stamps_in_any_order_are_treated_as_the_filter_does(pts: list[int], duration: int) -> None:
    assert streamed(pts, duration, Fraction(1)) == filtered(pts, duration, Fraction(1))


@settings(max_examples=50)
@given(start=st.integers(0, 2500), steps=steps)
def test_a_frame_is_the_last_image_before_its_second_and_a_half(start: int, steps: list[int]) -> None:
    pts = np.cumsum([start, *steps])
    first, chosen = choose(pts, int(pts[-1]) + 40, MILLISECOND)
    for k, index in enumerate(chosen.tolist(), first):
        assert index == max(i for i, at in enumerate(pts.tolist()) if at / 1000 < k + 0.5)


def test_halves_round_away_from_zero_and_huge_time_stamps_do_not_overflow() -> None:
    values = [Fraction(1, 2), Fraction(-1, 2), Fraction(3, 2), Fraction(49, 100), -3]
    assert [round_half_away(value) for value in values] == [1, -1, 2, 0, -3]
    tick = Fraction(30000, 1001) / 90000
    pts = np.array([0, 2**60, -(2**60)])
    assert ticks_of(pts, tick).tolist() == [round_half_away(int(p) * tick) for p in pts]


def test_nothing_gives_nothing_and_an_absurd_leap_is_an_error_and_no_endless_list() -> None:
    first, chosen = choose(np.empty(0, dtype=np.int64), 0, MILLISECOND)
    assert (first, len(chosen)) == (0, 0)
    with pytest.raises(AbsurdTime):
        choose(np.array([0, 10**12]), 10**12 + 40, MILLISECOND)
    rule = FrameRule(MILLISECOND)
    rule.push(0)
    with pytest.raises(AbsurdTime):
        rule.push(2**62)


@settings(max_examples=50)
@given(start=st.integers(-2500, 2500), steps=steps, cuts=st.lists(st.integers(1, 60), max_size=5))
def test_choosing_in_pieces_is_choosing_at_once(start: int, steps: list[int], cuts: list[int]) -> None:
    pts = np.cumsum([start, *steps])
    chooser = Chooser(MILLISECOND)
    for piece in np.split(np.arange(len(pts)), sorted(set(cuts) & set(range(1, len(pts))))):
        chooser.add(pts[piece], piece)
    chooser.finish(int(pts[-1]) + 400)
    first, chosen = choose(pts, int(pts[-1]) + 400, MILLISECOND)
    assert chooser.ids.tolist() == chosen.tolist()
    assert chooser.pts.tolist() == pts[chosen].tolist()
    assert not len(chosen) or chooser.first == first
