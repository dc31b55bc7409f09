"""Run the server by this folder's path, in an environment that does not have the rest of the project."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    # Python puts this folder at the head of its path: only the package is wanted, none of its neighbours
    sys.path = [path for path in sys.path if Path(path).resolve() != folder]
    found = importlib.util.spec_from_file_location(
        folder.name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if found is None or found.loader is None:
        raise ImportError(f"{folder} is no package")
    package = importlib.util.module_from_spec(found)
    sys.modules[folder.name] = package
    found.loader.exec_module(package)
    runpy.run_module(f"{folder.name}.serving", run_name="__main__", alter_sys=True)
