"""Run the server by this folder's path, in an environment without the rest of the project."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    # Python puts this folder first on its path; import only the package, not its neighbours
    sys.path = [path for path in sys.path if Path(path).resolve() != folder]
    spec = importlib.util.spec_from_file_location(
        folder.name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is not a package")
    package = importlib.util.module_from_spec(spec)
    sys.modules[folder.name] = package
    spec.loader.exec_module(package)
    runpy.run_module(f"{folder.name}.serving", run_name="__main__", alter_sys=True)
