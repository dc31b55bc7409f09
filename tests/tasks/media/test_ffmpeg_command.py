"""The ffmpeg command reads the frames that are stored, and encodes by the encoders that it has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError, SetAside, UserInputError
from storage_schemas.frames import ColorSpec, FrameReader
from storage_schemas.ids import digest_file
from tasks.media.decode import FrameSampler
from tasks.media.ffmpeg_command import FfmpegCommand, find_ffmpeg
from tasks.pairs.ffmpeg_check import SourceFrames, compare_frames
from tests.frame_arrays import write_frames

Video = Callable[[str], Path]


@pytest.fixture(scope="module")
def command(each_ffmpeg: str) -> FfmpegCommand:
    return FfmpegCommand(each_ffmpeg, "of the tests")


def stored(
    path: Path, folder: Path, change: Callable[[list[np.ndarray]], None] = lambda _: None
) -> FrameReader:
    sampler = FrameSampler(path, long_side=320)
    frames = list(sampler)
    planes = [frame.planes.copy() for frame in frames]
    change(planes)
    color = ColorSpec(sampler.info.matrix, sampler.info.full_range)
    times = [float(place) for place in range(len(planes))]
    write_frames(folder / "planes.zarr", planes, times, color)
    return FrameReader(folder / "planes.zarr")


def compared(command: FfmpegCommand, reader: FrameReader, path: Path, tolerance: int = 0) -> SourceFrames:
    return compare_frames(command, reader, path, digest_file(path), 1.0, tolerance)


@pytest.mark.parametrize("name", ["plain", "full_range", "turned_90", "sound_first", "variable_rate"])
def test_the_command_reads_the_frames_that_are_stored(
    name: str, video: Video, command: FfmpegCommand, tmp_path: Path
) -> None:
    reader = stored(video(name), tmp_path)
    found = compared(command, reader, video(name), tolerance=2)  # what another libswscale may round
    assert found.is_equal
    assert found.frames == reader.count > 3


def test_a_changed_sample_is_a_row_and_a_frame_too_few_is_a_problem(
    video: Video, command: FfmpegCommand, tmp_path: Path
) -> None:
    def change(planes: list[np.ndarray]) -> None:
        planes[2][5, 7] ^= 64
        del planes[-1]

    path = video("plain")
    reader = stored(path, tmp_path, change)
    found = compared(command, reader, path)
    (row,) = found.differences
    assert (row.frame, row.time_s, row.most) == (2, 2.0, 64)
    assert row.share == pytest.approx(1 / (320 * 270))
    assert f"the store has {reader.count} frames" in found.problem
    assert f"reads {reader.count + 1}" in found.problem
    assert compared(command, reader, path, tolerance=64).differences == ()


def test_a_video_that_is_gone_or_changed_is_said(
    video: Video, command: FfmpegCommand, tmp_path: Path
) -> None:
    path = video("plain")
    reader = stored(path, tmp_path)
    assert "changed since it was catalogued" in compare_frames(command, reader, path, "other", 1.0).problem
    assert "is not at" in compare_frames(command, reader, tmp_path / "gone.mp4", "", 1.0).problem


def test_a_list_of_other_files_is_not_followed(video: Video, command: FfmpegCommand, tmp_path: Path) -> None:
    listed = tmp_path / "film.mp4"
    listed.write_text(f"ffconcat version 1.0\nfile '{video('plain')}'\n")
    with pytest.raises(SetAside, match="cannot read"):
        list(command.frames(listed, 1.0, 320, 180, False))


def test_a_reader_that_stops_early_leaves_no_process(video: Video, command: FfmpegCommand) -> None:
    frames = command.frames(video("plain"), 1.0, 320, 180, False)
    assert next(frames).shape == (270, 320)
    frames.close()  # type: ignore[attr-defined]  # warns of a process or a pipe that stays


def test_encoded_frames_come_back_with_their_colour_and_comment(
    command: FfmpegCommand, tmp_path: Path
) -> None:
    frames = [np.full((96, 96), value, np.uint8) for value in (40, 120, 200)]
    encoder = command.encoder("libx264?crf=10&preset=ultrafast")
    assert (encoder.codec, encoder.options["crf"]) == ("h264", "10")
    path = tmp_path / "100% it's [a] test.mp4"
    assert command.encode(path, encoder, frames, ColorSpec("bt709", full_range=True), 29.97, "made so") == 3
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert container.metadata["comment"] == "made so"
        assert str(stream.average_rate) == "30000/1001"
        given = [
            (frame.color_range, frame.colorspace, frame.to_ndarray()) for frame in container.decode(stream)
        ]
    assert [(range_, matrix) for range_, matrix, _ in given] == [(2, 1)] * 3
    for frame, (_, _, planes) in zip(frames, given, strict=True):
        assert np.abs(planes.astype(int) - frame).max() <= 2


def test_an_encoder_that_it_does_not_have_is_an_error_that_lists_those_that_it_has(
    command: FfmpegCommand,
) -> None:
    with pytest.raises(UserInputError, match=r"no encoder 'h266'.*; it has .*libx264"):
        command.encoder("h266")
    with pytest.raises(UserInputError, match="no encoder 'aac'"):
        command.encoder("aac")
    with pytest.raises(UserInputError, match="option=value"):
        command.encoder("libx264?crf")


def test_an_encoder_that_does_not_work_here_is_an_error_with_what_ffmpeg_says(command: FfmpegCommand) -> None:
    with pytest.raises(PrerequisiteError, match=r"libx264 of .* does not encode on .*warp-speed") as problem:
        command.encoder("libx264?preset=warp-speed")
    assert "0x" not in str(problem.value)


def test_without_the_program_or_with_an_old_one_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
