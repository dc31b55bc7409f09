"""The result of a build, in words and as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storage_schemas.counts import count_text
from storage_schemas.pair import ReleasePlan
from storage_schemas.release import Release
from storage_schemas.set_aside import SetAsideRow


@dataclass(frozen=True)
class BuildResult:
    """Result of a build: the release version, whether it is new, and the plan.

    Parameters
    ----------
    set_aside, lost
        What could not be built, and the number of sources and planned pairs affected.
    unsettled
        Number of files left to the next run because they are still being written.
    """

    release: Release
    new: bool
    plan: ReleasePlan
    set_aside: tuple[SetAsideRow, ...]
    lost: int
    unsettled: int = 0

    @property
    def exit_code(self) -> int:
        """0: everything planned is built; 3: some sources or planned pairs were set aside."""
        return 3 if self.lost else 0

    def in_words(self) -> str:
        """Return a summary in a sentence or two."""
        release = self.release
        content = release.manifest.content
        counts = f"{count_text(content['pairs'], 'pair')} of {count_text(content['sources'], 'source')}"
        if self.new:
            summary = f"Version {release.version} of release {release.name} is written: {counts}"
        else:
            summary = f"Nothing new: release {release.name} stays at version {release.version}, {counts}"
        if self.lost:
            summary += f"; {count_text(self.lost, 'source or planned pair')} set aside"
        if self.unsettled:
            summary += f"; {count_text(self.unsettled, 'file')} still being written, left to the next run"
        return summary + "."


def summary_rows(release: Release) -> list[dict[str, Any]]:
    """Return a row per aspect of a release: planned, built, set aside and why."""
    return [{"aspect": aspect, **counts} for aspect, counts in release.summary().items()]
