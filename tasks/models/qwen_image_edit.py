"""Qwen-Image-Edit-2509 by diffusers: edits one picture according to an instruction.

Pipeline defaults to avoid: without height and width the result has about a megapixel, without a
negative prompt guidance is silently off, and a list of pictures means several references for one result. The
embedding of the instruction depends on the picture, so frames cannot share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from storage_schemas.errors import UserInputError
from storage_schemas.frames import Planes
from tasks.models.base import ImageEditor
from tasks.models.torch_model import as_bytes, dtype_on, load_pipeline, memory_errors, prepare_torch

#: Working memory of one picture in addition to the weights, bytes: an estimate for bfloat16, where the
#: reference picture has a megapixel whatever the frame's size. Not measured with the real weights.
WORKING_BYTES = 8 * 10**9
#: Supported dtypes; in float16 values overflow and pictures become black (as users of the model report).
DTYPES = ("bfloat16", "float32")

Offload = Literal["auto", "always", "never"]


def load(
    path: Path, device: str, dtype: str = "bfloat16", step_cache: float = 0.0, offload: Offload = "auto"
) -> QwenImageEditor:
    """Load the pipeline in a folder; see :func:`~tasks.models.loaders.load_model`.

    Loading needs main memory for all weights: 58 GB in bfloat16.

    Parameters
    ----------
    dtype
        ``bfloat16`` or ``float32``, of weights and computation on a GPU; on the CPU it is ``float32``.
    step_cache
        If positive, the threshold of diffusers' first block cache: where the first block's output has changed
        by a smaller share since the last full step, the rest of the step is reused. 0 turns it off: every
        step is computed in full.
    offload
        Whether the parts stay in main memory and each moves to the GPU only while it runs: ``auto`` if the
        GPU cannot hold all of them. It costs time and by design changes no pixel.
    """
    if not 0 <= step_cache < 1:
        raise UserInputError(f"step_cache is {step_cache}: give 0 (off) or a threshold below 1")
    dtype = dtype_on(device, dtype, DTYPES)
    what = "the pipeline of an image editor (QwenImageEditPlusPipeline)"
    pipeline = load_pipeline(path, "QwenImageEditPlusPipeline", what, dtype)
    torch = prepare_torch()
    weights = _weights(pipeline)
    offloaded = device != "cpu" and (
        offload == "always" or (offload == "auto" and not _fits(weights, _memory_of(torch, device)))
    )
    if offloaded:
        pipeline.enable_model_cpu_offload(device=device)
    else:
        pipeline.to(device)
    if step_cache:
        from diffusers.hooks import FirstBlockCacheConfig

        pipeline.transformer.enable_cache(FirstBlockCacheConfig(threshold=step_cache))
    return QwenImageEditor(pipeline, f"{device}, offloaded" if offloaded else device, dtype)


class QwenImageEditor(ImageEditor):
    """A loaded pipeline.

    Parameters
    ----------
    pipeline
        A ``QwenImageEditPlusPipeline``.

    Attributes
    ----------
    device, dtype
        A description of its device, and the dtype of its computation.
    """

    def __init__(self, pipeline: Any, device: str, dtype: str) -> None:
        self._pipeline = pipeline
        self.device, self.dtype = device, dtype
        #: Both sides of a picture must be multiples of this: eight pixels per latent, two latents per patch.
        self.multiple = int(pipeline.vae_scale_factor) * 2

    def edit(
        self, rgb: Planes, instruction: str, negative: str, seed: int, steps: int, guidance: float
    ) -> Planes:
        """Return the edited picture; see :meth:`ImageEditor.edit`.

        An unsupported size is padded by reflection at the right and bottom, and cropped afterwards. An empty
        `negative` becomes a blank, since without one the pipeline turns guidance off; a `guidance`
        (``true_cfg_scale``) of 1 turns it off and halves the time. The seed's generator is always on the CPU.
        `steps` is 2 or more: the schedule of one step divides by zero.
        """
        from PIL import Image

        torch = prepare_torch()
        if rgb.ndim != 3:
            raise ValueError(f"one picture (H, W, 3) at a time, not {rgb.shape}")
        padded = pad_to_multiple(rgb, self.multiple)
        with memory_errors(), self._fresh_cache():
            edited: np.ndarray[Any, np.dtype[np.float32]] = self._pipeline(
                image=[Image.fromarray(padded)],
                prompt=_as_words(instruction),
                negative_prompt=_as_words(negative).strip() or " ",
                true_cfg_scale=guidance,
                height=padded.shape[0],
                width=padded.shape[1],
                num_inference_steps=steps,
                generator=torch.Generator("cpu").manual_seed(seed),
                output_type="np",
            ).images[0]
        height, width, _ = rgb.shape
        return as_bytes(edited, "the image editor")[:height, :width]

    @contextmanager
    def _fresh_cache(self) -> Iterator[None]:
        """Clear the step cache after a picture, also after an error."""
        try:
            yield
        finally:
            self._pipeline.maybe_free_model_hooks()


def _as_words(text: str) -> str:
    """Return a text without the model's special tokens, such as the image placeholder."""
    return text.replace("<|", "< |")


def pad_to_multiple(rgb: Planes, multiple: int) -> Planes:
    """Return the picture ``(H, W, 3)``, padded by reflection at the right and bottom to a supported size."""
    height, width, _ = rgb.shape
    below, right = -height % multiple, -width % multiple
    return np.pad(rgb, ((0, below), (0, right), (0, 0)), mode="reflect")


def _weights(pipeline: Any) -> int:
    """Return the total bytes of a pipeline's weights."""
    modules = [part for part in pipeline.components.values() if hasattr(part, "parameters")]
    return sum(one.numel() * one.element_size() for part in modules for one in part.parameters())


def _memory_of(torch: Any, device: str) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory)


def _fits(weights: int, memory: int) -> bool:
    """Return whether `memory` bytes hold the weights and the working memory of one picture."""
    return weights + WORKING_BYTES <= memory
