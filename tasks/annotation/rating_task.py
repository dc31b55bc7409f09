"""One generated video in one dimension, as a rater sees it, and the rating that comes of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from storage_schemas.ids import digest_value
from storage_schemas.model import Frozen
from storage_schemas.votes import Answer, Vote
from tasks.annotation.pair_task import ByteIndex, PairTask


class RatingTask(Frozen):
    """One video to be rated in one dimension.

    Parameters
    ----------
    model, prompt_id, sample
        Which video it is; raters see none of them.
    prompt, translation
        The text that the video was made from, and its translation, empty if there is none.
    low, high
        Ends of the scale, whole numbers.
    digest
        SHA-256 of the video as it was given.
    file, size, seconds, index
        The video's file relative to the media folder, its bytes and length, and the position of each second
        in it.
    """

    kind: Literal["rating"] = "rating"
    dimension: str
    model: str
    prompt_id: str
    sample: int = 0
    prompt: str
    translation: str = ""
    low: int
    high: int
    digest: str
    file: str
    size: int
    seconds: float
    index: ByteIndex = ()
    gold: bool = False

    @property
    def id(self) -> str:
        """Id of the task: the same video in the same dimension has the same one."""
        return digest_value([self.dimension, self.model, self.prompt_id, self.sample])

    @property
    def group(self) -> str:
        """What the queue balances and progress is shown by: the dimension."""
        return self.dimension

    @property
    def videos_s(self) -> float:
        """Length of the video in seconds."""
        return self.seconds

    def watch_s(self, look_share: float | None) -> float:
        """Return the share of the video to watch: all of it, unlike in a campaign of pairs."""
        del look_share
        return self.seconds

    @property
    def fixed(self) -> object:
        """What may not change while a campaign runs."""
        return self.digest, self.prompt, self.low, self.high


AnyTask = PairTask | RatingTask
_TASKS: TypeAdapter[AnyTask] = TypeAdapter(Annotated[AnyTask, Field(discriminator="kind")])


@lru_cache(maxsize=256)
def read_task(body: str) -> AnyTask:
    """Return a stored task; prompts are long, and a task is read at each of its worker's requests."""
    return _TASKS.validate_json(body)


class VideoRating(Answer):
    """One person's rating of one video in one dimension."""

    model: str
    prompt_id: str
    sample: int
    rating: int
    total_s: float
    watched_s: float


AnyAnswer = Vote | VideoRating
