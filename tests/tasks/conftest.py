"""Fixtures for the tests of the work itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The folder of weights that SLVMEVAL_MODELS names; the test is skipped where it has no u2netp."""
    folder = Path(os.environ.get("SLVMEVAL_MODELS", "build/models"))
    if not (folder / "u2netp.onnx").is_file():
        pytest.skip(f"no u2netp.onnx in {folder}: slvmeval models fetch u2netp")
    return folder
