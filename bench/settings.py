"""What every figure is measured with."""

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
    """The films, a folder to work in, and how often to measure (None: as often as the figure needs)."""

    films: Films
    work: Path
    runs: int | None

    def times(self, usual: int) -> int:
        """Return how often to measure a figure that is usually measured so often."""
        return usual if self.runs is None else self.runs

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give an empty folder that is gone afterwards."""
        folder = Path(mkdtemp(prefix="run-", dir=self.work))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
