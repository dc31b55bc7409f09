"""A release that was judged exactly as the paper prints: from the counts behind its tables."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from storage_schemas.judgements import Judgement
from tasks.recipe import BUILT_IN
from tasks.report.judged_release import JudgedRelease, names_of
from tasks.report.systems import ASPECT_ORDER
from tasks.statistics.trials import Trial
from tasks.votes.release_votes import PEOPLE
from tests.papers.tables import JUDGES, SCORERS, counts, trials_with

POLICIES = ("ignore-max", "each-truncate")
QUALITY = ("aesthetics", "technical_quality", "appearance_style", "background_consistency")


def _trials() -> list[Trial]:
    trials: list[Trial] = []
    for evaluator in (*JUDGES, *SCORERS, "human"):
        for aspect in ASPECT_ORDER:
            fitting = counts()[evaluator, aspect]
            if fitting:
                # where two counts print the same accuracy, the greater has the printed interval
                trials += trials_with(evaluator, aspect, fitting[-1])
            else:
                trials += trials_with(evaluator, aspect, 286, tied=1)
    trials = [replace(one, settings=PEOPLE[1]) if one.evaluator == PEOPLE[0] else one for one in trials]
    for policy in POLICIES:
        for aspect in ASPECT_ORDER:
            trials += trials_with(f"clipscore-{policy}", aspect, counts()[policy, aspect][0])
    return trials


def _policy_row(policy: str) -> Judgement:
    return Judgement(
        key=policy,
        evaluator=f"clipscore-{policy}",
        settings="",
        pair_id="aesthetics-0",
        source_id="source-0",
        aspect="aesthetics",
        order="apart",
        preferred="high",
        details=f'{{"high": {{"prompt": {{"policy": "{policy}"}}}}}}',
    )


def printed_release() -> JudgedRelease:
    """Return judgements that give every printed accuracy of tables 2 and 5."""
    trials = tuple(_trials())
    records = [
        SimpleNamespace(
            aspect=aspect,
            category="quality" if aspect in QUALITY else "consistency",
            source_id="source-0",
            low_checksum=aspect,
            low_frames=100,
            fps=1.0,
        )
        for aspect in ASPECT_ORDER
    ]
    release: Any = SimpleNamespace(
        name="main_1 & more",
        version=3,
        recipe=BUILT_IN["paper"].model_dump(mode="json"),
        info={},
        pairs=lambda: records,
        sources=lambda: [SimpleNamespace(source_id="source-0", duration_s=100.0, adapter="vript")],
        prompt=lambda _source: "A caption\nand another",
    )
    rows = tuple(_policy_row(policy) for policy in POLICIES)
    return judged_release(release, trials, names_of({trial.who for trial in trials}), rows)


def judged_release(
    release: Any, trials: tuple[Trial, ...], names: dict[Any, str], rows: tuple[Judgement, ...] = ()
) -> JudgedRelease:
    return JudgedRelease(
        release=release,
        rows=rows,
        names=names,
        trials=trials,
        all_trials=trials,
        strengths={},
        main_strength={},
        main_clips=5,
    )
