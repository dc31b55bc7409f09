"""Which GPU this process sees, and on which device its models run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from functools import cache

from storage_schemas.errors import PrerequisiteError


@cache
def visible_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that this process may use, by torch, else by NVIDIA's own tool."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1", "NoDevFiles"):
        return ()
    if importlib.util.find_spec("torch") is not None:
        import torch

        return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    if shutil.which("nvidia-smi") is None:
        return ()
    asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    return tuple(answer.stdout.split("\n")[:-1]) if answer.returncode == 0 else ()


def device_of(pool: str) -> str:
    """Return where a pool's work loads its models here: ``cuda`` for the pool h100 where a GPU is visible."""
    return "cuda" if pool == "h100" and visible_gpus() else "cpu"


def require_gpu() -> None:
    """Raise where no GPU is visible.

    Raises
    ------
    PrerequisiteError
        Naming the node and what to look at.
    """
    if not visible_gpus():
        devices = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise PrerequisiteError(
            f"{socket.gethostname()} was given work of the pool 'h100', but no GPU is visible to it "
            f"(CUDA_VISIBLE_DEVICES is {devices!r}{_cpu_torch()}): check gres and gpus of [pools.h100] "
            "and that node's driver with `slvmeval doctor --profile FILE`; allow_cpu_models = true in the "
            "profile lets it run without one"
        )


def _cpu_torch() -> str:
    """Return a clause that says so if torch here could use no GPU anyway."""
    if importlib.util.find_spec("torch") is None:
        return ""
    import torch

    return "" if torch.version.cuda else f"; torch {torch.__version__} is built for the CPU only"
