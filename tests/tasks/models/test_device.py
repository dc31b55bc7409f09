"""Where the models of a process run."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_schemas.errors import PrerequisiteError
from storage_schemas.store import Store
from tasks.models.device import device_of, require_gpu, visible_gpus
from tasks.pairs.stages import BuildWork
from tests.tasks.pairs.synthetic import RECIPE


@pytest.fixture(autouse=True)
def asked_again() -> Iterator[None]:
    visible_gpus.cache_clear()
    yield
    visible_gpus.cache_clear()


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A node with a GPU, as its driver tells."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "NVIDIA H100 80GB HBM3"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.usefixtures("gpu", "no_torch")
def test_work_of_the_gpus_pool_loads_its_models_there(tmp_path: Path) -> None:
    assert visible_gpus() == ("NVIDIA H100 80GB HBM3",)
    assert (device_of("gpu"), device_of("cpu")) == ("cuda", "cpu")
    Store.create(tmp_path / "store")
    work = BuildWork(str(tmp_path / "store"), RECIPE, (str(tmp_path),))
    assert work.open("gpu")[1].device == "cuda"
    assert work.open("cpu")[1].device == work.open()[1].device == "cpu"


@pytest.mark.usefixtures("no_gpu", "no_torch")
def test_without_a_gpu_models_run_on_the_cpu(tmp_path: Path) -> None:
    assert device_of("gpu") == "cpu"
    with pytest.raises(PrerequisiteError, match=r"no GPU is visible .* allow_cpu_models"):
        require_gpu()


@pytest.mark.models
@pytest.mark.usefixtures("no_gpu")
def test_a_torch_that_could_use_no_gpu_is_named() -> None:
    import torch

    if torch.version.cuda:
        pytest.skip("this torch is built for GPUs")
    with pytest.raises(PrerequisiteError, match=r"torch .*\+cpu is built for the CPU only"):
        require_gpu()


@pytest.mark.gpu
def test_a_real_gpu_is_seen() -> None:
    assert visible_gpus()
    assert device_of("gpu") == "cuda"
