"""A suite from files to scores: what goes in, what is paid, what goes on after a failure, limit or kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.score.options import SuiteOptions
from flows.score.results import RequestProgress, SuiteResult
from flows.score.suite_run import SuiteExecutor, SuiteRun
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.store import Store
from storage_schemas.suite_score import SuiteScore
from tasks.llm.limits import Limits
from tasks.scoring.suites.score_store import ScoresStore
from tests.inline import suite_inline
from tests.planted_suites import answers, asked_for
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer, Reply

PROMPTS = [
    {"prompt_id": "p1", "text": "A red ball rolls.", "details": {"weight": 1}},
    {"prompt_id": "p2", "text": "A blue box stands.", "dimensions": ["length", "beauty", "contest"]},
]
ROWS = [("anna", "p1", 1.0, 0), ("bert", "p1", 2.0, 40), ("anna", "p2", 1.5, 80), ("bert", "p2", 0.5, 120)]


@pytest.fixture(scope="session")
def films(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite-videos")
    lines = ["model,prompt_id,sample,file"]
    for number, (model, prompt, seconds, hue) in enumerate(ROWS):
        # names that say nothing of the prompt
        short_film(ffmpeg, folder / model / f"{number}.mp4", seconds, hue)
        lines.append(f"{model},{prompt},0,{model}/{number}.mp4")
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in PROMPTS))
    return path


def options(
    tmp_path: Path, films: Path, prompts: Path, server: FaultyServer | None, **more: Any
) -> SuiteOptions:
    given = {
        "store": str(tmp_path / "store"),
        "suite": "planted",
        "videos": str(films),
        "prompt_suite": str(prompts),
        "model_servers": {} if server is None else {"s": {"url": server.url, "patience_s": 0.2}},
        "allow_cpu_models": True,
    }
    return SuiteOptions.model_validate(given | more)


def rows(tmp_path: Path) -> list[SuiteScore]:
    return ScoresStore(Store.open(tmp_path / "store")).rows("planted")


def scores(tmp_path: Path) -> dict[tuple[str, str, str], float | None]:
    return {(row.dimension, row.model, row.prompt_id): row.score for row in rows(tmp_path)}


def by_name(result: SuiteResult) -> dict[str, Any]:
    return {one.dimension: one for one in result.dimensions}


def test_all_that_can_be_scored_is_and_never_twice(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path, marker: FaultyServer
) -> None:
    given = options(tmp_path, films, prompts, marker)
    result = suite_inline(given)
    outcome = by_name(result)
    assert [outcome[name].scored for name in ("length", "beauty", "contest")] == [4, 4, 4]
    # films of 8 frames a second
    assert scores(tmp_path)["length", "bert", "p1"] == 16
    assert scores(tmp_path)["length", "bert", "p2"] == 4
    assert scores(tmp_path)["contest", "anna", "p2"] == 1
    assert scores(tmp_path)["contest", "bert", "p2"] == 2
    # two requests a video, and two for all videos of a prompt
    assert len(marker.seen) == 2 * 4 + 2 * 2
    # what lacks its weights is a row with the reason; p2 is not for it
    heavy = [row for row in rows(tmp_path) if row.dimension == "heavy"]
    assert [(row.model, row.failure, row.score) for row in heavy] == [
        ("anna", "prerequisite_missing", None),
        ("bert", "prerequisite_missing", None),
    ]
    assert "fetch them" in heavy[0].message
    assert "fetch them" in outcome["heavy"].stopped
    assert result.exit_code == 3
    again = suite_inline(given)
    assert len(marker.seen) == 12
    assert by_name(again)["beauty"].found_before == 4
    assert len(rows(tmp_path)) == 14
    paid = [row for row in rows(tmp_path) if row.dimension == "beauty"]
    assert all((row.calls, row.tokens_in, row.tokens_out) == (2, 200, 40) for row in paid)
    assert all(row.cost_usd is None for row in paid), "a model without a price costs nobody knows what"
    # what is scored as a variant stands apart
    suite_inline(given.model_copy(update={"variant": "one", "dimensions": ("length",)}))
    held = ScoresStore(Store.open(tmp_path / "store"))
    assert held.suites() == ["planted", "planted+one"]
    assert {row.dimension for row in held.rows("planted+one")} == {"length"}
    assert len(rows(tmp_path)) == 14


def test_files_that_do_not_fit_are_said_and_the_rest_goes_on(
    tmp_path: Path, films: Path, planted_suite: Path, marker: FaultyServer, ffmpeg: str
) -> None:
    videos = tmp_path / "videos"
    (videos / "x").mkdir(parents=True)
    good = videos / "x" / "good.mp4"
    good.write_bytes((films / "anna" / "0.mp4").read_bytes())
    (videos / "x" / "copy.mp4").write_bytes(good.read_bytes())
    (videos / "x" / "text.mp4").write_text("no video")
    still = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:r=8", "-frames:v", "1"]
    subprocess.run([*still, "-c:v", "libx264", str(videos / "x" / "still.mp4")], check=True)
    (tmp_path / "secret.mp4").write_bytes(good.read_bytes())
    lines = [
        {"model": "anna", "prompt_id": "p1", "file": "x/good.mp4"},
        {"model": "bert", "prompt_id": "p1", "file": "x/copy.mp4"},
        {"model": "carl", "prompt_id": "p1", "file": "x/text.mp4"},
        {"model": "dora", "prompt_id": "p1", "file": "x/still.mp4"},
        {"model": "emil", "prompt_id": "p1", "file": "x/gone.mp4"},
        {"model": "finn", "prompt_id": "p1", "file": "../secret.mp4"},
        {"model": "anna", "prompt_id": "p1", "file": "x/copy.mp4"},
        {"model": "anna", "prompt_id": "p9", "file": "x/good.mp4"},
        {"model": "", "prompt_id": "p1", "file": "x/good.mp4"},
        {"model": "anna", "prompt_id": "p1", "file": "x/good.mp4", "sample": "first"},
    ]
    (videos / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    prompts = tmp_path / "prompts.csv"
    prompts.write_text(
        "prompt_id,text,dimensions\np1,A ball,length contest beauti\np2,A box,\np1,Twice,\n,No id,\n"
    )
    result = suite_inline(options(tmp_path, videos, prompts, marker))
    reasons = sorted(one.reason for one in result.left_out)
    assert reasons == [
        *("duplicate_id", "duplicate_id", "malformed_row", "malformed_row", "malformed_row"),
        *("no_such_prompt", "prompt_without_video", "unknown_dimension", "unsafe_path", "video_missing"),
    ]
    outcome = scores(tmp_path)
    # the copy of a video has its score; a video of one frame has one
    assert [outcome["length", model, "p1"] for model in ("anna", "bert", "dora")] == [8, 8, 1]
    failed = {(row.dimension, row.model): row.failure for row in rows(tmp_path) if row.failure}
    assert failed == {("length", "carl"): "video_unreadable", ("contest", "carl"): "video_unreadable"}
    # who cannot be read takes no part in the batch
    assert asked_for(marker.seen[0].body)["videos"] == ["anna", "bert", "dora"]
    assert [outcome["contest", model, "p1"] for model in ("anna", "bert", "dora")] == [1, 2, 4]
    copy = next(row for row in rows(tmp_path) if (row.dimension, row.model) == ("length", "bert"))
    assert json.loads(copy.details) == {"scored_for": "anna/p1#0"}
    assert copy.cost_usd == 0


def test_answers_outside_the_scale_and_for_other_videos_are_rows(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path
) -> None:
    def plan(_number: int, body: dict[str, Any]) -> Reply:
        asked = asked_for(body)
        return Reply(json.dumps({"scores": [9] if asked["dimension"] == "beauty" else [3]}))

    with FaultyServer(plan) as server:
        outcome = by_name(suite_inline(options(tmp_path, films, prompts, server)))
    assert dict(outcome["beauty"].failures) == {"not_understood": 4}
    assert dict(outcome["contest"].failures) == {"not_understood": 4}
    assert outcome["length"].scored == 4
    output = {row.dimension: row.message for row in rows(tmp_path) if row.failure}
    assert "9.0 is outside the scale from 1 to 5" in output["beauty"]
    assert "are not 2 scores" in output["contest"]


def test_a_copy_of_a_video_fails_as_the_video_does_and_is_not_asked_about(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path
) -> None:
    manifest = tmp_path / "manifest.csv"
    manifest.write_text("model,prompt_id,file\nanna,p1,anna/0.mp4\nbert,p1,anna/0.mp4\n")
    with FaultyServer([Reply(json.dumps({"scores": [9]}))]) as server:
        more = {"manifest": str(manifest), "dimensions": ("beauty",)}
        given = options(tmp_path, films, prompts, server, **more)
        for _ in range(2):
            outcome = by_name(suite_inline(given))["beauty"]
            assert (dict(outcome.failures), outcome.left) == ({"not_understood": 2}, 0)
        assert len(server.seen) == 2


def test_a_server_that_is_down_harms_no_other_dimension_and_is_asked_again(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path, marker: FaultyServer
) -> None:
    with FaultyServer(answers) as gone:
        pass
    down = by_name(suite_inline(options(tmp_path, films, prompts, gone)))
    assert dict(down["beauty"].failures) == {"server_down": 4}
    assert down["length"].scored == 4
    up = by_name(suite_inline(options(tmp_path, films, prompts, marker)))
    assert up["beauty"].scored == up["contest"].scored == 4
    assert up["length"].found_before == 4


def test_only_what_is_missing_is_checked_and_weights_are_named_before_a_gpu(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(tmp_path, films, prompts, None, dimensions=("length",))
    assert by_name(suite_inline(given))["length"].scored == 4

    def away(_scorer: object) -> None:
        raise PrerequisiteError("the server is away")

    monkeypatch.setattr(sys.modules["planted_suite_code"].Length, "check", away)
    again = suite_inline(given)
    assert (by_name(again)["length"].stopped, again.exit_code) == ("", 0)
    fresh = suite_inline(given.model_copy(update={"store": str(tmp_path / "fresh")}))
    assert (by_name(fresh)["length"].stopped, fresh.exit_code) == ("the server is away", 3)
    # a laptop without a GPU
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(sys.modules["planted_suite_code"].Heavy, "pool", "h100")
    heavy = given.model_copy(update={"dimensions": ("heavy",), "allow_cpu_models": False})
    assert "fetch them" in by_name(suite_inline(heavy))["heavy"].stopped
    monkeypatch.setattr(sys.modules["planted_suite_code"].Heavy, "check", lambda _scorer: None)
    stopped = by_name(suite_inline(heavy.model_copy(update={"store": str(tmp_path / "other")})))[
        "heavy"
    ].stopped
    assert "no GPU is visible" in stopped
    assert "[pools." not in stopped


def test_a_dimension_that_cannot_even_be_made_becomes_rows_and_the_rest_goes_on(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path, marker: FaultyServer
) -> None:
    code = planted_suite / "planted_suite_code.py"
    made = 'raise PrerequisiteError("the profile names no server")\n        return AskingScorer(found'
    code.write_text(code.read_text().replace("return AskingScorer(found", made))
    result = suite_inline(options(tmp_path, films, prompts, marker))
    outcome = by_name(result)
    assert dict(outcome["beauty"].failures) == {"prerequisite_missing": 4}
    assert outcome["length"].scored == 4
    assert {row.message for row in rows(tmp_path) if row.dimension == "beauty"} == {
        "the profile names no server"
    }
    count = len(rows(tmp_path))
    suite_inline(options(tmp_path, films, prompts, marker))
    assert len(rows(tmp_path)) == count


def test_a_dry_run_says_what_then_happens(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path, marker: FaultyServer
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[models.tiny]\ninput_per_million = 1000\noutput_per_million = 0\n")
    given = options(tmp_path, films, prompts, marker, prices=str(prices))
    run = SuiteRun(given, RequestProgress(quiet=True))
    run.prepare(ask_servers=False)
    output = {row.dimension: row for row in run.estimate()}
    assert not marker.seen
    assert not (tmp_path / "store" / "suites").exists()
    beauty, contest = output["beauty"], output["contest"]
    assert (beauty.cost.calls, beauty.calls_per_video, beauty.cost.images, beauty.cost.usd) == (8, 2, 16, 0.8)
    assert (contest.cost.calls, contest.calls_per_video, contest.cost.images, contest.cost.usd) == (
        4,
        1,
        16,
        0.4,
    )
    assert output["length"].cost.calls is None
    assert output["length"].videos == 4
    sampled = {row.dimension: row for row in run.estimate(sample=1)}
    assert sampled["beauty"] == beauty
    suite_inline(given)
    assert len(marker.seen) == beauty.cost.calls + contest.cost.calls
    assert sum(row.cost_usd or 0 for row in rows(tmp_path)) > 0
    after = SuiteRun(given, RequestProgress(quiet=True))
    after.prepare(ask_servers=False)
    assert [row.dimension for row in after.estimate()] == ["heavy"]


def test_a_limit_ends_what_is_paid_for_and_the_next_run_goes_on(
    tmp_path: Path,
    films: Path,
    prompts: Path,
    planted_suite: Path,
    marker: FaultyServer,
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[models.tiny]\ninput_per_million = 1000\noutput_per_million = 0\n")
    given = options(tmp_path, films, prompts, marker, prices=str(prices), settings={"tokens": 100})
    result = suite_inline(given.model_copy(update={"limits": Limits(usd=0.65)}))
    outcome = by_name(result)
    assert 0 < outcome["beauty"].scored < 4
    assert outcome["beauty"].left
    assert "limit of" in outcome["beauty"].stopped
    # dimensions go through the prompts side by side, so that both are cut short
    assert outcome["contest"].scored < 4
    assert outcome["length"].scored == 4
    assert result.exit_code == 3
    spent = sum(row.cost_usd or 0.0 for row in rows(tmp_path))
    assert spent <= 0.65
    before = len(marker.seen)
    assert by_name(suite_inline(given))["contest"].scored == 4
    assert len(marker.seen) == 12
    assert before < 12


def test_the_mini_split_is_drawn_with_its_seed(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path, marker: FaultyServer
) -> None:
    def drawn(seed: int) -> list[str]:
        run = SuiteRun(
            options(tmp_path, films, prompts, marker, mini=1, seed=seed), RequestProgress(quiet=True)
        )
        run.prepare(ask_servers=False)
        return [unit.prompt.prompt_id for part in run.parts for unit in part.units]

    assert drawn(1) == drawn(1)
    assert len(drawn(1)) == 2 + 2 + 1 + 2
    assert len({tuple(drawn(seed)) for seed in range(6)}) > 1


def test_wrong_names_are_said(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path, marker: FaultyServer
) -> None:
    for more, output in (
        ({"dimensions": ("beautty",)}, "no dimension 'beautty'"),
        ({"generators": ("zoe",)}, "no model 'zoe': it has anna, bert"),
        ({"settings": {"thread": 2}}, "did you mean threads"),
        ({"fps": "fast"}, "fps is 'fast'"),
        ({"prompt_suite": str(tmp_path / "none.csv")}, "cannot be read"),
        ({"videos": str(tmp_path / "none")}, "there is no folder"),
        ({"videos": str(tmp_path)}, "suite manifest --videos"),
    ):
        with pytest.raises(UserInputError, match=output):
            suite_inline(options(tmp_path, films, prompts, marker).model_copy(update=more))
    (tmp_path / "bare.csv").write_text("prompt_id\np1\n")
    with pytest.raises(UserInputError, match="has no column text"):
        suite_inline(options(tmp_path, films, tmp_path / "bare.csv", marker))


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_paid_twice_after_a_kill_or_an_interrupt(
    tmp_path: Path, films: Path, prompts: Path, planted_suite: Path, end: signal.Signals
) -> None:
    def slowly(number: int, body: dict[str, Any]) -> Reply:
        return Reply(answers(number, body).text, delay_s=0.3)

    with FaultyServer(slowly) as server:
        profile = tmp_path / "site.toml"
        profile.write_text(f'allow_cpu_models = true\n[model_servers]\ns = "{server.url}"\n')
        words = [sys.executable, "-m", "slvmeval", "suite", "planted", "--videos", str(films), "--json"]
        words += [
            "--prompt-suite",
            str(prompts),
            "--store",
            str(tmp_path / "store"),
            "--profile",
            str(profile),
        ]
        words += ["--direct", "--workers", "1", "--quiet", "--dimension", "beauty", "--dimension", "contest"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _wait(lambda: len(server.seen) >= 6)
        others = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, end)
        process.communicate()
        # the worker ends by itself when its parent is gone
        _wait(lambda: not any(map(_lives, others)))
        _wait(lambda: server.in_flight == 0)
        kept = sum(
            len(path.read_text().splitlines()) for path in (tmp_path / "store/suites/answers").glob("*.jsonl")
        )
        before = len(server.seen)
        assert 0 < kept < 12
        ended = subprocess.run(words, capture_output=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stderr
        assert all(one["scored"] == 4 for one in json.loads(ended.stdout)["dimensions"])
        # what was answered and kept is not asked again; the one request under way is
        assert len(server.seen) - before == 12 - kept
        assert before - kept <= 1
    assert len(rows(tmp_path)) == 8
    assert all(row.score is not None for row in rows(tmp_path))


@pytest.mark.slow
def test_a_video_that_kills_its_process_is_a_row_and_the_others_are_scored(
    tmp_path: Path,
    films: Path,
    prompts: Path,
    planted_suite: Path,
    marker: FaultyServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEADLY", "anna/p2#0")
    with RequestProgress(quiet=True) as progress:
        run = SuiteRun(options(tmp_path, films, prompts, marker, dimensions=("length",)), progress)
        run.prepare()
        outcome = by_name(run.run(lambda pools: SuiteExecutor(1, pools)))["length"]
    assert (outcome.scored, dict(outcome.failures)) == (3, {"internal_error": 1})
    (failed,) = [row for row in rows(tmp_path) if row.failure]
    assert (failed.model, failed.prompt_id) == ("anna", "p2")
    assert "died" in failed.message


def _lives(process: psutil.Process) -> bool:
    try:
        # nobody may have collected what is left of it, but it has ended
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait(reached: Any, most_s: float = 60.0) -> None:
    until = time.monotonic() + most_s
    while not reached():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)
