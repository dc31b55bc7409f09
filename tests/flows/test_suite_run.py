"""A suite from files to scores: what goes in, what is paid, what resumes after a failure, limit or kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
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
from tests.flows.prefect_servers import wait_for
from tests.inline import suite_inline
from tests.planted_suites import answers, asked_for
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer, Reply

PROMPTS = [
    {"prompt_id": "p1", "text": "A red ball rolls.", "details": {"weight": 1}},
    {"prompt_id": "p2", "text": "A blue box stands.", "dimensions": ["length", "beauty", "contest"]},
]
ROWS = [("anna", "p1", 1.0, 0), ("bert", "p1", 2.0, 40), ("anna", "p2", 1.5, 80), ("bert", "p2", 0.5, 120)]
PRICES = "[models.tiny]\ninput_per_million = 1000\noutput_per_million = 0\n"


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


class Scored:
    """The planted suite on the films, and the scores in its store."""

    def __init__(self, folder: Path, films: Path, code: Path) -> None:
        self.folder, self.films, self.code = folder, films, code / "planted_suite_code.py"
        self.prompts = folder / "prompts.jsonl"
        self.prompts.write_text("".join(json.dumps(row) + "\n" for row in PROMPTS))

    def options(self, server: FaultyServer | None = None, **more: Any) -> SuiteOptions:
        given = {"store": str(self.folder / "store"), "suite": "planted", "videos": str(self.films)}
        servers = {} if server is None else {"s": {"url": server.url, "patience_s": 0.2}}
        more = {"prompt_suite": str(self.prompts), "model_servers": servers, "allow_cpu_models": True} | more
        return SuiteOptions.model_validate(given | more)

    def run(self, server: FaultyServer | None = None, **more: Any) -> dict[str, Any]:
        """Return what became of each dimension."""
        return by_name(suite_inline(self.options(server, **more)))

    def change(self, before: str, after: str) -> None:
        """Change a place in the code of the suite."""
        text = self.code.read_text()
        assert text.count(before) == 1
        self.code.write_text(text.replace(before, after))

    def rows(self, dimension: str = "") -> list[SuiteScore]:
        rows = ScoresStore(Store.open(self.folder / "store")).rows("planted")
        return [row for row in rows if dimension in ("", row.dimension)]

    def scores(self) -> dict[tuple[str, str, str], float | None]:
        return {(row.dimension, row.model, row.prompt_id): row.score for row in self.rows()}


@pytest.fixture
def scored(tmp_path: Path, films: Path, planted_suite: Path) -> Scored:
    return Scored(tmp_path, films, planted_suite)


def by_name(result: SuiteResult) -> dict[str, Any]:
    return {one.dimension: one for one in result.dimensions}


def test_suite_scores_what_can_be_scored_and_never_twice(scored: Scored, marker: FaultyServer) -> None:
    given = scored.options(marker)
    result = suite_inline(given)
    outcome = by_name(result)
    assert [outcome[name].scored for name in ("length", "beauty", "contest")] == [4, 4, 4]
    scores = scored.scores()
    # films of 8 frames a second
    assert (scores["length", "bert", "p1"], scores["length", "bert", "p2"]) == (16, 4)
    assert (scores["contest", "anna", "p2"], scores["contest", "bert", "p2"]) == (1, 2)
    # two requests a video, and two for all videos of a prompt
    assert len(marker.seen) == 2 * 4 + 2 * 2
    # what lacks its weights is a row with the reason; p2 is not for it
    heavy = scored.rows("heavy")
    lacking = ("prerequisite_missing", None)
    assert [(row.model, row.failure, row.score) for row in heavy] == [("anna", *lacking), ("bert", *lacking)]
    assert "fetch them" in heavy[0].message
    assert "fetch them" in outcome["heavy"].stopped
    assert result.exit_code == 3
    assert by_name(suite_inline(given))["beauty"].found_before == 4
    assert len(marker.seen) == 12
    assert len(scored.rows()) == 14
    paid = scored.rows("beauty")
    assert all((row.calls, row.tokens_in, row.tokens_out) == (2, 200, 40) for row in paid)
    assert all(row.cost_usd is None for row in paid), "a model without a price costs nobody knows what"
    # what is scored as a variant stands apart
    scored.run(marker, variant="one", dimensions=("length",))
    held = ScoresStore(Store.open(scored.folder / "store"))
    assert held.suites() == ["planted", "planted+one"]
    assert {row.dimension for row in held.rows("planted+one")} == {"length"}
    assert len(scored.rows()) == 14


def test_suite_reports_files_that_do_not_fit_and_scores_the_rest(
    scored: Scored, marker: FaultyServer, ffmpeg: str, tmp_path: Path
) -> None:
    videos = tmp_path / "videos"
    (videos / "x").mkdir(parents=True)
    film = (scored.films / "anna" / "0.mp4").read_bytes()
    for path in ("videos/x/good.mp4", "videos/x/copy.mp4", "secret.mp4"):
        (tmp_path / path).write_bytes(film)
    (videos / "x" / "text.mp4").write_text("no video")
    still = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:r=8", "-frames:v", "1"]
    subprocess.run([*still, "-c:v", "libx264", "-threads", "1", str(videos / "x" / "still.mp4")], check=True)
    good = {"prompt_id": "p1", "file": "x/good.mp4"}
    models = {"bert": "x/copy", "carl": "x/text", "dora": "x/still", "emil": "x/gone", "finn": "../secret"}
    lines: list[dict[str, str]] = [{"model": "anna", **good}]
    lines += [{"model": name, "prompt_id": "p1", "file": f"{file}.mp4"} for name, file in models.items()]
    lines.append({"model": "anna", "prompt_id": "p1", "file": "x/copy.mp4"})
    lines.append({"model": "anna", "prompt_id": "p9", "file": "x/good.mp4"})
    lines += [{"model": "", **good}, {"model": "anna", **good, "sample": "first"}]
    (videos / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    prompts = tmp_path / "prompts.csv"
    rows = (
        "prompt_id,text,dimensions",
        "p1,A ball,length contest beauti",
        "p2,A box,",
        "p1,Twice,",
        ",No id,",
    )
    prompts.write_text("\n".join(rows) + "\n")
    result = suite_inline(scored.options(marker, videos=str(videos), prompt_suite=str(prompts)))
    reasons = sorted(one.reason for one in result.left_out)
    assert reasons == [
        *("duplicate_id", "duplicate_id", "malformed_row", "malformed_row", "malformed_row"),
        *("no_such_prompt", "prompt_without_video", "unknown_dimension", "unsafe_path", "video_missing"),
    ]
    scores = scored.scores()
    # the copy of a video has its score; a video of one frame has one
    assert [scores["length", model, "p1"] for model in ("anna", "bert", "dora")] == [8, 8, 1]
    failed = {(row.dimension, row.model): row.failure for row in scored.rows() if row.failure}
    assert failed == {("length", "carl"): "video_unreadable", ("contest", "carl"): "video_unreadable"}
    # who cannot be read takes no part in the batch
    assert asked_for(marker.seen[0].body)["videos"] == ["anna", "bert", "dora"]
    assert [scores["contest", model, "p1"] for model in ("anna", "bert", "dora")] == [1, 2, 4]
    copy = next(row for row in scored.rows("length") if row.model == "bert")
    assert json.loads(copy.details) == {"scored_for": "anna/p1#0"}
    assert copy.cost_usd == 0


def test_answers_outside_the_scale_and_for_other_videos_are_rows(scored: Scored, tmp_path: Path) -> None:
    def plan(_number: int, body: dict[str, Any]) -> Reply:
        asked = asked_for(body)
        return Reply(json.dumps({"scores": [9] if asked["dimension"] == "beauty" else [3]}))

    with FaultyServer(plan) as server:
        outcome = scored.run(server)
    assert dict(outcome["beauty"].failures) == dict(outcome["contest"].failures) == {"not_understood": 4}
    assert outcome["length"].scored == 4
    output = {row.dimension: row.message for row in scored.rows() if row.failure}
    assert "9.0 is outside the scale from 1 to 5" in output["beauty"]
    assert "are not 2 scores" in output["contest"]
    # a copy of a video fails as the video does, and is not asked about
    manifest = tmp_path / "manifest.csv"
    manifest.write_text("model,prompt_id,file\nanna,p1,anna/0.mp4\nbert,p1,anna/0.mp4\n")
    more = {"manifest": str(manifest), "dimensions": ("beauty",), "store": str(tmp_path / "copies")}
    with FaultyServer(plan) as server:
        for _ in range(2):
            copied = scored.run(server, **more)["beauty"]
            assert (dict(copied.failures), copied.left) == ({"not_understood": 2}, 0)
        assert len(server.seen) == 2


def test_server_that_is_down_harms_no_other_dimension_and_is_asked_again(
    scored: Scored, marker: FaultyServer
) -> None:
    with FaultyServer(answers) as gone:
        pass
    down = scored.run(gone)
    assert dict(down["beauty"].failures) == {"server_down": 4}
    assert down["length"].scored == 4
    up = scored.run(marker)
    assert up["beauty"].scored == up["contest"].scored == up["length"].found_before == 4


def test_suite_checks_only_what_is_missing_and_names_weights_before_a_gpu(
    scored: Scored, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = scored.options(dimensions=("length",))
    assert by_name(suite_inline(given))["length"].scored == 4

    def away(_scorer: object) -> None:
        raise PrerequisiteError("the server is away")

    code = sys.modules["planted_suite_code"]
    monkeypatch.setattr(code.Length, "check", away)
    for store, outcome in (("store", ("", 0)), ("fresh", ("the server is away", 3))):
        result = suite_inline(given.model_copy(update={"store": str(tmp_path / store)}))
        assert (by_name(result)["length"].stopped, result.exit_code) == outcome
    # a laptop without a GPU
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(code.Heavy, "hardware", "gpu")
    heavy: dict[str, Any] = {"dimensions": ("heavy",), "allow_cpu_models": False}
    assert "fetch them" in scored.run(**heavy)["heavy"].stopped
    monkeypatch.setattr(code.Heavy, "check", lambda _scorer: None)
    stopped = scored.run(**heavy, store=str(tmp_path / "other"))["heavy"].stopped
    assert "no GPU is visible" in stopped
    assert "[pools." not in stopped


def test_dimension_that_cannot_be_made_becomes_rows_and_the_rest_continues(
    scored: Scored, marker: FaultyServer
) -> None:
    made = 'raise PrerequisiteError("the profile names no server")\n        return AskingScorer(found'
    scored.change("return AskingScorer(found", made)
    outcome = scored.run(marker)
    assert dict(outcome["beauty"].failures) == {"prerequisite_missing": 4}
    assert outcome["length"].scored == 4
    assert {row.message for row in scored.rows("beauty")} == {"the profile names no server"}
    count = len(scored.rows())
    scored.run(marker)
    assert len(scored.rows()) == count


def test_estimate_says_what_then_happens(scored: Scored, marker: FaultyServer, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    given = scored.options(marker, prices=str(tmp_path / "prices.toml"))
    run = SuiteRun(given, RequestProgress(quiet=True))
    run.prepare(ask_servers=False)
    output = {row.dimension: row for row in run.estimate()}
    assert not marker.seen
    assert not (tmp_path / "store" / "suites").exists()
    for name, expected in (("beauty", (8, 2, 16, 0.8)), ("contest", (4, 1, 16, 0.4))):
        row = output[name]
        assert (row.cost.calls, row.calls_per_video, row.cost.images, row.cost.usd) == expected
    assert (output["length"].cost.calls, output["length"].videos) == (None, 4)
    sampled = {row.dimension: row for row in run.estimate(sample=1)}
    assert sampled["beauty"] == output["beauty"]
    suite_inline(given)
    assert len(marker.seen) == 8 + 4
    assert sum(row.cost_usd or 0 for row in scored.rows()) > 0
    after = SuiteRun(given, RequestProgress(quiet=True))
    after.prepare(ask_servers=False)
    assert [row.dimension for row in after.estimate()] == ["heavy"]


def test_limit_ends_what_is_paid_for_and_the_next_run_continues(
    scored: Scored, marker: FaultyServer, tmp_path: Path
) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    given = scored.options(marker, prices=str(tmp_path / "prices.toml"), settings={"tokens": 100})
    result = suite_inline(given.model_copy(update={"limits": Limits(usd=0.65)}))
    outcome = by_name(result)
    assert 0 < outcome["beauty"].scored < 4
    assert outcome["beauty"].left
    assert "limit of" in outcome["beauty"].stopped
    # dimensions go through the prompts side by side, so that both are cut short
    assert outcome["contest"].scored < 4
    assert outcome["length"].scored == 4
    assert result.exit_code == 3
    assert sum(row.cost_usd or 0.0 for row in scored.rows()) <= 0.65
    assert len(marker.seen) < 12
    assert by_name(suite_inline(given))["contest"].scored == 4
    assert len(marker.seen) == 12


def test_mini_split_is_drawn_with_its_seed(scored: Scored, marker: FaultyServer) -> None:
    def drawn(seed: int) -> list[str]:
        run = SuiteRun(scored.options(marker, mini=1, seed=seed), RequestProgress(quiet=True))
        run.prepare(ask_servers=False)
        return [unit.prompt.prompt_id for part in run.parts for unit in part.units]

    assert drawn(1) == drawn(1)
    assert len(drawn(1)) == 2 + 2 + 1 + 2
    assert len({tuple(drawn(seed)) for seed in range(6)}) > 1


def test_suite_options_with_wrong_names_are_reported(
    scored: Scored, marker: FaultyServer, tmp_path: Path
) -> None:
    (tmp_path / "bare.csv").write_text("prompt_id\np1\n")
    for more, output in (
        ({"dimensions": ("beautty",)}, "no dimension 'beautty'"),
        ({"generators": ("zoe",)}, "no model 'zoe': it has anna, bert"),
        ({"settings": {"thread": 2}}, "did you mean threads"),
        ({"fps": "fast"}, "fps is 'fast'"),
        ({"prompt_suite": str(tmp_path / "none.csv")}, "cannot be read"),
        ({"videos": str(tmp_path / "none")}, "there is no folder"),
        ({"videos": str(tmp_path)}, "--kind manifest"),
        ({"prompt_suite": str(tmp_path / "bare.csv")}, "has no column text"),
        (
            {"suite": "locot2v-bench", "dimensions": ("flicker",)},
            r"^locot2v-bench has no dimension 'flicker': it has ",
        ),
    ):
        with pytest.raises(UserInputError, match=output):
            suite_inline(scored.options(marker).model_copy(update=more))


@pytest.mark.slow
def test_nothing_is_paid_twice_after_a_kill_and_an_interrupt(scored: Scored, tmp_path: Path) -> None:
    def slowly(number: int, body: dict[str, Any]) -> Reply:
        return Reply(answers(number, body).text, delay_s=0.3)

    with FaultyServer(slowly) as server:
        profile, store = tmp_path / "site.toml", tmp_path / "store"
        profile.write_text(f'allow_cpu_models = true\n[model_servers]\ns = "{server.url}"\n')
        given = {"videos": scored.films, "prompt-suite": scored.prompts, "store": store, "profile": profile}
        command = "-m slvmeval suite run planted --format json --direct --workers 1 --quiet"
        words = [sys.executable, *command.split(), "--dimension", "beauty", "--dimension", "contest"]
        words += [word for name, value in given.items() for word in (f"--{name}", str(value))]
        kept = 0
        for kills, end in enumerate((signal.SIGKILL, signal.SIGINT), 1):
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_for(lambda wanted=4 * kills: len(server.seen) >= wanted, 60, "requests")
            others = psutil.Process(process.pid).children(recursive=True)
            os.kill(process.pid, end)
            process.communicate()
            # the worker ends by itself when its parent is gone
            _, left = psutil.wait_procs(others, timeout=60)
            assert [one for one in left if one.status() != psutil.STATUS_ZOMBIE] == []
            wait_for(lambda: server.in_flight == 0, 60, "end of the requests")
            before, answered = kept, (store / "suites/answers").glob("*.jsonl")
            kept = sum(len(path.read_text().splitlines()) for path in answered)
            assert before < kept < 12
            # of each run, the one request under way was paid for nothing
            assert len(server.seen) - kept <= kills
        asked = len(server.seen)
        ended = subprocess.run(words, capture_output=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stderr
        assert all(one["scored"] == 4 for one in json.loads(ended.stdout)["dimensions"])
        # what was answered and kept is not asked again
        assert len(server.seen) - asked == 12 - kept
    assert len(scored.rows()) == 8
    assert all(row.score is not None for row in scored.rows())


@pytest.mark.slow
def test_a_video_that_kills_its_process_is_a_row_and_the_others_are_scored(
    scored: Scored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEADLY", "anna/p2#0")
    with RequestProgress(quiet=True) as progress:
        run = SuiteRun(scored.options(dimensions=("length",)), progress)
        run.prepare()
        outcome = by_name(run.run(lambda pools: SuiteExecutor(1, pools)))["length"]
    assert (outcome.scored, dict(outcome.failures)) == (3, {"internal_error": 1})
    (failed,) = [row for row in scored.rows() if row.failure]
    assert (failed.model, failed.prompt_id) == ("anna", "p2")
    assert "died" in failed.message
