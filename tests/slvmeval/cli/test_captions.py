"""Captions: `sources caption` makes them of bare videos, `captions` compares two analysers of them."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slvmeval.cli.build.sources import EXAMPLE
from storage_schemas.model import ModelServer
from storage_schemas.source import Clip, Source
from storage_schemas.store import Store
from tasks.captions.analyser import AnalyserRecipe
from tasks.captions.stage import source_analyses
from tasks.llm.servers import Servers
from tasks.pairs.analyser_comparison import overlap
from tests.once import Once
from tests.slvmeval.cli.running import Run, lacks
from tests.tasks.scoring.judges.test_local_vlm import weights
from tests.tiny_models.faulty_server import RED_BALL, FaultyServer, Plan, Reply

CAPTIONS = ("A red ball rolls across the floor on the left.", "A man walks slowly.", "")
NOTHING = {name: [] for name in RED_BALL}
#: The model's answers on the first and the second caption.
BALL = {**RED_BALL, "subject": ["the red ball"], "background": [], "scene": []}
MAN = {**NOTHING, "subject": ["man"], "color": [{"color": "blue", "object": "coat"}]}
LLM = AnalyserRecipe(name="llm", parameters={"model": "tiny"})


def answer(_: int, body: dict[str, list[dict[str, str]]]) -> Reply:
    return Reply(
        f"<think>well</think>{json.dumps(BALL if 'ball' in body['messages'][1]['content'] else MAN)}"
    )


CLIPS = tuple(Clip(index=n, start_s=n, end_s=n + 1, caption=text) for n, text in enumerate(CAPTIONS))
SOURCE = Source(id="s1", adapter="folder", title="film", video="f.mp4", content_sha256="0", clips=CLIPS)


def analyse(store: Store, recipe: AnalyserRecipe, plan: Plan | list[Reply]) -> None:
    with FaultyServer(plan) as server:
        servers = Servers({"caption-analysis": ModelServer(url=server.url)})
        source_analyses(store, SOURCE, recipe, servers)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.create(tmp_path / "store")
    source_analyses(store, SOURCE, AnalyserRecipe())
    analyse(store, LLM, answer)
    return store


@pytest.fixture
def captions(run: Run, tmp_path: Path) -> Run:
    return lambda *words, **more: run("captions", *words, "--store", tmp_path / "store", **more)


def test_both_are_compared_field_by_field_and_aspect_by_aspect(store: Store, captions: Run) -> None:
    output = captions("--format", "json").json
    assert (output["sources"], output["clips"]) == (1, 3)
    fields = {row["field"]: row for row in output["fields"]}
    color = fields["color"]
    assert (color["first"], color["second"], color["both"], color["overlap"]) == (1, 2, 1, 0.5)
    assert fields["background"]["overlap"] is None
    aspects = {row["aspect"]: (row["first"], row["second"], row["both"]) for row in output["aspects"]}
    assert (aspects["color"], aspects["spatial_relationship"]) == ((1, 2, 1), (1, 1, 1))
    assert "aesthetics" not in aspects
    examples = [example for example in output["examples"] if example["field"] == "color"]
    assert examples == [
        {"field": "color", "source_id": "s1", "clip": 1, "first": [], "second": ["blue coat"]}
    ]
    text = captions().out
    assert not lacks(text, "3 clips of 1 source:", "color, clip 1 of s1", "llm: blue coat")
    rows = list(csv.DictReader(captions("--set", "csv=true").out.splitlines()))
    one = next(row for row in rows if (row["kind"], row["name"]) == ("field", "color"))
    assert (one["first"], one["second"], one["overlap"]) == ("1", "2", "0.5000")


def test_an_analyser_of_several_is_named_by_a_recipe(store: Store, tmp_path: Path, captions: Run) -> None:
    other = {"model": "tiny", "thinking": False}
    analyse(store, AnalyserRecipe(name="llm", parameters=other), [Reply()])
    errors = captions(code=1).err
    assert not lacks(errors, "2 analysers named llm", "differ in thinking")
    for name, parameters in (("a", LLM.parameters), ("b", other)):
        analysis = {"name": "llm", "parameters": parameters}
        values = {"base": "cpu-approx", "name": name, "caption_analysis": analysis}
        (tmp_path / f"{name}.json").write_text(json.dumps(values))
    recipes = (tmp_path / "a.json", tmp_path / "b.json")
    fields = {row["field"]: row for row in captions(*recipes, "--format", "json").json["fields"]}
    assert (fields["background"]["first"], fields["background"]["second"]) == (0, 2)
    # an empty caption is not requested
    assert fields["subject"]["second"] == 2


def test_analyses_are_shown_with_what_they_took(store: Store, captions: Run) -> None:
    text = captions("s1").out
    assert not lacks(text, "clip 0, rules", "clip 2, llm")
    assert "answered by tiny: attempts 1, calls 1, tokens 100 in and 20 out" in text
    assert "<think>" not in text
    text = captions("s1", "--clip", "0", "--raw").out
    assert not lacks(text, "reasoning:\n    well", "<think>well</think>{")
    assert "clip 1" not in text
    rows = captions("s1", "--format", "json").json
    assert [row["answer"] is None for row in rows if row["analyser"] == "llm"] == [False, False, True]
    captions("s1", "--clip", "9", code=1)


def test_what_cannot_be_compared_is_reported(tmp_path: Path, captions: Run) -> None:
    Store.create(tmp_path / "store")
    assert "this store has no analysis by rules" in captions(code=1).err
    assert "no analysis of source 's1'" in captions("s1", code=1).err


@pytest.mark.parametrize(
    ("first", "second", "measure"),
    [
        (["ball"], ["red ball"], 1.0),
        (["ball", "box"], ["box"], 2 / 3),
        (["ball"], ["dog"], 0.0),
        ([], ["dog"], 0.0),
        (["ball", "ball"], ["ball"], 2 / 3),
        (["猫"], ["猫"], 1.0),
        (["!"], ["?"], 0.0),
    ],
)
def test_entries_are_alike_by_their_words(first: list[str], second: list[str], measure: float) -> None:
    assert overlap(first, second) == pytest.approx(measure)


# -- from bare videos to caption files, with a test server and without a model ---------------------------

CAPTION = "A red ball rolls on the left. In the background there is a meadow."


@pytest.fixture
def videos(tmp_path: Path, film_maker: Callable[[int], Path]) -> Path:
    """Two bare films of 42 s."""
    folder = tmp_path / "videos"
    (folder / "trip").mkdir(parents=True)
    for number, name in enumerate(("a.mp4", "trip/b.mp4"), 1):
        (folder / name).write_bytes(film_maker(number).read_bytes())
    return folder


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def pictures(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"][1])


def test_a_model_behind_a_server_describes_each_clip_once(videos: Path, run: Run) -> None:
    command = ["sources", "caption", f"folder:{videos}", "--format", "json"]
    with FaultyServer([Reply(text=f"```\n{CAPTION}\nIt\u2028stops.\n```")]) as server:
        asked = run(*command, "--server", server.url, "--dry-run").json
        assert not [path for path in videos.rglob("*") if path.suffix != ".mp4" and path.is_file()]
        assert not server.seen
        made = run(*command, "--server", server.url).json
        count = len(server.seen)
        assert asked["requests"] == count == sum(film["clips"] for film in made["films"])
        # the same command has nothing left to do
        assert run(*command, "--server", server.url).json["films"] == []
        assert len(server.seen) == count
        bodies = [seen.body for seen in server.seen]
    assert [film["video"] for film in made["films"]] == ["a.mp4", "trip/b.mp4"]
    assert {body["model"] for body in bodies} == {"tiny"}
    assert len({body["seed"] for body in bodies}) == len({*map(pictures, bodies)}) == count
    assert {len(body["messages"][1]["content"]) for body in bodies} == {4}
    for name in ("a.jsonl", "trip/b.jsonl"):
        written = lines(videos / name)
        assert {(line["caption"], line["model"]) for line in written} == {(f"{CAPTION} It stops.", "tiny")}
        assert (written[0]["start_s"], written[-1]["end_s"]) == (0.0, 42.0)
        assert all(a["end_s"] == b["start_s"] for a, b in pairwise(written))
        assert all(2 <= line["end_s"] - line["start_s"] <= 4.21 for line in written)
    (film, _) = run("sources", "scan", videos, "--format", "json", "--set", "sample=0").json
    assert film["captions"] == len(lines(videos / "a.jsonl")) >= 10
    assert "all videos in" in run("sources", "caption", videos).out


def test_a_short_film_is_named_with_and_without_captions(videos: Path, tmp_path: Path, run: Run) -> None:
    recipe = tmp_path / "long.toml"
    aspects = '[aspects.aesthetics]\noperation = "ffmpeg-eq"\n'
    recipe.write_text(f'name = "long"\nleast_duration_s = 60\n{aspects}')
    (videos / "a.jsonl").write_text(json.dumps({"start_s": 0, "end_s": 9, "caption": CAPTION}) + "\n")
    rows = run("sources", "scan", videos, "--recipe", recipe, "--format", "json", code=3).json
    assert [row["reason"] for row in rows] == ["too_short"] * 2
    says = "a lasts 42.0 s, recipe long requires at least 60 s (`build --set least_duration_s=N` changes"
    assert rows[0]["message"].startswith(says)
    words = ("build", "--dry-run", "--quiet", "--sources", videos, "--store", tmp_path / "store")
    out = run(*words, "--recipe", recipe).out
    assert says in out
    assert "no source yields a pair: a build would write an empty release" in out
    assert "nothing is missing" not in out


def test_the_user_writes_captions_and_a_model_fills_only_blank_ones(videos: Path, run: Run) -> None:
    said = run("sources", "caption", videos)
    path = videos / "a.jsonl"
    blank = lines(path)
    assert f"{len(blank) + len(lines(videos / 'trip/b.jsonl'))} blank captions: write" in said.text
    assert "next: slvmeval sources scan" in said.text
    assert f"a caption that suits all aspects: {EXAMPLE}" in said.text
    assert "to watch a clip: ffplay -ss START_S -t SECONDS FILM" in said.text
    # a film is named by its place, as two folders may have films of one name
    assert "trip/b.mp4" in run("sources", "scan", videos, code=3).text
    # the command without a model would change nothing
    next_line = f"next: write the captions, or slvmeval sources caption {videos} --server URL"
    assert next_line in run("sources", "scan", videos, code=3).out
    (row, _) = run("sources", "scan", videos, "--format", "json", code=3).json
    assert row["reason"] == "captions_empty"
    assert "`slvmeval sources caption` with `--server` or `--model` fills blank ones" in row["message"]
    # what is shown as an example is right for each aspect
    path.write_text("".join(json.dumps(line | {"caption": EXAMPLE}) + "\n" for line in blank))
    (row, _) = run("sources", "scan", videos, "--format", "json", code=3).json
    assert [count["eligible"] >= count["needed"] for count in row["clips"].values()] == [True] * 10
    blank[1] |= {"caption": "Mine.", "note": 7}
    path.write_text(json.dumps(blank, indent=1), encoding="utf-8")
    # what the user writes during a run counts, too
    saved = threading.Event()

    def reply(number: int, _: dict[str, Any]) -> Reply:
        if number == 0:
            edited = [blank[0] | {"caption": "Mine, too."}, *blank[1:]]
            path.write_text(json.dumps(edited), encoding="utf-8")
            saved.set()
        assert saved.wait(30), "answers come after the user's file is whole"
        return Reply(text=CAPTION)

    with FaultyServer(reply) as server:
        run("sources", "caption", videos, "--server", server.url, "--model", "tiny")
        assert len(server.seen) == len(blank) - 1 + len(lines(videos / "trip/b.jsonl"))
    first, second, *others = lines(path)
    assert (first["caption"], second["caption"], second["note"]) == ("Mine, too.", "Mine.", 7)
    assert {line["caption"] for line in others} == {CAPTION}


def test_a_clip_without_a_valid_answer_stays_blank_and_is_asked_about_again(videos: Path, run: Run) -> None:
    (videos / "trip/b.mp4").unlink()
    refused: set[str] = set()

    def reply(number: int, body: dict[str, Any]) -> Reply:
        if not refused:
            refused.add(pictures(body))
        return Reply(text="…" if pictures(body) in refused else CAPTION)

    command = ["sources", "caption", videos, "--format", "json"]
    with FaultyServer(reply) as server:
        (film,) = run(*command, "--server", server.url, code=3).json["films"]
        assert (film["blank"], film["problem"]) == (1, "tiny gave no caption in 3 attempts: it has no words")
        seeds = [seen.body["seed"] for seen in server.seen if pictures(seen.body) in refused]
        assert len(seeds) == len({*seeds}) == 3
        before = len(server.seen)
        refused.clear()
        refused.add("none")
        assert run(*command, "--server", server.url).json["films"][0]["blank"] == 0
        assert len(server.seen) == before + 1


@pytest.mark.slow
def test_a_killed_run_resumes_without_asking_again(videos: Path, tmp_path: Path, run: Run) -> None:
    after = 5
    answered: Counter[str] = Counter()
    reached, killed = threading.Event(), threading.Event()

    def waiting_at_last(number: int, body: dict[str, Any]) -> Reply:
        if not killed.is_set() and number >= after:
            # the child is killed while it waits for this one
            reached.set()
            killed.wait(60)
            return Reply(status=503)
        answered[pictures(body)] += 1
        return Reply(text=CAPTION)

    site = tmp_path / "site.toml"
    with FaultyServer(waiting_at_last) as server:
        site.write_text(f'[model_servers.mine]\nurl = "{server.url}"\nconcurrency = 1\n')
        words = ["sources", "caption", str(videos), "--server", "mine", "--profile", str(site)]
        child = subprocess.Popen([sys.executable, "-m", "slvmeval", *words])
        try:
            assert reached.wait(120)
        finally:
            child.kill()
            assert child.wait() == -signal.SIGKILL
            killed.set()
        assert sum(bool(line["caption"]) for line in lines(videos / "a.jsonl")) == after
        run(*words)
    clips = [line for path in videos.rglob("*.jsonl") for line in lines(path)]
    assert all(line["caption"] for line in clips)
    assert (set(answered.values()), len(answered)) == ({1}, len(clips))


def test_what_cannot_be_captioned_names_what_to_do(videos: Path, run: Run) -> None:
    (videos.parent / "none").mkdir()
    (videos / "a.ass").write_text("[Script Info]\n")
    (videos / "broken.mp4").write_bytes(b"no video")
    (videos / "trip/b.srt").write_text("1\n00:00:00,000 --> 00:00:40,000\nA red ball.\n")
    films = run("sources", "caption", videos, "--format", "json", code=3).json["films"]
    problems = {film["video"]: film["problem"] for film in films}
    assert problems.keys() == {"a.mp4", "broken.mp4"}
    assert "`ffmpeg -i a.ass a.srt`" in problems["a.mp4"]
    assert "broken.mp4" in problems["broken.mp4"]
    assert not (videos / "broken.jsonl").exists()
    with FaultyServer(models=("one", "two")) as server:
        said = run("sources", "caption", videos, "--server", server.url, code=1).error
        assert "has 2 models: choose with --model NAME (one, two)" in said
    assert "only a folder of videos" in run("sources", "caption", f"vript:{videos}", code=1).err
    assert "has no videos" in run("sources", "caption", videos.parent / "none", code=1).err
    assert "no-such/model" in run("sources", "caption", videos, "--model", "no-such/model", code=1).err


@pytest.mark.models
def test_a_model_of_this_process_describes_clips(videos: Path, once: Once, run: Run) -> None:
    (videos / "trip/b.mp4").unlink()
    words = ["--model", "someone/qwen", "--model-folder", weights(once), "--set", "dtype=float32"]
    words += ["--set", "answer_tokens=64", "--format", "json"]
    (film,) = run("sources", "caption", videos, *words, code=(0, 3)).json["films"]
    written = lines(videos / "a.jsonl")
    assert film["blank"] == sum(not line["caption"] for line in written)
    # an untrained model says no sentence, and often does not stop
    assert "someone/qwen gave no caption" in film["problem"] or all(line["caption"] for line in written)
    assert all(line["model"] == "someone/qwen" for line in written if line["caption"])
