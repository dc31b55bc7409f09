"""Features of pictures and the aesthetic head, on tiny random checkpoints of the real classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError
from tests.tasks.scoring.suites.locot2v.videos import scene

pytestmark = pytest.mark.models

PICTURES = np.stack([scene(number) for number in range(3)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.tiny_models.clip import tiny_clip
    from tests.tiny_models.pictures import tiny_dino, tiny_siglip

    folder = tmp_path_factory.mktemp("pictures")
    tiny_siglip(folder / "siglip")
    tiny_dino(folder / "dino")
    tiny_clip(folder / "clip")
    return folder


def inputs(folder: Path) -> Any:
    from PIL import Image
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    return processor(images=[Image.fromarray(one) for one in PICTURES], return_tensors="pt")["pixel_values"]


@pytest.mark.parametrize("name", ["siglip", "dino", "clip"])
def test_rows_have_length_1_and_do_not_depend_on_the_batch(made: Path, name: str) -> None:
    from tasks.models.picture_features import load

    model = load(made / name, "cpu")
    rows = model.images(PICTURES)
    assert rows.shape == (3, 16) == (3, model.width)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1])
    model.batches.size = 1
    assert np.abs(model.images(PICTURES) - rows).max() < 1e-6
    assert np.abs(rows[0] - rows[1]).max() > 1e-4


def test_siglips_features_are_those_that_the_published_predictor_takes(made: Path) -> None:
    import torch
    from transformers import SiglipVisionModel

    from tasks.models.picture_features import load

    tower = SiglipVisionModel.from_pretrained(made / "siglip").eval()
    with torch.inference_mode():
        pooled = tower(inputs(made / "siglip")).pooler_output
    wanted = (pooled / pooled.norm(dim=-1, keepdim=True)).numpy()
    assert np.abs(load(made / "siglip", "cpu").images(PICTURES) - wanted).max() < 1e-6


def test_dinos_features_are_its_class_token(made: Path) -> None:
    import torch
    from transformers import Dinov2Model

    from tasks.models.picture_features import load

    with torch.inference_mode():
        states = Dinov2Model.from_pretrained(made / "dino").eval()(inputs(made / "dino")).last_hidden_state
    wanted = torch.nn.functional.normalize(states[:, 0], dim=-1).numpy()
    assert np.abs(load(made / "dino", "cpu").images(PICTURES) - wanted).max() < 1e-6


@pytest.mark.parametrize("ending", [".safetensors", ".pth"])
def test_the_head_gives_the_numbers_of_its_layers(tmp_path: Path, ending: str) -> None:
    import torch

    from tasks.models.aesthetic_head import load
    from tests.tiny_models.pictures import tiny_aesthetic_head

    tiny_aesthetic_head(tmp_path, ending=".pth")
    weights = torch.load(tmp_path / "aesthetic_predictor_v2_5.pth", weights_only=True)
    layers = [torch.nn.Linear(*reversed(weights[f"scoring_head.{n}.weight"].shape)) for n in (0, 2, 4, 6, 8)]
    chain = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.Dropout(0.5)))).eval()
    named = {name.removeprefix("scoring_head."): value.float() for name, value in weights.items()}
    chain.load_state_dict(named)
    rows = np.random.default_rng(0).normal(size=(4, 16))
    unit = torch.tensor(rows / np.linalg.norm(rows, axis=1, keepdims=True)).float()
    with torch.inference_mode():
        wanted = chain(unit)[:, 0].numpy()
    head = load(tiny_aesthetic_head(tmp_path / "head", ending=ending), "cpu")
    assert head.scores(rows) == pytest.approx(wanted, abs=1e-4)
    with pytest.raises(ValueError, match="expects 16"):
        head.scores(rows[:, :8])


def test_what_is_no_head_or_no_model_of_pictures_is_said(made: Path, tmp_path: Path) -> None:
    import torch

    from tasks.models import aesthetic_head, picture_features

    with pytest.raises(PrerequisiteError, match="has 0 weight files"):
        aesthetic_head.load(tmp_path, "cpu")
    torch.save({"scoring_head.0.weight": torch.zeros(3, 16)}, tmp_path / "head.pth")
    with pytest.raises(PrerequisiteError, match=r"lacks scoring_head\.0\.bias"):
        aesthetic_head.load(tmp_path, "cpu")
    with pytest.raises(PrerequisiteError, match="as a model of pictures"):
        picture_features.load(tmp_path, "cpu")
