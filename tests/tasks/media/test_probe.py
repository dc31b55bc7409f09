"""What probing says of good files, and why it sets bad ones aside."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas.errors import Reason, SetAside, UserInputError
from tasks.media.decode import FrameSampler
from tasks.media.probe import probe, target_size
from tasks.media.source_file import is_cut_off
from tests.tasks.media.corpus import (
    HEIGHT,
    TS_PACKET,
    TS_VIDEO_PID,
    WIDTH,
    X264,
    Video,
    inside_a_picture,
    made,
    packets_of,
    place_of,
    run,
)


def test_plain_film(video: Video) -> None:
    info = probe(video("plain"))
    assert (info.codec, info.width, info.height, info.rotation) == ("h264", WIDTH, HEIGHT, 0)
    assert (info.sar, info.frame_rate) == (1, 24)
    assert (info.interlaced, info.full_range, info.variable_rate) == (False, False, False)
    assert info.duration_s == pytest.approx(5.3, abs=0.05)
    assert probe(video("interlaced")).interlaced
    assert probe(video("variable_rate")).variable_rate
    assert [probe(video(name)).codec for name in ("av1", "vp9", "hevc")] == ["av1", "vp9", "hevc"]


@pytest.mark.parametrize(
    ("name", "size", "rotation"),
    [
        ("turned_90", (HEIGHT, WIDTH), 270),
        ("turned_180", (WIDTH, HEIGHT), 180),
        ("turned_270", (HEIGHT, WIDTH), 90),
        ("wide_pixels", (171, HEIGHT), 0),
    ],
)
def test_size_is_as_shown(name: str, size: tuple[int, int], rotation: int, video: Video) -> None:
    info = probe(video(name))
    assert ((info.width, info.height), info.rotation) == (size, rotation)
    assert (info.coded_width, info.coded_height) == (WIDTH, HEIGHT)


@pytest.mark.parametrize(
    ("arguments", "size", "matrix", "assumed"),
    [
        ("-colorspace bt709", "128:72", "bt709", False),
        ("-colorspace smpte170m", "128:72", "bt601", False),
        ("-colorspace bt470bg", "128:72", "bt601", False),
        ("-colorspace bt2020nc", "128:72", "bt2020", False),
        ("", "128:72", "bt601", True),
        ("", "1280:300", "bt709", True),
        ("", "960:720", "bt709", True),
    ],
)
def test_matrix(arguments: str, size: str, matrix: str, assumed: bool, ffmpeg: str, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    made(f"{X264} {arguments}", seconds="0.1", vf=f"scale={size},setsar=1")(ffmpeg, path)
    info = probe(path)
    assert (info.matrix, info.matrix_assumed) == (matrix, assumed)


@pytest.mark.parametrize("pix_fmt", ["yuvj420p", "yuv420p"])
def test_full_range_is_that_of_the_stored_planes(pix_fmt: str, ffmpeg: str, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    half_white = "drawbox=color=black:t=fill,drawbox=w=iw/2:color=white:t=fill"
    made(f"{X264} -pix_fmt {pix_fmt}", seconds="1", vf=half_white)(ffmpeg, path)
    luma = next(iter(FrameSampler(path, long_side=WIDTH))).planes[:HEIGHT]
    assert probe(path).full_range == (pix_fmt == "yuvj420p") == (luma.min() < 5 and luma.max() > 250)


def reason_of(path: Path) -> Reason:
    with pytest.raises(SetAside) as caught:
        probe(path)
    assert str(path.name) in caught.value.message
    return caught.value.reason


def test_missing_empty_and_wrong_files(video: Video, ffmpeg: str, tmp_path: Path) -> None:
    assert reason_of(tmp_path / "missing.mp4") is Reason.VIDEO_MISSING
    (tmp_path / "empty.mp4").touch()
    assert reason_of(tmp_path / "empty.mp4") is Reason.EMPTY_FILE
    (tmp_path / "text.mp4").write_text("not a film\n" * 200)
    assert reason_of(tmp_path / "text.mp4") is Reason.NOT_A_VIDEO
    assert reason_of(tmp_path) is Reason.NOT_A_VIDEO
    data = video("plain").read_bytes()
    (tmp_path / "no_index.mp4").write_bytes(data[: len(data) // 2])
    assert reason_of(tmp_path / "no_index.mp4") is Reason.TRUNCATED_VIDEO


def test_sound_alone_or_with_a_cover_is_not_a_video(ffmpeg: str, tmp_path: Path) -> None:
    for name in ("sound.m4a", "sound.mp3", "sound.wav", "sound.flac"):
        run(ffmpeg, "-f", "lavfi", "-i", "sine=d=1", tmp_path / name)
        assert reason_of(tmp_path / name) is Reason.NO_VIDEO_STREAM
    cover = "-f lavfi -i testsrc=s=64x64 -map 0 -map 1 -c:a copy -frames:v 1 -disposition:v attached_pic"
    run(ffmpeg, "-i", tmp_path / "sound.mp3", *cover.split(), tmp_path / "album.mp3")
    assert reason_of(tmp_path / "album.mp3") is Reason.NO_VIDEO_STREAM


def test_files_that_name_other_files_are_not_opened(video: Video, tmp_path: Path) -> None:
    shutil.copy(video("transport_stream"), tmp_path / "part.ts")
    playlist = "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:5,\npart.ts\n#EXT-X-ENDLIST\n"
    for name, text in [
        ("list.m3u8", playlist),
        ("list.mp4", playlist),
        ("list.ffconcat", "ffconcat version 1.0\nfile part.ts\n"),
        ("list.sdp", "v=0\nm=video 5004 RTP/AVP 96\nc=IN IP4 127.0.0.1\n"),
    ]:
        (tmp_path / name).write_text(text)
        assert reason_of(tmp_path / name) is Reason.NOT_A_VIDEO


@pytest.mark.parametrize("name", ["http:a.mp4", "concat:x|y.mp4", "%03d.mp4", 'it\'s "ä" 😀.mp4', "-y.mp4"])
def test_name_is_literal(name: str, video: Video, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(video("plain"), tmp_path / name)
    assert probe(tmp_path / name).width == WIDTH
    monkeypatch.chdir(tmp_path)
    assert probe(Path(name)).width == WIDTH


@pytest.mark.parametrize("name", ["plain", "index_first", "fragments", "matroska", "vp9", "avi"])
def test_is_cut_off_tells_whole_files_from_shorter_ones(name: str, video: Video, tmp_path: Path) -> None:
    data = video(name).read_bytes()
    assert not is_cut_off(video(name))
    for length in (len(data) - 1, inside_a_picture(video(name))):
        (tmp_path / "cut").write_bytes(data[:length])
        assert is_cut_off(tmp_path / "cut")
    (tmp_path / "tail").write_bytes(data + bytes(32))
    assert not is_cut_off(tmp_path / "tail")


@pytest.mark.parametrize(("before", "after"), [(0, 0), (4, 0), (0, 16)], ids=["188", "192", "204"])
def test_is_cut_off_counts_transport_packets(before: int, after: int, video: Video, tmp_path: Path) -> None:
    plain = video("transport_stream").read_bytes()
    stamp, check = bytes([1, 2, 3, 4])[:before], bytes(range(after))
    packets = [stamp + plain[i : i + TS_PACKET] + check for i in range(0, len(plain), TS_PACKET)]
    whole, last = b"".join(packets[:-1]), packets[-1]
    path = tmp_path / "film.ts"
    for length in range(len(last) + 1):
        path.write_bytes(whole + last[:length])
        assert is_cut_off(path, TS_VIDEO_PID) == (0 < length < len(last)), length
    path.write_bytes(whole + last + bytes(300))
    assert not is_cut_off(path, TS_VIDEO_PID)
    path.write_bytes(whole + last[:112])
    assert reason_of(path) is Reason.TRUNCATED_VIDEO


def test_a_picture_with_a_length_in_a_transport_stream_is_whole_or_not(video: Video, tmp_path: Path) -> None:
    data = video("transport_stream_with_lengths").read_bytes()
    packets = packets_of(video("transport_stream_with_lengths"))
    middle = len(packets) // 2
    start = place_of(packets[middle])
    of_the_video = [
        place
        for place in range(start, place_of(packets[middle + 1]), TS_PACKET)
        if int.from_bytes(data[place + 1 : place + 3], "big") & 0x1FFF == TS_VIDEO_PID
    ]
    path = tmp_path / "film.ts"
    for end in [*of_the_video[1:], of_the_video[-1] + TS_PACKET]:
        path.write_bytes(data[:end])
        assert is_cut_off(path, TS_VIDEO_PID) == (end <= of_the_video[-1])


def test_target_size(video: Video) -> None:
    info = probe(video("plain"))
    for side, size, expected in [
        (512, (1280, 720), (512, 288)),
        (512, (720, 1280), (288, 512)),
        (512, (1000, 1000), (512, 512)),
        (512, (4000, 10), (512, 4)),
        (512, (1920, 1038), (512, 276)),
        (64, (320, 180), (64, 36)),
    ]:
        assert target_size(replace(info, width=size[0], height=size[1]), side) == expected
    for wrong in (0, -4, 2, 511):
        with pytest.raises(UserInputError, match=str(wrong)):
            target_size(info, wrong)


@settings(max_examples=50)
@given(st.integers(1, 8000), st.integers(1, 8000), st.integers(1, 400))
def test_target_size_is_always_storable(video: Video, width: int, height: int, quarter: int) -> None:
    size = target_size(replace(probe(video("plain")), width=width, height=height), 4 * quarter)
    assert max(size) == 4 * quarter
    assert all(side >= 4 and side % 4 == 0 for side in size)


@pytest.mark.parametrize(("ending", "codec"), [("m2v", "mpeg2video"), ("h264", "libx264")])
def test_length_of_a_raw_stream(tmp_path: Path, ffmpeg: str, ending: str, codec: str) -> None:
    path = tmp_path / f"raw.{ending}"
    run(ffmpeg, "-f", "lavfi", "-i", "testsrc2=s=64x36:r=25:d=4", "-c:v", codec, path)
    assert probe(path).duration_s == 4.0
    sampler = FrameSampler(path, fps=Fraction(5), long_side=64)
    assert (len(list(sampler)), sampler.duration_s) == (20, 4.0)


def test_a_name_with_a_line_break_is_reported_in_one_line(tmp_path: Path, video: Video) -> None:
    path = tmp_path / "one\ntwo.mp4"
    path.write_bytes(video("plain").read_bytes()[:-100])
    with pytest.raises(SetAside) as problem:
        probe(path)
    assert problem.value.reason is Reason.TRUNCATED_VIDEO
    assert "one\\ntwo.mp4: " in problem.value.message
    assert "\n" not in problem.value.message
