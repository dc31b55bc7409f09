"""Overall and event alignment over real HTTP: known similarities, one description, nothing paid twice."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import Reason, SetAside
from storage_schemas.judgements import TRANSIENT_FAILURES, Failure
from tasks.scoring.suites.base import ScoredVideo, SuitePrompt
from tests.storage_schemas.full_disk import fill
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.locot2v.talking import (
    EMBEDS,
    MODELS,
    PROMPT,
    READS,
    RISE,
    SEES,
    WAVE,
    Talk,
    event,
    failure,
    film,
    images,
    score,
    step,
    steps,
    suite,
    text,
    value,
    video,
)
from tests.tiny_models.faulty_server import FaultyServer, Reply


def given(*events: dict[str, str], **details: Any) -> SuitePrompt:
    return SuitePrompt(prompt_id="p", text="-", details={"events": list(events), **details})


def test_overall_alignment_is_the_cosine_of_description_and_base(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        result = score(tmp_path, server, "overall_alignment")
        described, embedded = (seen.body for seen in server.seen)
    # two of four words are shared
    assert value(result) == pytest.approx(0.5)
    assert described["model"] == SEES
    assert embedded["model"] == EMBEDS
    # frames at 1 a second and the last one; the describer is not told the prompt
    assert images(described) == 3
    assert "man" not in json.dumps(described["messages"])
    assert embedded["input"] == [PROMPT.details["base"], "sun rises dog sits"]
    assert isinstance(result, ScoredVideo)
    assert result.calls == 2
    assert [(one.model, one.tokens_in) for one in result.usage.others] == [(EMBEDS, 7)]


def test_without_a_base_the_whole_text_is_compared_and_nothing_alike_is_zero(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        plain = PROMPT.model_copy(update={"details": {}})
        assert value(score(tmp_path, server, "overall_alignment", plain)) == 0
        assert server.seen[-1].body["input"][0] == PROMPT.text


def test_a_description_serves_both_dimensions_and_another_process_pays_nothing(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        first = score(tmp_path, server, "event_alignment")
        assert steps(server) == ["events", "describe", "events", "embed"]
        again = score(tmp_path, server, "event_alignment")
        assert isinstance(again, ScoredVideo)
        assert (again.calls, again.usage.tokens_in) == (0, 0)
        assert value(again) == value(first)
        assert len(server.seen) == 4
        score(tmp_path, server, "overall_alignment")
        assert steps(server)[4:] == ["embed"]
        # another repeat looks anew; the prompt's events stay
        score(tmp_path, server, "event_alignment", repeat=1)
        assert steps(server)[5:] == ["describe", "events"]


def test_events_are_taken_from_base_and_description_by_the_language_model(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        score(tmp_path, server, "event_alignment")
        asked = [seen.body for seen in server.seen if step(seen.body) == "events"]
    assert [body["model"] for body in asked] == [READS, READS]
    assert "sun rises man waves" in text(asked[0])
    assert "sun rises dog sits" in text(asked[1])
    assert not any(map(images, asked))


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
def test_known_events_have_known_scores(tmp_path: Path, seen: list[dict[str, str]], expected: float) -> None:
    with FaultyServer(Talk(events={"events": seen}), MODELS) as server:
        result = score(tmp_path, server, "event_alignment", given(RISE, WAVE))
        assert value(result) == pytest.approx(expected)
        assert "embed" in steps(server) or not seen


def test_a_missing_event_counts_zero_where_the_mean_is_over_the_prompt(tmp_path: Path) -> None:
    with FaultyServer(Talk(events={"events": [RISE]}), MODELS) as server:
        result = score(tmp_path, server, "event_alignment", given(RISE, WAVE), matching={"over": "prompt"})
    assert isinstance(result, ScoredVideo)
    assert math.isclose(result.value, 0.5)
    assert result.details["counts"] == {"prompt": 2, "video": 1, "inversions": 0}
    assert result.details["matches"][0]["events"] == [0, 0]


def test_a_field_of_which_nothing_is_said_is_alike_in_both(tmp_path: Path) -> None:
    bare = {"event": "sun rises", "subject": " ", "setting": "", "action": "", "camera": ""}
    with FaultyServer(Talk(events={"events": [bare]}), MODELS) as server:
        assert value(score(tmp_path, server, "event_alignment", given({"event": "sun rises"}))) == 1
        assert "unspecified" in server.seen[-1].body["input"]
        assert "" not in server.seen[-1].body["input"]


@pytest.mark.parametrize(
    "events",
    [
        "Sun and man.",
        {"events": "sun"},
        {"events": [["sun"]]},
        {"events": [{**RISE, "event": ""}]},
        {"events": [{**RISE, "camera": 3}]},
        {"events": [RISE] * 41},
    ],
)
def test_events_that_do_not_fit_are_a_reason_and_asked_again(tmp_path: Path, events: Any) -> None:
    with FaultyServer(Talk(events=[events, {"events": [RISE]}]), MODELS) as server:
        result = failure(score(tmp_path, server, "event_alignment"))
        assert result.failure is Failure.NOT_UNDERSTOOD
        assert "events of the prompt" in result.message
        # what was paid for it is known, with the model whose price counts
        assert [(one.model, one.tokens_in) for one in result.usage.others] == [(READS, 100)]
        assert result.calls == len(server.seen) == 1
        assert value(score(tmp_path, server, "event_alignment")) == 1


@pytest.mark.parametrize("events", ["sun", [RISE, "sun"], [{"subject": "sun"}]])
def test_events_of_a_prompts_file_that_do_not_fit_are_a_reason(tmp_path: Path, events: Any) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        prompt = PROMPT.model_copy(update={"details": {"events": events}})
        result = failure(score(tmp_path, server, "event_alignment", prompt))
        assert result.failure is Failure.NOT_UNDERSTOOD
        assert "prompt's events" in result.message
        assert not server.seen


def test_a_prompt_without_events_has_no_score(tmp_path: Path) -> None:
    with FaultyServer(Talk(events={"events": []}), MODELS) as server:
        assert failure(score(tmp_path, server, "event_alignment")).failure is Failure.NO_ANSWER


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
def test_what_becomes_of_odd_embeddings(tmp_path: Path, reply: Reply, expected: Failure) -> None:
    with FaultyServer(Talk(embed=reply), MODELS) as server:
        result = failure(score(tmp_path, server, "overall_alignment"))
        assert result.failure is expected
        assert result.message.startswith("compare texts")
        # the description was paid for, and is kept
        assert [(one.model, one.tokens_in) for one in result.usage.others] == [(SEES, 100)]
    with FaultyServer(Talk(), MODELS) as server:
        assert value(score(tmp_path, server, "overall_alignment")) == pytest.approx(0.5)
        assert steps(server) == ["embed"]


@pytest.mark.parametrize("name", ["event_alignment", "human_action"])
def test_the_dry_run_estimates_all_requests_where_few_events_and_actions_are_taken(
    tmp_path: Path, name: str
) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        usual, few = (
            suite(tmp_path, server, **settings).scorer(name).estimate(PROMPT, [video(film())])
            for settings in ({}, {"most_events": 1, "most_actions": 1})
        )
    assert len(few) == len(usual) > 1
    assert sum(one.tokens_in for one in few) < sum(one.tokens_in for one in usual)


class Gone(FrameList):
    """A film whose file goes away before its length is asked for."""

    def __len__(self) -> int:
        raise SetAside(Reason.VIDEO_MISSING, "put it back")


def test_what_was_paid_before_a_video_went_away_is_known(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        result = failure(score(tmp_path, server, "event_alignment", of=Gone([])))
    assert result.failure is Failure.VIDEO_UNREADABLE
    assert "put it back" in result.message
    # the prompt's events had been asked for
    assert steps(server) == ["events"]
    assert result.calls == 1
    assert [(one.model, one.tokens_in) for one in result.usage.others] == [(READS, 100)]


def test_a_repeat_asks_anew_for_all_of_the_video_but_not_for_the_prompts_events(tmp_path: Path) -> None:
    events = [{"events": [RISE, WAVE]}, {"events": [RISE, WAVE]}, {"events": [WAVE, RISE]}]
    with FaultyServer(Talk(events=events), MODELS) as server:
        values = [value(score(tmp_path, server, "event_alignment", repeat=repeat)) for repeat in (0, 1, 1)]
    # the same description, other events: what a repeat is to find out
    assert values == [1.0, 0.5, 0.5]
    assert steps(server) == ["events", "describe", "events", "embed", "describe", "events", "embed"]


def test_what_was_paid_is_known_where_the_answer_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        with monkeypatch.context() as patched:
            fill(patched, tmp_path / "store" / "suites")
            result = failure(score(tmp_path, server, "overall_alignment"))
        assert "no space left below" in result.message
        assert result.failure in TRANSIENT_FAILURES
        assert result.calls == 1
        assert [(one.model, one.tokens_in) for one in result.usage.others] == [(SEES, 100)]
        assert value(score(tmp_path, server, "overall_alignment")) == pytest.approx(0.5)
