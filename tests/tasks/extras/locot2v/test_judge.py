"""LoCoT2V-Bench as a judge of pairs: our mapping, both videos scored apart, long prompts, a dry run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slvmeval.testing.evaluators import check_evaluator
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgements import Failure
from tasks.aspects.registry import aspect_names
from tasks.extras.locot2v.dimensions import BY_NAME, HERD_NAMES
from tasks.extras.locot2v.judge import Locot2vJudge, aspect_dimensions
from tasks.llm.usage import NotJudged
from tasks.scoring.base import AspectText
from tasks.scoring.instructions import aspect_text
from tasks.scoring.registry import EvaluatorChoice, make_evaluator
from tasks.scoring.suites.pairwise import each_dimension
from tests.tasks.extras.locot2v.talking import MODELS, RISE, ROLES, WAVE, Talk, setup, step, steps
from tests.tasks.scoring.suites.told import Told, film, text

PROMPT = "The sun rises.\nA man waves.\nNight falls."
#: Aspects whose dimension loads no model.
LIGHT = {"aesthetics": "", "technical_quality": "", "background_consistency": ""}


def judge(server: Told, mapping: dict[str, str] | None = None, **more: Any) -> Locot2vJudge:
    settings = {**ROLES, "visual": "cpu-approx", "mapping": {**LIGHT, **(mapping or {})}, **more}
    made = make_evaluator(EvaluatorChoice(use="locot2v-bench", settings=settings), setup(server))
    assert isinstance(made, Locot2vJudge)
    return made


def told(name: str) -> AspectText:
    return aspect_text(name, name)


def test_the_video_with_the_greater_score_of_the_mapped_dimension_is_better(server: Told) -> None:
    # the prompt's events, then those of each description: of the second video one is missing
    events = [{"events": [RISE, WAVE]}, {"events": [RISE, WAVE]}, {"events": [RISE]}]
    described = [{"description": "sun rises man waves"}, {"description": "sun rises"}]
    server.say(Talk(events=events, describe=described))
    made = judge(server)
    full, less = film(8), film(6)
    scores = [made.score(PROMPT, video, told("comprehensiveness")) for video in (full, less)]
    # a missing event counts 0 here
    assert [score.value for score in scores] == [1, 0.5]
    assert [score.details["dimension"] for score in scores] == ["event_alignment"] * 2
    asked = steps(server)
    assert asked == ["events", "describe", "events", "embed", "describe", "events", "embed"]
    # another aspect with the same dimension costs nothing
    again = made.score(PROMPT, full, told("temporal_flow"))
    assert again.value == 1
    assert again.details["calls"] == 0
    assert steps(server) == asked
    assert again.usage.tokens_in == 0


def test_an_aspect_without_a_dimension_is_a_reason(server: Told) -> None:
    mapping = aspect_dimensions()
    assert set(mapping) == set(aspect_names())
    assert set(mapping.values()) <= set(BY_NAME) - set(HERD_NAMES)
    made = judge(server)
    strange = told("aesthetics").model_copy(update={"name": "charm"})
    for aspect in (told("aesthetics"), strange):
        with pytest.raises(NotJudged, match="mapping") as problem:
            made.score(PROMPT, film(), aspect)
        assert problem.value.failure is Failure.NO_ANSWER
    # pixels are scored without a server
    result = made.score(PROMPT, film(8), told("dynamics_degree"))
    assert (result.value, result.details["dimension"]) == (0, "dynamic_degree")
    assert not server.seen


def test_a_failure_names_the_dimension_and_what_was_paid(server: Told) -> None:
    server.say(Talk(describe="no"))
    made = judge(server)
    with pytest.raises(NotJudged, match="overall_alignment: describe") as problem:
        made.score(PROMPT, film(), told("appearance_style"))
    assert problem.value.failure is Failure.NOT_UNDERSTOOD
    assert sum(one.tokens_in for one in problem.value.usage.others) == 100
    assert problem.value.details["dimension"] == "overall_alignment"
    (step,) = problem.value.details["conversation"]
    assert (step["step"], step["answer"], step["failure"]) == ("describe", "no", "not_understood")


def test_a_long_prompt_loses_the_end_of_its_captions(server: Told) -> None:
    prompt = "\n".join(f"Scene {number} " + "with many words " * 40 for number in range(30))
    language = {"model": MODELS[1], "server": "s", "context_tokens": 3000, "answer_tokens": 100}
    made = judge(server, language=language)
    result = made.score(prompt, film(), told("temporal_flow"))
    (first, *_) = (seen.body for seen in server.seen if step(seen.body) == "events")
    assert result.details["prompt"]["cut"]
    assert result.details["prompt"]["tokens_read"] <= 1450
    assert all(f"Scene {number} " in text(first) for number in range(30))
    # so it is for the consistency of events, of the prompt for both, and where they are in each video
    other = Locot2vJudge(made.suite, {"background_consistency": "intra_event_background"}, 0.5)
    output = other.estimate(prompt.replace("many", "more"), film(8), film(6), told("background_consistency"))
    assert [one.model for one in output] == [MODELS[1], MODELS[2], MODELS[1], MODELS[2]]
    assert len({one.once for one in output}) == 3
    assert output[0].tokens_in <= 2900


def test_the_dry_run_counts_both_videos_and_asks_nobody(server: Told) -> None:
    made = judge(server)
    output = made.estimate(PROMPT, film(8), film(6), told("color"))
    assert not server.seen
    # the prompt's events once, and description, events and embeddings of each video
    assert len({one.once for one in output}) == 7
    assert sum(one.images for one in output) == 6
    for video in (film(8), film(6)):
        made.score(PROMPT, video, told("color"))
    assert not made.estimate(PROMPT, film(8), film(6), told("color"))
    assert not made.estimate(PROMPT, film(8), film(6), told("dynamics_degree"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mapping": {"color": "colour"}}, "no dimension 'colour' for color"),
        ({"mapping": {"color": "themes"}}, "cannot stand for color"),
        ({"prompt_share": 1.5}, "between 0 and 1"),
        ({"round": 2}, "did you mean rounds"),
    ],
)
def test_settings_that_do_not_fit_are_reported(server: Told, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserInputError, match=said):
        judge(server, **settings)


def test_it_keeps_the_contract_of_an_evaluator(server: Told) -> None:
    check_evaluator(judge(server, {"aesthetics": "theme_clarity"}), frames=24)


def test_settings_are_in_the_key_and_missing_models_are_reported(server: Told) -> None:
    server.say(Talk(), MODELS[:2])
    made = judge(server)
    usual = json.dumps(made.settings(), sort_keys=True)
    assert json.dumps(judge(server, most_events=5).settings(), sort_keys=True) != usual
    paper = judge(server, matching={"over": "matched"}).settings()
    assert paper["dimensions"]["event_alignment"]["matching"]["over"] == "matched"
    with pytest.raises(PrerequisiteError, match="does not serve"):
        made.check()
    assert made.hardware == "cpu"
    with pytest.raises(PrerequisiteError, match=r"needs aesthetic_quality for aesthetics.*leave such"):
        judge(server, mapping=aspect_dimensions())


def test_one_dimension_scores_all_aspects_and_says_what_it_claims(server: Told) -> None:
    settings = {**ROLES, "visual": "cpu-approx"}
    choice = EvaluatorChoice(use="locot2v-bench", settings={**settings, "dimension": "all"})
    each = each_dimension(choice, setup(server))
    # questions are about one prompt, which a release's pairs do not have
    assert [one.settings["dimension"] for one in each] == [name for name in BY_NAME if name not in HERD_NAMES]
    assert each[4].label == "locot2v-bench.dynamic_degree"
    assert each_dimension(each[0], setup(server)) == [each[0]]
    made = make_evaluator(each[3], setup(server))
    assert isinstance(made, Locot2vJudge)
    assert not made.by_aspect
    score = made.score(PROMPT, film(), told("aesthetics"))
    assert score.details["dimension"] == "event_alignment"
    assert score.details["claims"] == ["temporal_flow", "comprehensiveness", "object_integrity", "color"]
    other = AspectText(name="loudness", dimension="loudness", description="How loud it is.")
    assert score.value == made.score(PROMPT, film(), other).value
    for more, said in (
        ({"dimension": "warping_error", "mapping": {"color": "event_alignment"}}, "give one of the two"),
        ({"dimension": "themes"}, "its questions are about one prompt"),
        ({"dimension": "warping"}, "no dimension 'warping'"),
        ({"dimension": "all"}, "only `evaluate` makes of it"),
    ):
        with pytest.raises(UserInputError, match=said):
            make_evaluator(EvaluatorChoice(use="locot2v-bench", settings={**settings, **more}), setup(server))
