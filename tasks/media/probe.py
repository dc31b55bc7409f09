"""Probe a video file: codec, displayed size, colours, duration. Unusable files are set aside."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.frames import Matrix
from storage_schemas.source import Damage, DamageRule
from tasks.media.clock import PicturesEnd
from tasks.media.cropping import Crop
from tasks.media.scaling import DisplayMatrix, Scaler, color_matrix, display_matrix, is_full_range, upright
from tasks.media.source_file import ENCRYPTED, OpenVideo, open_video

#: Maximum seconds between the end of the pictures and the length in a header: sound may be longer, and many
#: containers round.
DURATION_TOLERANCE_S = 1.0


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """Properties of a video file, read from its header and first frame.

    Attributes
    ----------
    codec
        FFmpeg's name of the codec.
    width, height
        Displayed size: upright, with square pixels.
    coded_width, coded_height
        Size as decoded.
    rotation
        Clockwise rotation of the decoded picture in degrees: 0, 90, 180 or 270.
    sar
        Sample aspect ratio of the decoded picture.
    pix_fmt
        FFmpeg's name of the decoded pixel format.
    matrix, matrix_assumed
        Colour matrix of the stored planes, and whether it is assumed because the file does not specify one.
    full_range
        Whether the stored planes use 0–255 for luma rather than 16–235.
    duration_s
        Duration in seconds according to the container; up to the end of the pictures where it says none,
        where they end elsewhere, and in a file that is shorter than it says.
    frame_rate
        Average frames per second according to the container, if known.
    variable_rate
        Whether the container indicates a variable frame rate.
    interlaced
        Whether the first frame is interlaced.
    damage
        How the frames of a file that is shorter than it says are taken; decoding may find other damage.
    display_matrix
        How the first frame is to be turned, and with it all; None if the file does not state it.
    crop
        What the container says is not to be shown of each decoded picture.
    """

    codec: str
    width: int
    height: int
    coded_width: int
    coded_height: int
    rotation: int
    sar: Fraction
    pix_fmt: str
    matrix: Matrix
    matrix_assumed: bool
    full_range: bool
    duration_s: float
    frame_rate: Fraction | None
    variable_rate: bool
    interlaced: bool
    damage: Damage = ""
    display_matrix: DisplayMatrix | None = None
    crop: Crop | None = None


def probe(path: Path, damaged: DamageRule = "refuse", quick: bool = False) -> VideoInfo:
    """Read the header and decode the first frame; read all packets if the header's length is uncertain.

    Parameters
    ----------
    quick
        Trust the header's length, for callers that do not need it.

    Raises
    ------
    SetAside
        ``EMPTY_FILE``, ``NOT_A_VIDEO``, ``NO_VIDEO_STREAM``, ``VIDEO_MISSING``, ``TRUNCATED_VIDEO``,
        ``UNDECODABLE_VIDEO`` or ``NO_FRAMES``.
    """
    with open_video(path, damaged) as video:
        first, end = FirstFrame(video), PicturesEnd(video) if may_claim(video) and not quick else None
        for packet in video.packets():
            if end:
                end.add(packet)
            first.offer(packet)
            if first.complete and not end:
                break
        return describe(video, first.frame(), end)


class FirstFrame:
    """Decodes packets until the first frame is complete."""

    def __init__(self, video: OpenVideo) -> None:
        self._video = video
        self._frame: VideoFrame | None = None
        self._packets = 0

    @property
    def complete(self) -> bool:
        """Whether the first frame is complete."""
        return self._frame is not None

    def offer(self, packet: Packet[VideoStream] | None) -> None:
        """Decode one more packet (None: the end) unless the frame is complete."""
        if self._frame is not None:
            return
        self._packets += packet is not None
        try:
            frames = self._video.decode(packet)
        except av.FFmpegError:  # a stream that does not begin with a key frame; the next packet counts
            return
        if frames:
            self._frame = frames[0]

    def frame(self) -> VideoFrame:
        """Return the frame, after the last packet was offered.

        Raises
        ------
        SetAside
            ``UNDECODABLE_VIDEO`` or ``NO_FRAMES``.
        """
        self.offer(None)
        if self._frame is not None:
            return self._frame
        if self._video.says_encrypted():
            raise SetAside(Reason.UNDECODABLE_VIDEO, f"{self._video.path}: {ENCRYPTED}")
        if self._packets:
            raise SetAside(
                Reason.UNDECODABLE_VIDEO,
                f"{self._video.path}: not one frame can be decoded; convert or replace it",
            )
        raise SetAside(
            Reason.NO_FRAMES, f"{self._video.path}: its video stream has no frames; replace the file"
        )


def describe(video: OpenVideo, frame: VideoFrame, end: PicturesEnd | None = None) -> VideoInfo:
    """Describe an open video from its first decoded frame, and from its packets if all were read."""
    stream = video.stream
    turn = display_matrix(frame)
    angle = upright(turn)[1]
    sar = stream.sample_aspect_ratio or Fraction(1)
    if sar <= 0:
        sar = Fraction(1)
    crop = video.crop
    if crop and min(crop.size(frame)) <= 0:
        crop = None
    width, height = crop.size(frame) if crop else (frame.width, frame.height)
    width = max(1, round(width * sar))
    if angle in (90, 270):
        width, height = height, width

    stored = Scaler(64, 64, video.path).frame(frame)
    matrix = color_matrix(stored, frame)
    assumed = matrix is None
    if matrix is None:
        matrix = "bt709" if height >= 720 or width >= 1280 else "bt601"

    return VideoInfo(
        codec=stream.codec_context.codec.canonical_name,
        width=width,
        height=height,
        coded_width=frame.width,
        coded_height=frame.height,
        rotation=angle,
        sar=sar,
        pix_fmt=frame.format.name,
        matrix=matrix,
        matrix_assumed=assumed,
        full_range=is_full_range(stored),
        duration_s=_duration_s(video, end),
        frame_rate=stream.average_rate,
        variable_rate=bool(
            stream.average_rate and stream.base_rate and stream.average_rate != stream.base_rate
        ),
        interlaced=frame.interlaced_frame,
        damage=video.damage,
        display_matrix=turn,
        crop=crop,
    )


def may_claim(video: OpenVideo) -> bool:
    """Return whether the length in the header is unreliable for the pictures.

    Other containers list every packet of the stream; Windows Media states one length for all streams.
    """
    return video.may_jump or not video.stream.duration or video.container.format.name == "asf"


def _duration_s(video: OpenVideo, end: PicturesEnd | None) -> float:
    claimed = 0.0 if video.cut_off else _claimed_s(video)
    if claimed and (end is None or abs(claimed - end.seconds) <= DURATION_TOLERANCE_S):
        return claimed
    return _present_s(video) if end is None else end.seconds


def _claimed_s(video: OpenVideo) -> float:
    """Return the length in the header, 0 if it has none."""
    if video.stream.duration:
        return float(video.stream.duration * video.time_base)
    # Matroska states the end of its clock, which may begin anywhere
    start = max(0, video.container.start_time or 0) if "matroska" in video.container.format.name else 0
    return max(0, (video.container.duration or 0) - start) / 1_000_000


def _present_s(video: OpenVideo) -> float:
    """Return the end of the last complete packet in the file, in seconds."""
    with open_video(video.path, video.damaged) as again:
        end = PicturesEnd(again)
        for packet in again.packets():
            end.add(packet)
    return end.seconds


def target_size(info: VideoInfo, long_side: int) -> tuple[int, int]:
    """Return width and height of a stored frame: the given long side, the short side a multiple of 4.

    Raises
    ------
    UserInputError
        ``long_side`` is not a positive multiple of 4.
    """
    if long_side < 4 or long_side % 4:
        raise UserInputError(f"long_side is {long_side}; give a positive multiple of 4, such as 512")
    long, short = max(info.width, info.height), min(info.width, info.height)
    other = max(4, 4 * round(Fraction(long_side * short, long * 4)))
    return (long_side, other) if info.width >= info.height else (other, long_side)
