"""The pairs of a release as evaluators see them, and the selection of pairs to judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from pydantic import Field

from storage_schemas.errors import StoreError, UserInputError, suggestion
from storage_schemas.model import Frozen
from storage_schemas.release import Release
from storage_schemas.rng import keyed_rank
from storage_schemas.store import DEGRADED_CLIP, FRAMES, Store
from tasks.pairs.strength_number import strength_number
from tasks.pairs.view import Pair, open_pair
from tasks.scoring.base import AspectText
from tasks.scoring.frame_cache import CachedSide, FrameCache
from tasks.scoring.instructions import aspect_text
from tasks.scoring.request import PairFacts, prompt_digest


class Selection(Frozen):
    """The pairs to judge; an empty field selects all.

    Parameters
    ----------
    pairs
        Ids, or unambiguous prefixes.
    strengths, clips
        Severity points: strengths, and numbers of degraded clips.
    lengths
        Shares of the source that excerpts have; ``excerpts`` stands for all of them, ``none`` for pairs that
        are not excerpts.
    positions
        Where the damage is in excerpts: ``own``, ``early``, ``middle`` or ``late``.
    most_per_aspect
        Maximum pairs of each aspect, by a keyed draw; a smaller draw is contained in a larger one.
    """

    aspects: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    strengths: tuple[str, ...] = ()
    clips: tuple[int, ...] = ()
    lengths: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()
    most_per_aspect: int | None = Field(default=None, ge=1)

    def of(self, facts: Iterable[PairFacts]) -> list[PairFacts]:
        """Return the selected pairs ordered by source, so that its frames are read once.

        Raises
        ------
        UserInputError
            If a value does not occur, or no pair is selected.
        """
        given = list(facts)
        _require("aspect", self.aspects, {pair.aspect for pair in given})
        _require("strength", self.strengths, {pair.strength for pair in given})
        _require("number of degraded clips", self.clips, {pair.clips for pair in given})
        lengths = {_length(text) for text in self.lengths}
        _require("length", lengths, {name for pair in given for name in _length_names(pair)})
        _require("position", self.positions, {pair.position for pair in given if pair.position})
        ids = {_id_of(prefix, given) for prefix in self.pairs}
        selected = [
            pair
            for pair in given
            if (not ids or pair.pair_id in ids)
            and (not self.aspects or pair.aspect in self.aspects)
            and (not self.strengths or pair.strength in self.strengths)
            and (not self.clips or pair.clips in self.clips)
            and (not lengths or lengths & _length_names(pair))
            and (not self.positions or pair.position in self.positions)
        ]
        if self.most_per_aspect is not None:
            by_aspect: dict[str, list[PairFacts]] = defaultdict(list)
            for pair in selected:
                by_aspect[pair.aspect].append(pair)
            selected = [
                pair
                for some in by_aspect.values()
                for pair in sorted(some, key=lambda pair: keyed_rank("evaluate", pair.pair_id))[
                    : self.most_per_aspect
                ]
            ]
        if not selected:
            raise UserInputError(
                "no pair is left to judge: name fewer aspects, pairs, strengths, clips, lengths or positions"
            )
        return sorted(selected, key=lambda pair: (pair.source_id, pair.aspect, pair.pair_id))


def _length_names(pair: PairFacts) -> set[str]:
    """Return what a pair's length is called in a selection."""
    return {"none"} if pair.length is None else {"excerpts", f"{pair.length:.12g}"}


def _length(text: str) -> str:
    """Return a share as printed, and any other text unchanged."""
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text


def _require(what: str, wanted: Collection[object], allowed: Collection[object]) -> None:
    for value in wanted:
        if value not in allowed:
            listed = sorted(map(str, allowed))
            # any number looks like another
            near = value if isinstance(value, str) and value.isalpha() else ""
            hint = suggestion(near, listed, "there are")
            raise UserInputError(f"no pair has the {what} {value!r}: {hint}")


def _id_of(prefix: str, pairs: Iterable[PairFacts]) -> str:
    matches = [pair.pair_id for pair in pairs if pair.pair_id.startswith(prefix)]
    if len(matches) != 1:
        raise UserInputError(f"{len(matches)} pairs have an id that starts with {prefix!r}")
    return matches[0]


class ReleasePairs(Frozen):
    """The pairs of one version of a release.

    Parameters
    ----------
    store_path, name, version
        The store's folder, and the release.
    """

    store_path: str
    name: str
    version: int

    @property
    def release(self) -> Release:
        """The release, opened once per process."""
        return _open(self.store_path, self.name, self.version)

    @property
    def title(self) -> str:
        """Readable name."""
        return f"release {self.name}, version {self.version}"

    def facts(self) -> list[PairFacts]:
        """Return the facts of all pairs."""
        digest = cache(prompt_digest)
        return [
            PairFacts(
                pair_id=record.pair_id,
                source_id=record.source_id,
                aspect=record.aspect,
                dimension=record.dimension,
                prompt_digest=digest(self.release.prompt_of(record)),
                high_checksum=record.high_checksum,
                low_checksum=record.low_checksum,
                fps=record.fps,
                strength=record.strength,
                clips=record.clips_degraded,
                frames=record.high_frames + record.low_frames,
                control=record.control,
                length=None if record.excerpt is None else record.excerpt.share,
                position="" if record.excerpt is None else record.excerpt.position,
                strength_number=strength_number(record),
            )
            for record in self.release.pairs()
        ]

    def open(self, pair_id: str) -> Pair:
        """Open a pair; no frame is read yet."""
        pair = open_pair(self.release.store, self.release, pair_id)
        return replace(pair, high=CachedSide(pair.high, _frames), low=CachedSide(pair.low, _frames))

    def text(self, aspect: str, dimension: str, prompts: str) -> AspectText:
        """Return an aspect's description for evaluators."""
        return aspect_text(aspect, dimension, prompts)

    def check(self, wanted: Iterable[PairFacts]) -> None:
        """Check that the release is unchanged, and that the frames of some pairs exist.

        Raises
        ------
        IntegrityError
            If a file of the release was changed.
        StoreError
            If frames were evicted.
        """
        self.release.check()
        store, ids = self.release.store, {pair.pair_id for pair in wanted}
        records = [record for record in self.release.pairs() if record.pair_id in ids]
        clips = {s.degraded_clip for record in records for s in record.segments if s.degraded_clip}
        artifacts = {FRAMES: {record.frames_id for record in records}, DEGRADED_CLIP: clips}
        for kind, wanted_ids in artifacts.items():
            gone = [id_ for id_ in wanted_ids if not store.has(kind, id_)]
            if gone:
                raise StoreError(
                    f"{len(gone)} of {len(wanted_ids)} {kind.replace('_', ' ')} artifacts of these pairs are "
                    "not in the store: run the build again to recreate them"
                )


def pairs_of_release(store: Store, name: str | None, version: int | None) -> ReleasePairs:
    """Return the pairs of a release, after a check that its files are unchanged.

    Parameters
    ----------
    name, version
        If None, the only release and the newest version.

    Raises
    ------
    StoreError, UserInputError
        If the release does not exist.
    IntegrityError
        If one of its files was changed.
    """
    release = Release.open(store, name, version)
    release.check()
    return ReleasePairs(store_path=str(store.root), name=release.name, version=release.version)


_frames = FrameCache()


@cache
def _open(store_path: str, name: str, version: int) -> Release:
    return Release.open(Store.open(Path(store_path)), name, version)
