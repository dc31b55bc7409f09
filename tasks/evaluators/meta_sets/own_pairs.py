"""A user's own pairs: a JSON Lines file with two videos, a prompt, an aspect of ours and the answer."""

from __future__ import annotations

from pathlib import Path

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_text
from tasks.evaluators.meta_sets.base import LoadedSet, MetaPair, MetaSet
from tasks.pairs.brought import read_pairs_file


class OwnPairs(MetaSet):
    """The reader of a user's own pairs; see :func:`tasks.pairs.brought.read_pairs_file`.

    A line that does not fit ends it with a message: the file is the user's, who can mend it.
    """

    name = "pairs"
    title = "own pairs"
    fps = "1"

    def load(self, path: Path, videos: Path | None) -> LoadedSet:
        """Read the file; its paths start from its own folder."""
        if videos is not None:
            raise UserInputError(
                "pairs take no folder of videos: their paths start from the file's own folder"
            )
        pairs = [
            MetaPair(
                key=pair.id,
                group=digest_text(pair.prompt)[:16],
                video_a=Path(pair.details["video_a"]),
                video_b=Path(pair.details["video_b"]),
                prompt=pair.prompt,
                aspect=pair.aspect,
                gold=pair.details["gold"],
            )
            for pair in read_pairs_file(path)
        ]
        return LoadedSet(tuple(pairs), ())
