"""Grounding DINO by transformers: boxes around the objects that a phrase names."""

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

    Pictures are preprocessed by Pillow, not by torchvision, so that the input is the same on every machine.

    Parameters
    ----------
    path
        The checkpoint's folder, with ``config.json``, weights, tokenizer and ``preprocessor_config.json``.
    device
        ``cpu`` or ``cuda``.
    dtype
        Of weights and computation. Published figures are for ``float32``.

    Raises
    ------
    UserInputError
        For an unknown dtype.
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
            f"{path} holds a {model.config.model_type!r} model, this loader accepts "
            f"{' and '.join(MODEL_TYPES)}: another detector needs a small class, see docs/models.md"
        )
    return GroundingDino(model.to(device).eval(), processor, device, dtype)


class GroundingDino(Detector):
    """A loaded model and its processor.

    Attributes
    ----------
    device, dtype
        Its device, and the dtype of its computation.
    """

    def __init__(self, model: Any, processor: Any, device: str, dtype: str) -> None:
        self._model, self._processor = model, processor
        self.device, self.dtype = device, dtype
        self._most_tokens = int(model.config.max_text_len)

    def phrase(self, text: str) -> str:
        """Return a text as the model expects it: lower case, one phrase, ending with a full stop.

        Full stops within the text are removed, since each would start another phrase. A text longer than
        the model's 256 tokens is cut between words. A text without letters or digits becomes empty.
        """
        one = re.sub(r"[.?\s]+", " ", text).strip().lower()
        if not has_words(one):
            return ""
        tokenizer = self._processor.tokenizer
        limit = self._most_tokens

        def fits(words: str) -> bool:
            # silences the tokenizer's warning about texts that are too long
            return len(tokenizer(f"{words}.", truncation=True, max_length=limit + 1).input_ids) <= limit

        return f"{fitting_words(one, fits)}."

    def find(self, rgb: Planes, phrase: str, box_threshold: float, text_threshold: float) -> list[list[Box]]:
        """Return the boxes of the objects that `phrase` names in each picture, the best first.

        Boxes are clipped to the picture. A box that matches no word of the phrase (only a full stop or a
        special token) is dropped.

        Parameters
        ----------
        rgb
            Pictures ``(n, H, W, 3)`` uint8.
        phrase
            The object's name; see :meth:`phrase`.
        box_threshold, text_threshold
            Minimum score of a box, and of a word of the phrase in it.

        Raises
        ------
        OutOfMemory
            If the pictures do not fit into the device's memory at once.
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
                # of no boxes, transformers' labels are one empty text
                [self._label(label) for label in each["text_labels"][: len(each["boxes"])]],
                height,
                width,
            )
            for each in detections
        ]

    def _label(self, text: str) -> str:
        """Return a box's words without special tokens and full stops."""
        for mark in self._processor.tokenizer.all_special_tokens:
            text = text.replace(mark, " ")
        text = " ".join(text.replace(".", " ").split())
        return text if has_words(text) else ""


def kept_boxes(
    corners: NDArray[np.float32], scores: NDArray[np.float32], labels: list[str], height: int, width: int
) -> list[Box]:
    """Return the boxes that lie in the picture and have a label, the best first.

    Parameters
    ----------
    corners
        ``(n, 4)``: left, top, right, bottom in pixels, possibly outside of the picture.
    scores
        ``(n,)``.
    labels
        The words that each matches; empty for none.
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
