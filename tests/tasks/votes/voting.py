"""Votes for the tests of the filter and of worker quality."""

from __future__ import annotations

from typing import Any

from storage_schemas.pair import PairRecord
from storage_schemas.votes import Decision, Standing, Vote


def vote(pair: str, worker: str, rating: str = "A", preferred: str = "high", **more: Any) -> Vote:
    values: dict[str, Any] = {
        "vote_id": f"{more.get('campaign', 'spring')}-{pair}-{worker}",
        "campaign": "spring",
        "release": "wide",
        "version": 1,
        "pair_id": pair,
        "source_id": pair.partition("/")[0],
        "aspect": "color",
        "worker": worker,
        "first": "high" if len(worker) % 2 else "low",
        "preferred": preferred,
        "rating": rating,
        "preference_s": 40.0,
        "total_s": 100.0,
        "pair_duration_s": 400.0,
        "opened_at": "2026-03-02T08:59:00+00:00",
        "at": "2026-03-02T09:00:00+00:00",
        **more,
    }
    return Vote(**values)


def vote_on(record: PairRecord, worker: str, *said: str, **more: Any) -> Vote:
    """Return a vote on a pair of a release."""
    return vote(record.pair_id, worker, *said, source_id=record.source_id, aspect=record.aspect, **more)


def votes_on(pair: str, ratings: str, **more: Any) -> list[Vote]:
    """Return one vote per letter, each of a different worker."""
    return [vote(pair, f"worker{place}", letter, **more) for place, letter in enumerate(ratings)]


def decision(worker: str, standing: Standing, at: str = "2026-03-03T00:00:00+00:00", **more: Any) -> Decision:
    values: dict[str, Any] = {
        "decision_id": f"{worker}-{at}",
        "campaign": "spring",
        "worker": worker,
        "decision": standing,
        "note": "",
        "by": "Dr. Kim",
        "at": at,
        **more,
    }
    return Decision(**values)
