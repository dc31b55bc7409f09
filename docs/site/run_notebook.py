"""Run docs/notebook.ipynb in a folder with a store, and keep its outputs."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "notebook.ipynb"


def run(folder: Path) -> nbformat.NotebookNode:
    """Return the notebook with its outputs, without what differs from run to run."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if "image/jpeg" in output.get("data", {}):
                # the same picture, and larger
                output["data"].pop("image/png", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


if __name__ == "__main__":
    nbformat.write(run(Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo")), NOTEBOOK)
    print(f"{NOTEBOOK}: {NOTEBOOK.stat().st_size / 1e6:.1f} MB")
