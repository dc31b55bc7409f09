"""An annotation, whoever runs its tasks: translate, publish, collect, filter, as far as it is not done."""

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
from tasks.annotation.publish import PublishResult, Showing, choose_campaign, publish, showing
from tasks.annotation.sync import Collected, collect
from tasks.annotation.translation import TranslationResult, TranslationStore, translate_captions
from tasks.llm.servers import Servers
from tasks.pairs.stages import Stage
from tasks.votes.release_votes import read_release_votes

_VIDEOS = Stage("videos", "cpu", media_stage)
_TRANSLATE = "translate"


@dataclass(frozen=True)
class AnnotationResult:
    """What a run did, step by step; a step that was not asked for, or not yet due, is None."""

    published: PublishResult
    collected: Collected
    translated: TranslationResult | None = None
    translation_problem: str = ""
    filtered: str = ""

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is done, but for votes that people have still to give."""
        return self.published.complete and not self.translation_problem and not self._untranslated

    @property
    def _untranslated(self) -> int:
        return 0 if self.translated is None else len(self.translated.failed)

    def in_words(self) -> str:
        """Return what it did, for a person."""
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
        """Find the release, the campaign, and what of it is shown.

        Raises
        ------
        UserInputError, StoreError
            If something does not exist or fit; nothing was done then.
        """
        asked = self.options
        settings = Path(asked.campaign_settings) if asked.campaign_settings else None
        self.release, self.campaign = choose_campaign(
            Store.open(Path(asked.store)),
            self.desk.campaigns.all(),
            asked.release,
            asked.version,
            asked.campaign,
            settings,
        )
        newest = Release.open(self.release.store, self.release.name).version
        if newest != self.release.version and asked.version is None:
            self.progress.say(
                f"campaign {self.campaign.name} shows version {self.release.version} of release "
                f"{self.release.name}, and there is version {newest}: --version {newest} publishes that one"
            )
        self.shown = showing(self.release, self.campaign, self.key, asked.private_audience)

    def missing(self) -> list[MediaTask]:
        """Return the sources of which a video is missing."""
        return [task for task in self.shown.media if not is_written(self.release.store.root, task)]

    def idle(self) -> bool:
        """Return whether no video has to be written."""
        return not self.missing()

    def run(self, open_executor: Callable[[], Executor]) -> AnnotationResult:
        """Do all that is asked for and due.

        Parameters
        ----------
        open_executor
            Called once, if videos have to be written.
        """
        translated, problem = self.translate()
        published = self.publish(open_executor)
        collected = collect(self.release.store, self.desk, self.campaign.name)
        self.progress.say(collected.in_words())
        filtered = self.filter(collected)
        return AnnotationResult(published, collected, translated, problem, filtered)

    def translate(self) -> tuple[TranslationResult | None, str]:
        """Translate the captions of the sources that are shown, if that is asked for.

        A server that cannot be used is said, and stops nothing: workers read captions as they are.
        """
        parameters = self.options.translation
        if parameters is None:
            return None, ""
        sources = {record.source_id for record in self.shown.records}
        captions = [clip.caption for id_ in sorted(sources) for clip in self.release.clips(id_)]
        servers = Servers(self.options.model_servers, self.release.store.root)
        try:
            with TranslationStore(self.release.store.root) as translations:
                result = translate_captions(captions, parameters, servers, translations, self._asked())
        except PrerequisiteError as problem:
            self.progress.say(f"captions are not translated: {problem}")
            return None, str(problem)
        self.progress.say(result.in_words())
        return result, ""

    def _asked(self) -> Callable[[int, int, str], None]:
        expected = False

        def asked(_done: int, total: int, note: str) -> None:
            nonlocal expected
            if not expected:
                expected = True
                self.progress.expect(_TRANSLATE, total)
            self.progress.done(_TRANSLATE, note, int(bool(note)))

        return asked

    def publish(self, open_executor: Callable[[], Executor]) -> PublishResult:
        """Write the videos that are missing, and put the pairs before people."""
        failed = self._write_videos(open_executor)
        result = publish(self.desk, self.release, self.campaign, self.shown, failed)
        self.progress.say(result.in_words())
        return result

    def _write_videos(self, open_executor: Callable[[], Executor]) -> dict[str, str]:
        """Return by source id why its videos could not be written."""
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

        def died(item: Item[MediaWork, MediaTask, MediaOutcome], message: str) -> MediaOutcome:
            return MediaOutcome(item.source.id, rows=(message,))

        work = MediaWork(str(store.root), self.release.name, self.release.version)
        self.progress.expect(_VIDEOS.name, len(tasks))
        with open_executor() as executor:
            items = [Item(task, (), [_VIDEOS]) for task in tasks]
            through_stages(executor, work, items, self.progress, ended, died)
        return failed

    def filter(self, collected: Collected) -> str:
        """Filter the release if that is asked for and due, and return what came of it, for a person."""
        when = self.options.filter
        if when == "never" or (when == "complete" and not collected.complete):
            return ""
        name = self.campaign.name
        if name not in VotesStore(self.release.store).campaigns():
            return f"Nobody has voted in campaign {name} yet, so nothing is filtered."
        people = read_release_votes(self.release, [name])
        if people is None:
            return f"Nobody has voted on a pair of release {self.release.name} yet, so nothing is filtered."
        made = write_filtered(self.release, people, self.options.filtered or None)
        kept = sum(bool(one.kept) for one in people.outcomes)
        verb = "is written" if made.new else "was there already"
        says = (
            f"Release {made.release.name} version {made.release.version} {verb}: {kept} of "
            f"{len(people.outcomes)} pairs stay."
        )
        self.progress.say(says)
        return says


@contextmanager
def annotation(options: AnnotateOptions, progress: BuildProgress) -> Iterator[Annotation]:
    """Open the desk and give a run that is prepared.

    Raises
    ------
    SlvmevalError
        If it cannot start.
    """
    root = Store.open(Path(options.store)).root
    # the key first: it refuses where a database is there and its key is gone
    key = installation_key(root)
    with Desk.open(options.database, key) as desk:
        made = Annotation(options, desk, key, progress)
        made.prepare()
        yield made


def table(result: AnnotationResult) -> list[dict[str, Any]]:
    """Return what a run did as rows of a table, for Prefect's UI."""
    one, votes = result.published, result.collected
    return [
        {"what": "pairs shown", "count": one.shown, "new": one.new},
        {"what": "pairs left out by licence", "count": one.withheld_pairs, "new": ""},
        {"what": "pairs without videos", "count": one.failed_pairs, "new": ""},
        {"what": "pairs with all their votes", "count": votes.done, "new": ""},
        {"what": "votes", "count": "", "new": votes.votes},
        {"what": "decisions", "count": "", "new": votes.decisions},
    ]
