"""What commands print and write about a finished run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

import typer

from flows.release.result import BuildResult
from slvmeval.cli import terminal
from slvmeval.cli.terminal import Grid, RunSwitches, counted, say, say_first
from storage_schemas.commit import write_atomic
from storage_schemas.counts import count_text
from storage_schemas.set_aside import CLIPS_STAGE, SetAsideRow
from storage_schemas.source import DAMAGE_TEXTS


def build_summary(result: BuildResult, gallery: Path | None = None) -> dict[str, Any]:
    """Return what a build produced and set aside, as JSON-serialisable values."""
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
            "damaged": [
                {"source": row.source_id, "title": row.title, "damage": row.damage}
                for row in release.sources()
                if row.damage
            ],
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


class ScoringResult(Protocol):
    """The result of an evaluation or of a suite's run."""

    @property
    def exit_code(self) -> int:
        """0 if everything is answered, else 3."""

    def summary(self) -> dict[str, Any]:
        """Return it JSON-serialisable."""


R = TypeVar("R", bound=ScoringResult)


def finish(result: R, show: Callable[[R], None], run: RunSwitches) -> NoReturn:
    """Write and print a result as the switches say, and exit with its code.

    Parameters
    ----------
    show
        Prints the result for a person.
    """
    if run.summary is not None:
        write_summary(Path(run.summary), result.summary())
    terminal.show(run.output, result.summary(), lambda: show(result))
    raise typer.Exit(result.exit_code)


def whole_sources(rows: tuple[SetAsideRow, ...] | list[SetAsideRow]) -> list[SetAsideRow]:
    """Return the rows that concern a whole source rather than single clips or pairs."""
    return [row for row in rows if not row.aspect and row.stage != CLIPS_STAGE]


def print_summary(result: BuildResult) -> None:
    """Print for each aspect what was planned, built and set aside, and the sources that were set aside."""
    release = result.release
    state = "new" if result.new else "unchanged"
    rows = [
        (aspect, counts["planned"], counts["built"], counts["set_aside"], counted(counts["reasons"]))
        for aspect, counts in release.summary().items()
    ]
    sources = count_text(len(release.sources()), "source")
    title = f"release {release.name}, version {release.version} ({state}), {sources}"
    columns = ("aspect", "planned", "built", "set aside", "reasons")
    say(Grid(title, columns, rows, numbers=3))
    for row in release.sources():
        if row.damage:
            say(f"{row.title}: the video is {DAMAGE_TEXTS[row.damage]}")
    for aside in result.set_aside:
        if aside.stage == CLIPS_STAGE:
            say(f"{aside.reason.value}: {aside.message}")
    print_set_aside(whole_sources(result.set_aside))


def print_set_aside(rows: list[SetAsideRow]) -> None:
    """Print the sources that were set aside, each with its reason."""
    if not rows:
        return
    say(f"{len(rows)} {'source was' if len(rows) == 1 else 'sources were'} set aside:")
    say_first([f"  {row.reason.value}: {row.message}" for row in rows], "--summary FILE or `slvmeval status`")
