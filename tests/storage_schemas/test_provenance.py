"""Provenance says with what and where an artifact was made."""

from __future__ import annotations

import time

import pytest

from storage_schemas.provenance import GPU_VARIABLE, provenance

JOB = {"SLURM_JOB_PARTITION": "h100", "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "g1"}


def test_outside_of_a_job_there_is_not_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*JOB, "CUDA_VISIBLE_DEVICES", GPU_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    began = time.monotonic() - 2
    result = provenance(began, packages=("nothing-of-the-kind",), decoder="plan")
    assert not {"partition", "job", "node", "device"} & set(result)
    assert 2 <= result["seconds"] <= time.monotonic() - began + 0.001
    assert result["decoder"] == "plan"
    assert result["packages"]["nothing-of-the-kind"] == "not installed"
    assert result["packages"]["numpy"]


@pytest.mark.parametrize(
    ("visible", "name", "device"),
    [
        ("2", "NVIDIA H100 94GB", "GPU 2 (NVIDIA H100 94GB)"),
        ("GPU-aaaa", "", "GPU GPU-aaaa"),
        ("0", None, "GPU 0"),
        ("", None, "CPU"),
    ],
)
def test_place_in_a_job(monkeypatch: pytest.MonkeyPatch, visible: str, name: str | None, device: str) -> None:
    for variable, value in {**JOB, "CUDA_VISIBLE_DEVICES": visible}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv(GPU_VARIABLE, raising=False)
    if name is not None:
        monkeypatch.setenv(GPU_VARIABLE, name)
    result = provenance(time.monotonic())
    assert [result[key] for key in ("partition", "job", "node", "device")] == ["h100", "7", "g1", device]
