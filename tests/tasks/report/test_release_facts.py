"""The numbers of a release (SLVMEval, table 1): one function for report, gallery and data set card."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storage_schemas.release import Release
from tasks.report.release_facts import facts_table, release_facts
from tests.tasks.publish.judging import build_wide

FILMS = 4
#: Seconds of each source: twelve clips of 12, 19, … s; five of them are removed for comprehensiveness.
LENGTHS = [12 * (12 + 7 * number) for number in range(FILMS)]


def test_the_numbers_of_a_release(tmp_path: Path) -> None:
    release = build_wide(tmp_path, FILMS)
    facts = release_facts(release)
    assert (facts.aspects, facts.pairs, facts.videos, facts.prompts) == (2, 2 * FILMS, 3 * FILMS, FILMS)
    assert facts.longest_s == LENGTHS[-1]
    assert facts.mean_s == pytest.approx(sum(LENGTHS) * (1 + 1 + 7 / 12) / (3 * FILMS))
    # ten captions of 20 characters, two of 21, eleven newlines
    assert facts.prompt_characters == 10 * 20 + 2 * 21 + 11
    (row,) = facts_table(release).rows
    assert row["videos"] == 3 * FILMS
    assert facts.as_texts() == [
        ("Videos", "12"),
        ("Unique prompts", "4"),
        ("Longest", "396.0 s"),
        ("Mean duration", "232.5 s"),
        ("Mean prompt", "253.0 chars"),
    ]


def test_the_numbers_of_some_sources(tmp_path: Path) -> None:
    release = build_wide(tmp_path, FILMS)
    facts = release_facts(release, ["film-01"])
    assert (facts.pairs, facts.videos, facts.prompts, facts.longest_s) == (2, 3, 1, LENGTHS[1])
    nothing = release_facts(release, [])
    assert (nothing.videos, nothing.longest_s, nothing.mean_s, nothing.prompt_characters) == (0, 0, 0, 0)


def test_a_video_of_two_pairs_and_a_prompt_of_two_sources_count_once() -> None:
    """As with severities that degrade the same clips, and a source that stands in two data sets."""
    pairs = [
        SimpleNamespace(source_id=source, aspect="color", low_checksum=low, low_frames=50, fps=1.0)
        for source, low in (("a", "x"), ("a", "x"), ("b", "y"))
    ]
    release: Any = SimpleNamespace(
        sources=lambda: [SimpleNamespace(source_id=name, duration_s=60.0) for name in "ab"],
        pairs=lambda: pairs,
        prompt=lambda _source: "the same",
    )
    facts = release_facts(cast(Release, release))
    assert (facts.pairs, facts.videos, facts.prompts) == (3, 4, 1)
    assert facts.mean_s == 55.0
