"""Overall and event alignment over real HTTP: known similarities, what embeds texts, nothing paid twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError, Reason, SetAside
from storage_schemas.judgements import Failure
from tasks.extras.locot2v.suite import Locot2vBench
from tasks.extras.locot2v.text_similarity import (
    ClipEmbedder,
    EmbeddingModel,
    TextSimilarity,
    cosines,
    pieces_of,
)
from tasks.llm.answer_store import AnswerStore
from tasks.models.add import add_model
from tasks.scoring.suites.base import SuitePrompt
from tests.tasks.extras.locot2v.talking import (
    EMBEDS,
    PROMPT,
    READS,
    RISE,
    SEES,
    WAVE,
    Talk,
    event,
    images,
    score,
    setup,
    step,
    steps,
    suite,
    value,
    video,
)
from tests.tasks.scoring.encoders import Directions, Planted
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.told import Told, failure, film, scored, text
from tests.tiny_models.clip import tiny_clip
from tests.tiny_models.faulty_server import Reply


def given(*events: dict[str, str], **details: Any) -> SuitePrompt:
    return SuitePrompt(prompt_id="p", text="-", details={"events": list(events), **details})


def test_overall_alignment_is_the_cosine_of_description_and_base(server: Told) -> None:
    result = scored(score(server, "overall_alignment"))
    described, embedded = (seen.body for seen in server.seen)
    # two of four words are shared
    assert result.value == pytest.approx(0.5)
    assert described["model"] == SEES
    assert embedded["model"] == EMBEDS
    # frames at 1 a second and the last one; the describer is not told the prompt
    assert images(described) == 3
    assert "man" not in json.dumps(described["messages"])
    assert embedded["input"] == [PROMPT.details["base"], "sun rises dog sits"]
    assert result.calls == 2
    assert [(one.model, one.tokens_in) for one in result.usage.others] == [(EMBEDS, 7)]
    # without a base the whole text is compared; nothing alike is zero
    plain = PROMPT.model_copy(update={"details": {}})
    assert value(score(server, "overall_alignment", plain)) == 0
    assert server.seen[-1].body["input"][0] == PROMPT.text


def test_a_description_serves_both_dimensions_and_another_process_pays_nothing(server: Told) -> None:
    events = [{"events": [RISE, WAVE]}, {"events": [RISE, WAVE]}, {"events": [WAVE, RISE]}]
    server.say(Talk(events=events))
    assert value(score(server, "event_alignment")) == 1
    assert steps(server) == ["events", "describe", "events", "embed"]
    # events are taken from the base and the description by the language model
    asked = [seen.body for seen in server.seen if step(seen.body) == "events"]
    assert [(body["model"], images(body)) for body in asked] == [(READS, 0), (READS, 0)]
    assert "sun rises man waves" in text(asked[0])
    assert "sun rises dog sits" in text(asked[1])
    again = scored(score(server, "event_alignment"))
    assert (again.value, again.calls, again.usage.tokens_in) == (1, 0, 0)
    score(server, "overall_alignment")
    assert steps(server)[4:] == ["embed"]
    # another repeat looks again; the prompt's events stay
    values = [value(score(server, "event_alignment", repeat=1)) for _ in range(2)]
    assert values == [0.5, 0.5]
    assert steps(server)[5:] == ["describe", "events", "embed"]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([RISE, WAVE], 1.0),
        # wholly turned round: half is taken off
        ([WAVE, RISE], 0.5),
        # one match of 1; by the paper the mean is over matches alone
        ([RISE], 1.0),
        ([], 0.0),
        # a description half alike (cosine 1/2), and three of four fields alike
        ([event("sun sets", "sun", "sea", "sets"), WAVE], (0.5 * 0.75 + 1) / 2),
    ],
)
def test_known_events_have_known_scores(server: Told, seen: list[dict[str, str]], expected: float) -> None:
    server.say(Talk(events={"events": seen}))
    result = score(server, "event_alignment", given(RISE, WAVE))
    assert value(result) == pytest.approx(expected)
    assert "embed" in steps(server) or not seen


def test_a_missing_event_counts_zero_where_the_mean_is_over_the_prompt(server: Told) -> None:
    server.say(Talk(events={"events": [RISE]}))
    result = scored(score(server, "event_alignment", given(RISE, WAVE), matching={"over": "prompt"}))
    assert result.value == pytest.approx(0.5)
    assert result.details["counts"] == {"prompt": 2, "video": 1, "inversions": 0}
    assert result.details["matches"][0]["events"] == [0, 0]
    # a prompt without events has no score
    server.say(Talk(events={"events": []}))
    assert failure(score(server, "event_alignment")).failure is Failure.NO_ANSWER


def test_a_field_of_which_nothing_is_reported_is_alike_in_both(server: Told) -> None:
    bare = {"event": "sun rises", "subject": " ", "setting": "", "action": "", "camera": ""}
    server.say(Talk(events={"events": [bare]}))
    assert value(score(server, "event_alignment", given({"event": "sun rises"}))) == 1
    assert "unspecified" in server.seen[-1].body["input"]
    assert "" not in server.seen[-1].body["input"]


def rows(*pairs: tuple[int, str]) -> bytes:
    data = ", ".join(f'{{"index": {place}, "embedding": {row}}}' for place, row in pairs)
    return f'{{"data": [{data}]}}'.encode()


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(body=b'{"data": []}'), Failure.REFUSED),
        (Reply(body=rows((0, '[1]'), (0, '[1]'))), Failure.REFUSED),
        (Reply(body=rows((0, '[1]'), (1, '[1, 2]'))), Failure.REFUSED),
        (Reply(body=rows((0, '["x"]'), (1, '[2]'))), Failure.REFUSED),
        (Reply(body=rows((0, '[NaN]'), (1, '[2]'))), Failure.REFUSED),
        (Reply(body=b"[]"), Failure.REFUSED),
        (Reply(status=400, body=b"maximum context length is 9"), Failure.CONTEXT_TOO_LONG),
        (Reply(status=401), Failure.NOT_ALLOWED),
        (Reply(status=404, body=b"not found"), Failure.NOT_ALLOWED),
        (Reply(status=503), Failure.SERVER_DOWN),
        (Reply(body=b"<html>"), Failure.SERVER_DOWN),
        (Reply(cut="before"), Failure.SERVER_DOWN),
    ],
)  # fmt: skip
def test_what_becomes_of_odd_embeddings(server: Told, reply: Reply, expected: Failure) -> None:
    server.say(Talk(embed=reply))
    result = failure(score(server, "overall_alignment"))
    assert result.failure is expected
    assert result.message.startswith("compare texts")
    # the description was paid for, and is kept
    assert [(one.model, one.tokens_in) for one in result.usage.others] == [(SEES, 100)]
    server.say(Talk())
    assert value(score(server, "overall_alignment")) == pytest.approx(0.5)
    assert steps(server) == ["embed"]


@pytest.mark.parametrize("name", ["event_alignment", "human_action"])
def test_dry_run_estimates_all_requests_of_few_events_and_actions(server: Told, name: str) -> None:
    usual, few = (
        suite(server, **settings).scorer(name).estimate(PROMPT, [video(film())])
        for settings in ({}, {"most_events": 1, "most_actions": 1})
    )
    assert len(few) == len(usual) > 1
    assert sum(one.tokens_in for one in few) < sum(one.tokens_in for one in usual)


class Gone(FrameList):
    """A film whose file goes away before its length is asked for."""

    def __len__(self) -> int:
        raise SetAside(Reason.VIDEO_MISSING, "put it back")


def test_what_was_paid_before_a_video_went_away_is_known(server: Told) -> None:
    result = failure(score(server, "event_alignment", of=Gone([])))
    assert result.failure is Failure.VIDEO_UNREADABLE
    assert "put it back" in result.message
    # the prompt's events had been asked for
    assert steps(server) == ["events"]
    assert result.calls == 1
    assert [(one.model, one.tokens_in) for one in result.usage.others] == [(READS, 100)]


def similarity(folder: Path) -> tuple[TextSimilarity, Directions]:
    source = Planted(limit=7, positions=7)
    model = EmbeddingModel(kind="clip", model="words")
    return TextSimilarity(model, ClipEmbedder(source, "words"), AnswerStore(folder)), source.made


def test_a_text_that_is_longer_than_a_clip_reads_counts_by_the_tokens_of_its_pieces(tmp_path: Path) -> None:
    compares, words = similarity(tmp_path)
    # three tokens each are read: two pieces up, one of a single token right
    long = "up a b up c d right"
    (result,) = compares.compare([(["up", "right"], [long])]).values
    assert [text for text, _ in words.read] == ["up", "right", "up a b", "up c d", "right"]
    assert all(most == words.limit for _, most in words.read)
    assert result[:, 0] == pytest.approx([6 / np.hypot(6, 1), 1 / np.hypot(6, 1)], abs=1e-6)


def test_cosines_are_computed_once_each_text_once_and_kept(tmp_path: Path) -> None:
    groups = [(["up", "right"], ["up"]), (["up"], ["right", "up"])]
    compares, words = similarity(tmp_path)
    first = compares.compare(groups)
    assert [one.tolist() for one in first.values] == [[[1], [0]], [[0, 1]]]
    assert len(words.read) == 2
    again, other = similarity(tmp_path)
    assert [one.tolist() for one in again.compare(groups).values] == [one.tolist() for one in first.values]
    assert not other.read
    # nothing is paid for: a dry run says nothing of it
    assert again.estimate([(["up"], ["right"])]) is None
    # groups without texts have no cosines
    result = again.compare([(["up"], []), (["up"], ["up"]), ([], [])]).values
    assert [one.tolist() for one in result] == [[[]], [[1]], []]
    assert again.compare([([], [])]).values[0].shape == (0, 0)


def test_cosines_of_rows_of_any_length_and_pieces_that_hold_the_whole_text() -> None:
    result = cosines(np.array([[3.0, 0], [0, 0]]), np.array([[5.0, 0], [-2, 0], [0, 1]]))
    assert result.tolist() == [[1, -1, 0], [0, 0, 0]]
    text = "one two three four five"
    ends = [3, 7, 13, 18, 23]
    assert pieces_of("", [], 3) == [("", 1)]
    assert pieces_of(text, ends, 2) == [("one two", 2), ("three four", 2), ("five", 1)]
    assert pieces_of(text, ends, 5) == [(text, 5)]


@pytest.mark.models
def test_the_text_tower_of_a_clip_in_the_model_folder(server: Told, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    add_model("tiny-clip", tiny_clip(tmp_path / "made"), folder, kind="clip", licence="-")
    sees = {"model": "sees", "server": "s"}
    site = setup(server).model_copy(update={"model_folders": (str(folder),)})
    made = Locot2vBench(site, multimodal=sees, embeddings={"kind": "clip", "model": "tiny-clip"})
    scorer = made.scorer("overall_alignment")
    # what is loaded here runs where the models run
    assert scorer.hardware == "gpu"
    assert "tiny-clip" in str(scorer.settings()["embeddings"])
    scorer.check()
    same = PROMPT.model_copy(update={"details": {"base": "sun rises dog sits"}})
    (result,) = scorer.score(same, [video(film())])
    assert value(result) == pytest.approx(1, abs=1e-5)
    (other,) = scorer.score(PROMPT, [video(film())])
    assert 0 < value(other) < 0.99999
    assert steps(server) == ["describe"]


def test_a_clip_that_is_not_there_is_reported(server: Told) -> None:
    real = {"kind": "clip", "model": "clip-vit-large-patch14"}
    with pytest.raises(PrerequisiteError, match="clip-vit-large-patch14"):
        suite(server, embeddings=real).scorer("overall_alignment").check()
