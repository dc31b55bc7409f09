"""The content of a store's page, read again each time; nothing is written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slvmeval.store_status import status_values
from storage_schemas.errors import SlvmevalError, StoreError
from storage_schemas.extras import explain_missing_packages
from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from storage_schemas.sizes import size_text
from storage_schemas.store import Store
from storage_schemas.votes import VotesStore
from storage_schemas.written_pages import WrittenPage, written_pages
from tasks.annotation.installation import database_url, installation_key, sqlite_file
from tasks.scoring.suites.score_store import ScoresStore


@dataclass(frozen=True)
class Group:
    """Numbers of answers or scores under one name, and of failed ones."""

    name: str
    within: str
    rows: int
    failed: int


@dataclass(frozen=True)
class CampaignLine:
    """A campaign: what it asks about, and its progress, which is None where only collected votes are known.

    `release` is the release it asks about, ``NAME@VERSION``; empty for none.
    """

    name: str
    about: str
    release: str
    answered: int | None
    left: int | None


@dataclass(frozen=True)
class Overview:
    """All that the page shows.

    `problems` are sentences about what could not be read, by section.
    """

    status: dict[str, Any]
    pages: list[WrittenPage]
    judges: list[Group]
    suites: list[Group]
    campaigns: list[CampaignLine]
    problems: dict[str, str]

    @property
    def running(self) -> bool:
        """Whether a build is running."""
        return any(run["status"] == "running" for run in self.status["runs"])

    @property
    def sizes(self) -> list[tuple[str, int, str]]:
        """Kind, number and size of the artifacts."""
        return [
            (kind.replace("_", " "), size["count"], size_text(size["bytes"]))
            for kind, size in self.status["sizes"].items()
        ]

    @property
    def free(self) -> str:
        """Free space of the file system."""
        return size_text(self.status["bytes_free"])


@dataclass(frozen=True)
class ReleasePage:
    """A version of a release: pairs built and planned by aspect, what was set aside, and its pages."""

    name: str
    about: str
    recipe: str
    created_at: str
    aspects: list[tuple[str, int, int]]
    set_aside: list[tuple[str, int]]
    pages: list[WrittenPage]


def release_page(store: Store, name: str, version: int) -> ReleasePage:
    """Read a release.

    Raises
    ------
    UserInputError
        If it does not exist.
    StoreError
        If it is damaged.
    """
    release = Release.open(store, name, version)
    about = f"{release.name}, version {release.version}"
    return ReleasePage(
        release.name,
        about,
        str(release.info.get("recipe", "")),
        str(release.info.get("created_at", "")),
        [
            (aspect.replace("_", " "), row["built"], row["planned"])
            for aspect, row in release.summary().items()
        ],
        Counter(row.reason.value.replace("_", " ") for row in release.set_aside()).most_common(),
        [page for page in written_pages(store) if page.about == about],
    )


def overview(store: Store, database: str | None = None) -> Overview:
    """Read a store; a part that is damaged is reported, and the others are shown.

    Parameters
    ----------
    database
        Address of the annotation database; by default the one in the store, if there is one.
    """
    problems: dict[str, str] = {}
    judges: list[Group] = []
    suites: list[Group] = []
    campaigns: list[CampaignLine] = []
    try:
        judged = JudgementsStore(store)
        judges = _groups(judged.settled(judged.all_rows()), "evaluator")
    except StoreError as problem:
        problems["judges"] = str(problem)
    try:
        scores = ScoresStore(store)
        suites = _groups(scores.settled(scores.all_rows()), "model", "suite")
    except StoreError as problem:
        problems["suites"] = str(problem)
    try:
        campaigns = campaign_lines(store, database)
    except SlvmevalError as problem:
        problems["campaigns"] = str(problem)
    return Overview(status_values(store), written_pages(store), judges, suites, campaigns, problems)


def _groups(table: pa.Table, name: str, within: str = "") -> list[Group]:
    keys = [name, within] if within else [name]
    failed = pc.cast(pc.fill_null(pc.not_equal(table["failure"], ""), False), pa.int64())
    counted = (
        table.select(keys)
        .append_column("failed", failed)
        .group_by(keys)
        .aggregate([([], "count_all"), ("failed", "sum")])
        .sort_by([(key, "ascending") for key in reversed(keys)])
    )
    return [
        Group(row[name], row[within] if within else "", row["count_all"], row["failed_sum"])
        for row in counted.to_pylist()
    ]


def campaign_lines(store: Store, database: str | None) -> list[CampaignLine]:
    """Return the campaigns of the database, or their collected votes if the store has no database.

    Raises
    ------
    UserInputError, PrerequisiteError, StoreError
        If the database cannot be used.
    """
    if database is None and not sqlite_file(store.root).exists():
        return [
            CampaignLine(name, "collected votes", "", None, None) for name in VotesStore(store).campaigns()
        ]
    with explain_missing_packages():
        from tasks.annotation.desk.desk import Desk
    desk = Desk.open(database_url(store.root, database), installation_key(store.root))
    try:
        lines = []
        for one in desk.campaigns.all():
            about, release = f"ratings for {one.suite}", ""
            if one.kind == "pairs":
                about = f"release {one.release}, version {one.version}"
                release = f"{one.release}@{one.version}"
            progress = [task for task in desk.organiser.progress(one.name) if not task.gold]
            left = sum(max(0, task.expected - task.votes) for task in progress)
            answered = sum(task.votes for task in progress)
            lines.append(CampaignLine(one.name, about, release, answered, left))
        return lines
    finally:
        desk.close()
