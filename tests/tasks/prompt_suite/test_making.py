"""From videos to prompts over real HTTP: each step, odd answers, a person between, nothing paid for twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import PrerequisiteError, StoreError, UserInputError
from tasks.llm.conversation import DryRunAsker
from tasks.prompt_suite.complexity import words_in
from tasks.prompt_suite.drafts import Drafting
from tasks.prompt_suite.maker import Made, Maker
from tasks.prompt_suite.prompt_completion import finished_prompt
from tasks.prompt_suite.requests import Attempts
from tasks.prompt_suite.settings import PromptSuiteSettings
from tasks.prompt_suite.videos import SourceVideo, load_videos
from tasks.scoring.setup import Setup
from tasks.scoring.suites.locot2v.dimensions import HERD_NAMES
from tasks.scoring.suites.locot2v.herd import questions_of
from tasks.scoring.suites.locot2v.suite import Locot2vBench
from tasks.scoring.suites.prompts import load_prompts
from tasks.scoring.suites.shown_videos import SampledVideo
from tests.tasks.prompt_suite.author import (
    CALLS_TO_DRAFT,
    CALLS_TO_END,
    FIRST,
    SECOND,
    Author,
    images,
    maker,
    questions,
    user_text,
    wanted,
)
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer, Reply


@pytest.fixture(scope="module")
def films(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    short_film(ffmpeg, folder / "food" / "one cake.mp4", 2.0)
    return folder


@pytest.fixture
def video(films: Path) -> SourceVideo:
    (result,) = load_videos(films).videos
    return result


def make(one: Maker, video: SourceVideo) -> Made:
    (made,) = one.run([video])
    return made


def test_from_a_video_to_a_prompt_that_the_suite_reads(tmp_path: Path, video: SourceVideo) -> None:
    author = Author()
    with FaultyServer(author) as server:
        first = make(maker(tmp_path, server), video)
        assert (first.state, first.calls, first.prompt) == ("waiting", CALLS_TO_DRAFT, None)
        project = maker(tmp_path, server).project
        (draft,) = project.drafts()
        assert [one.text for one in draft.versions] == [FIRST, SECOND]
        assert draft.versions[0].faults == ("The ball does not lie still, it rolls.",)
        assert project.prompts_path.read_text() == ""
        mended = SECOND.replace("blue", "green")
        project.review(draft.prompt_id, draft.digest, "accepted", mended, "Anna")
        second = make(maker(tmp_path, server), video)
        assert (second.state, second.calls) == ("ready", CALLS_TO_END)
        third = make(maker(tmp_path, server), video)
        assert (third.state, third.calls, third.tokens_in, third.prompt) == ("ready", 0, 0, second.prompt)
        assert len(server.seen) == CALLS_TO_DRAFT + CALLS_TO_END
    bench = Locot2vBench(Setup(store_path=str(tmp_path)))
    (prompt,) = load_prompts(project.prompts_path, bench).by_id.values()
    assert (prompt.prompt_id, prompt.theme, prompt.details["base"]) == ("food-one-cake", "food", mended)
    assert prompt.text == f"{mended}\n\n" + " ".join(f"It has {name}." for name in HERD_NAMES)
    assert [one["action"] for one in prompt.details["events"]] == ["rolls", "stops"]
    assert prompt.details["complexity"] == {"semantic": 7.0, "structural": 6.5, "control": 4.0}
    for name in HERD_NAMES:
        assert [one.polarity for one in questions_of(prompt, name)] == ["positive", "negative"] * 3
    output = json.loads((project.folder / "conversations" / "food-one-cake.json").read_text())
    steps = [one["step"] for one in output["conversation"]]
    assert steps[:5] == ["describe", "criticise, round 1", "rewrite, round 1", "events", "actions"]
    assert len(steps) == CALLS_TO_DRAFT + CALLS_TO_END
    assert all(one["kept"] for one in output["conversation"])


def test_who_sees_frames_and_who_knows_the_good_answer(tmp_path: Path, video: SourceVideo) -> None:
    author = Author()
    with FaultyServer(author) as server:
        assert make(maker(tmp_path, server, without_review=True), video).state == "ready"
    seeing = {step for step, body in author.bodies if images(body)}
    assert seeing == {"describe", "criticise", "rewrite", "assessments"}
    # what checks the polarity is not told what was said before
    for step, body in author.bodies:
        if step == "polarity":
            assert "good_answer" not in user_text(body)
            assert "Is thing 0 right?" in user_text(body)


def test_nothing_to_criticise_ends_the_rounds(tmp_path: Path, video: SourceVideo) -> None:
    author = Author(lambda step, text, count: {"faults": []} if step == "criticise" else None)
    with FaultyServer(author) as server:
        one = maker(tmp_path, server, rounds=5)
        assert make(one, video).calls == 2
        assert [version.text for version in one.project.drafts()[0].versions] == [FIRST]


def test_a_changed_draft_waits_for_a_person_again(tmp_path: Path, video: SourceVideo) -> None:
    with FaultyServer(Author()) as server:
        one = maker(tmp_path, server)
        make(one, video)
        (draft,) = one.project.drafts()
        one.project.review(draft.prompt_id, draft.digest, "accepted", SECOND)
        assert make(maker(tmp_path, server, rounds=0), video).state == "waiting"
        with pytest.raises(UserInputError, match="its draft has changed"):
            one.project.review(draft.prompt_id, draft.digest, "accepted", SECOND)


def test_a_person_leaves_a_prompt_out(tmp_path: Path, video: SourceVideo) -> None:
    with FaultyServer(Author()) as server:
        one = maker(tmp_path, server)
        make(one, video)
        (draft,) = one.project.drafts()
        one.project.review(draft.prompt_id, draft.digest, "left_out", "")
        made = make(maker(tmp_path, server, without_review=True), video)
        assert (made.state, made.calls) == ("left_out", 0)


@pytest.mark.parametrize(
    ("step", "answer", "why"),
    [
        ("questions", {"questions": questions(5)}, "5 questions instead of 6"),
        ("questions", {"questions": questions(3) * 2}, "occurs twice"),
        ("questions", {"questions": [{"question": " ", "good_answer": "yes"}] * 6}, "no text 'question'"),
        ("questions", {"questions": [{"question": "Is it?", "good_answer": "maybe"}] * 6}, "maybe"),
        ("polarity", {"questions": [{"number": 1, "reason": "", "good_answer": "yes"}]}, "for 6 asked"),
        ("complexity", {"semantic": {"reason": "", "score": 11}}, "outside the scale"),
        ("complexity", {"semantic": {"reason": "", "score": True}}, "no number"),
        ("describe", {"description": "A ball."}, "2 words instead of 8 to 30"),
        ("describe", ["A ball."], "no text 'description'"),
        ("events", {"events": []}, "no event"),
        ("assessments", {"themes": "Something."}, "no text 'emotional_response'"),
    ],
)
def test_a_model_is_told_what_did_not_fit_and_then_does_better(
    tmp_path: Path, video: SourceVideo, step: str, answer: Any, why: str
) -> None:
    author = Author(lambda asked, text, count: answer if (asked, count) == (step, 1) else None)
    with FaultyServer(author) as server:
        made = make(maker(tmp_path, server, without_review=True), video)
        assert (made.state, made.calls) == ("ready", CALLS_TO_DRAFT + CALLS_TO_END + 1), made.message
        told = [user_text(body) for asked, body in author.bodies if asked == step][1]
        assert "An earlier answer cannot be used" in told
        assert why in told
        # the answer that did not fit is kept too: who goes on pays for nothing
        again = make(maker(tmp_path, server, without_review=True), video)
        assert (again.state, again.calls) == ("ready", 0)


def test_halves_of_characters_are_replaced(tmp_path: Path, video: SourceVideo) -> None:
    half = {"description": "A ball \ud83d rolls over grass and stops there."}
    author = Author(lambda step, text, count: half if step == "describe" else None)
    with FaultyServer(author) as server:
        made = make(maker(tmp_path, server, without_review=True, rounds=0), video)
    assert made.state == "ready", made.message
    assert made.prompt is not None
    assert "ball \ufffd rolls" in made.prompt.text
    output = (tmp_path / "prompts" / "conversations" / "food-one-cake.json").read_text()
    assert "ball \ufffd rolls" in output


def test_what_is_broken_in_the_folder_is_said_before_anything_is_paid(
    tmp_path: Path, video: SourceVideo
) -> None:
    with FaultyServer(Author()) as server:
        one = maker(tmp_path, server)
        one.project.folder.mkdir()
        (one.project.folder / "reviews.jsonl").write_text("garbage\n")
        with pytest.raises(StoreError, match="line 1, is not a valid review"):
            one.run([video])
        assert not server.seen


def test_a_model_that_never_fits_is_a_row_with_the_reason(tmp_path: Path, video: SourceVideo) -> None:
    author = Author(lambda step, text, count: {"questions": questions(7)} if step == "questions" else None)
    with FaultyServer(author) as server:
        made = make(maker(tmp_path, server, without_review=True, tries=2), video)
        assert (made.state, made.failure, made.prompt) == ("failed", "not_understood", None)
        assert made.message == ("questions on emotional_response: the answer has 7 questions instead of 6")
        asked = len(server.seen)
        make(maker(tmp_path, server, without_review=True, tries=2), video)
        assert len(server.seen) == asked
        author.odd = None
        assert make(maker(tmp_path, server, without_review=True, again=1), video).state == "ready"


def test_questions_on_whose_good_answer_two_requests_differ_are_replaced(
    tmp_path: Path, video: SourceVideo
) -> None:
    def odd(step: str, text: str, count: int) -> Any:
        if step == "questions" and count == 1:
            # said to be good with yes; who checks says no
            return {"questions": [{"question": "Is it wrong?", "good_answer": "yes"}, *questions(5)]}
        if step == "questions" and "Is it wrong?" in text:
            return {"questions": questions(wanted(text), "matter")}
        return None

    author = Author(odd)
    with FaultyServer(author) as server:
        made = make(maker(tmp_path, server, without_review=True), video)
    assert made.state == "ready"
    assert made.prompt is not None
    result = [one.question for one in questions_of(made.prompt, HERD_NAMES[0])]
    assert result == [*(one["question"] for one in questions(5)), "Is matter 0 right?"]
    assert made.calls == CALLS_TO_DRAFT + CALLS_TO_END + 2


def test_no_agreement_at_all_is_said(tmp_path: Path, video: SourceVideo) -> None:
    def odd(step: str, text: str, count: int) -> Any:
        if step != "questions":
            return None
        return {
            "questions": [
                {"question": f"Is {count} {at} wrong?", "good_answer": "yes"} for at in range(wanted(text))
            ]
        }

    with FaultyServer(Author(odd)) as server:
        made = make(maker(tmp_path, server, without_review=True, tries=2), video)
    assert made.failure == "not_understood"
    assert "after 2 attempts, two requests agree on the good answer of 0 questions" in made.message


def test_a_server_that_goes_away_harms_nothing(tmp_path: Path, video: SourceVideo) -> None:
    down = Author(lambda step, text, count: Reply(status=503) if step == "events" else None)
    with FaultyServer(down) as server:
        made = make(maker(tmp_path, server, without_review=True), video)
        assert (made.state, made.failure) == ("failed", "server_down")
        down.odd = None
        assert make(maker(tmp_path, server, without_review=True), video).calls == CALLS_TO_END


def test_a_dry_run_asks_nobody_and_says_what_it_takes(tmp_path: Path, video: SourceVideo) -> None:
    with FaultyServer(Author()) as server:
        result = maker(tmp_path, server).estimate([video])
        assert not server.seen
        assert (result.videos, result.calls) == (1, CALLS_TO_DRAFT + CALLS_TO_END)
        make(maker(tmp_path, server, without_review=True), video)
        assert maker(tmp_path, server, without_review=True).estimate([video]).calls == 0


def test_a_whole_prompt_has_as_many_words_as_the_papers(tmp_path: Path, video: SourceVideo) -> None:
    """In answers as long as they are wanted: the paper's prompts mostly have 200 to 300 words."""
    with FaultyServer(Author()) as server:
        one = maker(tmp_path, server, least_words=plain("least_words"), most_words=plain("most_words"))
        attempts = Attempts(DryRunAsker(one.roles), one.settings)
        film = SampledVideo(video.digest, one.videos.open(video.path))
        base = Drafting(one.settings).versions(attempts, film)[-1].text
        prompt = finished_prompt(attempts, "p1", "", base, film)
    assert 200 <= words_in(prompt.text) <= 300


def plain(name: str) -> int:
    """What a setting is where the user says nothing."""
    result = PromptSuiteSettings.model_fields[name].default
    assert isinstance(result, int)
    return result


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, video: SourceVideo) -> None:
    (tmp_path / "prompts").write_text("a file")
    with FaultyServer(Author()) as server:
        with pytest.raises(UserInputError, match="prompts cannot be written"):
            maker(tmp_path, server).run([video])
        assert not server.seen


def test_a_server_that_the_profile_lacks_is_said_at_once(tmp_path: Path, video: SourceVideo) -> None:
    with FaultyServer(Author()) as server:
        one = maker(tmp_path, server, language={"model": "tiny", "server": "nowhere"})
        with pytest.raises(PrerequisiteError, match="nowhere"):
            one.run([video])
        assert not server.seen
