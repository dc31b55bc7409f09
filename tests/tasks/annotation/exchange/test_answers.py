"""Answers of another platform as votes: what is imported, and that nothing is counted twice."""

from __future__ import annotations

import json
from pathlib import Path

from tasks.annotation.desk.desk import Desk
from tasks.annotation.exchange.mapping import load_mapping
from tests.tasks.annotation.exchange.answer_files import first, mapping, slot, table, taken, votes


def test_answers_to_our_own_table_need_no_mapping(lite: Desk, tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.csv",
        [(slot(0), "anna", "left", "A"), (slot(1), "anna", "right", "b"), (slot(0, 2), "bo", "left", "C")],
    )
    result = taken(lite, path)
    assert (result.rows, result.accepted, result.known, result.left_out) == (3, 3, 0, ())
    one, two, three = votes(lite)
    assert (one.pair_id, one.rating, one.first, one.preferred) == ("color-000", "A", first(0), first(0))
    assert (two.preferred, two.rating) == ("low" if first(1) == "high" else "high", "B")
    assert three.first == first(0, 2)
    assert {vote.worker for vote in (one, two)} == {lite.workers.name_of("file", "anna")}
    assert "anna" not in one.model_dump_json()
    assert (one.origin, one.pair_duration_s) == ("file", 60)


def test_columns_values_and_encoding_of_a_japanese_platform(lite: Desk, tmp_path: Path) -> None:
    toml = tmp_path / "platform.toml"
    toml.write_text(
        """
        [file]
        encoding = "cp932"
        timezone = "Asia/Tokyo"
        [columns]
        task = "課題ID"
        worker = "作業者ID"
        preferred = "どちらがよいか"
        rating = "劣化"
        comment = "感想"
        total_s = "所要秒"
        at = "終了時刻"
        [values.preferred]
        "1" = "left"
        "2" = "right"
        [values.rating]
        "はっきり" = "A"
        "弱い" = "B"
        [constants]
        platform = "crowd"
        language = "ja"
        """,
        encoding="utf-8",
    )
    columns = ("番号", "作業者ID", "課題ID", "どちらがよいか", "劣化", "感想", "所要秒", "終了時刻")
    rows = [(1, "太郎", slot(), "２", "はっきり", "色が変、\n二行目", "61.5", "2026/11/23 18:00:00")]
    path = table(tmp_path / "a.csv", rows, columns, encoding="cp932")
    # a worker is the same person on every way in
    worker = lite.workers.enter("autumn", "crowd", "太郎").worker
    assert taken(lite, path, like=load_mapping(toml)).left_out == ()
    (vote,) = votes(lite)
    assert vote.preferred != first()
    assert (vote.worker, vote.rating, vote.comment) == (worker, "A", "色が変、\n二行目")
    assert (vote.total_s, vote.at, vote.language) == (61.5, "2026-11-23T09:00:00+00:00", "ja")


def test_pairs_with_the_order_said_in_tabs_and_in_json_lines(lite: Desk, tmp_path: Path) -> None:
    columns = ("pair", "first", "worker", "preferred", "rating")
    tabs = table(tmp_path / "a.tsv", [("color-000", "low", "anna", "left", "A")], columns, delimiter="\t")
    lines = tmp_path / "a.jsonl"
    row = {
        "pair": "color-001",
        "first": "high",
        "worker": 17,
        "preferred": 1,
        "rating": "A",
        "watched_s": 55.5,
    }
    lines.write_text(json.dumps(row) + "\n\n" + json.dumps({**row, "worker": 18.0, "watched_s": None}) + "\n")
    like = mapping(values={"preferred": {"1": "left"}})
    assert taken(lite, tabs, lines, like=like).accepted == 3
    one, two, three = votes(lite)
    assert (one.first, one.preferred) == ("low", "low")
    assert (two.preferred, two.watched_s) == ("high", 55.5)
    assert three.worker == lite.workers.name_of("file", "18")
    assert three.watched_s is None


def test_file_that_is_taken_again_changes_nothing(lite: Desk, tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", [(slot(), "anna", "left", "A"), (slot(1), "bo", "left", "A")])
    taken(lite, path)
    before = lite.votes.read("autumn")
    again = taken(lite, path)
    assert (again.accepted, again.known, again.left_out) == (0, 2, ())
    assert lite.votes.read("autumn") == before


def test_a_dry_run_says_the_same_and_stores_nothing(lite: Desk, tmp_path: Path) -> None:
    rows = [(slot(), "anna", "left", "A"), (slot(), "anna", "left", "A")]
    # a byte order mark is not part of the first column
    path = table(tmp_path / "a.csv", rows, encoding="utf-8-sig")
    dry = taken(lite, path, dry=True)
    assert votes(lite) == []
    assert "would be imported" in dry.in_words()
    real = taken(lite, path)
    assert (dry.accepted, dry.left_out) == (real.accepted, real.left_out) == (1, real.left_out)
