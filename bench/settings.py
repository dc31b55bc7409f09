"""Settings shared by all figures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from bench.films import Films


@dataclass(frozen=True)
class Settings:
    """The films, a working folder, and the number of runs (None: the figure's default)."""

    films: Films
    work: Path
    runs: int | None

    def times(self, usual: int) -> int:
        """Return the number of runs of a figure with this default."""
        return usual if self.runs is None else self.runs

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield an empty folder that is removed afterwards."""
        folder = Path(mkdtemp(prefix="run-", dir=self.work))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
