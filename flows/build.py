"""The Prefect flow `build-slvmeval` and the way to run it on one machine."""

from __future__ import annotations

import logging
import time
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect_dask.task_runners import DaskTaskRunner

from flows.build_run import Build, BuildResult
from flows.options import BuildOptions
from flows.prefect_executor import PrefectExecutor
from infra.embedded_server import prefect_server
from infra.local_cluster import local_cluster
from infra.progress import BuildProgress
from storage_schemas.errors import SlvmevalError
from storage_schemas.store import FRAMES, Store
from tasks.publish.pictures import contact_sheet, data_uri

log = logging.getLogger(__name__)


_SHOW_EVERY_S = 2.0

#: What a worker imports while the cluster starts, so that its first item does not wait for it.
_PRELOAD = ["flows.prefect_executor", "tasks.pairs.stages"]


class FlowProgress(BuildProgress):
    """Shows progress in Prefect's UI too, as one artifact a stage."""

    def __init__(self, cache: Path | None = None, quiet: bool = False) -> None:
        super().__init__(cache, quiet)
        self._artifacts: dict[str, Any] = {}
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
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        counts = self.state("running")["stages"][stage]
        # an update is a request: not one for every source of thousands
        soon = time.monotonic() - self._shown.get(stage, -_SHOW_EVERY_S) < _SHOW_EVERY_S
        if soon and counts["done"] < counts["total"]:
            return
        self._shown[stage] = time.monotonic()
        share = 100.0 * counts["done"] / max(counts["total"], 1)
        if stage in self._artifacts:
            update_progress_artifact(self._artifacts[stage], progress=share)
        else:
            self._artifacts[stage] = create_progress_artifact(
                progress=share, key=f"progress-{stage}", description=f"{stage}: sources done"
            )


@flow(
    name="build-slvmeval",
    flow_run_name="{options.release}",
    task_runner=DaskTaskRunner(),  # type: ignore[arg-type] # PrefectExecutor tells it which cluster to start
    validate_parameters=True,
    persist_result=False,
)
def build_slvmeval(options: BuildOptions, workers: int = 2, quiet: bool = False) -> BuildResult:
    """Build or extend an SLVMEval release from the sources.

    Parameters
    ----------
    options
        What to build, from what, and where it is kept.
    workers
        How many items run at once.
    quiet
        Draw no progress bars.

    Returns
    -------
    BuildResult
        The release version, whether it is new, and what was set aside.
    """
    with FlowProgress(Store.create(Path(options.store)).cache, quiet) as progress:
        build = Build(options, progress)
        build.prepare()
        cluster = partial(local_cluster, workers=workers, preload=_PRELOAD)
        result = build.run(partial(PrefectExecutor, workers, cluster))
    try:
        _publish(build, result)
    except SlvmevalError:
        # the release is written: a picture of it that fails is no failed build
        log.exception("the release could not be shown in Prefect's UI")
    return result


def _publish(build: Build, result: BuildResult) -> None:
    """Show in Prefect's UI what was made: a table, the reasons, and a contact sheet an aspect."""
    name = result.release.name
    rows = [
        {
            "aspect": aspect,
            "planned": counts["planned"],
            "built": counts["built"],
            "set aside": counts["set_aside"],
            "reasons": ", ".join(f"{reason} {n}" for reason, n in counts["reasons"].items()),
        }
        for aspect, counts in result.release.summary().items()
    ]
    create_table_artifact(
        rows, key=f"summary-{_key(name)}", description=f"Release {name}, version {result.release.version}"
    )
    for aspect in result.release.summary():
        # frames of an older source may have been evicted since
        records = [r for r in result.release.pairs(aspect) if build.store.has(FRAMES, r.frames_id)]
        if not records:
            continue
        clips = result.release.clips(records[0].source_id)
        sheet = data_uri(contact_sheet(build.store, records[0], clips))
        create_markdown_artifact(
            f"### {aspect}\n\n![High quality above, degraded below]({sheet})\n",
            key=f"sheet-{_key(name)}-{_key(aspect)}",
            description=f"{aspect}: high quality above, degraded below",
        )


def _key(text: str) -> str:
    """Return a name as Prefect wants an artifact's key: lower case letters, digits and dashes."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())


def run_build_flow(options: BuildOptions, workers: int = 2, quiet: bool = False) -> BuildResult:
    """Run the flow on this machine: one embedded server, one local Dask cluster, both gone afterwards."""
    with prefect_server():
        return build_slvmeval(options=options, workers=workers, quiet=quiet)
