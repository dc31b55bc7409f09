"""The registry of meta-evaluation sets, and the provider of a set's pairs for
evaluators.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path
from urllib.parse import unquote

from pydantic import Field

from storage_schemas.checksum_cache import remembered_digests
from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.ids import digest_text, digest_value
from tasks.aspects.registry import aspect as find_aspect
from tasks.aspects.registry import aspect_names
from tasks.extras.meta_sets.base import LoadedSet, MetaPair, MetaSet
from tasks.extras.meta_sets.fetv import Fetv
from tasks.extras.meta_sets.uve_bench import UveBench
from tasks.extras.meta_sets.videogen_rewardbench import VideoGenRewardBench
from tasks.llm.prompt_files import own_description
from tasks.pairs.file_pairs import VideoSide, read_pairs_file
from tasks.pairs.view import Pair
from tasks.scoring.base import AspectText
from tasks.scoring.frame_cache import CachedSide, FrameCache
from tasks.scoring.instructions import aspect_text
from tasks.scoring.pair_sets import NamedPairs, split_name
from tasks.scoring.request import PairFacts, prompt_digest


class OwnPairs(MetaSet):
    """The reader of a user's own pairs; see :func:`tasks.pairs.file_pairs.read_pairs_file`.

    An invalid line ends it with a message: the user can correct the file.
    """

    name = "pairs"
    title = "own pairs"
    fps = "1"

    def load(self, path: Path, videos: Path | None) -> LoadedSet:
        """Read the file; its paths are relative to its folder."""
        if videos is not None:
            raise UserInputError(
                "pairs take no folder of videos: their paths are relative to the file's own folder"
            )
        pairs = [
            MetaPair(
                key=pair.id,
                group=digest_text(pair.prompt)[:16],
                video_a=Path(pair.details["video_a"]),
                video_b=Path(pair.details["video_b"]),
                prompt=pair.prompt,
                aspect=pair.aspect,
                gold=pair.details["gold"],
            )
            for pair in read_pairs_file(path)
        ]
        return LoadedSet(tuple(pairs), ())


#: Sets by name.
SETS: dict[str, MetaSet] = {one.name: one for one in (UveBench(), VideoGenRewardBench(), Fetv(), OwnPairs())}
_OPTIONS = ("videos", "fps", "long_side")


def meta_set(name: str) -> MetaSet:
    """Return the set of that name.

    Raises
    ------
    UserInputError
        If there is none.
    """
    if name not in SETS:
        raise UserInputError(f"no set {name!r}: {suggestion(name, SETS, 'there are')}")
    return SETS[name]


@cache
def descriptions() -> dict[str, dict[str, str]]:
    """Return the descriptions of the sets' own aspects: set → aspect → text."""
    file = resources.files("tasks.extras.meta_sets").joinpath("aspects.toml")
    texts: dict[str, dict[str, str]] = tomllib.loads(file.read_text(encoding="utf-8"))
    return texts


def split_location(text: str) -> tuple[Path, dict[str, str]]:
    """Return path and options of ``PATH?key=value&key=value``.

    Raises
    ------
    UserInputError
        If an option is unknown or has no value.
    """
    path, _, query = text.partition("?")
    if not path:
        raise UserInputError("no path is given: write NAME:PATH")
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if key not in _OPTIONS or not equals or not value:
            raise UserInputError(
                f"{part!r} is not an option: there are {', '.join(_OPTIONS)}, each KEY=VALUE"
            )
        options[key] = unquote(value)
    return Path(path).expanduser().resolve(), options


def rate_of(text: str) -> Fraction:
    """Parse frames per second, written as 2, 0.5 or 30/4.

    Raises
    ------
    UserInputError
        If it is not a number above 0.
    """
    try:
        rate = Fraction(text)
    except (ValueError, ZeroDivisionError) as problem:
        raise UserInputError(f"fps is {text!r}: give a number above 0") from problem
    if rate <= 0:
        raise UserInputError(f"fps is {text!r}: give a number above 0")
    return rate


class MetaSetPairs(NamedPairs):
    """The comparisons of one set.

    Parameters
    ----------
    name, path, videos
        Which set, where it is, and where its videos are; paths are absolute.
    fps, long_side
        Frames a second, as text, and longer side in pixels.
    """

    name: str
    path: str
    videos: str | None = None
    fps: str = "1"
    long_side: int = Field(default=512, ge=16, le=4096, multiple_of=4)

    @property
    def title(self) -> str:
        """Display name, with what was left out."""
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.loaded().reasons().items())
        left = f"; left out: {reasons}" if reasons else ""
        return f"{self.short_title}{left}"

    @property
    def short_title(self) -> str:
        """Display name."""
        return f"{meta_set(self.name).title}, {Path(self.path).name}"

    def loaded(self) -> LoadedSet:
        """Return the set, read once per process."""
        return _load(self.name, self.path, self.videos)

    def facts(self) -> list[PairFacts]:
        """Return the facts of all pairs; videos are read for their checksums, once while unchanged.

        The number of frames is unknown before a video is opened: in an estimate each pair counts as 2.
        """
        return [facts for facts, _ in _index(self).values()]

    def meta_pairs(self) -> dict[str, MetaPair]:
        """Return the comparisons by the id of their pair."""
        return {id_: pair for id_, (_, pair) in _index(self).items()}

    def open(self, pair_id: str) -> Pair:
        """Open a pair; only the videos' headers are read.

        Raises
        ------
        SetAside
            If a video cannot be used.
        """
        meta_pair = self.meta_pairs()[pair_id]
        rate = Fraction(self.fps)
        sides = [
            CachedSide(VideoSide(path, rate, self.long_side), _frames)
            for path in (meta_pair.video_a, meta_pair.video_b)
        ]
        if meta_pair.gold == "b":
            sides.reverse()
        return Pair(
            id=pair_id,
            aspect=meta_pair.aspect,
            prompt=meta_pair.prompt,
            high=sides[0],
            low=sides[1],
            high_intervals=(),
            low_intervals=(),
            record=None,
            details={"gold": meta_pair.gold, "key": meta_pair.key, **meta_pair.details},
        )

    def text(self, aspect: str, dimension: str, prompts: str) -> AspectText:
        """Return an aspect's text for evaluators; the set's own meaning takes precedence."""
        own = descriptions().get(self.name, {}).get(aspect)
        if own is None or own_description(aspect, prompts) is not None:
            return aspect_text(aspect, dimension, prompts)
        return AspectText(name=aspect, dimension=dimension, description=own)

    def check(self, wanted: Iterable[PairFacts]) -> None:
        """Check nothing more: :meth:`facts` has just read every needed video."""


_frames = FrameCache()


@cache
def _load(name: str, path: str, videos: str | None) -> LoadedSet:
    loaded = meta_set(name).load(Path(path), None if videos is None else Path(videos))
    if not loaded.pairs:
        first = f"; the first: {loaded.left_out[0].message}" if loaded.left_out else ""
        raise UserInputError(f"{path} has no usable comparison{first}")
    return loaded


@cache
def _index(pairs: MetaSetPairs) -> dict[str, tuple[PairFacts, MetaPair]]:
    """Return facts and comparison by pair id, which covers everything the pair consists of."""
    loaded = pairs.loaded()
    sums = _checksums({path for pair in loaded.pairs for path in (pair.video_a, pair.video_b)})
    by_id = {}
    for pair in loaded.pairs:
        sampling = f"{pairs.fps}:{pairs.long_side}"
        videos = [digest_text(f"{sums[path]}:{sampling}") for path in (pair.video_a, pair.video_b)]
        id_ = f"{pairs.name}-{digest_value([pair.key, pair.prompt, pair.gold, videos])[:24]}"
        if pair.gold == "b":
            videos.reverse()
        facts = PairFacts(
            pair_id=id_,
            source_id=f"{pairs.name}-{pair.group}",
            aspect=pair.aspect,
            dimension=_dimension(pairs.name, pair.aspect),
            prompt_digest=prompt_digest(pair.prompt),
            high_checksum=videos[0],
            low_checksum=videos[1],
            fps=float(Fraction(pairs.fps)),
            frames=2,
        )
        by_id[id_] = facts, pair
    return by_id


def _checksums(paths: Iterable[Path]) -> dict[Path, str]:
    folders: dict[Path, list[str]] = {}
    for path in sorted(paths):
        folders.setdefault(path.parent, []).append(path.name)
    return {
        folder / name: sum_
        for folder, names in folders.items()
        for name, sum_ in remembered_digests(folder, names).items()
    }


def _dimension(name: str, aspect: str) -> str:
    """Return the id shown to judges: the paper's for one of our aspects, else the set's own."""
    own = descriptions().get(name, {})
    return find_aspect(aspect).dimension if aspect not in own and aspect in aspect_names() else aspect


def meta_set_pairs(name: str, location: str) -> MetaSetPairs:
    """Return the pairs of the set at ``PATH?videos=DIR&fps=2&long_side=512``; paths become absolute.

    Raises
    ------
    UserInputError
        If there is no such set, or an option does not fit.
    """
    reader = meta_set(name)
    path, options = split_location(location)
    fps = options.get("fps", reader.fps)
    rate_of(fps)
    side = options.get("long_side", "512")
    if not side.isdecimal() or int(side) % 4 or not 16 <= int(side) <= 4096:
        raise UserInputError(f"long_side is {side!r}: give a multiple of 4 from 16 to 4096")
    videos = options.get("videos")
    root = None if videos is None else str(Path(videos).expanduser().resolve())
    return MetaSetPairs(name=name, path=str(path), videos=root, fps=fps, long_side=int(side))


def meta_set_from_text(text: str) -> MetaSetPairs:
    """Return the pairs of ``NAME:PATH?key=value``; raises as :func:`meta_set_pairs`."""
    return meta_set_pairs(*split_name(text))
