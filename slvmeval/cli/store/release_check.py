"""Check a release against its manifests and frames, and remove what is damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slvmeval.cli.terminal import teller
from storage_schemas.commit import retire_folder
from storage_schemas.errors import IntegrityError, SetAside, StoreError
from storage_schemas.frames import FrameReader
from storage_schemas.ids import artifact_id
from storage_schemas.pair import PairRecord
from storage_schemas.release import RELEASE, Release, frames_path
from storage_schemas.rng import keyed_rank
from storage_schemas.store import DEGRADED_CLIP, FRAMES, PAIR, TIMELINE, VERIFIED, Store, check_files
from tasks.media.ffmpeg_command import FfmpegCommand
from tasks.pairs.ffmpeg_check import SourceFrames, compare_frames
from tasks.pairs.verify import SourceCheck, pair_problems, verified_consumes, verify_deep
from tasks.publish.frame_restore import restore_frames
from tasks.recipe import recipe_from


@dataclass(frozen=True)
class ReleaseDamage:
    """Damage in a release; `artifacts` are the (kind, id) to recreate.

    `source_id` is set for a source's frames, `index` for the release version itself.
    """

    what: str
    problem: str
    artifacts: tuple[tuple[str, str], ...] = ()
    source_id: str = ""
    index: bool = False


def check_release(
    release: Release, deep: bool, step: Callable[[int, int, str], None], quiet: bool = False
) -> list[ReleaseDamage]:
    """Return the damage of a release: in its index, its sources' frames, its pairs.

    Evicted frames are recreated first; if that fails, it is reported as the source's damage.

    Parameters
    ----------
    deep
        Also read both sides of each pair through its view, and compare every file with its checksum.
    step
        Called with (pairs done, total pairs, what was checked).
    quiet
        Do not report whose frames are recreated.
    """
    try:
        release.check()
        sources, total = release.sources(), len(release.pairs())
    except IntegrityError as problem:
        return [ReleaseDamage(f"index of version {release.version}", str(problem), index=True)]
    damages: list[ReleaseDamage] = []
    done = 0
    for row in sources:
        records = release.pairs(source_id=row.source_id)
        checked = _check_source(release, row.source_id, row.frames_id, deep, quiet)
        if isinstance(checked, ReleaseDamage):
            damages.append(checked)
        else:
            for record in records:
                done += 1
                damages += _check_pair(release.store, record, checked, deep)
                step(done, total, f"{record.aspect} of {row.title}")
    return damages


@dataclass(frozen=True)
class ComparedSource:
    """A source of a release, and how its stored frames compare with the ffmpeg command's."""

    source_id: str
    title: str
    compared: SourceFrames


def check_against_ffmpeg(
    release: Release,
    command: FfmpegCommand,
    count: int,
    tolerance: int,
    step: Callable[[int, int, str], None],
    quiet: bool = False,
) -> list[ComparedSource]:
    """Compare all stored frames of some sources with those that the ffmpeg command reads.

    Evicted frames are recreated first.

    Parameters
    ----------
    command
        The program.
    count
        Number of sources: a draw keyed by the release's seed, so more sources include those of fewer.
    tolerance
        Steps of 255 by which a sample may differ.
    step
        Called with (sources done, total sources, title).
    quiet
        Do not report whose frames are recreated.
    """
    recipe = recipe_from(release.recipe)
    rows = sorted(
        release.sources(), key=lambda row: keyed_rank(recipe.seed, row.source_id, "against-ffmpeg")
    )[:count]
    compared = []
    for done, row in enumerate(rows, 1):
        problem = restore_frames(release, [row.source_id], teller(quiet)).get(row.source_id)
        if problem is not None:
            found = SourceFrames(0, problem=problem)
        else:
            try:
                reader = FrameReader(frames_path(release.store, row.frames_id))
                found = compare_frames(
                    command, reader, Path(row.video), row.content_sha256, float(recipe.fps), tolerance
                )
            except StoreError as damaged:
                found = SourceFrames(0, problem=str(damaged))
        compared.append(ComparedSource(row.source_id, row.title, found))
        step(done, len(rows), row.title)
    return compared


def _check_source(
    release: Release, source_id: str, frames_id: str, deep: bool, quiet: bool
) -> SourceCheck | ReleaseDamage:
    """Read the frames of a source; damage is reported once, not with every pair."""
    store = release.store
    what = f"frames of {release.source(source_id).title}"
    artifacts: tuple[tuple[str, str], ...] = ((FRAMES, frames_id),)
    try:
        gone = restore_frames(release, [source_id], teller(quiet)).get(source_id)
        if gone is not None:
            return ReleaseDamage(what, gone, artifacts, source_id)
        timeline = artifact_id(TIMELINE, store.manifest(FRAMES, frames_id).consumes)
        artifacts = ((FRAMES, frames_id), (TIMELINE, timeline))
        check_files(store.artifact_path(TIMELINE, timeline))
        artifacts = ((FRAMES, frames_id),)
        check = SourceCheck.read(store, frames_id)
        if deep:
            check_files(store.artifact_path(FRAMES, frames_id))
    except (StoreError, SetAside) as problem:
        return ReleaseDamage(what, str(problem), artifacts, source_id)
    if check.wrong:
        counts = f"{len(check.wrong)} of {check.reader.count} are damaged"
        return ReleaseDamage(what, counts, artifacts, source_id)
    return check


def _check_pair(store: Store, record: PairRecord, source: SourceCheck, deep: bool) -> list[ReleaseDamage]:
    what = f"pair {record.pair_id[:12]} ({record.aspect})"
    verified = (VERIFIED, artifact_id(VERIFIED, verified_consumes(record.pair_id)))
    again = [(PAIR, record.pair_id), verified]
    if not store.has(PAIR, record.pair_id):
        return [ReleaseDamage(what, "its artifact is not in the store", tuple(again))]
    bad_clips = []
    problems = pair_problems(store, record, source)
    for id_ in dict.fromkeys(s.degraded_clip for s in record.segments if s.degraded_clip is not None):
        try:
            check_files(store.artifact_path(DEGRADED_CLIP, id_))
        except StoreError as problem:
            bad_clips.append((DEGRADED_CLIP, id_))
            if str(problem) not in problems:
                problems.append(str(problem))
    if deep and not problems:
        problems += verify_deep(store, record)
    if not problems:
        return []
    if not bad_clips:
        # the files match their manifests, so the content itself is wrong: recreate all of it
        bad_clips = [(DEGRADED_CLIP, s.degraded_clip) for s in record.segments if s.degraded_clip is not None]
    return [ReleaseDamage(what, "; ".join(problems), (*again, *dict.fromkeys(bad_clips)))]


def repair_release(release: Release, damages: list[ReleaseDamage], quiet: bool = False) -> list[str]:
    """Remove damaged artifacts and recreate frames; return descriptions of what was done.

    A damaged pair also loses its verification: the next build recreates and verifies it.
    """
    store = release.store
    done = []
    for kind, id_ in dict.fromkeys(item for damage in damages for item in damage.artifacts):
        if store.artifact_path(kind, id_).is_dir():
            store.remove(kind, id_)
            done.append(f"removed {kind} {id_[:12]}")
    for damage in damages:
        if damage.source_id:
            problem = restore_frames(release, [damage.source_id], teller(quiet)).get(damage.source_id)
            done.append(
                f"recreated: {damage.what}" if problem is None else f"not recreated: {damage.what}: {problem}"
            )
        if damage.index:
            retire_folder(store.staging, RELEASE, release.path)
            done.append(f"removed version {release.version} of release {release.name}")
    return done
