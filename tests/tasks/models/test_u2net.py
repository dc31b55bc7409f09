"""U²-Net on onnxruntime alone gives rembg's masks."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from tasks.models.hub import ModelHub


def pictures() -> list[np.ndarray]:
    from skimage import data

    return [data.astronaut()[:288], data.chelsea(), np.zeros((40, 60, 3), np.uint8)]


def test_the_mask_finds_the_cat(model_folder: Path) -> None:
    network = ModelHub([model_folder]).get("u2netp")
    picture = pictures()[1]
    mask = network.mask(picture)
    assert mask.shape == picture.shape[:2] and mask.dtype == np.uint8
    assert mask[100:250, 120:330].mean() > 180  # the face
    assert (network.mask(picture) == mask).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["u2netp", "u2net"])
def test_masks_are_rembgs_to_the_bit(
    name: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (model_folder / f"{name}.onnx").is_file():
        pytest.skip(f"no {name}.onnx: slvmeval models fetch {name}")
    (tmp_path / f"{name}.onnx").symlink_to((model_folder / f"{name}.onnx").resolve())
    monkeypatch.setenv("U2NET_HOME", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rembg's own imports
        from rembg import new_session, remove

    session = new_session(name)
    network = ModelHub([model_folder]).get(name)
    for picture in pictures():
        assert (np.asarray(remove(picture, session=session, only_mask=True)) == network.mask(picture)).all()
