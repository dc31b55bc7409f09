"""What a release consists of, in the numbers of the paper's table of data sets (SLVMEval, table 1)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from statistics import fmean

from storage_schemas.release import Release
from tasks.report.table import Column, Table


@dataclass(frozen=True)
class ReleaseFacts:
    """Numbers of a release.

    Parameters
    ----------
    aspects, pairs
        Number of aspects that have pairs, and of pairs.
    videos
        Number of different videos: sources, and low-quality videos. Two pairs of one video count it once.
    prompts
        Number of different prompts.
    longest_s, mean_s
        Longest and mean duration of these videos, seconds.
    prompt_characters
        Mean length of the prompts, characters.
    """

    aspects: int
    pairs: int
    videos: int
    prompts: int
    longest_s: float
    mean_s: float
    prompt_characters: float

    def as_texts(self) -> list[tuple[str, str]]:
        """Return names and formatted values for display, without aspects and pairs."""
        return [
            ("Videos", f"{self.videos:,}"),
            ("Unique prompts", f"{self.prompts:,}"),
            ("Longest", f"{self.longest_s:,.1f} s"),
            ("Mean duration", f"{self.mean_s:,.1f} s"),
            ("Mean prompt", f"{self.prompt_characters:,.1f} chars"),
        ]


_COLUMNS = (
    Column("aspects", "Aspects", "count"),
    Column("pairs", "Pairs", "count"),
    Column("videos", "Videos", "count"),
    Column("prompts", "Unique prompts", "count"),
    Column("longest_s", "Longest, s", "tenths"),
    Column("mean_s", "Mean duration, s", "tenths"),
    Column("prompt_characters", "Mean prompt, characters", "tenths"),
)


def release_facts(release: Release, sources: Collection[str] | None = None) -> ReleaseFacts:
    """Return the numbers of a release, or of those of its sources that are named; all 0 without sources."""
    rows = [row for row in release.sources() if sources is None or row.source_id in sources]
    known = {row.source_id for row in rows}
    pairs = [record for record in release.pairs() if record.source_id in known]
    low = {record.low_checksum: record.low_frames / record.fps for record in pairs}
    durations = [*(row.duration_s for row in rows), *low.values()]
    prompts = {release.prompt(row.source_id) for row in rows}
    return ReleaseFacts(
        aspects=len({record.aspect for record in pairs}),
        pairs=len(pairs),
        videos=len(durations),
        prompts=len(prompts),
        longest_s=max(durations, default=0.0),
        mean_s=fmean(durations) if durations else 0.0,
        prompt_characters=fmean(map(len, prompts)) if prompts else 0.0,
    )


def facts_table(release: Release) -> Table:
    """Return the numbers of a release as a table of one row."""
    facts = release_facts(release)
    return Table(
        "release",
        "The release",
        _COLUMNS,
        ({column.key: getattr(facts, column.key) for column in _COLUMNS},),
        "Videos are sources and low-quality videos; the durations are over both. Equal prompts count once.",
    )
