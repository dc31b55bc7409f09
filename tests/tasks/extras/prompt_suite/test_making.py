"""From videos to prompts over real HTTP: each step, odd answers, a person between, nothing paid for twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storage_schemas.errors import PrerequisiteError, StoreError, UserInputError
from tasks.extras.locot2v.dimensions import HERD_NAMES
from tasks.extras.locot2v.herd import questions_of
from tasks.extras.locot2v.suite import Locot2vBench
from tasks.extras.prompt_suite.complexity import words_in
from tasks.extras.prompt_suite.drafts import Drafting
from tasks.extras.prompt_suite.prompt_completion import finished_prompt
from tasks.extras.prompt_suite.requests import Attempts
from tasks.extras.prompt_suite.settings import PromptSuiteSettings
from tasks.extras.prompt_suite.videos import SourceVideo
from tasks.llm.conversation import DryRunAsker
from tasks.scoring.setup import Setup
from tasks.scoring.suites.prompts import load_prompts
from tasks.scoring.suites.shown_videos import SampledVideo
from tests.tasks.extras.prompt_suite.author import (
    CALLS_TO_DRAFT,
    CALLS_TO_END,
    FIRST,
    SECOND,
    Writing,
    images,
    questions,
    user_text,
    wanted,
)
from tests.tiny_models.faulty_server import Reply

ALL = CALLS_TO_DRAFT + CALLS_TO_END


def test_from_a_video_to_a_prompt_that_the_suite_reads(writing: Writing, video: SourceVideo) -> None:
    expected = writing.maker().estimate([video])
    assert (expected.videos, expected.calls, writing.server.seen) == (1, ALL, []), "a dry run asks nobody"
    first = writing.make(video, False)
    assert (first.state, first.calls, first.prompt) == ("waiting", CALLS_TO_DRAFT, None)
    project = writing.maker().project
    (draft,) = project.drafts()
    assert [one.text for one in draft.versions] == [FIRST, SECOND]
    assert draft.versions[0].faults == ("The ball does not lie still, it rolls.",)
    assert project.prompts_path.read_text() == ""
    corrected = SECOND.replace("blue", "green")
    project.review(draft.prompt_id, draft.digest, "accepted", corrected, "Anna")
    second = writing.make(video, False)
    assert (second.state, second.calls) == ("ready", CALLS_TO_END)
    third = writing.make(video, False)
    assert (third.state, third.calls, third.tokens_in, third.prompt) == ("ready", 0, 0, second.prompt)
    assert len(writing.server.seen) == ALL
    assert writing.maker().estimate([video]).calls == 0
    (prompt,) = load_prompts(
        project.prompts_path, Locot2vBench(Setup(store_path=str(writing.folder)))
    ).by_id.values()
    assert (prompt.prompt_id, prompt.theme, prompt.details["base"]) == ("food-one-cake", "food", corrected)
    assert prompt.text == f"{corrected}\n\n" + " ".join(f"It has {name}." for name in HERD_NAMES)
    assert [one["action"] for one in prompt.details["events"]] == ["rolls", "stops"]
    assert prompt.details["complexity"] == {"semantic": 7.0, "structural": 6.5, "control": 4.0}
    for name in HERD_NAMES:
        assert [one.polarity for one in questions_of(prompt, name)] == ["positive", "negative"] * 3
    output = json.loads((project.folder / "conversations" / "food-one-cake.json").read_text())
    steps = [one["step"] for one in output["conversation"]]
    assert steps[:5] == ["describe", "criticise, round 1", "rewrite, round 1", "events", "actions"]
    assert len(steps) == ALL
    assert all(one["kept"] for one in output["conversation"])
    # who sees frames; and what checks the polarity is not told the earlier answers
    seeing = {step for step, body in writing.author.bodies if images(body)}
    assert seeing == {"describe", "criticise", "rewrite", "assessments"}
    told = [user_text(body) for step, body in writing.author.bodies if step == "polarity"]
    assert len(told) == len(HERD_NAMES)
    assert all("good_answer" not in text and "Is thing 0 right?" in text for text in told)


def test_drafts_have_whole_characters_and_end_without_faults(writing: Writing, video: SourceVideo) -> None:
    half = {"description": "A ball \ud83d rolls over grass and stops there."}
    writing.author.odd = lambda step, text, count: {"describe": half, "criticise": {"faults": []}}.get(step)
    made = writing.make(video, rounds=5)
    assert (made.state, made.calls) == ("ready", 2 + CALLS_TO_END), made.message
    (version,) = writing.maker().project.drafts()[0].versions
    output = (writing.folder / "prompts" / "conversations" / "food-one-cake.json").read_text()
    assert made.prompt is not None
    assert all("ball \ufffd rolls" in text for text in (version.text, made.prompt.text, output))


def test_changed_draft_waits_again_and_may_be_left_out(writing: Writing, video: SourceVideo) -> None:
    one = writing.maker()
    writing.make(video, False)
    (draft,) = one.project.drafts()
    one.project.review(draft.prompt_id, draft.digest, "accepted", SECOND)
    assert writing.make(video, False, rounds=0).state == "waiting"
    with pytest.raises(UserInputError, match="its draft has changed"):
        one.project.review(draft.prompt_id, draft.digest, "accepted", SECOND)
    (draft,) = one.project.drafts()
    one.project.review(draft.prompt_id, draft.digest, "left_out", "")
    made = writing.make(video, rounds=0)
    assert (made.state, made.calls) == ("left_out", 0)


def test_a_model_is_told_what_did_not_fit_and_then_does_better(writing: Writing, video: SourceVideo) -> None:
    #: How often a step was asked when it answers so.
    odd: dict[tuple[str, int], tuple[Any, str]] = {
        ("describe", 1): ({"description": "A ball."}, "2 words instead of 8 to 30"),
        ("describe", 2): (["A ball."], "no text 'description'"),
        ("events", 1): ({"events": []}, "no event"),
        ("assessments", 1): ({"themes": "Something."}, "no text 'emotional_response'"),
        ("questions", 1): ({"questions": questions(5)}, "5 questions instead of 6"),
        ("questions", 2): ({"questions": questions(3) * 2}, "occurs twice"),
        ("questions", 4): (
            {"questions": [{"question": " ", "good_answer": "yes"}] * 6},
            "no text 'question'",
        ),
        ("questions", 5): ({"questions": [{"question": "Is it?", "good_answer": "maybe"}] * 6}, "maybe"),
        ("polarity", 1): ({"questions": [{"number": 1, "reason": "", "good_answer": "yes"}]}, "for 6 asked"),
        ("complexity", 1): ({"semantic": {"reason": "", "score": 11}}, "outside the scale"),
        ("complexity", 2): ({"semantic": {"reason": "", "score": True}}, "no number"),
    }
    writing.author.odd = lambda step, text, count: odd.get((step, count), (None, ""))[0]
    made = writing.make(video)
    assert (made.state, made.calls) == ("ready", ALL + len(odd)), made.message
    for (step, count), (_, why) in odd.items():
        told = [user_text(body) for asked, body in writing.author.bodies if asked == step][count]
        assert "An earlier answer cannot be used" in told, (step, count)
        assert why in told
    # answers that did not fit are kept too: who resumes pays for nothing
    again = writing.make(video)
    assert (again.state, again.calls) == ("ready", 0)


def test_a_model_that_never_fits_is_a_row_with_the_reason(writing: Writing, video: SourceVideo) -> None:
    writing.author.odd = lambda step, text, count: (
        {"questions": questions(7)} if step == "questions" else None
    )
    made = writing.make(video, tries=2)
    assert (made.state, made.failure, made.prompt) == ("failed", "not_understood", None)
    assert made.message == "questions on emotional_response: the answer has 7 questions instead of 6"
    assert writing.maker().estimate([video]).calls <= ALL, "a dry run is possible all the same"
    asked = len(writing.server.seen)
    writing.make(video, tries=2)
    assert len(writing.server.seen) == asked
    writing.author.odd = None
    assert writing.make(video, again=1).state == "ready"


def test_questions_with_two_good_answers_are_replaced(writing: Writing, video: SourceVideo) -> None:
    def odd(step: str, text: str, count: int) -> Any:
        if step == "questions" and count == 1:
            # said to be good with yes; who checks says no
            return {"questions": [{"question": "Is it wrong?", "good_answer": "yes"}, *questions(5)]}
        if step == "questions" and "Is it wrong?" in text:
            return {"questions": questions(wanted(text), "matter")}
        return None

    writing.author.odd = odd
    made = writing.make(video)
    assert (made.state, made.calls) == ("ready", ALL + 2)
    assert made.prompt is not None
    result = [one.question for one in questions_of(made.prompt, HERD_NAMES[0])]
    assert result == [*(one["question"] for one in questions(5)), "Is matter 0 right?"]


def test_no_agreement_at_all_is_reported(writing: Writing, video: SourceVideo) -> None:
    def odd(step: str, text: str, count: int) -> Any:
        wrong = [f"Is {count} {at} wrong?" for at in range(wanted(text) if step == "questions" else 0)]
        return {"questions": [{"question": one, "good_answer": "yes"} for one in wrong]} if wrong else None

    writing.author.odd = odd
    made = writing.make(video, tries=2)
    assert made.failure == "not_understood"
    assert "after 2 attempts, two requests agree on the good answer of 0 questions" in made.message


def test_a_server_that_goes_away_harms_nothing(writing: Writing, video: SourceVideo) -> None:
    writing.author.odd = lambda step, text, count: Reply(status=503) if step == "events" else None
    made = writing.make(video)
    assert (made.state, made.failure) == ("failed", "server_down")
    writing.author.odd = None
    assert writing.make(video).calls == CALLS_TO_END


def test_a_whole_prompt_has_as_many_words_as_the_papers(writing: Writing, video: SourceVideo) -> None:
    """In answers as long as they are wanted: the paper's prompts mostly have 200 to 300 words."""
    fields = PromptSuiteSettings.model_fields
    one = writing.maker(**{name: fields[name].default for name in ("least_words", "most_words")})
    attempts = Attempts(DryRunAsker(one.roles), one.settings)
    film = SampledVideo(video.digest, one.videos.open(video.path))
    base = Drafting(one.settings).versions(attempts, film)[-1].text
    assert 200 <= words_in(finished_prompt(attempts, "p1", "", base, film).text) <= 300


def test_unusable_material_is_reported_before_payment(writing: Writing, video: SourceVideo) -> None:
    one = writing.maker()
    one.project.folder.write_text("a file")
    with pytest.raises(UserInputError, match="prompts cannot be written"):
        one.run([video])
    one.project.folder.unlink()
    one.project.folder.mkdir()
    (one.project.folder / "reviews.jsonl").write_text("garbage\n")
    with pytest.raises(StoreError, match="line 1, is not a valid review"):
        one.run([video])
    lacking = writing.maker(language={"model": "tiny", "server": "nowhere"})
    with pytest.raises(PrerequisiteError, match="nowhere"):
        lacking.run([video])
    assert not writing.server.seen
