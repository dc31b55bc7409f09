"""IDR pictures get other numbers, and nothing else of a stream changes."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from tasks.media.bitstream import InvalidBitstream
from tasks.media.h264_slices import IdrNumbers, _replaced, escaped
from tests.tasks.media.trace import headers, nal_units

KINDS = {
    "cabac": {"x264-params": "bframes=0"},
    "cavlc": {"profile": "baseline"},
    "b-frames": {"x264-params": "bframes=2"},
    "slices": {"x264-params": "slices=3"},
    "no deblocking": {"x264-params": "no-deblock=1"},
}


def encoded(path: Path, options: dict[str, str]) -> None:
    rng = np.random.default_rng(1)
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as file:
        stream = file.add_stream("libx264", rate=8)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.gop_size = 3
        stream.options = {"qp": "12", "threads": "1", **options}
        for _ in range(40):
            picture = rng.integers(0, 255, (72, 64)).astype(np.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="yuv420p")))
        file.mux(stream.encode())


def renumbered(path: Path, target: Path, first: int) -> None:
    """Copy a video with other numbers, which begin with `first`."""
    options = {"fflags": "+bitexact"}
    with av.open(str(path)) as origin, av.open(str(target), "w", options=options) as file:
        stream = origin.streams.video[0]
        copied = file.add_stream_from_template(stream)
        numbers = IdrNumbers(stream.codec_context.extradata or b"")
        numbers._number = 1 - first
        for packet in origin.demux(stream):
            if packet.size:
                units = numbers.renumbered(nal_units(bytes(packet)))
                one = av.Packet(b"".join(len(unit).to_bytes(4) + unit for unit in units))
                one.pts, one.dts, one.time_base = packet.pts, packet.dts, packet.time_base
                one.duration, one.is_keyframe, one.stream = packet.duration, packet.is_keyframe, copied
                file.mux(one)


def nal_data(path: Path) -> list[list[bytes]]:
    with av.open(str(path)) as file:
        return [nal_units(bytes(packet)) for packet in file.demux(video=0) if packet.size]


def pictures(path: Path) -> list[bytes]:
    with av.open(str(path)) as file:
        return [frame.to_ndarray().tobytes() for frame in file.decode(video=0)]


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_keep_their_pixels_and_every_other_field(tmp_path: Path, kind: str) -> None:
    origin, other, again = (tmp_path / f"{name}.mp4" for name in "abc")
    encoded(origin, KINDS[kind])
    renumbered(origin, other, 1)
    renumbered(other, again, 0)
    fields = [headers(path) for path in (origin, other)]
    ids = [
        [next((unit["idr_pic_id"] for unit in units if "idr_pic_id" in unit), None) for units in one]
        for one in fields
    ]
    numbers = [[number for number in one if number is not None] for one in ids]
    for first, one in enumerate(numbers):
        assert len(one) >= 13
        assert one == [(first + place) % 2 for place in range(len(one))]
    for units in (unit for one in fields for picture in one for unit in picture):
        for name in ("idr_pic_id", "bytes", "cabac_alignment_one_bit"):
            units.pop(name, None)
    assert fields[0] == fields[1]
    assert pictures(origin) == pictures(other)
    # to the byte what it was
    assert nal_data(again) == nal_data(origin)


def test_zeros_are_escaped_as_the_standard_says() -> None:
    assert escaped(b"\0\0\0\0\1\0\0\4\0\0") == b"\0\0\3\0\0\3\1\0\0\4\0\0\3"


def test_bits_behind_a_number_move_and_cabac_data_stay_at_their_byte() -> None:
    # 101 | 1 | 0110 becomes 101 | 010 | 0110 and is filled up with ones
    data = bytes([0b1011_0110, 0x80, 0x42])
    assert _replaced(data, 3, 4, 8, 1, cabac=True) == bytes([0b1010_1001, 0b1011_1111, 0x80, 0x42])
    assert _replaced(data[:2], 3, 4, 8, 1, cabac=False) == bytes([0b1010_1001, 0b1010_0000])


def test_a_stream_that_is_not_read_here_is_refused() -> None:
    with pytest.raises(InvalidBitstream):
        IdrNumbers(b"")
