"""Nothing that a browser sees of a pair's videos, but pictures and length, tells which is the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest
from scipy.stats import binomtest

from storage_schemas.errors import IntegrityError
from storage_schemas.frames import ColorSpec, Planes
from tasks.annotation.alike import _message, _padded, write_alike
from tasks.media.encode import UnitFile, UnitWriter, encode_units

WIDTH, HEIGHT, FPS = 32, 32, 8.0
#: Frames of each clip of a source.
CLIPS = (13, 7, 21, 9, 16, 12)
SOURCES, OF_SOURCE = 40, 5


def clip_frames(rng: np.random.Generator, count: int) -> Planes:
    """Return a drifting texture, ``(count, 48, 32)`` uint8."""
    texture = rng.integers(0, 255, (HEIGHT * 3 // 2, WIDTH)).astype(np.uint8)
    return np.stack([np.roll(texture, place, axis=1) for place in range(count)])


def make_source(folder: Path, number: int) -> tuple[Path, list[Planes]]:
    rng = np.random.default_rng(number)
    clips = [clip_frames(rng, count) for count in CLIPS]
    path = folder / f"source-{number}.mp4"
    encode_units(path, clips, WIDTH, HEIGHT, ColorSpec(), FPS)
    return path, clips


def blurred(frames: Planes) -> Planes:
    return (frames // 64 * 64).astype(np.uint8)


def frozen(frames: Planes) -> Planes:
    return np.repeat(frames[:1], len(frames), axis=0)


def noisy(frames: Planes) -> Planes:
    noise = np.random.default_rng(1).integers(0, 40, frames.shape)
    return np.clip(frames + noise, 0, 255).astype(np.uint8)


def make_low(high: Path, clips: Sequence[Planes], path: Path, kind: int) -> None:
    """Write a low side: three clips with other pixels, or moved, or one removed."""
    starts = np.cumsum([0, *CLIPS])
    order = list(range(len(CLIPS)))
    if kind == 3:
        order = [0, 3, 2, 1, 4, 5]
    elif kind == 4:
        order.remove(2)
    change: Callable[[Planes], Planes] | None = (blurred, frozen, noisy, None, None)[kind]
    with UnitFile(high) as origin, UnitWriter(path, origin, ColorSpec()) as writer:
        for clip in order:
            if change is not None and clip in (1, 2, 4):
                writer.encode(change(clips[clip]))
            else:
                writer.copy(int(starts[clip]), CLIPS[clip])


@dataclass(frozen=True)
class Seen:
    """What a script in the page can see of a video without decoding it."""

    bytes: int
    head: int
    seconds: float
    sizes: tuple[int, ...]
    keys: tuple[int, ...]

    @property
    def features(self) -> dict[str, float]:
        sizes = np.array(self.sizes)
        return {
            "bytes": self.bytes,
            "head": self.head,
            "seconds": self.seconds,
            "frames": len(sizes),
            "first frame": sizes[0],
            "sum of frames": sizes.sum(),
            "spread of frames": sizes.std(),
            "greatest frame": sizes.max(),
            "least frame": sizes.min(),
            "roughness": np.abs(np.diff(sizes)).sum(),
            "key frames": len(self.keys),
            "sum of key places": sum(self.keys),
            "bits of key frames": sizes[list(self.keys)].sum(),
        }


def seen(path: Path) -> Seen:
    with av.open(str(path)) as file:
        # as the file's index has them, which is what a script reads
        frames = file.streams.video[0].index_entries
        return Seen(
            bytes=path.stat().st_size,
            head=path.read_bytes().index(b"mdat"),
            seconds=float((file.duration or 0) / 1e6),
            sizes=tuple(frame.size for frame in frames),
            keys=tuple(place for place, frame in enumerate(frames) if frame.is_keyframe),
        )


Pairs = list[tuple[int, Seen, Seen]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pairs, Pairs]:
    """200 tasks: kind, high and low side, before they were made alike and after."""
    folder = tmp_path_factory.mktemp("alike")
    plain, shown = [], []
    for number in range(SOURCES):
        high, clips = make_source(folder, number)
        for kind in range(OF_SOURCE):
            low, *targets = (folder / name for name in ("low.mp4", "a.mp4", "b.mp4"))
            make_low(high, clips, low, kind)
            plain.append((kind, seen(high), seen(low)))
            write_alike((high, low), (targets[0], targets[1]))
            shown.append((kind, seen(targets[0]), seen(targets[1])))
    return plain, shown


def with_recurrence(pairs: Pairs) -> list[tuple[int, dict[str, float], dict[str, float]]]:
    """Return the features of both sides, with how often a side's sizes came in other tasks."""
    counts = Counter(value for _, *sides in pairs for side in sides for value in (side.bytes, side.sizes))
    return [
        (
            kind,
            *(
                {**side.features, "bytes again": counts[side.bytes], "sizes again": counts[side.sizes]}
                for side in sides
            ),
        )
        for kind, *sides in pairs
    ]


def best_rule(pairs: Pairs) -> tuple[str, int, int]:
    """Return which "more (or less) of this" tells best on one half, and its hits on the other half."""
    rng = np.random.default_rng(7)
    facts = with_recurrence(pairs)
    order = rng.permutation(len(facts))
    learn, test = order[: len(order) // 2], order[len(order) // 2 :]
    coins = rng.choice([-1, 1], len(facts))

    def hits(places: Sequence[int], name: str) -> int:
        differences = [facts[place][1][name] - facts[place][2][name] for place in places]
        guesses = [np.sign(one) or coins[place] for one, place in zip(differences, places, strict=True)]
        return sum(guess > 0 for guess in guesses)

    names = list(facts[0][1])
    best = max(names, key=lambda name: abs(hits(list(learn), name) - len(learn) / 2))
    right = hits(list(test), best)
    if hits(list(learn), best) < len(learn) / 2:
        right = len(test) - right
    return best, right, len(test)


def of_equal_length(pairs: Pairs) -> Pairs:
    return [pair for pair in pairs if pair[0] != 4]


def test_an_adversary_is_right_by_chance_only(both: tuple[Pairs, Pairs]) -> None:
    _, right, of = best_rule(of_equal_length(both[1]))
    interval = binomtest(int(right), of).proportion_ci(0.95)
    assert interval.low <= 0.5 <= interval.high


def test_without_it_the_adversary_knows(both: tuple[Pairs, Pairs]) -> None:
    _, right, of = best_rule(of_equal_length(both[0]))
    assert right / of > 0.8


def test_sides_of_equal_length_look_the_same(both: tuple[Pairs, Pairs]) -> None:
    for _, high, low in of_equal_length(both[1]):
        assert high == low


def test_a_removed_clip_shows_in_the_length_and_not_in_the_file_size(both: tuple[Pairs, Pairs]) -> None:
    for kind, high, low in both[1]:
        if kind == 4:
            assert high.seconds > low.seconds
            assert high.bytes == low.bytes


def test_the_pictures_and_their_times_stay(tmp_path: Path) -> None:
    high, clips = make_source(tmp_path, 3)
    for kind in range(OF_SOURCE):
        low = tmp_path / "low.mp4"
        make_low(high, clips, low, kind)
        targets = tmp_path / "a.mp4", tmp_path / "b.mp4"
        write_alike((high, low), targets)
        for side, target in zip((high, low), targets, strict=True):
            assert pictures(side) == pictures(target)
            data = target.read_bytes()
            assert data[:32] == side.read_bytes()[:32]
            assert data.index(b"moov") < data.index(b"mdat")


def pictures(path: Path) -> list[tuple[float, bytes]]:
    with av.open(str(path)) as file:
        return [(frame.time, frame.to_ndarray().tobytes()) for frame in file.decode(video=0)]


@pytest.mark.parametrize("length", [24, 25, 261, 262, 264, 520, 5_000, 70_001])
def test_a_message_has_its_length_and_looks_like_no_start_code(length: int) -> None:
    message = _message(length)
    assert len(message) == length
    assert int.from_bytes(message[:4], "big") == length - 4
    assert b"\0\0" not in message[4:]


def test_frames_of_any_two_sizes_can_be_padded_alike() -> None:
    for first in range(1, 1200, 7):
        for second in (1, 300, first, first + 263):
            size = _padded((first, second))
            for missing in (size - first, size - second):
                assert len(_message(missing)) == missing
            assert size <= max(first, second) + 28


def test_what_is_no_video_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.mp4").write_bytes(b"no")
    with pytest.raises(IntegrityError, match="is not a video"):
        write_alike((tmp_path / "x.mp4",) * 2, (tmp_path / "a.mp4", tmp_path / "b.mp4"))
