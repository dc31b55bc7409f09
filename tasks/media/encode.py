"""H.264 in MP4 whose units can be copied in any order without re-encoding.

A *unit* is a run of frames that begins with an IDR frame. All streams made by this module for one frame
size, colour and rate have the same parameter sets, no B-frames and closed groups of pictures, so a unit of
one stream can be placed anywhere in another. Changing a few units of a long video only encodes those;
changing their order only copies packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import av
import numpy as np
from av.container import InputContainer, OutputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType
from av.video.stream import VideoStream

from storage_schemas.errors import IntegrityError
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.model import Frozen
from tasks.media.h264_syntax import parse_avcc

if TYPE_CHECKING:
    VideoPacket: TypeAlias = "av.Packet[Any]"

#: Increase when the same settings give a different stream.
ENCODER_VERSION = 1

#: Matrix, primaries and transfer written into the stream for each matrix (ITU-T H.273).
COLOR_TAGS = {
    "bt601": ("smpte170m", "smpte170m", "smpte170m"),
    "bt709": ("bt709", "bt709", "bt709"),
    "bt2020": ("bt2020nc", "bt2020", "bt2020-10"),
}

#: H.264 table A-1: level, macroblocks per frame, macroblocks per second.
_LEVELS = (
    ("3.1", 3_600, 108_000),
    ("4.0", 8_192, 245_760),
    ("5.1", 36_864, 983_040),
    ("6.2", 139_264, 16_711_680),
)

_START = b"\0\0\1"
_PARAMETER_SETS = (7, 8)


class EncoderSettings(Frozen):
    """Settings that determine the coded pictures, apart from the frames themselves.

    Parameters
    ----------
    crf
        x264's constant rate factor; 18 is nearly indistinguishable from the original.
    preset
        x264's speed preset.
    seek_frames
        Maximum distance of IDR frames within a unit, so that players seek quickly.
    quantiser
        One quantiser for all frames instead of `crf`, so that none depends on the pictures. They are not
        deblocked: x264 would do so above 15.
    """

    crf: int = 18
    preset: str = "veryfast"
    seek_frames: int = 10
    quantiser: int | None = None


DEFAULT_SETTINGS = EncoderSettings()


def frame_rate(fps: float) -> Fraction:
    """Return `fps` as the intended fraction: 29.97 is 30000/1001, 0.333 stays 333/1000."""
    ntsc = Fraction(round(fps * 1.001) * 1000, 1001)
    exact = Fraction(fps).limit_denominator(1000)
    return ntsc if fps > 10 and exact.denominator > 2 and abs(float(ntsc) - fps) < 0.01 else exact


def _level(width: int, height: int, rate: Fraction) -> str:
    blocks = -(-width // 16) * -(-height // 16)
    for level, frame_limit, second_limit in _LEVELS:
        if blocks <= frame_limit and blocks * rate <= second_limit:
            return level
    raise ValueError(f"{width}×{height} at {float(rate):g} frames a second passes the highest level of H.264")


def _configure(
    context: VideoCodecContext,
    width: int,
    height: int,
    color: ColorSpec,
    rate: Fraction,
    settings: EncoderSettings,
) -> None:
    matrix, primaries, transfer = COLOR_TAGS[color.matrix]
    if settings.quantiser is None:
        quality, ratio = {"crf": str(settings.crf)}, ""
    else:
        quality, ratio = {"qp": str(settings.quantiser)}, ":ipratio=1:no-deblock=1"
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.framerate = rate
    context.time_base = 1 / rate
    context.thread_count = 1
    context.options = {
        "flags": "+global_header+cgop",
        "preset": settings.preset,
        "profile": "high",
        "level": _level(width, height, rate),
        **quality,
        "forced-idr": "1",
        "colorspace": matrix,
        "color_primaries": primaries,
        "color_trc": transfer,
        "color_range": "pc" if color.full_range else "tv",
        # stitchable: headers do not depend on the content. aud: players that detect pictures themselves
        # separate adjacent one-frame units. No look-ahead: each frame gives one packet at once, and memory
        # does not grow with the length.
        "x264-params": (
            f"stitchable=1:aud=1:bframes=0:ref=1:open-gop=0:scenecut=0:keyint={settings.seek_frames}"
            f":min-keyint=1:rc-lookahead=0:sync-lookahead=0:mbtree=0:force-cfr=1:threads=1:weightp=0{ratio}"
        ),
    }


def _encoded(context: VideoCodecContext, frames: Iterable[Planes], start: int) -> Iterator[VideoPacket]:
    """Yield one packet for each frame of a unit; the first is an IDR frame."""
    shape = (context.height * 3 // 2, context.width)
    for index, planes in enumerate(frames):
        if planes.shape != shape:
            raise ValueError(f"a frame of shape {planes.shape} in a stream of {shape}")
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(planes), format="yuv420p")
        frame.pts = start + index
        frame.time_base = context.time_base
        frame.pict_type = PictureType.I if index == 0 else PictureType.NONE
        packets = context.encode(frame)
        if len(packets) != 1:
            raise RuntimeError(f"x264 gave {len(packets)} packets for a frame; it must hold none back")
        yield packets[0]


def _create(path: Path, comment: str) -> OutputContainer:
    container = av.open(
        str(path), "w", format="mp4", options={"movflags": "+faststart", "fflags": "+bitexact"}
    )
    container.metadata["comment"] = comment
    return container


def _nal_units(annex_b: bytes) -> list[bytes]:
    """Return the NAL units of a byte stream; none of them ends with a zero byte (H.264, 7.4.1)."""
    return [unit for part in annex_b.split(_START) if (unit := part.rstrip(b"\0"))]


def _parameter_sets(extradata: bytes) -> list[bytes]:
    """Return the sequence and picture parameter sets of Annex B or `avcC` extradata."""
    if extradata.startswith(b"\1"):
        record = parse_avcc(extradata)
        return [*record.sps, *record.pps]
    return [unit for unit in _nal_units(extradata) if unit[0] & 31 in _PARAMETER_SETS]


def encode_units(
    path: Path,
    units: Iterable[Iterable[Planes]],
    width: int,
    height: int,
    color: ColorSpec,
    fps: float,
    settings: EncoderSettings = DEFAULT_SETTINGS,
    comment: str = "",
) -> int:
    """Encode units in sequence into one MP4 at `path`; return the number of frames.

    Parameters
    ----------
    path
        Output file; an existing one is overwritten, and an error leaves an incomplete file.
    units
        Frames of each unit, ``(height·3/2, width)`` uint8 planes each; read once, in order.
    width, height
        Size of the frames in pixels, both even.
    color
        Colour matrix and range, written into the stream's headers.
    fps
        Frames a second: `n` frames last `n / fps` seconds.
    settings
        Quality, speed and the distance of IDR frames.
    comment
        Text for the file's comment tag.

    Raises
    ------
    ValueError
        If a frame has another shape, or there are no frames.
    """
    rate = frame_rate(fps)
    count = 0
    with _create(path, comment) as container:
        stream = container.add_stream("libx264", rate=rate)
        context = stream.codec_context
        _configure(context, width, height, color, rate, settings)
        for frames in units:
            for packet in _encoded(context, frames, count):
                packet.duration = 1
                packet.stream = stream
                container.mux(packet)
                count += 1
    if not count:
        raise ValueError("a video needs at least one frame")
    return count


class UnitFile:
    """Reads the packets of an MP4 of :func:`encode_units` by frame number.

    Raises
    ------
    IntegrityError
        If the file cannot be read as a video.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._container: InputContainer = av.open(str(path), options={"protocol_whitelist": "file"})
            self.stream: VideoStream = self._container.streams.video[0]
        except (av.FFmpegError, IndexError) as problem:
            raise IntegrityError(f"{path} is not a video: remove it and materialise again") from problem
        self.count = self.stream.frames
        self.comment = self._container.metadata.get("comment", "")
        self.parameter_sets = _parameter_sets(self.stream.codec_context.extradata or b"")
        rate = self.stream.average_rate
        if rate is None or self.stream.time_base is None:
            raise IntegrityError(f"{path} has no frame rate: remove it and materialise again")
        self.rate = Fraction(rate)
        self._ticks = int(1 / (self.rate * self.stream.time_base))
        self._packets: Iterator[VideoPacket] | None = None
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.close()

    def packets(self, first: int, count: int) -> Iterator[VideoPacket]:
        """Yield the packets of `count` frames from frame `first`, which must be an IDR frame.

        Raises
        ------
        IntegrityError
            If frame `first` does not begin a unit, or the file ends before the last one.
        """
        if self._packets is None or self._next != first:
            self._container.seek(first * self._ticks, stream=self.stream)
            self._packets = self._container.demux(self.stream)
            self._next = first
        for index in range(first, first + count):
            packet = next(self._packets, None)
            if (
                packet is None
                or packet.pts != index * self._ticks
                or (index == first and not packet.is_keyframe)
            ):
                self._packets = None
                raise IntegrityError(
                    f"{self.path} does not give frame {index} of a unit that begins at frame {first}: "
                    "remove it and materialise again"
                )
            self._next = index + 1
            yield packet


class UnitWriter:
    """Writes an MP4 from units copied out of a :class:`UnitFile` and newly encoded units.

    Parameters
    ----------
    path
        The file to write.
    origin
        Source of the copied units; determines size, rate and headers.
    color, settings
        Must equal those `origin` was made with.
    comment
        Text for the file's comment tag.
    """

    def __init__(
        self,
        path: Path,
        origin: UnitFile,
        color: ColorSpec,
        settings: EncoderSettings = DEFAULT_SETTINGS,
        comment: str = "",
    ) -> None:
        self._origin, self._color, self._settings = origin, color, settings
        self._container = _create(path, comment)
        self._stream = self._container.add_stream_from_template(origin.stream)
        self._time_base = 1 / origin.rate
        self._encoder: VideoCodecContext | None = None
        self._pictures = 0
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.close()

    def _write(self, packet: VideoPacket) -> None:
        packet.stream = self._stream
        packet.time_base = self._time_base
        packet.pts = packet.dts = self.count
        packet.duration = 1
        self._container.mux(packet)
        self.count += 1

    def copy(self, first: int, count: int) -> None:
        """Copy `count` frames from frame `first` of the origin, without re-encoding."""
        for packet in self._origin.packets(first, count):
            self._write(packet)

    def encode(self, frames: Iterable[Planes], settings: EncoderSettings | None = None) -> None:
        """Append a unit of new frames, ``(H·3/2, W)`` uint8 each; `settings` count from this unit on."""
        if settings is not None and settings != self._settings:
            self._settings, self._encoder, self._pictures = settings, None, 0
        encoder = self._opened_encoder()
        for packet in _encoded(encoder, frames, self._pictures):
            units = _nal_units(bytes(packet))
            coded: VideoPacket = av.Packet(b"".join(len(unit).to_bytes(4) + unit for unit in units))
            coded.is_keyframe = packet.is_keyframe
            self._pictures += 1
            self._write(coded)

    def _opened_encoder(self) -> VideoCodecContext:
        if self._encoder is None:
            origin = self._origin.stream.codec_context
            context = av.CodecContext.create("libx264", "w")
            _configure(context, origin.width, origin.height, self._color, self._origin.rate, self._settings)
            context.open()
            if _parameter_sets(context.extradata or b"") != self._origin.parameter_sets:
                raise IntegrityError(
                    f"{self._origin.path} was encoded by another x264 or with other settings: "
                    "remove it and materialise again"
                )
            self._encoder = context
        return self._encoder
