from __future__ import annotations

import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage_schemas.errors import IntegrityError
from storage_schemas.frames import ColorSpec, Matrix, Planes
from tasks.media.encode import EncoderSettings, UnitFile, UnitWriter, encode_units, frame_rate

WIDTH, HEIGHT = 64, 48
UNITS = [4, 1, 1, 13, 2, 7]
STARTS = [sum(UNITS[:i]) for i in range(len(UNITS))]


def picture(number: int, seed: int = 0) -> Planes:
    """Give a smooth picture that its brightness and a moving bar distinguish from every other."""
    rows = np.arange(HEIGHT * 3 // 2)[:, None] * (2 + seed) + np.arange(WIDTH)[None, :]
    planes = ((rows + 37 * number) % 220 + 16).astype(np.uint8)
    planes[:, (number * 5) % WIDTH] = 235
    return planes


def units(seed: int = 0) -> Iterator[list[Planes]]:
    for start, count in zip(STARTS, UNITS, strict=True):
        yield [picture(start + place, seed) for place in range(count)]


def decoded(path: Path) -> list[Planes]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="yuv420p") for frame in container.decode(video=0)]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encode") / "origin.mp4"
    assert encode_units(path, units(), WIDTH, HEIGHT, ColorSpec(), 1.0) == sum(UNITS)
    return path


def test_every_unit_begins_with_an_idr_frame_and_seeking_never_goes_far_back(origin: Path) -> None:
    with av.open(str(origin)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        keys = [place for place, packet in enumerate(packets) if packet.is_keyframe]
        assert all(packet.pts == packet.dts for packet in packets)
        # NAL unit type 5 is an IDR slice: nothing before it is needed
        for place in keys:
            data, types = bytes(packets[place]), []
            while data:
                size = int.from_bytes(data[:4])
                types.append(data[4] & 31)
                data = data[4 + size :]
            assert 5 in types
            assert 1 not in types
    assert set(STARTS) <= set(keys)
    assert max(np.diff([*keys, sum(UNITS)])) <= 10


def test_pictures_survive(origin: Path) -> None:
    result = decoded(origin)
    wanted = [frame for unit in units() for frame in unit]
    assert len(result) == len(wanted)
    for one, other in zip(result, wanted, strict=True):
        assert np.abs(one.astype(int) - other).mean() < 3


@pytest.mark.parametrize(
    ("fps", "rate"), [(1.0, Fraction(1)), (0.5, Fraction(1, 2)), (29.97, Fraction(30000, 1001)), (12.5, None)]
)
def test_n_frames_last_n_over_fps_seconds(tmp_path: Path, fps: float, rate: Fraction | None) -> None:
    path = tmp_path / "a.mp4"
    encode_units(path, units(), WIDTH, HEIGHT, ColorSpec(), fps)
    rate = rate or Fraction(fps)
    assert frame_rate(fps) == rate
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.start_time == 0
        assert stream.duration is not None
        assert stream.time_base is not None
        assert stream.duration * stream.time_base == sum(UNITS) / rate
        times = [frame.pts * frame.time_base for frame in container.decode(stream) if frame.pts is not None]
    assert times == [place / rate for place in range(sum(UNITS))]


@pytest.mark.parametrize(
    ("matrix", "tag"), [("bt601", "smpte170m"), ("bt709", "bt709"), ("bt2020", "bt2020nc")]
)
def test_colour_is_tagged(tmp_path: Path, ffmpeg: str, matrix: Matrix, tag: str) -> None:
    path = tmp_path / "a.mp4"
    for full_range, said in ((False, "tv"), (True, "pc")):
        encode_units(path, [[picture(0)]], WIDTH, HEIGHT, ColorSpec(matrix, full_range), 1.0)
        command = [ffmpeg, "-hide_banner", "-i", str(path)]
        told = subprocess.run(command, capture_output=True, text=True).stderr
        assert f"({said}, {tag}" in told.replace("yuvj420p", "yuv420p")


def test_coding_again_gives_the_same_bytes_a_better_quality_more(origin: Path, tmp_path: Path) -> None:
    path, data = tmp_path / "again.mp4", origin.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")
    encode_units(path, units(), WIDTH, HEIGHT, ColorSpec(), 1.0)
    assert path.read_bytes() == data
    sizes = []
    for crf in (30, 12):
        encode_units(path, units(), WIDTH, HEIGHT, ColorSpec(), 1.0, EncoderSettings(crf=crf))
        sizes.append(path.stat().st_size)
    assert sizes[0] < sizes[1]


@given(st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_units_decode_in_any_order(origin: Path, tmp_path: Path, data: st.DataObject) -> None:
    order = data.draw(st.lists(st.sampled_from(range(len(UNITS))), min_size=1, max_size=12))
    changed = data.draw(st.sets(st.sampled_from(range(len(UNITS)))))
    path = tmp_path / "low.mp4"
    news = list(units(seed=3))
    with UnitFile(origin) as file, UnitWriter(path, file, ColorSpec()) as writer:
        for unit in order:
            if unit in changed:
                writer.encode(news[unit])
            else:
                writer.copy(STARTS[unit], UNITS[unit])
    high, low = decoded(origin), decoded(path)
    expected = [(unit, offset) for unit in order for offset in range(UNITS[unit])]
    for frame, (unit, offset) in zip(low, expected, strict=True):
        if unit in changed:
            assert np.abs(frame.astype(int) - news[unit][offset]).mean() < 3
        else:
            assert np.array_equal(frame, high[STARTS[unit] + offset])


def test_ffmpeg_reads_a_stitched_video_without_complaint(origin: Path, tmp_path: Path, ffmpeg: str) -> None:
    path = tmp_path / "low.mp4"
    with UnitFile(origin) as file, UnitWriter(path, file, ColorSpec(), comment="so & so") as writer:
        for start, count in zip(reversed(STARTS), reversed(UNITS), strict=True):
            writer.copy(start, count)
        writer.encode([picture(99)])
        writer.encode([picture(98)])
    command = [ffmpeg, "-v", "warning", "-xerror", "-i", str(path), "-f", "null", "-"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
    with UnitFile(path) as file:
        assert (file.count, file.comment) == (sum(UNITS) + 2, "so & so")


def test_other_settings_do_not_mix_unseen(origin: Path, tmp_path: Path) -> None:
    with (
        UnitFile(origin) as file,
        UnitWriter(tmp_path / "low.mp4", file, ColorSpec("bt601")) as writer,
        pytest.raises(IntegrityError, match="other settings"),
    ):
        writer.copy(0, 4)
        writer.encode([picture(0)])


def test_unit_file_names_a_wrong_place_and_what_is_not_a_video(origin: Path, tmp_path: Path) -> None:
    with UnitFile(origin) as file:
        with pytest.raises(IntegrityError, match="frame 2 of a unit"):
            list(file.packets(2, 2))
        with pytest.raises(IntegrityError, match="frame 28 of a unit"):
            list(file.packets(STARTS[-1], 99))
        assert len(list(file.packets(0, 4))) == 4
    path = tmp_path / "a.mp4"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(IntegrityError, match=r"a\.mp4"):
        UnitFile(path)


def test_frames_of_another_size_and_no_frames_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shape"):
        encode_units(tmp_path / "a.mp4", [[picture(0)[:-6]]], WIDTH, HEIGHT, ColorSpec(), 1.0)
    with pytest.raises(ValueError, match="at least one"):
        encode_units(tmp_path / "b.mp4", [], WIDTH, HEIGHT, ColorSpec(), 1.0)
    with pytest.raises(ValueError, match="highest level"):
        encode_units(tmp_path / "c.mp4", [[]], 16384, 8192, ColorSpec(), 60.0)
