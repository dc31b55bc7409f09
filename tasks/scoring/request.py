"""A request: one evaluator, pair, order and repeat; its key covers everything the answer depends on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, get_args

from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_text, digest_value
from storage_schemas.judgements import Order
from storage_schemas.rng import derived_seed
from storage_schemas.row_store import RowId
from tasks.pairs.view import Pair
from tasks.scoring.base import AspectText, Evaluator, PairwiseJudge
from tasks.scoring.instructions import text_digest


def changed_texts(pairs: PairSet, prompts: str) -> dict[str, str]:
    """Return the checksums of the user's descriptions that differ from those of a set of pairs, by aspect."""
    changed: dict[str, str] = {}
    if not prompts:
        return changed
    for name, dimension in sorted({(pair.aspect, pair.dimension) for pair in pairs.facts()}):
        try:
            default = text_digest(pairs.text(name, dimension, ""))
        except PrerequisiteError:  # an aspect that a package adds may only have the user's text
            continue
        text = text_digest(pairs.text(name, dimension, prompts))
        if text != default:
            changed[name] = text
    return changed


@dataclass(frozen=True)
class PairFacts:
    """Facts about a pair that are known before it is opened.

    Parameters
    ----------
    high_checksum, low_checksum
        Checksums of the frames of both videos.
    strength, clips
        Its severity point.
    strength_number
        The strength on its operation's scale; None without one.
    frames
        Number of frames of both videos.
    control
        Whether it is a control, of which no side is better.
    length, position
        Of an excerpt, its share of the source and where the damage is in it; None and empty otherwise.
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
    control: bool = False
    length: float | None = None
    position: str = ""
    strength_number: float | None = None


class PairSet(Protocol):
    """A set of pairs to judge; it may be sent to other processes."""

    @property
    def name(self) -> str:
        """Name of runs on the set."""

    @property
    def title(self) -> str:
        """Readable name."""

    def facts(self) -> Sequence[PairFacts]:
        """Return the facts of all pairs."""

    def open(self, pair_id: str) -> Pair:
        """Open a pair; no frame is read yet."""

    def text(self, aspect: str, dimension: str, prompts: str) -> AspectText:
        """Return an aspect's description for evaluators; the user's description takes precedence."""

    def check(self, wanted: Iterable[PairFacts]) -> None:
        """Check that the videos of some pairs exist, before any request."""


@dataclass(frozen=True)
class Request:
    """One request, without its evaluator."""

    key: str
    pair: PairFacts
    order: Order
    repeat: int = 0
    #: The pair whose prompt is shown; empty for its own.
    prompt_of: str = ""

    @property
    def ids(self) -> tuple[RowId]:
        """The id of its row in the store."""
        return ((self.key, self.pair.pair_id),)

    @property
    def shares(self) -> str:
        """Id of the source, whose videos are decoded once for all its pairs."""
        return self.pair.source_id


def settings_digest(evaluator: Evaluator) -> str:
    """Return the checksum of an evaluator's settings and version, which distinguishes evaluators."""
    return digest_value({"version": evaluator.version, "settings": evaluator.settings()})[:16]


def make_requests(evaluator: Evaluator, pair: PairFacts, text: AspectText, repeats: int = 1) -> list[Request]:
    """Return the requests of an evaluator on a pair, in both orders if the judge requires that.

    Otherwise the order is drawn, and is the same for every evaluator.
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


def beginnings(pair: PairFacts, order: Order) -> list[tuple[int, str]]:
    """Return what names the beginnings of a request: with its first video, and with both."""
    videos = [pair.high_checksum, pair.low_checksum]
    if order == "low_first":
        videos.reverse()
    shown = [pair.source_id, pair.prompt_digest, pair.fps]
    return [(number, digest_value([*shown, *videos[:number]])[:16]) for number in (1, 2)]


def shared_beginnings(pairs: Iterable[PairFacts], repeats: int = 1) -> frozenset[str]:
    """Return the beginnings that several requests of a run share."""
    counts: Counter[str] = Counter()
    for pair in pairs:
        for order in get_args(Order):
            if order != "apart":
                counts.update({key: repeats for _, key in beginnings(pair, order)})
    return frozenset(key for key, count in counts.items() if count > 1)


def prompt_digest(prompt: str) -> str:
    """Return the checksum of a prompt."""
    return digest_text(prompt)
