"""Shared code of all torch models: setup, loading, dtypes, memory errors and checkpoint errors."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.frames import Planes
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
    torch = _imported("torch")
    # full float32: by default GPU convolutions round to ten bits of mantissa
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    if torch.version.cuda is None:
        _declare_vision_operators(torch)
    return torch


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        raise PrerequisiteError(
            "models that are loaded here need torch, torchvision, transformers and diffusers: `make "
            "env-models`, or pip install 'slvmeval[gpu]'"
        ) from problem


def library(name: str) -> Any:
    """Return a library of models, such as transformers, which neither reaches for the network nor draws bars.

    Raises
    ------
    PrerequisiteError
        If it, or torch, is not installed, with the command that installs them.
    """
    prepare_torch()
    if name in ("diffusers", "transformers"):
        _imported(f"{name}.utils.logging").disable_progress_bar()
    return _imported(name)


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


def dtype_on(device: str, name: str, allowed: Sequence[str] = DTYPES) -> str:
    """Return the dtype in which a model computes that is asked for in `name`: on the CPU always ``float32``.

    Half precision is for GPUs: CPUs compute it slowly, or by way of float32. Raises as :func:`torch_dtype`,
    also on the CPU.
    """
    torch_dtype(name, allowed)
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


class TransformersModel:
    """A loaded checkpoint of transformers: the model, and what prepares its inputs.

    Attributes
    ----------
    device, dtype
        Its device, and the dtype of its computation.
    """

    #: What it is, for messages.
    what: ClassVar[str]
    #: Names of transformers' classes.
    model_class: ClassVar[str]
    processor_class: ClassVar[str] = "AutoProcessor"
    #: What prepares pictures: Pillow, not torchvision, so that the input is the same on every machine.
    backend: ClassVar[str | None] = "pil"
    #: The types of checkpoints that it accepts; none for any.
    model_types: ClassVar[tuple[str, ...]] = ()
    #: Whether all weights must be there: transformers initialises those that are not randomly.
    whole: ClassVar[bool] = False
    usual_dtype: ClassVar[str] = "float32"

    def __init__(self, model: Any, processor: Any, device: str, dtype: str) -> None:
        self._model, self._processor = model, processor
        self.device, self.dtype = device, dtype

    @classmethod
    def load(cls, path: Path, device: str, dtype: str | None = None) -> Self:
        """Load the checkpoint in a folder, without network access and without code of its own.

        Parameters
        ----------
        path
            The checkpoint's folder, with ``config.json``, weights and the processor's files.
        device
            ``cpu`` or ``cuda``.
        dtype
            Of weights and computation; by default that of the published figures.

        Raises
        ------
        UserInputError
            For an unknown dtype.
        PrerequisiteError
            If torch or transformers are not installed, or the folder has no such checkpoint.
        """
        dtype = dtype or cls.usual_dtype
        wanted, transformers = torch_dtype(dtype), library("transformers")
        here = {"local_files_only": True, "trust_remote_code": False}
        preparing = here if cls.backend is None else {**here, "backend": cls.backend}
        with loading(path, cls.what):
            held = cls.model_types and transformers.AutoConfig.from_pretrained(path, **here).model_type
            if held and held not in cls.model_types:
                raise PrerequisiteError(
                    f"{path} holds a {held!r} model, this loader accepts {' and '.join(cls.model_types)}: "
                    "another kind of model needs a small class, see docs/models.md"
                )
            processor = getattr(transformers, cls.processor_class).from_pretrained(path, **preparing)
            model, report = cls._class_of(transformers).from_pretrained(
                path, dtype=wanted, output_loading_info=True, **here
            )
            lacking = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
            if cls.whole and lacking:
                raise PrerequisiteError(
                    f"{path} is incomplete: its weights lack {lacking[0]}, which {cls.what} has. Check it "
                    "with `slvmeval list models --deep`"
                )
            return cls(model.to(device).eval(), processor, device, dtype)

    @classmethod
    def _class_of(cls, transformers: Any) -> Any:
        return getattr(transformers, cls.model_class)


def load_pipeline(path: Path, name: str, what: str, dtype: str, **options: Any) -> Any:
    """Return the pipeline of diffusers in a folder, on the CPU; no network access, no progress bars.

    Parameters
    ----------
    path
        The checkpoint's folder, with ``model_index.json``.
    name, what
        The pipeline's class, and what it is, for messages.
    dtype
        Of weights and computation.
    options
        Further ones of ``from_pretrained``.
    """
    library("transformers")
    diffusers = library("diffusers")
    with loading(path, what):
        pipeline = getattr(diffusers, name).from_pretrained(
            path, local_files_only=True, dtype=torch_dtype(dtype), **options
        )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def as_bytes(made: NDArray[np.float32], what: str) -> Planes:
    """Return pictures of a pipeline, 0 to 1, as uint8.

    Raises
    ------
    PrerequisiteError
        For NaN, as a damaged checkpoint or an unsuitable dtype can cause.
    """
    if not np.isfinite(made).all():
        raise PrerequisiteError(
            f"{what} returned NaN: check its files with `slvmeval list models --deep`, or set the parameter "
            "dtype to float32"
        )
    return np.rint(made * 255).astype(np.uint8)
