"""Frames as FFmpeg's own filters give them, through PyAV: what ours are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.filter import Graph
from av.video.frame import VideoFrame

from tasks.media.source_file import open_video

Planes = np.ndarray[Any, np.dtype[np.uint8]]


def told_graph(frame: VideoFrame, time_base: Fraction, filters: Sequence[str]) -> Graph:
    """Return a filter graph whose source is told what the ffmpeg command tells it, colours included."""
    size = f"video_size={frame.width}x{frame.height}:pix_fmt={frame.format.name}:pixel_aspect=1/1"
    told = f":time_base={time_base}:colorspace={frame.colorspace}:range={frame.color_range}"
    graph = Graph()
    graph.threads = 1
    nodes = [graph.add("buffer", size + told)]
    nodes += [graph.add(*step.split("=", 1)) for step in filters]
    graph.link_nodes(*nodes, graph.add("buffersink")).configure()
    return graph


def filtered_frames(
    video: Path, width: int, height: int, turn: list[str], decode_times: bool = False
) -> dict[int, Planes]:
    """Return the frames by number that one graph gives which turns, chooses and scales all images."""
    result: dict[int, Planes] = {}
    with open_video(video) as opened:
        offset, time_base = opened.offset, opened.time_base
    filters = [*turn, "fps=1", f"scale={width}:{height}:flags=lanczos", "format=yuv420p"]
    graph: Graph | None = None

    def drain(graph: Graph) -> None:
        while True:
            try:
                frame = graph.vpull()
            except (av.BlockingIOError, av.EOFError):
                return
            result[frame.pts] = frame.to_ndarray()

    with av.open(str(video)) as container:
        for image in container.decode(video=0):
            graph = graph or told_graph(image, time_base, filters)
            # PyAV has times guessed that the file lacks; the command counts decode times
            image.pts = (image.dts if decode_times else image.pts) + offset
            graph.vpush(image)
            drain(graph)
    assert graph is not None
    graph.vpush(None)
    drain(graph)
    return result
