"""The ffmpeg command reads the frames that are stored, and encodes by the encoders that it has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from slvmeval.cli.store.release_check import ComparedSource
from slvmeval.cli.store.upkeep import _show_compared
from storage_schemas.errors import PrerequisiteError, SetAside, UserInputError
from storage_schemas.frames import ColorSpec, FrameReader
from storage_schemas.ids import digest_file
from tasks.media.decode import FrameSampler
from tasks.media.ffmpeg_command import FfmpegCommand, find_ffmpeg
from tasks.pairs.ffmpeg_check import SourceFrames, compare_frames
from tests.frame_arrays import write_frames
from tests.once import Once
from tests.tasks.media.corpus import AV1, HEIGHT, VP9, WIDTH, X264, X265, Video, made, run


@pytest.fixture(scope="module")
def command(each_ffmpeg: str) -> FfmpegCommand:
    return FfmpegCommand(each_ffmpeg, "of the tests")


def stored(
    path: Path, folder: Path, change: Callable[[list[np.ndarray]], None] = lambda _: None
) -> FrameReader:
    sampler = FrameSampler(path, long_side=WIDTH)
    planes = [frame.planes.copy() for frame in sampler]
    change(planes)
    color = ColorSpec(sampler.info.matrix, sampler.info.full_range)
    write_frames(folder / "planes.zarr", planes, map(float, range(len(planes))), color)
    return FrameReader(folder / "planes.zarr")


def compared(command: FfmpegCommand, reader: FrameReader, path: Path, tolerance: int = 0) -> SourceFrames:
    return compare_frames(command, reader, path, digest_file(path), 1.0, tolerance)


def of_two_sizes(ffmpeg: str, folder: Path, codec: str, ending: str) -> None:
    """Join two films of 2.5 s, the second half as wide: the frame at 2 s waits when the size changes."""
    part, path = ".ts" if ending == ".ts" else ".ivf", folder / f"joined{ending}"
    for number, divisor in enumerate((1, 2)):
        size = f"scale={WIDTH // divisor}:{HEIGHT // divisor}"
        made(f"{codec} -pix_fmt yuv420p", seconds="2.5", vf=size)(ffmpeg, folder / f"{number}{part}")
    if ending == ".ts":
        path.write_bytes(b"".join((folder / f"{number}.ts").read_bytes() for number in (0, 1)))
    else:
        (folder / "parts").write_text("file 0.ivf\nfile 1.ivf\n")
        run(ffmpeg, "-f", "concat", "-i", folder / "parts", "-c", "copy", path)


@pytest.mark.parametrize("name", ["plain", "full_range", "turned_90", "sound_first", "variable_rate"])
def test_command_reads_our_frames(name: str, video: Video, command: FfmpegCommand, tmp_path: Path) -> None:
    reader = stored(video(name), tmp_path)
    found = compared(command, reader, video(name), tolerance=2)  # what another libswscale may round
    assert found.is_equal
    assert found.frames == reader.count > 3


def test_compare_frames_names_differences(video: Video, command: FfmpegCommand, tmp_path: Path) -> None:
    def change(planes: list[np.ndarray]) -> None:
        planes[2][5, 7] ^= 64
        del planes[-1]

    path = video("plain")
    reader = stored(path, tmp_path, change)
    found = compared(command, reader, path)
    (row,) = found.differences
    assert (row.frame, row.time_s, row.most) == (2, 2.0, 64)
    assert row.share == pytest.approx(1 / (WIDTH * HEIGHT * 3 / 2))
    assert f"the store has {reader.count} frames" in found.problem
    assert f"reads {reader.count + 1}" in found.problem
    assert compared(command, reader, path, tolerance=64).differences == ()
    assert "changed since it was catalogued" in compare_frames(command, reader, path, "other", 1.0).problem
    assert "is no longer at" in compare_frames(command, reader, tmp_path / "gone.mp4", "", 1.0).problem


@pytest.mark.parametrize(
    ("codec", "ending"), [(X264, ".ts"), (f"{X265}keyint=24", ".ts"), (VP9, ".webm"), (AV1, ".mkv")]
)
def test_a_frame_that_the_command_loses_where_the_size_changes_moves_no_other(
    codec: str,
    ending: str,
    ffmpeg: str,
    once: Once,
    command: FfmpegCommand,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"two-sizes-{codec.split()[1]}"
    path = once(name, lambda folder: of_two_sizes(ffmpeg, folder, codec, ending)) / f"joined{ending}"
    reader = stored(path, tmp_path)
    found = compared(command, reader, path, tolerance=2)
    assert (reader.count, found.frames, found.lost_s) == (5, 4, (2.0,))
    assert found.is_equal
    _show_compared(command, [ComparedSource("v1", "Film", found)])
    assert "Film: ffmpeg leaves out 1 frames, at 2.000 s" in capsys.readouterr().out


def test_frames_follow_no_list_and_end_early(video: Video, command: FfmpegCommand, tmp_path: Path) -> None:
    listed = tmp_path / "film.mp4"
    listed.write_text(f"ffconcat version 1.0\nfile '{video('plain')}'\n")
    with pytest.raises(SetAside, match="cannot read"):
        list(command.frames(listed, 1.0, WIDTH, HEIGHT, False))
    frames = command.frames(video("plain"), 1.0, WIDTH, HEIGHT, False)
    number, planes = next(frames)
    assert (number, planes.shape) == (0, (HEIGHT * 3 // 2, WIDTH))
    frames.close()  # type: ignore[attr-defined]  # warns of a process or a pipe that stays


def test_encode_keeps_frames_colour_and_comment(command: FfmpegCommand, tmp_path: Path) -> None:
    frames = [np.full((96, 96), value, np.uint8) for value in (40, 120, 200)]
    encoder = command.encoder("libx264?crf=10&preset=ultrafast")
    assert (encoder.codec, encoder.options["crf"]) == ("h264", "10")
    path = tmp_path / "100% it's [a] test.mp4"
    assert command.encode(path, encoder, frames, ColorSpec("bt709", full_range=True), 29.97, "made so") == 3
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert container.metadata["comment"] == "made so"
        assert str(stream.average_rate) == "30000/1001"
        for frame, given in zip(frames, container.decode(stream), strict=True):
            assert (given.color_range, given.colorspace) == (2, 1)
            assert np.abs(given.to_ndarray().astype(int) - frame).max() <= 2


def test_an_encoder_that_is_not_there_or_does_not_work_is_an_error(command: FfmpegCommand) -> None:
    for wrong, said in (
        ("h266", r"no encoder 'h266'.*; it has .*libx264"),
        ("aac", "no encoder 'aac'"),
        ("libx264?crf", "option=value"),
    ):
        with pytest.raises(UserInputError, match=said):
            command.encoder(wrong)
    with pytest.raises(PrerequisiteError, match=r"libx264 of .* does not encode on .*warp-speed") as problem:
        command.encoder("libx264?preset=warp-speed")
    assert "0x" not in str(problem.value)


def test_find_ffmpeg_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrerequisiteError, match="no ffmpeg on PATH: install it"):
        find_ffmpeg()
    program = tmp_path / "ffmpeg"
    for version, message in (("4.4.2-0ubuntu", "is ffmpeg 4.4.2"), ("", "does not answer as ffmpeg")):
        program.write_text(f"#!/bin/sh\necho ffmpeg version {version}\n")
        program.chmod(0o755)
        with pytest.raises(PrerequisiteError, match=message):
            find_ffmpeg()
    program.write_text("#!/bin/sh\necho ffmpeg version n7.1 Copyright\n")
    assert find_ffmpeg() == FfmpegCommand(str(program), "n7.1")
