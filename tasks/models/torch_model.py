"""Shared code of all torch models: setup, dtypes, and errors of memory and of checkpoint files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.models.base import OutOfMemory
from tasks.models.device import is_out_of_memory


@cache
def prepare_torch() -> Any:
    """Import torch once a process, ready for transformers and diffusers, and return it.

    The package index's torchvision is built for CUDA. Beside a CPU build of torch two of its operators are
    not registered, and importing it fails; they are declared here, which is enough for all that is used of
    torchvision (picture transforms). Nothing is looked for on the network.

    Raises
    ------
    PrerequisiteError
        If torch is not installed, with the command that installs it.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")
    try:
        import torch
    except ImportError as problem:
        raise PrerequisiteError(
            "this recipe runs models that need torch, transformers and diffusers: `make env-models`, or pip "
            "install 'slvmeval[gpu]'"
        ) from problem
    # float32 means float32: by default convolutions on a GPU round to ten bits of mantissa
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    if torch.version.cuda is None:
        _declare_vision_operators(torch)
    return torch


#: Libraries of declared operators; they go with the object.
_declared: list[Any] = []


def _declare_vision_operators(torch: Any) -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)


#: The dtypes that a recipe may name.
DTYPES = ("bfloat16", "float16", "float32")


def torch_dtype(name: str, allowed: Sequence[str] = DTYPES) -> Any:
    """Return torch's dtype of that name.

    Raises
    ------
    UserInputError
        If it is none of `allowed`.
    """
    if name not in allowed:
        raise UserInputError(f"dtype {name!r} of a model: choose one of {', '.join(allowed)}")
    return getattr(prepare_torch(), name)


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn what libraries raise when the device's memory runs out into our own error."""
    try:
        yield
    except RuntimeError as problem:
        if isinstance(problem, OutOfMemory) or not is_out_of_memory(problem):
            raise
        raise OutOfMemory(str(problem)) from problem


@contextmanager
def loading(path: Path, what: str) -> Iterator[None]:
    """Say which folder could not be loaded, and as what.

    Raises
    ------
    PrerequisiteError
        For an error that a library raises of files that are missing, damaged or another model's.
    """
    try:
        yield
    # safetensors raises a class of its own, torch RuntimeError for weights of another shape
    except Exception as problem:
        if is_out_of_memory(problem) or isinstance(problem, PrerequisiteError | UserInputError):
            raise
        message = str(problem).strip().split("\n")[0]
        raise PrerequisiteError(
            f"{path} cannot be loaded as {what}: {type(problem).__name__}: {message}; it must be a "
            "checkpoint folder as its library saves it. Check it with `slvmeval models verify`"
        ) from problem
