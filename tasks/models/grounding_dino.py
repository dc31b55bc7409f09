"""Grounding DINO by transformers: boxes around the objects that a phrase names."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.frames import Planes
from tasks.models.base import Box, Detector
from tasks.models.texts import fitting_words, has_words
from tasks.models.torch_model import TransformersModel, memory_errors, prepare_torch


class GroundingDino(TransformersModel, Detector):
    """A loaded Grounding DINO; published figures are for ``float32``."""

    what = "Grounding DINO"
    model_class = "AutoModelForZeroShotObjectDetection"
    #: The text is passed as one string that ends with a full stop.
    model_types = ("grounding-dino", "mm-grounding-dino")

    def phrase(self, text: str) -> str:
        """Return a text as the model expects it: lower case, one phrase, ending with a full stop.

        Full stops within the text are removed, since each would start another phrase. A text longer than
        the model's 256 tokens is cut between words. A text without letters or digits becomes empty.
        """
        one = re.sub(r"[.?\s]+", " ", text).strip().lower()
        if not has_words(one):
            return ""
        tokenizer = self._processor.tokenizer
        limit = int(self._model.config.max_text_len)

        def fits(words: str) -> bool:
            # silences the tokenizer's warning about texts that are too long
            return len(tokenizer(f"{words}.", truncation=True, max_length=limit + 1).input_ids) <= limit

        return f"{fitting_words(one, fits)}."

    def find(self, rgb: Planes, phrase: str, box_threshold: float, text_threshold: float) -> list[list[Box]]:
        """Return the boxes of the objects named by `phrase` in each picture; see :meth:`Detector.find`.

        Boxes are clipped to the picture. A box that matches no word of the phrase (only a full stop or a
        special token) is dropped.
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
                # without boxes, transformers' labels are one empty text
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
    """Return the boxes that lie in the picture and have a label, best first.

    Parameters
    ----------
    corners
        ``(n, 4)``: left, top, right, bottom in pixels, possibly outside the picture.
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


load = GroundingDino.load
