"""Grounding DINO by transformers: boxes around what a phrase names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from tasks.models.base import Box, Detector
from tasks.models.texts import fitting_words, has_words
from tasks.models.torch_model import loading, memory_errors, prepare_torch, torch_dtype

#: Classes of this kind: the text goes in as one string that ends with a full stop.
MODEL_TYPES = ("grounding-dino", "mm-grounding-dino")


def load(path: Path, device: str, dtype: str = "float32") -> GroundingDino:
    """Load the checkpoint in a folder, without network access.

    Pictures are made ready by Pillow, not by torchvision, so that the same picture is the same input on every
    machine.

    Parameters
    ----------
    path
        The checkpoint's folder, with ``config.json``, weights, tokenizer and ``preprocessor_config.json``.
    device
        ``cpu`` or ``cuda``.
    dtype
        Of the weights and of the sums. Published figures are for ``float32``.

    Raises
    ------
    UserInputError
        For a dtype that does not exist.
    PrerequisiteError
        If torch or transformers are not installed, or the folder holds no such checkpoint.
    """
    wanted = torch_dtype(dtype)
    from transformers import AutoModelForZeroShotObjectDetection, AutoProcessor
    from transformers.utils import logging

    logging.disable_progress_bar()
    with loading(path, "Grounding DINO"):
        model = AutoModelForZeroShotObjectDetection.from_pretrained(path, local_files_only=True, dtype=wanted)
        processor = AutoProcessor.from_pretrained(path, local_files_only=True, backend="pil")
    if model.config.model_type not in MODEL_TYPES:
        raise PrerequisiteError(
            f"{path} holds a {model.config.model_type!r} model, this loader takes "
            f"{' and '.join(MODEL_TYPES)}: bring another detector by a small class, see docs/models.md"
        )
    return GroundingDino(model.to(device).eval(), processor, device, dtype)


class GroundingDino(Detector):
    """A loaded model and its processor.

    Attributes
    ----------
    device, dtype
        Where it lies, and in which numbers it computes.
    """

    def __init__(self, model: Any, processor: Any, device: str, dtype: str) -> None:
        self._model, self._processor = model, processor
        self.device, self.dtype = device, dtype
        self._most_tokens = int(model.config.max_text_len)

    def phrase(self, text: str) -> str:
        """Return a text as the model reads it: small letters, one phrase, a full stop at its end.

        A full stop within the text would end the phrase there and begin another, so there is none. A text
        that is longer than the model's 256 tokens is cut between words. One without a letter or digit is
        empty.
        """
        one = re.sub(r"[.?\s]+", " ", text).strip().lower()
        if not has_words(one):
            return ""
        tokenizer = self._processor.tokenizer
        limit = self._most_tokens

        def fits(words: str) -> bool:
            # longer texts are counted as well, which the tokenizer would warn of
            return len(tokenizer(f"{words}.", truncation=True, max_length=limit + 1).input_ids) <= limit

        return f"{fitting_words(one, fits)}."

    def find(self, rgb: Planes, phrase: str, box_threshold: float, text_threshold: float) -> list[list[Box]]:
        """Return the boxes of what `phrase` names in each picture, the best first.

        Boxes are cut off at the picture's border. A box that speaks of no word of the phrase (its score is
        that of a full stop or of a mark of the tokenizer) is left out.

        Parameters
        ----------
        rgb
            Pictures ``(n, H, W, 3)`` uint8.
        phrase
            The thing's name; see :meth:`phrase`.
        box_threshold, text_threshold
            Least score of a box, and of a word of the phrase in it.

        Raises
        ------
        OutOfMemory
            If so many pictures do not fit into the device's memory at once.
        """
        text = self.phrase(phrase)
        count, height, width, _ = rgb.shape
        if not text or not count:
            return [[] for _ in range(count)]
        torch = prepare_torch()
        pictures = [Image.fromarray(picture) for picture in rgb]
        inputs = self._processor(images=pictures, text=[text] * count, return_tensors="pt")
        with memory_errors(), torch.inference_mode():
            inputs = inputs.to(self.device)
            inputs["pixel_values"] = inputs["pixel_values"].to(self._model.dtype)
            outputs = self._model(**inputs)
            detections = self._processor.post_process_grounded_object_detection(
                outputs,
                inputs["input_ids"],
                threshold=box_threshold,
                text_threshold=text_threshold,
                target_sizes=[(height, width)] * count,
            )
        return [
            kept_boxes(
                each["boxes"].float().cpu().numpy(),
                each["scores"].float().cpu().numpy(),
                [self._label(label) for label in each["text_labels"]],
                height,
                width,
            )
            for each in detections
        ]

    def _label(self, text: str) -> str:
        """Return a box's words without the tokenizer's marks and full stops."""
        for mark in self._processor.tokenizer.all_special_tokens:
            text = text.replace(mark, " ")
        text = " ".join(text.replace(".", " ").split())
        return text if has_words(text) else ""


def kept_boxes(
    corners: NDArray[np.float32], scores: NDArray[np.float32], labels: list[str], height: int, width: int
) -> list[Box]:
    """Return what is a box in the picture and speaks of something, the best first.

    Parameters
    ----------
    corners
        ``(n, 4)``: left, top, right, bottom in pixels, possibly outside of the picture.
    scores
        ``(n,)``.
    labels
        What each speaks of; empty for nothing.
    height, width
        Of the picture.
    """
    boxes = []
    for edges, score, label in zip(corners, scores, labels, strict=True):
        if not label or not np.isfinite(edges).all():
            continue
        left, right = (min(max(float(edge), 0.0), float(width)) for edge in edges[[0, 2]])
        top, bottom = (min(max(float(edge), 0.0), float(height)) for edge in edges[[1, 3]])
        if right > left and bottom > top:
            boxes.append(Box(left=left, top=top, right=right, bottom=bottom, score=float(score), label=label))
    return sorted(boxes, key=lambda box: -box.score)
