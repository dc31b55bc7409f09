"""A RAFT with random weights: torchvision's small network, or the published large one."""

from __future__ import annotations

from pathlib import Path

from tasks.models.torch_model import prepare_torch


def tiny_raft(folder: Path, seed: int = 0, *, large: bool = False, ending: str = ".pth") -> Path:
    """Save a RAFT as one file of weights, as torchvision publishes it; return `folder`."""
    torch = prepare_torch()
    from torchvision.models.optical_flow import raft_large, raft_small

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        weights = (raft_large if large else raft_small)(weights=None, progress=False).state_dict()
    folder.mkdir(parents=True, exist_ok=True)
    if ending == ".pth":
        torch.save(weights, folder / "raft.pth")
    else:
        from safetensors.torch import save_file

        save_file(weights, folder / "raft.safetensors")
    return folder
