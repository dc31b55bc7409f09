"""The report's tables on repeats: only with repeats, without people, and by pair as data."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from storage_schemas.judgements import Judgement, Order, Preferred
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import report_of
from tasks.report.write import write_report
from tasks.votes.release_votes import PEOPLE
from tests.tasks.publish.judging import build_wide, judged, scored
from tests.tasks.publish.pages import Elements

FILMS = 4


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_wide(tmp_path_factory.mktemp("wide"), FILMS)


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.report.write.figures_of", lambda *_: [])


def repeated(name: str, release: Release, **more: str) -> list[Judgement]:
    """Return three answers a request: on the first film, the last answer to one order is another."""

    def answers(repeat: int, record: PairRecord, order: Order) -> Preferred:
        flips = record.source_id == "film-00" and order == "low_first" and repeat == 2
        return "low" if flips or record.source_id == "film-03" else "high"

    return [
        row
        for repeat in range(3)
        for row in judged(
            name, release.pairs(), lambda *asked, n=repeat: answers(n, *asked), repeat=repeat, **more
        )
    ]


def test_a_report_with_repeats_has_their_section_and_pairs(wide: Release, tmp_path: Path) -> None:
    rows = [*repeated("judge", wide), *scored("coin", wide.pairs(), lambda *_: "high")]
    report = report_of(load_judged_release(wide, judgements=rows))
    every, *aspects = report.tables["repeats"].rows
    assert [row["aspect"] for row in aspects] == ["comprehensiveness", "dynamics_degree"]
    assert (every["evaluator"], every["pairs"], every["answers"], every["flipped"]) == ("judge", 8, 48, 2)
    # two of three pairs of answers, in one of two orders of one of four films
    assert every["flip_rate"] == pytest.approx(2 / 3 / 2 / 4)
    curve = [row for row in report.tables["majority"].rows if row["aspect"] == "all"]
    assert [(row["k"], row["accuracy"]) for row in curve] == [(1, pytest.approx(17 / 24)), (3, 0.75)]
    assert [row["part"] for row in report.tables["variance"].rows[:3]] == ["pair", "order", "repeat"]
    page = write_report(report, tmp_path / "report")
    assert {given.get("id") for _, given in Elements(page).found} >= {"repeats"}
    with (tmp_path / "report/tables/repeats-by-pair.csv").open() as file:
        flips = [line for line in csv.DictReader(file) if line["flip_rate"] != "0.0"]
    assert {(line["source_id"], line["low_first_wrong"], line["high_first_wrong"]) for line in flips} == {
        ("film-00", "1", "0")
    }
    data = json.loads((tmp_path / "report/tables/all.json").read_text())
    assert len(data["repeats-by-pair"]) == 2 * FILMS
    assert data["repeats"][0]["flip_rate"] == pytest.approx(1 / 12)
    # a row a pair would fill the document
    assert "repeats-by-pair" not in (tmp_path / "report/tables/all.tex").read_text()


def test_no_repeats_no_section(wide: Release, tmp_path: Path) -> None:
    # votes of several people on a pair are not repeats
    rows = [*judged("judge", wide.pairs(), lambda *_: "high"), *repeated(PEOPLE[0], wide, settings=PEOPLE[1])]
    report = report_of(load_judged_release(wide, judgements=rows))
    page = write_report(report, tmp_path / "report")
    assert not [name for name in report.tables if "repeat" in name]
    assert "repeats" not in {given.get("id") for _, given in Elements(page).found}
