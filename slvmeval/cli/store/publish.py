"""``slvmeval gallery``, ``materialise``, ``export`` and ``pull``: publish from a store, and import."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import Field

from flows.parameters import RARE, Given, ReleaseParameters, SiteParameters
from flows.score.parameters import Aspects, PairIds
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from slvmeval.cli.store.pairs import check_aspects
from slvmeval.command_line import command_line
from storage_schemas.counts import count_text

if TYPE_CHECKING:
    from storage_schemas.pair import PairRecord
    from storage_schemas.release import Release
    from tasks.publish.harness import Harness
    from tasks.publish.pair_videos import SideName

OutOption = Annotated[Path, Given(("--out",), "DIR"), Field(description="Folder to write.")]
OpenOption = Annotated[bool, Given(("--open",)), Field(description="Open it in the browser.")]
RevisionOption = Annotated[
    str, Given(metavar="NAME", by_set=True), Field(description="A branch, tag or commit of the dataset.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (gallery, materialise, export, pull):
        app.command(rich_help_panel="Releases")(command)


class GalleryOptions(ReleaseParameters):
    """Options of `gallery`."""

    out: OutOption = Path("gallery")
    public: bool = Field(
        default=False,
        description="Leave out what may not be redistributed, so that the pages may be published.",
    )
    open_it: OpenOption = False
    quiet: terminal.QuietOption = False


def gallery(
    options: GalleryOptions,
) -> None:
    """Write pages for viewing a release: players side by side, timelines, reasons, statistics.

    Example: `slvmeval gallery demo --store STORE --out GALLERY --open`
    """
    page = show_gallery(
        terminal.open_release(options), options.out, options.quiet, private=not options.public
    )
    terminal.say(str(page))
    if options.open_it:
        typer.launch(page.as_uri())


def show_gallery(release: Release, target: Path, quiet: bool = False, private: bool = True) -> Path:
    """Write a gallery with a progress bar; return its first page."""
    from tasks.publish.gallery.write import gallery_once

    with terminal.step_bar("gallery", quiet) as step:
        return gallery_once(
            release, target, private=private, tell=terminal.teller(quiet), warn=terminal.tell, progress=step
        )


def _restored(release: Release, source_ids: Iterable[str], quiet: bool) -> dict[str, str]:
    """Recreate missing frames of sources; return the reasons for failures by source."""
    from tasks.publish.frame_restore import restore_frames

    with terminal.long_work("frames", quiet) as say:
        return restore_frames(release, source_ids, say)


class MaterialiseOptions(ReleaseParameters):
    """Options of `materialise`."""

    out: OutOption = Path("videos")
    pair_ids: PairIds = ()
    aspects: Aspects = ()
    side: Annotated[Literal["high", "low"] | None, Given(metavar="high|low")] = Field(
        default=None, description="Only this side."
    )
    encoder: Annotated[str | None, Given(metavar="NAME", panel=RARE)] = Field(
        default=None,
        description="An encoder of the ffmpeg command on PATH for H.264, HEVC, AV1 or VP9: libx265, "
        "libsvtav1, "
        "h264_nvenc, … Options: 'libx265?crf=24&preset=slow'. Both sides are then encoded in full.",
    )
    quiet: terminal.QuietOption = False


def materialise(
    options: MaterialiseOptions,
) -> None:
    """Write pairs as MP4: ASPECT/PAIR/high.mp4 and low.mp4. Unchanged parts are encoded once per source.

    The encoder is PyAV's x264, unless --encoder names another. Existing videos are kept. Exit code 3 if pairs
    were left out because their frames are gone and cannot be recreated, or because the encoder failed.

    Example: `slvmeval materialise demo --store STORE --aspect color --out VIDEOS`
    """
    from storage_schemas.errors import UserInputError
    from tasks.publish.pair_videos import SIDES

    opened = terminal.open_release(options)
    check_aspects(opened, options.aspects)
    records = [opened.pair(id_) for id_ in options.pair_ids] if options.pair_ids else opened.pairs()
    records = [record for record in records if not options.aspects or record.aspect in options.aspects]
    if not records:
        planned = ", ".join(opened.info["planned"])
        raise UserInputError(f"no pair matches: release {opened.name} has pairs of {planned}")
    sides = [name for name in SIDES if options.side in (None, name)]
    if options.encoder is None:
        problems, written = _copy_units(opened, records, options.out, sides, options.quiet)
    else:
        problems, written = _encode_whole(opened, records, options.out, sides, options.encoder, options.quiet)
    terminal.say(f"{count_text(written, 'pair')} in {options.out.resolve()}")
    _end_without(problems, len(records) - written)


def _copy_units(
    release: Release, records: Sequence[PairRecord], out: Path, sides: Sequence[SideName], quiet: bool
) -> tuple[dict[str, str], int]:
    """Write pairs with PyAV; return the problems by source or pair, and the number of pairs written."""
    from tasks.publish.frame_restore import needs_frames
    from tasks.publish.pair_videos import materialise_pair

    low: dict[str, list[PairRecord]] = {record.source_id: [] for record in records}
    for record in records:
        low[record.source_id] += [record] if "low" in sides else []
    wanted = [source_id for source_id, some in low.items() if needs_frames(release, source_id, some)]
    problems = _restored(release, wanted, quiet)
    records = [record for record in records if record.source_id not in problems]
    with terminal.step_bar("videos", quiet) as step:
        for done, record in enumerate(records, 1):
            folder = _pair_folder(out, record)
            materialise_pair(release.store, record, release.clips(record.source_id), folder, sides)
            step(done, len(records), str(folder))
    return problems, len(records)


def _encode_whole(
    release: Release,
    records: Sequence[PairRecord],
    out: Path,
    sides: Sequence[SideName],
    encoder: str,
    quiet: bool,
) -> tuple[dict[str, str], int]:
    """Write pairs with an encoder of the ffmpeg command; return the same as :func:`_copy_units`."""
    from storage_schemas.errors import PrerequisiteError, StoreError
    from tasks.media.ffmpeg_command import find_ffmpeg
    from tasks.publish.pair_videos import encode_pair, is_encoded

    command = find_ffmpeg()
    chosen = command.encoder(encoder)
    missing = [
        record for record in records if not is_encoded(record, _pair_folder(out, record), chosen, sides)
    ]
    problems = _restored(release, {record.source_id for record in missing}, quiet)
    high: dict[str, Path | None] = {}
    written = 0
    with terminal.step_bar("videos", quiet) as step:
        for done, record in enumerate(records, 1):
            source, folder = record.source_id, _pair_folder(out, record)
            if source not in problems:
                try:
                    paths = encode_pair(
                        release.store, record, folder, command, chosen, sides, high.get(source)
                    )
                    high[source] = paths.get("high")
                    written += 1
                except (StoreError, PrerequisiteError) as problem:
                    # another pair of the source may not have this fault
                    problems[record.pair_id] = f"{release.source(source).title}, {record.aspect}: {problem}"
            step(done, len(records), str(folder))
    return problems, written


def _pair_folder(out: Path, record: PairRecord) -> Path:
    return out / record.aspect / record.pair_id[:16]


_EXPORT = Path("export")


class ExportOptions(ReleaseParameters):
    """Options of `export`."""

    out: Annotated[Path | None, Given(metavar="DIR")] = Field(
        default=None,
        description="Folder to write, by default export; with --recipe-only also FILE.json. With --push, "
        "by default no folder is kept.",
    )
    recipe_only: bool = Field(
        default=False,
        description="Write only the recipe with its pairs pinned: anyone who has the sources can "
        "rebuild the pairs.",
    )
    private: bool = Field(
        default=False, description="Include sources that may not be redistributed, for internal use."
    )
    votes: Annotated[bool, Given(by_set=True)] = Field(
        default=False, description="Include the votes of a filtered release."
    )
    packed: bool = Field(
        default=False, description="Include the release itself, for `slvmeval pull` into another store."
    )
    push: Annotated[str | None, Given(metavar="ORG/NAME")] = Field(
        default=None, description="Upload it, --packed, to a dataset of the Hugging Face hub."
    )
    public: Annotated[bool, Given(panel=RARE)] = Field(
        default=False, description="With --push: let everyone read a newly created dataset."
    )
    harness: Annotated[
        Literal["inspect-ai", "lmms-eval"] | None, Given(metavar="inspect-ai|lmms-eval", panel=RARE)
    ] = Field(
        default=None,
        description="Instead of a dataset, write a task for this harness: one row per pair and order.",
    )
    frames: Annotated[int, Given(("--max-frames",), by_set=True)] = Field(
        default=48, ge=2, description="With --harness: maximum frames per row, of both videos together."
    )
    quiet: terminal.QuietOption = False


def export(
    options: ExportOptions,
) -> None:
    """Write a release as a folder that Hugging Face `datasets` loads, with card, licences and credits.

    For sources that may not be redistributed, only the pinned recipe is exported. Exit code 3 if nothing
    else was, or if pairs were left out because their frames are gone and cannot be recreated. --push uploads
    a release if all its sources may be redistributed; repeating it resumes; HF_TOKEN or `hf auth login` log
    in.

    Example: `slvmeval export demo --store STORE --push my-lab/demo`

    More: `slvmeval export demo --store STORE --harness inspect-ai --out TASK`
    """
    out = options.out
    packed = options.packed
    import shutil

    from storage_schemas.errors import UserInputError
    from tasks.publish.export import export_recipe, export_release
    from tasks.publish.frame_restore import WithoutSources, needs_frames

    opened = terminal.open_release(options)
    if options.harness is not None:
        unfit = ("recipe_only", "votes", "packed", "push", "public")
        refuse(options, "not with --harness, which writes only rows", *unfit)
        _export_for_harness(opened, options.harness, out, options.frames, options.private, options.quiet)
        return
    refuse(options, "only with --harness", "frames")
    if options.push is not None:
        why = "not with --push, which publishes a whole redistributable release"
        refuse(options, why, "private", "recipe_only")
        out = _folder_to_push(opened, options.push, out)
    else:
        refuse(options, "only with --push ORG/NAME", "public")
    out = out or _EXPORT
    packed = packed or options.push is not None
    if options.recipe_only:
        refuse(options, "not with --recipe-only", "private", "packed", "votes")
        path = export_recipe(opened, out if out.suffix == ".json" else out / "recipe.json")
        command = command_line("build", "--recipe", path, "--sources", "KIND:PATH")
        terminal.say(str(path), f"the same pairs: {command}")
        return
    passed = [row.source_id for row in opened.sources() if options.private or row.redistributable]
    wanted = [id_ for id_ in passed if packed or needs_frames(opened, id_, opened.pairs(source_id=id_))]
    problems = _restored(opened, wanted, options.quiet)
    if problems and packed:
        raise UserInputError(
            f"release {opened.name} can only be packed as a whole, and frames are missing: "
            f"{next(iter(problems.values()))}"
        )
    with terminal.step_bar("export", options.quiet) as step:
        rest = WithoutSources(opened, problems) if problems else opened
        result = export_release(
            opened.store,
            rest,
            out,
            private=options.private,
            votes=options.votes,
            packed=packed,
            address="" if options.push is None else f"hf://datasets/{options.push}@main/",
            progress=step,
        )
    if problems:
        # the recipe pins all pairs, even those whose videos could not be written now
        export_recipe(opened, out / "recipe.json")
    terminal.say(f"{count_text(result.pairs, 'pair')} in {result.path}")
    if result.left_out:
        terminal.say(
            f"left out, since they may not be redistributed: {count_text(len(result.left_out), 'source')}; "
            "the pinned recipe has their pairs"
        )
    if options.push is not None:
        from tasks.publish.hub_sharing import push_release

        terminal.tell(f"uploading to {options.push}: only what is missing there")
        page = push_release(
            out, options.push, options.public, f"Release {opened.name}, version {opened.version}"
        )
        terminal.say(page, f"content checksum {opened.manifest.content_checksum}")
        terminal.say(f"anyone who can read it runs: slvmeval pull {options.push} --store STORE")
        if out.is_relative_to(opened.store.exports):
            shutil.rmtree(out)
    _end_without(problems, sum(len(opened.pairs(source_id=id_)) for id_ in problems))
    if result.recipe_only:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _export_for_harness(
    release: Release, harness: Harness, out: Path | None, frames: int, private: bool, quiet: bool
) -> None:
    from tasks.publish.frame_restore import WithoutSources
    from tasks.publish.harness import write_for_harness

    out = out or _EXPORT
    passed = [row.source_id for row in release.sources() if private or row.redistributable]
    problems = _restored(release, passed, quiet)
    rest = WithoutSources(release, problems) if problems else release
    with terminal.step_bar("export", quiet) as step:
        written = write_for_harness(rest, out, harness, frames=frames, private=private, progress=step)
    terminal.say(f"{written.rows} rows, {written.pairs} pairs in both orders: {written.path / 'README.md'}")
    if written.left_out:
        left_out = count_text(len(written.left_out), "source")
        terminal.say(f"left out, since they may not be redistributed: {left_out}")
    if not written.pairs:
        raise typer.Exit(terminal.SOME_SET_ASIDE)
    _end_without(problems, sum(len(release.pairs(source_id=id_)) for id_ in problems))


def _folder_to_push(release: Release, repository: str, out: Path | None) -> Path:
    """Check, before any work, that a release may be published; return the folder to write."""
    from tasks.publish.hub_sharing import check_repository
    from tasks.publish.packed_release import check_may_leave

    check_repository(repository)
    check_may_leave(release)
    return out or release.store.exports / f"{release.name}-{release.version}"


class PullOptions(SiteParameters):
    """Options of `pull`."""

    origin: Annotated[str, Given(("origin",), "ORG/NAME")] = Field(
        description="A dataset of the Hugging Face hub, or a folder that `export --packed` wrote."
    )
    out: Annotated[Path | None, Given(metavar="DIR")] = Field(
        default=None, description="Fetch the dataset's submissions, not a release, into this folder."
    )
    revision: RevisionOption = "main"
    quiet: terminal.QuietOption = False


def pull(
    options: PullOptions,
) -> None:
    """Import a shared release into a store, which is created if necessary, or submissions.

    The release can then be opened, verified, judged and extended like your own. Only missing files are
    fetched: repeating the command resumes. HF_TOKEN or `hf auth login` log in, HF_ENDPOINT names another
    hub.

    Example: `slvmeval pull my-lab/demo --store STORE`, `slvmeval pull my-lab/answers --out SUBMISSIONS`
    """
    import tempfile

    from storage_schemas.store import Store
    from tasks.publish.hub_sharing import check_repository, pull_release, pull_submissions
    from tasks.publish.packed_release import unpack_folder

    if options.out is not None:
        with tempfile.TemporaryDirectory(prefix="slvmeval-submission-") as work:
            taken = pull_submissions(options.origin, options.revision, options.out, Path(work))
        terminal.say(*map(str, taken))
        return
    folder = Path(options.origin)
    if not folder.is_dir():
        check_repository(options.origin)
    target = Store.create(Path(options.site().store))
    with terminal.step_bar("pull", options.quiet) as step:
        if folder.is_dir():
            release = unpack_folder(folder, target, step)
        else:
            release = pull_release(
                target, options.origin, options.revision, terminal.teller(options.quiet), step
            )
    counts = release.manifest.content
    terminal.say(
        f"release {release.name}, version {release.version}: {count_text(counts['pairs'], 'pair')} of "
        f"{count_text(counts['sources'], 'source')} in {target.root}",
        f"content checksum {release.manifest.content_checksum}",
        f"next: {command_line('verify', release.name, store=target.root)}",
        f"then: {command_line('evaluate', release.name, '-e', 'sharpness', store=target.root)}",
    )


def _end_without(problems: dict[str, str], pairs: int) -> None:
    """Report what was left out and why, and exit with `SOME_SET_ASIDE`."""
    if not problems:
        return
    terminal.say(f"pairs left out: {pairs}")
    terminal.say(*(f"  {problem}" for problem in problems.values()))
    raise typer.Exit(terminal.SOME_SET_ASIDE)
