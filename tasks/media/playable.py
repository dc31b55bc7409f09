"""A video as an MP4 that browsers play: its pictures are copied if playable, else re-encoded."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
from av.video.stream import VideoStream

from storage_schemas.errors import Reason, SetAside

#: What every browser plays.
_CODEC, _PIXELS = "h264", ("yuv420p", "yuvj420p")
#: x264's constant rate factor for re-encoding; at 12 no difference is visible.
_CRF = 12
_FPS = Fraction(25)


def write_playable(video: Path, target: Path) -> float:
    """Write the pictures of a video as an MP4, without sound and tags; return their duration in seconds.

    H.264 in 8-bit 4:2:0 is copied, anything else is encoded almost without loss. The index precedes the
    pictures, so that a browser plays the file while it loads.

    Parameters
    ----------
    target
        The file to write; an error leaves it incomplete.

    Raises
    ------
    SetAside
        If `video` cannot be read, or has no picture.
    """
    try:
        with (
            av.open(str(video), options={"protocol_whitelist": "file"}) as origin,
            av.open(
                str(target), "w", format="mp4", options={"movflags": "+faststart", "fflags": "+bitexact"}
            ) as out,
        ):
            if not origin.streams.video:
                raise SetAside(Reason.NO_VIDEO_STREAM, f"{video} has no picture")
            stream = origin.streams.video[0]
            if stream.codec_context.name == _CODEC and stream.codec_context.pix_fmt in _PIXELS:
                _copy(origin, stream, out)
            else:
                _encode(origin, stream, out)
        seconds = playable_seconds(target)
        if not seconds:
            raise SetAside(Reason.NO_VIDEO_STREAM, f"{video} has no picture")
        return seconds
    except (av.FFmpegError, IndexError) as problem:
        raise SetAside(Reason.UNDECODABLE_VIDEO, f"{video} cannot be read: {problem}") from problem


def playable_seconds(video: Path) -> float:
    """Return the duration in seconds of the pictures of an MP4 written here."""
    with av.open(str(video), options={"protocol_whitelist": "file"}) as written:
        stream = written.streams.video[0]
        return float((stream.duration or 0) * (stream.time_base or 0))


def _copy(
    origin: av.container.InputContainer, stream: VideoStream, out: av.container.OutputContainer
) -> None:
    copied = out.add_stream_from_template(stream)
    copied.metadata.clear()
    for packet in origin.demux(stream):
        if packet.size:
            packet.stream = copied
            out.mux(packet)


def _encode(
    origin: av.container.InputContainer, stream: VideoStream, out: av.container.OutputContainer
) -> None:
    made: VideoStream | None = None
    for frame in origin.decode(stream):
        # 4:2:0 needs even sides
        width, height = max(frame.width // 2 * 2, 2), max(frame.height // 2 * 2, 2)
        if made is None:
            made = out.add_stream("libx264", rate=stream.average_rate or _FPS)
            made.width, made.height, made.pix_fmt = width, height, _PIXELS[0]
            made.time_base = stream.time_base or 1 / _FPS
            made.codec_context.time_base = made.time_base
            made.options = {"crf": str(_CRF), "preset": "veryfast"}
        plain = frame.reformat(made.width, made.height, _PIXELS[0])
        plain.pts, plain.time_base = frame.pts, frame.time_base
        plain.pict_type = av.video.frame.PictureType.NONE
        out.mux(made.encode(plain))
    if made is not None:
        out.mux(made.encode())
