"""Cropping and orientation count as the author meant them, for all pictures and by both ways of decoding."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from storage_schemas.errors import Reason, SetAside
from tasks.media.decode import FrameSampler
from tests.tasks.media.corpus import VP9, WIDTH, X264, made, run

TURN = "-bsf:v h264_metadata=display_orientation=insert:rotate"
FOUR_TWO_ZERO = f"{X264} -pix_fmt yuv420p"
#: The size as coded, and tags that take the place of a crop below.
TAGS = "-colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range tv"


def crop_matroska(path: Path, **sides: int) -> None:
    """Let the header of a Matroska file say a crop, in the place of its colours and its display size."""
    data = bytearray(path.read_bytes())
    pixel_width = data.index(bytes((0xB0, 0x81, WIDTH)))
    content = slice(pixel_width, pixel_width + (data[pixel_width - 1] & 0x7F))
    ids = {"left": "54cc", "right": "54dd", "top": "54bb", "bottom": "54aa"}
    new = bytes(data[content][:6])
    new += b"".join(bytes.fromhex(ids[side]) + bytes((0x81, value)) for side, value in sides.items())
    space = content.stop - content.start - len(new)
    data[content] = new + bytes((0xEC, 0x80 | space - 2)) + bytes(space - 2)
    path.write_bytes(data)


def check_against(ffmpeg: str, path: Path, shown: tuple[int, int]) -> None:
    """Check the size that is shown, and both ways of decoding against the command, to the byte."""
    planned = FrameSampler(path, long_side=WIDTH)
    frames = [frame.planes.tobytes() for frame in planned]
    assert (planned.info.width, planned.info.height) == shown
    assert [f.planes.tobytes() for f in FrameSampler(path, long_side=WIDTH, mode="full")] == frames
    width, height = planned.size
    filters = f"fps=1,scale={width}:{height}:flags=lanczos,format=yuv420p"
    command = [ffmpeg, "-v", "error", "-i", str(path), "-vf", filters, "-f", "rawvideo", "-"]
    raw = np.frombuffer(subprocess.run(command, check=True, capture_output=True).stdout, np.uint8)
    assert raw.tobytes() == b"".join(frames)


@pytest.mark.parametrize(("pixels", "edge", "shown"), [("yuv420p", 2, (122, 72)), ("yuv444p", 1, (124, 72))])
def test_crop_in_h264(pixels: str, edge: int, shown: tuple[int, int], ffmpeg: str, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    crop = f"crop_left={edge}:crop_right=4" if edge == 2 else f"crop_left={edge}:crop_right=3"
    made(f"{X264} -pix_fmt {pixels} -bsf:v h264_metadata={crop}", seconds="2.3")(ffmpeg, path)
    check_against(ffmpeg, path, shown)


@pytest.mark.parametrize("codec", [X264, VP9])
@pytest.mark.parametrize(
    ("sides", "shown"),
    [
        ({"left": 16, "right": 32, "top": 8, "bottom": 4}, (80, 60)),
        ({"left": 5, "right": 10, "top": 3, "bottom": 4}, (112, 64)),
    ],
)
def test_a_crop_in_matroska_and_a_clean_aperture_in_mp4_count(
    codec: str, sides: dict[str, int], shown: tuple[int, int], ffmpeg: str, tmp_path: Path
) -> None:
    path = tmp_path / "film.mkv"
    made(f"{codec} -pix_fmt yuv420p {TAGS}", seconds="2.3", vf="setsar=4/3")(ffmpeg, path)
    crop_matroska(path, **sides)
    check_against(ffmpeg, path, shown)
    for ending in ("mov", "mp4") if codec == X264 else ():
        other = tmp_path / f"other.{ending}"
        run(ffmpeg, "-i", path, "-c", "copy", other)
        check_against(ffmpeg, other, shown)


@pytest.mark.parametrize(("angle", "shown"), [(90, (72, 128)), (180, (128, 72))])
def test_first_orientation_counts(angle: int, shown: tuple[int, int], ffmpeg: str, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    made(f"{FOUR_TWO_ZERO} {TURN}={angle}", seconds="2.3")(ffmpeg, path)
    check_against(ffmpeg, path, shown)
    # a picture without the message
    part = [frame.planes.tobytes() for frame in FrameSampler(path, long_side=WIDTH).frames(1)]
    assert part == [frame.planes.tobytes() for frame in FrameSampler(path, long_side=WIDTH)][1:]


def test_pictures_that_turn_in_mid_stream_are_refused(ffmpeg: str, tmp_path: Path) -> None:
    path, parts = tmp_path / "film.ts", []
    for more in ("", f"{TURN}=90"):
        made(f"{FOUR_TWO_ZERO} {more}", seconds="2")(ffmpeg, path)
        parts.append(path.read_bytes())
    path.write_bytes(b"".join(parts))
    with pytest.raises(SetAside, match="turned by 90° in mid-stream") as caught:
        list(FrameSampler(path, long_side=WIDTH))
    assert caught.value.reason is Reason.UNDECODABLE_VIDEO


def test_of_an_animation_the_moving_pictures_are_read_not_the_still_one(ffmpeg: str, tmp_path: Path) -> None:
    path = tmp_path / "film.avif"
    made("-c:v libaom-av1 -usage realtime -cpu-used 8", seconds="2.3", rate="12")(ffmpeg, path)
    assert len(list(FrameSampler(path, long_side=WIDTH))) == 2


@pytest.mark.parametrize(
    "codec",
    [
        "libaom-av1 -usage realtime -cpu-used 8 -pix_fmt gray",
        "libaom-av1 -usage realtime -cpu-used 8 -pix_fmt gray10le",
        "ffv1 -pix_fmt gray16le",
        "ffv1 -pix_fmt ya8",
        "libx264 -pix_fmt gray",
        "mjpeg -pix_fmt gray",
        "msmpeg4 -b:v 400k",
    ],
)
def test_grey_pictures_and_ms_mpeg4_are_those_of_the_command(codec: str, ffmpeg: str, tmp_path: Path) -> None:
    path = tmp_path / "film.mkv"
    made(f"-c:v {codec}", seconds="1.3", rate="12")(ffmpeg, path)
    check_against(ffmpeg, path, (WIDTH, 72))


@pytest.mark.parametrize("fragments", ["", "-movflags frag_keyframe+empty_moov"])
def test_an_encrypted_film_is_named(fragments: str, ffmpeg: str, tmp_path: Path) -> None:
    path, key = tmp_path / "film.mp4", "76a6c65c5ea762046bd749a2e632ccbb"
    scheme = f"-encryption_scheme cenc-aes-ctr -encryption_key {key} -encryption_kid {key}"
    made(f"{FOUR_TWO_ZERO} {scheme} {fragments}", seconds="1")(ffmpeg, path)
    with pytest.raises(SetAside, match="its pictures are encrypted") as caught:
        FrameSampler(path, long_side=WIDTH)
    assert caught.value.reason is Reason.UNDECODABLE_VIDEO
