"""What torch needs before the model libraries are imported."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from storage_schemas.errors import PrerequisiteError


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
