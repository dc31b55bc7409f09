"""Features of pictures and the aesthetic head, on tiny random checkpoints of the real classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError
from tests.once import Once
from tests.tasks.extras.locot2v.videos import scene

pytestmark = pytest.mark.models

PICTURES = np.stack([scene(number) for number in range(3)])


@pytest.fixture(scope="module")
def made(once: Once) -> Callable[[str], Path]:
    """Gives a checkpoint by name."""
    from tests.tiny_models.clip import tiny_clip
    from tests.tiny_models.pictures import tiny_dino, tiny_siglip

    makers: dict[str, Callable[[Path], Path]] = {"siglip": tiny_siglip, "dino": tiny_dino, "clip": tiny_clip}
    return lambda name: once(f"tiny-{name}", makers[name])


@pytest.mark.parametrize("name", ["siglip", "dino", "clip"])
def test_rows_have_length_1_and_do_not_depend_on_the_batch(made: Callable[[str], Path], name: str) -> None:
    from tasks.models.picture_features import load

    model = load(made(name), "cpu")
    rows = model.images(PICTURES)
    assert rows.shape == (3, 16) == (3, model.width)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1])
    model.batches.size = 1
    assert np.abs(model.images(PICTURES) - rows).max() < 1e-6
    assert np.abs(rows[0] - rows[1]).max() > 1e-4


@pytest.mark.parametrize("name", ["siglip", "dino"])
def test_features_are_siglips_pooled_and_dinos_class_token(made: Callable[[str], Path], name: str) -> None:
    import torch
    from PIL import Image
    from transformers import AutoImageProcessor, Dinov2Model, SiglipVisionModel

    from tasks.models.picture_features import load

    processor = AutoImageProcessor.from_pretrained(made(name), backend="pil")
    pixels = processor(images=[Image.fromarray(one) for one in PICTURES], return_tensors="pt")["pixel_values"]
    kind: Any = SiglipVisionModel if name == "siglip" else Dinov2Model
    with torch.inference_mode():
        output = kind.from_pretrained(made(name)).eval()(pixels)
    states = output.pooler_output if name == "siglip" else output.last_hidden_state[:, 0]
    wanted = torch.nn.functional.normalize(states, dim=-1).numpy()
    assert np.abs(load(made(name), "cpu").images(PICTURES) - wanted).max() < 1e-6


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


def test_what_is_not_a_head_or_no_model_of_pictures_is_reported(tmp_path: Path) -> None:
    import torch

    from tasks.models import aesthetic_head, picture_features

    with pytest.raises(PrerequisiteError, match="has 0 weight files"):
        aesthetic_head.load(tmp_path, "cpu")
    torch.save({"scoring_head.0.weight": torch.zeros(3, 16)}, tmp_path / "head.pth")
    with pytest.raises(PrerequisiteError, match=r"lacks scoring_head\.0\.bias"):
        aesthetic_head.load(tmp_path, "cpu")
    with pytest.raises(PrerequisiteError, match="as a model of pictures"):
        picture_features.load(tmp_path, "cpu")
