"""The card and licence notes of an exported dataset; titles and credits are untrusted text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from storage_schemas.release import Release
from storage_schemas.source import DAMAGE_TEXTS, SourceRow
from tasks.report.release_facts import NO_CATEGORY, category_counts, release_facts

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
_CREATIVE = re.compile(r"CC[ -](BY(?:-(?:SA|NC|ND|NC-SA|NC-ND))?)[ -]([1-4]\.0)", re.IGNORECASE)

#: The tables of every export, as described on the card.
_TABLES: Mapping[str, Sequence[str]] = {
    "pairs": (
        "- `pairs`: `prompt`, `high_video` and `low_video` (paths below this folder), `aspect`, `gold`",
        "  (always `high`; show the two in random order), `high_intervals` and `low_intervals` (the",
        "  degraded seconds in the time line of each side), operation, parameters, seed and checksums;",
        "  `parameters` and `choices` are JSON.",
    ),
    "sources": ("- `sources`: one row a source, with licence and credit.",),
    "clips": ("- `clips`: the captions with their boundaries.",),
}
_VOTES: Mapping[str, Sequence[str]] = {
    "votes": (
        "- `votes`: people's answers on these pairs: `preferred` before the aspect was named, then `rating`",
        "  of the damage (A clear in every degraded clip, B weak or not in all, C not there). `worker` is a",
        "  number that identifies no one; `first` is the side on the left; times are seconds.",
    ),
}


def licence_id(licences: Sequence[str]) -> str:
    """Return Hugging Face's identifier for a set of licences, or ``other``."""
    if len(set(licences)) != 1:
        return "other"
    name = licences[0].strip()
    if match := _CREATIVE.fullmatch(name):
        return f"cc-{match[1]}-{match[2]}".lower()
    return "cc0-1.0" if re.fullmatch(r"CC0(?:[ -]1\.0)?", name, re.IGNORECASE) else "other"


def plain(text: str) -> str:
    """Return text as one line with Markdown and HTML escaped."""
    line = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&$])", lambda match: f"&#{ord(match[1])};", line)


def card(
    release: Release,
    passed: Sequence[SourceRow],
    left_out: Sequence[SourceRow],
    pairs: int,
    private: bool,
    votes: bool = False,
    packed: bool = False,
) -> str:
    """Return the dataset card with its YAML header."""
    tables = {**_TABLES, **(_VOTES if votes else {})}
    header = _header(release, passed, pairs, list(tables))
    lines = [*header, *_body(release, passed, left_out, pairs, private, tables)]
    if packed:
        lines += [
            "",
            "## The release itself",
            "",
            "`store/` has the frames and pairs as the program keeps them, from which it opens, checks, "
            "judges",
            "and extends the release: `slvmeval pull ORG/NAME`, or `slvmeval pull PATH/OF/THIS/FOLDER`.",
            f"Content checksum: `{release.manifest.content_checksum}`.",
        ]
    return "\n".join(lines) + "\n"


def _header(release: Release, passed: Sequence[SourceRow], pairs: int, tables: Sequence[str]) -> list[str]:
    licence = licence_id([row.licence for row in passed])
    lines = [
        "---",
        f"pretty_name: {json.dumps(f'SLVMEval {release.name} {release.version}')}",
        f"license: {licence}",
    ]
    if licence == "other":
        lines += ["license_name: see-license-file", "license_link: LICENSE.md"]
    lines += [
        f"size_categories: [{json.dumps(next((name for most, name in _SIZES if pairs < most), 'n>100K'))}]",
        "tags: [video, meta-evaluation, text-to-video]",
    ]
    if passed:
        lines.append("configs:")
        for name in tables:
            lines += [f"- config_name: {name}"]
            lines += ["  default: true"] if name == "pairs" else []
            lines += ["  data_files:", "  - split: test", f"    path: data/{name}.parquet"]
    return [*lines, "---", ""]


def _body(
    release: Release,
    passed: Sequence[SourceRow],
    left_out: Sequence[SourceRow],
    pairs: int,
    private: bool,
    tables: Mapping[str, Sequence[str]],
) -> list[str]:
    recipe, fps = plain(str(release.recipe.get("name", ""))), release.info.get("fps", "")
    lines = [
        f"# SLVMEval: release {plain(release.name)}, version {release.version}",
        "",
        "Pairs of long videos that differ in one known way, to measure judges of generated video. The",
        "high-quality video of a pair is a source; the low-quality one is the same video with a few clips",
        "degraded for one aspect. The prompt describes both. A good judge prefers the high-quality video.",
        "",
        f"Recipe: {recipe}. Frames a second: {fps}.",
        "",
    ]
    if private:
        lines += [
            "**This export holds sources that may not be redistributed. Keep it where the sources are.**",
            "",
        ]
    if passed:
        counts = Counter(record.aspect for row in passed for record in release.pairs(source_id=row.source_id))
        lines += ["| aspect | pairs |", "|---|---|"]
        lines += [f"| {aspect} | {count} |" for aspect, count in sorted(counts.items())]
        lines += [
            f"| all | {pairs} |",
            "",
            *_facts(release, passed),
            *_categories(release, passed),
            "",
            "```python",
            "import datasets",
            "",
            'pairs = datasets.load_dataset("PATH/OF/THIS/FOLDER", "pairs", split="test")',
            "```",
            "",
            *(line for lines in tables.values() for line in lines),
            "",
        ]
    if left_out:
        count = f"{len(left_out)} sources are" if len(left_out) > 1 else "1 source is"
        lines += [
            f"{count} left out, because the licence does not allow passing on the videos and captions.",
            "",
        ]
    lines += [
        "`recipe.json` pins all pairs of the release by ids, seeds, parameters and checksums. Anyone",
        "who has the sources makes the same pairs from it: `slvmeval build --recipe recipe.json`.",
        "",
        "## Credits",
        "",
    ]
    lines += [_credit(row) for row in passed] or ["No source is part of this export."]
    return [*lines, "", "The licences of the sources are listed in `LICENSE.md`."]


def _facts(release: Release, passed: Sequence[SourceRow]) -> list[str]:
    """Return the numbers of the exported parts, as a table (SLVMEval, table 1)."""
    texts = release_facts(release, {row.source_id for row in passed}).as_texts()
    return [
        f"| {' | '.join(name.lower() for name, _ in texts)} |",
        f"|{'---:|' * len(texts)}",
        f"| {' | '.join(value for _, value in texts)} |",
        "",
        "Videos are sources and low-quality videos, and the durations are over both.",
    ]


def _categories(release: Release, passed: Sequence[SourceRow]) -> list[str]:
    """Return the exported kinds of video, as a table (SLVMEval, figure 8); none without categories."""
    counts = category_counts(release, {row.source_id for row in passed})
    if not counts:
        return []
    lines = ["", "| content category | sources | pairs |", "|---|---:|---:|"]
    return lines + [
        f"| {plain(one.category or NO_CATEGORY)} | {one.sources} | {one.pairs} |" for one in counts
    ]


def licence_notes(passed: Sequence[SourceRow], left_out: Sequence[SourceRow], private: bool) -> str:
    """Return the licence of every source, and its consequences for this folder."""
    lines = [
        "# Licences",
        "",
        "Each video, and every degraded form of it, stays under the licence of its source. The degraded",
        "forms are changed versions: say so where you pass them on.",
        "",
    ]
    if private:
        lines += ["Sources marked with \\* may not be redistributed, and neither may this folder.", ""]
    lines += [_credit(row) + ("" if row.redistributable else " \\*") for row in passed]
    if left_out:
        counts = Counter(row.licence for row in left_out)
        lines += ["", "Left out, since their licences do not allow passing them on:", ""]
        lines += [f"- {plain(licence)}: {count}" for licence, count in sorted(counts.items())]
    return "\n".join(lines) + "\n"


def _credit(row: SourceRow) -> str:
    credit = f" {plain(row.credit)}." if row.credit else ""
    damage = f" The video is {DAMAGE_TEXTS[row.damage]}." if row.damage else ""
    return f"- {plain(row.title)}: {plain(row.licence)}.{credit}{damage}"
