"""Whole requests on a pair of each aspect: the two videos differ in their pictures, and in nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slvmeval.testing import FULL_ANALYSIS
from storage_schemas.frames import Planes
from tasks.aspects.registry import BUILT_IN, aspect
from tasks.extras.locot2v.askers import LiveComparer, roles_of
from tasks.extras.locot2v.dimensions import HERD_NAMES
from tasks.extras.locot2v.events import event_clips
from tasks.extras.video_bench.few_shot import VideoGroup
from tasks.extras.video_bench.scorers import QualityScorer
from tasks.llm.providers.batches import open_batches
from tasks.llm.servers import ChatServer
from tasks.models.backgrounds import DrawnLandscapes
from tasks.models.video_score import FRAME_MARK
from tasks.pairs.degrade import degrade_source, read_pair
from tasks.pairs.draw import source_jobs
from tasks.pairs.view import Pair, open_record
from tasks.recipe import AspectRecipe
from tasks.scoring.base import AspectText
from tasks.scoring.features import FeatureCache
from tasks.scoring.instructions import aspect_text
from tasks.scoring.judges.vlm import IntervalJudge, VideoJudge
from tasks.scoring.judges.vlm_text import Descriptions
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.conversation_scorer import suite_answers
from tasks.scoring.suites.pairwise import prompt_of, video_of
from tasks.scoring.suites.shown_videos import SampledVideo
from tests.tasks.aspects.conftest import SMALL_NETWORK, Disc
from tests.tasks.aspects.planted import PlantedModels
from tests.tasks.extras.locot2v import talking as locot2v
from tests.tasks.extras.video_bench import talking as video_bench
from tests.tasks.pairs.synthetic import ASPECTS as WITHOUT_MODELS
from tests.tasks.pairs.synthetic import CLIPS, HEIGHT, RECIPE, make_source, picture
from tests.tasks.scoring.judges import test_video_score as video_score
from tests.tasks.scoring.judges.asked import FIRST, MODEL, client
from tests.tasks.scoring.one_source import OneSource, judged, units_of
from tests.tasks.scoring.suites.told import Told
from tests.tiny_models.faulty_server import Reply

PROMPT = "A man waves.\nThe sun rises."
#: Dimensions of LoCoT2V-Bench that ask models, but for the rest of the questions.
WORDS = ("overall_alignment", "event_alignment", "human_action", "theme_clarity", HERD_NAMES[0])


#: Every aspect, by operations whose models can be planted; the videos are 32 px wide.
MORE = {
    "technical_quality": AspectRecipe(operation="lanczos-down-up", parameters={"long_side": 16}),
    "appearance_style": AspectRecipe(operation="opencv-style"),
    "background_consistency": AspectRecipe(operation="rembg-u2net", parameters=SMALL_NETWORK),
    "object_integrity": AspectRecipe(operation="saliency-telea-inpainting"),
    "color": AspectRecipe(operation="named-colour-hue-shift"),
}
ASPECTS = {**WITHOUT_MODELS, **MORE}


def red(number: int) -> Planes:
    """A red frame with dark and light places, each number another one."""
    planes = picture(number)
    # in I420 the two planes of colour follow, the second is that of red
    planes[HEIGHT : HEIGHT * 5 // 4], planes[HEIGHT * 5 // 4 :] = 100, 220
    return planes


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """A pair of each aspect, of one source."""
    assert ASPECTS.keys() == set(BUILT_IN)
    recipe = RECIPE.model_copy(update={"aspects": ASPECTS})
    analyses = (FULL_ANALYSIS,) * len(CLIPS)
    made = make_source(tmp_path_factory.mktemp("whole") / "store", red, analyses, recipe)
    models = PlantedModels(u2netp=Disc(), **{"backgrounds:procedural": DrawnLandscapes()})
    jobs, reasons = source_jobs(made.facts, recipe, models, tuple(ASPECTS))
    assert not reasons
    assert not degrade_source(made.store, made.facts, jobs, models).set_aside
    records = [read_pair(made.store, job.pair_id) for job in jobs]
    return {record.aspect: open_record(made.store, record, PROMPT) for record in records}


#: One whose sides have the same length, and one whose have not.
DIFFERENT = ("aesthetics", "comprehensiveness")


OTHERS = [aspect for aspect in ASPECTS if aspect not in DIFFERENT]


@pytest.fixture(params=[*DIFFERENT, *(pytest.param(one, marks=pytest.mark.slow) for one in OTHERS)])
def pair(request: pytest.FixtureRequest, pairs: dict[str, Pair]) -> Pair:
    """Return a pair of each aspect: all but two are slow tests."""
    pair = pairs[request.param]
    assert (len(pair.low) < len(pair.high)) == (request.param == "comprehensiveness")
    return pair


@pytest.fixture
def server(listening: Told, tmp_path: Path) -> Told:
    listening.folder = tmp_path
    return listening


def bare(body: Any) -> Any:
    """Return a request of any provider without its pictures and the times of its frames."""
    if isinstance(body, Mapping):
        return {key: bare(value) for key, value in body.items()}
    if not isinstance(body, (list, tuple)):
        return body
    return [bare(one) for one in body if not (_is_picture(one) or _is_time(one))]


def pictures(body: Any) -> list[str]:
    """Return the pictures and videos of a request."""
    if _is_picture(body):
        return [json.dumps(body)]
    parts = body.values() if isinstance(body, Mapping) else body if isinstance(body, (list, tuple)) else ()
    return [one for part in parts for one in pictures(part)]


def _is_picture(part: Any) -> bool:
    return isinstance(part, Mapping) and bool({"image_url", "video_url", "source", "inlineData"} & set(part))


def _is_time(part: Any) -> bool:
    return isinstance(part, Mapping) and re.fullmatch(r"[\d.]+ s:", str(part.get("text"))) is not None


def seen(server: Told) -> list[dict[str, Any]]:
    """Return the requests since the last call, sorted: what is asked at once may arrive in any order."""
    bodies = [one.body for one in server.seen if "messages" in one.body]
    server.seen = []
    return sorted(bodies, key=lambda body: json.dumps(bare(body)))


def differ_by_pictures_alone(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    assert one
    assert [bare(body) for body in one] == [bare(body) for body in other]
    assert [pictures(body) for body in one] != [pictures(body) for body in other]


@pytest.mark.parametrize(
    "how", [{}, {"frames": "scenes"}, {"frames_as": "video"}, {"layout": "aspect-last"}], ids=str
)
@pytest.mark.parametrize("kind", [VideoJudge, IntervalJudge])
def test_judge_is_told_the_same_in_orders(kind: type[VideoJudge], how: dict[str, str], pair: Pair) -> None:
    model = MODEL.model_copy(update={"frames": "all", "most_images": 200, **how})
    asked = kind("tiny", model, client("http://127.0.0.1:1/v1"), FeatureCache())
    what = aspect_text(pair.aspect, aspect(pair.aspect).dimension)
    orders = ((pair.high, pair.low), (pair.low, pair.high))
    one, other = (asked.make_request(PROMPT, *order, what).model_dump(mode="json") for order in orders)
    assert bare(one) == bare(other)
    # the frames of a choice may all be outside of the degraded clips
    assert pictures(one) != pictures(other) or model.frames == "scenes"
    assert sorted(pictures(one)) == sorted(pictures(other))
    assert (len(pictures(one)) == 2) == (model.frames_as == "video")


class OnePair(OneSource):
    """A pair as an evaluation has it."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(aspects=(pair.aspect,))
        object.__setattr__(self, "pair", pair)

    def open(self, pair_id: str) -> Pair:
        return self.pair

    def text(self, name: str, dimension: str, prompts: str) -> AspectText:
        return aspect_text(name, aspect(name).dimension, prompts)


@pytest.mark.parametrize("kind", ["video", "text"])
def test_request_is_equal_in_orders_repeats_and_batches(kind: str, pair: Pair, server: Told) -> None:
    """Descriptions are the server's words: where these are equal, nothing is left."""
    described = Reply(json.dumps({"description": "A man."}))
    server.say(lambda _, body: Reply(FIRST) if "better" in json.dumps(body) else described, ["tiny"])
    judge = f"vlm-{kind}?vlm=mine&model=tiny&server=s&frames=all&context_tokens=200000"
    rows, judging = judged(server.folder / "store", server.url, judge, OnePair(pair), repeats=2)
    assert {(row.order, row.repeat, row.choice) for row in rows} == {
        (order, repeat, "first") for order in ("high_first", "low_first") for repeat in (0, 1)
    }
    bodies = [body for body in seen(server) if "better" in json.dumps(body)]
    assert len(bodies) == 4
    assert all(bare(body) == bare(bodies[0]) for body in bodies)
    assert len({json.dumps(pictures(body)) for body in bodies}) == (2 if kind == "video" else 1)
    requests = [judging.make_request(unit) for unit in units_of(judging, OnePair(pair), repeats=2)]
    for name in ("openai", "anthropic", "google"):
        at = ChatServer(name="s", url="https://x.org", provider=name, model="tiny", key_variable="THE_KEY")
        lines = [json.loads(open_batches(at).line("id", request)) for request in requests]
        assert len(lines) == 4
        assert all(bare(line) == bare(lines[0]) for line in lines)
        assert len({json.dumps(pictures(line)) for line in lines}) == (2 if kind == "video" else 1)
        if name == "openai":
            assert bare(lines[0]["body"]) == bare(bodies[0])


def test_videoscore_is_told_the_same_of_both_videos(pair: Pair) -> None:
    scorer, model = video_score.planted()
    what = aspect_text(pair.aspect, aspect(pair.aspect).dimension)
    for side in (pair.high, pair.low):
        scorer.score(PROMPT, side, what)
    # what is shown has as many marks as frames
    told = [re.sub(rf"({re.escape(FRAME_MARK)} ?)+", "", text) for _, text in model.asked]
    assert len(set(told)) == 1
    assert PROMPT in told[0]


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
