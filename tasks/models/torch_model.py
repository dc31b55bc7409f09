"""What all models on torch share: names of dtypes, errors of the memory and of a folder's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.models.base import OutOfMemory
from tasks.models.device_memory import is_out_of_memory
from tasks.models.torch_cpu import prepare_torch

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
        said = str(problem).strip().split("\n")[0]
        raise PrerequisiteError(
            f"{path} cannot be loaded as {what}: {type(problem).__name__}: {said}; it must be a checkpoint's "
            "folder as its library saves it. Check it with `slvmeval models verify`"
        ) from problem
