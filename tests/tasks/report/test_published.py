"""Published values: the paper's, read from its print; files that do not fit; the comparison."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import UserInputError
from tasks.report.accuracy import MatrixCell, matrix_of
from tasks.report.evaluator_tables import duration_tables
from tasks.report.judged_release import JudgedRelease
from tasks.report.people_tables import filter_tables, retention_table
from tasks.report.published import Against, PublishedValue, _differs, hold_against, read_published
from tasks.report.release_facts import facts_table
from tasks.report.systems import ASPECT_ORDER
from tasks.report.table import Table
from tasks.statistics.cells import cell_of
from tasks.statistics.intervals import wilson_interval
from tests.papers.tables import JUDGES, SCORERS, claims, printed, rows
from tests.tasks.report.printed_release import printed_release
from tests.tasks.statistics.making import few

Place = tuple[str, str, str]


@pytest.fixture(scope="module")
def paper() -> dict[Place, PublishedValue]:
    published = read_published("paper")
    assert published.problems == ()
    assert published.title == "SLVMEval"
    values = {(value.table, value.row, value.column): value for value in published.values}
    assert len(values) == len(published.values)
    return values


@pytest.mark.parametrize(
    ("place", "text"),
    [
        # the corners of each table, typed from the print
        (("1", "release", "aspects"), "10"),
        (("1", "release", "videos"), "3,932"),
        (("1", "release", "prompts"), "1,461"),
        (("1", "release", "longest_s"), "10,486.0"),
        (("1", "release", "mean_s"), "1,141"),
        (("1", "release", "prompt_characters"), "57,883.52"),
        (("2", "gpt-5-video", "aesthetics"), "90.1±2.5"),
        (("2", "gpt-5-video", "temporal_flow"), "50.3±4.1"),
        (("2", "gpt-5-mini-video", "technical_quality"), "48.1±6.1"),
        (("2", "qwen3-vl-text", "temporal_flow"), "55.6±4.1"),
        (("2", "clipscore", "object_integrity"), "76.0±8.4"),
        (("2", "human", "aesthetics"), "96.5±2.1"),
        (("2", "human", "temporal_flow"), "86.6±4.0"),
        (("3", "aesthetics", "initial"), "446"),
        (("3", "aesthetics", "rate"), "63.3"),
        (("3", "all", "initial"), "4239"),
        (("3", "all", "excluded_a"), "686"),
        (("3", "all", "rate"), "58.3"),
        (("5", "clipscore?policy=ignore-max", "aesthetics"), "48.9±5.8"),
        (("5", "clipscore?policy=ignore-max", "temporal_flow"), "56.1±5.8"),
        (("5", "clipscore?policy=each-truncate", "aesthetics"), "54.3±5.8"),
        (("5", "clipscore?policy=each-truncate", "temporal_flow"), "54.4±5.8"),
        (("7", "gpt-5-video", "aesthetics"), "-0.6806"),
        (("7", "gpt-5-video", "temporal_flow"), "-0.4927"),
        (("7", "human", "aesthetics"), "-0.3847"),
        (("7", "human", "temporal_flow"), "0.0845"),
        (("text", "clipscore", "mean of aspects"), "60.7"),
        (("figure 4", "pearson", "color"), "> 0.94"),
    ],
)
def test_a_value_is_as_printed(paper: dict[Place, PublishedValue], place: Place, text: str) -> None:
    assert paper[place].text == text


def test_the_file_has_every_cell_of_the_tables_that_were_typed_a_second_time(
    paper: dict[Place, PublishedValue],
) -> None:
    expected: dict[Place, str] = {}
    for table, accuracy, half in (
        (name, printed(f"table{name}", "accuracy"), printed(f"table{name}", "plus_minus")) for name in "25"
    ):
        for (row, aspect), text in accuracy.items():
            name = row if table == "2" else f"clipscore?policy={row}"
            expected[table, name, aspect] = f"{text}±{half[row, aspect]}"
    for (row, aspect), text in printed("table7", "rho").items():
        expected["7", row, aspect] = text
    for line in rows("table3"):
        aspect = "all" if line["aspect"] == "total" else line["aspect"]
        for column in ("initial", "excluded_c", "final", "rate"):
            expected["3", aspect, column] = line[column]
        expected["3", aspect, "excluded_a"] = line["excluded_a_not_above_b"]
    for policy, text in claims()["policy_average"].items():
        truncated = policy == "truncate"
        row = "clipscore" if truncated else f"clipscore?policy={policy}"
        expected["text", row, "mean of aspects" if truncated else "all pairs"] = text
    held = {place: value.text for place, value in paper.items() if place[0] in ("2", "3", "5", "7", "text")}
    assert held == expected
    assert len(expected) == 90 + 55 + 20 + 90 + 3


def test_every_value_says_its_table_and_section(paper: dict[Place, PublishedValue]) -> None:
    assert {(value.table, value.section) for value in paper.values()} == {
        ("1", "4.5"),
        ("2", "6.2"),
        ("3", "A.5"),
        ("5", "F.2"),
        ("text", "F.2"),
        ("7", "H"),
        ("figure 4", "5 of the Japanese paper"),
    }
    assert {value.row for value in paper.values() if value.table == "2"} == {*JUDGES, *SCORERS, "human"}
    assert paper["2", "human", "color"].value == 96.8
    assert paper["2", "human", "color"].half == 2.4
    assert paper["1", "release", "longest_s"].value == 10486.0


@pytest.fixture(scope="module")
def judgements() -> JudgedRelease:
    return printed_release()


@pytest.fixture(scope="module")
def tables(judgements: JudgedRelease) -> dict[str, Table]:
    made = [
        facts_table(judgements.release),
        *duration_tables(judgements),
        retention_table(judgements),
        *filter_tables(judgements),
    ]
    return {table.name: table for table in made}


EMPTY_CELL = cell_of([])


def held(where: str, judgements: JudgedRelease, tables: dict[str, Table]) -> Against:
    return hold_against(read_published(where), judgements, matrix_of(judgements), tables)


@pytest.fixture(scope="module")
def against_paper(judgements: JudgedRelease, tables: dict[str, Table]) -> Against:
    return held("paper", judgements, tables)


def test_the_papers_own_answers_do_not_differ_from_the_paper(against_paper: Against) -> None:
    (accuracy,) = [table for table in against_paper.tables if table.name == "against-accuracy"]
    lines = {(row["table"], row["evaluator"], row["aspect"]): row for row in accuracy.rows}
    assert len(lines) == 90 + 20 + 3
    for place, row in lines.items():
        assert abs(row["difference"]) < 0.0005001, place
        if place[0] != "text":
            assert row["differs"] == "no"
            assert row["half"] == pytest.approx(row["published_half"], abs=0.000501), place
            assert row["half_difference"] == pytest.approx(math.hypot(row["half"], row["published_half"]))
    texts = {(line[1], line[0]): line for line in accuracy.cells()}
    assert texts["gpt-5-video", "Aesthetics"][3:] == ["90.1", "2.5", "90.1", "2.5", "0.0", "3.5", "no"]


@pytest.mark.parametrize(
    ("accuracy", "n", "published", "half", "differs"),
    [
        # all answers of one pair agree: the paper's interval has no width, and nothing can be shown
        (0.0, 1, 0.557, 0.041, "no"),
        (0.0, 40, 0.557, 0.041, "yes"),
        (1.0, 1, 0.901, 0.025, "no"),
        (0.96, 400, 0.901, 0.025, "yes"),
        (0.9, 400, 0.901, 0.025, "no"),
        (0.9, 400, 0.901, None, ""),
    ],
)
def test_few_answers_that_agree_do_not_differ(
    accuracy: float, n: int, published: float, half: float | None, differs: str
) -> None:
    cell = replace(EMPTY_CELL, n=n, accuracy=accuracy, wilson=wilson_interval(accuracy, n))
    assert _differs(MatrixCell(accuracy, cell), published, half) == differs


def test_each_cell_of_the_page_has_the_published_value_and_the_difference(against_paper: Against) -> None:
    assert against_paper.beside["gpt-5-video", "aesthetics"] == ("90.1±2.5", "0.0±3.5")
    assert against_paper.beside["clipscore", "mean of aspects"] == ("60.7", "0.0")
    assert len(against_paper.beside) == 113


def test_what_the_release_lacks_is_a_line_each(against_paper: Against) -> None:
    assert against_paper.problems == ()
    assert against_paper.absent == (
        "table 3: These pairs have no votes yet: not compared",
        "figure 4: These pairs have no votes yet: there is no filter to compare with: not compared",
    )


def test_counts_and_correlations_have_a_difference(against_paper: Against) -> None:
    by_name = {table.name: table for table in against_paper.tables}
    assert set(by_name) == {"against-accuracy", "against-duration", "against-release"}
    durations = by_name["against-duration"].rows
    assert len(durations) == 90
    for row in durations:
        # all answers of a cell being right in every bin, it has no correlation
        assert (row["ours"] is None) == (row["difference"] is None)
        assert row["ours"] is None or row["difference"] == pytest.approx(row["ours"] - row["published"])
    release = {line[0]: line[2:] for line in by_name["against-release"].cells()}
    assert release["Aspects"] == ["10.0", "10.0", "0.0"]
    assert release["Videos"] == ["11.0", "3,932.0", "−3,921.0"]


FORM = """
title = "Mine"
[[tables]]
table = "9"
section = "Z"
gives = "{gives}"
columns = {columns}
[tables.rows]
{rows}
"""


def write(folder: Path, rows: str, gives: str = "accuracy", columns: str = '["color", "aesthetics"]') -> str:
    path = folder / "mine.toml"
    path.write_text(FORM.format(gives=gives, columns=columns, rows=rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("rows_", "gives", "columns", "line"),
    [
        ('human = ["1"]', "accuracy", '["color", "aesthetics"]', "table 9, human: 1 values for 2 columns"),
        ('human = "1"', "accuracy", '["color"]', "table 9, human: no values for 1 columns"),
        ('human = ["many"]', "accuracy", '["color"]', "table 9, human, color: 'many' is not a number"),
        ("human = [nan]", "accuracy", '["color"]', "table 9, human, color: nan is not a number"),
        ("human = [true]", "accuracy", '["color"]', "table 9, human, color: True is not a number"),
        ('human = ["101"]', "accuracy", '["color"]', "table 9, human, color: 101 lies outside 0 to 100"),
        ("human = [1.5]", "duration_rho", '["color"]', "table 9, human, color: 1.5 lies outside -1 to 1"),
        (
            "human = [1, 2]",
            "accuracy",
            '["color", "color"]',
            "table 9, human, color: this value stands in the file",
        ),
        (
            "human = [1]",
            "accuracy",
            '["colour"]',
            "table 9: unknown aspect 'colour' in accuracy (did you",
        ),
        (
            "colour = [1]",
            "retention",
            '["final"]',
            "table 9: unknown aspect 'colour' in retention (did you",
        ),
        (
            "color = [1]",
            "retention",
            '["finally"]',
            "table 9: unknown column 'finally' in retention (did you",
        ),
        (
            "all = [1]",
            "release",
            '["videos"]',
            "table 9: unknown row 'all' in release (there are release",
        ),
        ("release = [1]", "release", '["films"]', "table 9: unknown column 'films' in release"),
        ("human = [1]", "acuracy", '["color"]', "table 9: gives 'acuracy': choose release, accuracy"),
        ("human = [1]", "accuracy", "7", "table 9: columns have to be a list of names"),
    ],
)
def test_what_does_not_fit_is_one_line_and_not_compared(
    tmp_path: Path,
    judgements: JudgedRelease,
    tables: dict[str, Table],
    rows_: str,
    gives: str,
    columns: str,
    line: str,
) -> None:
    against = held(write(tmp_path, rows_, gives, columns), judgements, tables)
    assert len(against.problems) == 1
    assert against.problems[0].startswith(line)
    compared = [row for table in against.tables for row in table.rows]
    # the first of two equal ones counts
    assert len(compared) == ("stands in" in line)


def test_a_mistake_leaves_the_rest(
    tmp_path: Path, judgements: JudgedRelease, tables: dict[str, Table]
) -> None:
    against = held(
        write(tmp_path, 'human = ["90", "?"]\nnobody = ["50", "50"]\nclipscore = ["66.2±6.5", ""]'),
        judgements,
        tables,
    )
    assert against.problems == ("table 9, human, aesthetics: '?' is not a number: not compared",)
    assert against.absent == ("evaluator nobody (table 9): it has no answers on this release: not compared",)
    (table,) = against.tables
    assert table.title == "Accuracy, against Mine"
    assert {(row["evaluator"], row["aspect"], row["differs"]) for row in table.rows} == {
        ("human", "color", ""),
        ("clipscore", "color", "no"),
    }


def test_a_mean_over_other_aspects_is_not_compared(
    tmp_path: Path, judgements: JudgedRelease, tables: dict[str, Table]
) -> None:
    part = replace(
        judgements,
        trials=tuple(one for one in judgements.trials if one.pair.aspect in ("color", "aesthetics")),
        all_trials=tuple(one for one in judgements.trials if one.pair.aspect in ("color", "aesthetics")),
    )
    against = held("paper", part, tables)
    assert {row["aspect"] for table in against.tables[:1] for row in table.rows} == {"color", "aesthetics"}
    reason = "the published one is over more aspects than the report has: not compared"
    assert {line for line in against.absent if reason in line} == {
        f"mean of aspects (text): {reason}",
        f"all pairs (text): {reason}",
    }


def test_a_label_of_ones_own_may_name_a_row(
    tmp_path: Path, judgements: JudgedRelease, tables: dict[str, Table]
) -> None:
    against = held(write(tmp_path, '"clipscore-ignore-max" = [60, 50]'), judgements, tables)
    assert {row["evaluator"] for row in against.tables[0].rows} == {"clipscore-ignore-max"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[[tables]", "is not valid TOML"),
        ("", r"has no \[\[tables\]\]"),
        ("tables = 3", r"has no \[\[tables\]\]"),
        (b"\xff\xfe", "is not valid TOML"),
    ],
)
def test_a_file_that_is_none_ends_it(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserInputError, match=message):
        read_published(str(path))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("tables = [3]", "[[tables]] number 1: not a table"),
        ("[[tables]]\nsection = '1'", "[[tables]] number 1: without table, gives, columns, rows"),
        (
            "[[tables]]\ntable = '1'\nsection = '1'\ngives = 'accuracy'\ncolumns = []\nrows = {}\nrow = 1",
            "table 1: unknown key 'row' (did you mean rows?)",
        ),
        (
            "[[tables]]\ntable = 1\nsection = '1'\ngives = 'accuracy'\ncolumns = []\nrows = {}",
            "table 1: table and section have to be texts",
        ),
    ],
)
def test_a_table_that_is_none_is_one_line(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    published = read_published(str(path))
    assert published.problems == (line,)
    assert published.values == ()


def test_a_file_that_is_not_there_is_said_with_what_to_write() -> None:
    with pytest.raises(UserInputError, match=r"--against papr: No such file.*; write paper, or the path"):
        read_published("papr")


@few
@given(st.lists(st.tuples(st.floats(0, 100), st.none() | st.floats(0, 50)), min_size=10, max_size=10))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[float, float | None]]
) -> None:
    texts = [f"{value:.3f}" + ("" if half is None else f"±{half:.2f}") for value, half in cells]
    folder = tmp_path_factory.mktemp("written")
    where = write(
        folder, f"human = {texts}".replace("'", '"'), columns=str(list(ASPECT_ORDER)).replace("'", '"')
    )
    published = read_published(where)
    assert published.problems == ()
    for value, (number, half) in zip(published.values, cells, strict=True):
        assert value.value == pytest.approx(number, abs=0.001)
        assert (value.half is None) == (half is None)
        assert half is None or value.half == pytest.approx(half, abs=0.01)
