"""Stable Diffusion's loading and running code, on a tiny random checkpoint of the real classes."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.frames import Planes

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.tiny_models.inpainter import tiny_inpainter

    return tiny_inpainter(tmp_path_factory.mktemp("models") / "tiny-inpainter")


@pytest.fixture(scope="module")
def inpainter(folder: Path) -> Any:
    from tasks.models.stable_diffusion import load

    return load(folder, "cpu", dtype="float32")


def pictures(count: int, height: int = 64, width: int = 96) -> tuple[Planes, NDArray[np.bool_]]:
    shown = np.random.default_rng(1).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    masks = np.zeros((count, height, width), np.bool_)
    masks[:, height // 4 :, width // 4 :] = True
    return shown, masks


def paint(model: Any, shown: Planes, masks: NDArray[np.bool_], seeds: list[int], **changed: Any) -> Planes:
    options = {"prompt": "a meadow", "negative": "dog", "steps": 3, "guidance": 7.5, **changed}
    painted: Planes = model.inpaint(shown, masks, seeds=seeds, **options)
    return painted


def test_the_same_seeds_give_the_same_pixels_and_others_give_others(inpainter: Any) -> None:
    shown, masks = pictures(2)
    first = paint(inpainter, shown, masks, [1, 2])
    assert first.shape == shown.shape
    assert first.dtype == np.uint8
    assert (paint(inpainter, shown, masks, [1, 2]) == first).all()
    assert (paint(inpainter, shown, masks, [1, 3])[1] != first[1]).any()


def test_the_noise_of_a_frame_does_not_depend_on_the_others(inpainter: Any) -> None:
    shown, masks = pictures(3)
    together = paint(inpainter, shown, masks, [5, 2**62, 7]).astype(int)
    for place, seed in enumerate([5, 2**62, 7]):
        alone = paint(inpainter, shown[place : place + 1], masks[place : place + 1], [seed])
        # equal but for the order of sums in a larger batch
        assert np.abs(alone[0] - together[place]).max() <= 1
    other = paint(inpainter, shown[1:2], masks[1:2], [5])
    assert np.abs(other[0] - together[1]).max() > 1


def test_prompt_negative_and_guidance_count(inpainter: Any) -> None:
    shown, masks = pictures(1)
    plain = paint(inpainter, shown, masks, [1])
    assert (paint(inpainter, shown, masks, [1], prompt="a city") != plain).any()
    assert (paint(inpainter, shown, masks, [1], negative="cat") != plain).any()
    without = paint(inpainter, shown, masks, [1], guidance=1.0)
    assert (without != plain).any()
    assert (paint(inpainter, shown, masks, [1], guidance=1.0, negative="cat") == without).all()


def test_what_lies_under_the_mask_does_not_reach_the_model(inpainter: Any) -> None:
    shown, masks = pictures(1)
    other = np.where(masks[..., None], 255 - shown, shown)
    assert (paint(inpainter, other, masks, [1]) == paint(inpainter, shown, masks, [1])).all()
    beside = np.where(masks[..., None], shown, 255 - shown)
    assert (paint(inpainter, beside, masks, [1]) != paint(inpainter, shown, masks, [1])).any()


@pytest.mark.parametrize("size", [(4, 512), (284, 508), (68, 64), (12, 20)])
def test_sides_that_are_only_multiples_of_four(inpainter: Any, size: tuple[int, int]) -> None:
    shown, masks = pictures(2, *size)
    painted = paint(inpainter, shown, masks, [1, 2], steps=1)
    assert painted.shape == shown.shape
    assert len(np.unique(painted)) > 1
    assert paint(inpainter, shown[:0], masks[:0], []).shape == (0, *size, 3)


def test_the_padding_is_a_reflection(inpainter: Any) -> None:
    shown, masks = pictures(1, 68, 64)
    grown = np.pad(shown, ((0, 0), (0, 4), (0, 0), (0, 0)), "reflect")
    larger = np.pad(masks, ((0, 0), (0, 4), (0, 0)), "reflect")
    whole = paint(inpainter, grown, larger, [1])
    assert (whole[:, :68] == paint(inpainter, shown, masks, [1])).all()


def test_a_long_prompt_is_cut_between_words_and_said_so_once(
    inpainter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shown, masks = pictures(1)
    # the tiny tokenizer has a token a letter: 25 words of three letters, and two marks
    assert inpainter.read("red " * 300) == " ".join(["red"] * 25)
    assert inpainter.read("x" * 5000) == "x" * 75
    assert inpainter.read("red ball") == "red ball"
    assert inpainter.read("") == ""
    with caplog.at_level(logging.WARNING):
        first = paint(inpainter, shown, masks, [1], prompt="red " * 300)
        paint(inpainter, shown, masks, [1], prompt="red " * 300)
    assert [record.getMessage() for record in caplog.records if "first 25 words" in record.getMessage()]
    assert len(caplog.records) == 1
    assert (paint(inpainter, shown, masks, [1], prompt=" ".join(["red"] * 25)) == first).all()


@pytest.mark.parametrize("text", ["", "犬のいる公園", "<|endoftext|> {x} \0", "?!"])
def test_odd_prompts_run(inpainter: Any, text: str) -> None:
    shown, masks = pictures(1)
    assert paint(inpainter, shown, masks, [1], steps=1, prompt=text, negative=text).shape == shown.shape


def test_a_prompt_is_embedded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.models import stable_diffusion

    model = stable_diffusion.load(folder, "cpu", dtype="float32")
    texts: list[str] = []
    encode = model._pipeline.encode_prompt

    def counted(prompt: Any, *args: Any, **kwargs: Any) -> Any:
        if prompt is not None:
            texts.append(prompt)
        return encode(prompt, *args, **kwargs)

    monkeypatch.setattr(model._pipeline, "encode_prompt", counted)
    shown, masks = pictures(2)
    for _ in range(3):
        paint(model, shown, masks, [1, 2], steps=1)
    assert texts == ["a meadow", "dog"]
    monkeypatch.setattr(stable_diffusion, "KEPT_EMBEDDINGS", 2)
    paint(model, shown, masks, [1, 2], steps=1, prompt="a city")
    assert len(model._embeddings) <= 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_for_gpus(folder: Path, inpainter: Any, dtype: str) -> None:
    from tasks.models.stable_diffusion import load

    half = load(folder, "cpu", dtype=dtype)
    assert (half.dtype, half.device) == ("float32", "cpu")
    shown, masks = pictures(1)
    np.testing.assert_array_equal(paint(half, shown, masks, [1]), paint(inpainter, shown, masks, [1]))
    with pytest.raises(UserInputError, match=r"float8.*choose one of bfloat16"):
        load(folder, "cpu", dtype="float8")


@pytest.mark.gpu
def test_on_a_gpu_half_precision_computes_the_same_up_to_rounding(folder: Path, inpainter: Any) -> None:
    from tasks.models.stable_diffusion import load

    half = load(folder, "cuda")
    assert (half.dtype, half.device) == ("float16", "cuda")
    shown, masks = pictures(1)
    difference = paint(half, shown, masks, [1]).astype(int) - paint(inpainter, shown, masks, [1])
    assert 0 < np.abs(difference).mean() < 20


def test_memory_that_runs_out_is_our_error(inpainter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from tasks.models.base import OutOfMemory

    def full(*args: Any, **kwargs: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(inpainter._pipeline.unet, "forward", full)
    shown, masks = pictures(2)
    with pytest.raises(OutOfMemory, match="CUDA out of memory"):
        paint(inpainter, shown, masks, [1, 2])


def test_values_that_are_no_numbers_are_an_error(folder: Path) -> None:
    import torch

    from tasks.models.stable_diffusion import load

    model = load(folder, "cpu", dtype="float32")
    with torch.no_grad():
        model._pipeline.unet.conv_out.bias.fill_(float("nan"))
    shown, masks = pictures(1)
    with pytest.raises(PrerequisiteError, match="returned NaN"):
        paint(model, shown, masks, [1], steps=1)


def test_weights_in_half_precision_alone_are_taken(folder: Path, tmp_path: Path, inpainter: Any) -> None:
    from tasks.models.stable_diffusion import load, weights_variant

    assert weights_variant(folder) is None
    halves = tmp_path / "halves"
    shutil.copytree(folder, halves)
    for part in ("unet", "vae"):
        file = halves / part / "diffusion_pytorch_model.safetensors"
        file.rename(file.with_name("diffusion_pytorch_model.fp16.safetensors"))
    text = halves / "text_encoder" / "model.safetensors"
    text.rename(text.with_name("model.fp16.safetensors"))
    # in full precision there are pickles, as in the published repository: they are never opened
    (halves / "unet" / "diffusion_pytorch_model.bin").write_bytes(b"no weights")
    assert weights_variant(halves) == "fp16"
    shown, masks = pictures(1)
    again = paint(load(halves, "cpu", dtype="float32"), shown, masks, [1])
    assert (again == paint(inpainter, shown, masks, [1])).all()


def test_pickled_weights_are_not_opened(folder: Path, tmp_path: Path) -> None:
    from tasks.models.stable_diffusion import load

    pickled = tmp_path / "pickled"
    shutil.copytree(folder, pickled)
    file = pickled / "unet" / "diffusion_pytorch_model.safetensors"
    file.rename(file.with_suffix(".bin"))
    with pytest.raises(PrerequisiteError, match="pickled cannot be loaded"):
        load(pickled, "cpu", dtype="float32")


def test_no_safety_checker_is_loaded_though_the_checkpoint_names_one(folder: Path, inpainter: Any) -> None:
    assert "StableDiffusionSafetyChecker" in (folder / "model_index.json").read_text(encoding="utf-8")
    assert inpainter._pipeline.safety_checker is None


def test_a_folder_that_holds_no_such_model_is_named(folder: Path, tmp_path: Path) -> None:
    from tasks.models.stable_diffusion import load

    with pytest.raises(PrerequisiteError, match="nothing-here cannot be loaded as a Stable Diffusion"):
        load(tmp_path / "nothing-here", "cpu")
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    (damaged / "unet" / "diffusion_pytorch_model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(PrerequisiteError, match="slvmeval models verify"):
        load(damaged, "cpu", dtype="float32")


def test_a_checkpoint_without_inpainting_channels_is_refused(folder: Path, tmp_path: Path) -> None:
    from diffusers import UNet2DConditionModel

    from tasks.models.stable_diffusion import load

    other = tmp_path / "four-channels"
    shutil.copytree(folder, other)
    config = UNet2DConditionModel.load_config(folder / "unet", local_files_only=True)
    UNet2DConditionModel.from_config({**config, "in_channels": 4}).save_pretrained(other / "unet")
    with pytest.raises(PrerequisiteError, match="takes 4 channels"):
        load(other, "cpu", dtype="float32")


def test_a_compiled_model_gets_batches_of_few_sizes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from tasks.models.stable_diffusion import load

    sizes: list[int] = []

    def compiled(module: Any, dynamic: bool) -> None:
        assert dynamic is False
        module.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))

    monkeypatch.setattr(torch.nn.Module, "compile", compiled)
    model = load(folder, "cpu", dtype="float32", compile=True)
    for count in (1, 2, 3, 4):
        shown, masks = pictures(count)
        assert paint(model, shown, masks, [*range(count)], steps=1).shape == shown.shape
    # twice as many as pictures: with and without the prompt
    assert sizes == [2, 4, 8, 8]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of torch's own compiler
def test_a_compiled_model_paints_the_same(folder: Path, inpainter: Any) -> None:
    from tasks.models.stable_diffusion import load

    model = load(folder, "cpu", dtype="float32", compile=True)
    shown, masks = pictures(3)
    difference = paint(model, shown, masks, [1, 2, 3]).astype(int) - paint(inpainter, shown, masks, [1, 2, 3])
    assert np.abs(difference).max() <= 2


@pytest.mark.gpu
def test_it_runs_on_a_gpu(folder: Path) -> None:
    """With the real weights where the model folder has them: what it paints is no noise."""
    from skimage import data

    from tasks.models.stable_diffusion import load

    real = Path(os.environ.get("SLVMEVAL_MODEL_FOLDERS", "")) / "stable-diffusion-inpainting"
    there = (real / "model_index.json").is_file()
    model = load(real if there else folder, "cuda")
    shown = np.stack([data.astronaut()[:288]] * 2)
    masks = np.zeros(shown.shape[:3], np.bool_)
    masks[:, 60:280, 130:330] = True
    painted = paint(model, shown, masks, [1, 2], steps=20 if there else 2)
    assert (paint(model, shown, masks, [1, 2], steps=20 if there else 2) == painted).all()
    assert np.abs(painted[0][masks[0]].astype(int) - shown[0][masks[0]]).mean() > 5
    if there:
        # the picture goes through the autoencoder beside the mask, and stays what it was
        assert np.abs(painted[0][~masks[0]].astype(int) - shown[0][~masks[0]]).mean() < 15
