"""``slvmeval captions`` on a store in which rules and a language model analysed the same captions."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from storage_schemas.model import ModelServer
from storage_schemas.source import Clip, Source
from storage_schemas.store import Store
from tasks.captions.analyser import AnalyserRecipe
from tasks.captions.stage import source_analyses
from tasks.llm.servers import Servers
from tasks.pairs.analyser_comparison import overlap
from tests.slvmeval.cli.running import Run, lacks
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


def test_an_analyser_is_meant_by_a_recipe_where_its_name_means_several(
    store: Store, tmp_path: Path, captions: Run
) -> None:
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
