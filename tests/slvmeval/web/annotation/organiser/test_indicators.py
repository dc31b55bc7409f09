"""What the organiser is shown of a worker: the paper's indicators, and under `strict` the model's verdict."""

from __future__ import annotations

from dataclasses import replace

from slvmeval.web.annotation.organiser.worker_record import indicators
from tasks.votes.quality import Flag, QualityRule, WorkerQuality
from tasks.votes.worker_model import WorkerKind

PAPER = WorkerQuality(
    campaign="spring", worker="w", votes=9, timed=9, fast=0, easy=4, disagreed=0, solvable=4, solved=4,
    gold=0, gold_solved=0, flags=(), decision=None, review=False,
)  # fmt: skip


def test_the_model_is_shown_where_it_was_asked() -> None:
    assert [one.name for one in indicators(PAPER, QualityRule())][-1] != "Careless"
    strict = QualityRule(name="strict")
    found = replace(
        PAPER, flags=(Flag.CARELESS,), review=True, careful=0.031, kind=WorkerKind.PREFERS_BY_HABIT
    )
    *paper, careless = indicators(found, strict)
    assert [one.flagged for one in paper] == [False] * 3
    assert (careless.name, careless.count, careless.of, careless.flagged) == ("Careless", 97, 100, True)
    assert "prefers by habit" in careless.counted
    cleared = replace(PAPER, careful=0.98, kind=WorkerKind.CAREFUL)
    assert not indicators(cleared, strict)[-1].flagged
