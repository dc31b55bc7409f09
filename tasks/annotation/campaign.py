"""The settings of one campaign: what it shows, workers, languages and pay."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from storage_schemas.names import CAMPAIGN_NAME_RULE, is_campaign_name
from storage_schemas.regular_files import read_regular_text
from storage_schemas.rng import derived_seed
from storage_schemas.value_problems import first_error
from tasks.annotation.checks import CHECK_SHARE
from tasks.scoring.suites.guide import Guide
from tasks.votes.quality import RuleName
from tasks.votes.stopping import MARGIN, SAVED, least_votes, most_votes, wanted_votes

#: What people do: compare the videos of a pair, or rate single videos in one dimension.
CampaignKind = Literal["pairs", "ratings"]
#: A language of the pages, as browsers name it: ours are `en` and `ja`, others come with a folder of texts.
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]


#: Part watched before the preference.
Viewing = Literal["marked", "free", "drawn"]
#: From this share of a part on, the playhead was in it (SLVMEval, appendix A.3, asks for no more).
PLAYHEAD = 0.01
#: The ways of drawn viewing: what is watched before the preference, and the share of a part; None as set.
DRAWN: Mapping[str, tuple[Viewing, float | None]] = {
    "marked": ("marked", None),
    "free": ("free", None),
    "playhead": ("free", PLAYHEAD),
}
#: Votes on a pair (SLVMEval, section 4.4).
PAPER_WORKERS = 5


class Words(NamedTuple):
    """What a kind of campaign calls a task, an answer, and a group of tasks."""

    task: str
    answer: str
    group: str

    @property
    def tasks(self) -> str:
        """Several tasks."""
        return f"{self.task}s"

    @property
    def answers(self) -> str:
        """Several answers."""
        return f"{self.answer}s"


_WORDS: Mapping[CampaignKind, Words] = {
    "pairs": Words("pair", "vote", "aspect"),
    "ratings": Words("video", "rating", "dimension"),
}


class Campaign(Frozen):
    """One campaign.

    Parameters
    ----------
    name
        The campaign's name: letters, digits, ``-`` and ``_``.
    kind
        ``pairs`` of a release, or ``ratings`` of single generated videos.
    release, version
        The release that is shown; of pairs only.
    suite
        The suite in whose dimensions videos are rated; of ratings only.
    guides
        What raters read about each dimension, by dimension and language; of ratings only.
    workers_per_pair
        Votes needed on each pair (SLVMEval, section 4.4: 5), with `until_certain` the usual number; the
        default is the release's recipe. In a campaign of ratings the ratings of each video in each dimension
        (Video-Bench, section 5.2: 4).
    until_certain
        Whether a pair gets at least two votes fewer than `workers_per_pair`, then one after the other until
        it is certain, at most two more (:mod:`tasks.votes.stopping`), and the filter weighs votes; under the
        rule `strict`. Excluded workers' votes do not count then.
    most_workers
        People who may take part; 0 for no limit. In a campaign of ratings 10 by default (Video-Bench, 5.2).
    check_ratings
        Whether only ratings that a second person has confirmed are collected (Video-Bench, section 5.2).
    languages
        Languages of the pages; the first is the default.
    aspects
        Aspects to show; by default all of the release.
    lease_minutes
        A task that is not answered within this time goes to another worker.
    tasks_per_worker
        Maximum number of tasks per worker; 0 for no limit.
    rule
        Which workers it lists for review: ``strict`` by the paper's indicators, check tasks and the worker
        model; ``paper`` by the indicators alone, without check tasks.
    gold_pairs
        Pairs with obvious damage.
    gold_share
        Share of tasks that are gold pairs; under the rule `paper`.
    check_share
        Share of check tasks after a worker's first eight, see :func:`tasks.annotation.checks.check_due`; 0
        for none at all. Under the rule `strict`.
    equal_pairs
        Number of check tasks that show two equal videos; under the rule `strict`.
    training
        Number of gold pairs with which each worker trains before the first task: what was changed is
        explained after the answer, which is paid like any other and counts nowhere.
    comprehension
        Whether workers answer a question about the instructions before their first task, with two tries; who
        fails both is paid for the time and gets no tasks.
    screen_out_code
        Code for workers who fail; by default that for finishing.
    closed
        Whether no new tasks are assigned; open ones may be answered.
    control_pairs
        Maximum number of each aspect's controls that people are asked about, by a keyed draw; a smaller
        number is a subset of a larger one. They are shown like pairs, and their votes never decide a pair.
    most_speed
        Fastest playback that counts as seen.
    least_seen
        Share of a degraded stretch that must be played before it can be confirmed; players are slightly
        inexact at both ends.
    look_share
        Share of each video that must be played before the preference. With 0 it is what is changed on either
        side, in both videos, among as many unchanged clips (:func:`tasks.annotation.pair_task.first_look`).
    viewing
        Part watched before the preference: ``marked``, see `look_share`, or ``free``, where nothing is
        asked for and nothing is marked (SLVMEval, appendix A.2); ``drawn`` is an experiment, in which each
        worker has one of the ways of :data:`DRAWN`, and all are paid alike.
    drop_excluded
        Whether votes of excluded workers stop counting, so that their pairs return to the queue; set by the
        release's recipe (`FilterRule.drop_excluded`).
    pay_per_task, pay_per_hour, currency
        What a worker receives for one task: an amount, or a rate for each hour of the task's expected time
        (SLVMEval, appendix A.1). Shown on the consent page, and used for the organiser's costs.
    expected_share, expected_answer_s
        The expected time of a task: the part of its videos to watch, times `expected_share`, plus
        seconds for reading and answering.
    completion_code
        Code that workers enter on the platform when they have finished; if empty, each worker gets a code of
        their own.
    public_url
        The address at which workers reach the pages, ``https://HOST``: links carry it, and the server answers
        under it; empty for a campaign on one machine.
    contact, organisation
        Who answers workers' questions; shown on the consent page.
    consent
        The text that workers agree to, by language, in plain paragraphs; ours by default.
    """

    name: str
    kind: CampaignKind = "pairs"
    release: str = ""
    version: int = 0
    suite: str = ""
    guides: tuple[Guide, ...] = ()
    workers_per_pair: int = Field(default=5, ge=1)
    until_certain: bool = True
    most_workers: int = Field(default=0, ge=0)
    check_ratings: bool = True
    languages: tuple[Language, ...] = ("en", "ja")
    aspects: tuple[str, ...] = ()
    lease_minutes: float = Field(default=120.0, gt=0)
    tasks_per_worker: int = Field(default=0, ge=0)
    rule: RuleName = "strict"
    gold_pairs: tuple[str, ...] = ()
    gold_share: float = Field(default=0.0, ge=0, le=0.5)
    check_share: float = Field(default=CHECK_SHARE, ge=0, le=0.5)
    equal_pairs: int = Field(default=12, ge=0)
    training: int = Field(default=0, ge=0, le=5)
    comprehension: bool = False
    screen_out_code: str = ""
    closed: bool = False
    control_pairs: int = Field(default=10, ge=0)
    most_speed: float = Field(default=2.0, ge=1, le=4)
    least_seen: float = Field(default=0.9, gt=0, le=1)
    look_share: float = Field(default=0.0, ge=0, le=1)
    viewing: Viewing = "marked"
    drop_excluded: bool = False
    pay_per_task: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    pay_per_hour: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    expected_share: float = Field(default=1.0, gt=0, le=4)
    expected_answer_s: float = Field(default=60.0, ge=0, le=86_400)
    currency: str = "USD"
    completion_code: str = ""
    public_url: str = ""
    organisation: str = ""
    contact: str = ""
    consent: dict[Language, str] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _name_is_a_word(cls, value: str) -> str:
        if not is_campaign_name(value):
            raise ValueError(f"a campaign's name must be {CAMPAIGN_NAME_RULE}")
        return value

    @model_validator(mode="after")
    def _shows_something(self) -> Self:
        if self.kind == "pairs" and not (self.release and self.version > 0):
            raise ValueError("a campaign of pairs needs a release and its version")
        if self.kind == "ratings" and not self.suite:
            raise ValueError("a campaign of ratings needs a suite")
        if self.training > len(self.gold_pairs):
            raise ValueError(
                f"training asks for {self.training} gold pairs, and gold_pairs names {len(self.gold_pairs)}"
            )
        if (self.comprehension or self.training) and self.kind == "ratings":
            raise ValueError("comprehension and training are about pairs: leave them out for ratings")
        if self.viewing != "marked" and self.look_share:
            raise ValueError(
                f"{self.viewing} viewing asks for no share of the videos: leave out look_share or viewing"
            )
        if 0 < self.most_workers < self.votes_at_most:
            at_most = "" if self.votes_at_most == self.workers_per_pair else f" + {MARGIN}"
            raise ValueError(
                f"most_workers is smaller than workers_per_pair{at_most}: a worker answers a task only once"
            )
        return self

    @property
    def look_first(self) -> float | None:
        """Share of each video that is watched before the preference; 0 for marked parts, None for nothing."""
        return None if self.viewing == "free" else self.look_share

    def shown_to(self, worker: str) -> Campaign:
        """Return the campaign as one worker has it: of drawn viewing, with the way that was drawn."""
        if self.viewing != "drawn":
            return self
        ways = list(DRAWN.values())
        viewing, least_seen = ways[derived_seed("viewing", self.name, worker) % len(ways)]
        return self.model_copy(update={"viewing": viewing, "least_seen": least_seen or self.least_seen})

    @property
    def protocol(self) -> str:
        """The protocol of the answers: ``paper``, or its differences in words."""
        as_in_paper = self.viewing == "free" and self.least_seen <= PLAYHEAD
        if self.rule == "paper" and as_in_paper and self.workers_per_pair == PAPER_WORKERS:
            return "paper"
        share = f"{self.look_share:.0%} of each video first"
        before = share if self.look_share else f"{self.viewing} viewing"
        if self.least_seen <= PLAYHEAD:
            before += ", the playhead in each part"
        votes = str(self.workers_per_pair)
        if self.weighs:
            votes = f"{self.votes_at_least} to {self.votes_at_most}"
        return f"rule {self.rule}, {before}, {votes} votes"

    @property
    def checks(self) -> float:
        """Share of check tasks after a worker's first eight; 0 if there are none at all."""
        return self.check_share if self.rule == "strict" and self.kind == "pairs" else 0.0

    @property
    def weighs(self) -> bool:
        """Whether pairs get votes until they are certain, and votes are weighed."""
        return self.until_certain and self.rule == "strict" and self.kind == "pairs"

    @property
    def drops_excluded(self) -> bool:
        """Whether excluded workers' votes stop counting."""
        return self.drop_excluded or self.weighs

    @property
    def votes_at_least(self) -> int:
        """Number of votes or ratings that every task gets."""
        return least_votes(self.workers_per_pair) if self.weighs else self.workers_per_pair

    @property
    def votes_at_most(self) -> int:
        """Number of votes or ratings after which a task gets no more."""
        return most_votes(self.workers_per_pair) if self.weighs else self.workers_per_pair

    @property
    def filter_rule(self) -> dict[str, Any] | None:
        """Its changes to the recipe's filter rule; None for none."""
        if self.kind != "pairs":
            return None
        rule = {"workers_per_pair": self.workers_per_pair, "drop_excluded": self.drops_excluded}
        return {**rule, "until_certain": self.weighs}

    def votes_wanted(self, votes: int, clear: float) -> int:
        """Return the expected number of votes of a pair.

        Parameters
        ----------
        votes
            Number of votes that count.
        clear
            Probability that its damage is clear; if votes are weighed.
        """
        return wanted_votes(votes, clear, self.workers_per_pair) if self.weighs else self.workers_per_pair

    def votes_expected(self, votes: int, wanted: int) -> int:
        """Return the number of votes that a pair will probably have in the end.

        Parameters
        ----------
        votes, wanted
            Its current and expected numbers of votes.
        """
        few = self.weighs and votes < self.votes_at_least
        return max(wanted, self.workers_per_pair - SAVED) if few else wanted

    @property
    def words(self) -> Words:
        """What it calls its tasks and answers."""
        return _WORDS[self.kind]

    @property
    def shows(self) -> str:
        """Its content, in words."""
        return f"release {self.release} version {self.version}" if self.release else f"suite {self.suite}"

    def guide(self, dimension: str, language: str) -> Guide:
        """Return the guide of a dimension in a language of the pages."""
        return next(one for one in self.guides if (one.dimension, one.language) == (dimension, language))

    @field_validator("languages")
    @classmethod
    def _some_language(cls, value: tuple[Language, ...]) -> tuple[Language, ...]:
        if not value or len(set(value)) != len(value):
            raise ValueError("name at least one language, and each only once")
        return value

    @model_validator(mode="after")
    def _one_way_to_pay(self) -> Campaign:
        if self.pay_per_task and self.pay_per_hour:
            raise ValueError("give pay_per_task or pay_per_hour, not both")
        # the consent page shows an amount with the currency's decimals, and that is what is paid
        if round(self.pay_per_task, decimals(self.currency)) != self.pay_per_task:
            raise ValueError(
                f"pay_per_task is {self.pay_per_task:g}, and {self.currency} has "
                f"{decimals(self.currency)} decimals"
            )
        return self

    @field_validator("public_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        try:
            return checked_address(value, "public_url") if value else ""
        except UserInputError as problem:
            raise ValueError(str(problem)) from problem

    def expected_s(self, watch_s: float) -> float:
        """Return the expected time of a task in seconds, from the seconds to watch."""
        return self.expected_share * watch_s + self.expected_answer_s

    def pay_for(self, watch_s: float) -> float:
        """Return the pay of a task, from the seconds to watch.

        By the hour it is rounded up to the smallest unit, so that no worker gets less than the rate.
        """
        if not self.pay_per_hour:
            return self.pay_per_task
        return self._rounded_up(self.expected_s(watch_s) / 3600 * self.pay_per_hour)

    def pay_for_time(self, seconds: float, usual_watch_s: float) -> float:
        """Return the pay of time that is not a task's, rounded up like that of tasks.

        Parameters
        ----------
        seconds
            The time.
        usual_watch_s
            Time to watch in a usual task: where tasks have one pay, its time gives the rate.
        """
        hourly = self.pay_per_hour or 3600 * self.pay_per_task / max(self.expected_s(usual_watch_s), 1.0)
        return self._rounded_up(seconds / 3600 * hourly)

    def _rounded_up(self, pay: float) -> float:
        units = 10.0 ** decimals(self.currency)
        # what rounding of binary fractions adds must not cost a unit
        return math.ceil(pay * units - 1e-6) / units


def checked_address(url: str, name: str = "--public-url") -> str:
    """Return the address at which workers reach the pages, without a trailing slash.

    Parameters
    ----------
    name
        The option or setting, for the message.

    Raises
    ------
    UserInputError
        If it is not ``https://HOST`` or ``http://HOST``, with a port or without.
    """
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme not in ("http", "https") or not parts.hostname or url.rstrip("/") != address:
        raise UserInputError(
            f"{name} {url!r}: give the address at which workers reach the pages: https://HOST, or "
            "https://HOST:PORT"
        )
    return address


#: Currencies without minor units.
_WHOLE_UNITS = frozenset({"JPY", "KRW", "VND", "CLP", "ISK"})


def decimals(currency: str) -> int:
    """Return the number of decimals of amounts in a currency."""
    return 0 if currency in _WHOLE_UNITS else 2


def money(value: float, currency: str) -> str:
    """Return an amount of money; currencies without minor units have no decimals.

    Examples
    --------
    >>> money(1234.5, "EUR"), money(110, "JPY")
    ('1,234.50 EUR', '110 JPY')
    """
    return f"{value:,.{decimals(currency)}f} {currency}"


def read_settings(path: Path) -> dict[str, Any]:
    """Read the values of a TOML file, whatever they are.

    Raises
    ------
    UserInputError
        If the file is missing, cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(read_regular_text(path))
    except FileNotFoundError as problem:
        raise UserInputError(f"{path} does not exist") from problem
    except OSError as problem:
        raise UserInputError(f"{path} cannot be read: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{path} is not valid TOML: {problem}") from problem


def load_campaign(path: Path, default_name: str | None = None, **over: object) -> Campaign:
    """Read a campaign from a TOML file; `over` overrides its values.

    `default_name` is the name of a campaign whose file has none.

    Raises
    ------
    UserInputError
        If the file is missing or not TOML, or a value is invalid.
    """
    values = read_settings(path)
    if default_name is not None:
        values.setdefault("name", default_name)
    try:
        return Campaign.model_validate({**values, **over})
    except ValidationError as problem:
        raise UserInputError(f"{path}: {first_error(problem, Campaign.model_fields)}") from problem
