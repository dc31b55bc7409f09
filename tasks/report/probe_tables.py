"""What a judge's accuracy rests on: its accuracy next to that of its probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tasks.report.judged_pairs import JudgedPairs
from tasks.report.table import ALL, ASPECT, EVALUATOR, Column, Table, interval_columns
from tasks.scoring.probes import PROBES, SAME_VIDEOS, probe_settings
from tasks.statistics.cells import cell_of
from tasks.statistics.intervals import mean_interval
from tasks.statistics.trials import Trial, Who, grouped, pair_points

_NONE = "No judge was probed: `slvmeval evaluate --probe blind,no-prompt,…` does it."


def probe_tables(gathered: JudgedPairs) -> tuple[Table, Table]:
    """Return accuracies next to those of the probes, and the differences with intervals."""
    wide: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    asked = grouped(gathered.probe_trials, lambda trial: trial.who)
    for aspect in (*gathered.aspects, ALL) if asked else ():
        plain = gathered.by_who([trial for trial in gathered.trials if aspect in (ALL, trial.pair.aspect)])
        for who, name in gathered.names.items():
            probes = _probes(who, asked, aspect)
            if not probes:
                continue
            head = {"aspect": aspect, "evaluator": name}
            made = [_difference(probe, plain.get(who, []), some, gathered) for probe, some in probes.items()]
            rests_on = [one["probe"] for one in made if one.get("high") is not None and one["high"] < 0]
            whole = cell_of(plain[who], gathered.ties) if who in plain else None
            wide.append(
                {
                    **head,
                    "accuracy": whole.accuracy if whole else None,
                    **{one["probe"]: one["value"] for one in made},
                    "rests_on": ", ".join(_RESTS_ON[probe] for probe in rests_on),
                }
            )
            differences += [{**head, **one} for one in made]
    return (
        Table(
            "probes",
            "What accuracies rest on",
            (
                ASPECT,
                EVALUATOR,
                Column("accuracy", "as it is", "percent"),
                *(Column(probe, probe, "percent") for probe in PROBES),
                Column("rests_on", "rests on"),
            ),
            tuple(wide),
            "Accuracy of the same judge if it is given something else: "
            + "; ".join(f"{probe}: {given}" for probe, given in PROBES.items())
            + ". For blind and equal, where no answer is right, it is how often the first is named: 50 % is "
            "no preference. A judge rests on what costs it accuracy, with an interval below 0.",
            "" if wide else _NONE,
        ),
        Table(
            "probe-differences",
            "Accuracies of probes and what they cost",
            (
                ASPECT,
                EVALUATOR,
                Column("probe", "probe"),
                Column("value", "accuracy", "percent"),
                Column("difference", "difference", "points"),
                *interval_columns("95 %", "points"),
                Column("pairs", "pairs", "count"),
                Column("failed", "failed", "count"),
            ),
            tuple(differences),
            "Difference: accuracy of the probe minus that of the unmodified judge, on the pairs that both "
            "answered; its interval is clustered by source.",
            "" if differences else _NONE,
        ),
    )


_RESTS_ON: Mapping[str, str] = {
    "one-frame": "more than one frame",
    "shuffled": "the order of frames",
    "no-prompt": "a prompt",
    "other-prompt": "the right prompt",
    "swapped-names": "the names of the videos",
}


def _probes(who: Who, asked: Mapping[Who, Sequence[Trial]], aspect: str) -> dict[str, list[Trial]]:
    """Return the trials of an evaluator's probes by probe."""
    found = {}
    for probe in PROBES:
        some = asked.get((f"{who[0]}+{probe}", probe_settings(who[1], probe)), ())
        some = [trial for trial in some if aspect in (ALL, trial.pair.aspect)]
        if some:
            found[probe] = some
    return found


def _difference(
    probe: str, plain: Sequence[Trial], some: Sequence[Trial], gathered: JudgedPairs
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "probe": probe,
        "pairs": len({trial.pair.pair_id for trial in some}),
        "failed": sum(trial.preferred is None for trial in some),
    }
    if probe in SAME_VIDEOS:
        named = [{"first": 1.0, "second": 0.0}.get(trial.choice or "", 0.5) for trial in some if trial.choice]
        return {**row, "value": sum(named) / len(named) if named else None}
    before, after = pair_points(plain, gathered.ties), pair_points(some, gathered.ties)
    row["value"] = sum(after.values()) / len(after) if after else None
    both = [pair for pair in after if pair in before]
    if not both:
        return row
    changes = np.array([after[pair] - before[pair] for pair in both])
    interval = mean_interval(changes, [pair.source_id for pair in both])
    row["difference"] = float(changes.mean())
    return row if interval is None else {**row, "low": interval.low, "high": interval.high}
