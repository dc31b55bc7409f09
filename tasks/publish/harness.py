"""A release as a folder that another evaluation harness runs: Inspect AI or lmms-eval.

A row is a pair in one order. Rows and pictures are named and sorted by checksums that do not reveal the
better video; only the target does, where the harness compares the answer with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any, Literal

from PIL import Image, ImageDraw, ImageFont

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Order
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from tasks.llm.prompt_files import filled, prompt_text
from tasks.pairs.view import Pair, Side, open_record
from tasks.publish.dataset_card import licence_notes
from tasks.report.judged_release import main_pairs
from tasks.report.owned_folder import OwnedFolder
from tasks.scoring.features import FeatureCache
from tasks.scoring.instructions import aspect_text
from tasks.scoring.judges.frame_choice import FrameChoice, FrameLimit, FramePolicy, choose_frames
from tasks.statistics.trials import BOTH_ORDERS

Harness = Literal["inspect-ai", "lmms-eval"]
HARNESSES: tuple[Harness, ...] = ("inspect-ai", "lmms-eval")
LIST_NAME = "harness.json"
ROWS = "samples.jsonl"
#: Default maximum number of pictures in a row, over both videos.
DEFAULT_FRAMES = 48
_QUALITY = 90
_CARDS = ("first", "second")
_CARD_SIZE = (512, 288)
_SCORING = (
    "The accuracy of an aspect is over the pairs that were answered in both orders; a row whose answer "
    "cannot be read counts neither as right nor as wrong, and takes the other order of its pair with it. "
    "Further severities of a release, if it has them, are asked and not counted. "
    "`mean_of_aspects` is the mean of the aspects' accuracies."
)


@dataclass(frozen=True)
class HarnessFolder:
    """What was written; `left_out` are the sources that may not be redistributed."""

    path: Path
    pairs: int
    rows: int
    left_out: tuple[str, ...]


def row_id(pair_id: str, order: Order) -> str:
    """Return the name of a pair's row in one order, which tells the order only to holders of the release."""
    return digest_value(["harness row", pair_id, order])[:20]


def target(order: Order) -> str:
    """Return the right answer in an order."""
    return "first" if order == "high_first" else "second"


def write_for_harness(
    release: Release,
    folder: Path,
    harness: Harness,
    *,
    frames: int = DEFAULT_FRAMES,
    private: bool = False,
    prompts: str = "",
    progress: Callable[[int, int, str], None] | None = None,
) -> HarnessFolder:
    """Write a release as a task of another harness.

    The request is that of the video judges: their texts, and the frames that they choose.

    Parameters
    ----------
    folder
        New, empty, or of an earlier call.
    frames
        Maximum number of pictures in a row, over both videos.
    private
        True includes the sources that may not be redistributed.
    prompts
        The user's folder of prompts; empty for ours.

    Raises
    ------
    UserInputError
        If `folder` holds something else, no pair may leave, or `frames` is below 2.
    StoreError
        If frames were evicted that are needed.
    """
    if frames < 2:
        raise UserInputError(f"{frames} pictures: each of two videos needs one")
    passed = [row for row in release.sources() if private or row.redistributable]
    left_out = [row for row in release.sources() if row not in passed]
    records = [record for row in passed for record in release.pairs(source_id=row.source_id)]
    if not records:
        raise UserInputError(
            f"no pair of release {release.name} may be redistributed; --private includes them, for "
            "internal use"
        )
    owned = OwnedFolder(folder, LIST_NAME)
    cache = FeatureCache.of(release.store)
    chosen = {record.pair_id: _choose(_open(release, record), frames, cache) for record in records}
    owned.announce(name for pictures in chosen.values() for one in pictures for name in one.values())
    counted = main_pairs(release)
    rows: list[dict[str, Any]] = []
    for done, record in enumerate(records, 1):
        pair, pictures = _open(release, record), chosen[record.pair_id]
        for side, some in zip((pair.high, pair.low), pictures, strict=True):
            _write_pictures(owned, side, some)
        cards, counts = harness == "lmms-eval", record.pair_id in counted
        rows += _rows(pair, record.dimension, pictures, prompts, cards, counts)
        if progress is not None:
            progress(done, len(records), record.aspect)
    rows.sort(key=lambda row: str(row["id"]))
    owned.write(ROWS, "".join(json.dumps(row) + "\n" for row in rows).encode())
    owned.write("LICENSE.md", licence_notes(passed, left_out, private).encode())
    for card in _CARDS if harness == "lmms-eval" else ():
        owned.write(_card_name(card), _card(card))
    about = {
        "title": f"Release {release.name}, version {release.version},",
        "count": f"{len(rows):,}",
        "pairs": f"{len(records):,}",
        "most": str(max(sum(len(part) > 1 or "image" in part for part in row["parts"]) for row in rows)),
        "scoring": _SCORING,
        "rest": f"`LICENSE.md` has licences and credits. Content checksum of the release: "
        f"{release.manifest.content_checksum}.",
    }
    for name, text in _harness_files(harness):
        if name == "slvmeval.yaml":
            text += _metrics(sorted({record.aspect for record in records}))
        owned.write(name, (Template(text).substitute(about) if name == "README.md" else text).encode())
    owned.settle()
    return HarnessFolder(folder, len(records), len(rows), tuple(row.source_id for row in left_out))


def _harness_files(harness: Harness) -> Iterator[tuple[str, str]]:
    texts = files("tasks.publish") / "harness_files"
    for path in (texts / "answers.py.txt", *(texts / harness).iterdir()):
        yield path.name.removesuffix(".txt"), path.read_text(encoding="utf-8")


def _metrics(aspects: Sequence[str]) -> str:
    """Return the metrics of single aspects, for lmms-eval."""
    return "".join(
        f"  - metric: {aspect}\n    aggregation: !function utils.accuracy\n    higher_is_better: true\n"
        for aspect in aspects
    )


#: Names of the pictures of a video, by the place of their frame.
Pictures = dict[int, str]


def _open(release: Release, record: PairRecord) -> Pair:
    return open_record(release.store, record, release.prompt_of(record))


def _choose(pair: Pair, most: int, cache: FeatureCache) -> tuple[Pictures, Pictures]:
    """Return the pictures of the high and of the low video; equal ones have other names in other pairs."""

    def named(side: str, choice: FrameChoice) -> Pictures:
        names = {index: digest_value(["harness", pair.id, side, index])[:24] for index in choice.indices}
        return {index: f"frames/{name[:2]}/{name}.jpg" for index, name in names.items()}

    high, low = choose_frames((pair.high, pair.low), FramePolicy(), FrameLimit(frames=most), cache)
    return named("high", high), named("low", low)


def _write_pictures(owned: OwnedFolder, side: Side, pictures: Pictures) -> None:
    for index, name in pictures.items():
        # the name stands for the content: what an interrupted call wrote is kept
        if not (owned.path / name).exists():
            owned.write(name, _saved(Image.fromarray(side.rgb(index)), "JPEG"))
    owned.keep(pictures.values())


def _rows(
    pair: Pair,
    dimension: str,
    pictures: tuple[Pictures, Pictures],
    prompts: str,
    cards: bool,
    counts: bool,
) -> Iterator[dict[str, Any]]:
    for order in BOTH_ORDERS:
        shown = pictures if order == "high_first" else pictures[::-1]
        yield {
            "id": row_id(pair.id, order),
            "pair": pair.id,
            "aspect": pair.aspect,
            "counts": counts,
            "system": prompt_text("judges/video_judge_system", prompts),
            "parts": _parts(pair, dimension, [list(one.values()) for one in shown], prompts, cards),
            "target": target(order),
        }


def _parts(
    pair: Pair, dimension: str, videos: Sequence[Sequence[str]], prompts: str, cards: bool
) -> list[dict[str, str]]:
    about = aspect_text(pair.aspect, dimension, prompts)
    question = filled(
        prompt_text("judges/video_judge_user", prompts),
        dimension=about.dimension,
        description=about.description,
        prompt=pair.prompt,
    )
    line = prompt_text("judges/video_line", prompts)
    parts = [{"text": question}]
    for name, pictures in zip(_CARDS, videos, strict=True):
        parts.append({"text": filled(line, name=name)} | ({"card": _card_name(name)} if cards else {}))
        parts += [{"image": picture} for picture in pictures]
    return parts


def _card_name(name: str) -> str:
    return f"cards/{name}.png"


def _card(name: str) -> bytes:
    """Return a picture that says which video follows, for models that take pictures apart from the text."""
    card = Image.new("RGB", _CARD_SIZE, "white")
    middle = (_CARD_SIZE[0] / 2, _CARD_SIZE[1] / 2)
    font = ImageFont.load_default(40)
    ImageDraw.Draw(card).text(middle, f"The {name} video", "black", font, anchor="mm")
    return _saved(card, "PNG")


def _saved(image: Image.Image, form: str) -> bytes:
    buffer = BytesIO()
    image.save(buffer, form, quality=_QUALITY)
    return buffer.getvalue()
