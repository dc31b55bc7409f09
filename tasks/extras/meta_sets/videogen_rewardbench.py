"""VideoGen-RewardBench: pairs of generated videos with four answers each (Liu et al., 2025).

Form of ``videogen-rewardbench.csv``, as the evaluation in its authors' repository (KwaiVGI/VideoAlign) and
other readers take it: columns `path_A`, `path_B`, `A_model`, `B_model`, `prompt`, and the answers `VQ`,
`MQ`, `TA` and `Overall` (the authors' own script calls that one `ALL`), each ``A``, ``B`` or ``same``. Paths
start from the file's folder. Rows without an answer are passed over there, as here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from storage_schemas.errors import SetAside, UserInputError
from storage_schemas.ids import digest_text
from tasks.extras.meta_sets.base import NO_GOLD, LoadedSet, MetaPair, MetaSet, unique
from tasks.pairs.file_pairs import Gold
from tasks.scoring.user_files import MALFORMED, UnusedLine, first_there, read_text
from tasks.scoring.video_folder import VideoFolder
from tasks.tables import parse_table

#: Our aspect name by column.
ASPECTS: Mapping[str, str] = {
    "VQ": "visual_quality",
    "MQ": "motion_quality",
    "TA": "text_alignment",
    "Overall": "overall",
    "ALL": "overall",
}
_GOLD: Mapping[str, Gold] = {"a": "a", "b": "b", "same": "tie", "tie": "tie"}
_NEEDED = ("path_A", "path_B", "prompt")


class VideoGenRewardBench(MetaSet):
    """The reader of VideoGen-RewardBench."""

    name = "videogen-rewardbench"
    title = "VideoGen-RewardBench"
    files: ClassVar[tuple[str, ...]] = ("videogen-rewardbench.csv", "datasets/eval/videogen-rewardbench.csv")

    def load(self, path: Path, videos: Path | None) -> LoadedSet:
        """Read the set; `path` is its folder or its CSV file."""
        file = first_there(path, self.files, "CSV file") if path.is_dir() else path
        files = VideoFolder(videos or file.parent)
        pairs: list[MetaPair] = []
        left_out: list[UnusedLine] = []
        for number, row in enumerate(_rows(file), 1):
            where = f"row {number}"
            if any(not row.get(name) for name in _NEEDED):
                left_out.append(UnusedLine(where, MALFORMED, f"{where} has no {' or no '.join(_NEEDED)}"))
                continue
            try:
                paths = files.find(row["path_A"]), files.find(row["path_B"])
            except SetAside as problem:
                left_out.append(UnusedLine(where, problem.reason.value, problem.message))
                continue
            for column, aspect in ASPECTS.items():
                if column not in row:
                    continue
                gold = _GOLD.get(row[column].strip().lower())
                if gold is None:
                    left_out.append(
                        UnusedLine(where, NO_GOLD, f"{where} has the {column} {row[column][:40]!r}")
                    )
                    continue
                pairs.append(_pair(row, paths, aspect, gold))
        return unique(pairs, left_out)


def _pair(row: Mapping[str, str], paths: tuple[Path, Path], aspect: str, gold: Gold) -> MetaPair:
    prompt = row["prompt"]
    return MetaPair(
        key=f"{row['path_A']}|{row['path_B']}|{aspect}",
        group=digest_text(prompt)[:16],
        video_a=paths[0],
        video_b=paths[1],
        prompt=prompt,
        aspect=aspect,
        gold=gold,
        details={name: row[name] for name in ("A_model", "B_model") if row.get(name)},
    )


def _rows(file: Path) -> list[dict[str, str]]:
    table = parse_table(file, read_text(file))
    lacking = [name for name in _NEEDED if name not in table.columns]
    if lacking or not any(name in table.columns for name in ASPECTS):
        raise UserInputError(
            f"{file} has no column {', '.join(lacking) or ' or '.join(ASPECTS)}: this is not the table "
            "that VideoGen-RewardBench publishes"
        )
    return [{name: row.cells.get(name, "") for name in table.columns} for row in table.rows]
