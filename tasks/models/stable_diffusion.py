"""Stable Diffusion inpainting by diffusers: repaints regions of pictures according to a prompt."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from tasks.models.base import Inpainter
from tasks.models.texts import fitting_words
from tasks.models.torch_model import as_bytes, dtype_on, load_pipeline, memory_errors, prepare_torch

#: Maximum number of shapes that a process compiles the UNet for: batch sizes times frame sizes.
GRAPHS = 256

log = logging.getLogger(__name__)

#: Both sides of a picture must be multiples of this: eight pixels a latent.
MULTIPLE = 8
#: Embeddings of prompts kept on the device: 118 kB each for CLIP ViT-L in half precision.
KEPT_EMBEDDINGS = 256


def load(path: Path, device: str, dtype: str = "float16", compile: bool = False) -> StableDiffusionInpainter:
    """Load the pipeline in a folder; see :func:`~tasks.models.loaders.load_model`.

    The safety checker is not loaded: the repainted regions are small parts of everyday film, and a false
    alarm would silently put a black picture into the data.

    Parameters
    ----------
    dtype
        Of weights and computation on a GPU; the published weights are ``float16``. On the CPU it is
        ``float32``, see :func:`~tasks.models.torch_model.dtype_on`.
    compile
        Whether torch compiles the UNet, which takes a while for each new shape. To limit the shapes, batches
        are padded to a power of two and the padding is discarded.
    """
    dtype = dtype_on(device, dtype)
    pipeline = load_pipeline(
        path,
        "StableDiffusionInpaintPipeline",
        "a Stable Diffusion inpainting pipeline",
        dtype,
        variant=weights_variant(path),
        use_safetensors=True,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    channels = pipeline.unet.config.in_channels
    if channels != 9:
        raise PrerequisiteError(
            f"{path}: its UNet takes {channels} channels, not the 9 of inpainting (latents, mask, picture): "
            "another model needs a small class, see docs/models.md"
        )
    pipeline.to(device)
    torch = prepare_torch()
    if device != "cpu":
        for part in (pipeline.unet, pipeline.vae):
            part.to(memory_format=torch.channels_last)
    if compile:
        # a graph per shape: beyond the limit it would run uncompiled, with other pixels, and only warn
        torch._dynamo.config.recompile_limit = GRAPHS
        pipeline.unet.compile(dynamic=False)
    return StableDiffusionInpainter(pipeline, device, dtype, compile)


def weights_variant(path: Path) -> str | None:
    """Return ``fp16`` if a folder has the UNet's weights in half precision only, else None.

    This is the case for the published checkpoint, whose full-precision weights are pickled. Those are never
    opened, since a pickle can run code.
    """
    names = [file.name for file in (path / "unet").glob("*.safetensors")]
    return "fp16" if names and all(".fp16." in name for name in names) else None


class StableDiffusionInpainter(Inpainter):
    """A loaded pipeline.

    Parameters
    ----------
    pipeline
        A ``StableDiffusionInpaintPipeline`` with a UNet of nine channels.

    Attributes
    ----------
    device, dtype, compiled
        Its device, the dtype of its computation, and whether its UNet is compiled.
    """

    def __init__(self, pipeline: Any, device: str, dtype: str, compiled: bool) -> None:
        self._pipeline = pipeline
        self.device, self.dtype, self.compiled = device, dtype, compiled
        self._embeddings: dict[str, Any] = {}

    def read(self, text: str) -> str:
        """Return the part of a prompt that the model reads: CLIP's 77 tokens, cut between words."""
        tokenizer = self._pipeline.tokenizer
        limit = tokenizer.model_max_length

        def fits(words: str) -> bool:
            return bool(len(tokenizer(words, truncation=True, max_length=limit + 1).input_ids) <= limit)

        return fitting_words(text, fits)

    def inpaint(
        self,
        rgb: Planes,
        masks: NDArray[np.bool_],
        prompt: str,
        negative: str,
        seeds: Sequence[int],
        steps: int,
        guidance: float,
    ) -> Planes:
        """Return the pictures with the masked regions repainted; see :meth:`Inpainter.inpaint`.

        A side that is not a multiple of 8 is padded by reflection, and cropped afterwards. A `guidance` of 1
        turns guidance off. Each seed's generator is on the CPU whatever the device.
        """
        torch = prepare_torch()
        count, height, width, _ = rgb.shape
        if not count == len(masks) == len(seeds):
            raise ValueError(f"{count} pictures, {len(masks)} masks and {len(seeds)} seeds")
        if not count:
            return rgb.copy()
        drawn = self._filled_up(count)
        padding = ((0, 0), (0, -height % MULTIPLE), (0, -width % MULTIPLE))
        pictures = np.pad(rgb[drawn], (*padding, (0, 0)), "reflect").astype(np.float32) / 255
        holes = np.pad(masks[drawn], padding, "reflect").astype(np.float32)
        with memory_errors(), torch.inference_mode():
            painted: NDArray[np.float32] = self._pipeline(
                image=torch.from_numpy(pictures).permute(0, 3, 1, 2),
                mask_image=torch.from_numpy(holes)[:, None],
                prompt_embeds=self._embedding(prompt).expand(len(drawn), -1, -1),
                negative_prompt_embeds=self._embedding(negative).expand(len(drawn), -1, -1),
                height=pictures.shape[1],
                width=pictures.shape[2],
                strength=1.0,
                num_inference_steps=steps,
                guidance_scale=guidance,
                generator=[torch.Generator("cpu").manual_seed(seeds[index]) for index in drawn],
                output_type="np",
            ).images
        return as_bytes(painted, "the inpainting model")[:count, :height, :width]

    def _filled_up(self, count: int) -> list[int]:
        """Return the indices to process; when compiled, padded with the last one to a power of two."""
        size = 1 << (count - 1).bit_length() if self.compiled else count
        return [*range(count), *[count - 1] * (size - count)]

    def _embedding(self, text: str) -> Any:
        """Return the embedding of a prompt ``(1, 77, n)``, computed once per process."""
        if text not in self._embeddings:
            if len(self._embeddings) >= KEPT_EMBEDDINGS:
                self._embeddings.clear()
            read = self.read(text)
            if read != text:
                log.warning("only the first %d words of the prompt %.60r… are read", len(read.split()), text)
            embedding, _ = self._pipeline.encode_prompt(read, self.device, 1, False)
            self._embeddings[text] = embedding
        return self._embeddings[text]
