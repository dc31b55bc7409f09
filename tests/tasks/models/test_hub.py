"""The model store's lookup: checked files, one load a process, helpful errors."""

from __future__ import annotations

import hashlib
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest
from PIL import Image

from storage_schemas.errors import IntegrityError, PrerequisiteError, UserInputError
from storage_schemas.ids import digest_file
from tasks.aspects.spatial_relationship import HorizontalFlip
from tasks.models.backgrounds import DrawnLandscapes
from tasks.models.hub import ModelHub, consumed_model
from tasks.models.registry import MODEL_SPECS, KnownFile, ModelSpec, Wheel
from tests.tasks.models.checkpoints import know


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSpec:
    """A model called toy, whose weights are five bytes and whose loader returns a new object each time."""
    file = tmp_path / "right" / "toy.bin"
    file.parent.mkdir()
    file.write_bytes(b"12345")
    monkeypatch.setattr("tasks.models.hub.load_model", lambda *given, **options: object())
    files = (KnownFile("toy.bin", 5, digest_file(file)),)
    return know(monkeypatch, ModelSpec("toy", "", "u2net", "CC0", 0, files, Wheel("p", "1", "m", "", "")))


def test_a_model_is_loaded_once_a_process_for_all_hubs(toy: ModelSpec, tmp_path: Path) -> None:
    one = ModelHub([tmp_path / "missing", tmp_path / "right"])
    assert one.path("toy") == tmp_path / "right" / "toy.bin"
    assert one.get("toy") is one.get("toy") is ModelHub([tmp_path / "right"]).get("toy")
    assert pickle.loads(pickle.dumps(one)).get("toy") is one.get("toy")


def test_missing_weights_say_where_they_were_and_how_to_get_them(toy: ModelSpec, tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        ModelHub([tmp_path / "a", tmp_path / "b"]).checksum("toy")
    message = str(caught.value)
    assert all(said in message for said in (str(tmp_path / "a"), str(tmp_path / "b"), "p 1"))
    assert message.endswith("slvmeval models add toy")
    with pytest.raises(PrerequisiteError, match="none is set"):
        ModelHub([]).get("toy")


def test_another_file_under_the_name_and_unknown_models_are_refused(toy: ModelSpec, tmp_path: Path) -> None:
    (tmp_path / "toy.bin").write_bytes(b"54321")
    with pytest.raises(IntegrityError, match="delete it"):
        ModelHub([tmp_path]).get("toy")
    (tmp_path / "toy.bin").write_bytes(b"12345")
    ModelHub([tmp_path]).checksum("toy")
    with pytest.raises(UserInputError, match="u2netp"):
        ModelHub([]).get("u3netp")


def test_the_checksums_are_those_that_rembg_expects() -> None:
    sessions = Path(str(find_spec("rembg").origin)).parent / "sessions"
    for name in ("u2net", "u2netp"):
        assert f"md5:{MODEL_SPECS[name].wheel.md5}" in (sessions / f"{name}.py").read_text()


def test_the_real_weights_are_what_the_table_says(model_folder: Path) -> None:
    spec = MODEL_SPECS["u2netp"]
    path = ModelHub([model_folder]).path("u2netp")
    md5 = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    assert (md5, path.stat().st_size) == (spec.wheel.md5, spec.size)


def test_sets_of_images_are_drawn_or_found_in_a_model_folder_and_nowhere_else(tmp_path: Path) -> None:
    assert isinstance(ModelHub([]).get("backgrounds:procedural"), DrawnLandscapes)
    folder = tmp_path / "backgrounds" / "mine"
    folder.mkdir(parents=True)
    Image.new("RGB", (60, 40), (200, 200, 200)).save(folder / "one.png")
    images = ModelHub([tmp_path]).get("backgrounds:mine")
    assert images.image("one.png", 16, 32).shape == (16, 32, 3)
    with pytest.raises(PrerequisiteError, match="backgrounds/other"):
        ModelHub([tmp_path]).checksum("backgrounds:other")
    for name in ("", "..", "a/b", "../mine", ".hidden"):
        with pytest.raises(UserInputError, match="not a valid name for a folder"):
            ModelHub([tmp_path]).get(f"backgrounds:{name}")


def test_what_an_operation_consumes_is_checked_before_any_work(toy: ModelSpec, tmp_path: Path) -> None:
    assert consumed_model(ModelHub([tmp_path / "right"]), "toy") == {"toy": toy.files[0].sha256}
    with pytest.raises(PrerequisiteError, match="slvmeval models add toy"):
        consumed_model(ModelHub([tmp_path]), "toy")
    name = "backgrounds:procedural"
    assert consumed_model(ModelHub([]), name) == {name: DrawnLandscapes().checksum}


def test_consumed_models_are_by_default_those_that_are_declared(toy: ModelSpec, tmp_path: Path) -> None:
    class Flip(HorizontalFlip):
        models: ClassVar[tuple[str, ...]] = ("toy",)

    operation = Flip()
    hub = ModelHub([tmp_path / "right"])
    assert operation.consumed_models(operation.parameters(), hub) == {"toy": toy.files[0].sha256}
    assert HorizontalFlip().consumed_models(operation.parameters(), hub) == {}
    with pytest.raises(PrerequisiteError, match="slvmeval models add toy"):
        operation.consumed_models(operation.parameters(), ModelHub([]))
