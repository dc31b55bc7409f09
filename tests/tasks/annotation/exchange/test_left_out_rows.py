"""Unusable answers of another platform: each is left out with its line and its reason."""

from __future__ import annotations

import csv
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas.errors import UserInputError
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.refusals import DeskRefusal
from tasks.annotation.exchange.answers import import_answers, write_report
from tasks.annotation.exchange.mapping import AnswerMapping, FileForm, load_mapping
from tasks.annotation.exchange.rows import read_answers
from tests.tasks.annotation.example_desk import KEY
from tests.tasks.annotation.exchange.answer_files import first, mapping, slot, table, taken, votes, why


def test_each_wrong_row_is_reported_by_its_line_and_harms_no_other(lite: Desk, tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.csv",
        [
            (slot(0), "anna", "left", "A"),
            ("no-task", "anna", "left", "A"),
            (slot(1), "", "left", "A"),
            (slot(1), "anna", "both", "A"),
            (slot(1), "anna", "left", "D"),
            (slot(1), "anna", "left"),
            (slot(1), "anna", "left", "A", "more"),
            (slot(0, 2), "anna", "left" if first(0, 2) == first(0) else "right", "A"),
            (slot(0), "anna", "left", "B"),
            (slot(2), "a\nb", "left", "B"),
            (slot(2), "x" * 300, "left", "B"),
            (slot(2), "anna", "left", "A"),
        ],
    )
    result = taken(lite, path)
    assert why(result) == [
        (3, "unknown_task"), (4, "half_row"), (5, "unknown_value"), (6, "unknown_value"), (7, "half_row"),
        (8, "unreadable"), (9, "duplicate"), (10, "other_answer"), (13, "unknown_value"),
    ]  # fmt: skip
    assert result.rows == 12 == result.accepted + result.known + len(result.left_out)
    assert sorted(vote.pair_id for vote in votes(lite)) == ["color-000", "color-002", "color-002"]
    messages = {row.line: row.message for row in result.left_out}
    assert "'both'" in messages[5]
    assert "[values.preferred]" in messages[5]
    assert "line 2 of a.csv" in messages[9]
    assert "line 2 of a.csv" in messages[10]
    assert not any("anna" in message for message in messages.values()), "a report names nobody"


def test_a_corrected_file_gives_only_what_was_missing(lite: Desk, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [(slot(0), "anna", "left", "A"), (slot(1), "anna", "left", "?"), (slot(2), "anna", "left", "B")]
    assert why(taken(lite, table(path, rows))) == [(3, "unknown_value")]
    rows[1] = (slot(1), "anna", "left", "C")
    again = taken(lite, table(path, rows))
    assert (again.accepted, again.known, again.left_out) == (1, 2, ())
    # what is stored counts against another answer in a file
    result = taken(lite, table(path, [(slot(), "anna", "left", "C"), (slot(0, 2), "bo", "left", "C")]))
    assert (why(result), result.accepted) == ([(2, "other_answer")], 1)


def test_a_quotation_mark_that_is_never_closed_imports_nothing(lite: Desk, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    head = f"task,worker,preferred,rating,comment\n{slot()},anna,left,A,fine\n"
    for unclosed in ('"hm', '"left, right', '"' + "x" * 140_000):
        path.write_text(head + f"{slot(1)},anna,left,A,{unclosed}\n" + f"{slot(2)},bo,left,A,\n" * 3)
        with pytest.raises(UserInputError, match=r"a.csv, line 3: .*a quotation mark (is )?not closed"):
            taken(lite, path)
    # a later mark closes it
    path.write_text(head + f'{slot(1)},anna,left,A,"hm\n{slot(2)},bo,left,A,as he said"\n')
    with pytest.raises(
        UserInputError, match=rf"line 3: a quotation mark opens a cell that holds the row '{slot(2)}"
    ):
        taken(lite, path)
    assert votes(lite) == []
    path.write_text(head + f'{slot(1)},anna,left,A,"one, two,\nthree, four, five"\n')
    assert taken(lite, path).accepted == 2


@pytest.mark.parametrize(
    "identity", ["1.23457E+15", "1,23E+05", "123456789012345.0", "'123", '="123"', "=12"]
)
def test_an_id_that_a_spreadsheet_changed_is_nobody(lite: Desk, tmp_path: Path, identity: str) -> None:
    result = taken(
        lite, table(tmp_path / "a.csv", [(slot(), identity, "left", "A"), (slot(1), "1234E5X", "left", "A")])
    )
    assert why(result) == [(2, "unknown_value")]
    assert "a spreadsheet" in result.left_out[0].message
    assert result.accepted == 1


@pytest.mark.parametrize(
    "identity",
    [
        "{{%PROLIFIC_PID%}}",
        "${workerId}",
        "WORKER_ID",
        "null",
        "undefined",
        "ASSIGNMENT_ID_NOT_AVAILABLE",
        "#N/A",
    ],
)
def test_a_place_that_a_platform_did_not_fill_is_nobody(lite: Desk, tmp_path: Path, identity: str) -> None:
    result = taken(lite, table(tmp_path / "a.csv", [(slot(), identity, "left", "A")]))
    assert why(result) == [(2, "unknown_value")]
    assert "is not a person" in result.left_out[0].message
    with pytest.raises(DeskRefusal, match="is not a person"):
        lite.workers.enter("autumn", "prolific", identity)


@pytest.mark.parametrize(
    ("encoding", "delimiter", "before"),
    [
        ("utf-8", ";", ""),
        ("utf-8", "\t", ""),
        ("utf-8-sig", ",", ""),
        ("utf-16", "\t", ""),
        ("utf-8", "|", "sep=|\n"),
        ("utf-8", ";", '"sep=;"\r\n'),
        ("utf-8", "\t", "sep=\t\n"),
    ],
)
def test_import_reads_tables_as_spreadsheets_write_them(
    lite: Desk, tmp_path: Path, encoding: str, delimiter: str, before: str
) -> None:
    rows = [("task", "worker", "preferred", "rating"), (slot(), "Jörg", "left", "A")]
    path = tmp_path / "a.csv"
    path.write_text(before + "".join(delimiter.join(row) + "\n" for row in rows), encoding=encoding)
    assert taken(lite, path).accepted == 1


def test_a_file_of_another_encoding_is_reported_and_nothing_is_guessed(lite: Desk, tmp_path: Path) -> None:
    rows = [(slot(), "太郎", "left", "A"), (slot(1), "bo", "left", "A")]
    result = taken(lite, table(tmp_path / "a.csv", rows, encoding="cp932"))
    assert why(result) == [(2, "unreadable")]
    assert "encoding in [file]" in result.left_out[0].message
    assert result.accepted == 1


def test_wrong_lines_of_json_stop_no_other(lite: Desk, tmp_path: Path) -> None:
    good = {"task": slot(), "worker": "a", "preferred": "left", "rating": "A"}
    no_task: dict[str, Any] = {"task": None}
    wrong: list[tuple[dict[str, Any] | str, str]] = [
        ("[1, 2]", "unreadable"),
        ("{", "unreadable"),
        ({"worker": ["a"]}, "unreadable"),
        ({"preferred": None}, "half_row"),
        ({"at": "soon"}, "unknown_value"),
        ({"total_s": "-1"}, "unknown_value"),
        ({"total_s": "nan"}, "unknown_value"),
        ({"language": "xx"}, "unknown_value"),
        ({"platform": "../x"}, "unknown_value"),
        ({"pair": "color-002"}, "unknown_pair"),
        ({**no_task, "pair": "none", "first": "low"}, "unknown_pair"),
        ({**no_task, "pair": "color-000"}, "half_row"),
    ]
    # half characters and zero bytes are not trouble
    lines = [json.dumps({**good, "task": slot(1), "comment": "x\ud800\0y"})]
    for change, _ in wrong:
        row = (
            change if isinstance(change, str) else {k: v for k, v in (good | change).items() if v is not None}
        )
        lines.append(row if isinstance(row, str) else json.dumps(row))
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    result = taken(lite, path)
    assert why(result) == [(line, reason) for line, (_, reason) in enumerate(wrong, 2)]
    assert [vote.comment for vote in votes(lite)] == ["x?y"]


def test_a_file_that_cannot_be_meant_is_reported_before_any_vote(lite: Desk, tmp_path: Path) -> None:
    good = table(tmp_path / "good.csv", [(slot(), "anna", "left", "A")])
    path = tmp_path / "a.csv"
    heads: list[tuple[str, dict[str, Any], str]] = [
        ("task,worker,preferred", {}, "has no column for the rating"),
        ("pair,worker,preferred,rating", {}, "does not identify the answered pair"),
        ("task,worker,preferred,rating,rating", {}, "appears twice"),
        ("task,worker,preferred,rating", {"columns": {"worker": "workre"}}, "Did you mean 'worker'"),
        ("", {}, "is empty"),
    ]
    for head, like, message in heads:
        path.write_text(f"{head}\n1,2,3,4,5\n" if head else "")
        with pytest.raises(UserInputError, match=message):
            taken(lite, good, path, like=mapping(**like))
        assert votes(lite) == []
    with pytest.raises(UserInputError, match="No such file"):
        taken(lite, tmp_path / "none.csv")
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(UserInputError, match=r"name it \.csv"):
        taken(lite, tmp_path / "a.xlsx")
    assert taken(lite, tmp_path / "a.xlsx", like=mapping(file={"form": "jsonl"})).left_out[0].line == 1
    with pytest.raises(UserInputError, match="no campaign 'spring'"):
        import_answers(lite, KEY, "spring", [], AnswerMapping())


def test_a_mapping_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    for text, message in (
        ("[columns]\nrate = 'x'", "columns.rate"),
        ("[values.rating]\nyes = 'D'", "'yes' cannot mean 'D'"),
        ("[constants]\nworker = 'x'", "differs from row to row"),
        ("[constants]\nfirst = 'left'", "is not one of high, low"),
        ("[constants]\nfirst = 'high'\n[columns]\nfirst = 'x'", "choose one"),
        ("[file]\nencoding = 'utf-16'", "file.encoding"),
        ("[file]\ntimezone = 'Asia/Tokio'", "unknown time zone"),
        ("[file", "is not valid TOML"),
    ):
        path.write_text(text)
        with pytest.raises(UserInputError, match=message):
            load_mapping(path)
    with pytest.raises(UserInputError, match="No such file"):
        load_mapping(tmp_path / "none.toml")


def test_the_report_is_a_table_that_spreadsheets_read(lite: Desk, tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", [(slot(), "anna", "=1+1,\n左", "A")])
    result = taken(lite, path)
    write_report(tmp_path / "r.csv", result.left_out)
    assert (tmp_path / "r.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    with (tmp_path / "r.csv").open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    said = [row[name] for name in ("file", "line", "last_line", "reason")]
    assert said == [str(path), "2", "3", "unknown_value"]
    # a message never begins with a character that a spreadsheet would execute
    assert row["message"][0] not in "=+-@"


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["csv", "tsv", "jsonl"]), st.sampled_from(["utf-8", "cp932"]))
def test_rows_of_any_file_have_lines(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, form: str, encoding: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(b"task,worker\n" + data)
    try:
        answers = read_answers(path, FileForm.model_validate({"form": form, "encoding": encoding}))
    except UserInputError as problem:
        assert "its first line" in str(problem) or "a quotation mark" in str(problem)
        return
    ends = [(row.line, row.last_line) for row in answers.rows]
    assert all(begin <= end for begin, end in ends)
    assert all(end < begin for (_, end), (begin, _) in pairwise(ends))


def test_every_row_is_accepted_or_left_out(lite: Desk, tmp_path: Path) -> None:
    drawn = random.Random(7)
    rows = [
        (
            drawn.choice([slot(n % 3, 1 + n % 4), "", "none"]),
            drawn.choice(["anna", "bo", "cy", ""]),
            drawn.choice(["left", "right", "LEFT", "?"]),
            drawn.choice(["A", "B", "C", ""]),
        )
        for n in range(400)
    ]
    result = taken(lite, table(tmp_path / "a.csv", rows))
    empty = sum(not any(row) for row in rows)
    assert result.rows == 400 - empty == result.accepted + len(result.left_out)
    stored = votes(lite)
    assert len(stored) == result.accepted == len({(vote.worker, vote.pair_id) for vote in stored}) <= 9
