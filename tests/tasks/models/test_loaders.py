"""Kinds of models: the built-in ones, those of packages, and what is reported of others."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks import plugins
from tasks.models import loaders
from tasks.models.hub import ModelHub
from tests.tasks.models.checkpoints import mirror


def install(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    result = [EntryPoint(name, value, loaders.GROUP) for name, value in points]
    monkeypatch.setattr(
        plugins, "installed_points", lambda group, _state: result if group == loaders.GROUP else []
    )


@pytest.fixture
def added_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind of an installed package, whose models are the arguments of its loader."""
    (tmp_path / "toy_package.py").write_text("def load(*given, **options): return [given, options]\n")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, ("toy-kind", "toy_package:load"))
    return "toy-kind"


def test_loader_of_a_package_gets_folder_device_and_options(added_kind: str, tmp_path: Path) -> None:
    mirror(tmp_path / "models", "mine", kind=added_kind)
    hub = ModelHub([tmp_path / "models"])
    loaded = hub.get("mine", dtype="float32", compile=False)
    assert loaded == [(tmp_path / "models" / "mine", "cpu"), {"dtype": "float32", "compile": False}]
    assert hub.get("mine", compile=False, dtype="float32") is loaded
    assert hub.get("mine", dtype="bfloat16") is not loaded
    assert ModelHub([tmp_path / "models"], device="cuda").get("mine", dtype="float32")[0][1] == "cuda"


def test_a_folder_of_one_file_is_given_as_that_file(added_kind: str, tmp_path: Path) -> None:
    only = {
        "path": "config.json",
        "size": 2,
        "sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    }
    folder = mirror(tmp_path / "models", "mine", kind=added_kind, files=[only])
    (folder / "README.md").unlink()
    (folder / "unet/model.safetensors").unlink()
    assert ModelHub([tmp_path / "models"]).get("mine")[0][0] == folder / "config.json"


def test_an_unknown_kind_is_told_the_nearest(tmp_path: Path) -> None:
    mirror(tmp_path, "mine", kind="detectr")
    with pytest.raises(UserInputError, match=r"no kind of model 'detectr': did you mean detector\?"):
        ModelHub([tmp_path]).get("mine")


def test_a_served_model_is_never_loaded(tmp_path: Path) -> None:
    mirror(tmp_path, "mine", kind="served")
    with pytest.raises(UserInputError, match="mine runs behind a model server"):
        ModelHub([tmp_path]).get("mine")
    assert ModelHub([tmp_path]).path("mine") == tmp_path / "mine"
    with pytest.raises(UserInputError, match="not loaded here"):
        loaders.load_model("served", tmp_path, "cpu")


def test_packages_that_disagree_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ("detector", "other:load"))
    with pytest.raises(PrerequisiteError, match=r"other:load .*built-in kind"):
        loaders.check_kind("detector")
    install(monkeypatch, ("a", "one:load"), ("a", "two:load"))
    with pytest.raises(PrerequisiteError, match="one:load and two:load both add"):
        loaders.check_kind("a")


def test_a_loader_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ("a", "no_such_module:load"))
    with pytest.raises(PrerequisiteError, match=r"no_such_module:load: .*repair or uninstall"):
        loaders.load_model("a", tmp_path, "cpu")


def test_looking_names_up_imports_no_library_of_models(tmp_path: Path) -> None:
    mirror(tmp_path, "mine")
    code = f"""
import sys
from pathlib import Path
from tasks.aspects.registry import aspect_names
assert len(aspect_names()) == 10
heavy = {{"PIL", "cv2", "onnxruntime", "rembg", "torch"}}
assert not heavy & set(sys.modules)
from tasks.models.hub import ModelHub, consumed_model
from tasks.models.loaders import check_kind
hub = ModelHub([Path({str(tmp_path)!r})])
consumed_model(hub, "mine")
hub.names()
check_kind("inpainter")
heavy = {{"torch", "transformers", "diffusers", "huggingface_hub", "onnxruntime"}} & set(sys.modules)
assert not heavy, heavy
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
