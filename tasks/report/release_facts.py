"""What a release consists of, in the numbers of the paper's table of data sets (SLVMEval, table 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from statistics import fmean

from storage_schemas.release import Release
from storage_schemas.source import DAMAGE_TEXTS
from tasks.report.table import Column, Table, clock


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
            ("Longest", clock(self.longest_s)),
            ("Mean duration", clock(self.mean_s)),
            ("Mean prompt", f"{self.prompt_characters:,.0f} chars"),
        ]


_COLUMNS = (
    Column("aspects", "Aspects", "count"),
    Column("pairs", "Pairs", "count"),
    Column("videos", "Videos", "count"),
    Column("prompts", "Unique prompts", "count"),
    Column("longest_s", "Longest", "clock"),
    Column("mean_s", "Mean duration", "clock"),
    Column("prompt_characters", "Mean prompt, characters", "count"),
)


@dataclass(frozen=True)
class CategoryCount:
    """Sources and pairs of one content category; an empty name stands for sources without one."""

    category: str
    sources: int
    pairs: int


@dataclass(frozen=True)
class DurationBin:
    """Sources, and their pairs, with a duration of `from_s` to less than `to_s` seconds."""

    from_s: int
    to_s: int
    sources: int
    pairs: int


def damaged_sources(release: Release) -> str:
    """Return how many sources are damaged, and how they were used; empty without any."""
    counts = Counter(row.damage for row in release.sources() if row.damage)
    texts = [
        f"{count} source{'' if count == 1 else 's'}: {DAMAGE_TEXTS[damage]}"
        for damage, count in counts.items()
    ]
    return "; ".join(texts) + "." if texts else ""


def category_counts(release: Release, sources: Collection[str] | None = None) -> list[CategoryCount]:
    """Return a release's sources by content category (SLVMEval, figure 8): largest first, no category last.

    Parameters
    ----------
    sources
        Count only these sources; by default all.

    Returns
    -------
    list of CategoryCount
        Empty if no source has a category.
    """
    rows = [row for row in release.sources() if sources is None or row.source_id in sources]
    category = {row.source_id: row.content_category for row in rows}
    if not any(category.values()):
        return []
    videos = Counter(category.values())
    pairs = Counter(category[record.source_id] for record in release.pairs() if record.source_id in category)
    counts = [CategoryCount(name, videos[name], pairs[name]) for name in videos]
    return sorted(counts, key=lambda one: (not one.category, -one.sources, one.category))


def duration_bins(release: Release) -> list[DurationBin]:
    """Return the bins of the recipe's `bin_seconds` up to the longest source (SLVMEval, figure 9)."""
    width = int(release.recipe.get("bin_seconds", 100))
    sources = Counter(int(row.duration_s // width) for row in release.sources())
    pairs = Counter(record.bin_s // width for record in release.pairs())
    return [
        DurationBin(index * width, (index + 1) * width, sources[index], pairs[index])
        for index in range(max([*sources, *pairs, 0]) + 1)
    ]


def release_facts(release: Release, sources: Collection[str] | None = None) -> ReleaseFacts:
    """Return the numbers of a release, or of those of its sources that are named; all 0 without sources."""
    rows = [row for row in release.sources() if sources is None or row.source_id in sources]
    source_ids = {row.source_id for row in rows}
    pairs = [record for record in release.pairs() if record.source_id in source_ids]
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


#: Shown for sources without a content category.
NO_CATEGORY = "none given"
_COUNTS = (Column("sources", "Sources", "count"), Column("pairs", "Pairs", "count"))


def content_tables(release: Release) -> list[Table]:
    """Return a release's sources by content category, and by duration."""
    categories = [{**vars(one), "category": one.category or NO_CATEGORY} for one in category_counts(release)]
    bins = [vars(one) for one in duration_bins(release) if one.sources or one.pairs]
    return [
        Table(
            "content-categories",
            "Content categories",
            (Column("category", "Category"), *_COUNTS),
            tuple(categories),
            "The data set's own, or chosen by a language model from the captions.",
            ""
            if categories
            else "No source has a content category: `slvmeval sources categorise` asks a language model.",
        ),
        Table(
            "source-durations",
            "Duration of the sources",
            (Column("from_s", "From", "clock"), Column("to_s", "To", "clock"), *_COUNTS),
            tuple(bins),
            "Sources, and their pairs, in bins of duration; empty bins are left out.",
            "" if bins else "The release has no sources.",
        ),
    ]
