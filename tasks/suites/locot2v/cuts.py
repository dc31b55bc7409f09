"""Cuts of a video by PySceneDetect, whose detector is fed from frames that are read anyway."""

from __future__ import annotations

from pydantic import Field

from storage_schemas.model import Frozen
from tasks.pairs.view import Side
from tasks.suites.locot2v.flow import reduced


class CutSettings(Frozen):
    """How cuts are found; the paper names PySceneDetect only. Not from the paper: its own defaults.

    Parameters
    ----------
    threshold
        Change of hue, saturation and value between two frames that makes a cut, 0 to 255.
    shortest_s
        Scenes are at least so long, in seconds.
    long_side
        Longer side to which frames are reduced before, in pixels (about what PySceneDetect does by itself).
    """

    threshold: float = Field(default=27.0, gt=0)
    shortest_s: float = Field(default=0.6, ge=0)
    long_side: int = Field(default=256, ge=16)


def find_cuts(video: Side, settings: CutSettings | None = None) -> list[int]:
    """Return the places of the first frame after each cut.

    One frame is held at a time, and what the detector keeps of the one before.
    """
    # it brings its command line, which takes a while: only where cuts are wanted
    import cv2
    from scenedetect.detectors.content_detector import ContentDetector

    chosen = settings or CutSettings()
    shortest = max(1, round(chosen.shortest_s * video.fps))
    detector = ContentDetector(threshold=chosen.threshold, min_scene_len=shortest)
    found: list[int] = []
    for place in range(len(video)):
        small = reduced(video.rgb(place), chosen.long_side)
        found += detector.process_frame(place, cv2.cvtColor(small, cv2.COLOR_RGB2BGR))
    found += detector.post_process(len(video) - 1)
    # a scene of no frame is none
    return sorted({int(place) for place in found if 0 < place < len(video)})
