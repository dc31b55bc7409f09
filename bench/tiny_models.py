"""``python -m bench.tiny_models NAME …``: seconds per frame and peak memory of the models' code.

The checkpoints are tiny and random, so the figures say nothing about the real models: they reveal whether
the surrounding code gets slower or needs more memory. Each model runs in its own process, on one thread.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring import run

FRAMES = 8


def _frames() -> Any:
    from slvmeval.testing import synthetic_clip
    from storage_schemas.frames import ColorSpec
    from tasks.media.planes import planes_to_rgb

    return planes_to_rgb(synthetic_clip(FRAMES), ColorSpec())


def detector(folder: Path) -> Callable[[], object]:
    """Detect a ball in eight frames of 512×288 at once."""
    from tasks.models.grounding_dino import load
    from tests.tiny_models.detector import tiny_detector

    model, rgb = load(tiny_detector(folder), "cpu"), _frames()
    return lambda: model.find(rgb, "a red ball", 0.4, 0.3)


def inpainter(folder: Path) -> Callable[[], object]:
    """Inpaint a third of eight frames of 512×288 at once, in 50 steps."""
    from tasks.models.stable_diffusion import load
    from tests.tiny_models.inpainter import tiny_inpainter

    model, rgb = load(tiny_inpainter(folder), "cpu", dtype="float32"), _frames()
    masks = np.zeros(rgb.shape[:3], np.bool_)
    masks[:, 60:220, 100:400] = True
    seeds = [*range(FRAMES)]
    return lambda: model.inpaint(rgb, masks, "a meadow", "ball", seeds, steps=50, guidance=7.5)


#: Functions that create and load a checkpoint in a folder, and return the work on :data:`FRAMES` frames.
MODELS: dict[str, Callable[[Path], Callable[[], object]]] = {
    work.__name__: work for work in (detector, inpainter)
}


def _measured(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        work = MODELS[name](Path(folder) / name)
        ready_s = time.monotonic() - started
        seconds = []
        for _ in range(3):
            started = time.process_time()
            work()
            seconds.append((time.process_time() - started) / FRAMES)
    return {"model": name, "ready_s": round(ready_s, 2), "cpu_s_a_frame": round(sorted(seconds)[1], 4)}


def main(arguments: list[str]) -> int:
    """Measure the named models, or all, each in a child process, and print a line of JSON for each."""
    if arguments[:1] == ["--here"]:
        print(json.dumps(_measured(arguments[1])))
        return 0
    for name in arguments or MODELS:
        usage = run([sys.executable, "-m", "bench.tiny_models", "--here", name])
        print(json.dumps({**usage.output, "peak_mb": round(usage.peak_mb)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
