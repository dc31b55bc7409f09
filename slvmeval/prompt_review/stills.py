"""Stills of a video, as JPEG, made when a browser asks for them."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from PIL import Image

from tasks.suites.file_video import OpenVideos, Sampling
from tasks.suites.video_bench.frames import evenly

#: Stills of a video, its first and last frame among them.
STILLS = 12
#: Longer side in pixels.
SIDE = 480
_QUALITY = 80
#: Stills that are kept.
_MOST_KEPT = 20 * STILLS


@dataclass(frozen=True)
class Stills:
    """Makes stills; one at a time, since videos are read by one thread at a time."""

    _videos: OpenVideos = field(default_factory=lambda: OpenVideos(Sampling(long_side=SIDE)))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: OrderedDict[tuple[str, int], bytes] = field(default_factory=OrderedDict)

    def times(self, path: str) -> list[float]:
        """Return when the stills are shown, seconds.

        Raises
        ------
        SetAside
            If the video cannot be read.
        """
        with self._lock:
            video = self._videos.open(path)
            return [float(video.times_s[place]) for place in evenly(range(len(video)), STILLS)]

    def jpeg(self, path: str, number: int) -> bytes | None:
        """Return a still by its number from 0; None where there is none.

        Raises
        ------
        SetAside
            If the video cannot be read.
        """
        with self._lock:
            if (path, number) not in self._kept:
                video = self._videos.open(path)
                places = evenly(range(len(video)), STILLS)
                if not 0 <= number < len(places):
                    return None
                file = io.BytesIO()
                Image.fromarray(video.rgb(places[number])).save(file, "JPEG", quality=_QUALITY)
                self._kept[path, number] = file.getvalue()
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            return self._kept[path, number]
