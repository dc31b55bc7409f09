"""Whole requests on a pair of each aspect: the two videos differ in their pictures, and in nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tasks.aspects.registry import aspect
from tasks.extras.locot2v.askers import LiveComparer, roles_of
from tasks.extras.locot2v.dimensions import HERD_NAMES
from tasks.extras.locot2v.events import event_clips
from tasks.extras.video_bench.few_shot import VideoGroup
from tasks.extras.video_bench.scorers import QualityScorer
from tasks.pairs.view import Pair, open_record
from tasks.scoring.features import FeatureCache
from tasks.scoring.instructions import aspect_text
from tasks.scoring.judges.vlm import IntervalJudge, VideoJudge
from tasks.scoring.judges.vlm_text import Descriptions
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.conversation_scorer import suite_answers
from tasks.scoring.suites.pairwise import prompt_of, video_of
from tasks.scoring.suites.shown_videos import SampledVideo
from tests.tasks.extras.locot2v import talking as locot2v
from tests.tasks.extras.video_bench import talking as video_bench
from tests.tasks.pairs.synthetic import ASPECTS, Made
from tests.tasks.scoring.judges.asked import MODEL, client
from tests.tasks.scoring.suites.told import Told

PROMPT = "A man waves.\nThe sun rises."
#: Dimensions of LoCoT2V-Bench that ask models, but for the rest of the questions.
WORDS = ("overall_alignment", "event_alignment", "human_action", "theme_clarity", HERD_NAMES[0])


@pytest.fixture(params=ASPECTS)
def pair(request: pytest.FixtureRequest, built: Made) -> Pair:
    made = open_record(built.store, built.pair(request.param), PROMPT)
    if request.param == "comprehensiveness":
        assert len(made.low) < len(made.high)
    return made


@pytest.fixture
def server(listening: Told, tmp_path: Path) -> Told:
    listening.folder = tmp_path
    return listening


def bare(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request without its pictures and the times of its frames."""
    value = json.loads(json.dumps(body))
    for message in value["messages"]:
        if isinstance(message["content"], list):
            texts = [part["text"] for part in message["content"] if part["type"] == "text"]
            message["content"] = [text for text in texts if not re.fullmatch(r"[\d.]+ s:", text)]
    return dict(value)


def pictures(body: Mapping[str, Any]) -> list[str]:
    return [
        part["image_url"]["url"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]


def seen(server: Told) -> list[dict[str, Any]]:
    """Return the requests since the last call, sorted: what is asked at once may arrive in any order."""
    bodies = [one.body for one in server.seen if "messages" in one.body]
    server.seen = []
    return sorted(bodies, key=lambda body: json.dumps(bare(body)))


def differ_by_pictures_alone(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    assert one
    assert [bare(body) for body in one] == [bare(body) for body in other]
    assert [pictures(body) for body in one] != [pictures(body) for body in other]


@pytest.mark.parametrize("frames", ["all", "clips"])
@pytest.mark.parametrize("kind", [VideoJudge, IntervalJudge])
def test_a_judge_of_frames_is_told_the_same_in_both_orders(
    kind: type[VideoJudge], frames: str, pair: Pair
) -> None:
    model = MODEL.model_copy(update={"frames": frames, "most_images": 200})
    asked = kind("tiny", model, client("http://127.0.0.1:1/v1"), FeatureCache())
    what = aspect_text(pair.aspect, aspect(pair.aspect).dimension)
    orders = ((pair.high, pair.low), (pair.low, pair.high))
    one, other = (asked.make_request(PROMPT, *order, what).model_dump(mode="json") for order in orders)
    assert bare(one) == bare(other)
    # the frames of a choice may all be outside of the degraded clips
    assert pictures(one) != pictures(other) or frames == "clips"
    assert sorted(pictures(one)) == sorted(pictures(other))


def test_the_captioner_is_told_the_same_of_both_videos(pair: Pair, server: Told) -> None:
    answers = suite_answers(video_bench.setup(server))
    model = MODEL.model_copy(update={"frames": "all", "most_images": 200})
    asked = Descriptions(model, client("http://127.0.0.1:1/v1"), answers, FeatureCache())
    what = aspect_text(pair.aspect, aspect(pair.aspect).dimension)
    one, other = (asked.make_request(side, what).model_dump(mode="json") for side in (pair.high, pair.low))
    assert bare(one) == bare(other)
    assert pictures(one) != pictures(other)


@pytest.mark.parametrize("name", ["color_consistency", "aesthetic_quality", "temporal_consistency"])
def test_video_bench_is_told_the_same_of_both_videos(name: str, pair: Pair, server: Told) -> None:
    """By chain of query, by few-shot scoring with the prompt, and in grids."""
    server.say(video_bench.Talk(scores=lambda lights: [3] * len(lights)), video_bench.MODELS)
    scorer = video_bench.suite(server, grid={"fps": 1.0}, fps=1.0).scorer(name)
    asked = []
    for sides in ((pair.high, pair.low), (pair.low, pair.high)):
        if isinstance(scorer, QualityScorer):
            films = [SampledVideo("", side) for side in sides]
            scorer.score_batch(PROMPT, films, VideoGroup((0, 1)))
        else:
            scorer.score(prompt_of(PROMPT), [video_of(sides[0], prompt_of(PROMPT))])
        # what is asked of the texts alone is asked once for both
        asked.append([body for body in seen(server) if pictures(body)])
    differ_by_pictures_alone(*asked)


@pytest.mark.parametrize("name", [*WORDS, "locate"])
def test_locot2v_bench_is_told_the_same_of_both_videos(name: str, pair: Pair, server: Told) -> None:
    server.say(locot2v.Talk(), locot2v.MODELS)
    made = locot2v.suite(server)
    question = {"question": "Is it calm?", "polarity": "positive"}
    details = {"questions": {HERD_NAMES[0]: [question]}, "actions": ["A man waves.", "A man sits."]}
    prompt = SuitePrompt(prompt_id="p", text=PROMPT, details=details)
    asked = []
    for side in (pair.high, pair.low):
        if name == "locate":
            asker = LiveComparer(roles_of(locot2v.setup(server), made.settings))
            event_clips(asker, prompt, SampledVideo("", side), made.settings)
        else:
            made.scorer(name).score(prompt, [video_of(side, prompt)])
        # what is asked of the text alone is asked once for both
        asked.append([body for body in seen(server) if pictures(body)])
    differ_by_pictures_alone(*asked)
