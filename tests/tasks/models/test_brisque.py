"""BRISQUE's regression: what it reads, what it refuses, and what the fitted one says of pictures."""

from __future__ import annotations

import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
from skimage import data

from storage_schemas.errors import IntegrityError
from tasks.models.brisque import FEATURES, MACHINE, RANGES, Brisque, load
from tasks.models.hub import ModelHub

MACHINE_TEXT = """svm_type epsilon_svr
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 2
rho -3
SV
2 1:1 36:-1
-1 2:0.5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / MACHINE).write_text(MACHINE_TEXT)
    (tmp_path / RANGES).write_bytes(pickle.dumps({"min_": [-2.0] * FEATURES, "max_": [2.0] * FEATURES}))
    return tmp_path


def test_the_prediction_is_the_sum_over_the_support_vectors(folder: Path) -> None:
    features = np.zeros(FEATURES)
    features[0] = 2.0  # scaled to 1
    # squared distances 0 + 1 and 1 + 0.25
    expected = 2 * np.exp(-0.5) - np.exp(-0.5 * 1.25) + 3
    assert load(folder, "cpu").predict(features) == pytest.approx(expected, rel=1e-12)


def test_a_file_that_would_run_code_or_is_cut_off_is_refused(folder: Path) -> None:
    whole = (folder / RANGES).read_bytes()
    (folder / RANGES).write_bytes(pickle.dumps({"min_": Path, "max_": []}))
    with pytest.raises(IntegrityError, match="only numbers are read"):
        load(folder, "cpu")
    for size in range(len(whole)):
        (folder / RANGES).write_bytes(whole[:size])
        with pytest.raises(IntegrityError, match="fetch it again"):
            load(folder, "cpu")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("epsilon_svr", "c_svc", "it is a c_svc"), ("gamma 0.5\n", "", "gamma"), ("36:", "no:", "no")],
)
def test_another_machine_is_refused(folder: Path, old: str, new: str, said: str) -> None:
    (folder / MACHINE).write_text(MACHINE_TEXT.replace(old, new))
    with pytest.raises(IntegrityError, match=said):
        load(folder, "cpu")


@pytest.fixture(scope="module")
def fitted(model_folder: Path) -> Brisque:
    if not (model_folder / "brisque").is_dir():
        pytest.skip(f"no brisque in {model_folder}: slvmeval models add brisque")
    model: Brisque = ModelHub([model_folder]).get("brisque")
    return model


def test_the_fitted_one_orders_a_photograph_and_its_damaged_copies(fitted: Brisque) -> None:
    photograph = cv2.resize(data.camera(), (512, 288), interpolation=cv2.INTER_AREA)
    noise = np.random.default_rng(1).normal(0, 40, photograph.shape)
    damaged = [
        cv2.GaussianBlur(photograph, (0, 0), 3),
        np.clip(photograph + noise, 0, 255).astype(np.uint8),
        cv2.imdecode(cv2.imencode(".jpg", photograph, [cv2.IMWRITE_JPEG_QUALITY, 5])[1], 0),
    ]
    good = fitted.score(photograph)
    assert good < 20
    assert all(fitted.score(one) > good + 10 for one in damaged)


def test_a_picture_of_one_colour_has_no_score(fitted: Brisque) -> None:
    assert np.isnan(fitted.score(np.full((288, 512), 90, np.uint8)))
