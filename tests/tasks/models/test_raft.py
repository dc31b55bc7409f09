"""RAFT by torchvision, with random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from tests.tasks.extras.locot2v.videos import scene

pytestmark = pytest.mark.models


@pytest.mark.parametrize("large", [False, True])
def test_flow_is_torchvisions_of_the_extended_pictures(tmp_path: Path, large: bool) -> None:
    from tasks.models.raft import load
    from tests.tiny_models.flow import tiny_raft

    # this prepares torch, without which torchvision cannot be imported
    tiny_raft(tmp_path, large=large)
    import torch
    from torchvision.models.optical_flow import raft_large, raft_small
    from torchvision.transforms._presets import OpticalFlow

    first, second = scene(1, 130, 90), scene(2, 130, 90)
    # half of what is missing is added on each side: 136 by 128
    wider = [np.pad(one, ((19, 19), (3, 3), (0, 0)), mode="edge") for one in (first, second)]
    network = (raft_large if large else raft_small)(weights=None, progress=False).eval()
    network.load_state_dict(torch.load(tmp_path / "raft.pth", weights_only=True))
    tensors = OpticalFlow()(*(torch.from_numpy(one).permute(2, 0, 1)[None] for one in wider))
    with torch.inference_mode():
        wanted = network(*tensors, num_flow_updates=2)[-1][0].permute(1, 2, 0).numpy()[19:-19, 3:-3]
    result = load(tmp_path, "cpu").flow(first, second, 2)
    assert result.shape == (90, 130, 2)
    assert result.dtype == np.float32
    assert result == pytest.approx(wanted, abs=1e-3)
    assert np.abs(result).max() > 0.1


def test_what_is_not_a_raft_is_reported(tmp_path: Path) -> None:
    import torch

    from tasks.models.raft import load
    from tests.tiny_models.flow import tiny_raft

    with pytest.raises(PrerequisiteError, match="0 weight files"):
        load(tmp_path, "cpu")
    with pytest.raises(UserInputError, match="dtype 'int8'"):
        load(tmp_path, "cpu", dtype="int8")
    torch.save({"mask_predictor.x": torch.zeros(3)}, tmp_path / "raft.pth")
    with pytest.raises(PrerequisiteError, match="cannot be loaded as RAFT"):
        load(tmp_path, "cpu")
    load(tiny_raft(tmp_path / "safe", ending=".safetensors"), "cpu")


@pytest.mark.gpu
def test_it_runs_on_a_gpu(tmp_path: Path) -> None:
    from tasks.models.raft import load
    from tests.tiny_models.flow import tiny_raft

    tiny_raft(tmp_path, large=True)
    flows = [
        load(tmp_path, device).flow(scene(1, 128, 128), scene(2, 128, 128), 3) for device in ("cpu", "cuda")
    ]
    assert flows[1] == pytest.approx(flows[0], abs=1e-2)
