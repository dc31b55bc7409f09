"""Publishing, files, ratings and collecting from the command line."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.executor import InlineExecutor
from slvmeval.cli.doctor.checks import check_campaigns
from slvmeval.cli.doctor.finding import CheckVerdict
from storage_schemas.store import Store
from storage_schemas.votes import VotesStore
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.ratings import Verdict
from tasks.annotation.installation import database_url, installation_key
from tasks.scoring.suites.human_ratings import load_ratings
from tests.once import Once
from tests.slvmeval.cli.running import Printed, Run, lacks
from tests.tasks.annotation.example_desk import HandClock, come_in
from tests.tasks.annotation.example_ratings import next_task, watch
from tests.tasks.publish.conftest import Small
from tests.tiny_models.faulty_server import FaultyServer, Reply


@pytest.fixture
def store(
    once: Once,
    build_small: Callable[[Path], Small],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
) -> Path:
    """A store whose release is published: the pairs of the redistributable source."""
    # the command's own, of which other tests try the processes
    monkeypatch.setattr("infra.executor.ProcessExecutor", lambda *_: InlineExecutor())

    def make(folder: Path) -> None:
        build_small(folder)
        settings = folder / "campaign.toml"
        settings.write_text('name = "small-1"\nuntil_certain = false\n')
        words = ("--settings", settings, "--workers", "1", "--quiet")
        run("annotate", "publish", "--store", folder / "store", *words)

    shutil.copytree(once("published-campaign", make) / "store", tmp_path / "store")
    monkeypatch.setenv("SLVMEVAL_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def annotate(run: Run) -> Run:
    return lambda *words, **more: run("annotate", *words, **more)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_doctor_says_what_is_not_translated(store: Path) -> None:
    (finding,) = check_campaigns(store)
    assert finding.verdict is CheckVerdict.WARN
    assert finding.message.startswith("small-1: 4 of 4 pairs show captions that are not translated into 'ja'")
    assert "slvmeval annotate translate small --language ja" in finding.message
    (store / "annotation" / "key").unlink()
    (finding,) = check_campaigns(store)
    assert finding.verdict is CheckVerdict.FAIL
    assert list(check_campaigns(store.parent)) == []


def test_published_again_it_says_what_is_shown_and_not(store: Path, tmp_path: Path, annotate: Run) -> None:
    assert annotate("publish", "--quiet").out.splitlines() == [
        "Campaign small-1 shows 4 pairs of release small version 1, 0 of them new; 4 pairs of 1 source that "
        "may not be redistributed are left out. 4 of 4 pairs show captions that are not translated into "
        "'ja', a language of the pages: `slvmeval annotate translate small --language ja`, then publish "
        "again.",
        # commands find the store without the option
        "Next: slvmeval annotate serve small-1",
    ]
    values = annotate("publish", "small", "--format", "json", "--private").json
    assert (values["pairs"], values["new"], values["withheld_pairs"], values["failed"]) == (8, 4, 0, {})
    assert values["campaign"]["name"] == "small-1"
    assert "Next: slvmeval annotate serve small-1 --private" in annotate("publish", "--private").out
    # without links, sources that may not be passed on stay here
    words = ("export", "--links", "none", "--out")
    printed = annotate(*words, tmp_path / "a.csv").out
    assert not lacks(printed, "20 tasks", "left out, since their sources may not be redistributed: 4 pairs")
    assert "secret two" not in (tmp_path / "a.csv").read_text()
    assert "40 tasks" in annotate(*words, tmp_path / "b.csv", "--private").out


def test_a_dry_run_says_time_and_pay_and_shows_nothing(store: Path, tmp_path: Path, annotate: Run) -> None:
    settings = tmp_path / "paid.toml"

    def dry(text: str, *more: str, code: int = 0) -> Printed:
        settings.write_text(f'name = "paid"\npay_per_hour = 36\n{text}')
        given = ("publish", "small", "--settings", settings, "--dry-run", "--quiet")
        return annotate(*given, *more, code=code)

    paid = 'workers_per_pair = 3\ncurrency = "EUR"\nrule = "paper"\n'
    first, second, third = dry(f"{paid}look_share = 1.0\n").out.splitlines()
    assert first.startswith("Campaign paid would show 4 pairs of release small version 1; ")
    # both videos of 40 s side by side, then 4 to 14 s that were changed; a minute each for the answers
    assert second.startswith("12 answers, 3 a pair, take 0.4 hours, if a task takes 1 times")
    assert third == (
        "Pay: 1.04 EUR to 1.14 EUR for a task, at 36.00 EUR an hour; 13.14 EUR in all, without a platform's "
        "fee."
    )
    values = dry(f"{paid}look_share = 1.0\n", "--format", "json").json
    assert (values["pairs"], values["answers"], values["pay"]) == (4, 12, pytest.approx(13.14))
    assert "there is no campaign 'paid'" in annotate("status", "paid", code=1).err
    # by default less is watched first, and a task pays less
    assert 4 * 60 * 3 / 100 < dry(paid, "--format", "json").json["pay"] < values["pay"]
    # under the rule `strict` check tasks take time too
    second = dry("workers_per_pair = 3\n").out.splitlines()[1]
    assert second.startswith("About 10 answers, 2 to 5 a pair until it is certain and check tasks, take ")
    second = dry("workers_per_pair = 3\nuntil_certain = false\n").out.splitlines()[1]
    assert second.startswith("15 answers, 3 a pair and check tasks, take ")
    assert "give pay_per_task or pay_per_hour, not both" in dry("pay_per_task = 1\n", code=1).err


def test_the_round_of_files(store: Path, tmp_path: Path, annotate: Run) -> None:
    out = tmp_path / "tasks.csv"
    printed = annotate("export", "--links", "none", "--language", "ja", "--out", out).out
    assert printed.startswith("20 tasks of campaign small-1 in ")
    rows = table(out)
    assert len(rows) == 20
    assert all(row["question"] and row["changed"] for row in rows)
    answers = tmp_path / "answers.csv"
    with answers.open("w", encoding="cp932", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(("課題", "作業者", "どちら", "劣化"))
        lines.writerows((row["task"], f"太郎{row['number']}", "右", "はっきり") for row in rows)
        lines.writerow((rows[0]["task"], "花子", "右", "？"))
    mapping = tmp_path / "platform.toml"
    mapping.write_text(
        '[file]\nencoding = "cp932"\n'
        '[columns]\ntask = "課題"\nworker = "作業者"\npreferred = "どちら"\nrating = "劣化"\n'
        '[values.preferred]\n"右" = "right"\n[values.rating]\n"はっきり" = "A"\n',
        encoding="utf-8",
    )
    words = ("import", answers, "--mapping", mapping)
    dry = annotate(*words, "--dry-run", code=3).out
    assert dry.startswith("21 rows: 20 votes would be imported, 0 were known, 1 left out (unknown_value 1).")
    report = tmp_path / "answers.left-out.csv"
    (left,) = table(report)
    assert (left["line"], left["reason"]) == ("22", "unknown_value")
    assert annotate("collect").out.startswith("0 votes")
    real = annotate(*words, "--format", "json", code=3).json
    assert (real["accepted"], real["known"], len(real["left_out"])) == (20, 0, 1)
    assert annotate("collect", "small-1", "--format", "json").json == [
        {"campaign": "small-1", "votes": 20, "decisions": 0, "tasks": 4, "done": 4, "complete": True}
    ]
    assert len(VotesStore(Store.open(store)).votes()) == 20
    # once corrected, the earlier report does not remain and mislead
    answers.write_bytes(answers.read_bytes().replace("？".encode("cp932"), "Ａ".encode("cp932")))
    assert annotate(*words).out.startswith("21 rows: 1 votes are imported, 20 were known")
    assert table(report) == []
    refusal = annotate("export", "--links", "none", "--out", "x.csv", code=1).err
    assert "every pair has its votes" in refusal


def test_links_of_a_table_are_made_once_for_a_file(store: Path, tmp_path: Path, annotate: Run) -> None:
    out = tmp_path / "tasks.jsonl"
    words = ("export", "small-1", "--public-url", "https://annotate.example.org", "--out", out)
    annotate(*words)
    links = {json.loads(line)["link"] for line in out.read_text().splitlines()}
    assert len(links) == 20
    assert all(link.startswith("https://annotate.example.org/c/small-1/enter?token=") for link in links)
    assert "choose another name" in annotate(*words, code=1).err


def test_captions_are_translated_and_shown(store: Path, tmp_path: Path, annotate: Run) -> None:
    def half(_number: int, body: dict[str, Any]) -> Reply:
        caption = json.loads(body["messages"][1]["content"])["caption"]
        return Reply(text="訳した" if "film" in caption else "no")

    site = tmp_path / "site.toml"
    with FaultyServer(half) as server:
        site.write_text(f'store = "{store}"\n[model_servers]\ntranslation = "{server.url}"\n')
        words = ("translate", "--profile", site, "--model", "tiny", "--set", "plain_sampling=true", "--quiet")
        printed = annotate(*words, code=3).out
        assert "stay untranslated: tiny gave no translation in 3 attempts: it is not in Japanese" in printed
        assert "min_p" not in server.seen[0].body
        requests = len(server.seen)
        # translated captions are not requested again, the others are
        assert annotate(*words, "--format", "json", code=3).json["translated"] == 8
        assert 0 < len(server.seen) - requests < requests
    annotate("publish", "--quiet")
    annotate("export", "--links", "none", "--out", tmp_path / "a.jsonl")
    clips = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])["prompt"]
    assert [clip.get("translation") for clip in clips] == [None, *["訳した"] * 8]


def test_what_cannot_be_meant_is_reported(store: Path, annotate: Run) -> None:
    for words, message in (
        ("publish none", "no release none"),
        ("publish --settings /none.toml", "/none.toml does not exist"),
        ("export", "--public-url"),
        ("export --links none --out x.pdf", "name it .csv or .jsonl"),
        ("import /none.csv", "No such file"),
        ("import /none.csv --campaign spring", "no campaign 'spring'"),
        ("collect spring", "no campaign 'spring'"),
        ("translate", "model_servers"),
        ("translate --prompts /none", "is not a folder"),
    ):
        assert message in annotate(*words.split(), code=1).err, words
    assert "is not one of" in annotate("export", "--links", "no", "--out", "x.csv", code=2).error
    assert "encoding: must be" in annotate("export", "--set", "encoding=no", "--out", "x.csv", code=2).error
    name = annotate("publish", "--campaign", "a b", code=1).err
    assert "a campaign's name must be at most 64 letters" in name
    assert "--language ja" in annotate("translate", "--language", "", code=2).error
    for ignored in ("--set media_url=https://x", "--language ja", "--set placeholder=ID"):
        assert ": only with --links " in annotate("export", *ignored.split(), code=2).error
    # nothing is published yet
    shutil.rmtree(store / "annotation")
    assert "annotate publish" in annotate("collect").out
    assert "no campaign is published" in annotate("import", "x.csv", code=1).err


def test_a_backup_brings_back_a_database_that_is_lost(store: Path, tmp_path: Path, annotate: Run) -> None:
    file = tmp_path / "monday.sqlite"
    assert "0 votes of campaigns small-1 in " in annotate("backup", file).out
    assert "name a new file" in annotate("backup", file, code=1).err
    assert "restore into an empty one" in annotate("backup", "--restore", file, code=1).err
    for name in ("desk.sqlite", "desk.sqlite-wal", "desk.sqlite-shm"):
        (store / "annotation" / name).unlink(missing_ok=True)
    values = annotate("backup", "--restore", file, "--format", "json").json
    assert values == {"campaigns": ["small-1"], "votes": 0, "erased_again": 0}
    assert "small-1" in annotate("status").out


# -- a campaign of ratings -------------------------------------------------------------------------------

DIMENSION = "imaging_quality"


@pytest.fixture
def videos(tmp_path: Path, film_maker: Callable[[int], Path]) -> list[str]:
    """Write two videos with their manifest and prompts; return the options that name them."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.mp4").write_bytes(film_maker(number).read_bytes())
    (folder / "manifest.csv").write_text("model,prompt_id,file\na,p0,0.mp4\na,p1,1.mp4\n")
    (tmp_path / "prompts.csv").write_text("prompt_id,text\np0,A ball.\np1,A box.\n")
    return ["--videos", str(folder), "--prompt-suite", str(tmp_path / "prompts.csv")]


def test_people_rate_and_the_file_is_one_for_alignment(tmp_path: Path, videos: list[str], run: Run) -> None:
    root = tmp_path / "store"
    (tmp_path / "settings.toml").write_text('name = "rated"\nworkers_per_pair = 2\npay_per_task = 0.25\n')
    at = ("--store", root)
    publish = ("annotate", "publish-ratings", "video-bench", *videos, "--dimension", DIMENSION, *at)
    output = run(*publish, "--settings", tmp_path / "settings.toml", "--quiet").text
    assert "shows 2 videos in dimensions of video-bench: 2 tasks, 2 of them new, 2 ratings each" in output
    assert "all ratings cost 1.00 USD" in output

    clock = HandClock()
    with Desk.open(database_url(root), installation_key(root), clock) as desk:
        raters = [come_in(desk, name, "rated") for name in ("ann", "bob")]
        for rater in raters * 2:
            task = next_task(desk, rater)
            watch(desk, clock, task, task.task.seconds)
            desk.answers.rate("rated", rater, task.id, 2 if task.task.prompt_id == "p0" else 5)
        ratings = [one.given for one in desk.ratings.read("rated")]
        confirmed = [(one.vote_id, one.rating) for one in ratings[:3]]
        desk.ratings.check("rated", confirmed, Verdict.CONFIRMED, "", "Anna")

    status = run("annotate", "status", "rated", *at).out
    assert "1 ratings not confirmed, 0 sent back" in status
    (state,) = run("annotate", "status", *at, "--format", "json").json
    assert (state["total"]["votes"], state["unchecked"]) == (4, 1)
    rows = list(csv.DictReader(run("annotate", "payments", "rated", *at).out.splitlines()))
    assert [(row["answers"], row["pay"]) for row in rows] == [("2", "0.50")] * 2
    refusal = run("annotate", "export", "rated", "--out", tmp_path / "x.csv", *at, code=1).err
    assert "rates single videos" in refusal
    (collected,) = run("annotate", "collect", "rated", *at, "--format", "json", code=3).json
    assert (collected["ratings"], collected["left_out"]) == (3, 1)
    assert len(load_ratings(Path(collected["path"]), {DIMENSION: (1, 5)}).rows) == 3


def test_what_cannot_be_rated_is_reported(tmp_path: Path, videos: list[str], run: Run) -> None:
    for words, message in (
        (("publish-ratings", "video-bench", "--dimension", "beauty", *videos), "has no dimension 'beauty'"),
        (("publish-ratings", "nothing", *videos), "nothing"),
        # a release and prompts are not translated at once
        (("translate", "main", *videos[2:]), "RELEASE: not with --prompt-suite"),
    ):
        refusal = run("annotate", *words, "--store", tmp_path / "store", code=(1, 2))
        assert message in refusal.error
