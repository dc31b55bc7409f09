"""`suite` as a person types it: a manifest, a dry run, scores, a leaderboard, agreement, correlations."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from scipy import stats

from slvmeval.cli.main import main
from storage_schemas.store import Store
from storage_schemas.suite_score import SuiteScore
from tasks.scoring.suites.score_store import ScoresStore
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer

Capture = pytest.CaptureFixture[str]


def test_from_a_folder_to_a_leaderboard(
    tmp_path: Path, ffmpeg: str, planted_suite: Path, marker: FaultyServer, capsys: Capture
) -> None:
    videos = tmp_path / "videos"
    for number, model in enumerate(("anna", "bert")):
        short_film(ffmpeg, videos / model / f"{number}.mp4", 1.0 + number, number * 90)
    assert main(["suite", "manifest", "--videos", str(videos)]) == 0
    manifest = videos / "manifest.csv"
    assert manifest.read_text().splitlines()[1:] == ["anna,,0,anna/0.mp4", "bert,,0,bert/1.mp4"]
    assert main(["suite", "manifest", "--videos", str(videos)]) == 1
    prompts = tmp_path / "prompts.csv"
    prompts.write_text("prompt_id,text,dimensions\np1,A ball,length;beauty;contest\n")
    profile = tmp_path / "site.toml"
    profile.write_text(f'[model_servers]\ns = "{marker.url}"\n')
    store = ["--store", str(tmp_path / "store")]
    words = ["suite", "planted", "--videos", str(videos), "--prompt-suite", str(prompts), *store, "--quiet"]
    words += ["--profile", str(profile)]
    capsys.readouterr()
    # nobody guesses the prompt
    assert main(words) == 1
    assert "prompt_id is empty" in capsys.readouterr().err
    manifest.write_text(manifest.read_text().replace(",,", ",p1,"))
    assert main([*words, "--dry-run", "--json"]) == 0
    rows = {row["dimension"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert (rows["beauty"]["calls"], rows["beauty"]["calls_per_video"], rows["length"]["calls"]) == (
        4,
        2,
        None,
    )
    assert main([*words, "--dry-run"]) == 0
    assert "unknown" in capsys.readouterr().out
    assert not marker.seen
    summary = tmp_path / "summary.json"
    assert main([*words, "--direct", "--workers", "1", "--summary", str(summary)]) == 0
    assert "A planted suite: 2 videos" in capsys.readouterr().out
    values = {one["dimension"]: one for one in json.loads(summary.read_text())["dimensions"]}
    assert {name: one["scored"] for name, one in values.items()} == {
        "length": 2,
        "beauty": 2,
        "contest": 2,
        "heavy": 0,
    }
    assert main([*words, "--dry-run"]) == 0
    assert "nothing is left to score" in capsys.readouterr().out
    board = tmp_path / "board"
    assert main(["suite", "leaderboard", "--out", str(board), *store]) == 0
    with (board / "leaderboard.csv").open() as file:
        lines = {row["model"]: row for row in csv.DictReader(file)}
    assert (lines["bert"]["rank"], lines["anna"]["rank"], lines["bert"]["length"]) == ("1", "2", "16.0")
    assert (board / "index.html").is_file()
    for name, count in (("scores.csv", 6), ("scores.jsonl", 6), ("scores.parquet", 6)):
        capsys.readouterr()
        assert main(["suite", "scores", str(tmp_path / name), *store]) == 0
        assert f"{count} scores" in capsys.readouterr().out
    assert main(["suite", "scores", str(tmp_path / "scores.xls"), *store]) == 1
    assert json.loads((tmp_path / "scores.jsonl").read_text().splitlines()[0])["suite"] == "planted"
    # a blur is another set of scores, kept apart
    assert main([*words, "--direct", "--workers", "1", "--blur", "1", "--dimension", "beauty"]) == 0
    assert ScoresStore(Store.open(tmp_path / "store")).suites() == ["planted", "planted+blur1"]


@pytest.mark.slow
def test_scores_are_made_by_a_flow_unless_it_is_direct(
    tmp_path: Path, ffmpeg: str, planted_suite: Path, capsys: Capture
) -> None:
    short_film(ffmpeg, tmp_path / "videos" / "anna.mp4", 1.0, 0)
    (tmp_path / "videos" / "manifest.csv").write_text("model,prompt_id,file\nanna,p1,anna.mp4\n")
    (tmp_path / "prompts.csv").write_text("prompt_id,text\np1,A ball\n")
    words = ["suite", "planted", "--videos", str(tmp_path / "videos"), "--store", str(tmp_path / "store")]
    words += ["--prompt-suite", str(tmp_path / "prompts.csv"), "--dimension", "length", "--quiet"]
    assert main([*words, "--workers", "1", "--blur", "1"]) == 0
    assert "A planted suite: 1 videos" in capsys.readouterr().out
    assert ScoresStore(Store.open(tmp_path / "store")).suites() == ["planted+blur1"]


@pytest.fixture
def scored(tmp_path: Path) -> list[str]:
    """A store with scores of two dimensions of the planted suite, twice, and once blurred."""
    store = Store.create(tmp_path / "store")
    rows = []
    for number in range(8):
        for suite, repeats in (("planted", 2), ("planted+blur1", 1)):
            for repeat in range(repeats):
                for dimension in ("beauty", "contest"):
                    score = number % 5 + 1 if dimension == "beauty" else 5 - number % 5
                    key = f"{suite}{number}{repeat}{dimension}"
                    rows.append(
                        SuiteScore(
                            key=key,
                            suite=suite,
                            settings="s",
                            dimension=dimension,
                            model="a",
                            prompt_id=f"p{number}",
                            video="v",
                            repeat=repeat,
                            score=score,
                            at="2026-01-01",
                        )
                    )
    ScoresStore(store).add(rows)
    return ["--store", str(tmp_path / "store")]


def test_agreement_with_people(
    tmp_path: Path, planted_suite: Path, scored: list[str], capsys: Capture
) -> None:
    ratings = tmp_path / "ratings.csv"
    lines = ["model,prompt_id,dimension,rater,rating"]
    for number in range(8):
        for rater in ("r1", "r2"):
            lines.append(f"a,p{number},beauty,{rater},{number % 5 + 1}")
    ratings.write_text("\n".join([*lines, "a,p0,beauty,r3,0", ""]))
    out = tmp_path / "out"
    words = ["suite", "alignment", "--ratings", str(ratings), "--out", str(out), *scored]
    assert main(words) == 3
    assert "0 is outside the scale from 1 to 5" in capsys.readouterr().out
    with (out / "alignment.csv").open() as file:
        rows = {row["dimension"]: row for row in csv.DictReader(file)}
    beauty = rows["Beauty"]
    assert (beauty["ratings"], beauty["spearman"], beauty["people_alpha"]) == ("16", "1.0", "1.0")
    assert (beauty["difference"], beauty["total_agreement"], beauty["blur_error"]) == ("0.0", "1.0", "0.0")
    assert rows["Contest"]["ratings"] == "0"
    assert rows["Contest"]["spearman"] == ""
    assert {path.name for path in out.iterdir()} >= {
        f"alignment.{end}" for end in ("md", "tex", "svg", "pdf")
    }


def test_correlations_of_dimensions(
    tmp_path: Path, planted_suite: Path, scored: list[str], capsys: Capture
) -> None:
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
    assert main(["suite", "correlations", "--out", str(out), "--prompt-suite", str(prompts), *scored]) == 0
    with (out / "correlations.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["first"], row["second"], row["spearman"], row["videos"]) == ("Beauty", "Contest", "-1.0", "8")
    with (out / "correlations-complexity.csv").open() as file:
        correlations = {row["second"]: row["pearson"] for row in csv.DictReader(file)}
    assert correlations == {"Beauty": "1.0", "Contest": "-1.0"}
    names = {path.name for path in out.iterdir()}
    assert {"themes.csv", "correlations-theme-city-night.tex", "correlations.svg"} <= names
    # the same from a file that holds the same scores, without a store
    for end in ("csv", "jsonl", "parquet"):
        file, other = tmp_path / f"scores.{end}", tmp_path / f"out-{end}"
        assert main(["suite", "scores", str(file), *scored]) == 0
        words = ["suite", "correlations", "--out", str(other), "--prompt-suite", str(prompts)]
        assert main([*words, "--scores", str(file)]) == 0
        assert (other / "correlations.csv").read_text() == (out / "correlations.csv").read_text()
        assert (other / "themes.csv").read_text() == (out / "themes.csv").read_text()


def test_correlations_of_any_table(tmp_path: Path, capsys: Capture) -> None:
    table, out = tmp_path / "table.csv", tmp_path / "out"
    x, y = [1.0, 2.0, 3.0, 4.0, 5.0, 5.0], [2.0, 1.0, 4.0, 3.0, 7.0, 6.0]
    lines = ["model,prompt_id,dimension,score,seen by"]
    for number, pair in enumerate(zip(x, y, strict=True)):
        lines += [
            f"m,p{number},{name},{value},me" for name, value in zip(("sharp", "calm"), pair, strict=True)
        ]
    # a dimension that failed takes no part
    table.write_text("\n".join([*lines, "m,p9,sharp,3,me", "m,p9,calm,,me", ""]))
    prompts = tmp_path / "prompts.csv"
    # themes whose files' names would be the same
    themes = [("Sci-Fi", "sci fi")[number % 2] for number in range(6)]
    rows = [f"p{number},text,{theme}" for number, theme in enumerate(themes)]
    prompts.write_text("\n".join(["prompt_id,text,theme", *rows, ""]))
    words = ["suite", "correlations", "--scores", str(table), "--out", str(out)]
    assert main([*words, "--prompt-suite", str(prompts)]) == 0
    with (out / "correlations.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["first"], row["second"], row["videos"]) == ("calm", "sharp", "6")
    assert float(row["pearson"]) == pytest.approx(stats.pearsonr(x, y).statistic)
    assert float(row["spearman"]) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert float(row["kendall"]) == pytest.approx(stats.kendalltau(x, y).statistic)
    titles = [path.read_text() for path in sorted(out.glob("correlations-theme-*.md"))]
    assert len(titles) == 2
    assert any("Sci-Fi" in text for text in titles)
    categories = tmp_path / "categories.csv"
    categories.write_text("theme,category\nSci-Fi,Fiction\n")
    capsys.readouterr()
    assert main([*words, "--prompt-suite", str(prompts), "--categories", str(categories)]) == 0
    assert "no table by category" in capsys.readouterr().err
    for line, message in (
        ("m,p0,calm,2,me", "already"),
        ("m,p8,calm,much,me", "score: "),
        ("m,p8,calm,nan,me", "no number"),
        ("m,,calm,2,me", "has no prompt_id"),
    ):
        table.write_text("\n".join([*lines, line, ""]))
        capsys.readouterr()
        assert main(words) == 1
        assert message in " ".join(capsys.readouterr().err.split())
    assert main(["suite", "correlations", "--scores", str(tmp_path / "x.parquet"), "--out", str(out)]) == 1


def test_nothing_there_is_said(tmp_path: Path, planted_suite: Path, capsys: Capture) -> None:
    Store.create(tmp_path / "store")
    store = ["--store", str(tmp_path / "store")]
    assert main(["suite", "leaderboard", "--out", str(tmp_path / "out"), *store]) == 1
    assert "there are no scores" in capsys.readouterr().err
    assert main(["suite", "scores", str(tmp_path / "x.csv"), *store]) == 1
    assert main(["suite", "leaderboard", "planed", "--out", str(tmp_path / "out"), *store]) == 1
    assert "did you mean planted" in capsys.readouterr().err
    assert main(["suite", "list"]) == 0
    assert "planted_suite_code:Planted" in capsys.readouterr().out
    assert main(["suite", "planted", "--help"]) == 0
    assert main(["suite", "nothing"]) == 2
