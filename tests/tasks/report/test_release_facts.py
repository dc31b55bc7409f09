"""The numbers of a release (SLVMEval, table 1): one function for report, gallery and data set card."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from storage_schemas.release import Release
from tasks.report.release_facts import (
    CategoryCount,
    category_counts,
    content_tables,
    duration_bins,
    facts_table,
    release_facts,
)
from tests.tasks.publish.judging import build_wide

FILMS = 4
#: Seconds of each source: twelve clips of 12, 19, … s; five of them are removed for comprehensiveness.
LENGTHS = [12 * (12 + 7 * number) for number in range(FILMS)]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_wide(tmp_path_factory.mktemp("wide"), FILMS)


def test_the_numbers_of_a_release_and_of_some_sources(release: Release) -> None:
    facts = release_facts(release)
    assert (facts.aspects, facts.pairs, facts.videos, facts.prompts) == (2, 2 * FILMS, 3 * FILMS, FILMS)
    assert facts.longest_s == LENGTHS[-1]
    assert facts.mean_s == pytest.approx(sum(LENGTHS) * (1 + 1 + 7 / 12) / (3 * FILMS))
    # ten captions of 20 characters, two of 21, eleven newlines
    assert facts.prompt_characters == 10 * 20 + 2 * 21 + 11
    (row,) = facts_table(release).rows
    assert row["videos"] == 3 * FILMS
    titles = ("Videos", "Unique prompts", "Longest", "Mean duration", "Mean prompt")
    values = ("12", "4", "6:36", "3:52", "253 chars")
    assert facts.as_texts() == list(zip(titles, values, strict=True))
    one = release_facts(release, ["film-01"])
    assert (one.pairs, one.videos, one.prompts, one.longest_s) == (2, 3, 1, LENGTHS[1])
    nothing = release_facts(release, [])
    assert (nothing.videos, nothing.longest_s, nothing.mean_s, nothing.prompt_characters) == (0, 0, 0, 0)


def test_a_video_of_two_pairs_and_a_prompt_of_two_sources_count_once() -> None:
    """As with severities that degrade the same clips, and a source that stands in two data sets."""
    pairs = [
        SimpleNamespace(source_id=source, aspect="color", low_checksum=low, low_frames=50, fps=1.0)
        for source, low in (("a", "x"), ("a", "x"), ("b", "y"))
    ]
    sources = [SimpleNamespace(source_id=name, duration_s=60.0) for name in "ab"]
    release: Any = SimpleNamespace(
        sources=lambda: sources, pairs=lambda: pairs, prompt=lambda _source: "the same"
    )
    facts = release_facts(release)
    assert (facts.pairs, facts.videos, facts.prompts) == (3, 4, 1)
    assert facts.mean_s == 55.0


def test_sources_by_content_category_and_by_duration(release: Release) -> None:
    categories, durations = content_tables(release)
    # films 0 to 3, with two pairs each
    assert [tuple(row.values()) for row in categories.rows] == [("Travel & Events", 3, 6), ("Music", 1, 2)]
    assert sum(row["sources"] for row in durations.rows) == FILMS
    for row in durations.rows:
        assert row["sources"] == sum(row["from_s"] <= length < row["to_s"] for length in LENGTHS)
    assert [one.from_s for one in duration_bins(release)] == [0, 100, 200, 300]
    assert category_counts(release, ["film-01"]) == [CategoryCount("Travel & Events", 1, 2)]


def test_sources_without_a_category_are_counted_last_and_alone_say_nothing() -> None:
    def release(*categories: str) -> Any:
        rows = [
            SimpleNamespace(source_id=str(place), duration_s=60.0, content_category=category)
            for place, category in enumerate(categories)
        ]
        return SimpleNamespace(sources=lambda: rows, pairs=lambda: [], recipe={})

    counts = [(one.category, one.sources) for one in category_counts(release("", "", "Music"))]
    assert counts == [("Music", 1), ("", 2)]
    categories, _ = content_tables(release("", ""))
    assert (categories.rows, "sources categorise" in categories.empty) == ((), True)
