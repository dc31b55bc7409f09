"""A program that reads what a browser gets of two videos before the answer, and learns which is the source.

It does not decode pictures. It knows the aspect and what is shown first, as the page does.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import av
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import binomtest

from storage_schemas.frames import ColorSpec
from tasks.annotation.alike import write_alike
from tasks.annotation.shown_quality import FINEST, encode_shown
from tests.tasks.annotation.shown_films import CHANGES, FPS, Film, film
from tests.tasks.media.trace import headers, slices

Features = dict[str, float]
Vector = NDArray[np.float64]
#: Fields of slices that depend on the pictures and on the drawn quality.
_CODED = ("bytes", "slice_qp_delta", "cabac_alignment_one_bit")
#: Strength of the regression's penalty.
_PENALTY = 1.0


#: What may be read: each without the others, or everything.
KINDS = ("structure", "coded", "data", "everything")


@dataclass(frozen=True)
class Task:
    """What is read of a task: the difference between both videos, the first less the second.

    `structure` is of headers, boxes, times and sizes of the file and of its frames; `coded` of quantisers and
    of the bytes below the padding; `data` of the bytes of slices, undecoded. `first_is_high` is what nobody
    tells the adversary of the tried tasks.
    """

    aspect: str
    structure: Features
    coded: Features
    data: Features
    first_is_high: bool

    def read(self, kind: str) -> Features:
        """Return what is read of one kind."""
        if kind == "everything":
            return self.structure | self.coded | self.data
        result: Features = getattr(self, kind)
        return result


def task(aspect: str, number: int, hidden: bool = True) -> Task:
    """Make a pair and read its videos as workers get them, or the plain sides if `hidden` is False."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        made = film(folder, aspect, number)
        sides = written(folder, made, f"{aspect} {number}") if hidden else (made.high, made.low)
        seen = [read(side, made.shown) for side in sides]
    first_is_high = bool(np.random.default_rng([number, *aspect.encode(), 1]).integers(2))
    first, second = seen if first_is_high else seen[::-1]
    structure, coded, data = (
        {key: one.get(key, 0.0) - other.get(key, 0.0) for key in one.keys() | other.keys()}
        for one, other in zip(first, second, strict=True)
    )
    return Task(aspect, structure, coded, data, first_is_high)


def written(folder: Path, made: Film, key: str) -> tuple[Path, Path]:
    """Return both sides as workers get them."""
    drafts, finest, targets = (
        (folder / f"{name} high.mp4", folder / f"{name} low.mp4") for name in ("draft", "finest", "shown")
    )
    encode_shown((made.high, made.low), drafts, made.shown, key, ColorSpec())
    encode_shown((made.high, made.low), finest, made.shown, key, ColorSpec(), FINEST)
    write_alike(drafts, targets, key, finest)
    return targets


def read(path: Path, shown: Sequence[tuple[float, float]]) -> tuple[Features, Features, Features]:
    """Return what structure, coded fields and data of a video say, independently of its length."""
    pictures = headers(path)
    spans = [(round(start * FPS), round(end * FPS)) for start, end in shown]
    kinds = _kinds(pictures, spans)
    return _structure(path, pictures, spans), _coded(pictures, kinds), _data(slices(path), kinds)


def _kinds(pictures: list[list[dict[str, int]]], spans: list[tuple[int, int]]) -> list[str]:
    places = {place for start, end in spans for place in range(start, end)}
    return [
        f"{'I' if 'idr_pic_id' in units[-1] else 'P'} {'shown' if place in places else 'copied'}"
        for place, units in enumerate(pictures)
    ]


def _structure(path: Path, pictures: list[list[dict[str, int]]], spans: list[tuple[int, int]]) -> Features:
    data = path.read_bytes()
    with av.open(str(path)) as file:
        # copied while the file is open: entries point into it
        entries = [(entry.size, entry.is_keyframe) for entry in file.streams.video[0].index_entries]
    heads = [units[-1] for units in pictures]
    keys = [place for place, one in enumerate(heads) if "idr_pic_id" in one]
    numbers = [heads[place]["idr_pic_id"] for place in keys]
    features: Features = {
        "index: bytes of a frame": sum(size for size, _ in entries) / len(entries),
        "index: key frames": sum(key for _, key in entries) / len(entries),
        "file: bytes of a frame": len(data) / len(entries),
        "file: begins": float(zlib.crc32(data[:32])),
        "idr: share": len(keys) / len(heads),
        "idr: repeated": sum(one == after for one, after in pairwise(numbers)) / len(keys),
        "idr: at what is shown": sum(start in keys for start, _ in spans) / len(spans),
        "units": sum(map(len, pictures)) / len(pictures),
    }
    for box in (b"btrt", b"elst", b"mvhd", b"tkhd", b"mdhd"):
        at = data.find(box)
        # times are left out: length is a feature of its own
        features[f"box: {box.decode()}"] = float(at >= 0 and zlib.crc32(data[at + 4 : at + 16]))
    for name in sorted({name for one in heads for name in one} - {*_CODED, "idr_pic_id"}):
        features[f"slice: {name}"] = sum(one.get(name, 0) for one in heads) / len(heads)
    return features


def _coded(pictures: list[list[dict[str, int]]], kinds: list[str]) -> Features:
    """Return quantisers, sizes, and the complexity that both give, of what is shown and of the rest."""
    rows: dict[str, list[list[float]]] = {}
    for units, kind in zip(pictures, kinds, strict=True):
        size, quantiser = np.log2(units[-1]["bytes"]), units[-1]["slice_qp_delta"]
        rows.setdefault(kind, []).append([size, quantiser, size + quantiser / 6])
    return _summary(rows, ("size", "quantiser", "complexity"))


#: Bytes of a slice in which its data begin, and behind which they surely have begun.
_HEADER, _BEGUN = 4, 12
#: Bytes of a slice's beginning and of its end.
_EDGE = 32
#: Bytes of a string that does not recur by chance.
_LONG = 6


def _data(slices: list[bytes], kinds: list[str]) -> Features:
    """Return statistics of the slices' bytes, which are an arithmetic code, and of strings that recur."""
    rows: dict[str, list[list[float]]] = {}
    begun: set[bytes] = set()
    for one, kind in zip(slices, kinds, strict=True):
        starts = {one[at : at + _LONG] for at in range(_HEADER, _BEGUN)}
        numbers = np.frombuffer(one[_HEADER:] or one[-2:], np.uint8)
        bits = np.unpackbits(numbers)
        edge = 8 * _EDGE
        last = one[-1]
        rows.setdefault(kind, []).append(
            [
                float(not starts.isdisjoint(begun)),
                *(float(part.mean()) for part in (bits, bits[:edge], bits[-edge:])),
                *(float((part[1:] != part[:-1]).mean()) for part in (bits, bits[:edge], bits[-edge:])),
                float(np.bincount(numbers, minlength=256).var() / len(numbers)),
                float((last & -last).bit_length()),
                float(one.count(b"\0\0\3")),
            ]
        )
        begun |= starts
    names = [f"{name} of {part}" for name in ("ones", "flips") for part in ("all", "begin", "end")]
    features = _summary(rows, ("known beginning", *names, "values", "end", "escapes"))
    whole = np.frombuffer(b"".join(one[_BEGUN:] for one in slices), np.uint8).astype(np.int64)
    strings = sum(whole[at : len(whole) - _LONG + at] << (8 * at) for at in range(_LONG))
    # to sort takes a fraction of what NumPy takes to find distinct values
    distinct = 1 + np.count_nonzero(np.diff(np.sort(strings)))
    features["strings that recur"] = 1 - distinct / len(strings)
    return features


def _summary(rows: dict[str, list[list[float]]], names: Sequence[str]) -> Features:
    features: Features = {}
    for kind, some in rows.items():
        for name, column in zip(names, np.transpose(some), strict=True):
            features |= {
                f"{kind}: mean {name}": float(column.mean()),
                f"{kind}: spread of {name}": float(column.std()),
                f"{kind}: least {name}": float(column.min()),
                f"{kind}: most {name}": float(column.max()),
            }
    return features


def learned(seen: Sequence[Features], aspects: Sequence[str], answers: Sequence[bool]) -> Rule:
    """Return a rule learned from tasks whose answers are known: a logistic regression, also by aspect."""
    names = sorted({name for one in seen for name in one})
    scale = np.array([np.std([one.get(name, 0.0) for one in seen]) or 1.0 for name in names])
    rule = Rule(names, scale, np.zeros(len(names) * (1 + len(CHANGES))))
    rows = np.stack([rule.row(one, aspect) for one, aspect in zip(seen, aspects, strict=True)])
    signs = np.where(answers, 1.0, -1.0)

    def loss(weights: Vector) -> tuple[float, Vector]:
        margins = signs * (rows @ weights)
        slope = -rows.T @ (signs * expit(-margins)) + _PENALTY * weights
        return float(np.logaddexp(0, -margins).sum() + _PENALTY * weights @ weights / 2), slope

    return Rule(names, scale, minimize(loss, rule.weights, jac=True, method="L-BFGS-B").x)


@dataclass(frozen=True)
class Rule:
    """Weights of features, common ones and those of each aspect."""

    names: list[str]
    scale: Vector
    weights: Vector

    def row(self, seen: Features, aspect: str) -> Vector:
        """Return the features of a task, once for all aspects and once for its own."""
        plain = np.array([seen.get(name, 0.0) for name in self.names]) / self.scale
        own = [plain if aspect == one else np.zeros_like(plain) for one in CHANGES]
        return np.concatenate([plain, *own])

    def says_first(self, seen: Features, aspect: str, coin: bool) -> bool:
        """Return whether the first video is taken for the source; a coin decides if nothing is seen."""
        score = float(self.row(seen, aspect) @ self.weights)
        return score > 0 if score else coin


@dataclass(frozen=True)
class Result:
    """How many of how many tasks were answered rightly."""

    right: int
    tasks: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share, 95 %."""
        found = binomtest(self.right, self.tasks).proportion_ci(method="wilson")
        return float(found.low), float(found.high)


def tried(learn: Sequence[Task], on: Sequence[Task], features: str) -> dict[str, Result]:
    """Learn on some tasks and return the results on others, of all together and by aspect.

    Parameters
    ----------
    features
        One of `KINDS`.
    """
    rule = learned(
        [one.read(features) for one in learn],
        [one.aspect for one in learn],
        [one.first_is_high for one in learn],
    )
    coins = np.random.default_rng(1).integers(2, size=len(on))
    right: dict[str, list[bool]] = {}
    for one, coin in zip(on, coins, strict=True):
        guess = rule.says_first(one.read(features), one.aspect, bool(coin))
        for group in ("all", one.aspect):
            right.setdefault(group, []).append(guess == one.first_is_high)
    return {group: Result(sum(some), len(some)) for group, some in right.items()}
