"""Publish a release to workers: select the campaign and the pairs that may be shown."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import ValidationError

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.ids import digest_text
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release, release_names
from storage_schemas.rng import keyed_rank
from storage_schemas.store import Store
from storage_schemas.value_problems import value_problem
from storage_schemas.votes import Check, check_id
from tasks.annotation.campaign import PLAYHEAD, Campaign, load_campaign, money, read_settings
from tasks.annotation.desk.desk import Desk
from tasks.annotation.media import MediaTask, PairFiles, media_tasks, pair_media
from tasks.annotation.pair_task import PairMedia, PairTask, task_of
from tasks.annotation.progress import with_checks
from tasks.annotation.translation import TranslationStore
from tasks.votes.release_votes import filtered_from, rule_of


@dataclass(frozen=True)
class Showing:
    """The part of a release that is shown.

    Parameters
    ----------
    records
        The pairs.
    media
        Their videos, a task for each source.
    withheld
        Ids of the sources whose licence forbids showing them.
    """

    records: tuple[PairRecord, ...]
    media: tuple[MediaTask, ...]
    withheld: tuple[str, ...]


@dataclass(frozen=True)
class PublishResult:
    """The result of publishing a release.

    Parameters
    ----------
    new, known, retired
        Pairs that are newly shown, still shown, and no longer shown.
    withheld, withheld_pairs
        Sources whose licence forbids showing them, and the number of their pairs.
    failed
        By source id, why its pairs have no videos.
    failed_pairs
        Pairs without videos.
    untranslated
        Why captions are shown without the translation that the pages' languages need; empty if they are not.
    """

    campaign: Campaign
    new: int
    known: int
    retired: int
    untranslated: str = ""
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
        """Describe the result in a sentence."""
        one = self.campaign
        words = [
            f"Campaign {one.name} shows {self.shown} pairs of release {one.release} version {one.version}, "
            f"{self.new} of them new"
        ]
        if self.retired:
            words.append(f"{self.retired} are no longer shown")
        if self.withheld:
            words.append(
                f"{self.withheld_pairs} pairs of {_sources(self.withheld)} that may not be redistributed are "
                "left out"
            )
        if self.failed:
            words.append(f"{self.failed_pairs} pairs of {_sources(self.failed)} have no videos")
        return "; ".join(words) + "." + (f" {self.untranslated}." if self.untranslated else "")


@dataclass(frozen=True)
class PublishPlan:
    """What publishing would show, and the total cost of the campaign's votes.

    Parameters
    ----------
    pairs, sources_without_videos
        Pairs that would be shown, and sources whose videos must be written first.
    withheld
        Sources whose licence forbids showing them.
    answers
        Answers that are expected until every pair has its votes, gold ones included; existing votes are not
        deducted.
    hours
        Expected time of these answers, hours.
    pay, least_pay, most_pay
        Pay for all of them, and for a single task, in the campaign's currency.
    each_worker
        Pay for the question before the first task, and for training, of each worker at most.
    """

    campaign: Campaign
    pairs: int
    sources_without_videos: int
    withheld: tuple[str, ...]
    answers: float
    hours: float
    pay: float
    least_pay: float
    most_pay: float
    each_worker: float = 0.0

    def in_words(self) -> list[str]:
        """Describe the plan in lines."""
        one, currency = self.campaign, self.campaign.currency
        release = f"release {one.release} version {one.version}"
        shown = f"Campaign {one.name} would show {self.pairs} pairs of {release}"
        if self.sources_without_videos:
            shown += f"; videos of {self.sources_without_videos} sources have to be written first"
        if self.withheld:
            shown += f"; {_sources(self.withheld)} may not be redistributed and would be left out"
        each = f"{one.workers_per_pair} a pair"
        if one.weighs:
            each = f"{one.votes_at_least} to {one.votes_at_most} a pair until it is certain"
        checks = " and check tasks" if with_checks(one) > 1 else ""
        lines = [
            f"{shown}.",
            f"{'About ' if one.weighs else ''}{math.ceil(self.answers):,} answers, {each}{checks}, take "
            f"{self.hours:,.1f} hours, if a task takes {one.expected_share:g} times what must be watched "
            f"of its videos and {one.expected_answer_s:g} s.",
        ]
        if not self.pay:
            return [*lines, "The campaign sets no pay: pay_per_hour, or pay_per_task."]
        each = money(self.least_pay, currency)
        if self.most_pay > self.least_pay:
            each += f" to {money(self.most_pay, currency)}"
        first = ""
        if self.each_worker:
            what = " and ".join(["the question"] * one.comprehension + ["training"] * bool(one.training))
            first = f"; each worker also gets up to {money(self.each_worker, currency)} for {what}"
        rate = f", at {money(one.pay_per_hour, currency)} an hour" if one.pay_per_hour else ""
        return [
            *lines,
            f"Pay: {each} for a task{rate}; {money(self.pay, currency)} in all, without a platform's fee"
            f"{first}.",
        ]


#: Videos that are not written yet.
_NO_MEDIA = PairMedia(high_file="", low_file="", high_bytes=0, low_bytes=0)


def publish_plan(
    release: Release, campaign: Campaign, selected: Showing, sources_without_videos: int
) -> PublishPlan:
    """Return what publishing would show, and what its votes take."""
    # gold pairs are known: their votes are not needed
    needed = [record for record in selected.records if record.pair_id not in campaign.gold_pairs]
    watched = [task_of(release, record, _NO_MEDIA).watch_s(campaign.look_first) for record in needed]
    pays = [campaign.pay_for(seconds) for seconds in watched]
    gold = sorted(
        campaign.pay_for(task_of(release, record, _NO_MEDIA).watch_s(campaign.look_first))
        for record in selected.records
        if record.pair_id in campaign.gold_pairs
    )
    usual_s = median(watched) if watched else 0.0
    question = campaign.pay_for_time(campaign.expected_answer_s, usual_s) if campaign.comprehension else 0.0
    times = campaign.votes_expected(0, campaign.votes_at_least) * with_checks(campaign)
    return PublishPlan(
        campaign=campaign,
        pairs=len(selected.records),
        sources_without_videos=sources_without_videos,
        withheld=selected.withheld,
        answers=times * len(needed),
        hours=times * sum(map(campaign.expected_s, watched)) / 3600,
        pay=times * sum(pays),
        least_pay=min(pays, default=0.0),
        most_pay=max(pays, default=0.0),
        each_worker=question + sum(gold[len(gold) - campaign.training :]),
    )


def _sources(some: Sized) -> str:
    return f"{len(some)} source{'' if len(some) == 1 else 's'}"


def showing(release: Release, campaign: Campaign, key: bytes, private_audience: bool = False) -> Showing:
    """Return the part of a release that a campaign shows.

    Parameters
    ----------
    key
        The installation's key, from which file names are derived.
    private_audience
        Whether every worker may see sources that may not be redistributed.

    Raises
    ------
    UserInputError
        If the release lacks an aspect of the campaign, or nothing is left to show.
    """
    records = release.pairs()
    available = {record.aspect for record in records}
    unknown = sorted(set(campaign.aspects) - available)
    if unknown:
        raise UserInputError(
            f"campaign {campaign.name}: release {release.name} has no pairs of {', '.join(unknown)}: "
            f"{suggestion(unknown[0], sorted(available))}"
        )
    # people are not asked about excerpts
    whole = [record for record in records if record.excerpt is None]
    wanted = [record for record in whole if not campaign.aspects or record.aspect in campaign.aspects]
    asked = asked_controls(campaign, wanted)
    wanted = [record for record in wanted if not record.control or record.pair_id in asked]
    free = {row.source_id for row in release.sources() if private_audience or row.redistributable}
    may_show = [record for record in wanted if record.source_id in free]
    withheld = tuple(sorted({record.source_id for record in wanted} - free))
    if not may_show:
        raise UserInputError(
            f"release {release.name} version {release.version} has nothing to show: its sources may not be "
            "redistributed: give --private if all workers are covered by your agreement "
            "with the owner"
            if withheld
            else f"release {release.name} version {release.version} has no pairs"
        )
    equal = equal_pairs(campaign, may_show)
    return Showing(tuple(may_show), tuple(media_tasks(release, may_show, key, equal)), withheld)


def asked_controls(campaign: Campaign, records: Iterable[PairRecord]) -> set[str]:
    """Return the controls of the sample that people are asked about."""
    by_aspect: dict[str, list[str]] = defaultdict(list)
    for record in records:
        if record.control:
            by_aspect[record.aspect].append(record.pair_id)
    sample: set[str] = set()
    for some in by_aspect.values():
        ranked = sorted(some, key=lambda pair_id: keyed_rank("asked control", pair_id))
        sample.update(ranked[: campaign.control_pairs])
    return sample


def equal_pairs(campaign: Campaign, records: Iterable[PairRecord]) -> set[str]:
    """Return the pairs of which check tasks with two equal videos are made; none under the rule `paper`.

    They are changed in place: where clips were removed or moved, what workers are told to watch would not fit
    two equal videos.
    """
    if not campaign.checks:
        return set()
    fitting = [
        record.pair_id
        for record in records
        if record.high_frames == record.low_frames and not any(segment.moved for segment in record.segments)
    ]
    drawn = sorted(fitting, key=lambda pair_id: keyed_rank(campaign.name, pair_id, Check.EQUAL.value))
    return set(drawn[: campaign.equal_pairs])


def publish(
    desk: Desk,
    release: Release,
    campaign: Campaign,
    selected: Showing,
    failed: Mapping[str, str],
    by: str = "",
) -> PublishResult:
    """Publish the pairs whose videos exist, and report on the others.

    Parameters
    ----------
    failed
        By source id, why its pairs have no videos.

    Raises
    ------
    UserInputError
        If the name belongs to a campaign of another release, or no pair is left.
    IntegrityError
        If a video is missing or damaged.
    """
    files = {pair.pair_id: pair for task in selected.media for pair in task.pairs}
    records = [record for record in selected.records if record.source_id not in failed]
    if not records:
        raise UserInputError(f"no pair has videos: {next(iter(failed.values()))}")
    tasks = pair_tasks(release, campaign, records, files)
    checks = check_tasks_of(release, campaign, tasks, files)
    done = desk.organiser.publish(campaign, [*tasks, *checks], by)
    withheld = set(selected.withheld)
    aspects = campaign.aspects
    return PublishResult(
        campaign=campaign,
        new=done.new,
        known=done.known,
        retired=done.retired,
        untranslated=untranslated(campaign, tasks),
        withheld=selected.withheld,
        withheld_pairs=sum(
            record.source_id in withheld
            for record in release.pairs()
            if not aspects or record.aspect in aspects
        ),
        failed=dict(failed),
        failed_pairs=len(selected.records) - len(records),
    )


def pair_tasks(
    release: Release, campaign: Campaign, records: Sequence[PairRecord], files: Mapping[str, PairFiles]
) -> list[PairTask]:
    """Return pairs as tasks, with the translations that the store holds for the pages' language."""
    language = translated_into(campaign)
    translations = TranslationStore(release.store.root).read(language) if language else {}
    tasks = []
    words: dict[str, list[str]] = {}
    for record in records:
        if record.source_id not in words:
            digests = [digest_text(clip.caption) for clip in release.clips(record.source_id)]
            words[record.source_id] = [
                translations[digest].text if digest in translations else "" for digest in digests
            ]
        media = pair_media(release.store.root, files[record.pair_id])
        tasks.append(task_of(release, record, media, words[record.source_id]))
    return tasks


def check_tasks_of(
    release: Release, campaign: Campaign, tasks: Sequence[PairTask], files: Mapping[str, PairFiles]
) -> list[PairTask]:
    """Return the check tasks of a campaign: pairs of two equal videos, and a repeat of each pair.

    They are marked as gold, so their votes count nowhere; none under the rule `paper`.
    """
    checks = []
    for task in tasks if campaign.checks else ():
        equal = files.get(check_id(task.pair_id, Check.EQUAL))
        if equal is not None:
            media = pair_media(release.store.root, equal).model_dump()
            same = {"pair_id": equal.pair_id, "gold": True, "low_s": task.high_s}
            checks.append(task.model_copy(update={**media, **same}))
        if task.pair_id not in campaign.gold_pairs:
            again = {"pair_id": check_id(task.pair_id, Check.AGAIN), "gold": True}
            checks.append(task.model_copy(update=again))
    return checks


def translated_into(campaign: Campaign) -> str:
    """Return the language into which captions are translated: the pages' first that is not English."""
    return next((language for language in campaign.languages if language != "en"), "")


def untranslated(campaign: Campaign, tasks: Sequence[PairTask]) -> str:
    """Return how many pairs show captions without a translation, and what to do; empty if none do."""
    language = translated_into(campaign)
    if not language or campaign.kind != "pairs":
        return ""
    count = sum(any(clip.caption and not clip.translation for clip in task.prompt_clips) for task in tasks)
    if not count:
        return ""
    command = f"slvmeval annotate translate {campaign.release} --language {language}"
    return (
        f"{count} of {len(tasks)} pairs show captions that are not translated into {language!r}, a language "
        f"of the pages: `{command}`, then publish again"
    )


def choose_campaign(
    store: Store,
    published: Sequence[Campaign],
    release: str | None = None,
    version: int | None = None,
    name: str = "",
    settings: Path | None = None,
) -> tuple[Release, Campaign]:
    """Return the release to be published, and its campaign.

    An existing campaign keeps its version of the release: a newer one is shown only on request.

    Parameters
    ----------
    published
        The existing campaigns of the desk.
    release, version
        The release; by default the only one that is not filtered.
    name
        The campaign; by default the one that already shows the release, else a new ``RELEASE-VERSION``.
    settings
        A TOML file with settings; by default those that the campaign was published with. The number of
        votes on a pair, and whether votes of excluded workers count, default to the release's recipe.

    Raises
    ------
    UserInputError
        If something is missing, invalid or ambiguous.
    """
    values = {} if settings is None else read_settings(settings)
    release, version = release or _text(values, "release"), version or _number(values, "version")
    name = name or _text(values, "name") or ""
    existing = _published(published, release or _only_release(store), version, name)
    if existing is not None:
        if existing.kind != "pairs":
            raise UserInputError(f"campaign {existing.name} rates the videos of a suite: choose another name")
        if (release or existing.release, version or existing.version) != (existing.release, existing.version):
            raise UserInputError(
                f"campaign {existing.name} shows release {existing.release} version {existing.version}, not "
                f"{release or existing.release} version {version or existing.version}: choose another name"
            )
        opened = Release.open(store, existing.release, existing.version)
        return opened, existing if settings is None else _from_file(settings, opened, existing.name)
    opened = Release.open(store, release or _only_release(store), version)
    if filtered_from(opened) is not None:
        raise UserInputError(
            f"release {opened.name} is already filtered by people's votes: publish the release it was "
            "filtered from"
        )
    # a release's name may contain dots, but a campaign's name is part of URLs
    campaign_name = name or re.sub(r"[^A-Za-z0-9_-]", "-", f"{opened.name}-{opened.version}")[-64:].lstrip(
        "-_"
    )
    if settings is not None:
        return opened, _from_file(settings, opened, campaign_name)
    try:
        return opened, Campaign.model_validate({"name": campaign_name, **_of_recipe(opened)})
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UserInputError(f"--campaign {campaign_name}: {value_problem(first)}") from problem


def _published(
    published: Sequence[Campaign], release: str | None, version: int | None, name: str
) -> Campaign | None:
    """Return the existing campaign that matches; None for a new one."""
    if name:
        return next((one for one in published if one.name == name), None)
    matching = [one for one in published if one.release == release and version in (None, one.version)]
    newest = [one for one in matching if one.version == max(other.version for other in matching)]
    if len(newest) > 1:
        names = ", ".join(one.name for one in newest)
        raise UserInputError(f"release {release} is shown by several campaigns ({names}): name one of them")
    return newest[0] if newest else None


def _only_release(store: Store) -> str | None:
    """Return the only release of a store that is not filtered; None if there are none or several."""
    names = [name for name in release_names(store) if filtered_from(Release.open(store, name)) is None]
    return names[0] if len(names) == 1 else None


def _from_file(settings: Path, release: Release, name: str) -> Campaign:
    campaign = load_campaign(settings, name=name, release=release.name, version=release.version)
    given = campaign.model_fields_set
    defaults = _of_recipe(release)
    if {"rule", "viewing", "look_share"} & given:
        # another protocol was chosen, or a part of one
        defaults = {key: value for key, value in defaults.items() if key not in PAPER_PROTOCOL}
    return campaign.model_copy(update={key: value for key, value in defaults.items() if key not in given})


#: Recipes whose pairs are the paper's, also with a user's prompts.
PAPER_RECIPES = frozenset({"paper", "paper-eight", "paper-prompts", "paper-eight-prompts"})
#: How people answer in the paper (A.2, A.3): they watch freely, then have the playhead in each part.
PAPER_PROTOCOL: Mapping[str, Any] = {"rule": "paper", "viewing": "free", "least_seen": PLAYHEAD}


def _of_recipe(release: Release) -> dict[str, Any]:
    """Return the settings that a release determines."""
    rule = rule_of(release)
    return {
        "release": release.name,
        "version": release.version,
        "workers_per_pair": rule.workers_per_pair,
        "drop_excluded": rule.drop_excluded,
        **(PAPER_PROTOCOL if release.recipe.get("name") in PAPER_RECIPES else {}),
    }


def _text(values: dict[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) and value else None


def _number(values: dict[str, Any], key: str) -> int | None:
    value = values.get(key)
    return value if isinstance(value, int) else None
