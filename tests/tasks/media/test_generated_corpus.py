"""Two hundred generated videos: our frames, those of PyAV's FFmpeg and those of the ffmpeg command."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from tasks.media.decode import FrameSampler
from tests.tasks.media.generated_corpus import Recipe, recipes
from tests.tasks.media.reference import filtered_frames

LONG_SIDE = 64


def known_difference(recipe: Recipe) -> str:
    """Return why Debian's command 5.1.9 may give other frames, as bench/README.md explains; or nothing."""
    if recipe.codec == "prores" and recipe.shape == "turned":
        return "rounding"
    if recipe.codec == "svtav1" and recipe.shape == "cut":
        return "count"
    return ""


def difference(ours: bytes, theirs: bytes) -> str:
    """Return how frames differ; empty if they do not."""
    if sha256(ours).digest() == sha256(theirs).digest():
        return ""
    if len(ours) != len(theirs):
        return "count"
    steps = np.abs(np.frombuffer(ours, np.uint8).astype(np.int16) - np.frombuffer(theirs, np.uint8))
    return "rounding" if steps.max() <= 1 else "time"


def compared(recipe: Recipe, ffmpeg: str, folder: str) -> tuple[Recipe, str, str]:
    """Make a video; return how our frames differ from the libraries' and from the command's."""
    path = recipe.make(ffmpeg, Path(folder))
    sampler = FrameSampler(path, long_side=LONG_SIDE)
    frames = {frame.index: frame.planes for frame in sampler}
    width, height = sampler.size
    turn = ["transpose=cclock"] if recipe.shape == "turned" else []
    only_decode_times = recipe.codec == "x264" and recipe.container == "avi"
    found = filtered_frames(path, width, height, turn, only_decode_times)
    library = {k: planes for k, planes in found.items() if k >= 0}
    # one thread: swscale gives 4:1:0 other chroma where it scales in slices
    filters = (
        f"fps=1,scale={width}:{height}:flags=lanczos:out_range={'pc' if sampler.info.full_range else 'tv'}"
    )
    command = [ffmpeg, "-v", "error", "-nostdin", "-filter_threads", "1", "-threads", "1", "-i", str(path)]
    command += ["-an", "-vf", f"{filters},format=yuv420p", "-fps_mode", "passthrough", "-f", "rawvideo", "-"]
    theirs = subprocess.run(command, check=True, capture_output=True).stdout
    path.unlink()
    ours = b"".join(planes.tobytes() for planes in frames.values())
    same = list(library) == list(frames)
    return (
        recipe,
        difference(ours, b"".join(planes.tobytes() for planes in library.values())) if same else "count",
        difference(ours, theirs),
    )


@pytest.fixture
def ffmpeg() -> str:
    """Path of the installed command, whose options and known differences these are."""
    path = shutil.which("ffmpeg")
    if path is None:
        pytest.skip("no ffmpeg command is installed")
    return path


@pytest.mark.slow
def test_all_frames_are_those_of_ffmpeg(ffmpeg: str, tmp_path: Path) -> None:
    every = list(recipes())
    assert len({recipe.name for recipe in every}) == len(every) >= 200
    with ProcessPoolExecutor(2) as pool:
        outcomes = list(pool.map(partial(compared, ffmpeg=ffmpeg, folder=str(tmp_path)), every))
    assert [recipe.name for recipe, library, _ in outcomes if library] == []
    unexplained = {
        recipe.name: command
        for recipe, _, command in outcomes
        if command not in ("", known_difference(recipe))
    }
    assert unexplained == {}
    # the table in the docs counts them, for the command 5.1.9
    found = Counter(command for _, _, command in outcomes if command)
    if "5.1.9" in subprocess.run([ffmpeg, "-version"], check=True, capture_output=True, text=True).stdout:
        assert found == {"rounding": 1, "count": 1}
