"""The mask is rembg's, made without rembg, with our file of weights, on the requested device."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError
from tasks.models.hub import ModelHub
from tasks.models.u2net import U2Net, load

ROOT = Path(__file__).parents[3]


def pictures() -> list[np.ndarray]:
    from skimage import data

    return [data.astronaut()[:288], data.chelsea(), np.zeros((40, 60, 3), np.uint8)]


def test_the_mask_finds_the_cat(model_folder: Path) -> None:
    network, picture = ModelHub([model_folder]).get("u2netp"), pictures()[1]
    mask = network.mask(picture)
    assert (mask.shape, mask.dtype) == (picture.shape[:2], np.uint8)
    assert mask[100:250, 120:330].mean() > 180  # the face
    assert (network.mask(picture) == mask).all()


def test_a_mask_imports_neither_rembg_nor_its_compiler_and_leaves_no_files(
    model_folder: Path, tmp_path: Path
) -> None:
    program = (
        "import sys, pathlib, numpy; from tasks.models.u2net import load\n"
        "network = load(pathlib.Path(sys.argv[1]), 'cpu')\n"
        "network.mask(numpy.zeros((8, 8, 3), 'uint8'))\n"
        "assert network._session.get_session_options().intra_op_num_threads == 1\n"
        "assert not {'rembg', 'numba', 'skimage', 'scipy'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", program, str(model_folder / "u2netp.onnx")]
    told = {"PYTHONPATH": str(ROOT), "U2NET_HOME": str(tmp_path), "OMP_NUM_THREADS": "7"}
    subprocess.run(command, env=os.environ | told, check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []


def test_mask_is_zero_where_nothing_is_salient(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = load(model_folder / "u2netp.onnx", "cpu")
    flat = np.full((1, 1, 320, 320), 0.25, np.float32)
    monkeypatch.setattr(network, "_session", SimpleNamespace(run=lambda *_: [flat]))
    assert not network.mask(np.full((8, 12, 3), 90, np.uint8)).any()


@pytest.fixture
def rembg(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import rembg without compiling its matting, which takes a minute and makes no mask."""
    import numba

    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    import rembg

    return rembg


@pytest.mark.slow
@pytest.mark.parametrize("name", ["u2netp", "u2net"])
def test_masks_are_those_of_rembgs_own_session_to_the_bit(
    name: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rembg: Any
) -> None:
    if not (model_folder / f"{name}.onnx").is_file():
        pytest.skip(f"no {name}.onnx: slvmeval models add {name} --model-folder {model_folder}")
    network = ModelHub([model_folder]).get(name)
    (tmp_path / f"{name}.onnx").symlink_to((model_folder / f"{name}.onnx").resolve())
    monkeypatch.setenv("U2NET_HOME", str(tmp_path))
    session = rembg.new_session(name)
    noise = np.random.default_rng(7).integers(0, 256, (97, 511, 3), np.uint8)
    small = [picture[:h, :w] for picture in pictures() for h, w in ((1, 1), (38, 60), (33, 47))]
    # of the last one, whose pixels are equal, rembg's own mask is not defined
    for picture in [*pictures()[:2], *small, noise, noise // 9, noise[:, ::2]]:
        theirs = np.asarray(rembg.remove(picture, session=session, only_mask=True))
        assert np.array_equal(theirs, network.mask(picture)), picture.shape


def test_onnxruntime_reports_nothing_and_leaves_no_files(model_folder: Path, tmp_path: Path) -> None:
    # it is silent by itself where CI is set
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("ORT_")}
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(tmp_path))
    program = (
        "import sys; from tasks.models.onnx_session import open_session; open_session(sys.argv[1], 'cpu')"
    )
    command = [sys.executable, "-c", program, str(model_folder / "u2netp.onnx")]
    subprocess.run(command, env={**kept, **places, "PYTHONPATH": str(ROOT)}, check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []


class Runtime:
    """Stands for the module onnxruntime, of a build and on a node where some providers work."""

    def __init__(self, built_for: list[str], working: list[str]) -> None:
        self.built_for, self.working = built_for, working
        self.asked: list[Any] = []
        self.preloaded = self.fallback_disabled = False

    def module(self) -> Any:
        return SimpleNamespace(
            get_available_providers=lambda: self.built_for,
            SessionOptions=SimpleNamespace,
            InferenceSession=self._session,
            preload_dlls=self._preload,
        )

    def _preload(self) -> None:
        self.preloaded = True

    def _session(self, path: str, options: Any, providers: list[tuple[str, dict[str, str]]]) -> Any:
        self.asked = providers
        wanted = [name for name, _ in providers if name in self.working]
        return SimpleNamespace(
            get_providers=lambda: [*wanted, "CPUExecutionProvider"],
            get_inputs=lambda: [SimpleNamespace(name="input.1")],
            disable_fallback=self._disable,
        )

    def _disable(self) -> None:
        self.fallback_disabled = True


CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


def test_on_a_gpu_the_cuda_provider_runs_it(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime([CUDA, CPU], [CUDA, CPU])
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime.module())
    assert isinstance(load(Path("u2net.onnx"), "cuda"), U2Net)
    assert [name for name, _ in runtime.asked] == [CUDA]
    assert runtime.preloaded
    assert runtime.fallback_disabled


@pytest.mark.parametrize(
    ("runtime", "found"),
    [
        (Runtime(["AzureExecutionProvider", CPU], [CPU]), f"has only AzureExecutionProvider, {CPU}"),
        # built for it, but the node's CUDA libraries do not load
        (Runtime([CUDA, CPU], [CPU]), f"would run on {CPU}"),
    ],
)
def test_gpu_worker_refuses_the_cpu(monkeypatch: pytest.MonkeyPatch, runtime: Runtime, found: str) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime.module())
    with pytest.raises(PrerequisiteError) as problem:
        load(Path("u2net.onnx"), "cuda")
    assert found in str(problem.value)
    assert socket.gethostname() in str(problem.value)
    assert "onnxruntime-gpu there in place of onnxruntime" in str(problem.value)


def test_the_locked_onnxruntime_refuses_a_gpu_that_it_cannot_use(model_folder: Path) -> None:
    import onnxruntime

    if CUDA in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime is built for GPUs")
    with pytest.raises(PrerequisiteError, match="onnxruntime-gpu"):
        load(model_folder / "u2netp.onnx", "cuda")


@pytest.mark.gpu
def test_masks_of_a_gpu_are_those_of_the_cpu_but_for_rounding(model_folder: Path) -> None:
    on_gpu = load(model_folder / "u2netp.onnx", "cuda")
    on_cpu = load(model_folder / "u2netp.onnx", "cpu")
    for picture in pictures():
        difference = on_gpu.mask(picture).astype(int) - on_cpu.mask(picture)
        assert np.abs(difference).max() <= 2
