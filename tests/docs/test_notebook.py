"""The notebook runs on a small store, and what is kept of a run shows what it should."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_notebook", DOCS / "site" / "run_notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pictures(notebook: Any) -> int:
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output["output_type"] == "error"]
    return sum("image/jpeg" in output.get("data", {}) for output in outputs)


def test_it_runs(program: ModuleType, example_folder: Path) -> None:
    made = program.run(example_folder)
    assert pictures(made) == 2
    text = json.dumps(made)
    assert "aesthetics" in text
    assert str(example_folder) not in text


def test_its_outputs_are_kept_and_small() -> None:
    path = DOCS / "notebook.ipynb"
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert pictures(kept) == 2
    assert path.stat().st_size < 500_000
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] == place for place, cell in enumerate(code, 1)), "run whole, in order"
