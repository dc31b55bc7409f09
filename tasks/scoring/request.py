"""A request: one evaluator, one pair, one order, one repeat; its key covers all that the answer depends
on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_text, digest_value
from storage_schemas.judgements import Order
from storage_schemas.rng import derived_seed
from storage_schemas.row_store import RowId
from tasks.pairs.view import Pair
from tasks.scoring.base import AspectText, Evaluator, PairwiseJudge
from tasks.scoring.instructions import text_digest


def changed_texts(pairs: PairSet, folder: str | None) -> dict[str, str]:
    """Return by aspect the checksums of a folder's texts that replace those of a set of pairs."""
    digests: dict[str, str] = {}
    if folder is None:
        return digests
    for name, dimension in sorted({(pair.aspect, pair.dimension) for pair in pairs.facts()}):
        try:
            ours = text_digest(pairs.text(name, dimension, None))
        except PrerequisiteError:  # an aspect of another package may have only the user's text
            continue
        theirs = text_digest(pairs.text(name, dimension, folder))
        if theirs != ours:
            digests[name] = theirs
    return digests


@dataclass(frozen=True)
class PairFacts:
    """Facts of a pair, known before it is opened.

    Parameters
    ----------
    high_checksum, low_checksum
        Checksums of the frames of both videos.
    strength, clips
        Its point on the axes of severity.
    frames
        Frames of both videos.
    """

    pair_id: str
    source_id: str
    aspect: str
    dimension: str
    prompt_digest: str
    high_checksum: str
    low_checksum: str
    fps: float
    strength: str = ""
    clips: int = 0
    frames: int = 0


class PairSet(Protocol):
    """Pairs for evaluators; it may be sent to other processes."""

    @property
    def name(self) -> str:
        """The name of a run on them."""

    @property
    def title(self) -> str:
        """Its title."""

    def facts(self) -> Sequence[PairFacts]:
        """Return the facts of all pairs."""

    def open(self, pair_id: str) -> Pair:
        """Open a pair; no frame is read yet."""

    def text(self, aspect: str, dimension: str, folder: str | None) -> AspectText:
        """Return an aspect as evaluators are told of it; a folder's ``ASPECT.txt`` comes first."""

    def check(self, wanted: Iterable[PairFacts]) -> None:
        """Check that the videos of some pairs exist, before any request."""


@dataclass(frozen=True)
class Request:
    """One request, without its evaluator."""

    key: str
    pair: PairFacts
    order: Order
    repeat: int = 0

    @property
    def ids(self) -> tuple[RowId]:
        """The id of its row in the store."""
        return ((self.key, self.pair.pair_id),)

    @property
    def shares(self) -> str:
        """Its source, whose videos are decoded once for all its pairs."""
        return self.pair.source_id


def settings_digest(evaluator: Evaluator) -> str:
    """Return the checksum of an evaluator's settings and version."""
    return digest_value({"version": evaluator.version, "settings": evaluator.settings()})[:16]


def make_requests(evaluator: Evaluator, pair: PairFacts, text: AspectText, repeats: int = 1) -> list[Request]:
    """Return the requests of an evaluator on a pair: both orders for a judge that asks for them.

    A single order is drawn, the same for every evaluator.
    """
    orders: tuple[Order, ...] = ("apart",)
    if isinstance(evaluator, PairwiseJudge):
        orders = ("high_first", "low_first")
        if not evaluator.asks_both_orders(text):
            seed = derived_seed("order", pair.high_checksum, pair.low_checksum, pair.aspect)
            orders = (orders[seed & 1],)
    shared = {
        "evaluator": evaluator.name,
        "settings": settings_digest(evaluator),
        "high": pair.high_checksum,
        "low": pair.low_checksum,
        "fps": pair.fps,
        "prompt": pair.prompt_digest,
        "aspect": text_digest(text),
    }
    return [
        Request(digest_value({**shared, "order": order, "repeat": repeat}), pair, order, repeat)
        for repeat in range(repeats)
        for order in orders
    ]


def prompt_digest(prompt: str) -> str:
    """Return the checksum of a prompt."""
    return digest_text(prompt)
