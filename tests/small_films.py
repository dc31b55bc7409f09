"""Small films with captions, made by ffmpeg, and a recipe of the eight aspects that need no weights."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.release.options import BuildOptions, SourceRoot
from tasks.recipe import BUILT_IN, AspectRecipe, Recipe
from tests.once import Once

FilmsOfModule = Callable[..., BuildOptions]

CLIPS = 14
CLIP_S = 3
#: Every caption names what all aspects need.
CAPTION = (
    "A red ball rolls quickly across the floor on the left of the frame, number {n}. A blue box stands "
    "on the right. In the background there is a green meadow."
)


def caption_lines(clips: int = CLIPS) -> list[dict[str, object]]:
    return [
        {"start_s": n * CLIP_S, "end_s": (n + 1) * CLIP_S, "caption": CAPTION.format(n=n)}
        for n in range(clips)
    ]


def options_in(folder: Path, recipe: Recipe) -> BuildOptions:
    """Return options of a build from the folder's videos into its store."""
    sources = (SourceRoot(path=str(folder / "videos")),)
    return BuildOptions(store=str(folder / "store"), sources=sources, recipe=recipe)


def write_captions(path: Path, lines: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def make_film(ffmpeg: str, path: Path, number: int) -> None:
    """Write a film of 42 s and 160×90; each number has other pictures."""
    source = f"testsrc2=size=160x90:rate=5:duration={CLIPS * CLIP_S},hue=h={number * 40}"
    command = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "libx264", "-g", "25"]
    # with one thread a film has the same bytes, and so the same id and draws, on every machine
    command += ["-threads", "1", "-pix_fmt", "yuv420p", str(path)]
    subprocess.run(command, check=True, timeout=60)


@pytest.fixture(scope="session")
def film_maker(ffmpeg: str, once: Once) -> Callable[[int], Path]:
    """Give a film of 42 s and 160×90 by number; each has other pictures."""

    def get(number: int) -> Path:
        name = f"film{number}"
        return once(name, lambda folder: make_film(ffmpeg, folder / f"{name}.mp4", number)) / f"{name}.mp4"

    return get


@pytest.fixture(scope="session")
def add_film(film_maker: Callable[[int], Path]) -> Callable[[Path, int], Path]:
    """Copy a film with its captions into a folder."""

    def add(folder: Path, number: int) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"film{number}.mp4"
        target.write_bytes(film_maker(number).read_bytes())
        write_captions(folder / f"film{number}.jsonl", caption_lines())
        return target

    return add


def recipe_without_weights() -> Recipe:
    """Return the aspects that need no weights, on frames of 160 px."""
    base = BUILT_IN["cpu-approx"]
    without = {"background_consistency", "object_integrity", "color"}
    aspects = {name: entry for name, entry in base.aspects.items() if name not in without}
    aspects["technical_quality"] = AspectRecipe(operation="lanczos-down-up", parameters={"long_side": 80})
    return base.model_copy(update={"name": "small", "long_side": 160, "aspects": aspects})


@pytest.fixture(scope="session")
def small_recipe() -> Recipe:
    """The aspects that need no weights, on frames of 160 px."""
    return recipe_without_weights()


@pytest.fixture
def options(tmp_path: Path, small_recipe: Recipe) -> BuildOptions:
    """Build from tmp_path/videos into tmp_path/store."""
    return options_in(tmp_path, small_recipe)


@pytest.fixture(scope="module")
def films_of_module(
    tmp_path_factory: pytest.TempPathFactory, add_film: Callable[[Path, int], Path], small_recipe: Recipe
) -> FilmsOfModule:
    """Make films for all tests of a file, and return options of a build of them."""

    def made(*numbers: int) -> BuildOptions:
        folder = tmp_path_factory.mktemp("films")
        for number in numbers:
            add_film(folder / "videos", number)
        return options_in(folder, small_recipe)

    return made
