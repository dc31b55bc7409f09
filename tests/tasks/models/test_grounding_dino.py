"""Grounding DINO's loading and running code, on a tiny random checkpoint of the real classes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.frames import Planes
from tests.once import Once

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def folder(once: Once) -> Path:
    from tests.tiny_models.detector import tiny_detector

    return once("tiny-detector", tiny_detector)


@pytest.fixture(scope="module")
def detector(folder: Path) -> Any:
    from tasks.models.grounding_dino import load

    return load(folder, "cpu")


def pictures(count: int, height: int = 96, width: int = 128) -> Planes:
    return np.random.default_rng(1).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def test_boxes_lie_in_the_picture_the_best_first_and_speak_of_the_phrase(detector: Any) -> None:
    result = detector.find(pictures(3), "a dog on the boat", 0.4, 0.3)
    assert len(result) == 3
    assert any(result)
    for boxes in result:
        scores = [box.score for box in boxes]
        assert scores == sorted(scores, reverse=True)
        assert all(score > 0.4 for score in scores)
        for box in boxes:
            assert 0 <= box.left < box.right <= 128
            assert 0 <= box.top < box.bottom <= 96
            assert set(box.label.split()) <= {"a", "dog", "on", "the", "boat"}
            assert box.label


def test_thresholds_leave_boxes_out(detector: Any) -> None:
    shown = pictures(2)
    low, high = (detector.find(shown, "dog", threshold, 0.0) for threshold in (0.0, 0.999))
    assert sum(map(len, high)) < sum(map(len, low))
    # no word of the phrase reaches it
    assert detector.find(shown, "dog", 0.0, 1.0) == [[], []]
    assert detector.find(np.zeros((2, 48, 64, 3), np.uint8), "dog", 1.0, 1.0) == [[], []]


def test_the_same_pictures_give_the_same_boxes_alone_and_together(detector: Any) -> None:
    shown = pictures(3)
    together = detector.find(shown, "red ball", 0.4, 0.3)
    assert detector.find(shown, "red ball", 0.4, 0.3) == together
    for place in range(3):
        (alone,) = detector.find(shown[place : place + 1], "red ball", 0.4, 0.3)
        assert [box.label for box in alone] == [box.label for box in together[place]]
        for one, other in zip(alone, together[place], strict=True):
            assert one.left == pytest.approx(other.left, abs=0.1)
            assert one.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize("phrase", ["", "   ", "?!.", "...", "_", "'"])
def test_a_phrase_without_a_word_finds_nothing(detector: Any, phrase: str) -> None:
    assert detector.phrase(phrase) == ""
    assert detector.find(pictures(2), phrase, 0.0, 0.0) == [[], []]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Dog", "dog."),
        ("  The   Red\nBall. ", "the red ball."),
        ("Mr. Smith? Yes", "mr smith yes."),
        ("dog.", "dog."),
        ("犬", "犬."),
        ("СОБАКА", "собака."),
        # as many words stay as fit: 253 of them, the full stop and two marks of the tokenizer
        ("dog " * 253, " ".join(["dog"] * 253) + "."),
        ("dog " * 500, " ".join(["dog"] * 253) + "."),
    ],
)
def test_a_phrase_is_written_as_the_model_wants_it(detector: Any, text: str, phrase: str) -> None:
    assert detector.phrase(text) == phrase
    assert len(detector.find(pictures(1), text, 0.4, 0.3)) == 1


@pytest.mark.parametrize(
    "text", ["dog " * 500, "zebra " * 500, "x" * 50_000, "犬" * 600, "[SEP] [PAD] " * 300]
)
def test_texts_longer_than_the_model_are_cut_between_words(detector: Any, text: str) -> None:
    tokens = detector._processor.tokenizer(detector.phrase(text)).input_ids
    assert len(tokens) <= 256
    words = detector.phrase(text).removesuffix(".").split()
    assert words == text.lower().split()[: len(words)] or len(text.split()) == 1
    assert len(detector.find(pictures(1), text, 0.4, 0.3)) == 1


@pytest.mark.parametrize("size", [(4, 512), (284, 508), (512, 4), (20, 20)])
def test_pictures_of_odd_sizes(detector: Any, size: tuple[int, int]) -> None:
    result = detector.find(pictures(2, *size), "dog", 0.0, 0.0)
    assert all(box.right <= size[1] and box.bottom <= size[0] for boxes in result for box in boxes)
    assert detector.find(pictures(0, *size), "dog", 0.0, 0.0) == []


def test_other_dtypes_run(folder: Path) -> None:
    from tasks.models.grounding_dino import load

    half = load(folder, "cpu", dtype="bfloat16")
    assert half.dtype == "bfloat16"
    assert any(half.find(pictures(2), "dog", 0.4, 0.3))
    with pytest.raises(UserInputError, match=r"float64.*choose one of bfloat16"):
        load(folder, "cpu", dtype="float64")


def test_memory_that_runs_out_is_our_error(detector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from tasks.models.base import OutOfMemory

    def full(*args: Any, **kwargs: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(detector._model, "forward", full)
    with pytest.raises(OutOfMemory, match="CUDA out of memory"):
        detector.find(pictures(2), "dog", 0.4, 0.3)


def test_a_folder_that_holds_no_such_model_is_named(folder: Path, tmp_path: Path) -> None:
    from tasks.models.grounding_dino import load

    with pytest.raises(PrerequisiteError, match="nothing-here cannot be loaded as Grounding DINO"):
        load(tmp_path / "nothing-here", "cpu")
    damaged = Path(shutil.copytree(folder, tmp_path / "damaged"))
    (damaged / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(PrerequisiteError, match=r"damaged cannot be loaded .*slvmeval list models --deep"):
        load(damaged, "cpu")
    config = json.loads((folder / "config.json").read_text())
    (damaged / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))
    with pytest.raises(PrerequisiteError, match="'bert' model, this loader accepts grounding-dino and mm"):
        load(damaged, "cpu")


def test_boxes_are_clipped_and_those_without_area_or_words_dropped() -> None:
    from tasks.models.grounding_dino import kept_boxes

    found = [
        ([-9, -9, 5, 5], "dog"),
        ([90, 90, 300, 300], "dog"),
        ([10, 10, 10, 50], "dog"),
        ([120, 0, 140, 9], "dog"),
        ([1, 1, 2, 2], ""),
        ([float("nan"), 0, 9, 9], "dog"),
    ]
    corners, labels = zip(*found, strict=True)
    scores = np.linspace(0.5, 0.9, 6, dtype=np.float32)
    kept = kept_boxes(np.array(corners, np.float32), scores, list(labels), 100, 100)
    assert [(box.left, box.top, box.right, box.bottom) for box in kept] == [(90, 90, 100, 100), (0, 0, 5, 5)]


@pytest.mark.gpu
def test_it_runs_on_a_gpu(folder: Path) -> None:
    """With the real weights where the model folder has them: they find an astronaut and no giraffe."""
    from skimage import data

    from tasks.models.grounding_dino import load

    real = Path(os.environ.get("SLVMEVAL_MODEL_FOLDERS", "")) / "grounding-dino-base"
    there = (real / "config.json").is_file()
    model = load(real if there else folder, "cuda")
    shown = np.stack([data.astronaut()[:288]] * 4)
    result = model.find(shown, "an astronaut", 0.4, 0.3)
    assert len(result) == 4
    assert model.device == "cuda"
    if there:
        assert all(boxes and boxes[0].score > 0.4 for boxes in result)
        assert model.find(shown, "a giraffe", 0.4, 0.3) == [[], [], [], []]
