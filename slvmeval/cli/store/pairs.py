"""``slvmeval pairs``: list and show the pairs of a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given, ReleaseParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup

if TYPE_CHECKING:
    from storage_schemas.pair import Interval, PairRecord

app = CommandGroup(no_args_is_help=True, help="List and show the pairs of a release.")

_SHORT = 12


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="pairs", rich_help_panel="Releases")


class ListPairsOptions(ReleaseParameters):
    """Options of `list-pairs`."""

    aspect: str | None = Field(default=None, description="Only this aspect.")
    source: str | None = Field(default=None, description="Only this source id.")
    as_json: terminal.JsonOption = False


@app.command(name="list")
def list_pairs(
    options: ListPairsOptions,
) -> None:
    """List the pairs of a release.

    Example: `slvmeval pairs list demo --store STORE --aspect color`
    """
    opened = terminal.open_release(options)
    records = opened.pairs(options.aspect, options.source)
    if options.as_json:
        terminal.print_json(
            [
                {
                    **record.model_dump(mode="json", exclude={"segments"}),
                    "source_damage": opened.source(record.source_id).damage,
                }
                for record in records
            ]
        )
        return
    rows = [
        (
            record.pair_id[:_SHORT],
            record.clips_degraded,
            record.low_frames,
            record.aspect,
            record.operation,
            record.strength,
            row.title + (f" ({row.damage})" if row.damage else ""),
        )
        for record in records
        for row in [opened.source(record.source_id)]
    ]
    columns = ("pair", "clips", "frames", "aspect", "operation", "strength", "source")
    title = f"release {opened.name}, version {opened.version}: {len(rows)} pairs"
    terminal.console().print(terminal.table(title, columns, rows, numbers=2))


class ShowOptions(ReleaseParameters):
    """Options of `show`."""

    pair_id: Annotated[str, Given(("pair_id",), "PAIR_ID")] = Field(
        description="A pair's id, or an unambiguous prefix."
    )
    release: str | None = Field(default=None, description="The release, if the store has several.")
    as_json: terminal.JsonOption = False


@app.command()
def show(
    options: ShowOptions,
) -> None:
    """Show one pair: its operation, the degraded intervals of both sides, and the edit list.

    Example: `slvmeval pairs show 3f2a91 --store STORE`
    """
    opened = terminal.open_release(options)
    record = opened.pair(options.pair_id)
    if options.as_json:
        damage = opened.source(record.source_id).damage
        terminal.print_json({**record.model_dump(mode="json"), "source_damage": damage})
        return
    from storage_schemas.source import DAMAGE_TEXTS

    row = opened.source(record.source_id)
    damaged = f", the video is {DAMAGE_TEXTS[row.damage]}" if row.damage else ""
    terminal.say(
        f"pair       {record.pair_id}",
        f"aspect     {record.aspect} ({record.category}), paper's dimension {record.dimension}",
        f"source     {row.title} ({record.source_id}), {row.licence}{damaged}",
        f"operation  {record.operation} version {record.operation_version}, strength {record.strength}, "
        f"{record.clips_degraded} clips",
        f"parameters {_flat(record.parameters)}",
        f"choices    {_flat(record.choices)}",
        f"high side  {record.high_frames} frames, {record.high_checksum[:16]}…",
        f"           degraded {_intervals(record.high_intervals)}",
        f"low side   {record.low_frames} frames, {record.low_checksum[:16]}…",
        f"           degraded {_intervals(record.low_intervals)}",
    )
    for clip, reason in record.passed_over.items():
        terminal.say(f"skipped clip {clip}: {reason}")
    terminal.console().print(terminal.table("edit list", _COLUMNS, _edit_rows(record), numbers=4))


_COLUMNS = ("position", "clip", "from frame", "frames", "low side from s", "kind", "made of")


def _edit_rows(record: PairRecord) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    place = 0
    for position, segment in enumerate(record.segments):
        made_of = "source"
        if segment.degraded_clip is not None:
            made_of = f"degraded clip {segment.degraded_clip[:_SHORT]}"
        elif segment.frame_map is not None:
            made_of = "source frames " + ", ".join(map(str, dict.fromkeys(segment.frame_map)))
        rows.append(
            (
                position,
                "" if segment.clip is None else segment.clip,
                segment.first_frame,
                segment.frame_count,
                f"{place / record.fps:.0f}",
                f"{segment.kind}, moved" if segment.moved else segment.kind,
                made_of,
            )
        )
        place += segment.frame_count
    return rows


def _intervals(intervals: Sequence[Interval]) -> str:
    return ", ".join(f"{start:g}–{end:g} s" for start, end in intervals) or "nothing"


def _flat(values: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items()) or "none"
