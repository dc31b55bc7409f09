"""Open an untrusted video file.

Accepts complete local files in known containers only.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, cast

import av
from av.codec.context import Flags as CodecFlags
from av.codec.context import ThreadType
from av.container import InputContainer
from av.container.core import Flags
from av.packet import Packet
from av.stream import Discard
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from storage_schemas.away import ask_again
from storage_schemas.errors import Reason, SetAside
from storage_schemas.source import Damage, DamageRule
from tasks.media.cropping import Crop, clean_aperture, matroska_crop, vint_length
from tasks.media.frame_rule import round_half_away

_EBML, _SEGMENT = 0x1A45DFA3, 0x18538067
_ASF, _ASF_DATA = bytes.fromhex("3026b2758e66cf11"), bytes.fromhex("3626b2758e66cf11")
_FLV_ASF_OGG = (b"FLV", _ASF, b"OggS")
_MXF_PARTITION = bytes.fromhex("060e2b34020501010d01020101")
#: A complete container of these kinds does not end in this many zeros.
_ZEROS = 4096
_TS_PACKET, _TS_SYNC = 188, 0x47
#: Bytes before and after a transport packet: none, a time stamp before it (M2TS), check bytes after it.
_TS_FRAMINGS = ((0, 0), (4, 0), (0, 16))
#: Number of consecutive packets at the file's end that must start with the sync byte.
_TS_IN_A_ROW = 8
#: Bytes to search backwards for the start of the last picture; one that states its length has at most 64 KiB.
_TS_TAIL = 1 << 20


def looks_like_mp4(path: Path) -> bool:
    """Return whether the file starts with a box that can begin an MP4 or QuickTime file."""
    with path.open("rb") as file:
        return file.read(8)[4:] in {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"}


def is_cut_off(path: Path, pid: int | None = None) -> bool:
    """Whether an MP4, Matroska, AVI, Windows Media, MXF or transport stream file is shorter than it states.

    A Matroska, Flash, Windows Media or Ogg file that ends in zeros was only allocated, as by a download that
    broke off. False for other formats, and for a transport stream that ends with a packet where nothing says
    that more should follow.

    Parameters
    ----------
    pid
        Packet identifier of the video, if the file is an MPEG transport stream.
    """
    end = path.stat().st_size
    if pid is not None:
        return _transport_stream_is_cut_off(path, end, pid)
    with path.open("rb") as file:
        head = file.read(8)
        if head[:4] == b"RIFF":
            return _riff_end(file, end) > end
        matroska = int.from_bytes(head[:4], "big") == _EBML
        if matroska:
            stated_end = _matroska_end(file, end)
            # data after the segment is not part of it
            return stated_end > end or _ends_in_zeros(file, stated_end)
        if head == _ASF and _asf_end(file, end) > end:
            return True
        if _MXF_PARTITION.startswith(head) and _mxf_end(file, end) > end:
            return True
        if head.startswith(_FLV_ASF_OGG) and _ends_in_zeros(file, end):
            return True
    return looks_like_mp4(path) and _mp4_end(path, end) > end


def _ends_in_zeros(file: BinaryIO, end: int) -> bool:
    file.seek(max(0, end - _ZEROS))
    return end > _ZEROS and not any(file.read(_ZEROS))


def _mp4_end(path: Path, end: int) -> int:
    """Return the end of the last top-level box of an MP4 file."""
    with path.open("rb") as file:
        position = 0
        while position < end:
            file.seek(position)
            head = file.read(16)
            if len(head) < 8:
                return end + 1 if any(head) else end
            size = int.from_bytes(head[:4], "big")
            if size == 0:  # reaches to the end of the file, however long that is
                return end
            if size == 1:
                size = int.from_bytes(head[8:16], "big")
            if size < 8:  # trailing garbage, which players ignore too
                return end
            position += size
    return position


def _riff_end(file: BinaryIO, end: int) -> int:
    """Return the end of the last RIFF chunk; long AVI files have several."""
    position = 0
    while position < end:
        file.seek(position)
        head = file.read(8)
        size = int.from_bytes(head[4:], "little")
        if head[:4] != b"RIFF" or size in (0, 0xFFFFFFFF):
            return end
        if position + 8 + size == end:  # the last chunk often lacks its padding byte
            return end
        position += 8 + size + size % 2
    return position


def _asf_end(file: BinaryIO, end: int) -> int:
    """Return the end of the packets of a Windows Media file, if the file states it."""
    file.seek(16)
    start = int.from_bytes(file.read(8), "little")
    file.seek(start)
    head = file.read(24)
    return start + int.from_bytes(head[16:], "little") if head.startswith(_ASF_DATA) else end


def _mxf_end(file: BinaryIO, end: int) -> int:
    """Return the position behind the pictures up to which an MXF file must reach, if it states one."""
    file.seek(16)
    length = (file.read(1) or b"\0")[0]  # of the length itself, in its lower bits, where it is long
    file.seek(17 + (length & 0x7F if length & 0x80 else 0))
    footer = int.from_bytes(file.read(32)[24:], "big")
    return footer + 1 if footer else end


def _matroska_end(file: BinaryIO, end: int) -> int:
    """Return the end of the segment if its size is known (it is not in a live recording)."""
    position = 0
    while position < end:
        file.seek(position)
        head = file.read(12)
        id_length = vint_length(head[0])
        size_length = vint_length(head[id_length]) if len(head) > id_length else 0
        if not id_length or not size_length or len(head) < id_length + size_length:
            return end
        id_ = int.from_bytes(head[:id_length], "big")
        mask = (1 << (7 * size_length)) - 1
        size = int.from_bytes(head[id_length : id_length + size_length], "big") & mask
        if size == mask:
            return end
        position += id_length + size_length + size
        if id_ == _SEGMENT:
            return position
    return end


def _transport_stream_is_cut_off(path: Path, end: int, pid: int) -> bool:
    """Return whether the last transport packet, or a last picture of stated length, is incomplete."""
    with path.open("rb") as file:
        file.seek(max(0, end - _TS_TAIL))
        tail = file.read(_TS_TAIL)
    for before, after in _TS_FRAMINGS:
        step = before + _TS_PACKET + after
        for last in range(len(tail) - 1, max(len(tail) - 1 - step, -1), -1):
            row = tail[last::-step][:_TS_IN_A_ROW]
            if len(row) == _TS_IN_A_ROW and set(row) == {_TS_SYNC}:
                if last + _TS_PACKET + after != len(tail):
                    return True
                return _last_picture_is_cut_off(tail, range(last, -1, -step), pid)
    return False  # no packet at the end: trailing garbage, which players ignore too


def _last_picture_is_cut_off(tail: bytes, packets: range, pid: int) -> bool:
    """Return whether the last PES packet of `pid` is shorter than its stated length."""
    held = 0
    for start in packets:
        packet = tail[start : start + _TS_PACKET]
        if packet[0] != _TS_SYNC:  # damage: nothing is known about what lies before it
            return False
        if int.from_bytes(packet[1:3], "big") & 0x1FFF != pid or not packet[3] & 0x10:
            continue
        payload = packet[5 + packet[4] if packet[3] & 0x20 else 4 :]
        held += len(payload)
        if packet[1] & 0x40:  # a PES packet begins here
            length = int.from_bytes(payload[4:6], "big")
            return payload[:3] == b"\0\0\1" and length > 0 and held < 6 + length
    return False


def _is_scrambled(path: Path, pid: int) -> bool:
    """Return whether the first transport packets of `pid` say that their payload is scrambled."""
    with path.open("rb") as file:
        head = file.read(_TS_TAIL)
    for before, after in _TS_FRAMINGS:
        step = before + _TS_PACKET + after
        for first in range(step):
            row = head[first::step][:_TS_IN_A_ROW]
            if len(row) == _TS_IN_A_ROW and set(row) == {_TS_SYNC}:
                headers = (head[start : start + 4] for start in range(first, len(head) - 4, step))
                return any(
                    int.from_bytes(header[1:3], "big") & 0x1FFF == pid and header[3] & 0xC0
                    for header in headers
                )
    return False


#: Self-contained containers. Playlists (HLS, DASH, concat) and image sequences refer to other files or
#: hosts, so they are never opened; audio-only containers are listed to distinguish them from garbage.
CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,mpegts,mpeg,avi,flv,live_flv,asf,ogg,mxf,rm,dv,ivf,nut,wtv,"
    "gxf,h264,hevc,m4v,mpegvideo,obu,yuv4mpegpipe,mp3,wav,flac,aac,amr,aiff,ac3,eac3,caf,gif"
)
#: End of a message about a cut or damaged file.
TRUNCATE_REMEDY = "get the whole file, or build with --set damaged=truncate to use what is there"
CONCEAL_REMEDY = (
    "get an undamaged copy, convert it, or build with --set damaged=conceal to use it as FFmpeg plays it"
)
#: End of a message about a file with copy protection.
ENCRYPTED = "its pictures are encrypted; get a copy without copy protection"
#: Metadata that FFmpeg makes of an encrypted track of Matroska.
_KEY_ID = "enc_key_id"
#: What FFmpeg reads of a file at once.
_BUFFER_BYTES = 1 << 18
_MICROSECOND = Fraction(1, 1_000_000)
_TS_DISCONT = 0x0200  # AVFMT_TS_DISCONT: the clock starts anywhere and may jump


@dataclass(slots=True)
class OpenVideo:
    """A container with its selected video stream.

    Attributes
    ----------
    container, stream
        PyAV's objects; only the stream's packets are read.
    time_base
        Seconds per unit of the stream's time stamps.
    offset
        Added to a time stamp so that 0 is where the ffmpeg command starts counting: the earliest start of any
        stream, or of this stream alone in containers such as MPEG-TS.
    may_jump
        Whether the container's clock may jump, as in MPEG-TS.
    damaged
        How damage is handled.
    cut_off
        Whether the file is shorter than it says, or decoding found that its last picture is not whole.
    damage
        Tolerated damage so far, by rule.
    cut_at
        Time stamp of the picture that was not whole, if the file ends in it and is used up to there.
    """

    path: Path
    container: InputContainer
    stream: VideoStream
    time_base: Fraction
    offset: int
    may_jump: bool
    damaged: DamageRule = "refuse"
    cut_off: bool = False
    damage: Damage = ""
    cut_at: int | None = None

    @property
    def crop(self) -> Crop | None:
        """Margins of each picture that the container hides."""
        if "matroska" in self.container.format.name:
            return matroska_crop(self.path, self.container.streams.video.index(self.stream))
        return clean_aperture(self.path, self.stream.id) if looks_like_mp4(self.path) else None

    def says_encrypted(self) -> bool:
        """Return whether a file of which nothing can be decoded says why: copy protection."""
        if self.container.format.name == "mpegts":
            return _is_scrambled(self.path, self.stream.id)
        return _KEY_ID in self.stream.metadata

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """Yield the stream's packets in decode order, without the empty one that PyAV appends.

        Raises
        ------
        SetAside
            The container's data is damaged (undecodable video), unless the rule tolerates it; or encrypted.
        """
        try:
            for packet in self.container.demux(self.stream):
                if packet.has_sidedata("encryption_info"):
                    raise SetAside(Reason.UNDECODABLE_VIDEO, f"{self.path}: {ENCRYPTED}")
                if packet.size:
                    yield packet
        except av.FFmpegError as error:
            # reading ends there, as the ffmpeg command's does
            if self.damaged == "conceal":
                self.damage = "concealed"
            elif not self.cut_off:
                raise SetAside(
                    Reason.UNDECODABLE_VIDEO,
                    f"{self.path}: the file's structure is damaged and cannot be read on "
                    f"({error.strerror}); {CONCEAL_REMEDY}",
                ) from error

    def decode(self, packet: Packet[VideoStream] | None) -> list[VideoFrame]:
        """Return the frames decoded from one packet (None: flush the decoder)."""
        return self.stream.codec_context.decode(packet)


class _PatientFile(io.FileIO):
    """Reads a video for FFmpeg, and asks again where its file system does not answer.

    FFmpeg takes an error of reading for the end of the file in many containers.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        # "file:" prevents names such as "rtmp:x" or "a%03d" from being taken for anything but a file.
        self.name = f"file:{path.absolute()}"

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes; OSError if the file system still does not answer."""
        return ask_again(lambda: super(_PatientFile, self).read(-1 if size is None else size))


@contextmanager
def _opened(path: Path) -> Iterator[InputContainer]:
    """Open the container, or raise the reason why it cannot be opened."""
    try:
        size = ask_again(path.stat).st_size
    except OSError as error:
        raise SetAside(
            Reason.VIDEO_MISSING, f"{path}: the video cannot be read ({error.strerror}); check the path"
        ) from error
    if not path.is_file():
        raise SetAside(Reason.NOT_A_VIDEO, f"{path} is not a file; give the path of a video file")
    if size == 0:
        raise SetAside(Reason.EMPTY_FILE, f"{path} is empty (0 bytes); copy or fetch it again")
    try:
        file = ask_again(lambda: _PatientFile(path))
    except PermissionError as error:
        raise SetAside(
            Reason.VIDEO_MISSING, f"{path}: no permission to read the video; change its mode or owner"
        ) from error
    with file, _container(path, file) as container:
        # PyAV has presentation times guessed where a file has none, as H.264 in AVI; the command does not
        container.flags &= ~cast(int, Flags.gen_pts.value)
        yield container


def _container(path: Path, file: _PatientFile) -> InputContainer:
    try:
        return av.open(
            file,
            mode="r",
            options={"protocol_whitelist": "file", "format_whitelist": CONTAINERS},
            metadata_errors="replace",
            buffer_size=_BUFFER_BYTES,
        )
    except (av.FFmpegError, ValueError) as error:
        if looks_like_mp4(path):
            raise SetAside(
                Reason.TRUNCATED_VIDEO,
                f"{path}: starts like an MP4 but its index is missing or damaged, as after a broken "
                "download; get the whole file",
            ) from error
        raise SetAside(
            Reason.NOT_A_VIDEO, f"{path} is not in a video container that is read here; convert it to MP4"
        ) from error


def _choose_stream(path: Path, container: InputContainer) -> VideoStream:
    """Return the stream the ffmpeg command selects: largest picture, default stream first, no cover art."""
    streams = [s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic]
    if not streams:
        raise SetAside(
            Reason.NO_VIDEO_STREAM, f"{path} has no video stream (sound or a cover only); remove it"
        )
    undecodable = [s for s in streams if s.codec_context is None]
    if undecodable:
        raise SetAside(
            Reason.UNDECODABLE_VIDEO, f"{path}: no decoder for its video stream; convert it to H.264 in MP4"
        )
    return max(
        streams,
        key=lambda s: (
            s.codec_context.width * s.codec_context.height
            + (5_000_000 if s.disposition & av.stream.Disposition.default else 0),
            s.frames != 1,  # the still picture of an animation (AVIF)
        ),
    )


def _may_jump(container: InputContainer) -> bool:
    flags: int = container.format.input.flags  # type: ignore[attr-defined]  # missing from PyAV's stubs
    return bool(flags & _TS_DISCONT)


def _zero(container: InputContainer, stream: VideoStream, time_base: Fraction) -> int:
    """Return the offset the ffmpeg command adds to every time stamp of the stream."""
    start = container.start_time or 0
    if _may_jump(container) and stream.start_time is not None:
        start = max(start, round_half_away(stream.start_time * time_base / _MICROSECOND))
    return round_half_away(-start * _MICROSECOND / time_base)


@contextmanager
def open_video(path: Path, damaged: DamageRule = "refuse") -> Iterator[OpenVideo]:
    """Open a video file for reading packets and frames of its main video stream, on one thread.

    Parameters
    ----------
    damaged
        ``refuse`` sets a damaged file aside; ``truncate`` uses one that is cut off up to its last whole
        picture; ``conceal`` takes the pictures that the decoder returns, as the ffmpeg command does.

    Raises
    ------
    SetAside
        Missing, empty, not a video, no video stream, no decoder, or a file that is shorter than it says.
    """
    with _opened(path) as container:
        stream = _choose_stream(path, container)
        for other in container.streams:
            if other.index != stream.index:
                other.discard = Discard.all
        cut_off = is_cut_off(path, stream.id if container.format.name == "mpegts" else None)
        if cut_off and damaged == "refuse":
            raise SetAside(
                Reason.TRUNCATED_VIDEO, f"{path}: the file is shorter than its header says; {TRUNCATE_REMEDY}"
            )
        # One thread: the work per frame is the same, and thread hand-over would only add cost.
        stream.codec_context.thread_type = ThreadType.NONE
        stream.codec_context.thread_count = 1
        # Crop where the file says: by default decoders keep columns on the left that make it faster.
        stream.codec_context.flags |= CodecFlags.unaligned
        time_base = stream.time_base
        if time_base is None:
            raise SetAside(Reason.UNDECODABLE_VIDEO, f"{path}: its video stream has no clock; convert it")
        zero = _zero(container, stream, time_base)
        damage: Damage = "" if not cut_off else "truncated" if damaged == "truncate" else "concealed"
        jumps = _may_jump(container)
        yield OpenVideo(path, container, stream, time_base, zero, jumps, damaged, cut_off, damage)
