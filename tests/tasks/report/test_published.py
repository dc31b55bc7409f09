"""Published values: the paper's, read from its print; files that do not fit; the comparison."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Judgement
from tasks.report.accuracy import Matrix, matrix_of
from tasks.report.evaluator_tables import duration_tables
from tasks.report.judged_release import JudgedRelease
from tasks.report.people_tables import filter_tables, retention_table
from tasks.report.published import Against, PublishedValue, hold_against, read_published
from tasks.report.release_facts import facts_table
from tasks.report.systems import ASPECT_ORDER
from tasks.report.table import Table
from tests.papers.tables import JUDGES, SCORERS, claims, printed, rows
from tests.tasks.statistics.making import few

Place = tuple[str, str, str]
Hold = Callable[[str], Against]


@pytest.fixture(scope="module")
def paper() -> dict[Place, PublishedValue]:
    published = read_published("paper")
    assert published.problems == ()
    assert published.title == "SLVMEval"
    values = {(value.table, value.row, value.column): value for value in published.values}
    assert len(values) == len(published.values)
    return values


#: The corners of each table, typed from the print.
CORNERS = """
1|release|aspects|10
1|release|videos|3,932
1|release|prompts|1,461
1|release|longest_s|10,486.0
1|release|mean_s|1,141
1|release|prompt_characters|57,883.52
2|gpt-5-video|aesthetics|90.1±2.5
2|gpt-5-video|temporal_flow|50.3±4.1
2|gpt-5-mini-video|technical_quality|48.1±6.1
2|qwen3-vl-text|temporal_flow|55.6±4.1
2|clipscore|object_integrity|76.0±8.4
2|human|aesthetics|96.5±2.1
2|human|temporal_flow|86.6±4.0
3|aesthetics|initial|446
3|aesthetics|rate|63.3
3|all|initial|4239
3|all|excluded_a|686
3|all|rate|58.3
5|clipscore?policy=ignore-max|aesthetics|48.9±5.8
5|clipscore?policy=ignore-max|temporal_flow|56.1±5.8
5|clipscore?policy=each-truncate|aesthetics|54.3±5.8
5|clipscore?policy=each-truncate|temporal_flow|54.4±5.8
7|gpt-5-video|aesthetics|-0.6806
7|gpt-5-video|temporal_flow|-0.4927
7|human|aesthetics|-0.3847
7|human|temporal_flow|0.0845
text|clipscore|mean of aspects|60.7
figure 4|pearson|color|> 0.94
"""


def test_values_are_as_printed(paper: dict[Place, PublishedValue]) -> None:
    for table, row, column, text in (line.split("|") for line in CORNERS.split("\n")[1:-1]):
        assert paper[table, row, column].text == text


def test_paper_file_has_every_cell_of_the_tables(paper: dict[Place, PublishedValue]) -> None:
    expected: dict[Place, str] = {}
    for table, name in (("2", "{}"), ("5", "clipscore?policy={}")):
        half = printed(f"table{table}", "plus_minus")
        for (row, aspect), text in printed(f"table{table}", "accuracy").items():
            expected[table, name.format(row), aspect] = f"{text}±{half[row, aspect]}"
    for (row, aspect), text in printed("table7", "rho").items():
        expected["7", row, aspect] = text
    for line in rows("table3"):
        aspect = "all" if line["aspect"] == "total" else line["aspect"]
        for column in ("initial", "excluded_c", "final", "rate"):
            expected["3", aspect, column] = line[column]
        expected["3", aspect, "excluded_a"] = line["excluded_a_not_above_b"]
    for policy, text in claims()["policy_average"].items():
        place = (
            ("clipscore", "mean of aspects")
            if policy == "truncate"
            else (f"clipscore?policy={policy}", "all pairs")
        )
        expected["text", *place] = text
    held = {place: value.text for place, value in paper.items() if place[0] in ("2", "3", "5", "7", "text")}
    assert held == expected
    assert len(expected) == 90 + 55 + 20 + 90 + 3


def test_every_value_says_its_table_and_section(paper: dict[Place, PublishedValue]) -> None:
    sections = {"1": "4.5", "2": "6.2", "3": "A.5", "5": "F.2", "text": "F.2", "7": "H"}
    sections["figure 4"] = "5 of the Japanese paper"
    assert {(value.table, value.section) for value in paper.values()} == set(sections.items())
    assert {value.row for value in paper.values() if value.table == "2"} == {*JUDGES, *SCORERS, "human"}
    human = paper["2", "human", "color"]
    assert (human.value, human.half) == (96.8, 2.4)
    assert paper["1", "release", "longest_s"].value == 10486.0


@pytest.fixture(scope="module")
def tables(judgements: JudgedRelease) -> dict[str, Table]:
    made = [facts_table(judgements.release), *duration_tables(judgements), retention_table(judgements)]
    return {table.name: table for table in (*made, *filter_tables(judgements))}


@pytest.fixture(scope="module")
def hold(judgements: JudgedRelease, matrix: Matrix, tables: dict[str, Table]) -> Hold:
    """Hold a release that was judged as the paper prints against a file."""
    return lambda where: hold_against(read_published(where), judgements, matrix, tables)


@pytest.fixture(scope="module")
def against_paper(hold: Hold) -> Against:
    return hold("paper")


def test_no_answer_of_the_papers_own_is_not_reproduced(against_paper: Against) -> None:
    (accuracy,) = [table for table in against_paper.tables if table.name == "against-accuracy"]
    lines = {(row["table"], row["evaluator"], row["aspect"]): row for row in accuracy.rows}
    assert len(lines) == 90 + 20 + 3
    for place, row in lines.items():
        assert abs(row["difference"]) < 0.0005001, place
        if place[0] != "text":
            assert row["verdict"] in ("reproduced", "inconclusive")
            assert row["low"] < row["difference"] < row["high"]
            assert row["half"] == pytest.approx(row["published_half"], abs=0.000501), place
    # the margin is within reach of most of the paper's numbers of pairs, and not of all
    verdicts = Counter(row["verdict"] for row in lines.values())
    assert verdicts["reproduced"] > 2 * verdicts["inconclusive"] > 0
    assert lines["2", "gpt-5-video", "aesthetics"]["verdict"] == "reproduced"
    narrow = lines["2", "videoscore", "object_integrity"]
    assert (narrow["verdict"], narrow["pairs"]) == ("inconclusive", 100)
    assert int(narrow["pairs_needed"].replace(",", "")) > 100


def test_margin_can_be_another(judgements: JudgedRelease, matrix: Matrix, tables: dict[str, Table]) -> None:
    against = hold_against(read_published("paper"), judgements, matrix, tables, 0.02)
    accuracy = next(table for table in against.tables if table.name == "against-accuracy")
    assert "within ± 2 points" in accuracy.note
    verdicts = Counter(row["verdict"] for row in accuracy.rows)
    assert verdicts["inconclusive"] > 10 * verdicts["reproduced"] > 0


def test_the_conditions_stand_beside_the_verdicts(against_paper: Against) -> None:
    conditions = next(table for table in against_paper.tables if table.name == "against-conditions")
    held = {(row["evaluator"], row["what"]): row["same"] for row in conditions.rows}
    # what all evaluators share stands once
    assert held["all", "recipe"] == "yes"
    assert held["all", "data"] == "unknown"
    assert held["all", "filter"] == "no"
    assert held["human", "people's protocol"] == "unknown"
    assert held["gpt-5-video", "model"] == "no"
    accuracy = next(table for table in against_paper.tables if table.name == "against-accuracy")
    of_judge = [row for row in accuracy.rows if row["evaluator"] == "gpt-5-video"]
    assert {row["conditions"] for row in of_judge} == {"filter, model"}


def labelled(judgements: JudgedRelease, **row: Any) -> JudgedRelease:
    """Return a judge's answers under a label of its own."""
    who = ("gpt-5-video-exact", "exact")
    of_judge = [one for one in judgements.trials if one.who[0] == "gpt-5-video"]
    trials = tuple(replace(one, evaluator=who[0], settings=who[1]) for one in of_judge)
    first = trials[0].pair
    answered = Judgement(
        key="k", evaluator=who[0], settings=who[1], pair_id=first.pair_id, source_id=first.source_id,
        aspect=first.aspect, order="high_first", choice="first", preferred="high", use="gpt-5-video", **row,
    )  # fmt: skip
    return replace(judgements, trials=trials, all_trials=trials, names={who: who[0]}, rows=(answered,))


@pytest.mark.parametrize(
    ("prompts", "sent", "same"),
    [
        ("as printed, 0123", ["clips", "clips"], {"wording": "yes", "frames sent": "yes", "model": "yes"}),
        ("built-in", ["all", "clips"], {"wording": "no", "frames sent": "no", "model": "yes"}),
    ],
)
def test_an_evaluator_is_known_whatever_its_label(
    judgements: JudgedRelease, tables: dict[str, Table], prompts: str, sent: list[str], same: dict[str, str]
) -> None:
    details = json.dumps({"frames": [{"used": used} for used in sent]})
    own = labelled(judgements, prompts=prompts, model="gpt-5-2025-08-07", details=details)
    against = hold_against(read_published("paper"), own, matrix_of(own), tables)
    by_name = {table.name: table for table in against.tables}
    accuracy = by_name["against-accuracy"].rows
    assert {row["evaluator"] for row in accuracy} == {"gpt-5-video-exact"}
    assert len(accuracy) == 10
    held = {row["what"]: row["same"] for row in by_name["against-conditions"].rows}
    assert {what: held[what] for what in same} == same


def test_hold_against_leaves_out_people_under_another_protocol(
    judgements: JudgedRelease, matrix: Matrix, tables: dict[str, Table]
) -> None:
    people: Any = SimpleNamespace(votes=[SimpleNamespace(protocol="rule strict, marked viewing, 5 votes")])
    own = replace(judgements, people=people)
    against = hold_against(read_published("paper"), own, matrix, tables)
    accuracy = next(table for table in against.tables if table.name == "against-accuracy")
    assert "human" not in {row["evaluator"] for row in accuracy.rows}
    (line,) = [line for line in against.absent if line.startswith("evaluator human")]
    assert "people answered under another protocol than the paper's (rule strict, marked viewing" in line
    people.votes[0].protocol = "paper"
    against = hold_against(read_published("paper"), own, matrix, tables)
    accuracy = next(table for table in against.tables if table.name == "against-accuracy")
    assert "human" in {row["evaluator"] for row in accuracy.rows}


def test_tables_held_against_the_paper(against_paper: Against) -> None:
    beside = against_paper.beside
    assert beside["gpt-5-video", "aesthetics"] == ("90.1±2.5", "0.0 (reproduced)")
    assert beside["clipscore", "mean of aspects"] == ("60.7", "0.0")
    assert len(beside) == 113
    # what the release lacks is a line each
    assert against_paper.problems == ()
    assert against_paper.absent == (
        "table 3: These pairs have no votes yet: not compared",
        "figure 4: These pairs have no votes yet: there is no filter to compare with: not compared",
    )
    # counts and correlations have a difference
    by_name = {table.name: table for table in against_paper.tables}
    assert set(by_name) == {f"against-{what}" for what in ("accuracy", "conditions", "duration", "release")}
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


def write(folder: Path, rows: str, gives: str = "accuracy", columns: object = ("color", "aesthetics")) -> str:
    path, listed = folder / "mine.toml", json.dumps(columns)
    path.write_text(FORM.format(gives=gives, columns=listed, rows=rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("rows_", "gives", "columns", "line"),
    [
        ('human = ["1"]', "accuracy", ["color", "aesthetics"], ", human: 1 values for 2 columns"),
        ('human = "1"', "accuracy", ["color"], ", human: no values for 1 columns"),
        ('human = ["many"]', "accuracy", ["color"], ", human, color: 'many' is not a number"),
        ("human = [nan]", "accuracy", ["color"], ", human, color: nan is not a number"),
        ("human = [true]", "accuracy", ["color"], ", human, color: True is not a number"),
        ('human = ["101"]', "accuracy", ["color"], ", human, color: 101 lies outside 0 to 100"),
        ("human = [1.5]", "duration_rho", ["color"], ", human, color: 1.5 lies outside -1 to 1"),
        ("human = [1, 2]", "accuracy", ["color", "color"], ", human, color: this value stands in the file"),
        ("human = [1]", "accuracy", ["colour"], ": unknown aspect 'colour' in accuracy (did you"),
        ("colour = [1]", "retention", ["final"], ": unknown aspect 'colour' in retention (did you"),
        ("color = [1]", "retention", ["finally"], ": unknown column 'finally' in retention (did you"),
        ("all = [1]", "release", ["videos"], ": unknown row 'all' in release (there are release"),
        ("release = [1]", "release", ["films"], ": unknown column 'films' in release"),
        ("human = [1]", "acuracy", ["color"], ": gives 'acuracy': choose release, accuracy"),
        ("human = [1]", "accuracy", 7, ": columns have to be a list of names"),
    ],
)
def test_misfit_is_one_line_and_left_out(
    tmp_path: Path, hold: Hold, rows_: str, gives: str, columns: object, line: str
) -> None:
    against = hold(write(tmp_path, rows_, gives, columns))
    (problem,) = against.problems
    assert problem.startswith(f"table 9{line}")
    compared = [row for table in against.tables for row in table.rows]
    # the first of two equal ones counts
    assert len(compared) == ("stands in" in line)


def test_a_mistake_leaves_the_rest(tmp_path: Path, hold: Hold) -> None:
    lines = 'human = ["90", "?"]\nnobody = ["50", "50"]\nclipscore = ["66.2±6.5", ""]'
    against = hold(write(tmp_path, lines))
    assert against.problems == ("table 9, human, aesthetics: '?' is not a number: not compared",)
    assert against.absent == ("evaluator nobody (table 9): it has no answers here: not compared",)
    (table,) = against.tables
    assert table.title == "Accuracy, against Mine"
    compared = {(row["evaluator"], row["aspect"], row["verdict"]) for row in table.rows}
    assert compared == {("human", "color", ""), ("clipscore", "color", "reproduced")}
    # your own label may name a row
    (own,) = hold(write(tmp_path, '"clipscore-ignore-max" = [60, 50]')).tables
    assert {row["evaluator"] for row in own.rows} == {"clipscore-ignore-max"}


def test_mean_over_other_aspects_is_left_out(judgements: JudgedRelease, tables: dict[str, Table]) -> None:
    trials = tuple(one for one in judgements.trials if one.pair.aspect in ("color", "aesthetics"))
    part = replace(judgements, trials=trials, all_trials=trials)
    against = hold_against(read_published("paper"), part, matrix_of(part), tables)
    assert {row["aspect"] for row in against.tables[0].rows} == {"color", "aesthetics"}
    reason = "the published one is over more aspects than the report has: not compared"
    left_out = {line for line in against.absent if reason in line}
    assert left_out == {f"mean of aspects (text): {reason}", f"all pairs (text): {reason}"}


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


TYPED = "[[tables]]\ntable = {}\nsection = '1'\ngives = 'accuracy'\ncolumns = []\nrows = {{}}"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("tables = [3]", "[[tables]] number 1: not a table"),
        ("[[tables]]\nsection = '1'", "[[tables]] number 1: without table, gives, columns, rows"),
        (TYPED.format("'1'") + "\nrow = 1", "table 1: unknown key 'row' (did you mean rows?)"),
        (TYPED.format("1"), "table 1: table and section have to be texts"),
    ],
)
def test_a_table_that_is_none_is_one_line(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    published = read_published(str(path))
    assert (published.problems, published.values) == ((line,), ())


def test_a_file_that_is_not_there_is_reported_with_what_to_write() -> None:
    with pytest.raises(UserInputError, match=r"--against papr: No such file.*; write paper, or the path"):
        read_published("papr")


@few
@given(st.lists(st.tuples(st.floats(0, 100), st.none() | st.floats(0, 50)), min_size=10, max_size=10))
def test_published_file_is_read(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[float, float | None]]
) -> None:
    texts = [f"{value:.3f}" + ("" if half is None else f"±{half:.2f}") for value, half in cells]
    folder = tmp_path_factory.mktemp("written")
    published = read_published(write(folder, f"human = {texts}", columns=ASPECT_ORDER))
    assert published.problems == ()
    for value, (number, half) in zip(published.values, cells, strict=True):
        assert value.value == pytest.approx(number, abs=0.001)
        assert (value.half is None) == (half is None)
        assert half is None or value.half == pytest.approx(half, abs=0.01)
