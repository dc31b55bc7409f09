"""The report tells judges that see damage from those that notice edits, and accuracies leave controls out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.judgements import Judgement, Order, Preferred
from storage_schemas.pair import PairRecord
from storage_schemas.rng import keyed_rng
from tasks.report.accuracy import accuracy_table, matrix_of
from tasks.report.detection_tables import detection_table
from tasks.report.figures import figures_of
from tasks.report.judged_release import JudgedRelease, load_judged_release, main_pairs
from tests.tasks.publish.judging import Answers, build_wide, judged, scored


def _coin(record: PairRecord, order: Order) -> bool:
    return bool(keyed_rng("known judges", record.pair_id, order).integers(2))


def sees(record: PairRecord, order: Order) -> Preferred:
    """Right on damage; a coin where nothing is worse."""
    return "high" if not record.control or _coin(record, order) else "low"


def notices_edits(record: PairRecord, order: Order) -> Preferred:
    return "high"


def prefers_first(record: PairRecord, order: Order) -> Preferred:
    return "high" if order == "high_first" else "low"


def reads_length(record: PairRecord, order: Order) -> Preferred:
    if record.low_frames != record.high_frames:
        return "high"
    return "high" if _coin(record, order) else "low"


JUDGES: dict[str, Answers] = {
    "sees": sees,
    "edits": notices_edits,
    "first": prefers_first,
    "length": reads_length,
}


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> JudgedRelease:
    release = build_wide(tmp_path_factory.mktemp("wide"), 30, controls=True)
    records = release.pairs()
    rows: list[Judgement] = []
    for name, answers in JUDGES.items():
        rows += judged(name, records, answers)

    def shorter(record: PairRecord, order: Order) -> Preferred:
        return "tie" if record.low_frames == record.high_frames else "high"

    rows += scored("duration", records, shorter)
    return load_judged_release(release, judgements=rows)


def cell(rows: Iterable[Any], evaluator: str, aspect: str) -> Any:
    (row,) = [row for row in rows if (row["evaluator"], row["aspect"]) == (evaluator, aspect)]
    return row


def test_the_four_known_judges_are_told_apart(gathered: JudgedRelease) -> None:
    rows = detection_table(gathered).rows
    seen, edits, first, length = (cell(rows, name, "comprehensiveness") for name in JUDGES)
    # the accuracies of three of them are the same
    assert seen["hits"] == edits["hits"] == length["hits"] == 1.0
    assert seen["alarms_low"] < 0.5 < seen["alarms_high"]
    assert seen["d_beyond_low"] > 1
    assert edits["alarms"] == length["alarms"] == 1.0
    assert edits["d_beyond"] == length["d_beyond"] == 0
    assert (first["hits"], first["alarms"]) == (0.5, 0.5)
    assert first["bias_high"] < -1 < seen["bias_low"]
    # a judge of length has nothing where lengths are equal; one that notices edits does
    length, edits = (cell(rows, name, "dynamics_degree") for name in ("length", "edits"))
    assert length["hits_low"] < 0.5 < length["hits_high"]
    assert edits["hits"] == edits["alarms"] == 1.0


def test_the_shortcut_index_is_the_best_trivial_number_on_the_same_pairs(gathered: JudgedRelease) -> None:
    rows = detection_table(gathered).rows
    shown = {aspect: cell(rows, "sees", aspect) for aspect in ("comprehensiveness", "dynamics_degree", "all")}
    assert {name: (row["shortcut"], row["shortcut_by"]) for name, row in shown.items()} == {
        "comprehensiveness": (1.0, "duration"),
        "dynamics_degree": (0.5, "duration"),
        "all": (0.75, "duration"),
    }


def test_accuracies_leave_controls_out(gathered: JudgedRelease) -> None:
    matrix = matrix_of(gathered)
    assert [row.pairs for row in matrix.rows] == [30, 30]
    assert cell(accuracy_table(gathered, matrix).rows, "sees", "comprehensiveness")["requests"] == 60
    assert not any(trial.pair.control for trial in (*gathered.trials, *gathered.all_trials))
    assert len(gathered.control_trials) == 60 * (2 * len(JUDGES) + 1)
    controls = {record.pair_id for record in gathered.release.pairs() if record.control}
    assert not controls & main_pairs(gathered.release)
    (figure,) = figures_of({"signal-detection": detection_table(gathered)}, [*gathered.names.values()])
    assert figure.name == "signal-detection"


def test_a_release_without_controls_has_the_shortcuts_alone(tmp_path: Path) -> None:
    release = build_wide(tmp_path, 6)
    rows = [*judged("sees", release.pairs(), sees), *scored("duration", release.pairs(), notices_edits)]
    table = detection_table(load_judged_release(release, judgements=rows))
    row = cell(table.rows, "sees", "comprehensiveness")
    assert (row["hits"], row["shortcut"], row["controls"]) == (1.0, 1.0, 0)
    assert "alarms" not in row


def test_controls_alone_have_rows(gathered: JudgedRelease) -> None:
    controls = {one.pair.pair_id for one in gathered.control_trials}
    rows = [row for row in gathered.rows if row.pair_id in controls]
    alone = load_judged_release(gathered.release, judgements=rows)
    assert alone.aspects == []
    shown = detection_table(alone).rows
    assert {row["aspect"] for row in shown} > {"all"}
    assert all(row.get("hits") is None and row["alarms"] is not None for row in shown)


def test_all_pairs_compare_damage_and_edits_of_the_same_aspects(gathered: JudgedRelease) -> None:
    kept, *others = {one.pair.aspect for one in gathered.control_trials}
    few = replace(
        gathered, control_trials=tuple(one for one in gathered.control_trials if one.pair.aspect == kept)
    )
    of = {(row["aspect"], row["evaluator"]): row for row in detection_table(few).rows}
    assert others
    for name in JUDGES:
        assert of["all", name]["d_beyond"] == pytest.approx(of[kept, name]["d_beyond"])
