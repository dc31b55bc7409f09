"""`annotate status`, `links`, `codes` and `erase` on a campaign with a week of votes."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from statistics import median

import pytest

from storage_schemas.store import Store
from storage_schemas.votes import Standing, VotesStore
from tests.slvmeval.cli.running import Run, lacks
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.organising import ASPECTS, CAREFUL, HASTY, votes_of_a_week
from tests.slvmeval.web.annotation.pieces import NAME, Browser


@pytest.fixture
def annotate(study: Study, run: Run) -> Run:
    """Give the commands on the store of the campaign."""
    return lambda *words, **more: run("annotate", *words, "--store", study.root, **more)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def collected(study: Study) -> VotesStore:
    """Put the votes of the desk into the store, and return those of the store."""
    files = VotesStore(Store.open(study.root))
    with study.desk() as desk:
        files.add([vote for _, vote in desk.votes.read(NAME)])
    return files


def test_status_tells_how_far_it_is(busy: Study, tmp_path: Path, annotate: Run, run: Run) -> None:
    output = annotate("status", NAME, "--set", "rate=0.60").out
    assert re.search(r"all\s+█{16}·{8}\s+140 of 200\s+28 of 40\s+0\s+-?\d\.\d\d", output)
    assert re.search(r"temporal_flow\s+█+·+\s+\d+ of 40", output)
    assert not lacks(
        output,
        "workers: 20 entered, 20 answered, 0 excluded, 1 to review",
        "cost: 84.00 EUR so far, 36.00 EUR still to come, 0.60 EUR per task",
    )
    # and for programs
    (values,) = annotate("status", "--format", "json").json
    assert (values["total"]["votes"], values["total"]["wanted"], values["done"]) == (140, 200, False)
    assert {row["aspect"]: row["pairs"] for row in values["aspects"]} == dict.fromkeys(ASPECTS, 8)
    cost = {"rate": 0.5, "per": "task", "so_far": 70.0, "to_end": 30.0, "currency": "EUR", "total": 100.0}
    assert values["cost"] == {**cost, "extras": 0}
    with busy.desk() as opened:
        took = [vote.total_s for _, vote in opened.votes.read(NAME) if vote.total_s is not None]
    assert values["measured_s"] == pytest.approx(median(took))
    # twenty seconds of both videos at a time, and a minute
    assert values["expected_s"] == pytest.approx(busy.pairs[0].watch_s(0) + 60)
    assert (values["workers"]["to_review"], values["campaign"]["name"]) == (1, NAME)
    assert -1 < values["alpha"] < 1
    # of nothing, and of no such campaign
    Store.create(tmp_path / "empty")
    assert "nothing is published yet" in run("annotate", "status", "--store", tmp_path / "empty").out
    assert "nothing" in annotate("status", "nothing", code=1).err


def refused_addresses(annotate: Run) -> None:
    wrong = ("", "elsewhere", "ftp://elsewhere", "https://", "https://a.example/?b=c", "https://a.example/b")
    for url in wrong:
        said = annotate("links", "--public-url", url, code=1).err
        assert "give the address at which workers reach the pages" in said, url


def test_links_are_good_for_one_worker_each(busy: Study, tmp_path: Path, annotate: Run) -> None:
    busy.serve()
    out = tmp_path / "links.csv"
    note = '=HYPERLINK("https://elsewhere.example")'
    refused_addresses(annotate)
    words = ("links", "--count", "3", "--out", out, "--note", note, "--public-url", f"{busy.address}/")
    assert "3 links of campaign study" in annotate(*words).out
    rows = rows_of(out)
    assert [row["number"] for row in rows] == ["1", "2", "3"]
    assert rows[0]["note"] == f"'{note}"
    assert len({row["link"] for row in rows}) == 3
    assert out.stat().st_mode & 0o077 == 0
    head = f"{busy.address}/c/{NAME}/enter?token="
    assert all(row["link"].startswith(head) for row in rows)
    with Browser(busy.address, rows[1]["link"].removeprefix(head)) as browser:
        assert browser.enter().url.path == f"/c/{NAME}/task"
    # links that may have been sent are not overwritten
    annotate(*words, code=1)
    assert out.read_text(encoding="utf-8").count("\n") == 4
    told = annotate("links", NAME)
    assert re.fullmatch(r"http://127\.0\.0\.1:8017/c/study/enter\?token=[\w-]{20,}\n", told.out)
    assert "on this machine only" in told.err


def test_links_carry_the_campaigns_address(study: Study, annotate: Run) -> None:
    study.publish(1, public_url="https://pairs.example/")
    told = annotate("links")
    assert told.out.startswith(f"https://pairs.example/c/{NAME}/enter?token=")
    assert "on this machine only" not in told.err
    other = "https://other.example:8443"
    assert annotate("links", "--public-url", other).out.startswith(f"{other}/c/{NAME}/enter?token=")
    refused_addresses(annotate)


def test_a_completion_code_can_be_checked_before_paying(busy: Study, tmp_path: Path, annotate: Run) -> None:
    with busy.desk() as opened:
        came = opened.workers.enter(NAME, "prolific", "5f3c9a", session="=1+1").worker
        idle = opened.workers.enter(NAME, "prolific", "77aa01").worker
        (first, *_) = votes_of_a_week(busy, busy.pairs)
        answer = first.model_copy(update={"worker": came, "vote_id": "f" * 32})
        assert opened.votes.add(NAME, [answer]).accepted == 1
        code = opened.workers.finish(NAME, came)
    out = tmp_path / "codes.csv"
    annotate("payments", NAME, "--out", tmp_path)
    assert out.stat().st_mode & 0o777 == 0o600  # a code is worth its pay
    rows = {row["worker"]: row for row in rows_of(out)}
    assert rows[came] == {
        **{"code": code, "answers": "1", "pay": "0.50", "currency": "EUR", "standing": ""},
        **{"platform": "prolific", "session": "'=1+1", "worker": came, "also_for": ""},
    }
    assert idle not in rows
    annotate("payments", NAME, "--out", tmp_path, code=1)
    assert annotate("payments").out == out.read_text(encoding="utf-8")


def test_an_export_tells_who_is_invented_and_what_is_owed(busy: Study, tmp_path: Path, annotate: Run) -> None:
    votes = list({vote.pair_id: vote for vote in votes_of_a_week(busy, busy.pairs)}.values())
    with busy.desk() as opened:
        people = []
        for who, answered in (("p1", 3), ("p2", 1), ("p3", 2)):
            worker = opened.workers.enter(NAME, "prolific", who, session=f"s-{who}").worker
            people.append(worker)
            ids = [{"worker": worker, "vote_id": f"{who}-{at}"} for at in range(answered)]
            given = [vote.model_copy(update=id_) for vote, id_ in zip(votes, ids, strict=False)]
            assert opened.votes.add(NAME, given).accepted == answered
        opened.organiser.publish(opened.campaigns.get(NAME).model_copy(update={"tasks_per_worker": 2}), [])

    def standing() -> dict[str, str]:
        with busy.desk() as opened:
            return {one.worker: one.standing for one in opened.organiser.workers(NAME)}

    export, out = tmp_path / "export.csv", tmp_path / "pay"
    head = "Submission id,Participant id,Status"
    export.write_text(f"\ufeff{head}\ns-p1,p1,AWAITING REVIEW\ns-p2,p2,AWAITING REVIEW\ns-p9,p9,RETURNED\n")
    words = ("payments", NAME, "--export", export, "--reward", "1.00", "--out", out)
    for incomplete in (words[:4], (*words[:2], "--dry-run")):
        annotate(*incomplete, code=2)
    said = "3 submissions of prolific: 1 to approve, 2 to get a bonus, 1 without an answer; 1 worker with"
    assert said in annotate(*words, "--dry-run").out
    assert not out.exists()
    annotate(*words)
    assert (out / "approvals.csv").read_text() == "s-p1\n"
    # three tasks of 0.50 less the reward; one task altogether
    assert (out / "bonuses.csv").read_text() == "p1,0.50\np2,0.50\n"
    assert [standing()[one] for one in people] == ["", "", Standing.EXCLUDED]
    # a session's id that is used again with another participant is another's
    with busy.desk() as opened:
        copied = opened.workers.enter(NAME, "prolific", "p7", session="s-p1").worker
    os.utime(export, (4e9, 4e9))
    annotate(*words)
    assert (out / "approvals.csv").read_text() == "s-p1\n"
    assert (out / "bonuses.csv").read_text() == "p1,0.50\np2,0.50\n"
    # a platform does not pay what it rejected
    export.write_text(f"{head}\ns-p1,p1,REJECTED\n")
    annotate(*words)
    assert (out / "bonuses.csv").read_text() == "p1,1.50\n"
    assert standing()[copied] == Standing.EXCLUDED
    for unreadable in (b"\xff\xfeS", b'Submission id,"'):
        export.write_bytes(unreadable)
        assert "cannot be read as a table" in annotate(*words, code=1).err
    # an export of another study excludes nobody
    export.write_text(f"{head}\nother,p1,APPROVED\n")
    assert "another study" in annotate(*words, code=1).err


def test_a_worker_is_erased_by_the_id_on_the_platform_in_all_campaigns(busy: Study, annotate: Run) -> None:
    with busy.desk() as opened:
        worker = opened.workers.enter(NAME, "prolific", "5f3c9a").worker
        other = opened.campaigns.get(NAME).model_copy(update={"name": "autumn"})
        opened.organiser.publish(other, busy.pairs[:2])
        assert opened.workers.enter("autumn", "prolific", "5f3c9a").worker == worker
        opened.organiser.decide("autumn", worker, Standing.CLEARED, "fine", "Aya")
    words = ("erase", "prolific:5f3c9a", "--yes")
    gone = annotate(*words, "--format", "json").json
    assert [(row["campaign"], row["decisions"]) for row in gone] == [("autumn", 1), (NAME, 0)]
    assert {row["worker"] for row in gone} == {worker}
    with busy.desk() as opened:
        for name in ("autumn", NAME):
            assert worker not in {one.worker for one in opened.organiser.workers(name)}
    assert "no data of worker" in annotate(*words, code=1).err


def test_erasing_asks_and_takes_votes_out_of_the_store_too(
    busy: Study, annotate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy.serve()
    files = collected(busy)
    answers = iter(["no", HASTY[:10]])
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    assert "nothing was erased" in annotate("erase", "badbad", code=1).err
    removed = "14 votes, 0 tasks, 0 events and 0 decisions removed from the database, 14 votes and"
    assert not lacks(annotate("erase", "badbad", "--by", "Aya").out, removed, "0001-badbadba")
    assert all(vote.worker != HASTY for vote in files.votes([NAME]))
    with busy.desk() as opened:
        assert [row.votes for row in opened.organiser.erased(NAME)] == [14]
        # votes collected meanwhile do not restore them
        assert files.add([vote for _, vote in opened.votes.read(NAME)]).new == 0


def test_what_a_crash_left_is_taken_out(busy: Study, annotate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    files = collected(busy)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tasks.annotation.desk.organiser.Organiser.erase", dies)
        annotate("erase", HASTY, "--yes", code=130)
    assert all(vote.worker != HASTY for vote in files.votes([NAME]))
    annotate("erase", HASTY, "--yes")
    with busy.desk() as opened:
        assert all(vote.worker != HASTY for _, vote in opened.votes.read(NAME))


def test_a_campaign_that_has_only_files_is_erased_from_too(busy: Study, annotate: Run) -> None:
    files = VotesStore(Store.open(busy.root))
    with busy.desk() as opened:
        votes = [vote.model_copy(update={"campaign": "older"}) for _, vote in opened.votes.read(NAME)]
        files.add(votes)
    annotate("erase", CAREFUL, "--campaign", "older", "--yes")
    assert all(vote.worker != CAREFUL for vote in files.votes(["older"]))
    with busy.desk() as opened:
        left = [vote.worker for _, vote in opened.votes.read(NAME)]
    assert CAREFUL in left, "only the one that was named"


def test_whom_to_erase_is_reported_in_one_way_and_enough(busy: Study, annotate: Run) -> None:
    for words in ((), ("",), ("link:",), ("no:such",)):
        annotate("erase", *words, "--yes", code=(1, 2))
    assert re.search(
        r"\d workers have an id with the prefix 'b'", annotate("erase", "b", "--yes", code=1).err
    )
    with busy.desk() as opened:
        assert opened.organiser.erased(NAME) == []
