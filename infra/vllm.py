"""How vLLM, the documented language model server, serves the papers' models (``vllm_models.toml``)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Literal

from pydantic import Field

from storage_schemas.model import Frozen

#: The kind of requests that a model answers; ``images`` means chats with images.
Asks = Literal["chat", "images", "embeddings"]


class VllmModel(Frozen):
    """A model as vLLM serves it.

    Parameters
    ----------
    repository
        The hub's repository, and the model's name for clients.
    server
        Name under which clients look for the server.
    asks
        The kind of its requests.
    weights_gb
        Size of the weights in GB (10⁹ bytes); None if unknown.
    gpus
        Number of GPUs that share it.
    context
        Maximum tokens of prompt and answer together.
    images, videos
        Maximum images and videos of one prompt; 0 for a text-only model.
    video_pixels
        Maximum pixels of a video's frames together; None for the checkpoint's own.
    arguments
        Further arguments of vLLM.
    """

    repository: str
    server: str
    asks: Asks = "chat"
    weights_gb: float | None = None
    gpus: int = Field(default=1, ge=1)
    context: int = Field(default=32768, ge=1024)
    images: int = Field(default=0, ge=0)
    videos: int = Field(default=0, ge=0)
    video_pixels: int | None = None
    arguments: tuple[str, ...] = ()


def _listed() -> Mapping[str, VllmModel]:
    text = resources.files(__package__).joinpath("vllm_models.toml").read_text(encoding="utf-8")
    return {name: VllmModel.model_validate(values) for name, values in tomllib.loads(text).items()}


#: Variables of the server's process. Without the first it rejects requests with more than 716 MB of decoded
#: frames, which is 1,213 frames of 512×288.
VLLM_ENVIRONMENT: Mapping[str, str] = {"VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES": "0"}

#: The models that the papers serve, by name.
VLLM_MODELS = _listed()


def vllm_command(
    weights: str,
    model: VllmModel,
    *,
    revision: str | None = None,
    program: str = "vllm",
    more: Sequence[str] = (),
    batches: bool = False,
) -> list[str]:
    """Return the command that serves a model, without host and port; or answers a file of requests.

    Parameters
    ----------
    weights
        Folder of the checkpoint, or a repository of the hub.
    revision
        Commit of the repository, if `weights` is one.
    more
        Further arguments, last.
    batches
        Whether it answers a file and ends; the files are not included.
    """
    limits = json.dumps({"image": model.images, "video": model.videos})
    return [
        program,
        *(("run-batch", "--model", weights) if batches else ("serve", weights)),
        *("--served-model-name", model.repository),
        *(("--revision", revision) if revision else ()),
        *("--max-model-len", str(model.context)),
        *(("--limit-mm-per-prompt", limits) if model.images or model.videos else ()),
        *(_video_arguments(model) if model.videos else ()),
        *(("--tensor-parallel-size", str(model.gpus)) if model.gpus > 1 else ()),
        *model.arguments,
        *more,
    ]


def _video_arguments(model: VllmModel) -> list[str]:
    """Return the arguments that preserve all frames of a request's videos, at their given times."""
    arguments = ["--media-io-kwargs", json.dumps({"video": {"num_frames": -1}}), "--trust-request-mm-kwargs"]
    if model.video_pixels is not None:
        # the place for a video's embeddings is reserved at the start
        size = {"videos_kwargs": {"max_pixels": model.video_pixels}}
        arguments += ["--mm-processor-kwargs", json.dumps(size)]
    return arguments
