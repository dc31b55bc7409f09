"""The site's own ffmpeg command, driven through ffmpeg-python: read a video's frames, encode frames.

Everything else decodes and encodes in this process, by PyAV and the FFmpeg in its wheel. The command adds
what that FFmpeg lacks: other encoders, and a second opinion on a video's frames.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import av
import numpy as np

from storage_schemas.errors import PrerequisiteError, Reason, SetAside, UserInputError
from storage_schemas.frames import ColorSpec, Planes
from tasks.media.encode import COLOR_TAGS, DEFAULT_SETTINGS, frame_rate
from tasks.media.source_file import CONTAINERS

#: The first release with the option ``-fps_mode``.
_MIN_VERSION = (5, 1)
#: Codecs that MP4 players support.
_CODECS = ("h264", "hevc", "av1", "vp9")
_ENCODER = re.compile(r"^ V\S{5} (\S+) +(.*)$", re.MULTILINE)
_OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:-]*")
#: Options by encoder: a quality near that of PyAV's x264 in :mod:`tasks.media.encode`. Others have their own
#: defaults.
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "libx264": {"crf": "18", "preset": "veryfast"},
    "libx265": {"crf": "20", "preset": "fast", "x265-params": "log-level=error"},
    "libsvtav1": {"crf": "24", "preset": "8"},
    "libaom-av1": {"crf": "24", "cpu-used": "6", "b:v": "0"},
    "libvpx-vp9": {"crf": "24", "cpu-used": "4", "b:v": "0"},
    "h264_nvenc": {"rc": "vbr", "cq": "19", "b:v": "0"},
    "hevc_nvenc": {"rc": "vbr", "cq": "21", "b:v": "0"},
    "av1_nvenc": {"rc": "vbr", "cq": "25", "b:v": "0"},
}


@dataclass(frozen=True)
class Encoder:
    """An encoder of the command.

    Parameters
    ----------
    name
        Its name, such as ``libx265``.
    codec
        What it makes: ``h264``, ``hevc``, ``av1`` or ``vp9``.
    options
        Its options, as ``-NAME VALUE``.
    """

    name: str
    codec: str
    options: Mapping[str, str]


def find_ffmpeg() -> FfmpegCommand:
    """Return the ffmpeg program on PATH.

    Raises
    ------
    PrerequisiteError
        If there is none, or it is too old.
    """
    path = shutil.which("ffmpeg")
    if path is None:
        raise PrerequisiteError(
            "there is no ffmpeg on PATH: install it (Debian: apt install ffmpeg; on many clusters: "
            "module load ffmpeg), or leave out the option that needs it"
        )
    listed = subprocess.run([path, "-version"], capture_output=True, text=True)
    named = re.match(r"ffmpeg version (\S+)", listed.stdout)
    if named is None:
        raise PrerequisiteError(f"{path} -version does not answer as ffmpeg: {_main_lines(listed.stderr)}")
    number = re.match(r"n?(\d+)\.(\d+)", named[1])
    if number is not None and (int(number[1]), int(number[2])) < _MIN_VERSION:
        raise PrerequisiteError(
            f"{path} is ffmpeg {named[1]}: install {_MIN_VERSION[0]}.{_MIN_VERSION[1]} or newer"
        )
    return FfmpegCommand(path, named[1])


@dataclass(frozen=True)
class FfmpegCommand:
    """An ffmpeg program.

    Parameters
    ----------
    path
        The program.
    version
        The version that it reports, such as ``7.1.2`` or ``N-118000-g1234567``.
    """

    path: str
    version: str

    @property
    def words(self) -> str:
        """Program and version, for messages."""
        return f"{self.path} ({self.version})"

    def encoders(self) -> dict[str, str]:
        """Return its encoders for MP4, and the codec of each."""
        listed = subprocess.run([self.path, "-hide_banner", "-encoders"], capture_output=True, text=True)
        found = {}
        for name, description in _ENCODER.findall(listed.stdout):
            codec = re.search(r"\(codec (\w+)\)$", description)
            found[name] = codec[1] if codec else name
        # VAAPI needs frames that are already on the GPU
        return {
            name: codec
            for name, codec in found.items()
            if codec in _CODECS and not name.endswith(("_vaapi", "rgb"))
        }

    def encoder(self, text: str) -> Encoder:
        """Return an encoder after testing it on this machine with one grey frame.

        Encoders of a GPU are listed on machines without one too, and some GPUs cannot encode (H100, H200).

        Parameters
        ----------
        text
            ``NAME`` or ``NAME?option=value&option=value``.

        Raises
        ------
        UserInputError
            If the text is malformed or names no encoder for MP4; the message lists those available.
        PrerequisiteError
            If it does not work, with ffmpeg's message.
        """
        name, _, query = text.partition("?")
        options = dict(_OPTIONS.get(name, {}))
        for part in filter(None, query.split("&")):
            key, equals, value = part.partition("=")
            if not equals or not _OPTION.fullmatch(key):
                raise UserInputError(f"encoder {text}: write NAME?option=value&option=value")
            options[key] = value
        codecs = self.encoders()
        if name not in codecs:
            raise UserInputError(
                f"{self.words} has no encoder {name!r} for H.264, HEVC, AV1 or VP9; it has "
                f"{', '.join(sorted(codecs)) or 'none'}"
            )
        encoder = Encoder(name, codecs[name], options)
        grey = np.full((288 * 3 // 2, 512), 128, np.uint8)
        with tempfile.TemporaryDirectory() as folder:
            self.encode(Path(folder) / "one.mp4", encoder, [grey], ColorSpec(), 1.0)
        return encoder

    def frames(
        self, video: Path, fps: float, width: int, height: int, full_range: bool
    ) -> Iterator[tuple[int, Planes]]:
        """Yield number and planes of the frames of a video as the command samples and scales them.

        Numbers are times in frames, planes ``(H·3/2, W)`` uint8.

        Parameters
        ----------
        video
            The file; only containers of video files are read, and no other file or address.
        fps
            Frames a second.
        width, height
            Size of the frames in pixels.
        full_range
            Whether the luma spans 0–255.

        Raises
        ------
        SetAside
            If the command fails (undecodable video), with its message.
        """
        import ffmpeg

        filters = (
            f"fps={frame_rate(fps)}",
            f"scale={width}:{height}:flags=lanczos:out_range={'pc' if full_range else 'tv'}",
            "format=yuv420p",
        )
        source = ffmpeg.input(
            f"file:{video.absolute()}", protocol_whitelist="file", format_whitelist=CONTAINERS
        )
        # not as ffmpeg-python's filters: they would read the first video stream, not the command's choice
        stream = source.output(
            "pipe:1", vf=",".join(filters), vcodec="rawvideo", format="nut", fps_mode="passthrough"
        )
        with self._started(stream, stdout=subprocess.PIPE) as running:
            with suppress(av.FFmpegError), av.open(running.pipe, "r", format="nut") as container:
                for packet in container.demux(video=0):
                    if packet.size and packet.pts is not None and packet.time_base is not None:
                        number = round(packet.pts * packet.time_base * frame_rate(fps))
                        yield number, np.frombuffer(bytes(packet), np.uint8).reshape(height * 3 // 2, width)
            problem = running.problem()
        if problem:
            raise SetAside(Reason.UNDECODABLE_VIDEO, f"{self.words} cannot read {video}: {problem}")

    def encode(
        self,
        path: Path,
        encoder: Encoder,
        frames: Iterable[Planes],
        color: ColorSpec,
        fps: float,
        comment: str = "",
    ) -> int:
        """Encode frames into an MP4; return their number.

        Parameters
        ----------
        path
            The file; an error leaves an incomplete one.
        encoder
            The encoder with its options.
        frames
            ``(H·3/2, W)`` uint8 planes of one size, at least one frame.
        color
            Colour matrix and range, written into the stream's headers.
        fps
            Frames a second.
        comment
            Text for the file's comment tag.

        Raises
        ------
        PrerequisiteError
            If the command fails, with its message.
        """
        import ffmpeg

        planes = iter(frames)
        first = next(planes)
        size = f"{first.shape[1]}x{first.shape[0] * 2 // 3}"
        rate = str(frame_rate(fps))
        matrix, primaries, transfer = COLOR_TAGS[color.matrix]
        tags = {
            "colorspace": matrix,
            "color_primaries": primaries,
            "color_trc": transfer,
            "color_range": "pc" if color.full_range else "tv",
        }
        raw = ffmpeg.input("pipe:0", format="rawvideo", pix_fmt="yuv420p", s=size, framerate=rate, **tags)
        if encoder.codec == "hevc":
            tags["tag:v"] = "hvc1"  # Apple's players require it
        stream = raw.output(
            f"file:{path.absolute()}",
            vcodec=encoder.name,
            pix_fmt="yuv420p",
            fps_mode="passthrough",
            movflags="+faststart",
            metadata=f"comment={comment}",
            format="mp4",
            **{"g": DEFAULT_SETTINGS.seek_frames, **tags, **encoder.options},
        )
        count = 0
        with self._started(stream, stdin=subprocess.PIPE) as running:
            with suppress(BrokenPipeError):  # it ended early; its exit status shows why
                for frame in chain([first], planes):
                    running.pipe.write(np.ascontiguousarray(frame).data)
                    count += 1
                running.pipe.close()
            problem = running.problem()
        if problem:
            raise PrerequisiteError(
                f"{encoder.name} of {self.words} does not encode on {socket.gethostname()}: {problem}; "
                "choose another encoder, or leave it out: PyAV's x264 encodes then"
            )
        return count

    @contextmanager
    def _started(self, stream: Any, **pipe: int) -> Iterator[_Running]:
        """Run the command of an ffmpeg-python stream; it is always ended on exit."""
        words = stream.compile(cmd=[self.path, "-hide_banner", "-v", "error", "-nostdin", "-y"])
        quiet = {**os.environ, "SVT_LOG": "1"}  # SVT-AV1 has a log of its own
        with tempfile.TemporaryFile() as said:
            pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **pipe}
            process = subprocess.Popen(words, stderr=said, env=quiet, **pipes)
            try:
                yield _Running(process, said)
            finally:
                with suppress(BrokenPipeError):
                    process.kill()
                    process.__exit__(None, None, None)


@dataclass(frozen=True)
class _Running:
    """A running command with one pipe, and the file of its messages."""

    process: subprocess.Popen[bytes]
    said: IO[bytes]

    @property
    def pipe(self) -> IO[bytes]:
        pipe = self.process.stdin or self.process.stdout
        assert pipe is not None
        return pipe

    def problem(self) -> str:
        """Wait for the command to end; return its messages if it failed, else an empty string."""
        status = self.process.wait()
        if not status:
            return ""
        self.said.seek(0)
        return _main_lines(self.said.read().decode(errors="replace")) or f"exit status {status}"


def _main_lines(text: str) -> str:
    """Return what ffmpeg printed first and last, without memory addresses.

    Older versions print the cause last, newer ones first, before its consequences.
    """
    lines = list(dict.fromkeys(_ADDRESS.sub(r"[\1]", line.strip()) for line in text.strip().splitlines()))
    return " | ".join(lines if len(lines) <= 4 else [*lines[:2], *lines[-2:]])


_ADDRESS = re.compile(r"\[([^\]@]+) @ 0x[0-9a-f]+\]")
