"""``slvmeval pairs``: list and show the pairs of a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given, ReleaseParameters
from flows.score.parameters import Aspects, PairIds
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from storage_schemas.counts import count_text

if TYPE_CHECKING:
    from storage_schemas.pair import Excerpt, Interval, PairRecord
    from storage_schemas.release import Release

_SHORT = 12


def check_aspects(release: Release, names: Sequence[str]) -> None:
    """Refuse the name of an aspect that a release does not have.

    Raises
    ------
    UserInputError
        With the nearest name.
    """
    from storage_schemas.errors import UserInputError, suggestion

    for name in names:
        if name not in (planned := release.info["planned"]):
            raise UserInputError(
                f"--aspect {name}: {suggestion(name, planned, f'release {release.name} has pairs of')}"
            )


def register(parent: typer.Typer) -> None:
    """Add the command."""
    parent.command(rich_help_panel="Releases")(pairs)


class PairsCommandOptions(ReleaseParameters):
    """Options of `pairs`."""

    aspects: Aspects = ()
    source: Annotated[str | None, Given(by_set=True)] = Field(
        default=None, description="Only pairs of this source id."
    )
    pair_ids: PairIds = ()
    output: terminal.FormatOption = "table"


def pairs(options: PairsCommandOptions) -> None:
    """List the pairs of a release; with --pair, show one: operation, intervals of both sides, edit list.

    Example: `slvmeval pairs demo --store STORE --aspect color`, `slvmeval pairs --pair 3f2a91 --store STORE`
    """
    if options.pair_ids:
        refuse(options, "not with --pair", "aspects", "source")
    opened = terminal.open_release(options)
    check_aspects(opened, options.aspects)
    if options.pair_ids:
        for pair_id in options.pair_ids:
            _show(opened, pair_id, options.output)
        return
    if options.source is not None:
        # an unknown id is an error
        opened.source(options.source)
    records = [
        record
        for record in opened.pairs(source_id=options.source)
        if not options.aspects or record.aspect in options.aspects
    ]
    rows = [
        (
            record.pair_id[:_SHORT],
            record.clips_degraded,
            record.low_frames,
            record.aspect,
            record.operation,
            record.strength + (f", excerpt of {record.excerpt.text}" if record.excerpt else ""),
            row.title + (f" ({row.damage})" if row.damage else ""),
        )
        for record in records
        for row in [opened.source(record.source_id)]
    ]
    columns = ("pair", "clips", "frames", "aspect", "operation", "strength", "source")
    title = f"release {opened.name}, version {opened.version}: {count_text(len(rows), 'pair')}"
    terminal.show(
        options.output,
        [
            {
                **record.model_dump(mode="json", exclude={"segments"}),
                "source_damage": opened.source(record.source_id).damage,
            }
            for record in records
        ],
        terminal.Grid(title, columns, rows, numbers=2),
    )


def _show(opened: Release, pair_id: str, output: terminal.Format) -> None:
    record = opened.pair(pair_id)
    damage = opened.source(record.source_id).damage
    from storage_schemas.source import DAMAGE_TEXTS

    row = opened.source(record.source_id)
    damaged = f", the video is {DAMAGE_TEXTS[row.damage]}" if row.damage else ""
    terminal.show(
        output,
        {**record.model_dump(mode="json"), "source_damage": damage},
        f"pair       {record.pair_id}",
        f"aspect     {record.aspect} ({record.category}), paper's dimension {record.dimension}",
        f"source     {row.title} ({record.source_id}), {row.licence}{damaged}",
        f"operation  {record.operation} version {record.operation_version}, strength {record.strength}, "
        f"{count_text(record.clips_degraded, 'clip')}",
        *([_excerpt_line(record.excerpt)] if record.excerpt else []),
        f"parameters {_flat(record.parameters)}",
        f"choices    {_flat(record.choices)}",
        f"high side  {record.high_frames} frames, {record.high_checksum[:16]}…",
        f"           degraded {_intervals(record.high_intervals)}",
        f"low side   {record.low_frames} frames, {record.low_checksum[:16]}…",
        f"           degraded {_intervals(record.low_intervals)}",
        *(f"skipped clip {clip}: {reason}" for (clip, reason) in record.passed_over.items()),
        terminal.Grid("edit list", _COLUMNS, _edit_rows(record), numbers=4),
    )


def _excerpt_line(excerpt: Excerpt) -> str:
    end = excerpt.first_frame + excerpt.frame_count
    return (
        f"excerpt    {excerpt.text}: frames {excerpt.first_frame} to {end - 1} of {excerpt.source_frames}, "
        f"middle of the damage at {excerpt.damage_at:.0%}"
    )


_COLUMNS = ("position", "clip", "from frame", "frames", "low side from s", "kind", "made of")


def _edit_rows(record: PairRecord) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    at_frame = 0
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
                f"{at_frame / record.fps:.0f}",
                f"{segment.kind}, moved" if segment.moved else segment.kind,
                made_of,
            )
        )
        at_frame += segment.frame_count
    return rows


def _intervals(intervals: Sequence[Interval]) -> str:
    return ", ".join(f"{start:g}–{end:g} s" for start, end in intervals) or "nothing"


def _flat(values: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items()) or "none"
