"""Start and end times of Vript's clips.

``<id>_cut_meta.json`` gives start and end of each clip. Its format is not documented, so several spellings
are supported, in seconds or as time codes. If it is missing or not understood, the durations in
``<id>_asr.jsonl`` are accumulated in scene order (the file has them in reverse order).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage_schemas.errors import Reason, SetAside
from tasks.sources.clips import decode_utf8, load_json, parse_time, seconds

# The number of digits is bounded: Python refuses to convert thousands of them.
_SCENE = re.compile(r"-Scene-(\d{1,9})(?:\.\w+)?$")

# Clips are cut at frames; a larger deviation of `end − start` from the stated duration means another unit.
_DURATION_TOLERANCE_S = 1.0


@dataclass(frozen=True, slots=True)
class TimeKeys:
    """Possible keys of times in ``cut_meta.json``; the first one present is used.

    `pair` holds keys whose value is a list of start and end.
    """

    start: tuple[str, ...] = (
        "start_s", "start", "start_time", "start_sec", "start_seconds", "start_timecode", "begin",
    )  # fmt: skip
    end: tuple[str, ...] = (
        "end_s", "end", "end_time", "end_sec", "end_seconds", "end_timecode", "stop",
    )  # fmt: skip
    pair: tuple[str, ...] = ("span", "interval", "time_span", "timestamp", "timestamps", "time")
    duration: tuple[str, ...] = ("duration", "duration_s")


Times = dict[int, tuple[float, float]]


def scene_number(clip_id: Any, where: str) -> int:
    """Return the scene number of a clip's id, ``<id>-Scene-012`` or ``<id>-Scene-012.mp4``.

    Raises
    ------
    SetAside
        `captions_malformed` for any other id.
    """
    match = _SCENE.search(clip_id) if isinstance(clip_id, str) else None
    if match is None:
        raise SetAside(
            Reason.CAPTIONS_MALFORMED, f"{where}: {clip_id!r:.80} is not a clip id of the form ID-Scene-001"
        )
    return int(match[1])


def times_from_cut_meta(data: bytes, where: str, keys: TimeKeys | None = None) -> Times:
    """Return start and end in seconds of each scene, from a ``cut_meta.json``.

    Raises
    ------
    SetAside
        `captions_not_utf8`, `captions_malformed`, or `clip_boundaries_missing` if no known key has a time;
        the message lists the keys present.
    """
    keys = keys or TimeKeys()
    value = load_json(decode_utf8(data, where), where)
    clips = value.get("clips") if isinstance(value, dict) else None
    if not isinstance(clips, list):
        raise SetAside(Reason.CLIP_BOUNDARIES_MISSING, f"{where} has no list of clips")
    times: Times = {}
    for number, clip in enumerate(clips, start=1):
        here = f"{where}, clip {number}"
        if not isinstance(clip, dict):
            raise SetAside(Reason.CLIP_BOUNDARIES_MISSING, f"{here} is not an object")
        scene = scene_number(clip.get("clip_id"), here)
        if scene in times:
            raise SetAside(Reason.CAPTIONS_MALFORMED, f"{here}: scene {scene} occurs twice")
        times[scene] = _start_and_end(clip, keys, here)
    return times


def times_from_durations(data: bytes, where: str) -> Times:
    """Return start and end in seconds of each scene, accumulating the durations of an ``asr.jsonl``.

    Raises
    ------
    SetAside
        `captions_not_utf8`, `captions_malformed`, or `clip_boundaries_missing` if any scene but the last is
        missing, since later ones would be misplaced.
    """
    durations: dict[int, float] = {}
    for number, text in enumerate(decode_utf8(data, where).split("\n"), start=1):
        if not text.strip():
            continue
        here = f"{where}, line {number}"
        row = load_json(text, here)
        if not isinstance(row, dict) or "duration" not in row:
            raise SetAside(Reason.CLIP_BOUNDARIES_MISSING, f"{here} has no duration")
        scene = scene_number(row.get("clip_id"), here)
        if scene in durations:
            raise SetAside(Reason.CAPTIONS_MALFORMED, f"{here}: scene {scene} occurs twice")
        durations[scene] = seconds(row["duration"], "duration", here)
    scenes = sorted(durations)
    missing = sorted(set(range(1, len(scenes) + 1)) - durations.keys())
    if missing or not scenes:
        raise SetAside(
            Reason.CLIP_BOUNDARIES_MISSING,
            f"{where} lacks scene {missing[0] if missing else 1}, so later scenes have no known start",
        )
    edges = list(itertools.accumulate((durations[scene] for scene in scenes), initial=0.0))
    return {scene: (edges[index], edges[index + 1]) for index, scene in enumerate(scenes)}


def _start_and_end(clip: Mapping[str, Any], keys: TimeKeys, where: str) -> tuple[float, float]:
    start = _first(clip, keys.start)
    end = _first(clip, keys.end)
    for key in keys.pair:
        pair = clip.get(key)
        if start is None and end is None and isinstance(pair, Sequence) and len(pair) == 2:
            start, end = parse_time(pair[0]), parse_time(pair[1])
    duration = _first(clip, keys.duration)
    if start is not None and end is None and duration is not None:
        end = start + duration
    if start is None or end is None or start < 0 or end <= start:
        raise SetAside(
            Reason.CLIP_BOUNDARIES_MISSING,
            f"{where}: no known start and end keys among {', '.join(map(str, clip))}",
        )
    if duration is not None and abs(end - start - duration) > _DURATION_TOLERANCE_S:
        raise SetAside(
            Reason.CLIP_BOUNDARIES_MISSING,
            f"{where}: from {start} to {end} is not the stated duration of {duration} s",
        )
    return start, end


def _first(clip: Mapping[str, Any], names: Sequence[str]) -> float | None:
    value = next((clip[name] for name in names if name in clip), None)
    return parse_time(value)
