"""Short videos joined to one, each a clip, and a clip whose frames an operation changed; all of it lazy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.ids import digest_text
from tasks.media.planes import empty_planes, planes_to_rgb, rgb_to_planes, split_planes
from tasks.pairs.view import Side

_NO_COLOUR = 128


class ChangedSide(Side):
    """A short clip with other pixels; all of its frames are made together when the first is wanted.

    Parameters
    ----------
    clip
        The clip as it was.
    change
        Makes planes ``(n, H·3/2, W)`` of all its frames from those of the clip.
    name
        What the change is, all that its pixels depend on: part of the frames' identity.
    """

    def __init__(self, clip: Side, change: Callable[[Planes], Planes], name: str) -> None:
        self._clip, self._change, self._name = clip, change, name
        self.width, self.height, self.color, self.fps = clip.width, clip.height, clip.color, clip.fps

    @cached_property
    def _frames(self) -> Planes:
        frames = self._change(self._clip.planes(range(len(self._clip))))
        frames.setflags(write=False)
        return frames

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._clip)

    def planes(self, places: Sequence[int]) -> Planes:
        """Return frames by place as ``(n, H·3/2, W)`` uint8."""
        return self._frames[list(places)]

    def frame_ids(self, places: Sequence[int]) -> list[str]:
        """Return the identity of frames: the clip's, and the change's."""
        # a change may depend on the whole clip and on the place in it
        whole = digest_text(f"{self._clip.identity()}:{self._name}")
        return [f"{whole}:{place}" for place in places]


class JoinedSide(Side):
    """Some of several clips one after another, on one canvas.

    The canvas is the widest by the highest of all clips, so that it is the same whichever are shown. A clip
    that is smaller lies in its middle, with black around it; one with another colour matrix or range is
    converted to the first one's.

    Parameters
    ----------
    clips
        All clips, with the same number of frames a second.
    order
        Which of them are shown, one after another; all by default.

    Raises
    ------
    ValueError
        If there are none, or their rates differ.
    """

    def __init__(self, clips: Sequence[Side], order: Sequence[int] | None = None) -> None:
        if not clips or len({clip.fps for clip in clips}) > 1:
            raise ValueError("clips to join have to be at least one, and of one rate")
        self._clips = list(clips)
        self._shown = [self._clips[at] for at in (range(len(clips)) if order is None else order)]
        self._ends = list(accumulate(len(clip) for clip in self._shown))
        self.width = max(clip.width for clip in clips)
        self.height = max(clip.height for clip in clips)
        self.color: ColorSpec = clips[0].color
        self.fps = clips[0].fps

    def __len__(self) -> int:
        """Return the number of frames."""
        return self._ends[-1] if self._ends else 0

    @cached_property
    def family(self) -> str:
        """What both videos of a pair share: all clips that its canvas is made for."""
        return digest_text("\n".join(clip.family for clip in self._clips))

    def _locate(self, place: int) -> tuple[Side, int]:
        if not 0 <= place < len(self):
            raise IndexError(f"frame {place} of {len(self)}")
        at = bisect_right(self._ends, place)
        clip = self._shown[at]
        return clip, place - (self._ends[at] - len(clip))

    def frame_ids(self, places: Sequence[int]) -> list[str]:
        """Return the identity of frames: the clips', and the canvas."""
        reach = "full" if self.color.full_range else "limited"
        canvas = f"{self.width}x{self.height}:{self.color.matrix}:{reach}"
        located = [self._locate(place) for place in places]
        return [f"{clip.frame_ids([at])[0]}@{canvas}" for clip, at in located]

    def planes(self, places: Sequence[int]) -> Planes:
        """Return frames by place as ``(n, H·3/2, W)`` uint8; neighbours in a clip are read together."""
        located = [self._locate(place) for place in places]
        parts: list[Planes] = []
        start = 0
        for end in range(1, len(located) + 1):
            clip = located[start][0]
            if end == len(located) or located[end][0] is not clip:
                parts.append(self._on_canvas(clip, clip.planes([at for _, at in located[start:end]])))
                start = end
        return np.concatenate(parts) if parts else empty_planes(0, self.height, self.width)

    def _on_canvas(self, clip: Side, planes: Planes) -> Planes:
        if clip.color != self.color:
            planes = rgb_to_planes(planes_to_rgb(planes, clip.color), self.color)
        if (clip.width, clip.height) == (self.width, self.height):
            return planes
        canvas = empty_planes(len(planes), self.height, self.width)
        to, given = split_planes(canvas), split_planes(np.ascontiguousarray(planes))
        to.y[...] = 0 if self.color.full_range else 16
        to.u[...] = to.v[...] = _NO_COLOUR
        # even, so that chroma falls on chroma
        top, left = ((self.height - clip.height) // 4) * 2, ((self.width - clip.width) // 4) * 2
        to.y[:, top : top + clip.height, left : left + clip.width] = given.y
        rows = slice(top // 2, (top + clip.height) // 2)
        columns = slice(left // 2, (left + clip.width) // 2)
        to.u[:, rows, columns], to.v[:, rows, columns] = given.u, given.v
        return canvas
