"""Publish generated videos to raters, each in each of its dimensions (Video-Bench, section 5.2)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storage_schemas.errors import TRANSIENT_REASONS, SetAside, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.value_problems import first_error
from tasks.annotation.campaign import Campaign, load_campaign, money
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import derived_key, media_folder
from tasks.annotation.media import byte_index, draft_of
from tasks.annotation.publish import translated_into
from tasks.annotation.rating_task import RatingTask
from tasks.annotation.translation import TranslationStore
from tasks.media.playable import playable_seconds, write_playable
from tasks.scoring.suites.base import Suite
from tasks.scoring.suites.guide import Guide, own_guide
from tasks.scoring.suites.manifest import VideoEntry
from tasks.scoring.suites.plan import Material, applicable, mini
from tasks.scoring.user_files import UnusedLine

#: Ratings of a video in each dimension, and raters in all (Video-Bench, section 5.2).
RATINGS_PER_VIDEO, RATERS = 4, 10
#: The video cannot be shown.
UNREADABLE = "unreadable_video"
#: Increases when the same video results in a different file.
_FORMAT = 1

#: Called after each video with the number done, the number of all, and the video's name.
Step = Callable[[int, int, str], None]


@dataclass(frozen=True)
class RatingsPublished:
    """The result of publishing.

    Parameters
    ----------
    new, known, retired
        Tasks, a video in a dimension each, that are newly shown, still shown, and no longer shown.
    videos
        Videos that are shown.
    pay
        What all ratings together cost, in the campaign's currency, without a platform's fee.
    left_out
        Videos, prompts and lines of files that are not shown.
    """

    campaign: Campaign
    new: int
    known: int
    retired: int
    videos: int
    pay: float
    left_out: tuple[UnusedLine, ...] = field(default=())

    def in_words(self) -> str:
        """Describe the result in a sentence."""
        one, tasks = self.campaign, self.new + self.known
        words = [
            f"Campaign {one.name} shows {self.videos} videos in dimensions of {one.suite}: {tasks} tasks, "
            f"{self.new} of them new, {one.workers_per_pair} ratings each"
        ]
        if self.pay:
            words.append(f"all ratings cost {money(self.pay, one.currency)}")
        if self.retired:
            words.append(f"{self.retired} tasks are no longer shown")
        if self.left_out:
            words.append(f"{len(self.left_out)} videos, prompts or lines are left out")
        return "; ".join(words) + "."


def rating_campaign(
    published: Sequence[Campaign],
    suite: Suite,
    dimensions: Sequence[str],
    name: str = "",
    settings: Path | None = None,
    guides: Path | None = None,
) -> Campaign:
    """Return the campaign that rates a suite's dimensions.

    Parameters
    ----------
    published
        The existing campaigns of the desk.
    dimensions
        The dimensions to rate.
    name
        The campaign's name; by default that in `settings`, else ``SUITE-ratings``.
    settings
        A TOML file; by default the settings that the campaign was published with, or four ratings a video by
        ten raters.
    guides
        A folder with the user's own guides, ``LANGUAGE/DIMENSION.txt``.

    Raises
    ------
    UserInputError
        If a setting is invalid, a dimension has no guide in a language, or the name belongs to a campaign of
        pairs.
    """
    if guides is not None and not guides.is_dir():
        raise UserInputError(f"{guides} is not a folder")
    fixed: dict[str, Any] = {"kind": "ratings", "suite": suite.name, "release": "", "version": 0}
    default_name = f"{suite.name}-ratings"
    defaults: dict[str, Any] = {"workers_per_pair": RATINGS_PER_VIDEO, "most_workers": RATERS}
    if settings is not None:
        given = load_campaign(settings, default_name, **fixed, **({"name": name} if name else {}))
        unset = {key: value for key, value in defaults.items() if key not in given.model_fields_set}
        values = {**given.model_dump(), **unset}
        if "workers_per_pair" in given.model_fields_set and "most_workers" in unset:
            values["most_workers"] = max(RATERS, given.workers_per_pair)
    else:
        name = name or default_name
        known = next((one for one in published if one.name == name), None)
        if known is not None and known.kind != "ratings":
            raise UserInputError(f"campaign {name} shows {known.shows}: choose another --campaign")
        values = {**defaults, **({} if known is None else known.model_dump()), **fixed, "name": name}
    try:
        campaign = Campaign.model_validate({**values, "guides": ()})
    except ValidationError as problem:
        raise UserInputError(f"campaign {name}: {first_error(problem)}") from problem
    texts = [_guide(suite, one, language, guides) for one in dimensions for language in campaign.languages]
    return campaign.model_copy(update={"guides": tuple(texts)})


def _guide(suite: Suite, dimension: str, language: str, own: Path | None) -> Guide:
    about = suite.dimension(dimension)
    guide = own_guide(own, dimension, about.title, language) if own is not None else None
    guide = guide or suite.guide(dimension, language)
    if guide is None:
        raise UserInputError(
            f"{suite.name} has no guide of {dimension} for people in {language!r}: write "
            f"{language}/{dimension}.txt with the sections '# meaning' and '# scale' into a folder and give "
            "it with --texts, or leave the language out of the campaign's languages"
        )
    numbers = [level for level, _ in guide.levels]
    if (numbers[0], numbers[-1]) != (about.low, about.high):
        raise UserInputError(
            f"the guide of {dimension} in {language!r} has levels from {numbers[0]} to {numbers[-1]}, but "
            f"the dimension's scale is from {about.low:g} to {about.high:g}"
        )
    return guide


def publish_ratings(
    desk: Desk,
    root: Path,
    key: bytes,
    campaign: Campaign,
    suite: Suite,
    material: Material,
    most: int = 0,
    seed: int = 0,
    step: Step = lambda done, total, name: None,
    by: str = "",
) -> RatingsPublished:
    """Write the videos that raters see, and publish the tasks.

    Parameters
    ----------
    root
        The store's folder.
    key
        The installation's key, from which file names are derived.
    material
        The videos by prompt.
    most
        Random prompts of each dimension; 0 for all.

    Raises
    ------
    UserInputError
        If no video can be shown, or the campaign exists and shows something else.
    SetAside
        If the disk is full or cannot be written.
    """
    dimensions = list(dict.fromkeys(guide.dimension for guide in campaign.guides))
    left_out = list(material.left_out)
    wanted: list[tuple[str, str]] = []
    for name in dimensions:
        prompts, lacking = applicable(material, suite.dimension(name))
        left_out += lacking
        wanted += [(name, id_) for id_ in (mini(prompts, name, most, seed) if most else prompts)]
    entries = {entry.digest: entry for _, id_ in wanted for entry in material.videos[id_]}
    files: dict[str, tuple[str, float]] = {}
    for number, entry in enumerate(entries.values(), 1):
        step(number, len(entries), entry.name)
        why = entry.unreadable
        if not why:
            try:
                files[entry.digest] = rated_file(root, key, entry)
                continue
            except SetAside as problem:
                if problem.reason in TRANSIENT_REASONS:
                    raise
                why = str(problem)
        left_out.append(UnusedLine(f"video {entry.name}", UNREADABLE, why))
    language = translated_into(campaign)
    translations = TranslationStore(root).read(language) if language else {}
    tasks = []
    for name, id_ in wanted:
        about, prompt = suite.dimension(name), material.prompts[id_]
        translation = translations.get(digest_text(prompt.text))
        for entry in material.videos[id_]:
            if entry.digest not in files:
                continue
            file, seconds = files[entry.digest]
            path = media_folder(root) / file
            tasks.append(
                RatingTask(
                    dimension=name,
                    model=entry.model,
                    prompt_id=id_,
                    sample=entry.sample,
                    prompt=prompt.text,
                    translation=translation.text if translation else "",
                    low=int(about.low),
                    high=int(about.high),
                    digest=entry.digest,
                    file=file,
                    size=path.stat().st_size,
                    seconds=seconds,
                    index=byte_index(path),
                )
            )
    if not tasks:
        why = f": {left_out[0].where}: {left_out[0].message}" if left_out else ""
        raise UserInputError(f"no video can be shown{why}")
    done = desk.organiser.publish(campaign, tasks, by)
    shown = {(task.model, task.prompt_id, task.sample) for task in tasks}
    pay = campaign.workers_per_pair * sum(campaign.pay_for(task.watch_s(0)) for task in tasks)
    return RatingsPublished(campaign, done.new, done.known, done.retired, len(shown), pay, tuple(left_out))


def rated_file(root: Path, key: bytes, entry: VideoEntry) -> tuple[str, float]:
    """Return the file of a video in the media folder, written if it is missing, and its length in seconds.

    Its name is a keyed hash, so that it reveals neither the model nor the prompt.

    Raises
    ------
    SetAside
        If the video cannot be read, or the file cannot be written.
    """
    text = f"rating {_FORMAT}\n{entry.digest}"
    name = hmac.new(derived_key(key, "media"), text.encode(), hashlib.sha256).hexdigest()[:32] + ".mp4"
    target = media_folder(root) / name
    if target.is_file():
        return name, playable_seconds(target)
    with draft_of(target) as draft:
        return name, write_playable(Path(entry.path), draft)
