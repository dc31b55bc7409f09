"""DOVER's loader, on an ONNX file that takes means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError
from tasks.models.dover import load
from tests.tiny_models.dover import tiny_dover

BEAUTY = np.full((1, 3, 32, 224, 224), 0.5, np.float32)
TECHNIQUE = np.full((2, 3, 32, 224, 224), 0.25, np.float32)


def test_both_numbers_come_in_the_scripts_order(tmp_path: Path) -> None:
    model = load(tiny_dover(tmp_path), "cpu")
    assert model.clips is None
    assert model.scores(BEAUTY, TECHNIQUE) == pytest.approx((0.5, 0.25))


def test_the_number_of_clips_is_the_files(tmp_path: Path) -> None:
    assert load(tiny_dover(tmp_path, clips=4) / "dover.onnx", "cpu").clips == 4


def test_another_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="has the inputs input, mask"):
        load(tiny_dover(tmp_path / "other", inputs=("input", "mask")), "cpu")
    with pytest.raises(PrerequisiteError, match="0 ONNX files"):
        load(tmp_path, "cpu")
    (tmp_path / "broken.onnx").write_bytes(b"no network")
    with pytest.raises(PrerequisiteError, match="cannot be loaded as DOVER"):
        load(tmp_path, "cpu")
