"""A source that ends its worker each time is set aside, remembered, and tried again only when asked."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from flows.build.options import BuildOptions
from flows.build.run import Build, BuildResult
from infra.executor import Handle, InlineExecutor, WorkerDied
from infra.progress import BuildProgress
from storage_schemas.errors import Reason

AddFilm = Callable[[Path, int], Path]


class Deadly(InlineExecutor):
    """An executor whose workers die of one stage of one source."""

    def __init__(self, name: str) -> None:
        self.name, self.tried = name, 0

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Run the function, or die."""
        if name != self.name:
            return super().submit(name, pool, function, *arguments)
        self.tried += 1
        handle: Future[Any] = Future()
        handle.set_exception(WorkerDied("the worker that ran it died"))
        return handle


def build(options: BuildOptions, executor: InlineExecutor) -> BuildResult:
    with BuildProgress(quiet=True) as progress:
        build = Build(options, progress)
        build.prepare()
        return build.run(lambda: executor)


@pytest.mark.parametrize("stage", ["inspect", "ingest", "degrade", "verify"])
def test_it_is_set_aside_and_left_alone_until_retry(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path, stage: str
) -> None:
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    deadly = Deadly(f"{stage} film2")
    first = build(options, deadly)
    assert first.exit_code == 3
    assert deadly.tried
    rows = [row for row in first.set_aside if row.reason is Reason.WORKER_DIED]
    assert {row.stage for row in rows} == {stage}
    assert all(row.key for row in rows)
    # whole sources where there is nothing of them yet, else their pairs
    aspects = set(options.recipe.aspects) if stage in ("degrade", "verify") else {""}
    assert {row.aspect for row in rows} == aspects
    assert len(first.release.pairs()) == len(options.recipe.aspects)
    again = Deadly(f"{stage} film2")
    second = build(options, again)
    assert (again.tried, second.new) == (0, False)
    assert [row.reason for row in second.set_aside] == [row.reason for row in first.set_aside]
    third = build(options.model_copy(update={"retry": True}), InlineExecutor())
    assert third.exit_code == 0
    assert len(third.release.pairs()) == 2 * len(options.recipe.aspects)
