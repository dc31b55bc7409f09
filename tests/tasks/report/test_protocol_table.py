"""People under several protocols: shares, intervals by worker, and nothing for one protocol."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storage_schemas.release import Release
from storage_schemas.votes import Vote
from tasks.report.figures import figures_of
from tasks.report.judged_release import load_judged_release
from tasks.report.people_tables import protocol_table
from tasks.report.table import Table
from tasks.votes.filter import FilterRule
from tasks.votes.release_votes import ReleaseVotes
from tests.tasks.publish.judging import build_wide, judged
from tests.tasks.votes.voting import vote_on


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_wide(tmp_path_factory.mktemp("wide"), 2)


def table_of(release: Release, votes: list[Vote]) -> Table:
    people = ReleaseVotes(FilterRule(), tuple(votes), (), filtered=False)
    rows = list(judged("judge", release.pairs(), lambda *_: "high"))
    return protocol_table(load_judged_release(release, judgements=rows, people=people))


def test_protocols_stand_side_by_side(wide: Release) -> None:
    pairs = wide.pairs()
    votes = [
        vote_on(one, f"free{n}", "B", "low" if n else "high", protocol="free", watched_s=100.0)
        for one in pairs
        for n in range(4)
    ]
    more = {"protocol": "marked", "watched_s": 200.0}
    votes += [vote_on(one, f"marked{n}", **more) for one in pairs for n in range(4)]
    votes += [vote_on(pairs[0], "other", "C", gold=True, protocol="marked")]
    table = table_of(wide, votes)
    free, marked = table.rows
    assert (free["workers"], free["votes"], free["right"], free["b"]) == (4, 16, 0.25, 1.0)
    assert (marked["right"], marked["a"], marked["watched"], marked["seconds"]) == (1.0, 1.0, 0.5, 40.0)
    assert "difference" not in free
    assert marked["difference"] == 0.75
    assert marked["low"] < 0.75 < marked["high"]
    # four workers who always answer alike are four values, not sixteen
    assert free["right_high"] - free["right_low"] > 0.5
    (figure,) = figures_of({"protocols": table}, [])
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg.decode())
    assert [text for text in shown if text in ("free", "marked")] == ["free", "marked"]
    assert [text for text in shown if text in ("A", "B", "C")] == ["A", "B", "C"]
    # the free ones say B, the marked ones A: of six bars two have a length, and it is the same
    bars = re.findall(
        r'<path d="M ([\d.]+) [\d.]+ \nL ([\d.]+) [\d.]+ \n[^z]*z\n" clip-path', figure.svg.decode()
    )
    lengths = [round(float(end) - float(start), 3) for start, end in bars]
    assert [bool(length) for length in lengths] == [False, True, True, False, False, False]
    assert len(set(lengths)) == 2


def test_one_protocol_is_not_compared(wide: Release, tmp_path: Path) -> None:
    table = table_of(wide, [vote_on(one, "ann", protocol="paper") for one in wide.pairs()])
    assert not table.rows
    assert "one protocol" in table.empty
