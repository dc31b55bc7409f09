"""An annotation run on any executor: translate, publish, collect, filter; completed steps are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.annotate.options import AnnotateOptions
from flows.stages import Item, through_stages
from infra.executor import Executor
from infra.progress import BuildProgress
from storage_schemas.errors import PrerequisiteError
from storage_schemas.release import Release
from storage_schemas.store import Store
from storage_schemas.votes import VotesStore
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.filtered_release import write_filtered
from tasks.annotation.installation import installation_key
from tasks.annotation.media import (
    MediaOutcome,
    MediaTask,
    MediaWork,
    clear_drafts,
    is_written,
    media_stage,
)
from tasks.annotation.publish import (
    PublishPlan,
    PublishResult,
    Showing,
    choose_campaign,
    publish,
    publish_plan,
    showing,
)
from tasks.annotation.sync import Collected, collect
from tasks.annotation.translation import TranslationResult, TranslationStore, translate_captions
from tasks.llm.servers import Servers
from tasks.pairs.stages import Stage
from tasks.votes.release_votes import read_release_votes

_VIDEOS = "videos"
_TRANSLATE = "translate"


@dataclass(frozen=True)
class AnnotationResult:
    """Result of each step of a run; None for a step that was not requested or not yet due."""

    published: PublishResult
    collected: Collected
    translated: TranslationResult | None = None
    translation_problem: str = ""
    filtered: str = ""

    @property
    def complete(self) -> bool:
        """Whether all requested steps are done, apart from votes still to come."""
        return self.published.complete and not self.translation_problem and not self._untranslated

    @property
    def _untranslated(self) -> int:
        return 0 if self.translated is None else len(self.translated.failed)

    def in_words(self) -> str:
        """Return a summary of what was done."""
        words = [self.published.in_words()]
        if self.translated is not None:
            words.append(self.translated.in_words())
        if self.translation_problem:
            words.append(f"Captions are not translated: {self.translation_problem}.")
        words.append(self.collected.in_words())
        if self.filtered:
            words.append(self.filtered)
        return " ".join(words)


@dataclass
class Annotation:
    """One run; call :meth:`prepare`, then :meth:`run`."""

    options: AnnotateOptions
    desk: Desk
    key: bytes
    progress: BuildProgress
    release: Release = field(init=False)
    campaign: Campaign = field(init=False)
    shown: Showing = field(init=False)

    def prepare(self) -> None:
        """Find the release, the campaign and the pairs to show.

        Raises
        ------
        UserInputError, StoreError
            If something does not exist or is invalid; nothing has been changed.
        """
        options = self.options
        settings = Path(options.campaign_settings) if options.campaign_settings else None
        self.release, self.campaign = choose_campaign(
            Store.open(Path(options.store)),
            self.desk.campaigns.all(),
            options.release,
            options.version,
            options.campaign,
            settings,
        )
        newest = Release.open(self.release.store, self.release.name).version
        if newest != self.release.version and options.version is None:
            self.progress.say(
                f"campaign {self.campaign.name} shows version {self.release.version} of release "
                f"{self.release.name}, but version {newest} exists: {self.release.name}@{newest} publishes "
                "that one"
            )
        self.shown = showing(self.release, self.campaign, self.key, options.private_audience)

    def missing(self) -> list[MediaTask]:
        """Return the sources with missing videos."""
        return [task for task in self.shown.media if not is_written(self.release.store.root, task)]

    def idle(self) -> bool:
        """Return whether no video needs writing."""
        return not self.missing()

    def plan(self) -> PublishPlan:
        """Return what publishing would show and cost."""
        return publish_plan(self.release, self.campaign, self.shown, len(self.missing()))

    def run(self, open_executor: Callable[[], Executor]) -> AnnotationResult:
        """Run all steps that are requested and due.

        Parameters
        ----------
        open_executor
            Called once, if videos need writing.
        """
        translated, problem = self.translate()
        published = self.publish(open_executor)
        self.progress.say(published.in_words())
        collected = collect(self.release.store, self.desk, self.campaign.name)
        self.progress.say(collected.in_words())
        filtered = self.filter(collected)
        return AnnotationResult(published, collected, translated, problem, filtered)

    def translate(self) -> tuple[TranslationResult | None, str]:
        """Translate the captions of the shown sources, if requested.

        If the server is unavailable, this is reported and workers see the original captions.
        """
        parameters = self.options.translation
        if parameters is None:
            return None, ""
        sources = {record.source_id for record in self.shown.records}
        captions = [clip.caption for id_ in sorted(sources) for clip in self.release.clips(id_)]
        servers = Servers(self.options.model_servers, self.release.store.root)
        try:
            with TranslationStore(self.release.store.root) as translations:
                result = translate_captions(
                    captions, parameters, servers, translations, self._count_requests()
                )
        except PrerequisiteError as problem:
            self.progress.say(f"captions are not translated: {problem}")
            return None, str(problem)
        self.progress.say(result.in_words())
        return result, ""

    def _count_requests(self) -> Callable[[int, int, str], None]:
        expected = False

        def count(_done: int, total: int, note: str) -> None:
            nonlocal expected
            if not expected:
                expected = True
                self.progress.expect(_TRANSLATE, total)
            self.progress.done(_TRANSLATE, note, int(bool(note)))

        return count

    def publish(self, open_executor: Callable[[], Executor]) -> PublishResult:
        """Write the missing videos and publish the pairs."""
        failed = self._write_videos(open_executor)
        return publish(self.desk, self.release, self.campaign, self.shown, failed)

    def _write_videos(self, open_executor: Callable[[], Executor]) -> dict[str, str]:
        """Write the missing videos; return the reasons of failures by source id."""
        tasks = self.missing()
        if not tasks:
            return {}
        store = self.release.store
        clear_drafts(store.root)
        failed: dict[str, str] = {}

        def ended(outcome: MediaOutcome) -> bool:
            if outcome.rows:
                failed[outcome.source_id] = outcome.rows[0]
                self.progress.say(f"no videos of {outcome.source_id}: {outcome.rows[0]}")
            return False

        def on_worker_death(item: Item[MediaWork, MediaTask, MediaOutcome], message: str) -> MediaOutcome:
            return MediaOutcome(item.source.id, rows=(message,))

        work = MediaWork(str(store.root), self.release.name, self.release.version)
        self.progress.expect(_VIDEOS, len(tasks))
        with open_executor() as executor:
            stage = Stage(_VIDEOS, self.options.placement.pool("cpu"), media_stage)
            items = [Item(task, (), [stage]) for task in tasks]
            through_stages(executor, work, items, self.progress, ended, on_worker_death)
        return failed

    def filter(self, collected: Collected) -> str:
        """Filter the release if that is requested and due; return a summary."""
        when = self.options.filter
        if when == "never" or (when == "complete" and not collected.complete):
            return ""
        name = self.campaign.name
        if name not in VotesStore(self.release.store).campaigns():
            return f"Campaign {name} has no votes yet, so nothing is filtered."
        people = read_release_votes(self.release, [name])
        if people is None:
            return f"Release {self.release.name} has no votes yet, so nothing is filtered."
        made = write_filtered(self.release, people, self.options.filtered or None)
        remaining = sum(bool(one.kept) for one in people.outcomes)
        verb = "is written" if made.new else "already exists"
        summary = (
            f"Release {made.release.name} version {made.release.version} {verb}: {remaining} of "
            f"{len(people.outcomes)} pairs remain."
        )
        self.progress.say(summary)
        return summary


@contextmanager
def annotation(options: AnnotateOptions, progress: BuildProgress) -> Iterator[Annotation]:
    """Open the desk and yield a prepared run.

    Raises
    ------
    SlvmevalError
        If it cannot start.
    """
    root = Store.open(Path(options.store)).root
    # the key first: this raises if a database exists without its key
    key = installation_key(root)
    with Desk.open(options.database, key) as desk:
        made = Annotation(options, desk, key, progress)
        made.prepare()
        yield made


def table(result: AnnotationResult) -> list[dict[str, Any]]:
    """Return the result as table rows, for Prefect's UI."""
    one, votes = result.published, result.collected
    return [
        {"what": "pairs shown", "count": one.shown, "new": one.new},
        {"what": "pairs withheld by licence", "count": one.withheld_pairs, "new": ""},
        {"what": "pairs without videos", "count": one.failed_pairs, "new": ""},
        {"what": "pairs with all their votes", "count": votes.done, "new": ""},
        {"what": "votes", "count": "", "new": votes.votes},
        {"what": "decisions", "count": "", "new": votes.decisions},
    ]
