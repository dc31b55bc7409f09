"""A site says in which pool an aspect is made; what is made stays the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.build.options import BuildOptions
from flows.build.run import Build, BuildResult
from infra.executor import Handle, InlineExecutor
from infra.progress import BuildProgress
from storage_schemas.errors import PrerequisiteError
from storage_schemas.store import Store
from tasks.models.device import visible_gpus
from tests.inline import build_inline

AddFilm = Callable[[Path, int], Path]


class Noted(InlineExecutor):
    """Remembers what ran in which pool."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Run the function."""
        self.ran.append((name, pool))
        return super().submit(name, pool, function, *arguments)


def build(options: BuildOptions, executor: InlineExecutor) -> BuildResult:
    with BuildProgress(quiet=True) as progress:
        build = Build(options, progress)
        build.prepare()
        return build.run(lambda: executor)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    visible_gpus.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def placed(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> BuildOptions:
    add_film(tmp_path / "videos", 1)
    return options.model_copy(update={"placement": {"aesthetics": "h100"}, "allow_cpu_models": True})


@pytest.mark.usefixtures("no_gpu")
def test_an_aspect_goes_to_its_pool_and_the_release_is_the_same(
    options: BuildOptions, placed: BuildOptions, tmp_path: Path
) -> None:
    noted = Noted()
    result = build(placed, noted)
    assert noted.ran == [
        ("inspect film1", "cpu"),
        ("ingest film1", "cpu"),
        ("degrade film1", "cpu"),
        ("degrade-gpu film1", "h100"),
        ("verify film1", "cpu"),
    ]
    elsewhere = options.model_copy(update={"store": str(tmp_path / "elsewhere")})
    expected = build_inline(elsewhere).release.manifest.content_checksum
    assert result.release.manifest.content_checksum == expected


@pytest.mark.usefixtures("no_gpu")
def test_work_for_a_gpu_fails_at_once_where_none_is_visible(placed: BuildOptions) -> None:
    strict = placed.model_copy(update={"allow_cpu_models": False})
    with pytest.raises(PrerequisiteError, match=r"no GPU is visible .* allow_cpu_models"):
        build(strict, Noted())
    # nothing is set aside for it: the site is wrong, not the source
    assert not list(Path(strict.store).glob("failures/*"))
    assert list(Store.open(Path(strict.store)).manifests("pair"))


def test_only_aspects_of_the_pool_need_its_workers(placed: BuildOptions) -> None:
    """Where all that is missing belongs into one pool, the other one gets nothing."""
    build(placed, Noted())
    more = placed.model_copy(update={"placement": {}, "fresh": True})
    recipe = more.recipe.model_copy(update={"seed": more.recipe.seed + 1})
    noted = Noted()
    build(more.model_copy(update={"recipe": recipe}), noted)
    assert {pool for _, pool in noted.ran} == {"cpu"}
