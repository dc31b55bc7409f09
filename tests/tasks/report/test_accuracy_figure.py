"""The figure of accuracies: a dot for each evaluator and aspect, few and many of them, and people's marks."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tasks.report.accuracy import MEAN, POOLED, Matrix, accuracy_table
from tasks.report.figures import Figure, figures_of
from tasks.report.judged_release import JudgedRelease
from tasks.report.table import Table, aspect_title


@pytest.fixture
def table(judgements: JudgedRelease, matrix: Matrix) -> Table:
    return accuracy_table(judgements, matrix)


def of(table: Table, names: list[str], people: str = "") -> Figure:
    rows = tuple(row for row in table.rows if row["evaluator"] in names)
    (figure,) = figures_of({"accuracy": replace(table, rows=rows)}, names, "clustered", people)
    return figure


def places(figure: Figure, mark: str) -> set[str]:
    return set(re.findall(rf'id="{mark}-([\d-]+)"', figure.svg.decode()))


def texts(figure: Figure) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg.decode())


@pytest.mark.parametrize("few", [1, 3, 5])
def test_each_evaluator_has_a_dot_for_each_aspect(table: Table, matrix: Matrix, few: int) -> None:
    names = list(matrix.evaluators[:few])
    aspects = [row.aspect for row in matrix.rows]
    asked = {
        (aspects.index(row["aspect"]), names.index(row["evaluator"]))
        for row in table.rows
        if row["evaluator"] in names and row["aspect"] not in (POOLED, MEAN)
    }
    assert len(asked) == len(names) * len(aspects)
    figure = of(table, names)
    assert places(figure, "dot") == {f"{aspect}-{name}" for aspect, name in asked}
    shown = texts(figure)
    assert {aspect_title(aspect) for aspect in aspects} <= set(shown)
    assert set(names) <= set(shown)
    assert "chance" in shown
    assert "people" not in shown
    assert figure.pdf.startswith(b"%PDF")


def test_people_are_marks_and_have_no_row(table: Table, matrix: Matrix) -> None:
    people, *judges = matrix.evaluators[:4]
    figure = of(table, [people, *judges], people)
    assert len(places(figure, "people")) == len(matrix.rows)
    assert len(places(figure, "dot")) == len(matrix.rows) * len(judges)
    assert "people" in texts(figure)
    assert people not in texts(figure)
    alone = of(table, [people], people)
    assert not places(alone, "people")
    assert len(places(alone, "dot")) == len(matrix.rows)


def test_figure_has_no_dot_for_an_evaluator_without_answers(table: Table, matrix: Matrix) -> None:
    names = list(matrix.evaluators[:2])
    rows = tuple({**row, "accuracy": None} if row["evaluator"] == names[0] else row for row in table.rows)
    assert names[0] not in texts(of(replace(table, rows=rows), names))
    nothing = replace(table, rows=tuple({**row, "accuracy": None} for row in table.rows))
    assert figures_of({"accuracy": nothing}, names) == []


def test_a_long_name_is_shortened_and_keeps_its_end(table: Table, matrix: Matrix) -> None:
    name = "vlm-video?intervals=true&frames=all&model=long (abcdef)"
    rows = tuple({**row, "evaluator": name} for row in table.rows if row["evaluator"] == matrix.evaluators[0])
    shown = texts(of(replace(table, rows=rows), [name]))
    assert any("…" in text and text.endswith("(abcdef)") for text in shown)
