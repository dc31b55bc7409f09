"""``slvmeval captions`` on a store in which rules and a language model analysed the same captions."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from slvmeval.cli.main import main
from storage_schemas.model import ModelServer
from storage_schemas.source import Clip, Source
from storage_schemas.store import Store
from tasks.captions.analyser import AnalyserRecipe
from tasks.captions.stage import source_analyses
from tasks.llm.servers import Servers
from tasks.pairs.analyser_comparison import overlap
from tests.tiny_models.faulty_server import RED_BALL, FaultyServer, Reply

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


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.create(tmp_path / "store")
    clips = tuple(Clip(index=n, start_s=n, end_s=n + 1, caption=text) for n, text in enumerate(CAPTIONS))
    source = Source(id="s1", adapter="folder", title="film", video="f.mp4", content_sha256="0", clips=clips)
    source_analyses(store, source, AnalyserRecipe())
    with FaultyServer(answer) as server:
        servers = Servers({"caption-analysis": ModelServer(url=server.url)})
        source_analyses(store, source, LLM, servers)
    return store


def run(store: Store, *words: str) -> int:
    return main(["captions", *words, "--store", str(store.root)])


def test_both_are_compared_field_by_field_and_aspect_by_aspect(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(store, "compare", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["sources"], output["clips"]) == (1, 3)
    fields = {row["field"]: row for row in output["fields"]}
    color = fields["color"]
    assert (color["first"], color["second"], color["both"], color["overlap"]) == (1, 2, 1, 0.5)
    assert fields["background"]["overlap"] is None
    aspects = {row["aspect"]: (row["first"], row["second"], row["both"]) for row in output["aspects"]}
    assert aspects["color"] == (1, 2, 1)
    assert aspects["spatial_relationship"] == (1, 1, 1)
    assert "aesthetics" not in aspects
    examples = [example for example in output["examples"] if example["field"] == "color"]
    assert examples == [
        {"field": "color", "source_id": "s1", "clip": 1, "first": [], "second": ["blue coat"]}
    ]


def test_the_comparison_as_tables_and_as_csv(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store, "compare") == 0
    text = capsys.readouterr().out
    assert "3 clips of 1 sources" in text
    assert "color, clip 1 of s1" in text
    assert "llm: blue coat" in text
    assert run(store, "compare", "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    color = next(row for row in rows if (row["kind"], row["name"]) == ("field", "color"))
    assert (color["first"], color["second"], color["overlap"]) == ("1", "2", "0.5000")


def test_an_analyser_is_meant_by_a_recipe_where_its_name_means_several(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clips = tuple(Clip(index=n, start_s=n, end_s=n + 1, caption=text) for n, text in enumerate(CAPTIONS))
    source = Source(id="s1", adapter="folder", title="film", video="f.mp4", content_sha256="0", clips=clips)
    other = {"model": "tiny", "thinking": False}
    with FaultyServer([Reply()]) as server:
        servers = Servers({"caption-analysis": ModelServer(url=server.url)})
        source_analyses(store, source, AnalyserRecipe(name="llm", parameters=other), servers)
    assert run(store, "compare") == 1
    assert "2 analysers named llm" in (errors := capsys.readouterr().err)
    assert "differ in thinking" in errors
    for name, parameters in (("a", LLM.parameters), ("b", other)):
        values = {"base": "cpu-approx", "name": name}
        values["caption_analysis"] = {"name": "llm", "parameters": parameters}  # type: ignore[assignment]
        (tmp_path / f"{name}.json").write_text(json.dumps(values))
    recipes = (str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert run(store, "compare", "--first", recipes[0], "--second", recipes[1], "--json") == 0
    fields = {row["field"]: row for row in json.loads(capsys.readouterr().out)["fields"]}
    assert (fields["background"]["first"], fields["background"]["second"]) == (0, 2)
    # an empty caption is not requested
    assert fields["subject"]["second"] == 2


def test_what_cannot_be_compared_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store.create(tmp_path / "store")
    assert run(store, "compare") == 1
    assert "this store has no analysis by rules" in capsys.readouterr().err
    assert run(store, "show", "s1") == 1
    assert "no analysis of source 's1'" in capsys.readouterr().err


def test_analyses_are_shown_with_what_they_took(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store, "show", "s1") == 0
    text = capsys.readouterr().out
    assert "clip 0, rules" in text
    assert "clip 2, llm" in text
    assert "answered by tiny: attempts 1, calls 1, tokens 100 in and 20 out" in text
    assert "<think>" not in text
    assert run(store, "show", "s1", "--clip", "0", "--raw") == 0
    text = capsys.readouterr().out
    assert "reasoning:\n    well" in text
    assert "<think>well</think>{" in text
    assert "clip 1" not in text
    assert run(store, "show", "s1", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["answer"] is None for row in rows if row["analyser"] == "llm"] == [False, False, True]
    assert run(store, "show", "s1", "--clip", "9") == 1


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
