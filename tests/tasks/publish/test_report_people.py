"""People in the report: a judge like others, the retention table, the filter's correlation, agreement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage_schemas.judgements import JudgementsStore
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.votes import Vote, VotesStore
from tasks.annotation.filtered_release import write_filtered
from tasks.report.accuracy import is_compared, matrix_of
from tasks.report.judged_release import JudgedRelease, load_judged_release
from tasks.report.people_tables import agreement_table, filter_tables, retention_table
from tasks.report.release_report import ReleaseReport, report_of
from tasks.report.write import write_report
from tasks.votes.release_votes import read_release_votes
from tests.tasks.publish.judging import build_wide, judged, scored, skilled
from tests.tasks.votes.voting import vote_on

FILMS = 10


def number(record: PairRecord) -> int:
    return int(record.source_id[-2:])


def votes_of(release: Release) -> list[Vote]:
    """Five workers a pair: films 0 and 1 have a C, film 2 more B than A, film 3 four votes.

    One of the five is wrong about film 0, two about film 1.
    """
    ratings = {0: "AAAAC", 1: "AAACC", 2: "ABBBB", 3: "AAAA"}
    return [
        vote_on(
            record,
            f"worker{place}",
            letter,
            "low" if place <= number(record) < 2 else "high",
            first=("high", "low")[place % 2],
        )
        for record in release.pairs()
        for place, letter in enumerate(ratings.get(number(record), "AAAAB"))
    ]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Release:
    release = build_wide(tmp_path_factory.mktemp("wide"), FILMS)
    pairs = release.pairs()

    def from_film(first: int):  # type: ignore[no-untyped-def]
        return lambda record, _order: "high" if number(record) >= first else "low"

    store = JudgementsStore(release.store)
    store.add(judged("careful", pairs, from_film(1)))
    store.add(scored("middling", pairs, from_film(4)))
    store.add(scored("weak", pairs, from_film(8)))
    store.add(judged("coin", pairs, skilled("coin", 0.5)))
    VotesStore(release.store).add(votes_of(release))
    return release


@pytest.fixture(scope="module")
def gathered(wide: Release) -> JudgedRelease:
    return load_judged_release(wide, people=read_release_votes(wide))


@pytest.fixture(scope="module")
def report(gathered: JudgedRelease) -> ReleaseReport:
    """The report, with the filter's figure, which no other test here draws."""
    return report_of(gathered)


def test_people_are_a_column_like_any_judge(report: ReleaseReport) -> None:
    assert report.matrix.evaluators == ("careful", "coin", "human", "middling", "weak")
    for line in report.matrix.rows:
        human = line.cells[2]
        # the pair of film 3 has four answers; each pair counts once
        assert human.accuracy == pytest.approx((4 / 5 + 3 / 5 + 8) / 10)
        assert human.cell is not None
        assert (human.cell.n, human.cell.requests, human.cell.failed) == (FILMS, 49, 0)
        assert is_compared(human.cell)


def test_people_are_compared_and_have_curves_like_any_judge(report: ReleaseReport) -> None:
    for name in ("comparisons", "duration-correlation", "accuracy-by-duration", "order-bias", "cost"):
        result = {row.get("evaluator") or row.get("second") for row in report.tables[name].rows}
        assert "human" in result, name
    line = next(
        row
        for row in report.tables["comparisons"].rows
        if {row["first"], row["second"]} == {"human", "weak"} and row["aspect"] == "dynamics_degree"
    )
    better = line["first_better" if line["first"] == "human" else "second_better"]
    # weak is wrong on eight; on the other two all people are right as well
    assert (line["pairs"], better, line["p"] < 0.05) == (FILMS, 8, True)
    order = next(row for row in report.tables["order-bias"].rows if row["evaluator"] == "human")
    assert (order["both"], order["first"] + order["second"]) == (0, 98)
    cost = next(row for row in report.tables["cost"].rows if row["evaluator"] == "human")
    assert cost["requests"] == 98


def test_the_retention_table(report: ReleaseReport) -> None:
    rows = {row["aspect"]: row for row in report.tables["retention"].rows}
    assert list(rows) == ["dynamics_degree", "comprehensiveness", "all"]
    for aspect, times in (("dynamics_degree", 1), ("comprehensiveness", 1), ("all", 2)):
        counts = [rows[aspect][key] for key in ("initial", "excluded_c", "excluded_a", "undecided", "final")]
        assert counts == [times * count for count in (10, 2, 1, 1, 6)]
        assert rows[aspect]["rate"] == pytest.approx(6 / 9)
    assert [cells[-1] for cells in report.tables["retention"].cells()] == ["66.7"] * 3


def test_the_filters_correlation_is_over_judges_without_people(report: ReleaseReport) -> None:
    def of_dynamics(name: str) -> list[dict[str, Any]]:
        return [row for row in report.tables[name].rows if row["aspect"] == "dynamics_degree"]

    rows = of_dynamics("filter-accuracies")
    accuracies = {row["evaluator"]: (row["unfiltered"], row["filtered"]) for row in rows}
    assert set(accuracies) == {"careful", "coin", "middling", "weak"}
    # of nine decided pairs six were kept, films 4 to 9
    assert accuracies["careful"] == pytest.approx((8 / 9, 1.0))
    assert accuracies["middling"] == pytest.approx((6 / 9, 1.0))
    assert accuracies["weak"] == pytest.approx((2 / 9, 2 / 6))
    (correlation,) = of_dynamics("filter-correlation")
    assert correlation["evaluators"] == 4
    assert 0.5 < correlation["r"] <= 1


def test_agreement_is_given_by_aspect(report: ReleaseReport) -> None:
    rows = {row["aspect"]: row for row in report.tables["agreement"].rows}
    assert list(rows) == ["dynamics_degree", "comprehensiveness", "all"]
    one = rows["dynamics_degree"]
    assert (one["pairs"], one["votes"], one["workers"]) == (10, 49, 5)
    assert one["right"] == pytest.approx(46 / 49)
    assert one["unanimous"] == pytest.approx(1 / 10)
    assert one["ratings_low"] <= one["ratings"] <= one["ratings_high"]
    assert rows["all"]["votes"] == 98


def test_without_votes_the_report_is_what_it_was(wide: Release) -> None:
    plain = load_judged_release(wide)
    assert "human" not in plain.names.values()
    for table in (retention_table(plain), agreement_table(plain), *filter_tables(plain)):
        assert not table.rows
        assert "These pairs have no votes yet" in table.empty
    alone = load_judged_release(wide, ["human"], people=read_release_votes(wide))
    assert matrix_of(alone).evaluators == ("human",)
    assert "Only people answered" in filter_tables(alone)[0].empty


@pytest.mark.usefixtures("no_figures")
def test_the_report_of_what_people_kept(wide: Release, gathered: JudgedRelease, tmp_path: Path) -> None:
    assert gathered.people is not None
    release = write_filtered(wide, gathered.people).release
    result = load_judged_release(release, people=read_release_votes(release))
    matrix = matrix_of(result)
    # judges' answers are by pair: nothing was asked again
    assert matrix.evaluators == ("careful", "coin", "human", "middling", "weak")
    assert matrix.rows[0].pairs == 6
    assert matrix.rows[0].cells[2].accuracy == 1.0
    assert retention_table(result).rows == retention_table(gathered).rows
    assert agreement_table(result).rows[-1]["votes"] == 98, "agreement is of all pairs that were rated"
    assert "only kept pairs" in filter_tables(result)[0].empty
    page = write_report(report_of(result), tmp_path / "report").read_text(encoding="utf-8")
    assert "Answers of people" in page
    assert "Pairs kept by the human filter" in page
    for path in (tmp_path / "report").rglob("*"):
        assert not path.is_file() or b"worker0" not in path.read_bytes()


def test_a_judge_that_somebody_called_human_is_another_one(wide: Release) -> None:
    rows = [*JudgementsStore(wide.store).rows(["weak"]), *scored("human", wide.pairs(), lambda *_: "high")]
    names = load_judged_release(wide, judgements=rows, people=read_release_votes(wide)).names
    assert names["human", "votes"] == "human (votes)"
    assert len(names) == 3
