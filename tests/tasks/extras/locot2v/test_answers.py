"""Human action, clarity, questions and events over real HTTP: what is asked and what counts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from storage_schemas.judgements import Failure
from tasks.extras.locot2v.askers import roles_of
from tasks.extras.locot2v.dimensions import CLARITY_NAMES, HERD_NAMES
from tasks.extras.locot2v.events import EventClip, PromptEvent, clips_of, event_clips
from tasks.extras.locot2v.human_action import action_value
from tasks.llm.conversation import LiveAsker
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import ScoredVideo, SuitePrompt
from tasks.scoring.suites.shown_videos import SampledVideo
from tests.tasks.extras.locot2v.talking import (
    LOCATES,
    PROMPT,
    READS,
    RISE,
    SEES,
    Talk,
    images,
    score,
    setup,
    step,
    steps,
    suite,
    value,
)
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.told import Told, failure, film, scored, text
from tests.tiny_models.faulty_server import Reply


def entry(number: Any, present: Any = "yes", smooth: Any = "yes") -> dict[str, Any]:
    return {"number": number, "reason": "-", "present": present, "smooth": smooth}


def test_actions_are_extracted_then_looked_for(server: Told) -> None:
    result = scored(score(server, "human_action"))
    first, second = (seen.body for seen in server.seen)
    assert steps(server) == ["actions", "look"]
    assert (first["model"], second["model"]) == (READS, SEES)
    assert PROMPT.details["base"] in text(first)
    assert not images(first)
    assert "1. A man waves.\n2. A man sits." in text(second)
    assert images(second) == 3
    # the first is there and smooth, the second is there and not
    assert result.value == 0.75
    assert result.details["actions"] == [
        {"action": "A man waves.", "present": "yes", "smooth": "yes"},
        {"action": "A man sits.", "present": "yes", "smooth": "no"},
    ]
    # what an unsmooth action counts is a setting
    assert value(score(server, "human_action", unsmooth_action=0.0)) == 0.5
    seen = [{"present": "yes", "smooth": "no"}, {"present": "no", "smooth": "yes"}]
    assert [action_value(seen, worth) for worth in (0.0, 0.5, 1.0)] == [0, 0.25, 0.5]
    # actions of the prompts file cost nothing
    server.say(Talk(look={"actions": [entry(1, "no", "no")]}))
    prompt = PROMPT.model_copy(update={"details": {"actions": ["Somebody dances."]}})
    assert value(score(server, "human_action", prompt)) == 0
    assert steps(server) == ["look"]
    assert "1. Somebody dances." in text(server.seen[0].body)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([], Failure.NO_ANSWER),
        ("waves", Failure.NOT_UNDERSTOOD),
        (["waves"] * 21, Failure.NOT_UNDERSTOOD),
        ([1], Failure.NOT_UNDERSTOOD),
    ],
)
def test_human_action_without_actions_sends_no_frame(server: Told, actions: Any, expected: Failure) -> None:
    server.say(Talk(actions={"actions": actions}))
    assert failure(score(server, "human_action")).failure is expected
    assert steps(server) == ["actions"]


def scores(*values: Any) -> dict[str, Any]:
    return {name: {"reason": "-", "score": one} for name, one in zip(CLARITY_NAMES, values, strict=True)}


def test_the_number_is_the_mean_of_the_rounds_over_four(server: Told) -> None:
    rounds = [scores(4, 3, 0, 1), scores(4, 2, 0, 1), scores(1, 1, 0, 4)]
    server.say(Talk(clarity=rounds))
    result = [score(server, name) for name in CLARITY_NAMES]
    # one request a round for all four
    assert steps(server) == ["clarity"] * 3
    assert [value(one) for one in result] == [0.75, 0.5, 0, 0.5]
    assert [one.calls for one in result if isinstance(one, ScoredVideo)] == [3, 0, 0, 0]
    assert isinstance(result[0], ScoredVideo)
    assert result[0].details["rounds"] == [4, 4, 1]


def test_each_round_has_a_seed_of_its_own_and_no_round_knows_the_prompt(server: Told) -> None:
    score(server, "theme_clarity")
    own = {"model": "sees", "server": "s", "temperature": 0.2, "extra_body": {"top_k": 5}}
    score(server, "theme_clarity", repeat=1, multimodal=own)
    bodies = [seen.body for seen in server.seen]
    assert {body["temperature"] for body in bodies} == {0.7}
    assert [body.get("top_k") for body in bodies] == [None] * 3 + [5] * 3
    assert [body["seed"] for body in bodies] == [0, 1, 2, 1000, 1001, 1002]
    assert all(PROMPT.details["base"] not in str(body["messages"]) for body in bodies)
    # a server that wants no temperature gets none
    model = {"model": "sees", "server": "s", "temperature": None}
    score(server, "theme_clarity", multimodal=model, round_temperature=None)
    assert len(server.seen) == 9
    assert not any({"temperature", "seed"} & set(seen.body) for seen in server.seen[6:])


def test_more_rounds_later_pay_for_the_new_ones_only(server: Told) -> None:
    rounds = [scores(4, 0, 0, 0)] * 3 + [scores(0, 0, 0, 0)]
    server.say(Talk(clarity=rounds))
    assert value(score(server, "theme_clarity")) == 1
    assert value(score(server, "theme_clarity", rounds=4)) == 0.75
    assert len(server.seen) == 4


@pytest.mark.parametrize(
    "odd",
    [
        "Very clear.",
        scores(5, -1, "4", 2.5),
        scores(None, True, [4], {}),
        {"theme_clarity": 4},
        [],
        Reply('{"theme', finish_reason="length"),
        Reply(""),
        Reply(status=400, body=b'{"error": {"message": "bad image"}}'),
    ],
)
def test_a_failed_round_is_missing_and_never_zero(server: Told, odd: Any) -> None:
    answers = [scores(4, 4, 4, 4), Reply("[]") if odd == [] else odd, scores(2, 2, 2, 2)]
    server.say(Talk(clarity=answers))
    result = scored(score(server, "logical_structure"))
    assert result.value == 0.75
    assert result.details["rounds"] == [4, None, 2]
    assert len(result.details["failed"]) == 1
    assert result.usage.tokens_in >= 200


def test_one_dimension_outside_the_scale_harms_no_other(server: Told) -> None:
    server.say(Talk(clarity=scores(9, 4, 4, 4)))
    assert failure(score(server, "theme_clarity")).failure is Failure.NOT_UNDERSTOOD
    assert value(score(server, "logical_structure")) == 1
    assert len(server.seen) == 3
    # without any round there is no score
    server.say(Talk(clarity="no"))
    result = failure(score(server, "theme_clarity", repeat=1))
    assert result.failure is Failure.NOT_UNDERSTOOD
    assert "round 3" in result.message
    assert sum(one.tokens_in for one in result.usage.others) == 300


def test_a_server_that_goes_away_costs_no_round(server: Told) -> None:
    away = [scores(4, 4, 4, 4), Reply(status=503)]
    server.say(Talk(clarity=away))
    result = failure(score(server, "theme_clarity"))
    assert result.failure is Failure.SERVER_DOWN
    server.say(Talk())
    # the first round is kept, the other two are asked now
    assert value(score(server, "theme_clarity")) == pytest.approx((4 + 3 + 3) / 12)
    assert len(server.seen) == 2


def asked(*polarities: str, of: str = "themes") -> SuitePrompt:
    questions = [
        {"question": f"Is it number {number}?", "polarity": one} for number, one in enumerate(polarities)
    ]
    return SuitePrompt(prompt_id="p", text="A secret prompt.", details={"questions": {of: questions}})


def answers(*words: Any) -> dict[str, Any]:
    return {"answers": [{"number": n, "reason": "-", "answer": word} for n, word in enumerate(words, 1)]}


@pytest.mark.parametrize(
    ("polarities", "said", "expected"),
    [
        (("positive", "negative"), ("yes", "no"), 1.0),
        (("positive", "negative"), ("no", "yes"), 0.0),
        (("positive", "positive", "negative"), ("yes", "unclear", "yes"), 0.5),
        (("negative", "negative", "negative"), ("no", "unclear", "unclear"), 1.0),
        # nothing decided is missing
        (("positive", "negative"), ("unclear", "unclear"), None),
    ],
)
def test_the_share_of_good_answers_leaves_unclear_ones_out(
    server: Told, polarities: tuple[str, ...], said: tuple[str, ...], expected: float | None
) -> None:
    server.say(Talk(questions=answers(*said)))
    found = score(server, "themes", asked(*polarities))
    if expected is None:
        assert failure(found).failure is Failure.NO_ANSWER
        assert "2 questions" in failure(found).message
        return
    result = scored(found)
    assert result.value == expected
    assert result.details["unclear"] == said.count("unclear")
    assert [one["answer"] for one in result.details["questions"]] == list(said)


def test_the_model_knows_neither_the_prompt_nor_what_is_good(server: Told) -> None:
    prompt = asked(*["positive"] * 4, "negative")
    assert value(score(server, "themes", prompt, questions_at_once=2)) == 0.8
    # requests of the setting's size, each of which counts from 1
    assert steps(server) == ["questions"] * 3
    assert "1. Is it number 0?\n2. Is it number 1?" in text(server.seen[0].body)
    assert "1. Is it number 4?" in text(server.seen[2].body)
    for seen in server.seen:
        assert images(seen.body) == 3
        assert not re.search("secret|positive", str(seen.body["messages"]))


@pytest.mark.parametrize("name", HERD_NAMES)
def test_each_attribute_asks_its_own_questions(server: Told, name: str) -> None:
    assert value(score(server, name, asked("positive", of=name))) == 1
    other = next(one for one in HERD_NAMES if one != name)
    assert failure(score(server, other, asked("positive", of=name))).failure is Failure.NO_ANSWER
    assert len(server.seen) == 1


#: Of a step: the dimension, the prompt, the requests up to that step, and answers that fit.
STEPS: dict[str, tuple[str, SuitePrompt, list[str], dict[str, Any]]] = {
    "look for actions": ("human_action", PROMPT, ["actions", "look"], {"actions": [entry(1), entry(2)]}),
    "questions": ("themes", asked("positive", "negative"), ["questions"], answers("yes", "no")),
    "events of the prompt": ("event_alignment", PROMPT, ["events"], {"events": [RISE]}),
}
ODD: list[tuple[str, Any]] = [
    ("look for actions", "Both are there."),
    ("look for actions", {"actions": [entry(1)]}),
    ("look for actions", {"actions": [entry(1), entry(2), entry(3)]}),
    ("look for actions", {"actions": [entry(1), entry(1)]}),
    ("look for actions", {"actions": [entry(1), entry("2")]}),
    ("look for actions", {"actions": [entry(1), entry(True)]}),
    ("look for actions", {"actions": [entry(1), entry(2, "perhaps")]}),
    ("look for actions", {"actions": [entry(1), entry(2, "yes", True)]}),
    ("look for actions", {"actions": [entry(1), "yes"]}),
    ("look for actions", '["yes", "yes"]'),
    ("questions", answers("yes")),
    ("questions", answers("yes", "no", "no")),
    ("questions", answers("yes", "maybe")),
    ("questions", answers("yes", None)),
    ("questions", "yes, no"),
    ("events of the prompt", "Sun and man."),
    ("events of the prompt", {"events": "sun"}),
    ("events of the prompt", {"events": [["sun"]]}),
    ("events of the prompt", {"events": [{**RISE, "event": ""}]}),
    ("events of the prompt", {"events": [{**RISE, "camera": 3}]}),
    ("events of the prompt", {"events": [RISE] * 41}),
]


@pytest.mark.parametrize(("name", "odd"), ODD)
def test_odd_answers_are_a_reason_and_only_that_step_is_asked_again(
    server: Told, name: str, odd: Any
) -> None:
    dimension, prompt, until, fitting = STEPS[name]
    server.say(Talk(**{until[-1]: [odd, fitting]}))
    result = failure(score(server, dimension, prompt))
    assert result.failure is Failure.NOT_UNDERSTOOD
    assert result.message.startswith(name)
    # what was paid for it is known
    assert sum(one.tokens_in for one in result.usage.others) == 100 * len(until)
    assert result.calls == len(until)
    assert steps(server) == until
    assert value(score(server, dimension, prompt)) == 1
    assert steps(server)[len(until)] == until[-1]


QUESTION = {"question": "Is it?", "polarity": "positive"}


def themes(questions: Any) -> dict[str, Any]:
    return {"questions": {"themes": questions}}


@pytest.mark.parametrize(
    ("name", "details", "expected", "said"),
    [
        ("themes", {"questions": "Is it?"}, Failure.NO_ANSWER, "themes"),
        ("themes", themes("Is it?"), Failure.NOT_UNDERSTOOD, "themes"),
        ("themes", themes(["Is it?"]), Failure.NOT_UNDERSTOOD, "themes"),
        ("themes", themes([{"question": "Is it?"}]), Failure.NOT_UNDERSTOOD, "themes"),
        ("themes", themes([{**QUESTION, "polarity": "maybe"}]), Failure.NOT_UNDERSTOOD, "themes"),
        ("themes", themes([{**QUESTION, "question": " "}]), Failure.NOT_UNDERSTOOD, "themes"),
        ("themes", themes([]), Failure.NO_ANSWER, "themes"),
        ("themes", {"questions": {}}, Failure.NO_ANSWER, "themes"),
        ("event_alignment", {"events": "sun"}, Failure.NOT_UNDERSTOOD, "prompt's events"),
        ("event_alignment", {"events": [RISE, "sun"]}, Failure.NOT_UNDERSTOOD, "prompt's events"),
        ("event_alignment", {"events": [{"subject": "sun"}]}, Failure.NOT_UNDERSTOOD, "prompt's events"),
        ("human_action", {"actions": []}, Failure.NO_ANSWER, "no action"),
        ("human_action", {"actions": "waves"}, Failure.NOT_UNDERSTOOD, "fix `details`"),
        ("human_action", {"actions": [1]}, Failure.NOT_UNDERSTOOD, "fix `details`"),
    ],
)  # fmt: skip
def test_odd_details_of_a_prompts_file_are_a_reason(
    server: Told, name: str, details: dict[str, Any], expected: Failure, said: str
) -> None:
    result = failure(score(server, name, SuitePrompt(prompt_id="p", text="-", details=details)))
    assert result.failure is expected
    assert said in result.message
    assert not server.seen


def clips(server: Told, of: FrameList | None = None, **more: Any) -> list[EventClip]:
    settings = suite(server, **more).settings
    asking = LiveAsker(roles_of(setup(server), settings))
    return event_clips(asking, PROMPT, SampledVideo("digest", film() if of is None else of), settings)


def located(*intervals: Any) -> dict[str, Any]:
    entries = []
    for number, one in enumerate(intervals, 1):
        start, end = one or (0, 0)
        entries.append({"number": number, "seen": one is not None, "start": start, "end": end})
    return {"events": entries}


def test_the_model_sees_times_and_events_and_gives_intervals(server: Told) -> None:
    (result,) = clips(server)
    assert steps(server) == ["events", "locate"]
    assert clips(server) == [result]
    assert len(server.seen) == 2
    (body,) = [seen.body for seen in server.seen if step(seen.body) == "locate"]
    # 8 frames at 4 a second: the first four are on the screen until second 1
    assert (result.number, result.event.subject, result.first, result.end) == (0, "sun", 0, 4)
    assert body["model"] == LOCATES
    assert images(body) == 3
    output = text(body)
    assert "1. sun rises\n2. man waves" in output
    assert [line for line in output.splitlines() if line.endswith(" s:")] == ["0.0 s:", "1.0 s:", "1.8 s:"]
    # its length would tell which video of a pair was cut
    assert "lasts" not in body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("interval", "frames"),
    [((0.0, 2.0), (0, 8)), ((0.3, 0.6), (1, 3)), ((1.9, 2.4), (7, 8)), ((0.5, 0.501), (2, 3))],
)
def test_intervals_become_frames(interval: tuple[float, float], frames: tuple[int, int]) -> None:
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
def test_intervals_that_do_not_fit_are_a_reason_and_asked_again(server: Told, odd: Any) -> None:
    server.say(Talk(locate=[odd, located((0, 1), (1, 2.3))]))
    with pytest.raises(NotJudged) as problem:
        clips(server)
    assert problem.value.failure is Failure.NOT_UNDERSTOOD
    assert "locate events" in problem.value.message
    # a little past the end is cut there
    assert [(one.start_s, one.end_s) for one in clips(server)] == [(0, 1), (1, 2)]


def test_a_video_of_one_frame_is_not_said_to_last_no_time(server: Told) -> None:
    server.say(Talk(locate=located((0, 0.04), None)))
    place = server.folder / "mine" / "locot2v-bench" / "locate.txt"
    place.parent.mkdir(parents=True)
    place.write_text("The video lasts {length} seconds.", encoding="utf-8")
    (result,) = clips(server, of=film(1, fps=24.0), prompts=str(server.folder / "mine"))
    (body,) = [seen.body for seen in server.seen if step(seen.body) == "locate"]
    assert body["messages"][0]["content"] == "The video lasts 0.04 seconds."
    assert (result.first, result.end) == (0, 1)
    with pytest.raises(NotJudged) as problem:
        clips(server, FrameList([]))
    assert problem.value.failure is Failure.VIDEO_UNREADABLE
    # room for times is left for the frames that can be shown and no more
    server.say(Talk())
    (result,) = clips(server, most_frames=100_000)
    assert images(server.seen[-1].body) == 3
    assert result.number == 0
