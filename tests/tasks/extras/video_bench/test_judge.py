"""Video-Bench as a judge of pairs: the pair as the batch in both orders, each video with its long prompt."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from slvmeval.testing.evaluators import check_evaluator
from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Failure
from tasks.aspects.registry import aspect_names
from tasks.extras.video_bench.dimensions import BY_NAME, QUALITY
from tasks.extras.video_bench.judge import VideoBenchJudge, aspect_dimensions
from tasks.llm.usage import NotJudged
from tasks.scoring.base import AspectText
from tasks.scoring.instructions import aspect_text
from tasks.scoring.judges.prompt_length import ApproximateTokens
from tasks.scoring.registry import choice_from_text, make_evaluator
from tasks.scoring.request import PairFacts, make_requests
from tests.tasks.extras.video_bench.talking import (
    MODELS,
    USUAL,
    Talk,
    addresses,
    lights,
    only,
    pictures,
    setup,
    step,
    steps,
)
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.told import Told, film, text
from tests.tiny_models.faulty_server import Reply

PROMPT = "A red ball rolls.\nIt comes to rest.\nNight falls."
FIVE = ["describe", "first assistant", "second assistant", "answer", "score"]


def aspect(name: str) -> AspectText:
    return aspect_text(name, name)


def judge(server: Told, **settings: Any) -> VideoBenchJudge:
    return VideoBenchJudge(setup(server), **settings)


def pair() -> tuple[FrameList, FrameList]:
    return film(luma=150), film(luma=30)


class Seeing(Talk):
    """Describes each video by how bright it is, and gives bright ones the greatest score."""

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        name = step(body)
        if name in ("describe", "score"):
            light = max(float(np.asarray(one.convert("L"), np.float64).mean()) for one in pictures(body))
            answer = dict(self.answers[name])
            if name == "describe":
                answer["description"] = f"A ball, as bright as {light:.0f}."
            elif answer["score"] == USUAL["score"]["score"]:
                answer["score"] = 3 if light > 100 else 1
            return Reply(json.dumps(answer))
        return super().__call__(number, body)


@pytest.mark.parametrize("name", sorted(aspect_dimensions()))
def test_how_often_an_aspect_is_asked(server: Told, name: str) -> None:
    facts = PairFacts("p", "s", name, name, "digest", "high", "low", 4.0)
    server.say(Seeing())
    made = judge(server)
    orders: list[str] = [one.order for one in make_requests(made, facts, aspect(name))]
    answer = made.compare(PROMPT, *pair(), aspect(name))
    if BY_NAME[aspect_dimensions()[name]].group == QUALITY:
        expected, asked, calls = ["high_first", "low_first"], ["few-shot"], 1
    else:
        # the order of two videos that are scored apart has no say: the pair counts once
        expected, asked, calls = orders[:1], FIVE * 2, 10
    assert orders == expected
    assert steps(server) == asked
    assert (answer.details["calls"], answer.details["dimension"]) == (calls, aspect_dimensions()[name])


def test_one_dimension_judges_all_aspects_and_says_what_it_claims(server: Told) -> None:
    made = judge(server, dimension="imaging_quality")
    for name in ("technical_quality", "temporal_flow"):
        details = made.compare(PROMPT, *pair(), aspect(name)).details
        assert (details["dimension"], details["claims"]) == ("imaging_quality", ["technical_quality"])
        assert len(details["scores"]) == 2
    assert steps(server) == ["few-shot"]


def test_a_pair_is_the_batch_in_both_orders(server: Told) -> None:
    bright, dark = pair()
    made = judge(server)
    one = made.compare(PROMPT, bright, dark, aspect("technical_quality"))
    other = made.compare(PROMPT, dark, bright, aspect("technical_quality"))
    assert steps(server) == ["few-shot"] * 2
    (first, second) = [lights(seen.body) for seen in server.seen]
    assert first[0] > first[1]
    assert second[0] < second[1]
    assert (one.choice, other.choice) == ("first", "second")
    assert one.details["scores"] == other.details["scores"][::-1]
    assert (one.usage.tokens_in, one.usage.frames, one.details["calls"]) == (100, 10, 1)
    # a model that likes what comes first is seen to
    server.say(Talk(scores=lambda shown: [5, 2]))
    choices = [made.compare(PROMPT, *order, aspect("aesthetics")).choice for order in (pair(), pair()[::-1])]
    assert choices == ["first", "first"]
    server.say(Talk(scores=lambda shown: [4, 4]))
    assert made.compare(PROMPT, *pair(), aspect("dynamics_degree")).choice == "tie"
    # one video on both sides is scored once
    assert made.compare(PROMPT, bright, bright, aspect("color")).choice == "tie"
    assert steps(server)[1:] == FIVE
    assert len(addresses(only(server, "score").body)) == 5
    # the same score of both is a tie
    assert made.compare(PROMPT, bright, dark, aspect("color")).choice == "tie"


@pytest.mark.parametrize(("name", "asked"), [("technical_quality", "few-shot"), ("color", "score")])
def test_a_single_request_shows_one_video_and_scores_it(server: Told, name: str, asked: str) -> None:
    server.say(Seeing(), [MODELS[0]])
    made = judge(server, single_request=True)
    estimates = made.estimate(PROMPT, *pair(), aspect(name))
    answer = made.compare(PROMPT, *pair(), aspect(name))
    assert steps(server) == [asked] * 2
    assert [len(addresses(seen.body)) for seen in server.seen] == [5, 5]
    # each video has its own request, so the order has no say
    assert not made.asks_both_orders(aspect(name))
    assert sum(one.requests for one in estimates) == answer.details["calls"] == 2
    assert (answer.choice, answer.details["scores"][0]) == ("first", 3)
    assert set(answer.details) >= {"first", "second"}


@pytest.mark.parametrize(("name", "sent"), [("aesthetics", True), ("technical_quality", False)])
def test_aesthetics_has_the_prompt_as_far_as_it_fits(server: Told, name: str, sent: bool) -> None:
    prompt = "\n".join(f"Scene {number}: " + "a ball rolls, " * 40 for number in range(200))
    small = {"model": MODELS[0], "context_tokens": 12_000, "answer_tokens": 1000}
    made = judge(server, multimodal=small)
    (expected,) = made.estimate(prompt, *pair(), aspect(name))
    result = made.compare(prompt, *pair(), aspect(name))
    output = text(server.seen[-1].body)
    assert all(f"Scene {number}: " in output for number in (0, 199)) == sent
    assert result.details.get("prompt", {}).get("cut", False) == sent
    assert (expected.tokens_in > 5000) == sent
    assert expected.tokens_in < 11_000


def test_each_video_is_scored_once_for_all_aspects_of_a_dimension(server: Told) -> None:
    mapping = aspect_dimensions()
    assert set(mapping) == set(aspect_names())
    assert set(mapping.values()) <= set(BY_NAME)
    bright, dark = pair()
    server.say(Seeing())
    made = judge(server)
    result = made.compare(PROMPT, bright, dark, aspect("comprehensiveness"))
    turned = made.compare(PROMPT, dark, bright, aspect("temporal_flow"))
    assert steps(server) == FIVE * 2
    assert (result.choice, result.details["scores"], result.details["calls"]) == ("first", [3, 1], 10)
    assert result.details["dimension"] == mapping["comprehensiveness"]
    assert (turned.choice, turned.details["calls"], turned.usage.tokens_in) == ("second", 0, 0)
    assert [len(result.details[which]["conversation"]) for which in ("first", "second")] == [5, 5]
    assert result.usage.tokens_in == 600
    assert sum(one.tokens_in for one in result.usage.others) == 400


def test_a_long_prompt_loses_the_end_of_each_caption(server: Told) -> None:
    captions = [f"Scene {number}: " + "a ball rolls over the meadow, " * 40 for number in range(200)]
    prompt = "\n".join([*captions, "The end."])
    small = {"model": MODELS[0], "context_tokens": 12_000, "answer_tokens": 1000}
    made = judge(server, multimodal=small)
    result = made.compare(prompt, *pair(), aspect("comprehensiveness"))
    output = text(next(seen.body for seen in server.seen if step(seen.body) == "score"))
    frames = [len(addresses(seen.body)) for seen in server.seen if addresses(seen.body)]
    whole = judge(server).compare(prompt[:3000], *pair(), aspect("comprehensiveness"))
    cut = result.details["prompt"]
    assert cut["cut"]
    assert cut["captions"] == 201
    assert cut["captions_cut"] == 200
    assert cut["tokens_read"] <= 5500 < cut["tokens"]
    # every scene is still told, the short one whole
    assert all(f"Scene {number}: " in output for number in range(200))
    assert "The end." in output
    assert frames == [5] * 6
    assert not whole.details["prompt"]["cut"]
    asked = len(server.seen)
    small["context_tokens"] = 2000
    with pytest.raises(NotJudged) as problem:
        judge(server, multimodal=small).compare("a\n" * 9000, *pair(), aspect("comprehensiveness"))
    assert problem.value.failure is Failure.CONTEXT_TOO_LONG
    assert len(server.seen) == asked


@pytest.mark.parametrize(("name", "odd", "paid"), [("color", "score", 1000), ("aesthetics", "few-shot", 100)])
def test_odd_answer_names_dimension_and_video(server: Told, name: str, odd: str, paid: int) -> None:
    server.say(Seeing({odd: {"score": 9}}))
    with pytest.raises(NotJudged) as problem:
        judge(server).compare(PROMPT, *pair(), aspect(name))
    assert problem.value.failure is Failure.NOT_UNDERSTOOD
    assert f"{aspect_dimensions()[name]} of the first video: {odd}" in problem.value.message
    usage = problem.value.usage
    assert usage.tokens_in + sum(other.tokens_in for other in usage.others) == paid
    # quality dimensions show both videos in one conversation, the others one video each
    spoken = {"color": ["first", "second"], "aesthetics": ["first"]}[name]
    assert problem.value.details["dimension"] == aspect_dimensions()[name]
    for which in spoken:
        last = problem.value.details[which]["conversation"][-1]
        assert (last["step"], last["failure"]) == (odd, "not_understood")
        assert json.loads(last["answer"]) == {"score": 9}


def test_a_dry_run_asks_nobody(server: Told) -> None:
    made = judge(server)
    quality = made.estimate(PROMPT, *pair(), aspect("aesthetics"))
    chain = made.estimate(PROMPT, *pair(), aspect("color"))
    assert not server.seen
    assert [one.images for one in quality] == [10]
    assert len(chain) == 10
    # no request for one video stands for the other's
    assert len({one.once for one in chain}) == 10
    # two aspects of one dimension share their requests
    flow = made.estimate(PROMPT, *pair(), aspect("temporal_flow"))
    style = made.estimate(PROMPT, *pair(), aspect("appearance_style"))
    assert [one.once for one in flow] == [one.once for one in style]
    assert all(one.once for one in flow)
    made.compare(PROMPT, *pair(), aspect("color"))
    assert list(made.estimate(PROMPT, *pair(), aspect("color"))) == []


def test_another_mapping_and_another_repeat_are_other_judges(server: Told) -> None:
    usual = judge(server)
    other = judge(server, mapping={"temporal_flow": "temporal_consistency"})
    assert other.asks_both_orders(aspect("temporal_flow"))
    assert not usual.asks_both_orders(aspect("temporal_flow"))
    assert other.settings() != usual.settings()
    again = judge(server, repeat=1)
    assert again.settings() != usual.settings()
    for made in (usual, again):
        made.compare(PROMPT, *pair(), aspect("aesthetics"))
    assert len(server.seen) == 2
    strange = AspectText(name="smell", dimension="smell", description="-")
    with pytest.raises(UserInputError, match="smell"):
        usual.compare(PROMPT, *pair(), strange)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('video-bench?mapping={"color": "colour"}', "no dimension 'colour' for color"),
        ("video-bench?order=drawn", "leave out order"),
        ("video-bench?baselines=true", "only in the suite's tables"),
        ("video-bench?single_request=true&shots=2", "leave out shots"),
        ("video-bench?prompt_share=2", "between 0 and 1"),
        ("video-bench?frame=2", "no setting 'frame'"),
    ],
)
def test_settings_that_do_not_fit(server: Told, words: str, said: str) -> None:
    with pytest.raises(UserInputError, match=said):
        make_evaluator(choice_from_text(words), setup(server))


def test_it_is_an_evaluator_as_authors_are_told(server: Told) -> None:
    check_evaluator(make_evaluator(choice_from_text("video-bench"), setup(server)), frames=24)


def test_rough_tokens_cover_a_text() -> None:
    tokens = ApproximateTokens(10, 4.6)
    for length in (0, 1, 4, 5, 46, 47):
        ends = list(tokens.ends("x" * length))
        assert len(ends) == tokens.count("x" * length)
        assert not ends or ends[-1] == length
        assert ends == sorted(ends)
    assert tokens.count("x" * 46) == 10
