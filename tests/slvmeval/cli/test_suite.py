"""`suite` as a person types it: a manifest, a dry run, scores, a leaderboard, agreement, variants."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from storage_schemas.suite_score import SuiteScore
from tasks.extras.video_bench.dimensions import BY_NAME
from tasks.scoring.suites.human_agreement import alpha_with_machine
from tasks.scoring.suites.human_ratings import Rating, VideoKey
from tasks.scoring.suites.score_store import ScoresStore
from tests.flows.prefect_servers import prefect_home
from tests.slvmeval.cli.running import Run
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer

pytestmark = pytest.mark.usefixtures("figures_unsaved")

RATINGS = "model,prompt_id,dimension,rater,rating"


def read(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_suite_goes_from_a_folder_to_a_leaderboard(
    tmp_path: Path, ffmpeg: str, planted_suite: Path, marker: FaultyServer, run: Run
) -> None:
    videos = tmp_path / "videos"
    for number, model in enumerate(("anna", "bert")):
        short_film(ffmpeg, videos / model / f"{number}.mp4", 1.0 + number, number * 90)
    run("init", videos, "--kind", "manifest")
    manifest = videos / "manifest.csv"
    assert manifest.read_text().splitlines()[1:] == ["anna,,0,anna/0.mp4", "bert,,0,bert/1.mp4"]
    run("init", videos, "--kind", "manifest", code=1)
    prompts = tmp_path / "prompts.csv"
    prompts.write_text("prompt_id,text,dimensions\np1,A ball,length;beauty;contest\n")
    profile = tmp_path / "site.toml"
    profile.write_text(f'[model_servers]\ns = "{marker.url}"\n')
    store = ("--store", tmp_path / "store")
    words = ["suite", "run", "planted", "--videos", videos, "--prompt-suite", prompts, *store, "--quiet"]
    words += ["--profile", profile]
    direct = (*words, "--direct", "--workers", "1")
    # nobody guesses the prompt
    assert "prompt_id is empty" in run(*words, code=1).err
    manifest.write_text(manifest.read_text().replace(",,", ",p1,"))
    rows = {row["dimension"]: row for row in run(*words, "--dry-run", "--format", "json").json["rows"]}
    assert (rows["beauty"]["calls"], rows["beauty"]["calls_per_video"]) == (4, 2)
    assert rows["length"]["calls"] is None
    assert "unknown" in run(*words, "--dry-run").out
    assert not marker.seen
    summary = tmp_path / "summary.json"
    assert "A planted suite: 2 videos" in run(*direct, "--summary", summary).out
    scored = {one["dimension"]: one["scored"] for one in json.loads(summary.read_text())["dimensions"]}
    assert scored == {"length": 2, "beauty": 2, "contest": 2, "heavy": 0}
    assert "nothing left to score" in run(*words, "--dry-run").out
    board = tmp_path / "board"
    run("suite", "leaderboard", "--out", board, *store)
    lines = {row["model"]: row for row in read(board / "leaderboard.csv")}
    assert (lines["bert"]["rank"], lines["anna"]["rank"], lines["bert"]["length"]) == ("1", "2", "16.0")
    assert (board / "index.html").is_file()
    for name in ("scores.csv", "scores.jsonl", "scores.parquet"):
        printed = run("suite", "leaderboard", "--scores", tmp_path / name, "--out", board, *store).out
        assert "6 scores" in printed
    run("suite", "leaderboard", "--scores", tmp_path / "scores.xls", "--out", board, *store, code=1)
    assert json.loads((tmp_path / "scores.jsonl").read_text().splitlines()[0])["suite"] == "planted"
    # a blur is another set of scores, kept apart
    run(*direct, "--set", "blur=1", "--dimension", "beauty")
    assert ScoresStore(Store.open(tmp_path / "store")).suites() == ["planted", "planted+blur1"]


@pytest.mark.slow
def test_suite_is_a_flow_unless_it_is_direct(
    tmp_path: Path, ffmpeg: str, planted_suite: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", prefect_home(tmp_path))
    short_film(ffmpeg, tmp_path / "videos" / "anna.mp4", 1.0, 0)
    (tmp_path / "videos" / "manifest.csv").write_text("model,prompt_id,file\nanna,p1,anna.mp4\n")
    (tmp_path / "prompts.csv").write_text("prompt_id,text\np1,A ball\n")
    words = ["suite", "run", "planted", "--videos", tmp_path / "videos", "--store", tmp_path / "store"]
    words += ["--prompt-suite", tmp_path / "prompts.csv", "--dimension", "length", "--quiet"]
    assert "A planted suite: 1 video" in run(*words, "--workers", "1", "--set", "blur=1").out
    assert ScoresStore(Store.open(tmp_path / "store")).suites() == ["planted+blur1"]


def suite_score(suite: str, dimension: str, number: int, score: float | None, **more: Any) -> SuiteScore:
    """A score of the video of model `a` to prompt `p{number}`."""
    fixed = {"settings": "s", "model": "a", "prompt_id": f"p{number}", "video": "v", "at": "2026-01-01"}
    key = f"{suite}{dimension}{number}{more}"
    given = {"key": key, "suite": suite, "dimension": dimension, "score": score}
    return SuiteScore.model_validate({**fixed, **given, **more})


@pytest.fixture
def scored(tmp_path: Path) -> list[str]:
    """A store with scores of two dimensions of the planted suite, twice, and once blurred."""
    rows = []
    for number in range(8):
        for suite, repeat in (("planted", 0), ("planted", 1), ("planted+blur1", 0)):
            rows.append(suite_score(suite, "beauty", number, number % 5 + 1, repeat=repeat))
            rows.append(suite_score(suite, "contest", number, 5 - number % 5, repeat=repeat))
    ScoresStore(Store.create(tmp_path / "store")).add(rows)
    return ["--store", str(tmp_path / "store")]


def test_alignment_with_people(tmp_path: Path, planted_suite: Path, scored: list[str], run: Run) -> None:
    ratings = tmp_path / "ratings.csv"
    lines = [f"a,p{number},beauty,{rater},{number % 5 + 1}" for number in range(8) for rater in ("r1", "r2")]
    ratings.write_text("\n".join([RATINGS, *lines, "a,p0,beauty,r3,0", ""]))
    out = tmp_path / "out"
    printed = run("suite", "alignment", "--ratings", ratings, "--out", out, *scored, code=3).out
    assert "0 is outside the scale from 1 to 5" in printed
    rows = {row["dimension"]: row for row in read(out / "alignment.csv")}
    beauty = rows["Beauty"]
    assert (beauty["ratings"], beauty["spearman"], beauty["people_alpha"]) == ("16", "1.0", "1.0")
    assert (beauty["difference"], beauty["total_agreement"], beauty["blur_error"]) == ("0.0", "1.0", "0.0")
    assert (rows["Contest"]["ratings"], rows["Contest"]["spearman"]) == ("0", "")
    names = {path.name for path in out.iterdir()}
    assert names >= {f"alignment.{end}" for end in ("md", "tex", "svg", "pdf")}


def test_alignment_names_rated_videos_without_a_score(tmp_path: Path, planted_suite: Path, run: Run) -> None:
    silent = {"failure": Failure.NO_ANSWER, "message": "it was silent"}
    scores = [suite_score("planted", "beauty", number, number + 1) for number in range(3)]
    scores.append(suite_score("planted", "beauty", 3, None, **silent))
    ScoresStore(Store.create(tmp_path / "store")).add(scores)
    given = [f"a,p{number},beauty,{rater},{number + 1}" for number in range(3) for rater in ("r1", "r2")]
    lines = ["a,p3,beauty,r1,4", *(f"a,p{number},beauty,r1,1" for number in range(4, 8))]
    lines += ["a,p4,beauty,r2,1", "a,p0,contest,r1,2", "a,p0,beauty,r3,0"]
    ratings, out = tmp_path / "ratings.csv", tmp_path / "out"
    words = ("suite", "alignment", "--ratings", ratings, "--out", out, "--store", tmp_path / "store")
    ratings.write_text("\n".join([RATINGS, *given, ""]))
    run(*words)
    assert read(out / "alignment-left-out.csv") == []
    ratings.write_text("\n".join([RATINGS, *given, *lines, ""]))
    output = run(*words, code=3).text
    assert "beauty: 5 rated videos without a score: a/p3#0, a/p4#0, a/p5#0, …" in output
    assert "contest: 1 rated video without a score: a/p0#0" in output
    problems = read(out / "alignment-left-out.csv")
    assert [(row["where"], row["reason"]) for row in problems] == [
        ("line 15", "invalid_rating"),
        *((f"a/p{number}#0 in beauty", "no_score") for number in range(3, 8)),
        ("a/p0#0 in contest", "no_score"),
    ]
    assert "it failed with no_answer: it was silent" in problems[1]["message"]
    assert problems[2]["message"].startswith("2 ratings of a video")
    assert "not scored" in problems[2]["message"]
    (row,) = read(out / "alignment.csv")
    # what is left out changes nothing for the others
    assert (row["videos"], row["ratings"], row["spearman"]) == ("3", "6", "1.0")


def test_alignment_page_shows_the_videos_on_which_both_differ_most(
    tmp_path: Path,
    planted_suite: Path,
    film_maker: Callable[[int], Path],
    run: Run,
) -> None:
    folder, out = tmp_path / "videos", tmp_path / "out"
    folder.mkdir()
    (folder / "one.mp4").write_bytes(film_maker(0).read_bytes())
    (folder / "manifest.csv").write_text("model,prompt_id,file\na,p0,one.mp4\na,p1,one.mp4\n")
    (tmp_path / "prompts.csv").write_text("prompt_id,text\np0,A <b>red</b> ball.\np1,A box.\np2,-\n")
    entries = [
        {"video": 1, "reason": "Of another.", "score": 2},
        {"video": 2, "reason": "<i>Flat.</i>", "score": 1},
    ]
    steps = [{"step": "few-shot", "model": "m", "answer": {"scores": entries}}]
    digest = sha256((folder / "one.mp4").read_bytes()).hexdigest()
    told = {"video": digest, "details": json.dumps({"conversation": steps, "video": 2})}
    # the file is another one than was scored; and on the third both agree
    scores = [suite_score("planted", "beauty", number, score) for number, score in ((1, 4), (2, 3))]
    scores.append(suite_score("planted", "beauty", 0, 1, **told))
    ScoresStore(Store.create(tmp_path / "store")).add(scores)
    people = ((0, 5), (1, 3), (2, 3))
    rows = [f"a,p{number},beauty,r{rater},{value}" for number, value in people for rater in (1, 2)]
    (tmp_path / "ratings.csv").write_text("\n".join([RATINGS, *rows, ""]))
    words = ["suite", "alignment", "--ratings", tmp_path / "ratings.csv", "--out", out]
    words += ["--store", tmp_path / "store"]
    said = run(*words, "--videos", folder, "--prompt-suite", tmp_path / "prompts.csv").text
    assert "a/p1#0: the file is no longer the one that was scored" in said
    page = (out / "differences.html").read_text()
    (name,) = [path.relative_to(out).as_posix() for path in (out / "videos").iterdir()]
    for shown in (f'<video src="{name}"', "&lt;i&gt;Flat.&lt;/i&gt;", "A &lt;b&gt;red&lt;/b&gt; ball."):
        assert shown in page
    assert page.count("<article") == 2
    assert "Of another." not in page
    found = [(row["prompt_id"], row["difference"], row["reason"]) for row in read(out / "differences.csv")]
    assert found == [("p0", "-4.0", "<i>Flat.</i>"), ("p1", "1.0", "")]
    # a second run without the videos takes their copies away
    run(*words)
    assert not (out / "videos").exists()


def test_correlations_of_dimensions(tmp_path: Path, planted_suite: Path, scored: list[str], run: Run) -> None:
    prompts = tmp_path / "prompts.jsonl"
    given = [
        {
            "prompt_id": f"p{number}",
            "text": "x",
            "theme": "nature" if number % 2 else "city/night",
            "details": {"complexity": {"semantic": number % 5}},
        }
        for number in range(8)
    ]
    prompts.write_text("".join(json.dumps(one) + "\n" for one in given))
    out = tmp_path / "out"
    words = ("suite", "correlations", "--prompt-suite", prompts, "--out")
    run(*words, out, *scored)
    (row,) = read(out / "correlations.csv")
    assert (row["first"], row["second"], row["spearman"], row["videos"]) == ("Beauty", "Contest", "-1.0", "8")
    correlations = {row["second"]: row["pearson"] for row in read(out / "correlations-complexity.csv")}
    assert correlations == {"Beauty": "1.0", "Contest": "-1.0"}
    names = {path.name for path in out.iterdir()}
    assert {"themes.csv", "correlations-theme-city-night.tex", "correlations.svg"} <= names
    # the same from a file that holds the same scores, without a store
    file, other = tmp_path / "scores.parquet", tmp_path / "other"
    run("suite", "leaderboard", "--scores", file, "--out", tmp_path / "board", *scored)
    run(*words, other, "--scores", file)
    for name in ("correlations.csv", "themes.csv"):
        assert (other / name).read_text() == (out / name).read_text()


def test_correlations_of_any_table(tmp_path: Path, run: Run) -> None:
    table, out, prompts = tmp_path / "table.csv", tmp_path / "out", tmp_path / "prompts.csv"
    x, y = [1.0, 2.0, 3.0, 4.0, 5.0, 5.0], [2.0, 1.0, 4.0, 3.0, 7.0, 6.0]
    lines = ["model,prompt_id,dimension,score,seen by"]
    for number, (sharp, calm) in enumerate(zip(x, y, strict=True)):
        lines += [f"m,p{number},sharp,{sharp},me", f"m,p{number},calm,{calm},me"]
    # a dimension that failed takes no part
    table.write_text("\n".join([*lines, "m,p9,sharp,3,me", "m,p9,calm,,me", ""]))
    # themes whose files' names would be the same
    rows = [f"p{number},text,{('Sci-Fi', 'sci fi')[number % 2]}" for number in range(6)]
    prompts.write_text("\n".join(["prompt_id,text,theme", *rows, ""]))
    words = ("suite", "correlations", "--out", out, "--scores")
    run(*words, table, "--prompt-suite", prompts)
    (row,) = read(out / "correlations.csv")
    assert (row["first"], row["second"], row["videos"]) == ("calm", "sharp", "6")
    assert float(row["pearson"]) == pytest.approx(stats.pearsonr(x, y).statistic)
    assert float(row["spearman"]) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert float(row["kendall"]) == pytest.approx(stats.kendalltau(x, y).statistic)
    titles = [path.read_text() for path in sorted(out.glob("correlations-theme-*.md"))]
    assert len(titles) == 2
    assert any("Sci-Fi" in text for text in titles)
    categories = tmp_path / "categories.csv"
    categories.write_text("theme,category\nSci-Fi,Fiction\n")
    printed = run(*words, table, "--prompt-suite", prompts, "--categories", categories)
    assert "no table by category" in printed.err
    for line, message in (
        ("m,p0,calm,2,me", "already"),
        ("m,p8,calm,much,me", "score: "),
        ("m,p8,calm,nan,me", "not a number"),
        ("m,,calm,2,me", "has no prompt_id"),
    ):
        table.write_text("\n".join([*lines, line, ""]))
        assert message in run(*words, table, code=1).error
    run(*words, tmp_path / "x.parquet", code=1)


def test_suite_commands_without_scores_say_so(tmp_path: Path, planted_suite: Path, run: Run) -> None:
    Store.create(tmp_path / "store")
    store = ("--store", tmp_path / "store")
    board = ("--out", tmp_path / "out", *store)
    assert "there are no scores" in run("suite", "leaderboard", *board, code=1).err
    none_of_it = run("suite", "leaderboard", "planted", *board, code=1)
    assert "there are no scores of planted" in none_of_it.err
    assert not (tmp_path / "out").exists()
    assert "did you mean planted" in run("suite", "leaderboard", "planed", *board, code=1).err
    assert "planted_suite_code:Planted" in run("list", "suites", "planted").out
    run("suite", "run", "planted", "--help")


# -- variants beside the suite, baselines beside dimensions ----------------------------------------------

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


def test_alignment_has_variants_beside_a_suite(store: Path, ratings: Path, tmp_path: Path, run: Run) -> None:
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
