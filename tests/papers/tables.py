"""The printed tables of SLVMEval as text, the counts behind them, and trials made from the counts."""

from __future__ import annotations

import csv
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from storage_schemas.judgements import Order, Preferred
from tasks.statistics.trials import Trial, TrialPair
from tests.papers.printed_counts import counts_that_print

FOLDER = Path(__file__).parent / "slvmeval"
#: Evaluators of table 2 that were asked in both orders; people gave five answers a pair.
JUDGES = tuple(
    f"{model}-{view}" for view in ("video", "text") for model in ("gpt-5", "gpt-5-mini", "qwen3-vl")
)
SCORERS = ("clipscore", "videoscore")
WORKERS = 5
#: 130 is the only number near table 3's 131 that all nine printed accuracies fit; see test_main_table.
SCORED = {"technical_quality": 130}

Cell = tuple[str, str]


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def claims() -> dict[str, Any]:
    return tomllib.loads((FOLDER / "claims.toml").read_text(encoding="utf-8"))


@cache
def pairs_of(aspect: str) -> int:
    """How many pairs of an aspect were scored: table 3, but for technical quality."""
    final = {row["aspect"]: int(row["final"]) for row in rows("table3")}
    return SCORED.get(aspect, final[aspect])


def answers_of(evaluator: str, aspect: str) -> int:
    """How many answers an evaluator gave for an aspect."""
    times = 2 if evaluator in JUDGES else WORKERS if evaluator == "human" else 1
    return times * pairs_of(aspect)


def printed(name: str, value: str) -> dict[Cell, str]:
    """Return one column of a table by evaluator (or policy) and aspect, as it is printed."""
    return {(row.get("evaluator") or row["policy"], row["aspect"]): row[value] for row in rows(name)}


@cache
def counts() -> dict[Cell, tuple[int, ...]]:
    """Counts of right answers behind tables 2 and 5, from the printed accuracies alone."""
    accuracies = printed("table2", "accuracy") | printed("table5", "accuracy")
    return {cell: counts_that_print(text, answers_of(*cell)) for cell, text in accuracies.items()}


def trials_with(evaluator: str, aspect: str, right: int, tied: int = 0) -> list[Trial]:
    """Return an evaluator's trials on an aspect of which the first `right` are right, the last ties."""
    asked = answers_of(evaluator, aspect)
    orders: tuple[Order, ...] = ("high_first", "low_first")
    trials = []
    for number in range(asked):
        place, time = number % pairs_of(aspect), number // pairs_of(aspect)
        pair = TrialPair(f"{aspect}-{place}", f"source-{place}", aspect, duration_s=100.0 + place)
        # each worker saw an order of their own; a judge is asked the same in both
        order: Order = "apart" if evaluator not in JUDGES and evaluator != "human" else orders[time % 2]
        repeat = time if evaluator == "human" else 0
        preferred: Preferred | None = "high" if number < right else "low"
        if number >= asked - tied:
            preferred = "tie"
        trials.append(Trial(evaluator, "", pair, order, repeat, preferred))
    return trials
