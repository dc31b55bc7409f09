"""``slvmeval sources``: inspect a data set before a build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slvmeval.cli import terminal

if TYPE_CHECKING:
    from storage_schemas.source import Source

app = typer.Typer(no_args_is_help=True, help="Inspect a data set before a build.")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="sources", rich_help_panel="Start here")


@app.callback()
def _group() -> None:
    """Inspect a data set before a build."""


@app.command()
def scan(
    root: Annotated[
        str,
        typer.Argument(
            metavar="KIND:PATH",
            help="folder:PATH or vript:PATH; a plain PATH is a folder. Options as for build.",
        ),
    ],
    settle: terminal.SettleOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """List the sources of a data set with duration and number of captions, and why others are unusable.

    Exit code 3 if some are unusable. Nothing is written.

    Example: `slvmeval sources scan folder:VIDEOS`
    """
    from flows.build.options import source_root
    from storage_schemas.errors import UserInputError
    from storage_schemas.set_aside import SetAsideRow
    from tasks.sources.registry import open_sources

    data_set = source_root(root)
    if data_set.options.get("unpack"):
        raise UserInputError("sources scan writes nothing and cannot unpack: remove unpack=true")
    adapter = open_sources(data_set.kind, Path(data_set.path), None, settle or 0.0, **data_set.options)
    rows: list[dict[str, Any]] = []
    with terminal.step_bar("sources", as_json) as step:
        total = adapter.count()
        for done, item in enumerate(adapter.scan(), 1):
            if isinstance(item, SetAsideRow):
                values = _set_aside(item.source_id, item.location, item.reason.value, item.message)
            else:
                values = _usable(item)
            rows.append(values)
            step(done, max(total, done), str(values["video"]))
    if as_json:
        terminal.print_json(rows)
    else:
        cells = [
            (
                Path(str(row["video"])).name,
                "" if row["duration_s"] is None else f"{row['duration_s']:.1f}",
                "" if row["captions"] is None else row["captions"],
                row["reason"] or "ok",
                row["message"] or row["id"],
            )
            for row in rows
        ]
        columns = ("video", "seconds", "captions", "state", "id, or why it is unusable")
        terminal.console().print(terminal.table(f"sources in {data_set.path}", columns, cells, numbers=2))
    if any(row["reason"] for row in rows):
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _usable(source: Source) -> dict[str, Any]:
    """Probe a source; report what a build would set aside."""
    from storage_schemas.errors import SetAside
    from tasks.media.probe import probe
    from tasks.sources.clips import check_clips_against_duration

    try:
        info = probe(Path(source.video))
        check_clips_against_duration(source.clips, info.duration_s)
    except SetAside as problem:
        return _set_aside(source.id, source.video, problem.reason.value, problem.message)
    return {
        "id": source.id,
        "title": source.title,
        "video": source.video,
        "duration_s": info.duration_s,
        "width": info.width,
        "height": info.height,
        "captions": len(source.clips),
        "licence": source.licence,
        "redistributable": source.redistributable,
        "reason": "",
        "message": "",
    }


def _set_aside(id_: str, location: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "id": id_,
        "video": location,
        "duration_s": None,
        "captions": None,
        "reason": reason,
        "message": message,
    }
