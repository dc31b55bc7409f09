"""Simulated judges of four known kinds are told apart by the numbers of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.known_judges import JUDGES, THRESHOLD, known_rows
from bench.worked_example import kinds_table
from storage_schemas.ids import digest_text
from storage_schemas.pair import Excerpt
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.aspects.registry import aspect as find_aspect
from tasks.publish.release import write_release
from tasks.recipe import AspectRecipe, Lengths, Recipe, Severity
from tasks.report.judged_release import load_judged_release
from tasks.report.threshold_tables import threshold_tables
from tests.tasks.publish.judging import clip_rows, pair_record, source_row


def build_instrument(folder: Path, sources: int) -> Release:
    """Write a release like that of the recipe `cpu-instrument`: pairs, controls, a ladder and excerpts."""
    recipe = Recipe(
        name="instrument",
        aspects={
            "technical_quality": AspectRecipe(operation="lanczos-down-up", strength="paper"),
            "comprehensiveness": AspectRecipe(operation="remove-clips", strength="paper"),
        },
        severity=Severity(strengths=("0.1", "0.2", "0.4", "0.7")),
        controls=True,
        lengths=Lengths(shares=(0.5,)),
    )
    rows, clips, records = [], [], []
    for source in (f"film-{number}" for number in range(sources)):
        rows.append(source_row(source, digest_text(source), 120))
        clips += clip_rows(source, [(10 * clip, 10) for clip in range(12)])
        for aspect in recipe.aspects:
            scaled = aspect == "technical_quality"
            strengths = recipe.severity.strengths if scaled else ()
            high = 120
            low = high if scaled else high - 50
            for strength in ("paper", *strengths):
                main = strength == "paper"
                values: dict[str, Any] = {
                    "frames_id": digest_text(source),
                    "operation": recipe.aspects[aspect].operation,
                    "category": "consistency",
                    "parameters": recipe.parameters(aspect, None if main else strength).model_dump(),
                    "strength": recipe.strength_label(aspect) if main else strength,
                    "high_frames": high,
                    "high_intervals": ((20.0, 70.0),),
                    "low_intervals": (),
                    "pair_id": digest_text(f"{source}{aspect}{strength}"),
                }
                records.append(pair_record(source, aspect, (), range(2, 7), **{**values, "low_frames": low}))
            main_pair = next(one for one in records if one.pair_id == digest_text(f"{source}{aspect}paper"))
            control = find_aspect(aspect).control
            assert control is not None
            names = {"pair_id": digest_text(f"control{main_pair.pair_id}"), "strength": "control"}
            edit = {"operation": control.operation.name, "parameters": {}, "control": True}
            records.append(main_pair.model_copy(update={**names, **edit}))
            part = Excerpt(
                share=0.5, first_frame=0, frame_count=60, source_frames=120, damage_at=0.5, position="own"
            )
            short = {"pair_id": digest_text(f"short{main_pair.pair_id}"), "excerpt": part}
            frames = {"high_frames": 60, "low_frames": low - 60}
            records.append(main_pair.model_copy(update={**short, **frames}))
    store = Store.create(folder / "store")
    planned = dict.fromkeys(recipe.aspects, sources)
    return write_release(store, "instrument", recipe, records, rows, clips, [], planned)[0]


def test_known_judges_are_told_apart_by_the_numbers_of_the_worked_example(tmp_path: Path) -> None:
    release = build_instrument(tmp_path, 30)
    gathered = load_judged_release(release, judgements=list(known_rows(release.pairs())))
    kinds = {row["evaluator"]: row for row in kinds_table(gathered).rows}
    assert list(kinds) == list(JUDGES)
    sees, edits, first, length = kinds.values()
    assert abs(sees["hits"] - edits["hits"]) < 0.1
    # what each is told by is in its own row alone
    assert sees["d_beyond"] > 1 > max(one["d_beyond"] for one in (edits, first, length))
    assert sees["strongest"] - sees["weakest"] > 0.2
    assert edits["alarms"] > 0.8
    assert edits["weakest"] > 0.8
    assert first["bias"] < -1 < min(one["bias"] for one in (sees, edits, length))
    assert (first["hits"], first["alarms"]) == (0.5, 0.5)
    assert length["longer"] == 1.0
    assert 0.3 < length["same_length"] < 0.7
    thresholds = {
        row["evaluator"]: row
        for row in threshold_tables(gathered)[0].rows
        if row["aspect"] == "technical_quality"
    }
    assert thresholds["sees"]["threshold_low"] < THRESHOLD < thresholds["sees"]["threshold_high"]
    assert thresholds["edits"]["reached"] == "below smallest"
    assert thresholds["first"]["reached"] == "not reached"
