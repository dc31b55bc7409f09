"""What the analysis of a source leaves in the store, and how it resumes after a fault or a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.analysis import ANSWERS, CaptionAnalysis, CaptionAnswer
from storage_schemas.errors import PrerequisiteError, Reason, SetAside
from storage_schemas.gc import drop_partial_analyses
from storage_schemas.ids import artifact_id, digest_text
from storage_schemas.model import ModelServer
from storage_schemas.parquet import read_dicts, read_table
from storage_schemas.source import Clip, Source
from storage_schemas.store import ANALYSIS, Store
from tasks.captions.analyser import AnalyserRecipe, AnswerJournal
from tasks.captions.stage import ANSWERS_FILE, analysis_consumes, is_analysed, source_analyses
from tasks.llm.servers import Servers
from tests.tiny_models.faulty_server import RED_BALL, FaultyServer, Reply

ROOT = Path(__file__).resolve().parents[3]
RECIPE = AnalyserRecipe(name="llm", parameters={"model": "tiny"})


def source_of(*captions: str) -> Source:
    clips = [Clip(index=n, start_s=n, end_s=n + 1, caption=text) for n, text in enumerate(captions)]
    about = {"id": "s1", "adapter": "folder", "title": "film", "video": "film.mp4", "content_sha256": "0"}
    return Source.model_validate({**about, "clips": clips})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def analyse(
    store: Store, source: Source, server: FaultyServer, **settings: Any
) -> tuple[CaptionAnalysis, ...]:
    entry = ModelServer(url=server.url, **{"patience_s": 3.0, **settings})
    return source_analyses(store, source, RECIPE, Servers({"caption-analysis": entry}))


def analysis_id(source: Source) -> str:
    return artifact_id(ANALYSIS, analysis_consumes(source, RECIPE))


def journal_folder(store: Store, source: Source) -> Path:
    return store.partial_analyses / analysis_id(source)


def test_a_source_becomes_an_artifact_with_all_that_was_answered(store: Store) -> None:
    source = source_of("A red ball.", "", "A red ball.", "A blue box.")

    def plan(number: int, body: dict[str, Any]) -> Reply:
        if "blue" in body["messages"][1]["content"] and len(body["messages"]) == 2:
            return Reply("no")
        return Reply(f"<think>hm</think>{json.dumps(RED_BALL)}")

    with FaultyServer(plan) as server:
        analyses = analyse(store, source, server)
        assert analyse(store, source, server) == analyses
        assert len(server.seen) == 3
    red = CaptionAnalysis.model_validate(RED_BALL)
    assert analyses == (red, CaptionAnalysis(), red, red)
    assert is_analysed(store, source, RECIPE)
    assert not journal_folder(store, source).exists()
    path = store.artifact_path(ANALYSIS, analysis_id(source)) / ANSWERS_FILE
    assert read_table(path).schema.equals(ANSWERS)
    rows = list(read_dicts(path))
    assert [row["clip"] for row in rows] == [0, 2, 3]
    first, _, last = rows
    assert (first["model"], first["reasoning"], first["finish_reason"]) == ("tiny", "hm", "stop")
    assert first["text"] == f"<think>hm</think>{json.dumps(RED_BALL)}"
    assert (first["tries"], first["calls"], first["refused"]) == (1, 1, [])
    assert (first["tokens_in"], first["tokens_out"], first["characters"]) == (100, 20, 11)
    assert first["seconds"] > 0
    assert first["at"].startswith("20")
    assert (last["tries"], last["calls"], last["tokens_in"]) == (2, 2, 200)
    assert "not one JSON object" in last["refused"][0]
    manifest = store.manifest(ANALYSIS, analysis_id(source))
    cost = manifest.provenance["answers"]
    assert (cost["captions"], cost["asked_again"], cost["calls"]) == (2, 1, 3)
    assert cost["served_as"] == ["tiny"]
    assert "openai" in manifest.provenance["packages"]


def test_a_caption_that_fails_sets_the_source_aside_and_the_next_run_asks_for_it_alone(store: Store) -> None:
    source = source_of("good", "bad", "fine")

    def plan(_: int, body: dict[str, Any]) -> Reply:
        return Reply("no") if "bad" in body["messages"][1]["content"] else Reply()

    with FaultyServer(plan) as server, pytest.raises(SetAside) as problem:
        analyse(store, source, server)
    assert problem.value.reason is Reason.CAPTION_NOT_ANALYSED
    assert "caption of clip 1 of film: tiny gave no analysis in 3 attempts" in problem.value.message
    assert not is_analysed(store, source, RECIPE)
    with FaultyServer() as server:
        assert len(analyse(store, source, server)) == 3
        assert [seen.caption for seen in server.seen] == ["bad"]


def test_a_server_that_goes_away_costs_nothing_that_it_answered(store: Store) -> None:
    source = source_of(*(f"caption {n}" for n in range(10)))
    with FaultyServer(lambda number, _: Reply() if number < 6 else Reply(cut="before")) as server:
        with pytest.raises(PrerequisiteError, match="answers received so far are stored"):
            analyse(store, source, server, concurrency=1, patience_s=0.5)
        answered = {seen.caption for seen in server.seen[:6]}
    with FaultyServer() as server:
        analyse(store, source, server)
        assert {seen.caption for seen in server.seen} == {f"caption {n}" for n in range(10)} - answered


def test_the_torn_end_of_a_journal_is_asked_for_again(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    source = source_of("one", "two")
    bad_two = FaultyServer(lambda _, body: Reply("no") if "two" in str(body["messages"][1]) else Reply())
    with bad_two as server, pytest.raises(SetAside):
        analyse(store, source, server)
    (file,) = journal_folder(store, source).glob("*.jsonl")
    line = file.read_bytes()
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    with file.open("ab") as torn:
        torn.write(line.replace(digest_text("one").encode(), digest_text("two").encode())[:-40])
    with FaultyServer() as server:
        analyse(store, source, server)
        assert [seen.caption for seen in server.seen] == ["two"]
    assert "incomplete line" in caplog.text


def test_two_writers_never_share_a_file(tmp_path: Path) -> None:
    kept = CaptionAnswer(caption="a", analysis=CaptionAnalysis(), text="{}", characters=1)
    with AnswerJournal(tmp_path / "j") as first, AnswerJournal(tmp_path / "j") as second:
        first.append(kept)
        second.append(kept.model_copy(update={"caption": "b"}))
        first.append(kept.model_copy(update={"caption": "c"}))
        assert set(first.read()) == set(second.read()) == {"a", "b", "c"}
    assert len(list((tmp_path / "j").iterdir())) == 2


@pytest.fixture(scope="module")
def analysing() -> Iterator[subprocess.Popen[str]]:
    """A program that has loaded all it needs, and analyses sources in copies of itself."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("analyse_source.py"))],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


@pytest.mark.parametrize("killed_after", [1, 9, 25])
def test_no_accepted_answer_is_asked_for_twice_after_a_kill(
    killed_after: int, analysing: subprocess.Popen[str], store: Store, tmp_path: Path
) -> None:
    captions = [f"caption {n}" for n in range(40)]
    source = source_of(*captions)
    (tmp_path / "source.json").write_text(source.model_dump_json())
    waits, killed = threading.Event(), threading.Event()

    def until_killed(number: int, _: object) -> Reply:
        # so that it is never done before it is killed
        if number >= killed_after + 3:
            waits.set()
            killed.wait(300)
        return Reply()

    with FaultyServer(until_killed) as server:
        assert analysing.stdin is not None
        assert analysing.stdout is not None
        request = [str(store.root), str(tmp_path / "source.json"), server.url, 4]
        print(json.dumps(request), file=analysing.stdin, flush=True)
        child = int(analysing.stdout.readline())
        try:
            # a busy machine may take minutes
            assert waits.wait(300)
        finally:
            os.kill(child, signal.SIGKILL)
            ended = int(analysing.stdout.readline())
            killed.set()
        assert ended == -signal.SIGKILL
        with AnswerJournal(journal_folder(store, source)) as journal:
            kept = set(journal.read())
        assert killed_after <= len(kept) < len(captions)
        before = len(server.seen)
        analyses = analyse(store, source, server)
        asked_again = Counter(seen.caption for seen in server.seen[before:])
    assert not kept & {digest_text(caption) for caption in asked_again}
    assert len(asked_again) == len(captions) - len(kept)
    assert set(asked_again.values()) == {1}
    assert len(analyses) == 40
    assert is_analysed(store, source, RECIPE)


def test_gc_removes_what_is_in_an_artifact_and_the_rest_when_asked(store: Store) -> None:
    done, half = source_of("one"), source_of("two", "bad")
    with FaultyServer(lambda _, body: Reply("no") if "bad" in str(body["messages"]) else Reply()) as server:
        analyse(store, done, server)
        with pytest.raises(SetAside):
            analyse(store, half, server)
    # as a kill between commit and removal leaves it
    left = journal_folder(store, done)
    left.mkdir()
    (left / "x.jsonl").write_text("{}\n")
    assert drop_partial_analyses(store, every=False, dry_run=True).count == 1
    assert drop_partial_analyses(store, every=False).count == 1
    assert [folder.name for folder in store.partial_analyses.iterdir()] == [journal_folder(store, half).name]
    assert drop_partial_analyses(store, every=True).bytes > 100
    assert list(store.partial_analyses.iterdir()) == [] == list(store.staging.iterdir())


def test_the_analyses_of_rules_keep_their_ids() -> None:
    consumes = analysis_consumes(source_of("A red ball."), AnalyserRecipe())
    consumes["analyser"] = {**consumes["analyser"], "model_version": "3.8.0", "spacy": "3.8.18"}
    expected = "969f0c09cd66f44e2e4914c7f47c38999f1dc3c4bc63afc80707015d5536b023"
    assert artifact_id(ANALYSIS, consumes) == expected
