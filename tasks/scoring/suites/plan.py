"""The units of a suite's run: in each dimension one per video, or one per prompt with all its videos."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ConfigDict

from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_value
from storage_schemas.model import Frozen
from storage_schemas.rng import keyed_rank
from storage_schemas.row_store import RowId
from tasks.scoring.suites.base import Dimension, Scorer, SuitePrompt
from tasks.scoring.suites.file_video import FrameRate
from tasks.scoring.suites.manifest import NO_PROMPT, NO_VIDEO, VideoEntry, VideoManifest
from tasks.scoring.suites.prompts import Prompts
from tasks.scoring.user_files import UnusedLine

#: A prompt lacks details that a dimension needs.
PROMPT_LACKS = "prompt_lacks"
_SHOWN = 5


class ScoringUnit(Frozen):
    """One call of a scorer: one video, or the videos of all models of one prompt.

    Parameters
    ----------
    keys
        Key of each video's score; equal keys have equal scores.
    settings
        Checksum of the dimension's settings.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimension: str
    settings: str
    prompt: SuitePrompt
    videos: tuple[VideoEntry, ...]
    keys: tuple[str, ...]
    repeat: int = 0

    @property
    def key(self) -> str:
        """Checksum of the whole unit."""
        return self.keys[0] if len(self.keys) == 1 else digest_value(list(self.keys))

    @property
    def ids(self) -> list[RowId]:
        """Ids of the rows of its scores in the store."""
        return [
            (key, video.model, video.prompt_id, video.sample)
            for key, video in zip(self.keys, self.videos, strict=True)
        ]

    @property
    def shares(self) -> str:
        """Its prompt: requests about the prompt alone serve the videos of all models."""
        return self.prompt.prompt_id


@dataclass(frozen=True)
class Material:
    """Videos by prompt, and the rows that were left out."""

    prompts: Mapping[str, SuitePrompt]
    videos: Mapping[str, tuple[VideoEntry, ...]]
    left_out: tuple[UnusedLine, ...]

    @property
    def count(self) -> int:
        """Number of videos."""
        return sum(map(len, self.videos.values()))


def bring_together(prompts: Prompts, manifest: VideoManifest) -> Material:
    """Return the videos by prompt; videos without a prompt, and prompts without a video, are left out."""
    by_prompt: dict[str, list[VideoEntry]] = defaultdict(list)
    left_out = [*prompts.left_out, *manifest.left_out]
    for video in manifest.videos:
        if video.prompt_id in prompts.by_id:
            by_prompt[video.prompt_id].append(video)
        else:
            message = f"the prompts file has no prompt {video.prompt_id}"
            left_out.append(UnusedLine(f"video {video.name}", NO_PROMPT, message))
    for id_ in prompts.by_id:
        if id_ not in by_prompt:
            left_out.append(UnusedLine(f"prompt {id_}", NO_VIDEO, "the manifest has no video of it"))
    return Material(prompts.by_id, {id_: tuple(videos) for id_, videos in by_prompt.items()}, tuple(left_out))


def settings_of(suite: str, scorer: Scorer, sampling: FrameRate) -> str:
    """Return the checksum of all settings of one dimension.

    Raises
    ------
    PrerequisiteError
        If the scorer's settings are not JSON-serialisable.
    """
    try:
        held = {
            "suite": suite,
            "dimension": scorer.dimension.name,
            "scorer": scorer.settings(),
            "sampling": sampling.model_dump(mode="json"),
        }
        return digest_value(held)[:16]
    except (TypeError, ValueError) as problem:
        raise PrerequisiteError(
            f"dimension {scorer.dimension.name}: its settings() are not JSON-serialisable ({problem})"
        ) from problem


def applicable(material: Material, dimension: Dimension) -> tuple[list[str], list[UnusedLine]]:
    """Return the prompts with videos that a dimension scores, in their order, and those left out."""
    wanted: list[str] = []
    lacking: list[str] = []
    for id_, prompt in material.prompts.items():
        if id_ not in material.videos or (prompt.dimensions and dimension.name not in prompt.dimensions):
            continue
        (wanted if all(prompt.details.get(need) for need in dimension.needs) else lacking).append(id_)
    if not lacking:
        return wanted, []
    some = ", ".join(lacking[:_SHOWN]) + (", …" if len(lacking) > _SHOWN else "")
    message = f"{len(lacking)} prompts have not all of {', '.join(dimension.needs)} in their details: {some}"
    return wanted, [UnusedLine(f"dimension {dimension.name}", PROMPT_LACKS, message)]


def mini(prompt_ids: Sequence[str], dimension: str, most: int, seed: int) -> list[str]:
    """Return a random draw of `most` prompts; smaller draws are subsets, and other prompts change little."""
    drawn = sorted(prompt_ids, key=lambda id_: keyed_rank("suite-mini", seed, dimension, id_))[:most]
    selected = set(drawn)
    return [id_ for id_ in prompt_ids if id_ in selected]


def units_of(
    material: Material,
    prompt_ids: Iterable[str],
    dimension: str,
    settings: str,
    together: bool = False,
    repeats: int = 1,
) -> list[ScoringUnit]:
    """Return the units of a dimension, ordered by prompt.

    Parameters
    ----------
    together
        Whether all models' videos of a prompt are scored together, in a batch per sample number without
        unreadable videos.
    """
    units = []
    for id_ in prompt_ids:
        prompt, videos = material.prompts[id_], material.videos[id_]
        for group in _groups(videos, together):
            for repeat in range(repeats):
                units.append(_unit(dimension, settings, prompt, group, repeat))
    return units


def _groups(videos: Sequence[VideoEntry], together: bool) -> list[tuple[VideoEntry, ...]]:
    if not together:
        return [(video,) for video in videos]
    alone = [(video,) for video in videos if video.unreadable]
    by_sample: dict[int, list[VideoEntry]] = defaultdict(list)
    for video in videos:
        if not video.unreadable:
            by_sample[video.sample].append(video)
    return [*alone, *(tuple(group) for _, group in sorted(by_sample.items()))]


def _unit(
    dimension: str, settings: str, prompt: SuitePrompt, videos: tuple[VideoEntry, ...], repeat: int
) -> ScoringUnit:
    shared = {
        "settings": settings,
        "prompt": {"text": prompt.text, "details": dict(prompt.details)},
        "videos": [video.digest for video in videos],
        "repeat": repeat,
    }
    keys = tuple(digest_value({**shared, "place": index}) for index in range(len(videos)))
    return ScoringUnit(
        dimension=dimension, settings=settings, prompt=prompt, videos=videos, keys=keys, repeat=repeat
    )
