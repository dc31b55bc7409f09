"""Run a flow for a command, and report a build's result."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from flows.build.run import BuildResult
from flows.command_runs import run_flow
from flows.declaration import FlowDeclaration, OptionsT, ResultT
from infra.prefect_server import log_level
from infra.profile import Profile
from slvmeval.cli.terminal import console, counted, say, table
from storage_schemas.commit import write_atomic
from storage_schemas.set_aside import SetAsideRow


def run(
    flow: FlowDeclaration[OptionsT, Any, ResultT], options: OptionsT, site: Profile, direct: bool, quiet: bool
) -> ResultT:
    """Run a flow for a command; see :func:`flows.command_runs.run_flow`."""
    log_to_stderr(quiet)
    return run_flow(flow, options, site, direct, quiet)


def log_to_stderr(quiet: bool) -> None:
    """Log progress as lines if there is no terminal for progress bars, as in a job."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if not quiet and not sys.stderr.isatty():
        log_level(logging.INFO)


_MOST_LINES = 20


def build_summary(result: BuildResult, gallery: Path | None = None) -> dict[str, Any]:
    """Return what a build made and set aside as JSON-serialisable values."""
    release = result.release
    return {
        "release": release.name,
        "version": release.version,
        "new": result.new,
        "store": str(release.store.root),
        "path": str(release.path),
        "recipe": release.info["recipe"],
        "content_checksum": release.manifest.content_checksum,
        "aspects": release.summary(),
        "sources": {
            "used": len(release.sources()),
            "set_aside": [
                {"source": row.source_id or row.location, "reason": row.reason.value, "message": row.message}
                for row in whole_sources(result.set_aside)
            ],
        },
        "gallery": None if gallery is None else str(gallery),
    }


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary as JSON; a reader sees the old file or the new one."""
    write_atomic(path.absolute(), (json.dumps(summary, indent=1, ensure_ascii=False) + "\n").encode())


def whole_sources(rows: tuple[SetAsideRow, ...] | list[SetAsideRow]) -> list[SetAsideRow]:
    """Return the rows that concern a whole source."""
    return [row for row in rows if not row.aspect]


def print_summary(result: BuildResult) -> None:
    """Print for each aspect what was planned, built and set aside, and the sources that were set aside."""
    release = result.release
    state = "new" if result.new else "unchanged"
    rows = [
        (aspect, counts["planned"], counts["built"], counts["set_aside"], counted(counts["reasons"]))
        for aspect, counts in release.summary().items()
    ]
    title = f"release {release.name}, version {release.version} ({state}), {len(release.sources())} sources"
    console().print(table(title, ("aspect", "planned", "built", "set aside", "reasons"), rows, numbers=3))
    print_set_aside(whole_sources(result.set_aside))


def print_set_aside(rows: list[SetAsideRow]) -> None:
    """Print the sources that were set aside, each with its reason."""
    if not rows:
        return
    say(f"{len(rows)} {'source was' if len(rows) == 1 else 'sources were'} set aside:")
    for row in rows[:_MOST_LINES]:
        say(f"  {row.reason.value}: {row.message}")
    if len(rows) > _MOST_LINES:
        say(f"  … and {len(rows) - _MOST_LINES} more: see --summary FILE or `slvmeval status`")
