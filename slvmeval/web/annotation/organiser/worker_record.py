"""A worker's record for the organiser: indicators with thresholds, and votes next to those of others."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from slvmeval.web.annotation.organiser.campaign_state import Facts, Trouble, troubles
from storage_schemas.votes import Check, Decision, Vote
from tasks.annotation.desk.extras import Extra
from tasks.annotation.desk.organiser import WorkerProgress
from tasks.votes.quality import Flag, QualityRule, WorkerQuality, evidence

_STEPS = {"A": 0, "B": 1, "C": 2}
_CHECKS = {Check.EQUAL: "equal videos", Check.AGAIN: "repeated, sides swapped"}
ORDERS = ("newest", "fastest", "apart")
#: Number of tasks shown as the best evidence for a worker's flags.
_TELLING = 3


@dataclass(frozen=True, kw_only=True)
class PersonRow:
    """One row of the list of workers, of a pair or rating campaign.

    Parameters
    ----------
    worker, platform, language, entered_at
        As stored by the desk; empty if votes came only from files.
    open
        Tasks open now.
    standing
        ``excluded``, ``cleared`` or empty.
    last
        Time of the newest answer; empty if unknown.
    check
        How the question before the first task ended: ``passed``, ``failed``, or empty.
    extras
        Payments other than for votes.
    """

    worker: str
    platform: str = ""
    language: str = ""
    entered_at: str = ""
    open: int = 0
    standing: str = ""
    last: str = ""
    check: str = ""
    extras: tuple[Extra, ...] = ()

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The worker's flags; raters have none and are judged by their numbers."""
        return ()

    @property
    def listed(self) -> bool:
        """Whether a person should review the worker."""
        return False

    @property
    def kinds(self) -> frozenset[str]:
        """The list filters that include the worker."""
        kinds = {self.standing} if self.standing else set()
        kinds |= {"flagged"} if self.flags else set()
        kinds |= {"listed"} if self.listed else set()
        return frozenset(kinds)


def known(one: WorkerProgress) -> dict[str, Any]:
    """Return the values of a row that come from the desk."""
    names = ("worker", "platform", "language", "entered_at", "open", "standing", "check", "extras")
    return {name: getattr(one, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class WorkerRow(PersonRow):
    """One line of the list.

    Parameters
    ----------
    quality
        The indicators; None without a vote.
    alpha
        Agreement of the ratings with those of others; None if nothing can be compared.
    """

    quality: WorkerQuality | None
    alpha: float | None

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The worker's flags."""
        return self.quality.flags if self.quality else ()

    @property
    def listed(self) -> bool:
        """Whether a person should review the worker."""
        return self.quality is not None and self.quality.review


@dataclass(frozen=True)
class Indicator:
    """One indicator of a worker.

    Parameters
    ----------
    count, of
        Number of tasks to which it applied, and to which it could have applied; `count` is None if nothing
        is counted.
    counted
        What is counted, or estimated instead.
    threshold
        The condition for the flag.
    flagged
        Whether the worker has the flag.
    """

    name: str
    count: int | None
    of: int
    counted: str
    threshold: str
    flagged: bool


@dataclass(frozen=True)
class VoteBeside:
    """One vote of the worker next to those of others on the same pair.

    Parameters
    ----------
    others
        Their ratings, sorted, such as ``AAAB``.
    others_right, others_number
        Number of others who preferred the high-quality video.
    apart
        Steps between the rating and the others' most frequent rating, 0 to 2; None without other votes.
    time_share
        Duration of the task divided by that of its two videos.
    fastest
        Share of the campaign's timed votes of this aspect that were as fast or faster, in (0, 1].
    against
        The flags that the vote counts towards, whether the worker has them or not.
    same
        For a repeated pair, whether the worker preferred the same video as the first time; None for other
        pairs.
    """

    vote: Vote
    others: str
    others_right: int
    others_number: int
    apart: int | None
    time_share: float | None
    fastest: float | None
    against: tuple[Flag, ...]
    same: bool | None = None

    @property
    def right(self) -> bool:
        """Whether the high-quality video was preferred."""
        return self.vote.preferred == "high"

    @property
    def checks(self) -> str:
        """What the task checks, in words; empty for a pair of the release."""
        if self.vote.check is not None:
            return _CHECKS[self.vote.check]
        return "known answer" if self.vote.gold else "control" if self.vote.control else ""


@dataclass(frozen=True)
class PersonView:
    """What the review pages of both kinds of workers share; the newest decision comes first."""

    row: PersonRow
    votes: Sequence[object]
    decisions: tuple[Decision, ...]
    trouble: tuple[Trouble, ...]


@dataclass(frozen=True)
class WorkerView(PersonView):
    """The review page's data.

    Parameters
    ----------
    telling
        The votes that best explain the worker's flags; empty without flags.
    """

    row: WorkerRow
    votes: tuple[VoteBeside, ...]
    indicators: tuple[Indicator, ...]
    needed_flags: int
    telling: tuple[VoteBeside, ...]
    order: str


def worker_rows(
    facts: Facts, judged: Sequence[WorkerQuality], alphas: dict[str, float | None]
) -> list[WorkerRow]:
    """Return all workers: those to review first, then by flags and votes, those without votes last."""
    last: dict[str, str] = {}
    for vote in facts.votes:
        last[vote.worker] = max(vote.at, last.get(vote.worker, ""))
    platforms = {vote.worker: (vote.platform, vote.language) for vote in facts.votes}
    entered = {one.worker: one for one in facts.workers}
    by_worker = {one.worker: one for one in judged}
    rows = []
    for worker in [*by_worker, *(one for one in entered if one not in by_worker)]:
        quality = by_worker.get(worker)
        decided = quality.decision.decision.value if quality and quality.decision else ""
        platform, language = platforms.get(worker, ("", ""))
        values: dict[str, Any] = {"worker": worker, "standing": decided}
        values |= known(entered[worker]) if worker in entered else {}
        values |= {"platform": values.get("platform") or platform}
        values |= {"language": values.get("language") or language, "last": last.get(worker, "")}
        rows.append(WorkerRow(**values, quality=quality, alpha=alphas.get(worker)))
    return rows


def indicators(quality: WorkerQuality, rule: QualityRule) -> tuple[Indicator, ...]:
    """Describe the paper's indicators with their numbers and thresholds, then the worker model's verdict."""
    easy = f"{rule.easy_agreement:.0%} of at least {rule.easy_least_votes} votes agree"
    return (
        Indicator(
            "Fast",
            quality.fast,
            quality.timed,
            f"tasks whose time, over the length of their videos, is among the shortest {rule.fast_share:.0%} "
            "of their aspect",
            f"{rule.fast_times} or more, and {rule.fast_of:.0%} of the timed tasks or more",
            Flag.FAST in quality.flags,
        ),
        Indicator(
            "Disagrees",
            quality.disagreed,
            quality.easy,
            f"easy pairs ({easy}) that the worker rated {rule.apart} steps away or more; from A to C are 2",
            f"{rule.disagrees_times} or more, and {rule.disagrees_of:.0%} of the easy pairs or more",
            Flag.DISAGREES in quality.flags,
        ),
        Indicator(
            "Inaccurate",
            quality.solved,
            quality.solvable,
            f"right, of the tasks on which {rule.most_reach:.0%} of {rule.others} others or more preferred "
            "the better video, and of gold pairs",
            f"{rule.low_accuracy:.0%} or less, of at least {rule.low_least_votes} such tasks",
            Flag.INACCURATE in quality.flags,
        ),
        *(() if quality.careful is None else (_careless(quality, quality.careful, rule),)),
    )


def _careless(quality: WorkerQuality, careful: float, rule: QualityRule) -> Indicator:
    kind = "" if quality.kind is None else f"; the likeliest kind of worker: {quality.kind.value}"
    estimate = (
        f"Nothing to say yet: {quality.votes} of the {rule.doubt_least_votes} tasks that an estimate needs"
        if quality.votes < rule.doubt_least_votes
        else f"The probability that the worker is careless now is {_chance(1 - careful)}, by check tasks and "
        f"the votes of others{kind}"
    )
    return Indicator(
        "Careless",
        None,
        0,
        estimate,
        f"{rule.doubt:.0%} or more, after at least {rule.doubt_least_votes} tasks",
        Flag.CARELESS in quality.flags,
    )


def _chance(probability: float) -> str:
    """Return a probability in words that claim no certainty."""
    return "over 99%" if probability > 0.99 else "under 1%" if probability < 0.01 else f"{probability:.0%}"


def worker_view(facts: Facts, row: WorkerRow, order: str) -> WorkerView:
    """Return the review page's data; `order` is one of `ORDERS`, by default the first."""
    rule = QualityRule(name=facts.campaign.rule)
    order = order if order in ORDERS else ORDERS[0]
    votes = beside(facts.votes, row.worker, rule)
    return WorkerView(
        row=row,
        indicators=indicators(row.quality, rule) if row.quality else (),
        needed_flags=rule.flags_for_review,
        votes=tuple(_sorted(votes, order)),
        telling=_telling(votes, row.flags),
        order=order,
        **told(facts, row.worker),
    )


def told(facts: Facts, worker: str) -> dict[str, Any]:
    """Return the decisions about a worker, newest first, and the refusals."""
    return {
        "decisions": tuple(one for one in reversed(facts.decisions) if one.worker == worker),
        "trouble": troubles(facts.tallies.by_worker.get(worker, {})),
    }


def beside(votes: Sequence[Vote], worker: str, rule: QualityRule) -> list[VoteBeside]:
    """Return a worker's votes next to those of others."""
    own = [vote for vote in votes if vote.worker == worker]
    pairs, aspects = {vote.pair_id for vote in own}, {vote.aspect for vote in own}
    others: dict[str, list[Vote]] = defaultdict(list)
    times: dict[str, list[float]] = defaultdict(list)
    for vote in votes:
        if vote.pair_id in pairs and vote.worker != worker:
            others[vote.pair_id].append(vote)
        if vote.aspect in aspects and (share := _time_share(vote)) is not None:
            times[vote.aspect].append(share)
    for some in times.values():
        some.sort()
    against = evidence(votes, worker, rule)
    first = {vote.pair_id: vote.preferred for vote in own}
    return [
        # if files contain two votes on a pair, only one counts
        replace(
            _one(vote, others[vote.pair_id], times[vote.aspect], against.get(vote.vote_id, ())),
            same=first[vote.judged] == vote.preferred
            if vote.check is Check.AGAIN and vote.judged in first
            else None,
        )
        for vote in own
    ]


def _telling(votes: Sequence[VoteBeside], flags: Sequence[Flag]) -> tuple[VoteBeside, ...]:
    """Return the votes that count towards most of the worker's flags, then those farthest apart and fastest.

    Each flag is represented, if any vote counts towards it.
    """

    def strength(one: VoteBeside) -> tuple[int, int, float]:
        return (
            len(set(one.against) & set(flags)),
            one.apart or 0,
            -(1.0 if one.fastest is None else one.fastest),
        )

    ordered = sorted((one for one in votes if set(one.against) & set(flags)), key=strength, reverse=True)
    chosen: list[VoteBeside] = []
    for flag in flags:
        if not any(flag in one.against for one in chosen):
            chosen += [one for one in ordered if flag in one.against][:1]
    chosen += [one for one in ordered if one not in chosen]
    return tuple(sorted(chosen[:_TELLING], key=strength, reverse=True))


def _one(vote: Vote, others: Sequence[Vote], times: Sequence[float], against: tuple[Flag, ...]) -> VoteBeside:
    ratings = "".join(sorted(other.rating for other in others))
    most = Counter(ratings).most_common(1)
    share = _time_share(vote)
    fastest = None if share is None else bisect_right(times, share) / len(times)
    return VoteBeside(
        vote=vote,
        others=ratings,
        others_right=sum(other.preferred == "high" for other in others),
        others_number=len(others),
        apart=abs(_STEPS[vote.rating] - _STEPS[most[0][0]]) if most else None,
        time_share=share,
        fastest=fastest,
        against=against,
    )


def _time_share(vote: Vote) -> float | None:
    known = vote.total_s is not None and vote.pair_duration_s > 0
    return vote.total_s / vote.pair_duration_s if known and vote.total_s is not None else None


def _sorted(votes: list[VoteBeside], order: str) -> list[VoteBeside]:
    newest = sorted(votes, key=lambda one: one.vote.at, reverse=True)
    if order == "fastest":
        return sorted(newest, key=lambda one: (one.fastest is None, one.fastest or 0.0))
    if order == "apart":
        return sorted(newest, key=lambda one: (-(one.apart or 0), one.right))
    return newest
