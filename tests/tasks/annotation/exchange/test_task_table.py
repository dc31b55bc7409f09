"""Tasks as a table for another platform, and how the answers return."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from storage_schemas.errors import UserInputError
from tasks.annotation.desk.desk import Desk
from tasks.annotation.exchange.task_table import Slots, TableOptions, check_target, task_rows, write_table
from tests.tasks.annotation.example_desk import KEY, HandClock, example_campaign, example_tasks, open_desk
from tests.tasks.annotation.exchange.answer_files import table, taken

PAIRS = ("aesthetics-000", "aesthetics-001", "color-000", "color-001")
URL = "https://annotate.example.org/study/"


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Desk]:
    """A desk on SQLite whose campaign needs three votes on each of four pairs."""
    with open_desk(tmp_path, HandClock()) as desk:
        campaign = example_campaign(workers_per_pair=3, pay_per_task=0.5)
        desk.organiser.publish(campaign, example_tasks(2, ["color", "aesthetics"]))
        yield desk


def rows(desk: Desk, **options: Any) -> list[dict[str, Any]]:
    return task_rows(desk, KEY, "autumn", TableOptions(**{"url": URL, **options}))


def test_each_row_is_a_vote_that_is_wanted_with_a_link_of_its_own(lite: Desk) -> None:
    table_rows = rows(lite)
    assert Counter(row["pair"] for row in table_rows) == dict.fromkeys(PAIRS, 3)
    assert {row["number"] for row in table_rows} == {1, 2, 3}
    assert len({row["task"] for row in table_rows}) == len({row["link"] for row in table_rows}) == 12
    assert all((row["seconds"], row["pay"], row["currency"]) == (60, 0.5, "USD") for row in table_rows)
    # the row does not reveal which video is which
    keys = {"task", "campaign", "pair", "number", "aspect", "seconds", "pay", "currency", "link"}
    assert {key for row in table_rows for key in row} == keys
    link = urlsplit(table_rows[0]["link"])
    assert (link.netloc, link.path) == ("annotate.example.org", "/study/c/autumn/enter")
    (token,) = parse_qs(link.query)["token"]
    worker = lite.workers.enter("autumn", "link", token, token=token)
    lite.workers.consent("autumn", worker.worker, "en")
    assert lite.queue.next("autumn", worker.worker).state == "opened"


def test_what_has_its_votes_is_not_asked_for_again(lite: Desk, tmp_path: Path) -> None:
    table_rows = [row for row in rows(lite, links="none") if row["pair"] == "color-000"]
    answers = [(row["task"], f"w{n}", "left", "A") for n, row in enumerate(table_rows[:2])]
    taken(lite, table(tmp_path / "a.csv", answers))
    left = Counter(row["pair"] for row in rows(lite))
    assert (left["color-000"], left["color-001"]) == (1, 3)
    assert len(rows(lite, every=True)) == 12


def test_a_platform_writes_its_worker_s_id_into_the_link(lite: Desk) -> None:
    row = rows(lite, links="worker", placeholder="${worker id}")[0]
    begin, _, rest = row["link"].partition("?")
    assert begin.endswith("/c/autumn/enter")
    assert rest.startswith("workerId=${worker id}&")
    assert parse_qs(rest)["assignmentId"] == [row["task"]]
    assert parse_qs(rest)["hitId"] == ["autumn"]
    assert lite.events.read("autumn")[-1].kind.value == "published", "no link of ours was made"


def test_without_links_a_platform_has_all_it_needs_to_show_a_task(lite: Desk) -> None:
    table_rows = rows(lite, links="none", url="", media_url="https://cdn.example.org/media/")
    slots = Slots(KEY, "autumn")
    firsts = set()
    for row in table_rows:
        first = slots.slot(row["pair"], row["number"]).first
        firsts.add(first)
        second = "low" if first == "high" else "high"
        assert row["left_video"] == f"https://cdn.example.org/media/{row['pair']}/{first}.mp4"
        assert row["right_video"].endswith(f"{row['pair']}/{second}.mp4")
        assert row["degraded"] == ("left" if first == "low" else "right")
        assert {stretch["video"] for stretch in row["must_see"]} == {row["degraded"]}
        assert row["prompt"][1] == {"start_s": 10, "end_s": 20, "caption": "A dog runs"}
    assert firsts == {"high", "low"}, "the order is drawn for each task"


def test_answers_to_the_table_come_back_as_what_was_meant(lite: Desk, tmp_path: Path) -> None:
    # workers who always notice the damage
    answers = [
        (row["task"], f"w{row['number']}", "right" if row["degraded"] == "left" else "left", "A")
        for row in rows(lite, links="none")
    ]
    assert taken(lite, table(tmp_path / "a.csv", answers)).accepted == 12
    assert {vote.preferred for _, vote in lite.votes.read("autumn")} == {"high"}
    assert all(one.done for one in lite.organiser.progress("autumn"))
    assert rows(lite) == []


def test_what_may_not_leave_the_store_is_left_out_of_a_table_that_shows_it(lite: Desk) -> None:
    def free(task: Any) -> bool:
        return bool(task.pair_id != "color-000")

    table_rows = task_rows(lite, KEY, "autumn", TableOptions(links="none"), free)
    assert {row["pair"] for row in table_rows} == {*PAIRS} - {"color-000"}
    # a link alone reveals nothing
    assert len(task_rows(lite, KEY, "autumn", TableOptions(url=URL), free)) == 12


def test_both_kinds_of_file_hold_the_same(lite: Desk, tmp_path: Path) -> None:
    table_rows = rows(lite, links="none")
    write_table(tmp_path / "t.csv", table_rows, "utf-8-sig")
    write_table(tmp_path / "t.jsonl", table_rows)
    with (tmp_path / "t.csv").open(encoding="utf-8-sig", newline="") as file:
        cells = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert lines == table_rows
    assert len(cells) == len(table_rows)
    for cell, line in zip(cells, lines, strict=True):
        assert json.loads(cell["prompt"]) == line["prompt"]
        assert cell["task"] == line["task"]
        assert cell["prompt"].startswith("["), "a caption is nothing that a spreadsheet would run"


def test_what_cannot_be_written_is_reported(lite: Desk, tmp_path: Path) -> None:
    for url in ("", "javascript:alert(1)"):
        with pytest.raises(UserInputError, match="--public-url"):
            rows(lite, url=url)
    with pytest.raises(UserInputError, match="no campaign 'spring'"):
        task_rows(lite, KEY, "spring", TableOptions(url=URL))
    with pytest.raises(UserInputError, match=r"name it \.csv"):
        check_target(tmp_path / "t.xlsx")
    (tmp_path / "t.csv").write_text("links that were sent")
    with pytest.raises(UserInputError, match="already exists"):
        write_table(tmp_path / "t.csv", rows(lite))
    with pytest.raises(UserInputError, match="cannot be encoded in cp932"):
        write_table(tmp_path / "u.csv", [{"caption": "naïve ☺"}], "cp932")
    assert not (tmp_path / "u.csv").exists()


def test_slots_are_the_same_again_and_tell_nothing() -> None:
    slots = Slots(KEY, "autumn")
    assert slots.slot("p", 1) == Slots(KEY, "autumn").slot("p", 1)
    known = slots.by_id([f"p{n}" for n in range(40)], wanted=5)
    assert len(known) == 40 * 50
    assert known[slots.slot("p3", 7).id].pair_id == "p3"
    share = sum(slot.first == "high" for slot in known.values()) / len(known)
    assert 0.46 < share < 0.54
    assert not set(known) & set(Slots(KEY, "spring").by_id([f"p{n}" for n in range(40)], 5))
