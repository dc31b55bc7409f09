"""Taking a checkpoint folder as a model: copied, linked or left in place, complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storage_schemas.commit import set_commit_hook
from storage_schemas.errors import IntegrityError, PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text
from tasks.models.add import How, add_model
from tasks.models.hub import ModelHub
from tasks.models.mirror import MANIFEST, read_manifest
from tests.tasks.models.checkpoints import FILES, REVISION, WEIGHTS, know, toy_spec, write


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write(tmp_path / "checkpoint", {**FILES, ".cache/lock": "x", ".gitattributes": "x"})


@pytest.mark.parametrize("how", ["copy", "link", "in-place"])
def test_a_folder_becomes_a_model(how: How, checkpoint: Path, tmp_path: Path) -> None:
    models, told = tmp_path / "models", []
    about = {"kind": "detector", "licence": "CC0-1.0", "repository": "me/mine", "revision": "1"}
    place = add_model(
        "mine", checkpoint, models, **about, how=how, progress=lambda done, _, path: told.append((done, path))
    )
    assert place == models / "mine" == ModelHub([models]).path("mine")
    manifest = read_manifest(place)
    assert {file.path: file.sha256 for file in manifest.files} == {
        p: digest_text(t) for p, t in FILES.items()
    }
    assert manifest.model_dump().items() >= {**about, "memory_bytes": 400_008}.items()
    assert told == [(0, "README.md"), (5, "config.json"), (7, "unet/model.safetensors")]
    same = (place / "config.json").stat().st_ino == (checkpoint / "config.json").stat().st_ino
    assert same == (how != "copy")
    assert (checkpoint / MANIFEST).exists() == (how == "in-place")
    assert sorted(path.name for path in models.iterdir()) == [".mine.lock", "mine"]


def test_a_folder_that_lies_in_the_models_folder_is_added_in_place(tmp_path: Path) -> None:
    folder = write(tmp_path / "models" / "mine")
    with pytest.raises(UserInputError, match="use --set files=in-place"):
        add_model("mine", folder, tmp_path / "models", kind="detector")
    add_model("mine", folder, tmp_path / "models", kind="detector", how="in-place")
    assert ModelHub([tmp_path / "models"]).path("mine") == folder


def test_links_in_a_cache_of_the_hub_are_followed(checkpoint: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    (snapshot / "unet").mkdir(parents=True)
    for path in FILES:
        (snapshot / path).symlink_to(checkpoint / path)
    place = add_model("mine", snapshot, tmp_path / "models", kind="detector", how="link")
    assert not (place / "config.json").is_symlink()
    assert (place / "config.json").read_text() == "{}"


def test_add_model_that_is_cut_off_leaves_no_model(checkpoint: Path, tmp_path: Path) -> None:
    def die(point: str) -> None:
        if point == "model:payload_synced":
            raise KeyboardInterrupt

    models = tmp_path / "models"
    set_commit_hook(die)
    try:
        with pytest.raises(KeyboardInterrupt):
            add_model("mine", checkpoint, models, kind="detector")
    finally:
        set_commit_hook(None)
    assert ModelHub([models]).names() == ModelHub([]).names()
    # what a killed process would have left
    write(models / ".add-mine", {"stray": "x"})
    add_model("mine", checkpoint, models, kind="detector")
    assert not (models / "mine" / "stray").exists()


def test_built_in_model_is_checked(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, toy_spec(text=WEIGHTS.upper()))
    models = tmp_path / "models"
    with pytest.raises(IntegrityError, match=r"unet/model\.safetensors of .* is not that of toy"):
        add_model("toy", checkpoint, models)
    know(monkeypatch, toy_spec())
    with pytest.raises(IntegrityError, match="is someone/toy @ main"):
        add_model("toy", checkpoint, models, revision="main")
    with pytest.raises(IntegrityError, match="has the kind 'inpainter'"):
        add_model("toy", checkpoint, models, kind="inpainter")
    assert not (models / "toy").exists()
    place = add_model("toy", checkpoint, models)
    about = {"repository": "someone/toy", "revision": REVISION, "kind": "detector", "licence": "CC0-1.0"}
    assert read_manifest(place).model_dump().items() >= {**about, "memory_bytes": 1000}.items()
    assert ModelHub([models]).path("toy") == place


def test_pickled_weights_are_taken_only_when_that_is_reported(checkpoint: Path, tmp_path: Path) -> None:
    write(checkpoint, {"unet/model.bin": "x"})
    with pytest.raises(UserInputError, match=r"unet/model\.bin holds pickled weights.*--set pickled=true"):
        add_model("mine", checkpoint, tmp_path / "models", kind="detector")
    add_model("mine", checkpoint, tmp_path / "models", kind="detector", pickled=True)


@pytest.mark.parametrize("how", ["copy", "link", "in-place"])
def test_what_is_not_a_file_in_a_checkpoint_is_named(how: How, checkpoint: Path, tmp_path: Path) -> None:
    os.mkfifo(checkpoint / "pipe.json")
    with pytest.raises(UserInputError, match=r"pipe\.json cannot be added \(it is a named pipe"):
        add_model("mine", checkpoint, tmp_path / "models", kind="detector", how=how)
    (checkpoint / "pipe.json").unlink()
    (checkpoint / "gone.json").symlink_to("nowhere")
    with pytest.raises(UserInputError, match=r"gone\.json cannot be added \(No such file"):
        add_model("mine", checkpoint, tmp_path / "models", kind="detector", how=how)
    assert not (tmp_path / "models" / "mine").exists()


def test_what_cannot_be_added_is_reported(checkpoint: Path, tmp_path: Path) -> None:
    models, empty = tmp_path / "models", tmp_path / "empty"
    empty.mkdir()
    wrong: list[tuple[str, Path, str | None, str]] = [
        ("mine", checkpoint, None, "--kind KIND"),
        ("mine", checkpoint, "detecter", r"did you mean detector\?"),
        ("../mine", checkpoint, "detector", "is not a valid model name"),
        ("u2net", checkpoint, "u2net", "u2net is the single file"),
        ("mine", checkpoint / "config.json", "detector", "is not a folder"),
        ("mine", empty, "detector", "contains no files"),
    ]
    for name, folder, kind, said in wrong:
        with pytest.raises(UserInputError, match=said):
            add_model(name, folder, models, kind=kind)
    add_model("mine", checkpoint, models, kind="detector")
    with pytest.raises(PrerequisiteError, match="already exists"):
        add_model("mine", checkpoint, models, kind="detector")
