"""Check a release against its manifests and frames, and remove what is damaged."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from infra.executor import InlineExecutor, ProcessExecutor
from slvmeval.cli.terminal import teller
from storage_schemas.away import is_away
from storage_schemas.commit import retire_folder
from storage_schemas.errors import IntegrityError, SetAside, StoreError
from storage_schemas.frames import FrameReader
from storage_schemas.ids import artifact_id
from storage_schemas.pair import PairRecord
from storage_schemas.release import RELEASE, Release, frames_path
from storage_schemas.rng import keyed_rank
from storage_schemas.store import DEGRADED_CLIP, FRAMES, PAIR, TIMELINE, VERIFIED, Store, check_files
from storage_schemas.store_check import check_path, checked_paths, unanswered
from tasks.media.ffmpeg_command import FfmpegCommand
from tasks.pairs.degrade import read_pair
from tasks.pairs.ffmpeg_check import SourceFrames, compare_frames
from tasks.pairs.verify import SourceCheck, high_problems, low_problems, pair_problems, verified_consumes
from tasks.publish.frame_restore import restore_frames
from tasks.publish.release import release_checksum
from tasks.recipe import recipe_from


@dataclass(frozen=True)
class ReleaseDamage:
    """Damage in a release or its store; `artifacts` lists the (kind, id) to recreate.

    `source_id` is set for a source's frames, `index` for the release version itself, `file` for another file
    of the store that the next build recreates.
    """

    what: str
    problem: str
    artifacts: tuple[tuple[str, str], ...] = ()
    source_id: str = ""
    index: bool = False
    file: str = ""


#: Fewer pairs are checked in this process: starting worker processes would take longer.
_WORTH_PROCESSES = 50
#: Files of the store that one call of a worker checks.
_PLACES_A_CALL = 20


def check_release(
    store: Store,
    release: Release | None,
    deep: bool,
    step: Callable[[int, int, str], None],
    quiet: bool = False,
    workers: int = 1,
) -> list[ReleaseDamage]:
    """Return the damage in a release and its store: in the index, the sources' frames, the pairs.

    Evicted frames are recreated first; if that fails, it is reported as the source's damage.

    Parameters
    ----------
    release
        None if it cannot be opened: then only the store's files are checked.
    deep
        Also read both sides of each pair through its view, and check all files of the store, even those that
        the release does not use.
    step
        Called with (steps done, total steps, what was checked); a step is a pair, or some of the files.
    quiet
        Do not report the sources whose frames are recreated.
    workers
        Number of processes.
    """
    damages: list[ReleaseDamage] = []
    sizes: dict[str, int] = {}
    notes: list[tuple[int, str]] = []
    waiting: list[tuple[Callable[..., list[ReleaseDamage]], tuple[Any, ...]]] = []
    root = str(store.root)
    if release is not None:
        try:
            release.check()
            for row in release.sources():
                sizes[row.source_id] = len(release.pairs(source_id=row.source_id))
            if release_checksum(release.pairs()) != release.manifest.content_checksum:
                raise IntegrityError(f"the pairs in {release.path} do not match its checksum")
        except IntegrityError as problem:
            damages.append(ReleaseDamage(f"index of version {release.version}", str(problem), index=True))
            sizes = {}
        for source_id, count in sizes.items():
            waiting.append((_check_pairs, (root, release.name, release.version, source_id, deep, quiet)))
            notes.append((count, release.source(source_id).title))
    store_places = checked_paths(store) if deep else []
    chunks = [store_places[n : n + _PLACES_A_CALL] for n in range(0, len(store_places), _PLACES_A_CALL)]
    waiting += [(_check_places, (root, chunk)) for chunk in chunks]
    notes += [(1, f"files in {chunk[0]} …") for chunk in chunks]
    total, done = sum(sizes.values()) + len(chunks), 0
    found: list[list[ReleaseDamage]] = [[] for _ in waiting]
    parallel = workers > 1 and total > _WORTH_PROCESSES
    with ProcessExecutor(workers) if parallel else InlineExecutor() as executor:
        running: dict[Any, int] = {}
        upcoming = iter(range(len(waiting)))
        while True:
            for number in islice(upcoming, executor.room("cpu", len(waiting)) - len(running)):
                function, arguments = waiting[number]
                running[executor.submit("verify", "cpu", function, *arguments)] = number
            if not running:
                break
            for handle in executor.wait_any(running):
                number = running.pop(handle)
                found[number] = executor.result(handle)
                count, note = notes[number]
                done += count
                step(done, total, note)
    for some in found:
        reported = "\n".join(damage.problem for damage in damages)
        damages += [damage for damage in some if damage.problem not in reported]
    return damages


@lru_cache(maxsize=1)
def _opened(root: str, name: str, version: int) -> Release:
    return Release.open(Store(Path(root)), name, version)


def _check_pairs(
    root: str, name: str, version: int, source_id: str, deep: bool, quiet: bool
) -> list[ReleaseDamage]:
    """Check a source of a release and its pairs; called in any process."""
    release = _opened(root, name, version)
    try:
        checked = _check_source(release, source_id, release.source(source_id).frames_id, quiet)
        if isinstance(checked, ReleaseDamage):
            return [checked]
        records = release.pairs(source_id=source_id)
        high = high_problems(release.store, records[0]) if deep and records else []
        return [
            damage for record in records for damage in _check_pair(release.store, record, checked, high, deep)
        ]
    except OSError as problem:
        if not is_away(problem):
            raise
        # nothing to remove: the failure is not damage in the data
        return [ReleaseDamage(f"pairs of {release.source(source_id).title}", unanswered(problem))]


def _check_places(root: str, some: list[str]) -> list[ReleaseDamage]:
    """Check files of the store; called in any process."""
    store = Store(Path(root))
    return [
        ReleaseDamage(
            damage.path,
            damage.problem,
            artifacts=() if damage.artifact is None else (damage.artifact,),
            file=damage.path if damage.removable else "",
        )
        for path in some
        for damage in check_path(store, path)
    ]


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
    """Compare all stored frames of some sources with the ffmpeg command's.

    Evicted frames are recreated first.

    Parameters
    ----------
    command
        The program.
    count
        Number of sources, drawn with the release's seed; a larger number includes the sources of a smaller
        one.
    tolerance
        Steps of 255 by which a sample may differ.
    step
        Called with (sources done, total sources, title).
    quiet
        Do not report the sources whose frames are recreated.
    """
    recipe = recipe_from(release.recipe, stored=True)
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
    release: Release, source_id: str, frames_id: str, quiet: bool
) -> SourceCheck | ReleaseDamage:
    """Read the frames of a source; damage is reported once, not with every pair."""
    store = release.store
    what = f"frames of {release.source(source_id).title}"
    artifacts: tuple[tuple[str, str], ...] = ((FRAMES, frames_id),)
    try:
        gone = restore_frames(release, [source_id], teller(quiet)).get(source_id)
        if gone is not None:
            return ReleaseDamage(what, gone, artifacts, source_id)
        # its files first: they state how the frames should be
        check_files(store.artifact_path(FRAMES, frames_id))
        timeline = artifact_id(TIMELINE, store.manifest(FRAMES, frames_id).consumes)
        artifacts = ((TIMELINE, timeline),)
        check_files(store.artifact_path(TIMELINE, timeline))
        artifacts = ((FRAMES, frames_id),)
        check = SourceCheck.read(store, frames_id)
    except (StoreError, SetAside) as problem:
        return ReleaseDamage(what, str(problem), artifacts, source_id)
    if check.wrong:
        counts = f"{len(check.wrong)} of {check.reader.count} are damaged"
        return ReleaseDamage(what, counts, artifacts, source_id)
    return check


def _check_pair(
    store: Store, record: PairRecord, source: SourceCheck, high: list[str], deep: bool
) -> list[ReleaseDamage]:
    what = f"pair {record.pair_id[:12]} ({record.aspect})"
    again = [(PAIR, record.pair_id), (VERIFIED, artifact_id(VERIFIED, verified_consumes(record.pair_id)))]
    if not store.has(PAIR, record.pair_id):
        return [ReleaseDamage(what, "its artifact is not in the store", tuple(again))]
    problems, bad_clips = [], []
    clips = [(DEGRADED_CLIP, s.degraded_clip) for s in record.segments if s.degraded_clip is not None]
    for kind, id_ in dict.fromkeys(clips):
        try:
            check_files(store.artifact_path(kind, id_))
        except StoreError as problem:
            bad_clips.append((kind, id_))
            problems.append(str(problem))
    try:
        stored = read_pair(store, record.pair_id)
        if stored.model_copy(update={"bin_s": record.bin_s}) != record:
            problems.append("the release's record differs from its artifact")
    except IntegrityError as problem:
        problems.append(str(problem))
    if not problems:
        problems = pair_problems(store, record, source)
        if deep and not problems:
            problems = [*high, *low_problems(store, record, source)]
        # the files match their manifests, so the content itself is wrong: recreate all of it
        bad_clips = clips
    if not problems:
        return []
    return [ReleaseDamage(what, "; ".join(problems), (*again, *dict.fromkeys(bad_clips)))]


def repair_release(release: Release, damages: list[ReleaseDamage], quiet: bool = False) -> list[str]:
    """Remove damaged artifacts and recreate frames; return descriptions of what was done.

    Pairs of a damaged clip are removed with it, and verifications with their pair: the next build recreates
    and verifies them. Rows written by people or model servers are not removed.
    """
    store = release.store
    done = []
    damaged = dict.fromkeys(item for damage in damages for item in damage.artifacts)
    for kind, id_ in [*damaged, *_made_from(store, damaged)]:
        if store.artifact_path(kind, id_).is_dir():
            store.remove(kind, id_)
            done.append(f"removed {kind} {id_[:12]}")
    for damage in damages:
        if damage.file:
            (store.root / damage.file).unlink(missing_ok=True)
            done.append(f"removed {damage.file}")
        if damage.source_id:
            problem = restore_frames(release, [damage.source_id], teller(quiet)).get(damage.source_id)
            done.append(
                f"recreated: {damage.what}" if problem is None else f"not recreated: {damage.what}: {problem}"
            )
        if damage.index:
            retire_folder(store.staging, RELEASE, release.path)
            done.append(f"removed version {release.version} of release {release.name}")
    return done


def _made_from(store: Store, damaged: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs that show a damaged clip, and the verifications of these and of damaged pairs."""
    clips = {id_ for kind, id_ in damaged if kind == DEGRADED_CLIP}
    pairs = [id_ for kind, id_ in damaged if kind == PAIR]
    # manifests of damaged pairs cannot be read
    for id_ in store.ids(PAIR) if clips else ():
        if (PAIR, id_) not in damaged:
            record = read_pair(store, id_)
            if clips & {segment.degraded_clip for segment in record.segments}:
                pairs.append(id_)
    found = [(PAIR, id_) for id_ in pairs]
    return found + [(VERIFIED, artifact_id(VERIFIED, verified_consumes(id_))) for id_ in pairs]
