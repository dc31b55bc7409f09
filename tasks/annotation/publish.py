"""A release is put before people: which pairs may be shown, their videos, and the campaign at the desk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk import Desk
from tasks.annotation.kept_translations import KeptTranslations
from tasks.annotation.media import MediaTask, PairFiles, media_tasks, pair_media
from tasks.annotation.tasks import PairTask, task_of


@dataclass(frozen=True)
class Showing:
    """What of a release is shown.

    Parameters
    ----------
    records
        The pairs.
    media
        Their videos, a task for each source.
    withheld
        Ids of the sources whose licence forbids it.
    """

    records: tuple[PairRecord, ...]
    media: tuple[MediaTask, ...]
    withheld: tuple[str, ...]


@dataclass(frozen=True)
class PublishResult:
    """What became of a release that was to be published.

    Parameters
    ----------
    new, known, retired
        Pairs that are shown now and were not, that were, and that were and are no more.
    withheld, withheld_pairs
        Sources whose licence forbids showing, and how many pairs that are.
    failed
        By source id, why there are no videos of its pairs.
    failed_pairs
        Pairs without videos.
    """

    campaign: Campaign
    new: int
    known: int
    retired: int
    withheld: tuple[str, ...] = ()
    withheld_pairs: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    failed_pairs: int = 0

    @property
    def shown(self) -> int:
        """Pairs that are shown."""
        return self.new + self.known

    @property
    def complete(self) -> bool:
        """Whether every pair that may be shown is shown."""
        return not self.failed

    def in_words(self) -> str:
        """Return what became of it, for a person."""
        one = self.campaign
        words = [
            f"Campaign {one.name} shows {self.shown} pairs of release {one.release} version {one.version}, "
            f"{self.new} of them new"
        ]
        if self.retired:
            words.append(f"{self.retired} are shown no more")
        if self.withheld:
            words.append(
                f"{self.withheld_pairs} pairs of {_sources(self.withheld)} that may not be passed on are "
                "left out"
            )
        if self.failed:
            words.append(f"{self.failed_pairs} pairs of {_sources(self.failed)} have no videos")
        return "; ".join(words) + "."


def _sources(some: Sized) -> str:
    return f"{len(some)} source{'' if len(some) == 1 else 's'}"


def showing(release: Release, campaign: Campaign, key: bytes, private_audience: bool = False) -> Showing:
    """Return what of a release a campaign shows.

    Parameters
    ----------
    key
        The installation's key, with which files are named.
    private_audience
        Whether all who come may see sources that may not be passed on.

    Raises
    ------
    UserInputError
        If an aspect of the campaign is none of the release, or nothing is left to show.
    """
    records = release.pairs()
    there = {record.aspect for record in records}
    unknown = sorted(set(campaign.aspects) - there)
    if unknown:
        raise UserInputError(
            f"campaign {campaign.name}: release {release.name} has no pairs of {', '.join(unknown)} (it has "
            f"{', '.join(sorted(there))})"
        )
    wanted = [record for record in records if not campaign.aspects or record.aspect in campaign.aspects]
    free = {row.source_id for row in release.sources() if private_audience or row.redistributable}
    shown = [record for record in wanted if record.source_id in free]
    withheld = tuple(sorted({record.source_id for record in wanted} - free))
    if not shown:
        raise UserInputError(
            f"release {release.name} version {release.version} has nothing to show: its sources may not be "
            "passed on. If all who come are under your agreement with their owner, say --private-audience"
            if withheld
            else f"release {release.name} version {release.version} has no pairs"
        )
    return Showing(tuple(shown), tuple(media_tasks(release, shown, key)), withheld)


def publish(
    desk: Desk,
    release: Release,
    campaign: Campaign,
    shown: Showing,
    failed: Mapping[str, str],
    by: str = "",
) -> PublishResult:
    """Put the pairs whose videos are there before people, and say what became of the others.

    Parameters
    ----------
    failed
        By source id, why there are no videos of it.

    Raises
    ------
    UserInputError
        If the name belongs to a campaign of another release, or no pair is left.
    IntegrityError
        If a video is missing or damaged.
    """
    files = {pair.pair_id: pair for task in shown.media for pair in task.pairs}
    records = [record for record in shown.records if record.source_id not in failed]
    if not records:
        raise UserInputError(f"there are no videos of any pair: {next(iter(failed.values()))}")
    done = desk.publish(campaign, pair_tasks(release, campaign, records, files), by)
    withheld = set(shown.withheld)
    aspects = campaign.aspects
    return PublishResult(
        campaign=campaign,
        new=done.new,
        known=done.known,
        retired=done.retired,
        withheld=shown.withheld,
        withheld_pairs=sum(
            record.source_id in withheld
            for record in release.pairs()
            if not aspects or record.aspect in aspects
        ),
        failed=dict(failed),
        failed_pairs=len(shown.records) - len(records),
    )


def pair_tasks(
    release: Release, campaign: Campaign, records: Sequence[PairRecord], files: Mapping[str, PairFiles]
) -> list[PairTask]:
    """Return pairs as tasks, with the translations that the store has into a language of the pages."""
    language = translated_into(campaign)
    kept = KeptTranslations(release.store.root).read(language) if language else {}
    tasks = []
    words: dict[str, list[str]] = {}
    for record in records:
        if record.source_id not in words:
            digests = [digest_text(clip.caption) for clip in release.clips(record.source_id)]
            words[record.source_id] = [kept[digest].text if digest in kept else "" for digest in digests]
        media = pair_media(release.store.root, files[record.pair_id])
        tasks.append(task_of(release, record, media, words[record.source_id]))
    return tasks


def translated_into(campaign: Campaign) -> str:
    """Return the language beside which captions are shown: the first of the pages that is not English."""
    return next((language for language in campaign.languages if language != "en"), "")
