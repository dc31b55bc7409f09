"""Where a build runs its stages, and what it does where workers die."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from flows.release.options import BuildOptions
from infra.executor import Handle, InlineExecutor, WorkerDied
from storage_schemas.errors import PrerequisiteError, Reason
from storage_schemas.placement import Placement
from storage_schemas.store import Store
from tasks.models.device import visible_gpus
from tests.flows.small_builds import AddFilm, build_with, changed, only, with_recipe
from tests.inline import build_inline


class Noted(InlineExecutor):
    """Remembers what ran in which pool."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Run the function."""
        self.ran.append((name, pool))
        return super().submit(name, pool, function, *arguments)


def test_an_aspect_goes_to_its_pool_and_the_release_is_the_same(
    options: BuildOptions, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible_gpus.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    two = only(options, "aesthetics", "temporal_flow")
    strict, noted = changed(two, placement=Placement(placed={"aesthetics": "gpu"})), Noted()
    with pytest.raises(PrerequisiteError, match=r"no GPU is visible .* allow_cpu_models"):
        build_with(strict, lambda: noted)
    # nothing is set aside for it: the site is wrong, not the source
    assert not list(Path(strict.store).glob("failures/*"))
    assert list(Store.open(Path(strict.store)).manifests("pair"))

    elsewhere = changed(strict, store=str(tmp_path / "elsewhere"), allow_cpu_models=True)
    noted = Noted()
    result = build_with(elsewhere, lambda: noted)
    assert noted.ran == [
        ("inspect film1", "cpu"),
        ("ingest film1", "cpu"),
        ("degrade film1", "cpu"),
        ("degrade-gpu film1", "gpu"),
        ("verify film1", "cpu"),
    ]
    plain = build_inline(changed(two, store=str(tmp_path / "plain")))
    assert plain.release.manifest.content_checksum == result.release.manifest.content_checksum
    # where all that is missing belongs into one pool, the other one gets nothing
    noted = Noted()
    more = with_recipe(changed(elsewhere, placement=Placement(), fresh=True), seed=two.recipe.seed + 1)
    build_with(more, lambda: noted)
    assert {pool for _, pool in noted.ran} == {"cpu"}


#: The stage of which the worker dies, by film; film 5 is fine.
DEADLY = {1: "inspect", 2: "ingest", 3: "degrade", 4: "verify"}


class Deadly(InlineExecutor):
    """An executor whose workers die of one stage of each of some sources."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Run the function, or die."""
        if name not in {f"{stage} film{film}" for film, stage in DEADLY.items()}:
            return super().submit(name, pool, function, *arguments)
        self.tried.append(name)
        handle: Future[Any] = Future()
        handle.set_exception(WorkerDied("the worker that ran it died"))
        return handle


def test_it_is_set_aside_and_left_alone_until_retry(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    titles = {str(add_film(tmp_path / "videos", film)): film for film in range(1, 6)}
    two = only(options, "dynamics_degree", "comprehensiveness")
    deadly = Deadly()
    first = build_with(two, lambda: deadly)
    assert first.exit_code == 3
    assert set(deadly.tried) == {f"{stage} film{film}" for film, stage in DEADLY.items()}
    rows = [row for row in first.set_aside if row.reason is Reason.WORKER_DIED]
    assert all(row.key for row in rows)
    # whole sources where there is nothing of them yet, else their pairs
    found = {(titles[row.location], row.stage, row.aspect) for row in rows}
    whole = {(film, DEADLY[film], "") for film in (1, 2)}
    assert found == whole | {(film, DEADLY[film], name) for film in (3, 4) for name in two.recipe.aspects}
    assert len(first.release.pairs()) == 2
    again = Deadly()
    second = build_with(two, lambda: again)
    assert (again.tried, second.new) == ([], False)
    assert sorted(row.message for row in second.set_aside) == sorted(row.message for row in first.set_aside)
    third = build_inline(changed(two, retry=True))
    assert third.exit_code == 0
    assert len(third.release.pairs()) == 2 * 5
