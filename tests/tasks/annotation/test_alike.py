"""Nothing that a browser sees of a pair's videos, but pictures and length, tells which is the source."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest

from storage_schemas.errors import IntegrityError
from storage_schemas.frames import ColorSpec, Planes
from tasks.annotation.alike import _drawn, _shares, write_alike
from tasks.media.encode import UnitFile, UnitWriter, encode_units
from tasks.media.h264_slices import escaped

WIDTH, HEIGHT, FPS = 32, 32, 8.0
#: Frames of each clip of a source.
CLIPS = (13, 7, 21, 9, 16, 12)
#: The first of this number of sources take time enough.
FIRST, SOURCES = 4, 40


def make_source(path: Path, number: int) -> list[Planes]:
    """Write clips of drifting textures, each ``(count, 48, 32)`` uint8."""
    rng = np.random.default_rng(number)
    clips = []
    for count in CLIPS:
        texture = rng.integers(0, 255, (HEIGHT * 3 // 2, WIDTH)).astype(np.uint8)
        clips.append(np.stack([np.roll(texture, place, axis=1) for place in range(count)]))
    encode_units(path, clips, WIDTH, HEIGHT, ColorSpec(), FPS)
    return clips


def blurred(frames: Planes) -> Planes:
    return (frames // 64 * 64).astype(np.uint8)


def frozen(frames: Planes) -> Planes:
    return np.repeat(frames[:1], len(frames), axis=0)


def noisy(frames: Planes) -> Planes:
    noise = np.random.default_rng(1).integers(0, 40, frames.shape)
    return np.clip(frames + noise, 0, 255).astype(np.uint8)


#: Three clips with other pixels, or moved, or one removed.
ORDERS = {"moved": [0, 3, 2, 1, 4, 5], "removed": [0, 1, 3, 4, 5]}
CHANGES: dict[str, Callable[[Planes], Planes]] = {"blurred": blurred, "frozen": frozen, "noisy": noisy}
KINDS = (*CHANGES, *ORDERS)


def make_low(high: Path, clips: Sequence[Planes], path: Path, kind: str) -> None:
    starts = np.cumsum([0, *CLIPS])
    with UnitFile(high) as origin, UnitWriter(path, origin, ColorSpec()) as writer:
        for clip in ORDERS.get(kind, range(len(CLIPS))):
            if kind in CHANGES and clip in (1, 2, 4):
                writer.encode(CHANGES[kind](clips[clip]))
            else:
                writer.copy(int(starts[clip]), CLIPS[clip])


@dataclass(frozen=True)
class Seen:
    """All that a script in the page can see of a video without decoding it."""

    bytes: int
    head: int
    seconds: float
    sizes: tuple[int, ...]
    keys: tuple[int, ...]


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


def pictures(path: Path) -> list[tuple[float, bytes]]:
    with av.open(str(path)) as file:
        return [(frame.time, frame.to_ndarray().tobytes()) for frame in file.decode(video=0)]


@pytest.mark.parametrize(
    "number", [*range(FIRST), *(pytest.param(n, marks=pytest.mark.slow) for n in range(FIRST, SOURCES))]
)
def test_two_sides_look_the_same_but_for_a_removed_clips_length(tmp_path: Path, number: int) -> None:
    """An adversary who is told all that is seen of both files has nothing to tell them by."""
    high, low, *targets = (tmp_path / f"{name}.mp4" for name in ("high", "low", "a", "b"))
    clips = make_source(high, number)
    for kind in KINDS:
        make_low(high, clips, low, kind)
        write_alike((high, low), (targets[0], targets[1]), "key")
        plain, shown = [seen(high), seen(low)], [seen(target) for target in targets]
        assert plain[0].sizes != plain[1].sizes, "without it the adversary knows"
        if kind == "removed":
            assert shown[0].seconds > shown[1].seconds
            assert shown[0].bytes == shown[1].bytes
        else:
            assert shown[0] == shown[1]
        for side, target in zip((high, low), targets, strict=True):
            # the pictures and their times stay
            assert number or pictures(side) == pictures(target)
            data = target.read_bytes()
            assert data[:32] == side.read_bytes()[:32]
            assert data.index(b"moov") < data.index(b"mdat")


@pytest.mark.parametrize("length", [1, 2, 3, 500, 70_000])
def test_drawn_bytes_look_like_coded_data(length: int) -> None:
    # many zeros, which begin what is forbidden in a unit
    shares = np.array([150, 50, 50, 50, *[1] * 252]) / 552
    data = _drawn(length, np.stack([shares, shares]), np.random.default_rng(length))
    assert len(data) == length
    assert data[-1]
    # three zero bytes and the like are escaped, as often as in coded data (H.264, 7.4.1)
    assert not re.search(rb"\0\0(?:[\0-\2]|\x03(?![\0-\3]))", data)
    coded = escaped(np.random.default_rng(1).choice(256, length, p=shares).astype(np.uint8).tobytes())
    assert length < 70_000 or data.count(b"\0\0\3") == pytest.approx(coded.count(b"\0\0\3"), rel=0.1)
    found = np.bincount(np.frombuffer(data, np.uint8), minlength=256) / length
    assert length < 70_000 or np.abs(found - shares).max() < 0.1


def test_shares_follow_what_was_counted_as_far_as_it_is_not_chance() -> None:
    rng = np.random.default_rng(2)
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    true = np.where(bits, 0.6, 0.4).prod(1)
    few = _shares(rng.multinomial(1_500, true, size=2))
    assert few.sum(1) == pytest.approx(1)
    assert np.abs(few / true - 1).max() < 0.15, "counts alone would be wrong by a quarter and more"
    for one in (0, 1, 127, 255):
        for last in (0, 1):
            behind = np.bincount([256 * last + one] * 2, minlength=512).reshape(2, 256)
            assert _shares(behind).min() >= 0
    assert _shares(np.zeros((2, 256), int)) == pytest.approx(1 / 256), "slices without data"
    odd = np.where(np.arange(256) == 77, 4, 1) / 259
    many = _shares(rng.multinomial(3_000_000, odd, size=2))
    assert np.abs(many / odd - 1).max() < 0.05


def test_bits_change_between_drawn_bytes_as_they_do_between_coded_ones() -> None:
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    # a bit is the one before in three of five
    before = np.stack([np.column_stack([np.full(256, last), bits[:, :-1]]) for last in (0, 1)])
    true = np.where(before == bits, 0.6, 0.4).prod(2)
    counts = np.stack([np.random.default_rng(last).multinomial(500_000, true[last]) for last in (0, 1)])
    data = _drawn(100_000, _shares(counts), np.random.default_rng(3))
    drawn = np.unpackbits(np.frombuffer(data, np.uint8)).reshape(-1, 8)
    assert (drawn[1:, 0] != drawn[:-1, -1]).mean() == pytest.approx(0.4, abs=0.01)
    assert (drawn[:, 1:] != drawn[:, :-1]).mean() == pytest.approx(0.4, abs=0.01)


def test_ends_are_spread_as_those_of_slices() -> None:
    rng, shares = np.random.default_rng(1), np.full((2, 256), 1 / 256)
    ends = [_drawn(1, shares, rng)[0] for _ in range(4000)]
    spread = np.bincount([(end & -end).bit_length() for end in ends], minlength=9)[1:]
    assert len(spread) == 8
    assert spread.min() > 400


def test_other_keys_draw_other_bytes_and_no_frame_shows_where_they_begin(tmp_path: Path) -> None:
    high, low = tmp_path / "high.mp4", tmp_path / "low.mp4"
    make_low(high, make_source(high, 1), low, "blurred")
    files = []
    for place, key in enumerate(("one", "one", "two")):
        targets = tmp_path / f"{place}a.mp4", tmp_path / f"{place}b.mp4"
        write_alike((high, low), targets, key)
        assert pictures(low) == pictures(targets[1])
        files.append([target.read_bytes() for target in targets])
    assert files[0] == files[1]
    assert files[0][1] != files[2][1]
    # nothing but access unit delimiters and one slice: no padding to be told by its form
    with av.open(str(tmp_path / "0b.mp4")) as file:
        packets = [bytes(packet) for packet in file.demux(video=0) if packet.size]
    for packet in packets:
        assert packet[:5] == b"\0\0\0\2\x09"
        assert 4 + 2 + 4 + int.from_bytes(packet[6:10]) == len(packet)


def test_data_that_do_not_say_where_they_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "simple.mp4"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=8)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {"profile": "baseline"}
        file.mux(stream.encode(av.VideoFrame(WIDTH, HEIGHT, "yuv420p")))
        file.mux(stream.encode())
    with pytest.raises(IntegrityError, match="arithmetic code"):
        write_alike((path, path), (tmp_path / "a.mp4", tmp_path / "b.mp4"), "key")


def test_what_is_not_a_video_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.mp4").write_bytes(b"no")
    with pytest.raises(IntegrityError, match="is not a video"):
        write_alike((tmp_path / "x.mp4",) * 2, (tmp_path / "a.mp4", tmp_path / "b.mp4"), "key")
