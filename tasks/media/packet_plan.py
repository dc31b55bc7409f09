"""Which packets of a file must be decoded for the frames at ``fps``, proved from the packets themselves.

A picture that no other picture refers to (``nal_ref_idc`` 0) can be left out without a trace, and so can
everything between the last wanted picture and the next IDR picture. Both hold for H.264 under conditions that
are checked for each file, packet by packet. Where one fails the answer is :class:`Unsafe`, and every frame
has to be decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.media.h264_proof import Proof, Refused
from tasks.media.nal import Unreadable
from tasks.media.probe import FirstFrame, VideoInfo, describe
from tasks.media.source_file import OpenVideo, open_video
from tasks.media.timeline import AbsurdTime


@dataclass(frozen=True, slots=True)
class Unsafe:
    """Why the file has to be decoded in full."""

    reason: str


@dataclass(frozen=True, slots=True)
class PacketPlan:
    """The frames at ``fps`` and the packets behind them.

    Attributes
    ----------
    first
        Number k of the first frame.
    chosen
        Index of the packet that holds frame ``first + i``, shape (n,), int64.
    times_s
        Time of the image chosen for each frame, seconds, shape (n,), float64.
    pts
        Time stamps of all packets in decode order as the container has them, shape (p,), int64.
    reference, idr
        Whether other pictures may refer to the packet's picture; whether it is an IDR picture, (p,), bool.
    seek_to
        Where to seek to for each IDR picture, in the unit of ``pts``, int64.
    """

    first: int
    chosen: NDArray[np.int64]
    times_s: NDArray[np.float64]
    pts: NDArray[np.int64]
    reference: NDArray[np.bool_]
    idr: NDArray[np.bool_]
    seek_to: NDArray[np.int64]

    def needed(self, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which packets must be decoded to see the pictures ``chosen``; shape (p,), bool.

        The pictures themselves, and before each of them the reference pictures back to the IDR picture.
        """
        needed = np.zeros(len(self.pts), dtype=bool)
        starts = np.flatnonzero(self.idr)
        period = np.searchsorted(starts, chosen, side="right") - 1
        last = np.full(len(starts), -1, dtype=np.int64)
        np.maximum.at(last, period, chosen)
        for start, end in zip(starts, last + 1, strict=True):
            needed[start:end] = self.reference[start:end]
        needed[chosen] = True
        return needed

    def seek_before(self, packet: int) -> int:
        """Where to seek to, to find the IDR picture that a packet depends on."""
        return int(self.seek_to[int(self.idr[: packet + 1].sum()) - 1])


def plan_packets(path: Path, fps: Fraction) -> PacketPlan | Unsafe:
    """Read all packets of a file and plan the decoding of its frames at ``fps``.

    Raises
    ------
    SetAside
        The file cannot be opened or read.
    """
    return probe_and_plan(path, fps)[1]


def probe_and_plan(path: Path, fps: Fraction) -> tuple[VideoInfo, PacketPlan | Unsafe]:
    """Describe a file as :func:`tasks.media.probe.probe` does, and plan, in one pass over its packets.

    Raises
    ------
    SetAside
        The file cannot be used; see :func:`tasks.media.probe.probe`.
    """
    with open_video(path) as video:
        first = FirstFrame(video)
        proof: Proof | None = None
        refusal = ""
        try:
            proof = Proof(video, fps)
        except (Refused, Unreadable, AbsurdTime) as error:
            refusal = str(error)
        for packet in video.packets():
            first.offer(packet)
            if proof:
                try:
                    proof.add(packet)
                except (Refused, Unreadable, AbsurdTime) as error:
                    proof, refusal = None, str(error)
            if first.found and not proof:
                break
        info = describe(video, first.frame())
        if proof:
            try:
                proof.finish()
                return info, _plan(video, proof)
            except (Refused, Unreadable, AbsurdTime) as error:
                refusal = str(error)
        return info, Unsafe(refusal)


def _plan(video: OpenVideo, proof: Proof) -> PacketPlan:
    chooser = proof.chooser
    return PacketPlan(
        first=chooser.first,
        chosen=np.frombuffer(chooser.ids, dtype=np.int64),
        times_s=np.fromiter((float(p * video.time_base) for p in chooser.pts), np.float64, len(chooser.pts)),
        pts=np.frombuffer(proof.pts, dtype=np.int64),
        reference=np.frombuffer(proof.reference, dtype=np.bool_),
        idr=np.frombuffer(proof.idr, dtype=np.bool_),
        seek_to=np.frombuffer(proof.seek_to, dtype=np.int64),
    )
