"""All models of a recipe are looked at before a build starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.build.run import check_models
from storage_schemas.errors import PrerequisiteError
from tasks.recipe import AspectRecipe, Recipe


def test_all_missing_models_of_a_recipe_are_in_one_message(tmp_path: Path) -> None:
    recipe = Recipe(
        name="two",
        aspects={
            "background_consistency": AspectRecipe(
                operation="rembg-u2net", parameters={"model": "u2net", "backgrounds": "nature"}
            ),
            "object_integrity": AspectRecipe(operation="saliency-telea-inpainting"),
        },
    )
    with pytest.raises(PrerequisiteError) as caught:
        check_models(recipe, [str(tmp_path)], print)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("slvmeval models fetch u2net")
    assert "backgrounds/nature" in lines[1]
    assert lines[2].endswith("slvmeval models fetch u2netp")


def test_a_recipe_without_models_needs_none() -> None:
    check_models(Recipe(name="none", aspects={"aesthetics": AspectRecipe(operation="ffmpeg-eq")}), [], print)
