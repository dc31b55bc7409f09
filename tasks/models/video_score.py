"""VideoScore v1.1: Idefics2 with a linear head that returns five scores for the frames of a video.

The published model is a class of the package mantis-vl, which does not work with this version of
transformers. Here transformers' own Idefics2 has the same head under the same names, so that the published
weights load unchanged. Equal scores have not been verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.frames import Planes
from tasks.models.residence import Batches
from tasks.models.torch_model import TransformersModel, memory_errors, prepare_torch

#: Names of the five scores, in the model's order (model card of VideoScore-v1.1).
DIMENSIONS = (
    "visual quality",
    "temporal consistency",
    "dynamic degree",
    "text-to-video alignment",
    "factual consistency",
)
#: Placeholder of a frame in the text.
FRAME_MARK = "<image>"


@cache
def _model_class() -> Any:
    """Return the class: Idefics2 with a head on the last token's state."""
    torch = prepare_torch()
    from transformers import Idefics2Model, Idefics2PreTrainedModel

    class Idefics2WithScores(Idefics2PreTrainedModel):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.model = Idefics2Model(config)
            self.score = torch.nn.Linear(config.text_config.hidden_size, config.num_labels)
            self.post_init()

        def get_input_embeddings(self) -> Any:
            return self.model.get_input_embeddings()

        def forward(self, **inputs: Any) -> Any:
            """Return the scores of one video, shape (1, labels)."""
            states = self.model(**inputs, use_cache=False).last_hidden_state
            return self.score(states[:, -1])

    return Idefics2WithScores


class VideoScoreModel(TransformersModel):
    """A loaded model and its processor; the published figures are for ``bfloat16``.

    Attributes
    ----------
    positions
        Maximum number of tokens of text and frames together.
    """

    what = "VideoScore"
    whole = True
    usual_dtype = "bfloat16"

    def __init__(self, model: Any, processor: Any, device: str, dtype: str) -> None:
        if model.config.num_labels != len(DIMENSIONS):
            raise ValueError(f"its head has {model.config.num_labels} numbers, {len(DIMENSIONS)} are needed")
        super().__init__(model, processor, device, dtype)
        self.positions = int(model.config.text_config.max_position_embeddings)
        self._one_by_one = Batches(1, owner=self)
        self._counts: dict[tuple[str, int, int, int], int] = {}

    @classmethod
    def _class_of(cls, transformers: Any) -> Any:
        return _model_class()

    def plain(self, text: str) -> str:
        """Return a text without special tokens: each loses its first character."""
        tokenizer = self._processor.tokenizer
        for mark in sorted({*tokenizer.get_added_vocab(), *tokenizer.all_special_tokens, FRAME_MARK}):
            while mark in text:
                text = text.replace(mark, mark[1:])
        return text

    def ends(self, text: str) -> list[int]:
        """Return the end of each token of a text, in characters; without special tokens."""
        encoded = self._processor.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [int(end) for _, end in encoded["offset_mapping"]]

    def count(self, text: str, frames: int, height: int, width: int) -> int:
        """Return the number of tokens of a text and its frames, all of one size."""
        key = (text, frames, height, width)
        if key not in self._counts:
            blank = Image.new("RGB", (width, height))
            self._counts[key] = int(self._inputs(text, [blank] * frames)["input_ids"].shape[1])
        return self._counts[key]

    def scores(self, rgb: Planes, text: str) -> tuple[NDArray[np.float32], int]:
        """Return a video's five scores, in the order of :data:`DIMENSIONS`, and the number of tokens used.

        Parameters
        ----------
        rgb
            Its frames ``(n, H, W, 3)`` uint8.
        text
            The question, with :data:`FRAME_MARK` for each frame.

        Raises
        ------
        PrerequisiteError
            If they do not fit into the device's memory after all other models of the process were freed.
        """
        torch = prepare_torch()
        inputs = self._inputs(text, [Image.fromarray(frame) for frame in rgb])

        def work(_: slice) -> list[NDArray[np.float32]]:
            with memory_errors(), torch.inference_mode():
                given = {name: values.to(self.device) for name, values in inputs.items()}
                given["pixel_values"] = given["pixel_values"].to(self._model.dtype)
                return [self._model(**given)[0].float().cpu().numpy()]

        (scores,) = self._one_by_one.run(1, work)
        return scores, int(inputs["input_ids"].shape[1])

    def _inputs(self, text: str, frames: Sequence[Image.Image]) -> Any:
        return self._processor(text=text, images=list(frames) or None, return_tensors="pt")


load = VideoScoreModel.load
