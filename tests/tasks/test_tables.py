"""Tables that people hand in: what is read, and what is refused rather than guessed."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import UserInputError
from tasks.scoring.suites.human_ratings import load_ratings
from tasks.scoring.user_files import read_rows, read_text
from tasks.tables import TableRow, parse_table

HERE = Path("table.csv")
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=12)


@given(st.lists(st.tuples(cells, cells, cells), max_size=5), st.sampled_from([",", ";", "\t"]))
def test_what_a_writer_of_csv_writes_is_read(rows: list[tuple[str, ...]], delimiter: str) -> None:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerows([("a", "b", "c"), *rows])
    kept = [dict(zip("abc", (cell.strip() for cell in row), strict=True)) for row in rows]
    table = parse_table(HERE, out.getvalue())
    assert [row.cells for row in table.rows] == [row for row in kept if any(row.values())]


def test_rows_have_their_lines_and_what_they_lack_is_absent() -> None:
    table = parse_table(HERE, '\n a ,b,\n1,"x\ny",,more\n\n2\n')
    assert table.columns == ("a", "b")
    assert table.rows == (
        TableRow(3, 4, {"a": "1", "b": "x\ny"}, 4, True),
        TableRow(6, 6, {"a": "2"}, 1, False),
    )


@pytest.mark.parametrize(
    ("rows", "third"),
    [
        ('1,2,"a list:\n4,5,6\nand more"\n7,8,9\n', "a list:\n4,5,6\nand more"),
        ('1,2,"a list:\r\n4,5,6\r\n"\r\n7,8,9\r\n', "a list:\r\n4,5,6"),
        ('"1" ,"2"  ,"3" \n7,8,9\n', "3"),
        ('1,2,"say ""hi"" , ""you"" " \r\n7,8,9\n', 'say "hi" , "you"'),
    ],
)
def test_what_is_proved_right_is_read(rows: str, third: str) -> None:
    table = parse_table(HERE, f"a,b,c\n{rows}")
    assert [row.cells for row in table.rows] == [
        {"a": "1", "b": "2", "c": third},
        {"a": "7", "b": "8", "c": "9"},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty: its first line must name the columns"),
        ("a,b,a\n", "'a' appears twice"),
        ("a,b\n", "has no column c: it has a, b"),
        ('a,b,c\n1,2,"3\n', "line 2: a quotation mark is not closed"),
        ('a,b,c\n1,"2" 3,4\n', "line 2: a quotation mark is not closed, or text follows its end"),
        ('a,b,c\n1,2,"3\n4,5,6"\n', "line 2: a quotation mark opens a cell that holds the row '4,5,6'"),
        (
            'id,title,c\n1,"a cat,x y\n2,a dog,is here"\n3,c d,c\n',
            "line 2: .*holds the row '2,a dog,is here'",
        ),
        ('a,b,c,d\n1,2,"3\n4,5,6",7\n', "line 2: .*holds the row '4,5,6'"),
        ('a,b,c\n1,2,"3\n4,5,6\nand more"\n7,8\n', "line 2: .*holds the row '4,5,6'"),
        ('a,b,c\n1,2,"3\n4,5\n6,7,8"\n', "line 2: .*holds the row '6,7,8'"),
        ('a\tb\tc\n1\t"hi\tx\n2\t5"\ty\n', "line 2: .*holds the row"),
        ('sep=;\na;b;c\n1;2;"3\n', "line 3: a quotation mark is not closed"),
    ],
)
def test_a_damaged_table_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UserInputError, match=said):
        parse_table(HERE, text, needed=("c",))


def test_a_header_is_checked_where_no_row_follows(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("model,prompt\n")
    with pytest.raises(UserInputError, match="has no column dimension, prompt_id, rater, rating"):
        load_ratings(path, {})


def test_ratings_are_not_swallowed(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    lines = [f"m,p{n},quality,r,3," for n in range(9)]
    lines[4] += '"'
    path.write_text("\n".join(["model,prompt_id,dimension,rater,rating,note", *lines]))
    with pytest.raises(UserInputError, match="line 6: a quotation mark"):
        load_ratings(path, {"quality": (1, 5)})


def test_another_encoding_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "prompts.csv"
    path.write_bytes("prompt_id,text\n1,Käse\n".encode("cp1252"))
    with pytest.raises(UserInputError, match=r"is not UTF-8 at byte 18: .*iconv -f WINDOWS-1252 -t UTF-8"):
        list(read_rows(path, ("text",)))
    path.write_bytes("prompt_id;text\n1;Käse\n".encode("utf-16"))
    assert [row for _, row in read_rows(path, ("text",))] == [{"prompt_id": "1", "text": "Käse"}]
    path.write_bytes(b"\xef\xbb\xbftext")
    assert read_text(path) == "text"
