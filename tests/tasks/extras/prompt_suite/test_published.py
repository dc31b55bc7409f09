"""The published file, and the table of complexity, against numbers that the paper prints."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import UserInputError
from tasks.extras.locot2v.dimensions import HERD_NAMES
from tasks.extras.locot2v.published_prompts import ATTRIBUTES, read_published
from tasks.extras.locot2v.suite import Locot2vBench
from tasks.extras.prompt_suite.complexity import PAPER, statistics_row, statistics_tables
from tasks.extras.prompt_suite.lengths import counted_words, length_table, word_table
from tasks.report.prompt_figures import length_figures
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.prompts import load_categories, load_prompts, with_categories

EVENT = {
    **{"event": "A ball rolls.", "subject": "ball", "setting": "meadow", "action": "rolls"},
    **{"camera motion": "panning", "prompt": "Behold, a ball."},
}
ENTRY: dict[str, Any] = {
    "main_content": "A ball rolls over a meadow.",
    "summary": "A ball rolls.",
    "evaluation": {title: f"On {title}." for title in ATTRIBUTES},
    "herd_questions": {
        title: [{"question": f"{title} {at}?", "q_pos": "negative" if at else "positive"} for at in range(6)]
        for title in ATTRIBUTES
    },
    "events_info": [EVENT],
    "prompt": "Behold, a ball that rolls with joy.",
    "frame_num_ref": 1440,
    "duration_ref": 48.05,
    "human_actions": ["a man waves"],
}


def asked_of_style(questions: list[dict[str, str]]) -> dict[str, Any]:
    return {"herd_questions": {**ENTRY["herd_questions"], "Visual Style": questions}}


def published(folder: Path, content: Any) -> Path:
    path = folder / "locot2v_prompt_suite.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def loaded(path: Path) -> dict[str, SuitePrompt]:
    return dict(load_prompts(path, Locot2vBench(Setup(store_path=""))).by_id)


def test_the_published_file_is_read_by_the_suite(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = published(tmp_path, {"space": {"space_2": ENTRY}, "food": {"food_1": ENTRY}})
    with caplog.at_level(logging.WARNING):
        prompts = loaded(path)
    assert not caplog.messages
    assert [(one.prompt_id, one.theme) for one in prompts.values()] == [
        ("space_2", "space"), ("food_1", "food")
    ]  # fmt: skip
    details = prompts["space_2"].details
    assert prompts["space_2"].text == ENTRY["prompt"]
    assert details["base"] == ENTRY["main_content"]
    assert details["events"][0]["camera"] == "panning"
    assert details["actions"] == ["a man waves"]
    assert tuple(details["questions"]) == HERD_NAMES
    assert details["questions"]["themes"][0] == {"question": "Themes and Messages 0?", "polarity": "positive"}


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"events_info": None}, "events"),
        ({"events_info": [{**EVENT, "event": ""}]}, "events"),
        ({"main_content": ""}, "base"),
        ({"human_actions": [1]}, "actions"),
        (asked_of_style([]), "questions on visual_style"),
        (asked_of_style([{"question": "?", "q_pos": "x"}]), "questions on visual_style"),
    ],
)
def test_what_is_missing_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: dict[str, Any], missing: str
) -> None:
    path = published(tmp_path, {"space": {"space_1": ENTRY, "space_2": {**ENTRY, **change}}})
    with caplog.at_level(logging.WARNING):
        assert len(loaded(path)) == 2
    (output,) = caplog.messages
    assert f"1 of 2 prompts have no usable {missing}" in output


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[", "not JSON"),
        ([], "not an object of themes"),
        ({}, "not an object of themes"),
        ({"space": [ENTRY]}, "'space' is not an object"),
        ({"space": {"space_1": {**ENTRY, "prompt": None}}}, "space, space_1 has no text 'prompt'"),
        ({"space": {"space_1": "A ball."}}, "space, space_1 has no text 'prompt'"),
        ({"space": {}}, "has no prompts"),
    ],
)
def test_another_form_is_reported(tmp_path: Path, content: Any, why: str) -> None:
    with pytest.raises(UserInputError, match=why):
        loaded(published(tmp_path, content))


def test_other_files_are_prompts_files_of_ours(tmp_path: Path) -> None:
    assert read_published(tmp_path / "prompts.jsonl") is None
    path = tmp_path / "prompts.csv"
    path.write_text("prompt_id,text\np1,A ball\n")
    assert loaded(path)["p1"].text == "A ball"


def rated(text: str, *scores: float, theme: str = "") -> SuitePrompt:
    kinds = ("semantic", "structural", "control")
    details = {"complexity": dict(zip(kinds, scores, strict=True))} if scores else {}
    return SuitePrompt(prompt_id=text, text=text, theme=theme, details=details)


@pytest.mark.parametrize("name", PAPER)
def test_the_mean_is_the_paper_s(name: str) -> None:
    samples, words, mean, *kinds = PAPER[name]
    row = statistics_row(name, [rated("a ball", *kinds)])
    assert row["complexity"] == pytest.approx(mean, abs=0.0101)
    assert min(samples, words) > 0


def test_what_nobody_rated_is_missing_and_never_zero() -> None:
    prompts = [rated("one two three", 9, 8, 7, theme="a"), rated("one", theme="b"), rated("x y", 7, 6, 5)]
    row = statistics_row("mine", prompts)
    assert (row["samples"], row["words"], row["rated"], row["semantic"]) == (3, 2.0, 2, 8.0)
    assert row["complexity"] == pytest.approx(7.0)
    suites = {"mine": prompts, "none": [rated("one")]}
    whole, by_theme, categories = statistics_tables(suites, paper=True)
    assert sum(row["samples"] for row in categories.rows) == PAPER["LoCoT2V-Bench"][0]
    assert len(whole.rows) == len(PAPER) + 2
    assert whole.cells()[-1][3] == "–"
    assert [(row["theme"], row["complexity"]) for row in by_theme.rows] == [("a", 8.0), ("b", None)]


@pytest.mark.parametrize("odd", [True, "9", None, float("nan"), 10.5, -1])
def test_odd_scores_are_none(odd: Any) -> None:
    details = {"complexity": {"semantic": odd, "structural": 1, "control": 1}}
    row = statistics_row("mine", [SuitePrompt(prompt_id="p", text="a", details=details)])
    assert (row["rated"], row["complexity"]) == (0, None)


def prompt(number: int, text: str, theme: str = "", category: str = "") -> SuitePrompt:
    return SuitePrompt(prompt_id=f"p{number}", text=text, theme=theme, category=category)


def prompts_of(*texts: str) -> list[SuitePrompt]:
    return [prompt(at, text) for at, text in enumerate(texts)]


def test_lengths_and_frequent_words() -> None:
    mine = prompts_of("word " * 20, "word " * 49, "word " * 50, "word " * 170)
    table = length_table({"mine": mine})
    assert [(row["least"], row["below"], row["prompts"]) for row in table.rows] == [
        (0, 50, 2), (50, 100, 1), (100, 150, 0), (150, 200, 1)
    ], "empty steps are shown"  # fmt: skip
    said = prompts_of("The dog's ball, and THE Dog’s ball.", "A slow-motion ball in the rain, 30 s.")
    assert dict(counted_words(said)) == {"ball": 3, "dog's": 1, "dog’s": 1, "slow-motion": 1, "rain": 1}


def test_the_figures_have_every_word_and_the_categories_are_counted() -> None:
    texts = ["A cake and a knife.", "A cake on a table.", "Snow over hills."]
    themes = [("food", "life"), ("food", "life"), ("winter", "nature")]
    prompts = [prompt(at, text, *themes[at]) for at, text in enumerate(texts)]
    suites = {"mine": prompts}
    tables = [*statistics_tables(suites, paper=True), length_table(suites), word_table(suites)]
    drawn = {one.name: one.svg.decode() for one in length_figures({table.name: table for table in tables})}
    assert list(drawn) == ["prompt-lengths", "prompt-words", "prompt-complexity-by-theme"]
    for word in ("cake", "knife", "table", "snow", "hills"):
        assert f">{word}<" in drawn["prompt-words"]
    assert ">winter (mine)<" in drawn["prompt-complexity-by-theme"]
    mine = [row for row in tables[2].rows if row.get("suite") == "mine"]
    assert [(row["category"], row["themes"], row["samples"]) for row in mine] == [
        ("life", 1, 2), ("nature", 1, 1)
    ]  # fmt: skip


def test_categories_of_themes_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "categories.csv"
    file.write_text("theme,category\nfood,life\nwinter,nature\nfood,life\n")
    named = {
        "p0": prompt(0, "x", "food"),
        "p1": prompt(1, "x", "winter", "mine"),
        "p2": prompt(2, "x", "sea"),
    }
    result = with_categories(named, load_categories(file))
    assert [one.category for one in result.values()] == ["life", "mine", ""]
    for line, message in (
        ("food,nature", "in 'life' already"),
        ("food,", "both a theme and a category"),
        ("sea,<b>nature</b>", "has '<' in it"),
    ):
        file.write_text(f"theme,category\nfood,life\n{line}\n")
        with pytest.raises(UserInputError, match=message):
            load_categories(file)
