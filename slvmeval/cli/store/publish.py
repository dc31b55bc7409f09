"""``slvmeval gallery``, ``materialise``, ``export`` and ``pull``: what leaves the store, and comes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.cli import terminal

if TYPE_CHECKING:
    from storage_schemas.pair import PairRecord
    from storage_schemas.release import Release
    from tasks.publish.pair_videos import SideName

OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write.")]
OpenOption = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]
RevisionOption = Annotated[
    str, typer.Option("--revision", metavar="NAME", help="A branch, tag or commit of the dataset.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (gallery, materialise, export, pull):
        app.command(rich_help_panel="Releases")(command)


def gallery(
    out: OutOption,
    release: terminal.ReleaseArgument = None,
    version: terminal.VersionOption = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Leave out what may not be redistributed, so that the pages may be published."
        ),
    ] = False,
    open_it: OpenOption = False,
    store: terminal.StoreOption = None,
    quiet: terminal.QuietOption = False,
) -> None:
    """Write pages for viewing a release: players side by side, timelines, reasons, statistics.

    Example: `slvmeval gallery demo --store STORE --out GALLERY --open`
    """
    page = show_gallery(terminal.open_release(store, release, version), out, quiet, private=not public)
    terminal.say(str(page))
    if open_it:
        typer.launch(page.as_uri())


def show_gallery(release: Release, target: Path, quiet: bool = False, private: bool = True) -> Path:
    """Write a gallery with a progress bar; return its first page."""
    from tasks.publish.gallery.write import gallery_once

    with terminal.step_bar("gallery", quiet) as step:
        return gallery_once(
            release, target, private=private, tell=terminal.teller(quiet), warn=terminal.tell, progress=step
        )


def materialise(
    out: OutOption,
    release: terminal.ReleaseArgument = None,
    pair: Annotated[
        list[str] | None, typer.Option("--pair", metavar="ID", help="Only this pair; repeatable.")
    ] = None,
    aspect: Annotated[str | None, typer.Option("--aspect", help="Only pairs of this aspect.")] = None,
    side: Annotated[str | None, typer.Option("--side", metavar="high|low", help="Only this side.")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            metavar="NAME",
            help="An encoder of the ffmpeg command on PATH for H.264, HEVC, AV1 or VP9: libx265, libsvtav1, "
            "h264_nvenc, … Options: 'libx265?crf=24&preset=slow'. Both sides are then encoded whole.",
        ),
    ] = None,
    version: terminal.VersionOption = None,
    store: terminal.StoreOption = None,
    quiet: terminal.QuietOption = False,
) -> None:
    """Write pairs as MP4: ASPECT/PAIR/high.mp4 and low.mp4. Unchanged parts are encoded once per source.

    The encoder is PyAV's x264, unless --encoder names another. Existing videos are kept. Exit code 3 if pairs
    were left out because their frames are gone and cannot be recreated, or because the encoder failed.

    Example: `slvmeval materialise demo --store STORE --aspect color --out VIDEOS`
    """
    from storage_schemas.errors import UserInputError
    from tasks.publish.pair_videos import SIDES

    if side not in (None, *SIDES):
        raise UserInputError(f"--side {side}: choose {' or '.join(SIDES)}")
    opened = terminal.open_release(store, release, version)
    records = [opened.pair(id_) for id_ in pair] if pair else opened.pairs()
    records = [record for record in records if aspect in (None, record.aspect)]
    if not records:
        planned = ", ".join(opened.info["planned"])
        raise UserInputError(f"no pair matches: release {opened.name} has pairs of {planned}")
    sides = [name for name in SIDES if side in (None, name)]
    if encoder is None:
        problems, written = _copy_units(opened, records, out, sides, quiet)
    else:
        problems, written = _encode_whole(opened, records, out, sides, encoder, quiet)
    terminal.say(f"{written} pairs in {out.resolve()}")
    _end_without(problems, len(records) - written)


def _copy_units(
    release: Release, records: Sequence[PairRecord], out: Path, sides: Sequence[SideName], quiet: bool
) -> tuple[dict[str, str], int]:
    """Write pairs by PyAV; return the problems by source or pair, and the number of pairs written."""
    from tasks.publish.frame_restore import needs_frames, restore_frames
    from tasks.publish.pair_videos import materialise_pair

    low: dict[str, list[PairRecord]] = {record.source_id: [] for record in records}
    for record in records:
        low[record.source_id] += [record] if "low" in sides else []
    wanted = [source_id for source_id, some in low.items() if needs_frames(release, source_id, some)]
    problems = restore_frames(release, wanted, terminal.teller(quiet))
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
    """Write pairs by an encoder of the ffmpeg command; return as :func:`_copy_units`."""
    from storage_schemas.errors import PrerequisiteError, StoreError
    from tasks.media.ffmpeg_command import find_ffmpeg
    from tasks.publish.frame_restore import restore_frames
    from tasks.publish.pair_videos import encode_pair, is_encoded

    command = find_ffmpeg()
    chosen = command.encoder(encoder)
    missing = [
        record for record in records if not is_encoded(record, _pair_folder(out, record), chosen, sides)
    ]
    problems = restore_frames(release, {record.source_id for record in missing}, terminal.teller(quiet))
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
                    # another pair of the source may have no such fault
                    problems[record.pair_id] = f"{release.source(source).title}, {record.aspect}: {problem}"
            step(done, len(records), str(folder))
    return problems, written


def _pair_folder(out: Path, record: PairRecord) -> Path:
    return out / record.aspect / record.pair_id[:16]


def export(
    release: terminal.ReleaseArgument = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder to write; with --recipe-only also FILE.json. With --push it may be left out.",
        ),
    ] = None,
    recipe_only: Annotated[
        bool,
        typer.Option(
            "--recipe-only",
            help="Write only the recipe with its pairs pinned: anyone who has the sources can "
            "rebuild the pairs.",
        ),
    ] = False,
    private: Annotated[
        bool,
        typer.Option("--private", help="Include sources that may not be redistributed, for internal use."),
    ] = False,
    votes: Annotated[
        bool,
        typer.Option("--votes", help="Include the votes of a filtered release."),
    ] = False,
    packed: Annotated[
        bool,
        typer.Option(
            "--packed", help="Include the release itself, which `slvmeval pull` opens in another store."
        ),
    ] = False,
    push: Annotated[
        str | None,
        typer.Option(
            "--push", metavar="ORG/NAME", help="Upload it, --packed, to a dataset of the Hugging Face hub."
        ),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="With --push: everyone can read a dataset that is new.")
    ] = False,
    harness: Annotated[
        str | None,
        typer.Option(
            "--harness",
            metavar="inspect-ai|lmms-eval",
            help="Write a task that this harness runs in place of a dataset: a row for each pair and order.",
        ),
    ] = None,
    frames: Annotated[
        int, typer.Option("--frames", min=2, help="With --harness: most pictures of a row, of both videos.")
    ] = 48,
    version: terminal.VersionOption = None,
    store: terminal.StoreOption = None,
    quiet: terminal.QuietOption = False,
) -> None:
    """Write a release as a folder that Hugging Face `datasets` loads, with card, licences and credits.

    Of sources that may not be redistributed, only the pinned recipe is exported. Exit code 3 if pairs were
    left out because their frames are gone and cannot be recreated. --push uploads a release all of whose
    sources may be redistributed, and repeating it resumes; HF_TOKEN or `hf auth login` log in.

    Example: `slvmeval export demo --store STORE --push my-lab/demo`

    More: `slvmeval export demo --store STORE --harness inspect-ai --out TASK`
    """
    import shutil

    from storage_schemas.errors import UserInputError
    from tasks.publish.export import export_recipe, export_release
    from tasks.publish.frame_restore import WithoutSources, needs_frames, restore_frames

    opened = terminal.open_release(store, release, version)
    if harness is not None:
        unfit = {"--recipe-only": recipe_only, "--votes": votes, "--packed": packed, "--push": push}
        if given := [name for name, value in unfit.items() if value]:
            raise UserInputError(f"{' and '.join(given)}: not with --harness, whose folder has rows only")
        _export_for_harness(opened, harness, out, frames, private, quiet)
        return
    if push is not None:
        if private or recipe_only:
            raise UserInputError(
                "--push hands on a whole release, and only what may be redistributed: leave out "
                + ("--private" if private else "--recipe-only")
            )
        out = _folder_to_push(opened, push, out)
    elif public:
        raise UserInputError("--public says who can read what is pushed: name the dataset with --push")
    if out is None:
        raise UserInputError("where to? --out DIR is a folder, --push ORG/NAME a dataset of the hub")
    packed = packed or push is not None
    if recipe_only:
        path = export_recipe(opened, out if out.suffix == ".json" else out / "recipe.json")
        terminal.say(str(path), f"the same pairs: slvmeval build --recipe {path} --sources KIND:PATH")
        return
    passed = [row.source_id for row in opened.sources() if private or row.redistributable]
    wanted = [id_ for id_ in passed if packed or needs_frames(opened, id_, opened.pairs(source_id=id_))]
    problems = restore_frames(opened, wanted, terminal.teller(quiet))
    if problems and packed:
        raise UserInputError(
            f"release {opened.name} can only be packed whole, and frames are gone: "
            f"{next(iter(problems.values()))}"
        )
    with terminal.step_bar("export", quiet) as step:
        rest = WithoutSources(opened, problems) if problems else opened
        result = export_release(
            opened.store,
            rest,
            out,
            private=private,
            votes=votes,
            packed=packed,
            address="" if push is None else f"hf://datasets/{push}@main/",
            progress=step,
        )
    if problems:
        # the recipe pins all pairs, including those whose videos could not be written now
        export_recipe(opened, out / "recipe.json")
    terminal.say(f"{result.pairs} pairs in {result.path}")
    if result.left_out:
        terminal.say(
            f"{len(result.left_out)} sources may not be redistributed and were left out; the pinned recipe "
            "has their pairs"
        )
    if push is not None:
        from tasks.publish.hub_sharing import push_release

        terminal.tell(f"sending it to {push}: only what is not there yet")
        page = push_release(out, push, public, f"Release {opened.name}, version {opened.version}")
        terminal.say(page, f"content checksum {opened.manifest.content_checksum}")
        terminal.say(f"whoever can read it: slvmeval pull {push} --store STORE")
        if out.is_relative_to(opened.store.exports):
            shutil.rmtree(out)
    _end_without(problems, sum(len(opened.pairs(source_id=id_)) for id_ in problems))


def _export_for_harness(
    release: Release, harness: str, out: Path | None, frames: int, private: bool, quiet: bool
) -> None:
    from storage_schemas.errors import UserInputError
    from tasks.publish.frame_restore import WithoutSources, restore_frames
    from tasks.publish.harness import HARNESSES, write_for_harness

    known = {name: name for name in HARNESSES}
    if harness not in known:
        raise UserInputError(f"--harness {harness}: choose {' or '.join(known)}")
    if out is None:
        raise UserInputError("where to? --out DIR is a folder")
    passed = [row.source_id for row in release.sources() if private or row.redistributable]
    problems = restore_frames(release, passed, terminal.teller(quiet))
    rest = WithoutSources(release, problems) if problems else release
    with terminal.step_bar("export", quiet) as step:
        made = write_for_harness(rest, out, known[harness], frames=frames, private=private, progress=step)
    terminal.say(f"{made.rows} rows, {made.pairs} pairs in both orders: {made.path / 'README.md'}")
    if made.left_out:
        terminal.say(f"{len(made.left_out)} sources may not be redistributed and were left out")
    _end_without(problems, sum(len(release.pairs(source_id=id_)) for id_ in problems))


def _folder_to_push(release: Release, repository: str, out: Path | None) -> Path:
    """Check, before any work, that a release may leave; return the folder to write."""
    from tasks.publish.hub_sharing import check_repository
    from tasks.publish.packed_release import check_may_leave

    check_repository(repository)
    check_may_leave(release)
    return out or release.store.exports / f"{release.name}-{release.version}"


def pull(
    origin: Annotated[
        str,
        typer.Argument(
            metavar="ORG/NAME",
            help="A dataset of the Hugging Face hub, or a folder that `export --packed` wrote.",
        ),
    ],
    revision: RevisionOption = "main",
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
    quiet: terminal.QuietOption = False,
) -> None:
    """Bring a release that somebody handed on into a store, which is created if necessary.

    It can then be opened, verified, judged and extended like one of your own. What the store has is not
    fetched again: repeating the command resumes. HF_TOKEN or `hf auth login` log in, HF_ENDPOINT names
    another hub.

    Example: `slvmeval pull my-lab/demo --store STORE`
    """
    from storage_schemas.store import Store
    from tasks.publish.hub_sharing import check_repository, pull_release
    from tasks.publish.packed_release import unpack_folder

    folder = Path(origin)
    if not folder.is_dir():
        check_repository(origin)
    target = Store.create(Path(terminal.settings(profile, store=store).store))
    with terminal.step_bar("pull", quiet) as step:
        if folder.is_dir():
            release = unpack_folder(folder, target, step)
        else:
            release = pull_release(target, origin, revision, terminal.teller(quiet), step)
    made = release.manifest.content
    terminal.say(
        f"release {release.name}, version {release.version}: {made['pairs']} pairs of {made['sources']} "
        f"sources in {target.root}",
        f"content checksum {release.manifest.content_checksum}",
        f"next: slvmeval verify {release.name} --store {target.root}",
    )


def _end_without(problems: dict[str, str], pairs: int) -> None:
    """Report what was left out and why, and exit with `SOME_SET_ASIDE`."""
    if not problems:
        return
    terminal.say(f"pairs left out: {pairs}")
    terminal.say(*(f"  {problem}" for problem in problems.values()))
    raise typer.Exit(terminal.SOME_SET_ASIDE)
