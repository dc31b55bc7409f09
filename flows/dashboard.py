"""What a person sees of a build in Prefect's UI: names, progress, tables, pictures, links, log lines."""

from __future__ import annotations

import importlib.util
import logging
import time
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast
from uuid import UUID

from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client

from flows.board import Board
from flows.build_release import BuildResult
from flows.build_run import Build
from infra.profile import Profile
from infra.progress import BuildProgress
from storage_schemas.errors import StoreError
from storage_schemas.store import FRAMES
from tasks.publish.pictures import contact_sheet, data_uri

log = logging.getLogger(__name__)

_SHOW_EVERY_S = 2.0


class FlowProgress(BuildProgress):
    """Shows progress in Prefect's UI too, as one artifact a stage.

    Class attributes
    ----------------
    counts
        What is counted, for a person.
    """

    counts: ClassVar[str] = "sources"

    def __init__(self, board: Board, cache: Path | None = None, quiet: bool = False) -> None:
        super().__init__(cache, quiet)
        self._board = board
        self._artifacts: dict[str, UUID] = {}
        self._shown: dict[str, float] = {}

    def expect(self, stage: str, total: int) -> None:
        """Say how many items a stage has, on top of those it had."""
        super().expect(stage, total)
        self._show(stage)

    def done(self, stage: str, label: str, set_aside: int = 0) -> None:
        """Count one item of a stage as done."""
        super().done(stage, label, set_aside)
        self._show(stage)

    def _show(self, stage: str) -> None:
        # an update is a request: not one for every source of thousands
        soon = time.monotonic() - self._shown.get(stage, -_SHOW_EVERY_S) < _SHOW_EVERY_S
        if soon and self._done[stage] < self._total[stage]:
            return
        self._shown[stage] = time.monotonic()
        self._board.post(f"progress of {stage}", partial(self._request, stage))

    def _request(self, stage: str) -> None:
        done, total = self._done[stage], self._total[stage]
        share = 100.0 * done / max(total, 1)
        says = f"{stage}: {done} of {total} {self.counts}"
        if stage in self._artifacts:
            update_progress_artifact(self._artifacts[stage], progress=share, description=says)
        else:
            made = create_progress_artifact(progress=share, key=f"progress-{_key(stage)}", description=says)
            self._artifacts[stage] = cast(UUID, made)


def name_run(board: Board, run_id: UUID, build: Build, site: Profile) -> None:
    """Give a flow run a name that a person understands, and tags to look for."""
    sources = len(build.sources)
    words = (build.options.release, f"{sources} source{'' if sources == 1 else 's'}", build.recipe.name)
    tags = [f"recipe:{build.recipe.name}", f"release:{build.options.release}", f"site:{site.name}"]
    post_name(board, run_id, " · ".join(words), tags)


def post_name(board: Board, run_id: UUID, name: str, tags: list[str]) -> None:
    """Give a flow run a name and tags."""

    def request() -> None:
        with get_client(sync_client=True) as client:
            client.update_flow_run(run_id, name=name, tags=tags)

    board.post("name of the run", request)


def link_dask(board: Board, dashboard: str) -> None:
    """Link the pages of the Dask cluster, given the address of its dashboard ``…/status``."""
    if importlib.util.find_spec("bokeh") is None:
        # without it there are no graphs, but tables of workers and of what they do
        dashboard = dashboard.removesuffix("/status") + "/info/main/workers.html"
    board.post(
        "link to Dask",
        partial(
            create_link_artifact,
            link=dashboard,
            link_text="Dask: workers and what they do",
            key="dask",
            description=f"Pages of the Dask cluster while the build runs: {dashboard}",
        ),
    )


def show_release(board: Board, build: Build, result: BuildResult, says: str) -> None:
    """Show what was made: in words, as a table with reasons, as a contact sheet an aspect, as a link."""
    release = result.release
    name, summary = release.name, release.summary()
    key = _key(name)
    board.post("result", partial(create_markdown_artifact, says, key=f"result-{key}", description=says))
    board.post(
        "summary",
        partial(
            create_table_artifact,
            summary_rows(summary),
            key=f"summary-{key}",
            description=f"Release {name}, version {release.version}",
        ),
    )
    path = str(release.path)
    board.post(
        "place of the release",
        partial(
            # no link: from a page of a server, browsers open no files
            create_markdown_artifact,
            f"```\n{path}\n```\n",
            key=f"release-{key}",
            description=f"Folder of release {name}, version {release.version}: {path}",
        ),
    )
    for aspect in summary:
        # frames of an older source may have been evicted since
        records = [r for r in release.pairs(aspect) if build.store.has(FRAMES, r.frames_id)]
        if not records:
            continue
        clips = release.clips(records[0].source_id)
        try:
            sheet = data_uri(contact_sheet(build.store, records[0], clips))
        except StoreError:
            # the release is written: a picture of it that fails is no failed build
            log.exception("%s has no contact sheet", aspect)
            continue
        board.post(
            f"contact sheet of {aspect}",
            partial(
                create_markdown_artifact,
                f"### {aspect}\n\n![High quality above, degraded below]({sheet})\n",
                key=f"sheet-{key}-{_key(aspect)}",
                description=f"{aspect}: high quality above, degraded below",
            ),
        )


def summary_rows(summary: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the table, from ``Release.summary``."""
    return [
        {
            "aspect": aspect,
            "planned": counts["planned"],
            "built": counts["built"],
            "set aside": counts["set_aside"],
            "reasons": ", ".join(f"{reason} {n}" for reason, n in counts["reasons"].items()),
        }
        for aspect, counts in summary.items()
    ]


def link_gallery(board: Board, page: Path, url: str | None) -> None:
    """Link a gallery where it is served, else say where its first page is."""
    if url:
        link = f"{url.rstrip('/')}/{page.name}"
        request = partial(create_link_artifact, link=link, link_text="Gallery")
    else:
        says = f"```\n{page}\n```\n`gallery_url` in the profile makes this a link.\n"
        request = partial(create_markdown_artifact, says)
    board.post(
        "link to the gallery",
        partial(request, key="gallery", description=f"Pages to look at the release: {link if url else page}"),
    )


def _key(text: str) -> str:
    """Return a name as Prefect wants an artifact's key: lower case letters, digits and dashes."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())
