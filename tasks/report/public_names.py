"""Names and folders under which sources and pairs are shown to the public."""

from __future__ import annotations

import re
from dataclasses import dataclass

from storage_schemas.ids import digest_text, digest_value
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.source import SourceRow

#: What was done to the low-quality video, for a reader who has not seen the paper.
ASPECT_TEXTS = {
    "aesthetics": "Brightness is inverted and flattened: dark becomes light, and contrast fades.",
    "technical_quality": "The picture is made small and large again: fine detail is gone.",
    "appearance_style": "The picture is redrawn in another style, as a drawing or a painting.",
    "background_consistency": "What lies behind the subject changes from frame to frame.",
    "temporal_flow": "Neighbouring clips are taken out and put back at other places.",
    "comprehensiveness": "Clips are removed: parts of what the prompt tells are not shown.",
    "object_integrity": "The subject is painted out of the picture.",
    "spatial_relationship": "The picture is mirrored: left becomes right.",
    "dynamics_degree": "The clip stands still: every frame shows its middle one.",
    "color": "The colour that the caption names becomes another one.",
}


_HIDDEN = "Its licence does not allow passing the video and the captions on."


@dataclass(frozen=True)
class SourceFolder:
    """Where the files of one source go, and whether its content may be shown.

    `hidden` says for a reader why there are no videos; empty if there are. `licensed` is False where
    the captions may not be shown either.
    """

    row: SourceRow
    slug: str
    licensed: bool = True
    hidden: str = ""

    @property
    def page(self) -> str:
        """Path of the source's page."""
        return f"sources/{self.slug}.html"

    @property
    def media(self) -> str:
        """Path of the folder of its videos and pictures."""
        return f"media/{self.slug}"


def source_folder(release: Release, row: SourceRow, private: bool) -> SourceFolder:
    """Return where a source goes; the name changes with everything that its media depend on.

    `private` says that the pages stay with the person who has the sources; otherwise licences decide.
    """
    clips = [(clip.first_frame, clip.frame_count) for clip in release.clips(row.source_id)]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", row.source_id).strip("-")[:40].lower() or "source"
    slug = f"{readable}-{digest_value([row.source_id, row.frames_id, clips])[:10]}"
    if not private and not row.redistributable:
        return SourceFolder(row, f"source-{digest_text(slug)[:16]}", licensed=False, hidden=_HIDDEN)
    return SourceFolder(row, slug)


def pair_slug(record: PairRecord) -> str:
    """Return the name of a pair's files and of its place on a page."""
    return (
        record.pair_id[:16]
        if re.fullmatch(r"[0-9a-f]{16,}", record.pair_id)
        else digest_text(record.pair_id)[:16]
    )
