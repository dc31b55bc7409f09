"""``slvmeval verify``, ``gc`` and ``list schemas``: check, clean up and describe a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from flows.parameters import Given, ReleaseParameters, SiteParameters, Workers
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from slvmeval.cli.listing import KINDS, ListOptions, chosen
from storage_schemas.counts import count_text
from storage_schemas.sizes import size_text

if TYPE_CHECKING:
    import pyarrow as pa

    from slvmeval.cli.store.release_check import ComparedSource
    from storage_schemas.store import Store
    from tasks.media.ffmpeg_command import FfmpegCommand


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Releases")(verify)
    app.command(name="gc", rich_help_panel="The store")(collect)
    KINDS["schemas"] = list_schemas


class VerifyOptions(ReleaseParameters):
    """Options of `verify`."""

    deep: bool = Field(
        default=False,
        description="Also check both sides of each pair, frame by frame, and every file of the store.",
    )
    repair: bool = Field(
        default=False, description="Remove damaged artifacts, so that the next build recreates them."
    )
    against_ffmpeg: Annotated[int, Given(metavar="N")] = Field(
        default=0,
        ge=0,
        description="Also read N sources with the ffmpeg command on PATH, and compare every frame.",
    )
    tolerance: Annotated[int, Given(metavar="STEPS", by_set=True)] = Field(
        default=0,
        ge=0,
        le=255,
        description="Largest difference from ffmpeg's samples that is tolerated, of 255.",
    )
    workers: Workers = None
    output: terminal.FormatOption = "table"
    quiet: terminal.QuietOption = False


def verify(
    options: VerifyOptions,
) -> None:
    """Check a release by reading it back: its files, the frames of its sources, every pair.

    Exit code 1 if something is wrong, or differs from what ffmpeg reads.

    Example: `slvmeval verify demo --store STORE --deep`
    """
    from slvmeval.cli.store.build_states import refuse_while_running
    from slvmeval.cli.store.release_check import (
        ReleaseDamage,
        check_against_ffmpeg,
        check_release,
        repair_release,
    )
    from storage_schemas.commit import retire_folder
    from storage_schemas.errors import IntegrityError
    from storage_schemas.release import RELEASE, Release, find_version
    from storage_schemas.store import Store
    from tasks.media.ffmpeg_command import find_ffmpeg

    if not options.against_ffmpeg:
        refuse(options, "only with --against-ffmpeg N", "tolerance")
    command = find_ffmpeg() if options.against_ffmpeg else None
    damages: list[ReleaseDamage] = []
    try:
        opened = terminal.open_store(options)
    except IntegrityError as problem:
        if options.repair or not options.deep:
            raise
        # its content can still be checked
        opened = Store(terminal.store_folder(options))
        damages.append(ReleaseDamage("the store", str(problem)))
    if options.repair:
        refuse_while_running(opened, "verify --repair")
    name, number = find_version(opened, options.release)
    checked = None
    try:
        checked = Release.open(opened, name, number)
    except IntegrityError:
        if options.repair:
            retire_folder(opened.staging, RELEASE, opened.versions(name) / str(number))
            terminal.tell(f"removed version {number} of release {name}: build, and verify again")
        if options.repair or not options.deep:
            raise
    with terminal.step_bar("verify", options.quiet or options.output != "table") as step:
        processes = options.site().workers
        damages += check_release(
            opened, checked, options.deep, step, options.quiet or options.output != "table", processes
        )
    done = (
        repair_release(checked, damages, options.quiet or options.output != "table")
        if options.repair and damages and checked
        else []
    )
    compared: list[ComparedSource] = []
    if command is not None and checked is not None:
        with terminal.step_bar("ffmpeg", options.quiet or options.output != "table") as step:
            compared = check_against_ffmpeg(
                checked,
                command,
                options.against_ffmpeg,
                options.tolerance,
                step,
                options.quiet or options.output != "table",
            )
    pairs = None if checked is None else checked.manifest.content["pairs"]
    how = f"{count_text(pairs or 0, 'pair')} {'read frame by frame' if options.deep else 'checked'}"
    if checked is None:
        how = "its manifest is damaged, so only the files of the store were checked"
    verdict = count_text(len(damages), "problem") if damages else "all good"
    remedy = "--repair removes damaged artifacts, so that the next build recreates them"
    if done:
        remedy = "run `slvmeval build --retry` (or the build again) to recreate the removed artifacts"
    terminal.show(
        options.output,
        {
            "release": name,
            "version": number,
            "pairs": pairs,
            "deep": options.deep,
            "problems": [{"what": damage.what, "problem": damage.problem} for damage in damages],
            "repaired": done,
            "ffmpeg": {} if command is None else _as_json(command, compared),
        },
        *(f"{damage.what}: {damage.problem}" for damage in damages),
        *done,
        f"release {name}, version {number}: {how}, {verdict}",
        *([remedy] if damages else []),
        *([] if command is None else [partial(_show_compared, command, compared)]),
    )
    if damages or not all(source.compared.is_equal for source in compared):
        raise typer.Exit(1)


#: Frames of a source that are listed in a terminal.
_LISTED = 10


def _show_compared(command: FfmpegCommand, compared: list[ComparedSource]) -> None:
    equal = sum(source.compared.is_equal for source in compared)
    frames = sum(source.compared.frames for source in compared)
    terminal.say(
        f"{command.words} reads {equal} of {count_text(len(compared), 'source')} alike: "
        f"{frames} frames compared"
    )
    rows: list[tuple[object, ...]] = []
    for source in compared:
        found = source.compared
        if found.problem:
            terminal.say(f"{source.title}: {found.problem}")
        if found.lost_s:
            times = ", ".join(f"{time:.3f}" for time in found.lost_s[:_LISTED])
            terminal.say(
                f"{source.title}: ffmpeg leaves out {len(found.lost_s)} frames, at {times} s: it "
                "loses the frame buffered in its filters where size or colours change; the store has "
                "it"
            )
        for one in found.differences[:_LISTED]:
            rows.append((source.title, one.frame, f"{one.time_s:.3f}", one.most, f"{one.share:.2%}"))
        if len(found.differences) > _LISTED:
            rest = len(found.differences) - _LISTED
            terminal.say(f"{source.title}: {rest} more frames differ than shown; --format json has all")
    if rows:
        columns = ("source", "frame", "at s", "largest difference", "of the samples")
        terminal.say(terminal.Grid("frames that differ", columns, rows, numbers=4))


def _as_json(command: FfmpegCommand, compared: list[ComparedSource]) -> dict[str, Any]:
    from dataclasses import asdict

    sources = [
        {"source_id": source.source_id, "title": source.title, **asdict(source.compared)}
        for source in compared
    ]
    return {"path": command.path, "version": command.version, "sources": sources}


class Droppable(StrEnum):
    """What a clean-up can drop."""

    FRAMES = "frames"
    ENCODED = "encoded"
    FEATURES = "features"
    UNREFERENCED = "unreferenced"


class GcOptions(SiteParameters):
    """Options of `gc`."""

    what: Annotated[tuple[Droppable, ...], Given(("what",), "WHAT")] = Field(
        default=(),
        description="frames of sources, encoded videos, features computed by evaluators: all are "
        "recreated when needed; unreferenced: what no release version uses.",
    )
    batches: Annotated[tuple[str, ...], Given(("--batch",), "ID", by_set=True)] = Field(
        default=(),
        description="Forget a batch of `slvmeval list batches` without collecting it, so that the next "
        "`evaluate` sends its requests again. The provider may still answer and charge for "
        "it: cancel it there",
    )
    dry_run: bool = Field(default=False, description="Only print what would be freed.")


def collect(
    options: GcOptions,
) -> None:
    """Drop what can be recreated or is no longer used, and print the freed bytes.

    Leftovers of killed builds are always dropped. Releases are not changed. `--set batch=ID` only forgets a
    batch of requests.

    Example: `slvmeval gc frames encoded --store STORE`
    """
    from infra.leftovers import clear_cache
    from slvmeval.cli.store.build_states import refuse_while_running
    from storage_schemas.gc import (
        clear_staging,
        drop_features,
        drop_partial_analyses,
        drop_unreferenced,
        evict,
    )
    from storage_schemas.store import ENCODED, FRAMES

    if options.dry_run:
        refuse(options, "not with --dry-run", "batches")
    opened = terminal.open_store(options)
    if options.batches:
        refuse(options, "not with --set batch=…, which only forgets a batch", "what")
    if not options.dry_run:
        refuse_while_running(opened, "gc")
    if options.batches:
        _forget(opened, options.batches)
        return
    freed = [
        clear_staging(opened, options.dry_run),
        clear_cache(opened, options.dry_run),
        drop_partial_analyses(opened, Droppable.UNREFERENCED in options.what, options.dry_run),
    ]
    if Droppable.UNREFERENCED in options.what:
        freed += drop_unreferenced(opened, options.dry_run)
    if Droppable.FRAMES in options.what:
        freed.append(evict(opened, FRAMES, options.dry_run))
    if Droppable.ENCODED in options.what:
        freed.append(evict(opened, ENCODED, options.dry_run))
    if Droppable.FEATURES in options.what:
        freed.append(drop_features(opened, options.dry_run))
    for item in freed:
        if item.count:
            terminal.say(f"{item.kind + ':':<15} {item.count:>6}  {size_text(item.bytes):>10}")
    word = "would be freed" if options.dry_run else "freed"
    terminal.say(f"{size_text(sum(item.bytes for item in freed))} {word} in {opened.root}")
    if not options.what:
        terminal.say(f"more can be freed: slvmeval gc {' '.join(Droppable)} (see --help)")


def _forget(store: Store, batches: Sequence[str]) -> None:
    from storage_schemas.errors import UserInputError
    from tasks.scoring.submitted import batch_records

    for id_ in batches:
        count = sum(records.give_up(id_) for records in batch_records(store))
        if not count:
            raise UserInputError(f"there is no waiting batch {id_}: `slvmeval list batches` lists them")
        terminal.say(f"batch {id_} is forgotten: the next run sends its {count_text(count, 'request')} again")


#: Recipe and profile have JSON Schemas, tables Arrow schemas.
_SCHEMAS = ("recipe", "profile", "tables")


def list_schemas(options: ListOptions) -> None:
    """Print the named schemas, or, without a name, list all of them."""
    names = chosen(options, _SCHEMAS)
    if not options.names:
        terminal.show(options.output, names, *names)
        return
    for name in names:
        schema = _schema(name)
        # a JSON Schema is printed as JSON in any format
        tables = schema if name == "tables" else {}
        lines = (line for table, fields in tables.items() for line in (table, *_columns(fields), ""))
        terminal.show(options.output if tables else "json", schema, *lines)


def _schema(name: str) -> dict[str, Any]:
    if name == "recipe":
        from tasks.recipe import Recipe

        return Recipe.model_json_schema()
    if name == "profile":
        from infra.profile import profile_schema

        return profile_schema()
    return {
        table: {field.name: str(field.type) for field in schema} for table, schema in table_schemas().items()
    }


def _columns(fields: Mapping[str, str]) -> list[str]:
    return [f"  {name:<20} {kind}" for name, kind in fields.items()]


def table_schemas() -> dict[str, pa.Schema]:
    """Return the Arrow schema of every stored table, by the table's name."""
    from storage_schemas.analysis import ANALYSES, ANSWERS
    from storage_schemas.judgements import JUDGEMENTS
    from storage_schemas.pair import DEGRADED_CLIPS, EDITS, PAIRS
    from storage_schemas.set_aside import SET_ASIDE
    from storage_schemas.source import CLIPS, SOURCES, TIMELINE_SCHEMA
    from storage_schemas.suite_score import SUITE_SCORES
    from storage_schemas.votes import DECISIONS, VOTES
    from tasks.annotation.filtered_release import OUTCOMES

    return {
        "sources": SOURCES,
        "clips": CLIPS,
        "pairs": PAIRS,
        "edits": EDITS,
        "degraded_clips": DEGRADED_CLIPS,
        "set_aside": SET_ASIDE,
        "analyses": ANALYSES,
        "answers": ANSWERS,
        "timeline": TIMELINE_SCHEMA,
        "judgements": JUDGEMENTS,
        "suite_scores": SUITE_SCORES,
        "votes": VOTES,
        "decisions": DECISIONS,
        "filter": OUTCOMES,
    }
