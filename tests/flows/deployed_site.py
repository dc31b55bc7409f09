"""What deployed builds of tests are made of: a recipe, and films that nobody is copying any more."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

AddFilm = Callable[[Path, int], Path]

RECIPE = """
name = "three"
long_side = 160
clips_per_pair = 2
least_duration_s = 10
[aspects.aesthetics]
operation = "ffmpeg-eq"
[aspects.comprehensiveness]
operation = "remove-clips"
[aspects.temporal_flow]
operation = "reinsert-window"
"""


def settled(film: Path) -> None:
    """Let a film and its captions look as if they had been there for long."""
    for path in (film, film.with_suffix(".jsonl")):
        os.utime(path, (time.time() - 3600, time.time() - 3600))
