"""`suite alignment --variant all`: variants beside the suite, baselines beside dimensions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from storage_schemas.store import Store
from storage_schemas.suite_score import SuiteScore
from tasks.extras.video_bench.dimensions import BY_NAME
from tasks.scoring.suites.human_agreement import alpha_with_machine
from tasks.scoring.suites.human_ratings import Rating, VideoKey
from tasks.scoring.suites.score_store import ScoresStore
from tests.slvmeval.cli.running import Run
from tests.slvmeval.cli.test_suite import RATINGS, read

pytestmark = pytest.mark.usefixtures("figures_unsaved")

VIDEOS = [(model, f"p{number}") for model in "ab" for number in range(4)]
#: People's mean ratings are 1, 2, 2, 3, 3, 4, 5, 5.
PEOPLE = dict(zip(VIDEOS, [(1, 1), (1, 3), (2, 2), (3, 3), (3, 3), (3, 5), (5, 5), (5, 5)], strict=True))
SCORES = {
    "video-bench": [1, 2, 3, 3, 3, 4, 5, 4],
    "video-bench+3-shot": [2, 1, 3, 3, 4, 4, 3, 3],
    "video-bench+baselines": [0.1, 0.9, 0.3, 0.2, 0.8, 0.7, 0.4, 0.6],
    "video-bench+mine": [3, 3, 2, 5, 1, 1, 2, 2],
    "video-bench+blur1": [1, 1, 1, 1, 1, 1, 1, 1],
}


def row(suite: str, video: tuple[str, str], score: float | None, **more: Any) -> SuiteScore:
    fixed = {"settings": "s", "dimension": "temporal_consistency", "video": "v", "at": "2026-01-01"}
    prompts = "mine, 12ab" if suite.endswith("mine") else "built-in"
    given = {"suite": suite, "model": video[0], "prompt_id": video[1], "score": score, "prompts": prompts}
    if suite.endswith("baselines"):
        given |= {"details": '{"metric": "semantic_consistency by clip"}', "prompts": ""}
    return SuiteScore.model_validate({"key": f"{suite}{video}{more}", **fixed, **given, **more})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    held = ScoresStore(Store.create(tmp_path / "store"))
    rows = [
        row(suite, video, score)
        for suite, scores in SCORES.items()
        for video, score in zip(VIDEOS, scores, strict=True)
        # the user's own variant lacks a video
        if (suite, video) != ("video-bench+mine", VIDEOS[0])
    ]
    # the suite itself has all dimensions of its group, so it has a mean of the group
    for name in ("imaging_quality", "aesthetic_quality", "motion_effects"):
        rows += [row("video-bench", one, at, dimension=name) for at, one in enumerate(VIDEOS[:4], 1)]
    # nothing of this one was understood
    rows.append(row("video-bench+vain", VIDEOS[0], None, failure="not_understood"))
    held.add(rows)
    return tmp_path / "store"


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    lines = [
        f"{model},{prompt},{dimension},r{rater},{value}"
        for (model, prompt), given in PEOPLE.items()
        for rater, value in enumerate(given)
        for dimension in BY_NAME
        if BY_NAME[dimension].high == 5
    ]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join([RATINGS, *lines, ""]))
    return path


def expected(suite: str, videos: list[tuple[str, str]]) -> float:
    scores = dict(zip(VIDEOS, SCORES[suite], strict=True))
    means = [sum(PEOPLE[video]) / 2 for video in videos]
    return float(stats.spearmanr([scores[video] for video in videos], means).statistic)


def test_alignment_has_variants_beside_the_suite(
    store: Path, ratings: Path, tmp_path: Path, run: Run
) -> None:
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "out"
    kinds = {"p0": "simple", "p1": "simple", "p2": "complex", "p3": "complex"}
    lines = [{"prompt_id": id_, "text": "A ball.", "kind": kind} for id_, kind in kinds.items()]
    prompts.write_text("".join(json.dumps(one) + "\n" for one in lines))
    words = ("suite", "alignment", "--ratings", ratings, "--out", out, "--store", store)
    run(*words, "--variant", "all", "--prompt-suite", prompts)
    table = read(out / "ablations.csv")
    # the paper's in their order, then the user's; a blur is not a variant
    assert [one["variant"] for one in table] == ["", "baselines", "3-shot", "mine"]
    assert [one["title"] for one in table[:3]] == ["Video-Bench", "Metrics of other benchmarks", "3 shots"]
    for one in table:
        suite = f"video-bench+{one['variant']}".rstrip("+")
        videos = VIDEOS[1:] if suite.endswith("mine") else VIDEOS
        assert float(one["temporal_consistency"]) == pytest.approx(expected(suite, videos))
        assert int(one["temporal_consistency_videos"]) == len(videos)
    assert [one["sent"] for one in table] == ["built-in", "", "built-in", "mine, 12ab"]
    # a mean needs all of its dimensions
    means = [one["video quality mean"] for one in table]
    assert means[1:] == ["", "", ""]
    assert float(means[0]) == pytest.approx(
        (3 * float(table[0]["imaging_quality"]) + expected("video-bench", VIDEOS)) / 4
    )
    assert "--common" in (out / "ablations.md").read_text()

    alphas = read(out / "ablations-alpha.csv")
    # a metric on another scale has no α
    assert [one["title"] for one in alphas] == ["people", "Video-Bench", "3 shots", "mine"]
    rated = [
        Rating(VideoKey(model=model, prompt_id=prompt), "temporal_consistency", f"r{rater}", value)
        for (model, prompt), given in PEOPLE.items()
        for rater, value in enumerate(given)
    ]
    scores = dict(zip((one.video for one in rated[::2]), SCORES["video-bench+3-shot"], strict=True))
    alpha = alpha_with_machine((1, 5), rated, {video: float(score) for video, score in scores.items()})
    assert float(alphas[2]["temporal_consistency"]) == pytest.approx(alpha.alpha)

    by_kind = read(out / "ablations-kinds.csv")
    assert [one["kind"] for one in by_kind] == ["complex"] * 4 + ["simple"] * 4
    simple = [video for video in VIDEOS if kinds[video[1]] == "simple"]
    assert float(by_kind[4]["temporal_consistency"]) == pytest.approx(expected("video-bench", simple))

    run(*words, "--common", "--variant", "mine")
    table = read(out / "ablations.csv")
    assert [one["variant"] for one in table] == ["", "mine"]
    assert [one["temporal_consistency_videos"] for one in table] == ["7", "7"]
    assert float(table[0]["temporal_consistency"]) == pytest.approx(expected("video-bench", VIDEOS[1:]))
    # tables of the run before are gone
    assert not (out / "ablations-kinds.csv").exists()
    # one without scores is named with what makes them
    said = run(*words, "--variant", "5-shot", code=1).error
    assert "no scores of variant '5-shot', only of baselines, 3-shot, mine" in said
    assert "`slvmeval suite run video-bench --variant 5-shot` makes them" in said
    # a baseline stands below its dimension in the table of agreement
    run(*words, code=(0, 3))
    table = [one for one in read(out / "alignment.csv") if one["dimension"] == "Temporal consistency"]
    assert [one["metric"] for one in table] == ["", "semantic_consistency by clip"]
    for one, suite in zip(table, ("video-bench", "video-bench+baselines"), strict=True):
        assert float(one["spearman"]) == pytest.approx(expected(suite, VIDEOS))
    # its scale is not people's
    assert (table[1]["machine_alpha"], table[1]["difference"]) == ("", "")


def test_alignment_against_the_paper(tmp_path: Path, store: Path, ratings: Path, run: Run) -> None:
    out, words = tmp_path / "out", ("--store", store, "--against", "paper")
    printed = run(
        "suite", "alignment", "video-bench", "--variant", "all", "--ratings", ratings, "--out", out, *words
    )
    lines = (out / "against.csv").read_text().splitlines()
    (shots,) = [line for line in lines if line.startswith("7,6.7,3-shot,")]
    assert shots.split(",")[3:6:2] == ["Temporal consistency", "0.529"]
    assert "table 2, musiq: not here: not compared" in printed.err
    run("suite", "alignment", "video-bench", "--ratings", ratings, "--out", out, *words, code=3)
    lines = (out / "against.csv").read_text().splitlines()
    assert any(line.startswith("9,D,Temporal consistency,difference,") for line in lines)
    assert any(line.startswith("text,6.2,mean of absolutes,difference,") for line in lines)
    board = tmp_path / "board"
    printed = run("suite", "leaderboard", "video-bench", "--out", board, *words)
    assert (board / "against.csv").is_file()
    assert "table 1, Gen3: not here: not compared" in printed.err
    run("suite", "correlations", "video-bench", "--out", out, *words)
    words = ("--store", store, "--against", "x")
    printed = run("suite", "leaderboard", "video-bench", "--out", out, *words, code=1)
    assert "--against x: No such file" in printed.err
