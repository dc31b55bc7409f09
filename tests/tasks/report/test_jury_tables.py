"""The report's tables on juries: who is a member, what a jury costs, and where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from storage_schemas.judgements import Judgement
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from tasks.report.judged_release import load_judged_release
from tasks.report.jury_tables import chosen_members
from tasks.report.release_report import ReleaseReport, report_of
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


def wrong_on(*films: int) -> Callable[..., str]:
    def answers(record: PairRecord, _order: str) -> str:
        return "low" if int(record.source_id[-2:]) in films else "high"

    return answers


def members(release: Release, names: Sequence[str]) -> list[Judgement]:
    """Return answers of judges; each errs on a film of its own."""
    return [
        row
        for film, name in enumerate(names)
        for row in judged(name, release.pairs(), wrong_on(film))  # type: ignore[arg-type]
    ]


def of(release: Release, rows: list[Judgement]) -> ReleaseReport:
    return report_of(load_judged_release(release, judgements=rows))


def test_three_that_err_on_different_films_are_right_together(wide: Release, tmp_path: Path) -> None:
    report = of(wide, members(wide, ["a", "b", "c"]))
    rows = {(row["jury"], row["aspect"]): row for row in report.tables["juries"].rows}
    assert rows["majority", "all"]["accuracy"] == 1
    assert rows["majority", "dynamics_degree"]["pairs"] == FILMS
    assert rows["majority", "all"]["pairs"] == 2 * FILMS
    one, three = rows["best of 1", "all"], rows["best of 3", "all"]
    # two requests a pair at $0.0117
    assert (one["chosen"], one["usd"]) == (0.75, pytest.approx(23.4))
    assert (three["accuracy"], three["members"], three["usd"]) == (1, "a, b, c", pytest.approx(70.2))
    alike = [row["correlation"] for row in report.tables["error-agreement"].rows]
    assert alike == pytest.approx([-1 / 3] * 3)
    page = write_report(report, tmp_path / "report")
    assert {given.get("id") for _, given in Elements(page).found} >= {"juries"}


def test_people_and_evaluators_with_few_answers_are_not_members(wide: Release) -> None:
    right = wrong_on()
    rows = members(wide, ["a", "b"])
    rows += judged(PEOPLE[0], wide.pairs(), right, settings=PEOPLE[1])  # type: ignore[arg-type]
    rows += scored("few", wide.pairs()[:2], right)  # type: ignore[arg-type]
    assert "juries" not in of(wide, rows).tables
    rows += scored("free", wide.pairs(), right, cost_usd=None)  # type: ignore[arg-type]
    report = of(wide, rows)
    assert report.tables["juries"].rows[0]["members"] == "a, b, free"
    assert report.tables["juries"].rows[0]["usd"] is None
    gathered = load_judged_release(wide, judgements=rows)
    assert list(chosen_members(gathered, ())) == ["a", "b", "few", "free"]
    assert list(chosen_members(gathered, ["human", "a"])) == ["human", "a"]
