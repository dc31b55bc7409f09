"""Tables `votes` and `decisions`, and the append-only files that store them, one folder per campaign.

A vote is a worker's answer on a pair; a decision concerns a worker.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa
from pydantic import ValidationError

from storage_schemas.commit import private_folder, private_modes, sync_path, write_atomic
from storage_schemas.errors import IntegrityError, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.json_checksum import read_checked_json, with_checksum
from storage_schemas.model import Frozen
from storage_schemas.names import CAMPAIGN_NAME_RULE, is_campaign_name
from storage_schemas.regular_files import read_regular
from storage_schemas.row_store import add_part, new_name, parts_of, read_part, retry_read
from storage_schemas.store import Store
from storage_schemas.value_problems import first_error, problem_text

#: A: the damage is clear in all degraded clips; B: weak, or not in all; C: failed in all (SPEC, section 4).
Rating = Literal["A", "B", "C"]
SideWord = Literal["high", "low"]
#: Origin of a vote: our own pages, or a file from a platform.
Origin = Literal["web", "file"]

VOTES = pa.schema(
    [
        ("vote_id", pa.string()),
        ("campaign", pa.string()),
        ("release", pa.string()),
        ("version", pa.int32()),
        ("pair_id", pa.string()),
        ("source_id", pa.string()),
        ("aspect", pa.string()),
        ("worker", pa.string()),
        ("platform", pa.string()),
        ("origin", pa.string()),
        ("language", pa.string()),
        ("gold", pa.bool_()),
        ("control", pa.bool_()),
        ("first", pa.string()),
        ("preferred", pa.string()),
        ("rating", pa.string()),
        ("preference_s", pa.float64()),
        ("total_s", pa.float64()),
        ("watched_s", pa.float64()),
        ("pair_duration_s", pa.float64()),
        ("comment", pa.string()),
        ("protocol", pa.string()),
        ("opened_at", pa.string()),
        ("at", pa.string()),
    ]
)

DECISIONS = pa.schema(
    [
        ("decision_id", pa.string()),
        ("campaign", pa.string()),
        ("worker", pa.string()),
        ("decision", pa.string()),
        ("note", pa.string()),
        ("by", pa.string()),
        ("at", pa.string()),
    ]
)


class Check(StrEnum):
    """Purpose of a task that checks its worker. Stored in ids: never rename a value."""

    #: both videos are the high side: neither is damaged
    EQUAL = "equal"
    #: a pair that the worker has judged before, with its sides swapped
    AGAIN = "again"


_CHECKS = {check.value: check for check in Check}


def check_id(pair_id: str, check: Check) -> str:
    """Return the id of a check task based on a pair.

    Examples
    --------
    >>> check_id("film/color", Check.EQUAL)
    'film/color~equal'
    """
    return f"{pair_id}~{check.value}"


def check_of(task_id: str) -> tuple[str, Check | None]:
    """Return the pair of a task, and what the task checks; None if it is the pair itself.

    Examples
    --------
    >>> check_of("film/color~again")
    ('film/color', <Check.AGAIN: 'again'>)
    """
    pair_id, _, name = task_id.rpartition("~")
    check = _CHECKS.get(name) if pair_id else None
    return (task_id, None) if check is None else (pair_id, check)


class Answer(Frozen):
    """One worker's answer on one task: a vote on a pair, or a rating of a single video.

    Parameters
    ----------
    vote_id
        Id of the assignment (web) or checksum of the row (file); the same answer has the same id everywhere.
    campaign
        Name of the campaign.
    pair_id, aspect
        Id of the task, and its aspect; for a rating, the video's dimension.
    worker
        Keyed hash of the worker, 32 hexadecimal digits.
    platform
        Origin of the worker: ``link``, ``prolific``, ``mturk``, or the name of a custom platform.
    gold
        Whether the task is an attention check; its votes do not count in the filter.
    total_s
        Seconds from opening the task to the rating, by the server's clock; None if a platform does not report
        them.
    watched_s
        Seconds of media actually played, all videos together; None if unknown.
    pair_duration_s
        Duration of all videos together, in seconds.
    opened_at, at
        When the task was opened and the rating stored, UTC in ISO 8601; empty if unknown.
    """

    vote_id: str
    campaign: str
    pair_id: str
    aspect: str
    worker: str
    platform: str = "link"
    origin: Origin = "web"
    language: str = "en"
    gold: bool = False
    total_s: float | None = None
    watched_s: float | None = None
    pair_duration_s: float
    comment: str = ""
    opened_at: str = ""
    at: str = ""


class Vote(Answer):
    """One worker's answer on one pair.

    Parameters
    ----------
    control
        Whether the pair is a control, in which neither side is better.
    first
        The side shown on the left or first.
    preferred
        The side the worker preferred before the intended answer was shown.
    rating
        The worker's rating of the degradation afterwards.
    preference_s
        Seconds from opening the task to the preference, as `total_s`.
    protocol
        Protocol under which the worker answered, ``paper`` or in words; empty if unknown.
    """

    release: str
    version: int
    source_id: str
    control: bool = False
    first: SideWord
    preferred: SideWord
    rating: Rating
    preference_s: float | None = None
    protocol: str = ""

    @property
    def check(self) -> Check | None:
        """Purpose of its task; None for a pair of the release."""
        return check_of(self.pair_id)[1]

    @property
    def judged(self) -> str:
        """The pair that was judged: for a repeated pair the pair itself, for two equal videos the task."""
        pair_id, check = check_of(self.pair_id)
        return pair_id if check is Check.AGAIN else self.pair_id


class Standing(StrEnum):
    """Decision about a worker. Stored: never rename a value."""

    EXCLUDED = "excluded"
    CLEARED = "cleared"


class Decision(Frozen):
    """An organiser's decision about a worker; the worker's latest decision applies.

    Parameters
    ----------
    note
        Reason for the decision.
    by
        Name of the person who decided.
    """

    decision_id: str
    campaign: str
    worker: str
    decision: Standing
    note: str
    by: str
    at: str


RowKind = Literal["votes", "decisions"]
VoteRow = TypeVar("VoteRow", Vote, Decision)
_SCHEMAS: dict[RowKind, pa.Schema] = {"votes": VOTES, "decisions": DECISIONS}


@dataclass(frozen=True)
class Added:
    """Number of new rows and of rows already stored."""

    new: int
    known: int


class Erased(Frozen):
    """Record of the erasure of one worker's rows.

    `mark` is a checksum of the worker's id. Rows up to `at` (ISO 8601) are erased: the time of the erasure,
    or that of the latest row if it is later.
    """

    mark: str
    votes: int
    decisions: int
    at: str


class VotesStore:
    """The votes and decisions of one store.

    Parameters
    ----------
    store
        The store; nothing is written before the first row.
    """

    def __init__(self, store: Store) -> None:
        self.path = store.root / "annotation"

    def campaigns(self) -> list[str]:
        """Return the names of the campaigns that have votes or decisions."""
        names = {path.name for kind in _SCHEMAS for path in self._folders(kind)}
        return sorted(name for name in names if is_campaign_name(name))

    def with_rules(self) -> list[str]:
        """Return the names of the campaigns that were collected, including those without votes."""
        names = (path.stem for path in (self.path / "rules").glob("*.json"))
        return sorted(name for name in names if is_campaign_name(name))

    def votes(self, campaigns: Iterable[str] = ()) -> list[Vote]:
        """Return the votes of the given campaigns (all by default), sorted by campaign and id.

        Raises
        ------
        IntegrityError
            If a file is damaged.
        """
        return [row for name in self._named(campaigns) for row in self._rows("votes", name, Vote)]

    def decisions(self, campaigns: Iterable[str] = ()) -> list[Decision]:
        """Return the decisions of the given campaigns (all by default), oldest first.

        Raises
        ------
        IntegrityError
            If a file is damaged.
        """
        decisions = [
            row for name in self._named(campaigns) for row in self._rows("decisions", name, Decision)
        ]
        return sorted(decisions, key=lambda row: (moment(row.at), row.decision_id))

    def add(self, votes: Iterable[Vote]) -> Added:
        """Add the votes that are not stored yet, except those of erased workers.

        Raises
        ------
        IntegrityError
            If a vote with the same id is stored with another answer.
        UserInputError
            If the name of a campaign is not valid.
        """
        return self._add("votes", list(votes), Vote)

    def add_decisions(self, decisions: Iterable[Decision]) -> Added:
        """Add the decisions that are not stored yet; raises like :meth:`add`."""
        return self._add("decisions", list(decisions), Decision)

    def decide(self, campaign: str, worker: str, decision: Standing, note: str, by: str) -> Decision:
        """Store a decision about a worker, dated now; raises like :meth:`add`."""
        made = Decision(
            decision_id=uuid.uuid4().hex,
            campaign=campaign,
            worker=worker,
            decision=decision,
            note=note,
            by=by,
            at=_now(),
        )
        self.add_decisions([made])
        return made

    def keep_rules(
        self,
        campaign: str,
        rule: Mapping[str, Any] | None,
        workers: str,
        unanswered: Collection[str] = (),
        gold: Collection[str] = (),
    ) -> None:
        """Store the rules of a campaign, the pairs still without votes, and its gold pairs.

        Parameters
        ----------
        rule
            Its changes to the filter's rule; None for none.
        workers
            Name of the rule that lists workers for review.
        unanswered
            Pairs that are shown and have no vote yet.
        gold
            Its gold pairs, also those that no worker was asked about.
        """
        rules = {
            "filter": None if rule is None else dict(rule),
            "workers": workers,
            "unanswered": sorted(unanswered),
            "gold": sorted(gold),
        }
        write_atomic(self._rule_file(campaign), with_checksum(json.dumps(rules, sort_keys=True)))

    def kept_rule(self, campaign: str) -> dict[str, Any] | None:
        """Return a campaign's changes to the filter's rule; None if there are none.

        Raises
        ------
        IntegrityError
            If the file is damaged.
        """
        rule: dict[str, Any] | None = self._rules(campaign).get("filter")
        return rule

    def workers_rule(self, campaign: str) -> str | None:
        """Return the name of the rule by which a campaign lists workers; None if unknown.

        Raises
        ------
        IntegrityError
            If the file is damaged.
        """
        name: str | None = self._rules(campaign).get("workers")
        return name

    def unanswered(self, campaign: str) -> set[str]:
        """Return the pairs that a campaign shows and that had no vote when its votes were last collected.

        Raises
        ------
        IntegrityError
            If the file is damaged.
        """
        return set(self._rules(campaign).get("unanswered", ()))

    def gold(self, campaign: str) -> set[str]:
        """Return a campaign's gold pairs, as of when its votes were last collected.

        Raises
        ------
        IntegrityError
            If the file is damaged.
        """
        return set(self._rules(campaign).get("gold", ()))

    def _rules(self, campaign: str) -> dict[str, Any]:
        try:
            rules: dict[str, Any] = json.loads(read_checked_json(self._rule_file(campaign)))
        except FileNotFoundError:
            return {}
        return rules

    def _rule_file(self, campaign: str) -> Path:
        return self.path / "rules" / f"{_checked(campaign)}.json"

    def erase(self, campaign: str, worker: str) -> Erased:
        """Erase all rows of a worker; later votes of the worker are accepted again.

        Repeat it after a crash to erase the remaining rows.
        """
        votes = [row.at for row in self.votes([campaign]) if row.worker == worker]
        decisions = [row.at for row in self.decisions([campaign]) if row.worker == worker]
        # a row may lie in the future if our clock was set back or a file had a wrong time zone
        at = max([*votes, *decisions, _now()], key=moment)
        erased = Erased(mark=_mark(campaign, worker), votes=len(votes), decisions=len(decisions), at=at)
        # from here on the rows are ignored, even if the files remain
        folder = self.path / "erased" / _checked(campaign)
        data = erased.model_dump_json()
        write_atomic(folder / new_name(digest_text(data), ".json"), data.encode())
        # another process may be erasing another worker and rewrite a file that contained both
        while any([self._sweep(kind, campaign) for kind in _SCHEMAS]):
            pass
        return erased

    def erased(self, campaign: str) -> list[Erased]:
        """Return the erasures of a campaign, oldest first.

        Raises
        ------
        IntegrityError
            If a file is damaged; erased rows must not reappear because of that.
        """
        folder = self.path / "erased" / _checked(campaign)
        records = []
        for path in sorted(folder.glob("[!.]*.json")) if folder.is_dir() else []:
            try:
                records.append(Erased.model_validate_json(read_regular(path)))
            except ValidationError as problem:
                raise IntegrityError(
                    f"{path} is damaged ({first_error(problem)}): restore it from a copy"
                ) from problem
        return records

    def erased_workers(self, campaign: str) -> Callable[[str, str], bool]:
        """Return a function that says whether a worker's rows from a time (ISO 8601) were erased."""
        return self._gone(campaign).covers

    def _sweep(self, kind: RowKind, campaign: str) -> bool:
        """Rewrite the files that contain erased rows; return whether there were any."""
        gone, swept = self._gone(campaign), False
        for part in self._parts(kind, campaign):
            with suppress(FileNotFoundError):
                table = read_part(part)
                people = zip(table["worker"].to_pylist(), table["at"].to_pylist(), strict=True)
                stays = [not gone.covers(worker, at) for worker, at in people]
                if not all(stays):
                    swept = True
                    if any(stays):
                        self._write(kind, campaign, table.filter(pa.array(stays)))
                    part.unlink(missing_ok=True)
                    sync_path(part.parent)
        return swept

    # -- files ---------------------------------------------------------------------------------------

    def _write(self, kind: RowKind, campaign: str, table: pa.Table) -> None:
        """Add rows that only this user can read, or the group if the store belongs to a group."""
        folder = self._folder(kind, campaign)
        for one in (self.path, folder.parent, folder):
            private_folder(one, self.path.parent)
        add_part(folder, table, mode=private_modes(self.path.parent)[1])

    def _add(self, kind: RowKind, rows: list[Any], model: type[VoteRow]) -> Added:
        given: dict[str, dict[str, VoteRow]] = {}
        for row in rows:
            rows_by_id = given.setdefault(_checked(row.campaign), {})
            _same(rows_by_id.setdefault(_id(row), row), row)
        new = 0
        for campaign, some in given.items():
            stored = {_id(row): row for row in self._rows(kind, campaign, model)}
            for id_ in some.keys() & stored.keys():
                _same(stored[id_], some[id_])
            gone = self._gone(campaign)
            added = [
                row for id_, row in some.items() if id_ not in stored and not gone.covers(row.worker, row.at)
            ]
            if added:
                plain = [row.model_dump(mode="json") for row in added]
                self._write(kind, campaign, pa.Table.from_pylist(plain, schema=_SCHEMAS[kind]))
            new += len(added)
        return Added(new, len(rows) - new)

    def _rows(self, kind: RowKind, campaign: str, model: type[VoteRow]) -> list[VoteRow]:
        # a worker may be erased between listing and opening
        tables = retry_read(lambda: [read_part(path) for path in self._parts(kind, campaign)])
        gone = self._gone(campaign)
        rows: dict[str, VoteRow] = {}
        try:
            for table in tables:
                for values in table.select(_SCHEMAS[kind].names).to_pylist():
                    row = model.model_validate(values)
                    rows.setdefault(_id(row), row)
        except (ValidationError, KeyError, ValueError) as problem:
            raise IntegrityError(
                f"the {kind} of campaign {campaign} in {self.path} are not valid: {problem_text(problem)}"
            ) from problem
        return [rows[id_] for id_ in sorted(rows) if not gone.covers(rows[id_].worker, rows[id_].at)]

    def _parts(self, kind: RowKind, campaign: str) -> list[Path]:
        return parts_of(self._folder(kind, campaign))

    def _folder(self, kind: RowKind, campaign: str) -> Path:
        return self.path / kind / _checked(campaign)

    def _folders(self, kind: RowKind) -> list[Path]:
        folder = self.path / kind
        return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []

    def _named(self, campaigns: Iterable[str]) -> list[str]:
        named = [campaigns] if isinstance(campaigns, str) else list(dict.fromkeys(campaigns))
        return named or self.campaigns()

    def _gone(self, campaign: str) -> _Gone:
        marks: dict[str, datetime] = {}
        for one in self.erased(campaign):
            marks[one.mark] = max(moment(one.at), marks.get(one.mark, moment(one.at)))
        return _Gone(campaign, marks)


@dataclass(frozen=True)
class _Gone:
    """Time up to which each worker's rows are erased, by the checksum of the worker's id."""

    campaign: str
    until: dict[str, datetime]

    def covers(self, worker: str, at: str) -> bool:
        """Return whether a row was erased; a row without a time counts as old."""
        if not self.until:
            return False
        until = self.until.get(_mark(self.campaign, worker))
        return until is not None and (not at or moment(at) <= until)


def moment(at: str) -> datetime:
    """Parse an ISO 8601 time, in UTC if it has no zone; an empty text precedes all others.

    Raises
    ------
    IntegrityError
        If the text is not a time.
    """
    try:
        time = datetime.fromisoformat(at) if at else datetime.min.replace(tzinfo=UTC)
    except ValueError as problem:
        raise IntegrityError(f"{at!r} is not an ISO 8601 time") from problem
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _id(row: Vote | Decision) -> str:
    return row.vote_id if isinstance(row, Vote) else row.decision_id


def _same(stored: Vote | Decision, given: Vote | Decision) -> None:
    if stored != given:
        raise IntegrityError(
            f"campaign {given.campaign}: {_id(given)} is stored with other values, and stored rows are never "
            "changed; check where this file comes from"
        )


def _checked(campaign: str) -> str:
    if not is_campaign_name(campaign):
        raise UserInputError(f"{campaign!r} is not a valid campaign name: use {CAMPAIGN_NAME_RULE}")
    return campaign


def _mark(campaign: str, worker: str) -> str:
    return digest_text(f"{campaign}\n{worker}")[:32]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
