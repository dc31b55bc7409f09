"""What a header says is compared with the pictures: length, and colours that change in mid-stream."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from storage_schemas.errors import Reason, SetAside
from tasks.media.decode import FrameSampler
from tasks.media.probe import probe

Film = Callable[..., Path]


@pytest.fixture
def film(ffmpeg: str, tmp_path: Path) -> Film:
    """Make a film of that length, in seconds, with further arguments of the command."""

    def make(name: str, seconds: int, *arguments: str, sound_s: int = 0, size: str = "160x90") -> Path:
        path = tmp_path / name
        inputs = ["-f", "lavfi", "-i", f"testsrc2=size={size}:rate=5:duration={seconds}"]
        if sound_s:
            inputs += ["-f", "lavfi", "-i", f"sine=duration={sound_s}"]
        command = [ffmpeg, "-y", "-v", "error", *inputs, *(arguments or ("-c:v", "libx264")), str(path)]
        subprocess.run(command, check=True, timeout=60)
        return path

    return make


def joined(target: Path, *parts: Path) -> Path:
    target.write_bytes(b"".join(part.read_bytes() for part in parts))
    return target


def seconds_and_frames(path: Path, **options: object) -> tuple[float, float, int]:
    """Seconds before and after decoding, and the number of frames of one a second."""
    sampler = FrameSampler(path, fps=Fraction(1), long_side=64, **options)  # type: ignore[arg-type]
    before = sampler.duration_s
    count = len(list(sampler))
    return round(before, 1), round(sampler.duration_s, 1), count


def test_sound_that_is_longer_and_a_clock_that_starts_late_are_not_length(film: Film) -> None:
    long = film("sound.mkv", 4, sound_s=12)
    assert seconds_and_frames(long) == (4.0, 4.0, 4)
    assert round(probe(long).duration_s, 1) == 4.0
    media = film("sound.wmv", 4, "-c:v", "wmv2", sound_s=12)
    assert seconds_and_frames(media)[1:] == (4.0, 4)
    assert round(probe(media).duration_s) == 4
    late = film("late.mkv", 4, "-c:v", "libx264", "-output_ts_offset", "3600")
    assert seconds_and_frames(late) == (4.0, 4.0, 4)
    assert round(probe(late).duration_s, 1) == 4.0


def test_pictures_that_begin_late_end_late(film: Film, ffmpeg: str, tmp_path: Path) -> None:
    late = tmp_path / "late.mp4"
    inputs = ["-itsoffset", "5", "-i", str(film("six.mp4", 6)), "-f", "lavfi", "-i", "sine=duration=12"]
    codecs = ["-map", "0:v", "-map", "1:a", "-c:v", "copy", "-c:a", "aac", str(late)]
    subprocess.run([ffmpeg, "-v", "error", *inputs, *codecs], check=True, timeout=60)
    before, after, count = seconds_and_frames(late)
    # the numbers 5 to 10: none is before the first picture
    assert (before, after, count) == (11.0, 11.0, 6)
    assert seconds_and_frames(late, mode="full")[1:] == (11.0, 6)


def test_a_clock_that_leaps_or_starts_again_is_as_long_as_its_pictures(film: Film, tmp_path: Path) -> None:
    one = film("one.ts", 4)
    far = film("far.ts", 6, "-c:v", "libx264", "-output_ts_offset", "5000")
    assert seconds_and_frames(joined(tmp_path / "leaps.ts", one, far)) == (10.0, 10.0, 10)
    again = joined(tmp_path / "again.ts", one, one)
    assert seconds_and_frames(again) == (8.0, 8.0, 8)
    assert seconds_and_frames(again, mode="full") == (8.0, 8.0, 8)
    assert round(probe(again).duration_s, 1) == 8.0


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("cut.mkv", "libx264"),
        ("cut.webm", "libvpx-vp9 -cpu-used 8"),
        ("cut.flv", "flv1"),
        ("cut.wmv", "wmv2"),
    ],
)
def test_a_file_that_was_only_allocated_at_its_end_is_cut_off(film: Film, name: str, codec: str) -> None:
    path = film(name, 12, "-c:v", *codec.split(), "-b:v", "400k", "-g", "5")
    content = path.read_bytes()
    kept = len(content) * 6 // 10
    path.write_bytes(content[:kept] + bytes(len(content) - kept))
    with pytest.raises(SetAside, match="shorter than its header says") as caught:
        FrameSampler(path, fps=Fraction(1), long_side=64)
    assert caught.value.reason is Reason.TRUNCATED_VIDEO
    before, after, count = seconds_and_frames(path, damaged="truncate")
    assert before == after < 10 and abs(count - after) <= 1


@pytest.mark.parametrize(
    ("name", "arguments"), [("cut.wmv", "-c:v wmv2"), ("cut.mxf", "-c:v mpeg2video -strict unofficial -g 5")]
)
def test_windows_media_and_mxf_are_cut_off_anywhere(film: Film, name: str, arguments: str) -> None:
    path = film(name, 12, *arguments.split(), "-b:v", "400k")
    content = path.read_bytes()
    assert seconds_and_frames(path) == (12.0, 12.0, 12)
    for kept in range(len(content) // 10, len(content) * 9 // 10, len(content) // 12 + 1):
        path.write_bytes(content[:kept])
        with pytest.raises(SetAside, match="shorter than its header says") as caught:
            FrameSampler(path, fps=Fraction(1), long_side=64)
        assert caught.value.reason is Reason.TRUNCATED_VIDEO


@pytest.mark.parametrize("mode", ["auto", "full"])
def test_a_part_without_pictures_is_a_reason_of_its_own(film: Film, mode: str) -> None:
    for gap_s in (50, 70):
        later = f"setpts=PTS+gt(T\\,2)*{gap_s}/TB"
        path = film("gap.mp4", 4, "-vf", later, "-fps_mode", "vfr", "-c:v", "libx264")
        if gap_s == 50:
            assert seconds_and_frames(path, mode=mode) == (54.0, 54.0, 54)
    with pytest.raises(SetAside, match=r"no picture follows the one at 2.0 s for over 60 s") as caught:
        seconds_and_frames(path, mode=mode)
    assert caught.value.reason is Reason.PICTURE_GAP
    assert seconds_and_frames(path, mode=mode, damaged="conceal")[1:] == (74.0, 74)


def test_zeros_behind_a_whole_matroska_file_are_not_part_of_it(film: Film) -> None:
    path = film("whole.mkv", 4)
    path.write_bytes(path.read_bytes() + bytes(50_000))
    assert seconds_and_frames(path) == (4.0, 4.0, 4)


def test_colours_that_change_in_mid_stream_are_stored_as_the_first_ones(film: Film, tmp_path: Path) -> None:
    def part(name: str, matrix: str, value_range: str) -> Path:
        colours = f"scale=out_color_matrix={matrix}:out_range={value_range},format=yuv420p"
        tags = ("-colorspace", matrix, "-color_range", value_range, "-crf", "5")
        return film(name, 3, "-vf", colours, "-c:v", "libx264", *tags)

    first = part("first.ts", "bt709", "tv")
    for matrix, value_range in (("bt709", "tv"), ("bt709", "pc"), ("smpte170m", "tv"), ("smpte170m", "pc")):
        path = joined(tmp_path / "joined.ts", first, part("then.ts", matrix, value_range))
        sampler = FrameSampler(path, fps=Fraction(1), long_side=80)
        frames = [frame.planes.astype(int) for frame in sampler]
        assert (len(frames), sampler.info.matrix, sampler.info.full_range) == (6, "bt709", False)
        same = (matrix, value_range) == ("bt709", "tv")
        for before, after in zip(frames[:3], frames[3:], strict=True):
            # about 10 where it is not converted
            assert np.abs(before - after).mean() <= (0 if same else 3)
        (tmp_path / "then.ts").unlink()


@pytest.mark.parametrize("matrix", [8, 10, 13, 14, 15])
def test_a_colour_matrix_that_ffmpeg_does_not_know_is_named(film: Film, matrix: int) -> None:
    tagged = (
        "-c:v",
        "libx264",
        "-pix_fmt",
        "yuv420p",
        "-bsf:v",
        f"h264_metadata=matrix_coefficients={matrix}",
    )
    with pytest.raises(
        SetAside, match=rf"colour matrix {matrix} of ITU-T H.273.*matrix_coefficients=1"
    ) as caught:
        FrameSampler(film("tagged.mp4", 1, *tagged), long_side=64)
    assert caught.value.reason is Reason.UNDECODABLE_VIDEO


def test_a_picture_that_is_too_wide_to_scale_is_named(film: Film) -> None:
    path = film("wide.avi", 1, "-c:v", "ffv1", "-pix_fmt", "yuv420p", size="8192x2")
    with pytest.raises(SetAside, match=r"cannot scale its pictures .8192×2.*to a size that is less wide"):
        FrameSampler(path, long_side=128)
