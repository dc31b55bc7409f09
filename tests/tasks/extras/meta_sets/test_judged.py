"""Other people's sets and own pairs go through the same evaluation and store as a release."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from flows.score.options import EvaluateOptions
from flows.score.results import EvaluationResult
from slvmeval.cli.main import main
from storage_schemas.errors import UserInputError
from storage_schemas.judgements import JudgementsStore
from storage_schemas.store import Store
from tasks.extras.meta_sets.agreement import agreements
from tasks.extras.meta_sets.judged_set import load_judged_set
from tasks.extras.meta_sets.provider import MetaSetPairs, meta_set_from_text
from tasks.extras.meta_sets.set_report import set_report_of
from tasks.pairs.file_pairs import VideoSide
from tasks.report.write import write_report
from tasks.scoring.registry import choice_from_text
from tests.inline import evaluate_inline
from tests.planted_evaluators import PlantedPackage
from tests.tasks.scoring.judges.short_films import short_film, write_lines

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def uve(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """UVE-Bench with three films: `long` is longer than `short`; a row each of the four answers, one lost."""
    root = tmp_path_factory.mktemp("uve")
    for name, seconds in (("long", 3), ("short", 1), ("other", 1)):
        short_film(ffmpeg, root / f"uve_bench_videos/bench/{name}_1.mp4", seconds, 40 * len(name))
    rows = {
        "long-short": "A is better",
        "short-long": "B is better",
        "short-other": "same bad",
        "long-other": "same good",
        "long-gone": "A is better",
    }
    about: dict[str, Any] = {"prompt": None, "aspect": "dynamic_degree", "dataset": "bench"}
    about["subaspects"] = ["dynamic_degree", "technical_quality"]
    annotations = {}
    for id_, preference in rows.items():
        a, b = (f"{name}_1.mp4" for name in id_.split("-"))
        annotations[id_] = {"video_a": a, "video_b": b, "preference": preference, **about}
    (root / "annotations.json").write_text(json.dumps(annotations))
    return root


def judged(store: Path, pairs: MetaSetPairs, *evaluators: str) -> EvaluationResult:
    chosen = tuple(map(choice_from_text, evaluators))
    return evaluate_inline(EvaluateOptions(store=str(store), evaluators=chosen, pairs_from=pairs))


def test_a_pair_is_two_lazy_videos_the_better_one_high(uve: Path, tmp_path: Path) -> None:
    pairs = meta_set_from_text(f"uve:{uve}?fps=4&long_side=64")
    by_key = {outcome.key: id_ for id_, outcome in pairs.meta_pairs().items()}
    pair = pairs.open(by_key["short-long-dynamic_degree"])
    assert (len(pair.high), len(pair.low), pair.high.fps, pair.prompt) == (12, 4, 4.0, "")
    assert pair.details["gold"] == "b"
    assert pair.record is None
    film = VideoSide(uve / "uve_bench_videos/bench/long_1.mp4", Fraction(4), 64)
    assert (pair.high.planes([3, 11]) == film.planes([3, 11])).all()
    facts = {one.pair_id: one for one in pairs.facts()}
    tie = pairs.open(by_key["short-other-dynamic_degree"])
    assert tie.details["gold"] == "tie"
    assert facts[pair.id].source_id == "uve-bench-1"
    assert facts[pair.id].fps == 4.0
    # the same videos in the other order are the same question; another sampling is another one
    other, same = facts[by_key["long-short-dynamic_degree"]], facts[pair.id]
    assert (other.high_checksum, other.low_checksum) == (same.high_checksum, same.low_checksum)
    assert not {one.pair_id for one in meta_set_from_text(f"uve:{uve}?fps=2").facts()} & set(facts)
    # an aspect with our name keeps the set's meaning
    own = pairs.text("technical_quality", "technical_quality", "")
    assert "single frames" in own.description
    (tmp_path / "descriptions").mkdir()
    (tmp_path / "descriptions" / "technical_quality.txt").write_text("Is it sharp?")
    assert pairs.text("technical_quality", "x", str(tmp_path)).description == "Is it sharp?"


@pytest.mark.slow
def test_set_is_judged_once(uve: Path, tmp_path: Path, planted: PlantedPackage, capsys: Capture) -> None:
    where = f"uve:{uve}?fps=1&long_side=64"
    pairs, site = meta_set_from_text(where), ["--store", str(tmp_path / "store")]
    assert main(["list", "meta-sets", where, "--format", "json"]) == 3
    output = json.loads(capsys.readouterr().out)
    assert output["aspects"]["technical_quality"] == {"a": 1, "b": 1, "tie": 2}
    assert output["left_out"] == {"video_missing": 1}
    assert output["examples"][0]["where"] == "long-gone"
    Store.create(tmp_path / "store")
    report = ["report", "--pairs", where, *site, "--out", str(tmp_path / "report"), "--quiet"]
    assert main(report) == 1
    assert "no judgements yet for UVE-Bench, " in capsys.readouterr().err
    words = ["evaluate", "--pairs", where, "-e", "lengths", "-e", "planted?mood=first", *site, "--quiet"]
    assert main([*words, "--dry-run"]) == 0
    assert "UVE-Bench" in capsys.readouterr().out

    assert main([*words, "--direct", "--workers", "1"]) == 0
    assert "UVE-Bench, " in capsys.readouterr().out
    asked = planted.asked("first")
    result = judged(tmp_path / "store", pairs, "lengths", "planted?mood=first")
    assert (result.exit_code, result.pairs) == (0, 8)
    assert "left out: video_missing 1" in result.title
    assert [one.asked for one in result.evaluators] == [0, 0]
    assert planted.asked("first") == asked > 0
    rows = JudgementsStore(Store.open(tmp_path / "store")).rows()
    outcome = {
        (one.evaluator, one.aspect): one for one in agreements(rows, pairs.facts(), pairs.meta_pairs())
    }
    lengths = outcome["lengths", "dynamic_degree"]
    # right on both that have a better one and on the tie of equal length, wrong on the tie of 3 s and 1 s
    assert (lengths.with_ties.accuracy, lengths.with_ties.pairs) == (0.75, 4)
    assert (lengths.without_ties.accuracy, lengths.without_ties.pairs) == (1.0, 2)
    assert lengths.calibrated is not None
    assert lengths.calibrated.agreement == 0.75
    first = outcome["first", "dynamic_degree"]
    # who always says `first` is right in one order of each pair that has a better one
    assert (first.with_ties.accuracy, first.without_ties.accuracy, first.calibrated) == (0.25, 0.5, None)
    assert main(["evaluate", "main", "--pairs", where, "-e", "coin", *site]) == 1
    assert "replace a release" in capsys.readouterr().err
    assert main(["list", "meta-sets"]) == 0
    assert "VideoGen-RewardBench" in capsys.readouterr().out
    assert main(["compare", "lengths", "first", "--pairs", where, *site]) == 0
    assert "lengths against first" in capsys.readouterr().out
    _check_report(tmp_path / "report", report)
    assert main([*report, "--against", "paper"]) == 2
    assert "--against: not with --pairs" in capsys.readouterr().err


def test_a_set_s_report_has_verdicts_wordings_and_probes_of_its_own(
    uve: Path, tmp_path: Path, planted: PlantedPackage, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked in other words, or with less, is in no accuracy, and its cost is counted."""
    monkeypatch.setattr("tasks.report.write.figures_of", lambda *_: [])
    for name in ("plain", "strict"):
        place = tmp_path / "words" / name / "judges" / "video_judge_system.txt"
        place.parent.mkdir(parents=True)
        place.write_text(f"Which? ({name})", encoding="utf-8")
    where = f"uve:{uve}?fps=1&long_side=64"
    site = ["--store", str(tmp_path / "store"), "--quiet"]
    asked = ["evaluate", "--pairs", where, "-e", "lengths", "-e", "planted?mood=first", *site]
    asked += ["--prompts", str(tmp_path / "words"), "--probe", "one-frame", "--direct", "--workers", "1"]
    Store.create(tmp_path / "store")
    assert main(asked) == 0
    published = tmp_path / "published.toml"
    published.write_text(
        'title = "Theirs"\n[[tables]]\ntable = "3"\nsection = "4"\ngives = "accuracy"\n'
        'columns = ["dynamic_degree"]\n[tables.rows]\nlengths = ["20±3"]\nfirst = ["50±2"]\n'
        '[[tables]]\ntable = "1"\nsection = "4"\ngives = "release"\ncolumns = ["pairs"]\n'
        "[tables.rows]\nrelease = [9]\n",
        encoding="utf-8",
    )
    out = tmp_path / "report"
    report = ["report", "--pairs", where, *site, "--out", str(out), "--against", str(published)]
    assert main(report) == 0
    printed = capsys.readouterr()
    assert "release (table 1): only a release has it: not compared" in printed.err
    held = {row["evaluator"]: row for row in _csv(out / "tables" / "against-accuracy.csv")}
    assert {name: row["difference"][:4] for name, row in held.items()} == {"lengths": "0.8", "first": "0.0"}
    assert {row["verdict"] for row in held.values()} <= {"reproduced", "not reproduced", "inconclusive"}
    assert {row["evaluator"] for row in _csv(out / "tables" / "accuracy.csv")} == {"lengths", "first"}
    assert {row["wordings"] for row in _csv(out / "tables" / "wordings.csv")} == {"3"}
    assert {row["evaluator"] for row in _csv(out / "tables" / "probes.csv")} == {"lengths", "first"}
    wanted = {"lengths", "lengths+one-frame", "first", "first+one-frame", "first+plain", "first+strict"}
    assert {row["evaluator"] for row in _csv(out / "tables" / "cost.csv")} == wanted
    assert {row["evaluator"] for row in _csv(out / "tables" / "agreement.csv")} == {"lengths", "first"}
    assert "Agreement with the set's answers" in printed.out


def _check_report(out: Path, words: list[str]) -> None:
    assert main(words) == 0
    accuracies = _csv(out / "tables" / "accuracy.csv")
    # over the two pairs of each aspect that have a better video, which is the longer one
    held = {(row["aspect"], row["evaluator"]): (row["accuracy"], row["n"]) for row in accuracies}
    assert held["dynamic_degree", "lengths"] == ("1.0", "2")
    assert held["dynamic_degree", "first"] == ("0.5", "4")
    ties = {(row["aspect"], row["evaluator"]): row for row in _csv(out / "tables" / "agreement.csv")}
    assert ties["dynamic_degree", "lengths"]["with_ties"] == "0.75"
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Which judge agrees with people?" in page
    assert "video_missing 1" in page
    assert not (out / "paper").exists()
    pages = [path.read_text(encoding="utf-8") for path in sorted((out / "pairs").iterdir())]
    assert len(pages) == 6
    assert all("data:image/jpeg" in text for text in pages)
    assert any("Better: neither." in text and "the first above" in text for text in pages)
    assert main([*words, "--public", "--set", "max_shown=1", "-e", "lengths", "-e", "first"]) == 0
    (public,) = (out / "pairs").iterdir()
    assert "data:image/jpeg" not in public.read_text(encoding="utf-8")


def test_own_pairs_have_a_page_and_a_file_that_is_not_a_video_has_a_reason(
    uve: Path, tmp_path: Path, planted: PlantedPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.report.write.figures_of", lambda *_: [])
    films, text = uve / "uve_bench_videos/bench", tmp_path / "text.mp4"
    text.write_text("no film")
    about = {"video_a": str(films / "long_1.mp4"), "aspect": "comprehensiveness", "gold": "b"}
    rows = [
        {"id": "mine", "video_b": str(films / "short_1.mp4"), "prompt": "Two <dogs>", **about},
        {"id": "bad", "video_b": str(text), "prompt": "x", **about},
    ]
    file = write_lines(tmp_path / "pairs.jsonl", rows)
    pairs = meta_set_from_text(f"pairs:{file}")
    assert pairs.facts()[0].dimension == "scene"
    assert judged(tmp_path / "store", pairs, "lengths", "planted?mood=first").exit_code == 3
    store = Store.open(tmp_path / "store")
    held = [
        (row.failure, row.preferred, row.aspect, row.score_high, row.score_low)
        for row in JudgementsStore(store).rows(["lengths"])
    ]
    assert ("video_unreadable", None, "comprehensiveness") in [row[:3] for row in held]
    assert (None, "low", "comprehensiveness", 1.0, 3.0) in held
    assert len(held) == 2
    index = write_report(set_report_of(load_judged_set(store, pairs)), tmp_path / "report")
    (page,) = (index.parent / "pairs").iterdir()
    shown = page.read_text(encoding="utf-8")
    assert "<summary>Prompt</summary>" in shown
    assert "Two &lt;dogs&gt;" in shown
    with pytest.raises(UserInputError, match="own folder"):
        meta_set_from_text(f"pairs:{file}?videos=x").facts()


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
