"""The filter graph that turns a decoded frame into a stored one: crop, rotate, scale with Lanczos, 4:2:0.

Both decoding modes use it, so they give the same bytes.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.filter import Graph
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from storage_schemas.errors import Reason, SetAside
from storage_schemas.frames import ColorSpec, Matrix
from tasks.media.cropping import Crop

#: Nine 16.16 numbers, row by row.
DisplayMatrix = tuple[int, ...]


def display_matrix(frame: VideoFrame) -> DisplayMatrix | None:
    """Return the frame's display matrix as nine 16.16 numbers, or None."""
    data: Any = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return None
    return tuple(int(n) for n in np.frombuffer(data, dtype="<i4", count=9))


def upright(matrix: DisplayMatrix | None) -> tuple[list[tuple[str, str]], int]:
    """Return the ffmpeg command's filters for turning a frame upright, and the clockwise angle in degrees."""
    if matrix is None:
        return [], 0
    a, b, c, d = (n / 65536 for n in (matrix[0], matrix[1], matrix[3], matrix[4]))
    scale_x, scale_y = np.hypot(a, c), np.hypot(b, d)
    if scale_x == 0 or scale_y == 0:
        return [], 0
    angle = float(np.round(np.degrees(np.arctan2(b / scale_y, a / scale_x)))) % 360
    if angle == 90:
        return [("transpose", "cclock_flip" if c > 0 else "clock")], 90
    if angle == 270:
        return [("transpose", "clock_flip" if c < 0 else "cclock")], 270
    if angle == 180:
        flips = [("hflip", a < 0), ("vflip", d < 0)]
        return [(name, "") for name, wanted in flips if wanted], 180
    if angle != 0:
        return [("rotate", f"{angle}*PI/180")], 0
    return ([("vflip", "")] if d < 0 else []), 0


#: Numbers of ITU-T H.273, as FFmpeg's AVColorSpace has them.
MATRICES: dict[int, Matrix] = {
    1: "bt709",
    4: "bt601",
    5: "bt601",
    6: "bt601",
    7: "bt709",
    9: "bt2020",
    10: "bt2020",
}
_RGB = 0
_UNKNOWN_RANGE, _FULL_RANGE = 0, 2


def color_matrix(scaled: VideoFrame, frame: VideoFrame) -> Matrix | None:
    """Return the colour matrix of a scaled frame, given the decoded one; None if unstated."""
    found = MATRICES.get(scaled.colorspace)
    # the scale filter's default for RGB input
    return "bt601" if found is None and frame.colorspace == _RGB else found


def is_full_range(scaled: VideoFrame) -> bool:
    """Return whether the luma of a scaled frame spans 0–255."""
    return bool(scaled.color_range == _FULL_RANGE)


class Scaler:
    """Applies ``scale=W:H:flags=lanczos,format=yuv420p`` after rotation, as the ffmpeg command does.

    Parameters
    ----------
    width, height
        Size of the stored frame, both divisible by 4.
    path
        The video, for messages.
    stored
        Colours of the stored frames: those of the video's first frame. A later frame that says others is
        converted, which the command does not do: its output has no place for other colours either.
    turn
        Display matrix of the video's first frame, which counts for all: a message in the stream need not be
        repeated with each picture.
    crop
        Margins of each picture that the container hides.
    """

    def __init__(
        self,
        width: int,
        height: int,
        path: Path,
        stored: ColorSpec | None = None,
        turn: DisplayMatrix | None = None,
        crop: Crop | None = None,
    ) -> None:
        self.width, self.height, self.path, self._stored = width, height, path, stored
        self._key: tuple[object, ...] | None = None
        self._crop = crop
        self._turn, self._same_turns = upright(turn), set[int]()
        self._graph: Graph | None = None

    def check_turn(self, frame: VideoFrame) -> None:
        """Check that a frame has the same rotation as the first one.

        Raises
        ------
        SetAside
            ``UNDECODABLE_VIDEO``.
        """
        if (rotation := frame.rotation) in self._same_turns:
            return
        # Look up only once: side data and frame refer to each other, which keeps both in memory.
        matrix = display_matrix(frame)
        if matrix is not None and upright(matrix) != self._turn:
            raise SetAside(
                Reason.UNDECODABLE_VIDEO,
                f"{self.path}: its pictures are turned by {rotation}° in mid-stream, unlike the first one; "
                "split the video there, or convert it",
            )
        self._same_turns.add(rotation)

    def _build(self, frame: VideoFrame, conversion: str = "") -> Graph:
        graph = Graph()
        graph.threads = 1
        source = graph.add(
            "buffer",
            f"video_size={frame.width}x{frame.height}:pix_fmt={frame.format.name}:time_base=1/1:"
            f"pixel_aspect=1/1:colorspace={frame.colorspace}:range={frame.color_range}",
        )
        nodes = [source]
        if self._crop is not None:
            nodes.append(graph.add("crop", self._crop.arguments))
        for name, arguments in self._turn[0]:
            nodes.append(graph.add(name, arguments))
        nodes.append(graph.add("scale", f"{self.width}:{self.height}:flags=lanczos{conversion}"))
        nodes.append(graph.add("format", "yuv420p"))
        nodes.append(graph.add("buffersink"))
        graph.link_nodes(*nodes).configure()
        return graph

    def frame(self, frame: VideoFrame) -> VideoFrame:
        """Return the scaled frame, yuv420p; the input frame is not modified.

        Raises
        ------
        SetAside
            ``UNDECODABLE_VIDEO`` if FFmpeg cannot scale it.
        """
        try:
            return self._frame(frame)
        except (av.FFmpegError, ValueError) as problem:
            what = f"{frame.width}×{frame.height}, {frame.format.name}"
            remedy = "convert it to a size that is less wide or high"
            if getattr(problem, "errno", None) == errno.ENOSYS:
                what += f", colour matrix {frame.colorspace} of ITU-T H.273"
                remedy = (
                    "convert it, or name another matrix: "
                    "ffmpeg -i IN -c copy -bsf:v h264_metadata=matrix_coefficients=1 OUT"
                )
            raise SetAside(
                Reason.UNDECODABLE_VIDEO,
                f"{self.path}: FFmpeg cannot scale its pictures ({what}: {problem}); {remedy}",
            ) from problem

    def _frame(self, frame: VideoFrame) -> VideoFrame:
        key = frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range
        if self._graph is None or key != self._key:
            self._graph, self._key = self._build(frame), key
            if conversion := self._conversion(self._scaled(self._graph, frame), frame):
                self._graph = self._build(frame, conversion)
        return self._scaled(self._graph, frame)

    @staticmethod
    def _scaled(graph: Graph, frame: VideoFrame) -> VideoFrame:
        graph.vpush(frame)
        return graph.vpull()

    def _conversion(self, scaled: VideoFrame, frame: VideoFrame) -> str:
        """Return options of the scale filter if a scaled frame's colours differ from the stored ones."""
        if self._stored is None:
            return ""
        options = ""
        found = color_matrix(scaled, frame)
        if found is not None and found != self._stored.matrix:
            options += f":out_color_matrix={self._stored.matrix}"
        if scaled.color_range != _UNKNOWN_RANGE and is_full_range(scaled) != self._stored.full_range:
            options += f":out_range={'full' if self._stored.full_range else 'limited'}"
        return options

    def planes(self, frame: VideoFrame) -> NDArray[np.uint8]:
        """Return the scaled frame as packed I420, shape (H·3/2, W), uint8, read-only."""
        planes = np.asarray(self.frame(frame).to_ndarray(), dtype=np.uint8)
        planes.setflags(write=False)
        return planes
