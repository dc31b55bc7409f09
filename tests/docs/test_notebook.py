"""The notebook runs on a small store, and what is kept of a run shows what it should."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def pictures(notebook: Any) -> int:
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output["output_type"] == "error"]
    return sum("image/jpeg" in output.get("data", {}) for output in outputs)


@pytest.mark.slow
def test_it_runs(example_folder: Path) -> None:
    made = runpy.run_path(str(DOCS / "site" / "run_notebook.py"))["run"](example_folder)
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
