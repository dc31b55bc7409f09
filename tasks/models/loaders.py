"""The loader of each kind of model; other packages can add kinds.

A package adds a kind through an entry point in the group ``slvmeval.models``, whose name is the kind and
whose value is ``module:load``, a function ``load(path, device, **options)`` that returns the loaded model. If
built-in operations are to use it, its class implements one from ``tasks/models/base.py``. Listing kinds
imports nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from storage_schemas.errors import PrerequisiteError, UserInputError, suggestion
from storage_schemas.extras import explain_missing_packages
from tasks.models.registry import SERVED
from tasks.plugins import added_points

#: Entry-point group for other packages.
GROUP = "slvmeval.models"

#: Kind of a model → the function that loads one.
LOADERS: Mapping[str, str] = {
    "u2net": "tasks.models.u2net:load",
    "detector": "tasks.models.grounding_dino:load",
    "inpainter": "tasks.models.stable_diffusion:load",
    "image-editor": "tasks.models.qwen_image_edit:load",
    "clip": "tasks.models.clip:load",
    "video-score": "tasks.models.video_score:load",
    "picture-features": "tasks.models.picture_features:load",
    "aesthetic-head": "tasks.models.aesthetic_head:load",
    "dover": "tasks.models.dover:load",
    "optical-flow": "tasks.models.raft:load",
    "segmenter": "tasks.models.sam2:load",
    "brisque": "tasks.models.brisque:load",
    "image-text-to-text": "tasks.models.image_text:load",
}


def added_kinds() -> dict[str, EntryPoint]:
    """Return the kinds that installed packages add; nothing is imported."""
    return added_points(GROUP, (*LOADERS, SERVED), "kind of model")


def check_kind(kind: str) -> str:
    """Return a kind of model, if it exists.

    Raises
    ------
    UserInputError
        For an unknown kind, with the nearest ones.
    """
    kinds = (*LOADERS, *added_kinds(), SERVED)
    if kind not in kinds:
        hint = suggestion(kind, kinds, "there are")
        raise UserInputError(
            f"no kind of model {kind!r}: {hint} (a package adds one by an entry point in the group {GROUP})"
        )
    return kind


def load_model(kind: str, path: Path, device: str, **options: Any) -> Any:
    """Load a model.

    Parameters
    ----------
    kind
        The kind, which selects the loader.
    path
        The file, or the checkpoint's folder.
    device
        ``cpu`` or ``cuda``.
    options
        Further options of the loader: ``dtype``, ``compile``.

    Raises
    ------
    UserInputError
        For an unknown kind, one that needs a model server, and by loaders for an unknown dtype.
    PrerequisiteError
        If a package's loader cannot be imported; by loaders, if torch or its libraries are not installed, or
        `path` has no such model.
    """
    if check_kind(kind) == SERVED:
        raise UserInputError(f"models of kind {SERVED!r} run behind a model server and are not loaded here")
    return _loader(kind)(path, device, **options)


def _loader(kind: str) -> Callable[..., Any]:
    if kind in LOADERS:
        module, _, name = LOADERS[kind].partition(":")
        with explain_missing_packages():
            built_in: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return built_in
    point = added_kinds()[kind]
    try:
        added: Callable[..., Any] = point.load()
    except (ImportError, AttributeError) as problem:
        raise PrerequisiteError(
            f"the loader of the kind of model {kind!r} cannot be imported from {point.value}: {problem}; "
            "repair or uninstall its package"
        ) from problem
    return added
