"""Evaluators that say where the damage is: what counts as an answer, and how it is scored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storage_schemas.judgements import Judgement
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from tasks.report.judged_release import load_judged_release
from tasks.report.localisation_table import localisation_table, named_intervals
from tasks.report.release_report import report_of
from tests.tasks.publish.judging import build_wide, row

FILMS = 4


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_wide(tmp_path_factory.mktemp("wide"), FILMS)


def details(**values: Any) -> dict[str, str]:
    return {"details": json.dumps(values)}


def judge(name: str, record: PairRecord, **values: Any) -> Judgement:
    """An answer that names intervals, or nothing, and is right."""
    return row(name, record, "high_first", "high", **details(**values))


def exact(record: PairRecord) -> list[list[float]]:
    return [list(interval) for interval in record.low_intervals]


def test_judges_and_scorers_are_scored_on_what_they_name(wide: Release) -> None:
    rows: list[Judgement] = []
    for record in wide.pairs(aspect="dynamics_degree"):
        first, second, *_ = exact(record)
        both = {"high": {"intervals": [[0, 9]]}, "low": {"intervals": [first, second, [9e6, 9e6 + 1]]}}
        rows += [
            judge("exact", record, intervals=exact(record)),
            # the other order took the source for the damaged video
            row("exact", record, "low_first", "low", **details(intervals=[[0, 5]])),
            row("silent", record, "high_first", "high"),
            judge("odd", record, intervals="everywhere"),
            judge("all", record, intervals=[[0, record.low_frames]]),
            row("scorer", record, "apart", "low", **details(**both)),
        ]
    report = report_of(load_judged_release(wide, judgements=rows))
    lines = {line["evaluator"]: line for line in report.tables["localisation"].rows}
    assert set(lines) == {"exact", "odd", "all", "scorer"}
    right = lines["exact"]
    assert (right["answers"], right["elsewhere"], right["unreadable"]) == (FILMS, FILMS, 0)
    assert (right["overlap"], right["precision"], right["recall"]) == (1, 1, 1)
    # the five clips are neighbours, and so one interval
    assert (right["hits"], right["intervals"], right["named"]) == (FILMS, FILMS, FILMS)
    odd = lines["odd"]
    assert (odd["answers"], odd["unreadable"], odd["overlap"], odd["whole"]) == (0, FILMS, None, None)
    whole = lines["all"]
    assert whole["overlap"] == whole["whole"] == pytest.approx(5 / 12)
    assert (whole["recall"], whole["hits"]) == (1, 0)
    # whom a scorer prefers does not change what it says of the low-quality video
    scorer = lines["scorer"]
    assert (scorer["answers"], scorer["elsewhere"], scorer["named"]) == (FILMS, 0, 2 * FILMS)
    assert scorer["recall"] == pytest.approx(2 / 5)


def test_each_aspect_has_its_line(wide: Release) -> None:
    rows = [judge("exact", record, intervals=exact(record)) for record in wide.pairs()]
    assert len(localisation_table(load_judged_release(wide, judgements=rows)).rows) == 2


def test_who_says_nothing_leaves_the_table_empty(wide: Release) -> None:
    rows = [row("silent", record, "high_first", "high") for record in wide.pairs()]
    table = localisation_table(load_judged_release(wide, judgements=rows))
    assert (table.rows, table.empty) == ((), "No evaluator here says where the damage is.")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"intervals": []}', ()),
        ('{"intervals": [[1, 2.5], [0, 1]]}', ((1.0, 2.5), (0.0, 1.0))),
        ("{}", None),
        ("[1]", None),
        *(
            (f'{{"intervals": {text}}}', "unreadable")
            for text in (
                *("[[2, 1]]", "[[1]]", "[[-1, 2]]", "[[NaN, 2]]", "[[0, Infinity]]", "[[true, 2]]"),
                *('[["0:10", "0:20"]]', "null"),
            )
        ),
    ],
)
def test_what_an_answer_names(wide: Release, text: str, named: object) -> None:
    record = wide.pairs()[0]
    assert named_intervals(row("judge", record, "high_first", "high", details=text)) == named


def test_a_tie_names_no_video(wide: Release) -> None:
    tie = row("judge", wide.pairs()[0], "high_first", "tie", **details(intervals=[[0, 1]]))
    assert named_intervals(tie) == "elsewhere"
