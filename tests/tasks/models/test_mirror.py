"""Checkpoint folders that say what they hold: found, compared, refused where they are something else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from storage_schemas import checksum_cache
from storage_schemas.errors import IntegrityError, PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text, digest_value
from tasks.models.hub import ModelCheck, ModelHub, consumed_model
from tasks.models.mirror import MANIFEST, read_manifest
from tests.tasks.models.checkpoints import FILES, REVISION, WEIGHTS, know, mirror, toy_spec, write

NAME = "unet/model.safetensors"


def test_a_folder_is_found_and_stands_for_itself_in_an_id(tmp_path: Path) -> None:
    # hidden files are not the model's
    folder = write(mirror(tmp_path / "first", "mine"), {".cache/lock": "x", ".gitattributes": "x"})
    mirror(tmp_path / "second", "mine")
    (tmp_path / "none").mkdir()
    digest = digest_value(sorted([path, digest_text(text)] for path, text in FILES.items()))
    identity = {"repository": "someone/toy", "revision": REVISION, "digest": digest}
    hub = ModelHub([tmp_path / name for name in ("none", "first", "second")])
    assert consumed_model(hub, "mine") == {"mine": identity}
    assert (hub.path("mine"), hub.checksum("mine"), hub.names()[-1]) == (folder, digest, "mine")
    assert type(manifest := read_manifest(folder)).model_validate_json(manifest.to_bytes()) == manifest
    # a link to a folder elsewhere is a model too
    (tmp_path / "none" / "mine").symlink_to(folder)
    assert hub.path("mine") == tmp_path / "none" / "mine"


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda f: (f / NAME).unlink(), "model.safetensors is missing"),
        (lambda f: os.truncate(f / NAME, 7), r"truncated \(7 bytes, expected 320,000\)"),
        (lambda f: (f / "config.json").write_text("{} "), r"too long \(3 bytes, expected 2\)"),
        (lambda f: (f / "config.json").write_text("[]"), "is not the expected file"),
        (lambda f: (f / "unet/model.bin").write_text("x"), "holds unet/model.bin, which"),
        (lambda f: (f / MANIFEST).write_text("{"), "is damaged"),
        (lambda f: (f / MANIFEST).write_text("[]"), "is damaged"),
        (lambda f: (f / MANIFEST).unlink(), "slvmeval models add mine .*--set files=in-place"),
    ],
)
def test_damaged_folder_is_named(harm: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    harm(mirror(tmp_path, "mine"))
    with pytest.raises(IntegrityError, match=said):
        ModelHub([tmp_path]).path("mine")


def test_a_manifest_with_paths_elsewhere_or_of_a_later_version_is_refused(tmp_path: Path) -> None:
    manifest = mirror(tmp_path, "mine") / MANIFEST
    values = json.loads(manifest.read_text())
    assert values["schema"] == 1
    for wrong in ({"schema": 2}, {"files": []}, {"more": 1}, {"memory_bytes": -1}):
        manifest.write_text(json.dumps({**values, **wrong}))
        with pytest.raises(IntegrityError, match="is damaged"):
            ModelHub([tmp_path]).glance("mine")
    for path in ("../other", "/etc/passwd", "a/../../b", "", ".", "a//b", "a\\b", MANIFEST):
        values["files"][0]["path"] = path
        manifest.write_text(json.dumps(values))
        with pytest.raises(IntegrityError, match=r"files\.0\.path: .*is not a path within the folder"):
            ModelHub([tmp_path]).path("mine")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"repository": "someone/else"}, f"is someone/else @ {REVISION}, but toy is someone/toy"),
        ({"revision": "main"}, "is someone/toy @ main, but"),
        ({"repository": None, "revision": None}, "is None @ None, but"),
        ({"kind": "inpainter"}, "has the kind 'inpainter'"),
        ({"name": "other"}, "holds model 'other'"),
        ({"files": [{"path": "config.json", "size": 2, "sha256": "0" * 64}]}, f"has no {NAME}"),
    ],
)
def test_nothing_passes_for_the_built_in_model(
    fields: dict[str, object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, toy_spec())
    mirror(tmp_path, **fields)
    with pytest.raises(IntegrityError, match=said):
        ModelHub([tmp_path]).glance("toy")


def test_path_refuses_other_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, toy_spec(sha256="0" * 64))
    mirror(tmp_path)
    with pytest.raises(IntegrityError, match=r"is not that of toy \(320,000 bytes, SHA-256 0000"):
        ModelHub([tmp_path]).path("toy")
    know(monkeypatch, toy_spec(sha256=None))
    assert ModelHub([tmp_path]).path("toy") == tmp_path / "toy"
    # a single file is not a folder
    mirror(tmp_path, "u2netp")
    with pytest.raises(PrerequisiteError, match="slvmeval models add u2netp"):
        ModelHub([tmp_path]).path("u2netp")


@pytest.mark.parametrize("more", ["unet/diffusion_pytorch_model.safetensors", "pytorch_model.bin"])
def test_further_weights_are_refused(more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, toy_spec())
    monkeypatch.setitem(FILES, more, "weights that a loader might take")
    mirror(tmp_path)
    with pytest.raises(IntegrityError, match=f"has the weights {more} in addition to those of toy"):
        ModelHub([tmp_path]).glance("toy")
    # your own model may have any content
    mirror(tmp_path, "mine")
    assert ModelHub([tmp_path]).glance("mine").name == "mine"
    # nor can any be strange where none are known
    know(monkeypatch, replace(toy_spec(), files=()))
    assert ModelHub([tmp_path]).glance("toy").name == "toy"


def test_a_name_cannot_lead_out_of_the_folder_and_an_unknown_one_is_told_the_nearest(tmp_path: Path) -> None:
    for name in ("../up", "a/b", ".hidden", "", "backgrounds", "a" * 65):
        with pytest.raises(UserInputError, match="is not a valid model name"):
            ModelHub([tmp_path]).path(name)
    mirror(tmp_path, "my-detector")
    with pytest.raises(UserInputError, match=r"did you mean my-detector\?"):
        ModelHub([tmp_path]).path("my-detecter")


def test_weights_are_read_once_until_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = mirror(tmp_path, "mine")
    # as if they had been written an hour ago
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 3600,) * 2)
    read: list[str] = []
    original = checksum_cache.digest_file

    def digest(path: Path) -> str:
        read.append(path.name)
        return original(path)

    monkeypatch.setattr(checksum_cache, "digest_file", digest)
    monkeypatch.setattr("tasks.models.mirror.digest_file", digest)
    hub = ModelHub([tmp_path])
    told: list[tuple[int, int, str]] = []
    hub.find("mine", progress=lambda *step: told.append(step))
    assert told == [(0, 320_007, "README.md"), (5, 320_007, "config.json"), (7, 320_007, NAME)]
    hub.path("mine")
    assert sorted(read) == ["README.md", "config.json", "model.safetensors"]
    read.clear()
    hub.find("mine", again=True)
    assert len(read) == 3
    read.clear()
    (folder / NAME).write_text(WEIGHTS.upper())
    with pytest.raises(IntegrityError, match="is not the expected file"):
        hub.path("mine")
    assert read == ["model.safetensors"]


def test_all_that_is_missing_is_reported_at_once_and_one_thing_by_its_own_error(tmp_path: Path) -> None:
    (mirror(tmp_path, "mine") / "config.json").unlink()
    mirror(tmp_path, "right")
    check = ModelCheck([tmp_path])
    for name in ("u2net", "right", "mine", "backgrounds:nature", "backgrounds:procedural", "u2net"):
        consumed_model(check, name)
    well = [name for name, problem in check.problems.items() if problem is None]
    assert well == ["right", "backgrounds:procedural"]
    with pytest.raises(PrerequisiteError) as caught:
        check.raise_problems()
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "slvmeval models add u2net" in lines[0]
    assert "config.json is missing" in lines[1]
    check = ModelCheck([tmp_path], quick=True)
    check.raise_problems()
    consumed_model(check, "mine")
    with pytest.raises(IntegrityError, match=r"config\.json is missing"):
        check.raise_problems()


def test_caveat_of_a_built_in_model_that_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror(tmp_path, "mine")
    mirror(tmp_path, "toy")
    know(monkeypatch, toy_spec(sha256=None))
    hub = ModelHub([tmp_path])
    assert "not compared with the hub" in hub.glance("toy").caveat
    assert not hub.glance("mine").caveat
    mirror(tmp_path, "toy", compared_with_hub=True)
    assert not hub.glance("toy").caveat
