"""Probes: what a judge is given, which requests are the same, and which evaluators cannot be probed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from storage_schemas.errors import UserInputError
from tasks.pairs.view import Pair, Side
from tasks.scoring.base import AspectText, JudgeAnswer, PairwiseJudge, PointwiseScorer, Score, Sight
from tasks.scoring.judges.baselines import Duration
from tasks.scoring.probes import (
    EQUAL,
    NO_PROMPT,
    OTHER_PROMPT,
    PROBES,
    SAME_VIDEOS,
    SWAPPED_NAMES,
    probe_problem,
    probe_requests,
    probe_settings,
    probed,
    probes_in,
    read_choice,
)
from tasks.scoring.registry import factory
from tasks.scoring.request import PairFacts, Request, make_requests
from tests.tasks.scoring.sides import ASPECT, FrameList, noise


class Judge(PairwiseJudge):
    """Sees frames and captions, and names no video."""

    name = "judge"
    sees: ClassVar[tuple[Sight, ...]] = ("frames", "captions")

    def settings(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        pass

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        return JudgeAnswer("first")


class Names(Judge):
    """Names the videos."""

    def with_exchanged_names(self) -> PairwiseJudge:
        return Names()


class Rates(PointwiseScorer):
    """A score of frames and captions."""

    name = "rates"
    sees: ClassVar[tuple[Sight, ...]] = ("frames", "captions")

    def settings(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        pass

    def score(self, prompt: str, video: Side, aspect: AspectText) -> Score:
        return Score(0.0)


def facts(number: int, source: str = "", kind: str = "low") -> PairFacts:
    source = source or f"source{number}"
    return PairFacts(
        pair_id=f"pair{number}{kind}",
        source_id=source,
        aspect="aesthetics",
        dimension="aesthetics",
        prompt_digest=f"prompt of {source}",
        high_checksum=f"high{source}",
        low_checksum=f"{kind}{number}",
        fps=1.0,
    )


PAIRS = [facts(1), facts(2), facts(3), facts(1, kind="control")]


def requests(probe: str, pair: PairFacts = PAIRS[0], judge: PairwiseJudge | None = None) -> list[Request]:
    return probe_requests(judge or Judge(), pair, ASPECT, 1, probe, PAIRS)


def a_pair() -> Pair:
    high, low = (FrameList([noise(n + first) for n in range(7)]) for first in (0, 100))
    return Pair("pair", "aesthetics", "A prompt.", high, low, (), (), None, {})


def frames(video: Side) -> list[bytes]:
    return [frame.tobytes() for frame in video]


def test_every_probe_has_keys_of_its_own_and_none_has_the_judges() -> None:
    assert requests("") == make_requests(Judge(), PAIRS[0], ASPECT)
    keys = {probe: {one.key for one in requests(probe)} for probe in ("", *PROBES)}
    assert all(keys.values())
    assert sum(map(len, keys.values())) == len(set().union(*keys.values()))


def test_probe_asks_once_about_what_it_leaves_out() -> None:
    # of one source: another damage, and a control
    main, control, other = PAIRS[0], PAIRS[3], PAIRS[1]
    for probe in SAME_VIDEOS:
        (one,), (same,), (another,) = (requests(probe, pair) for pair in (main, control, other))
        assert one.key == same.key != another.key
    for probe in set(PROBES) - set(SAME_VIDEOS):
        assert {one.key for one in requests(probe, main)}.isdisjoint(
            one.key for one in requests(probe, control)
        )
        assert [one.order for one in requests(probe, main)] == ["high_first", "low_first"]


def test_another_prompt_is_that_of_another_source() -> None:
    lent = {one.prompt_of for one in requests(OTHER_PROMPT)}
    assert len(lent) == 1
    assert lent <= {"pair2low", "pair3low"}
    with pytest.raises(UserInputError, match="needs pairs of two sources with different prompts"):
        probe_requests(Judge(), PAIRS[0], ASPECT, 1, OTHER_PROMPT, [PAIRS[0], PAIRS[3]])


def test_probed_pair_shows_what_is_left() -> None:
    pair = a_pair()
    blind = probed(pair, "blind")
    assert len(blind.high) == 1
    assert frames(blind.high) == frames(blind.low)
    assert set(np.unique(blind.high[0])) == {128}
    assert blind.prompt == pair.prompt
    middle = probed(pair, "one-frame")
    assert frames(middle.low) == frames(pair.low)[3:4]
    assert probed(pair, NO_PROMPT).prompt == ""
    assert probed(pair, OTHER_PROMPT, "Another.").prompt == "Another."
    assert frames(probed(pair, EQUAL).low) == frames(pair.high)
    assert probed(pair, SWAPPED_NAMES) is pair


def test_shuffled_frames_are_the_same_ones_in_one_order_for_both_sides() -> None:
    pair = a_pair()
    shown = probed(pair, "shuffled")
    before, after = frames(pair.high), frames(shown.high)
    assert before != after
    assert sorted(before) == sorted(after)
    order = [before.index(frame) for frame in after]
    assert [frames(pair.low)[at] for at in order] == frames(shown.low)
    assert [frame.tobytes() for frame in shown.high.planes([5, 0, 3])] == [after[at] for at in (5, 0, 3)]
    assert shown.high.frame_ids([2]) == pair.high.frame_ids([order[2]])


@pytest.mark.parametrize(
    ("evaluator", "refused"),
    [
        (Judge, {SWAPPED_NAMES}),
        (Names, set()),
        (Rates, {*SAME_VIDEOS, SWAPPED_NAMES}),
        (Duration, {*SAME_VIDEOS, SWAPPED_NAMES, NO_PROMPT, OTHER_PROMPT}),
    ],
)
def test_probe_problem_names_what_cannot_be_probed(
    evaluator: Callable[[], Judge | Rates | Duration], refused: set[str]
) -> None:
    assert {probe for probe in PROBES if probe_problem(evaluator(), probe)} == refused


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("human", "human: people cannot be asked or probed here"),
        ("mine.json", "mine.json: a submission has its answers already, and cannot be asked or probed"),
    ],
)
def test_people_and_submissions_are_refused_by_name(name: str, words: str) -> None:
    with pytest.raises(UserInputError, match=words):
        factory(name)


def test_exchanged_names_are_read_back() -> None:
    assert [read_choice(choice, SWAPPED_NAMES) for choice in ("first", "second", "tie")] == [
        "second",
        "first",
        "tie",
    ]
    assert read_choice("first", EQUAL) == "first"
    assert probe_settings("abc", "") == "abc" != probe_settings("abc", EQUAL)


def test_probes_are_named_by_commas_and_an_unknown_one_has_a_hint() -> None:
    assert probes_in(["blind,equal", "blind"]) == ("blind", "equal")
    with pytest.raises(UserInputError, match=r"--probe blnd: .*blind"):
        probes_in(["blnd"])
    assert json.dumps(PROBES)
