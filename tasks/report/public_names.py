"""Public names and folders of sources and pairs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from storage_schemas.ids import digest_text, digest_value
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.source import SourceRow

#: Damage of the low-quality video, for readers who do not know the paper.
ASPECT_TEXTS = {
    "aesthetics": "Brightness is inverted and flattened: dark becomes light, and contrast fades.",
    "technical_quality": "The picture is scaled down and up again: fine detail is lost.",
    "appearance_style": "The picture is redrawn in another style, as a drawing or a painting.",
    "background_consistency": "The background behind the subject changes from frame to frame.",
    "temporal_flow": "Neighbouring clips are moved to other places.",
    "comprehensiveness": "Clips are removed: parts of the prompt are not shown.",
    "object_integrity": "The subject is painted out of the picture.",
    "spatial_relationship": "The picture is mirrored: left becomes right.",
    "dynamics_degree": "The clip is frozen: every frame shows its middle frame.",
    "color": "The colour named in the caption is changed.",
}


_HIDDEN = "Its licence does not allow redistributing the video and the captions."


@dataclass(frozen=True)
class SourceFolder:
    """Folder of one source's files, and whether its content may be shown.

    `hidden` tells the reader why there are no videos; it is empty if there are. `licensed` is False if the
    captions may not be shown either.
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
    """Return a source's folder; its name changes with everything its media depend on. `private`
    means that the pages stay with the owner of the sources; otherwise licences decide.
    """
    clips = [(clip.first_frame, clip.frame_count) for clip in release.clips(row.source_id)]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", row.source_id).strip("-")[:40].lower() or "source"
    slug = f"{readable}-{digest_value([row.source_id, row.frames_id, clips])[:10]}"
    if not private and not row.redistributable:
        return SourceFolder(row, f"source-{digest_text(slug)[:16]}", licensed=False, hidden=_HIDDEN)
    return SourceFolder(row, slug)


def pair_slug(record: PairRecord) -> str:
    """Return the name of a pair's files and of its anchor on a page."""
    return (
        record.pair_id[:16]
        if re.fullmatch(r"[0-9a-f]{16,}", record.pair_id)
        else digest_text(record.pair_id)[:16]
    )
