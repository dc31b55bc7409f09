"""Shared code of all torch models: setup, dtypes, memory errors and checkpoint errors."""

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
    """Import torch, once per process, prepare it for transformers and diffusers, and return it.

    The package index's torchvision is built for CUDA. With a CPU build of torch two of its operators are
    not registered, and importing it fails; they are declared here, which suffices for the picture transforms
    that we use. Network access is disabled.

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
            "models that are loaded here need torch, transformers and diffusers: `make env-models`, or pip "
            "install 'slvmeval[gpu]'"
        ) from problem
    # full float32: by default GPU convolutions round to ten bits of mantissa
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    if torch.version.cuda is None:
        _declare_vision_operators(torch)
    return torch


#: Libraries of declared operators; the declarations live as long as these objects.
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
        If it is not one of `allowed`.
    """
    if name not in allowed:
        raise UserInputError(f"dtype {name!r} of a model: choose one of {', '.join(allowed)}")
    return getattr(prepare_torch(), name)


def dtype_on(device: str, name: str) -> str:
    """Return the dtype in which a model computes that is asked for in `name`: on the CPU always ``float32``.

    Half precision is for GPUs: CPUs compute it slowly, or by way of float32.
    """
    return "float32" if device == "cpu" else name


def weights_in(path: Path, what: str) -> dict[str, Any]:
    """Return the tensors of a file of weights, by name, on the CPU.

    Parameters
    ----------
    path
        The file, or a folder with it: ``.safetensors``, or ``.pth``, from which only tensors are read.
    what
        What it holds, for messages.

    Raises
    ------
    PrerequisiteError
        If torch is not installed, there is not exactly one file, or it is damaged.
    """
    files = [path] if path.is_file() else sorted([*path.glob("*.safetensors"), *path.glob("*.pth")])
    if len(files) != 1:
        raise PrerequisiteError(
            f"{path} has {len(files)} weight files (.safetensors, .pth): {what} is a single file"
        )
    torch = prepare_torch()
    with loading(path, what):
        if files[0].suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(files[0]))
        return dict(torch.load(files[0], map_location="cpu", weights_only=True))


@contextmanager
def memory_errors() -> Iterator[None]:
    """Convert the libraries' out-of-memory errors to :class:`~tasks.models.base.OutOfMemory`."""
    try:
        yield
    except RuntimeError as problem:
        if isinstance(problem, OutOfMemory) or not is_out_of_memory(problem):
            raise
        raise OutOfMemory(str(problem)) from problem


@contextmanager
def loading(path: Path, what: str) -> Iterator[None]:
    """Add the folder and the expected kind to errors of loading.

    Raises
    ------
    PrerequisiteError
        For a library's error about missing, damaged or unsuitable files.
    """
    try:
        yield
    # safetensors raises its own class, torch RuntimeError for weights of another shape
    except Exception as problem:
        if is_out_of_memory(problem) or isinstance(problem, PrerequisiteError | UserInputError):
            raise
        message = str(problem).strip().split("\n")[0]
        raise PrerequisiteError(
            f"{path} cannot be loaded as {what}: {type(problem).__name__}: {message}; it must be a "
            "checkpoint folder as saved by its library. Check it with `slvmeval list models --deep`"
        ) from problem
