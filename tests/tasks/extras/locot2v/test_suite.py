"""LoCoT2V-Bench as a suite: its dimensions, settings, dry run, long and damaged videos, and a whole run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgements import Failure
from storage_schemas.suite_score import SuiteScore
from tasks.extras.locot2v.dimensions import ALIGNMENT, BY_NAME, CLARITY, HERD, HERD_NAMES, STATIC, TEMPORAL
from tasks.extras.locot2v.suite import Locot2vBench
from tasks.extras.locot2v.text_scorers import MEASURES
from tasks.llm.usage import Prices
from tasks.report.suite_leaderboard import board_table
from tasks.scoring.engine import Task, answer_stage
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo, SuitePrompt
from tasks.scoring.suites.estimate import estimate_dimension
from tasks.scoring.suites.file_video import FrameRate, OpenVideos
from tasks.scoring.suites.leaderboard import board_of, means_of
from tasks.scoring.suites.manifest import load_manifest
from tasks.scoring.suites.plan import applicable, bring_together, settings_of, units_of
from tasks.scoring.suites.prompts import load_prompts
from tasks.scoring.suites.registry import make_suite
from tasks.scoring.suites.score_store import ScoresStore
from tasks.scoring.suites.scoring import SuiteChoice, SuiteWork
from tests.tasks.extras.locot2v.talking import (
    EMBEDS,
    MODELS,
    PROMPT,
    READS,
    ROLES,
    SEES,
    Talk,
    images,
    score,
    setup,
    steps,
    suite,
    value,
    video,
)
from tests.tasks.extras.locot2v.videos import Endless
from tests.tasks.scoring.judges.short_films import short_film, write_lines
from tests.tasks.scoring.sides import Damaged, FrameList
from tests.tasks.scoring.suites.told import Told, failure, film, scored

QUESTIONS = {name: [{"question": "Is it?", "polarity": "positive"}] * 7 for name in HERD_NAMES}
WHOLE = SuitePrompt(prompt_id="p", text="-", details={**PROMPT.details, "questions": QUESTIONS})


def test_there_are_26_dimensions_from_0_to_1_in_five_groups(server: Told) -> None:
    counts = [(STATIC, 2), (ALIGNMENT, 2), (TEMPORAL, 11), (CLARITY, 4), (HERD, 7)]
    assert list(Counter(one.group for one in BY_NAME.values()).items()) == counts
    assert {(one.low, one.high) for one in BY_NAME.values()} == {(0, 1)}
    assert all(one.about.endswith(".") and one.behind and one.source for one in BY_NAME.values())
    made = suite(server)
    assert [made.scorer(name).dimension.name for name in BY_NAME] == list(BY_NAME)


@pytest.mark.parametrize(
    ("details", "score", "raw"),
    [
        ('{"upper_bound": null}', 5.5, True),
        ('{"upper_bound": 6.2}', 0.9, False),
        ("{}", 0.9, False),
        ("", 5.5, True),
    ],
)
def test_raw_score_of_aesthetics_is_in_no_mean(details: str, score: float, raw: bool) -> None:
    def row(name: str, value: float, more: str = "{}") -> SuiteScore:
        fields = {"key": name, "dimension": name, "score": value, "details": more}
        return SuiteScore(suite="x", settings="s", model="m", prompt_id="p", video="v", **fields)

    rows = [row("aesthetic_quality", score, details), row("technical_quality", 0.5)]
    board = board_of("x", Locot2vBench(Setup(store_path="")).dimensions_of(rows), means_of(rows))
    table = board_table(board)
    assert board.averaged
    assert board.dimensions[0].title == f"Aesthetic quality{' (raw)' if raw else ''}"
    assert board.lines[0].group_means[STATIC] == (0.5 if raw else 0.7)
    assert table.cells()[0][1] == ("5.50" if raw else "90.0")
    assert ("Aesthetic quality (raw) is in no mean." in table.note) == raw


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"round": 3}, "did you mean rounds"),
        ({"rounds": 0}, "rounds"),
        ({"matching": {"order_penalty": 1.5}}, "order_penalty"),
        ({"matching": {"over": "all"}}, "matching"),
        ({"embeddings": "word2vec"}, "not a predefined model"),
        ({"embeddings": {"model": "m"}}, "name the server"),
        ({"multimodal": "gpt-9"}, "multimodal: 'gpt-9' is not a predefined model"),
        ({"multimodal": {"model": "gpt-9", "server": "s", "sides": 3}}, "no field 'sides'"),
        ({"prompts": "/nowhere"}, "is not a folder"),
    ],
)
def test_settings_that_do_not_fit_are_reported(server: Told, settings: dict[str, Any], said: str) -> None:
    given = {name: {"model": "m", "server": "s"} for name in ("multimodal", "language", "locating")}
    with pytest.raises(UserInputError, match=said):
        made = make_suite("locot2v-bench", setup(server), {**given, **settings})
        made.scorer("overall_alignment")


def test_unknown_dimensions_and_servers_are_reported(server: Told) -> None:
    with pytest.raises(UserInputError, match="did you mean human_action"):
        suite(server).scorer("human_actions")
    with pytest.raises(PrerequisiteError, match=r"qwen2\.5-vl"):
        Locot2vBench(setup(server)).scorer("theme_clarity")
    # what asks no such server continues
    assert suite(server, multimodal="qwen2.5-vl-7b").scorer("dynamic_degree")
    # a missing model is reported before anything is asked
    server.say(Talk(), MODELS[:1])
    suite(server).scorer("theme_clarity").check()
    for name in ("event_alignment", "human_action", "overall_alignment"):
        with pytest.raises(PrerequisiteError, match="does not serve"):
            suite(server).scorer(name).check()
    assert not server.seen


def test_scores_depend_on_the_settings_that_they_use_and_no_others(server: Told) -> None:
    own = server.folder / "own" / "locot2v-bench"
    own.mkdir(parents=True)
    (own / "clarity.txt").write_text("Judge.")
    changes: dict[str, dict[str, Any]] = {
        "rounds": {"rounds": 5},
        "fps": {"fps": 2.0},
        "own": {"prompts": str(own.parent)},
        "matching": {"matching": {"order_penalty": 1.0}},
        "embeddings": {"embeddings": {"model": "other", "server": "s"}},
        "language": {"language": {"model": "other", "server": "s"}},
    }
    usual = suite(server)
    others = {key: suite(server, **settings) for key, settings in changes.items()}

    def changed(name: str) -> set[str]:
        same = usual.scorer(name).settings()
        return {key for key, other in others.items() if other.scorer(name).settings() != same}

    assert changed("theme_clarity") == {"rounds", "fps", "own"}
    assert changed("themes") == {"fps"}
    assert changed("overall_alignment") == {"fps", "embeddings"}
    assert changed("event_alignment") == {"fps", "matching", "embeddings", "language"}
    # own instructions replace ours file by file
    (own / "describe.txt").write_text('Say "{" what you see.')
    score(server, "event_alignment", prompts=str(own.parent))
    told = [seen.body["messages"][0]["content"] for seen in server.seen if "input" not in seen.body]
    assert told[1] == 'Say "{" what you see.'
    assert "five fields" in told[0]
    assert "at most 40 events" in told[0]


@pytest.mark.parametrize("name", MEASURES)
def test_the_dry_run_asks_nobody_and_says_what_is_asked_then(server: Told, name: str) -> None:
    scorer = suite(server).scorer(name)
    output = scorer.estimate(WHOLE, [video(film())])
    assert not server.seen
    (result,) = scorer.score(WHOLE, [video(film())])
    assert isinstance(result, ScoredVideo)
    # the usual answers of a server are shorter than estimated; the requests are the same
    assert len(output) == result.calls == len(steps(server))
    assert {one.model for one in output} <= {SEES, READS, EMBEDS}
    assert sum(one.images for one in output) == sum(
        images(seen.body) for seen in server.seen if "messages" in seen.body
    )
    assert all(one.tokens_in for one in output)
    assert len({one.once for one in output}) == len(output)
    assert not scorer.estimate(WHOLE, [video(film())])


def test_of_three_hours_a_bounded_number_of_frames_is_read(server: Told) -> None:
    long = Endless(3 * 3600 * 30, fps=30.0)
    result = scored(score(server, "themes", WHOLE, of=long))
    assert max(images(seen.body) for seen in server.seen if "messages" in seen.body) == 64 == len(long.read)
    assert {0, len(long) - 1} <= long.read
    assert result.details["frames"]["video"]["sampled"] == 3 * 3600 + 1


def test_a_context_that_holds_less_shows_fewer_frames_and_none_is_a_reason(server: Told) -> None:
    def model(tokens: int, answer: int) -> dict[str, Any]:
        sizes = {"context_tokens": tokens, "answer_tokens": answer, "images": "tiles"}
        return {"model": SEES, "server": "s", **sizes}

    value(score(server, "theme_clarity", of=film(400), multimodal=model(5000, 100)))
    assert 10 < images(server.seen[0].body) < 64
    none = failure(score(server, "overall_alignment", of=film(400), multimodal=model(1024, 900)))
    assert none.failure is Failure.CONTEXT_TOO_LONG
    # one frame is enough
    server.seen.clear()
    assert value(score(server, "theme_clarity", of=film(1))) == 0.75
    assert images(server.seen[0].body) == 1
    # a text that is too long is a reason
    server.seen.clear()
    long = SuitePrompt(prompt_id="p", text="word " * 40_000)
    assert failure(score(server, "event_alignment", long)).failure is Failure.CONTEXT_TOO_LONG
    assert not server.seen


def test_a_damaged_video_is_a_reason_and_what_was_paid_until_then_is_known(server: Told) -> None:
    result = failure(score(server, "event_alignment", of=Damaged()))
    assert result.failure is Failure.VIDEO_UNREADABLE
    assert "ends early" in result.message
    assert [(one.model, one.tokens_in) for one in result.usage.others] == [(READS, 100)]
    assert failure(score(server, "themes", WHOLE, of=FrameList([]))).failure is Failure.VIDEO_UNREADABLE


def test_a_whole_run_on_files_and_nothing_twice(server: Told, tmp_path: Path, ffmpeg: str) -> None:
    videos = tmp_path / "videos"
    for hue, model in enumerate(("anna", "bert")):
        short_film(ffmpeg, videos / f"{model}.mp4", 1.0, 90 * hue)
    (videos / "manifest.csv").write_text("model,prompt_id,file\nanna,p,anna.mp4\nbert,p,bert.mp4\n")
    lines = write_lines(tmp_path / "prompts.jsonl", [WHOLE.model_dump(exclude={"dimensions"})])
    chosen = ("event_alignment", "logical_structure", "themes", "human_action")
    site = setup(server)
    choice = SuiteChoice(**dict(site), suite="locot2v-bench", settings_json=json.dumps(ROLES))
    made = choice.make()
    material = bring_together(load_prompts(lines, made), load_manifest(videos / "manifest.csv", videos))
    sampling = FrameRate()
    tasks, calls, paid = [], [], set[str]()
    for name in chosen:
        scorer = made.scorer(name)
        wanted, _ = applicable(material, scorer.dimension)
        units = units_of(material, wanted, name, settings_of(made.name, scorer, sampling))
        tasks.append(Task(f"task-{name}", name, name, tuple(units)))
        row = estimate_dimension(scorer, units, OpenVideos(sampling), Prices(), paid)
        calls.append(row.cost.calls)
    # what is asked of the prompt counts once for both videos
    assert calls == [7, 6, 4, 3]
    assert not server.seen

    def run(number: int) -> int:
        work = SuiteWork(f"run{number}", choice.store_path, choice=choice, sampling=sampling)
        made = sum(answer_stage(work, task).made for task in tasks)
        ScoresStore(site.store).pack()
        return made

    assert run(1) == 8
    asked = len(steps(server))
    assert Counter(steps(server)) == {
        "events": 2, "describe": 2, "embed": 1, "clarity": 6, "questions": 4, "actions": 1, "look": 2
    }  # fmt: skip
    assert run(2) == 0
    assert len(steps(server)) == asked
    rows = ScoresStore(site.store).rows("locot2v-bench")
    assert {(row.dimension, row.score) for row in rows} == {
        ("event_alignment", 1.0), ("logical_structure", 0.75), ("themes", 1.0), ("human_action", 0.75)
    }  # fmt: skip
    assert sum(row.calls for row in rows) == asked
