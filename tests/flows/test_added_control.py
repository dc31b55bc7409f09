"""The aspect of another package, with a control: built, verified, shown, judged and reported."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.score.options import EvaluateOptions
from slvmeval.testing import check_aspect
from tasks.aspects.registry import aspect
from tasks.pairs.verify import verify_deep
from tasks.publish.gallery.write import write_gallery
from tasks.recipe import AspectRecipe, Lengths, Recipe
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import report_of
from tasks.scoring.registry import choice_from_text
from tests.flows.small_builds import AddFilm
from tests.inline import build_inline, evaluate_inline
from tests.small_films import options_in
from tests.tasks.publish.pages import Elements

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-aspect.md"
CONTROL = """
from dataclasses import replace
from slvmeval.aspects import Control


class MovedPicture(PixelOperation[Parameters]):
    name = "moved-picture"
    version = 1
    parameters_type = Parameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"control": {}}
    default_strength: ClassVar[str] = "control"
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.5

    def apply(self, frames, first, clip, parameters, choice):
        changed = frames.copy()
        for luma in split_planes(changed).y:
            luma[...] = np.roll(luma, -3, axis=1)
        return changed


control = Control(
    operation=MovedPicture(), takes=any_clip, needs="nothing", reason="there is as much grain on both sides",
    max_difference=60.0,
)
ASPECT = replace(ASPECT, control=control)
"""


@pytest.fixture
def grain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the aspect of the documents, with a control."""
    folder = tmp_path / "site"
    info = folder / "planted_grain-1.0.dist-info"
    info.mkdir(parents=True)
    (first, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "planted_grain.py").write_text(first + CONTROL, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted-grain\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[slvmeval.aspects]\ngrain = planted_grain:ASPECT\n")
    monkeypatch.syspath_prepend(str(folder))
    yield
    aspect.cache_clear()
    sys.modules.pop("planted_grain", None)


@pytest.mark.usefixtures("grain")
def test_an_added_aspect_has_controls_like_ours(
    add_film: AddFilm, small_recipe: Recipe, tmp_path: Path
) -> None:
    check_aspect(aspect("grain"))
    add_film(tmp_path / "videos", 1)
    named = {"aspects": {"grain": AspectRecipe(operation="luma-grain")}, "name": "grainy"}
    recipe = small_recipe.model_copy(update={**named, "controls": True, "lengths": Lengths(shares=(0.5,))})
    built = build_inline(options_in(tmp_path, recipe))
    assert built.exit_code == 0
    store, release = built.release.store, built.release
    controls = [record for record in release.pairs() if record.control]
    assert [record.operation for record in controls] == ["moved-picture"]
    assert [verify_deep(store, record) for record in release.pairs()] == [[]] * len(release.pairs())
    data = json.loads(Elements(write_gallery(store, release, tmp_path / "gallery")).texts["data"])
    assert sum(pair["control"] for pair in data["pairs"]) == 1
    chosen = tuple(choice_from_text(name) for name in ("contrast", "sharpness"))
    options = EvaluateOptions.model_validate({"store": str(store.root), "evaluators": chosen})
    assert evaluate_inline(options).exit_code == 0
    report = report_of(load_judged_release(release))
    rows = {row["evaluator"]: row for row in report.tables["signal-detection"].rows}
    assert {name: (row["aspect"], row["controls"]) for name, row in rows.items()} == {
        "contrast": ("grain", 1),
        "sharpness": ("grain", 1),
    }
    # grain looks sharp, and a moved picture is as sharp as it was
    assert rows["sharpness"]["hits"] == 0
    assert report.tables["length"].rows
