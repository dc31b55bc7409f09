"""A film with copy protection is set aside, and the message says that it has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import pytest

from storage_schemas.errors import Reason, SetAside
from tasks.media.decode import FrameSampler
from tests.tasks.media.corpus import WIDTH, X264, made

FOUR_TWO_ZERO = f"{X264} -pix_fmt yuv420p"
_PACKET, _VIDEO = 188, 256
_TITLE = b"x" * 60


def encrypted(data: bytes) -> bytes:
    """A stand-in for a cipher: other bytes of the same number."""
    return bytes(one ^ 0x5A for one in data)


def scrambled_stream(ffmpeg: str, path: Path) -> None:
    made(FOUR_TWO_ZERO, seconds="2")(ffmpeg, path)
    data = bytearray(path.read_bytes())
    for start in range(0, len(data), _PACKET):
        if int.from_bytes(data[start + 1 : start + 3], "big") & 0x1FFF == _VIDEO:
            adaptation = 1 + data[start + 4] if data[start + 3] & 0x20 else 0
            payload = slice(start + 4 + adaptation, start + _PACKET)
            data[start + 3] |= 0x80
            data[payload] = encrypted(data[payload])
    path.write_bytes(data)


def element(id_: str, body: bytes) -> bytes:
    """An element of Matroska; its body has at most 126 bytes."""
    return bytes.fromhex(id_) + bytes([0x80 | len(body)]) + body


def encrypted_matroska(ffmpeg: str, path: Path) -> None:
    """Encrypt each block, and say so in the track's header in place of its title."""
    plain = path.with_name("plain.mkv")
    made(FOUR_TWO_ZERO, seconds="2")(ffmpeg, plain)
    with av.open(plain) as film, av.open(path, "w") as target:
        stream = target.add_stream_from_template(film.streams.video[0])
        stream.metadata["title"] = _TITLE.decode()
        for packet in film.demux(video=0):
            if packet.size:
                # a block says that it is encrypted, and with which vector
                block = av.Packet(b"\1" + bytes(8) + encrypted(bytes(packet)))
                block.pts, block.dts, block.time_base = packet.pts, packet.dts, packet.time_base
                block.is_keyframe, block.stream = packet.is_keyframe, stream
                target.mux(block)
    data = bytearray(path.read_bytes())
    title = element("536e", _TITLE)
    aes, key = element("47e1", b"\5"), element("47e2", b"12345678")
    encoding = element("5033", b"\1") + element("5035", aes + key)
    header = element("6d80", element("6240", encoding))
    header += element("ec", bytes(len(title) - len(header) - 2))
    start = data.index(title)
    data[start : start + len(title)] = header
    path.write_bytes(data)


@pytest.mark.parametrize(("name", "make"), [("film.ts", scrambled_stream), ("film.mkv", encrypted_matroska)])
def test_encrypted_film_is_named_as_such(
    name: str, make: Callable[[str, Path], None], ffmpeg: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    make(ffmpeg, path)
    with pytest.raises(SetAside, match="its pictures are encrypted") as caught:
        list(FrameSampler(path, long_side=WIDTH))
    assert caught.value.reason is Reason.UNDECODABLE_VIDEO
