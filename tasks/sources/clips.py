"""Convert caption lines to clips, with validation.

Accepted
    Blank lines, a byte order mark, additional keys, gaps between clips.
Repaired
    Overlapping clips are cut at the later start. A clip with a blank caption becomes an uncaptioned gap.
    A line break or control character within a caption becomes one space, since captions are joined by
    line breaks to form the prompt.
Sets the source aside
    Text that is not UTF-8; a malformed line or one with a key twice; a start before that of the previous
    clip; two clips with the same start (one would become empty); no captions at all; too many.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from storage_schemas.errors import Reason, SetAside
from storage_schemas.source import Clip

#: Maximum size of a caption file; larger files are not read.
MAX_CAPTION_BYTES = 64 << 20
#: Maximum number of captioned clips: five hours of one clip a second. Each is analysed and kept in memory.
MAX_CLIPS = 20_000

#: A hint for the files that the command fills.
FILLED = ". `slvmeval sources caption` with `--server` or `--model` fills blank ones"
_BREAKS = re.compile("\\s*[\x00-\x1f\x7f-\x9f\u2028\u2029]+\\s*")
# of text that a caption would turn around it
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile("[\ud800-\udfff]")
# The number of digits is bounded: Python refuses to convert thousands of them.
_TIME_CODE = re.compile(r"(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:[.,]\d{1,9})?)")
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,18})?")


@dataclass(frozen=True, slots=True)
class CaptionLine:
    """One captioned interval of the data set; `where` is file and line, for messages."""

    start_s: float
    end_s: float
    caption: str
    where: str


def clean_caption(text: str) -> str:
    """Return a caption as one line of text that is valid in every encoding and format.

    Line breaks and control characters become one space, lone surrogates the replacement character; marks that
    turn the direction of text are left out; text without visible characters becomes the empty string.
    """
    line = _BREAKS.sub(" ", _DIRECTIONS.sub("", _SURROGATES.sub("\ufffd", text))).strip()
    return line if any(sign.isprintable() and not sign.isspace() for sign in line) else ""


def decode_utf8(data: bytes, where: str) -> str:
    """Return the text of a caption file, without a byte order mark.

    Raises
    ------
    SetAside
        `captions_not_utf8` with the line of the first invalid byte.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise SetAside(
            Reason.CAPTIONS_NOT_UTF8,
            f"{where}, line {line}: byte 0x{data[problem.start]:02x} is not UTF-8: save the file as UTF-8",
        ) from problem


def load_json(text: str, where: str) -> Any:
    """Parse a JSON text.

    Raises
    ------
    SetAside
        `captions_malformed` if it is not JSON, or an object has a key twice.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            raise SetAside(Reason.CAPTIONS_MALFORMED, f"{where}: the key {twice!r:.80} occurs twice")
        return made

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as problem:
        line = f"line {problem.lineno}, " if problem.lineno > 1 else ""
        why = f"{where} is not JSON at {line}character {problem.colno}"
        raise SetAside(Reason.CAPTIONS_MALFORMED, why) from problem
    except (ValueError, RecursionError) as problem:
        why = "it has a number with thousands of digits"
        if isinstance(problem, RecursionError):
            why = "it is nested too deeply"
        raise SetAside(Reason.CAPTIONS_MALFORMED, f"{where} cannot be read: {why}") from problem


def parse_caption_lines(data: bytes, where: str) -> list[CaptionLine]:
    """Parse JSON Lines with ``start_s``, ``end_s`` (seconds) and ``caption``, one clip per line.

    Raises
    ------
    SetAside
        `captions_not_utf8` or `captions_malformed`, with the line number.
    """
    lines = []
    # Only "\n" ends a line of JSON Lines; str.splitlines would also cut at U+2028 within a caption.
    for number, text in enumerate(decode_utf8(data, where).split("\n"), start=1):
        if not text.strip():
            continue
        here = f"{where}, line {number}"
        lines.append(caption_line(load_json(text, here), here))
    return lines


def caption_line(row: Any, where: str) -> CaptionLine:
    """Return the clip that a JSON object says.

    Raises
    ------
    SetAside
        `captions_malformed`.
    """
    if not isinstance(row, dict):
        raise SetAside(Reason.CAPTIONS_MALFORMED, f"{where}: expected an object, found {_kind(row)}")
    missing = [key for key in ("start_s", "end_s", "caption") if key not in row]
    if missing:
        raise SetAside(Reason.CAPTIONS_MALFORMED, f"{where}: {', '.join(missing)} not given")
    start_s, end_s = seconds(row["start_s"], "start_s", where), seconds(row["end_s"], "end_s", where)
    if not isinstance(row["caption"], str):
        raise SetAside(
            Reason.CAPTIONS_MALFORMED, f"{where}: caption must be text, found {_kind(row['caption'])}"
        )
    return CaptionLine(start_s, end_s, row["caption"], where)


def seconds(value: Any, name: str, where: str) -> float:
    """Return a JSON number as a time in seconds.

    Raises
    ------
    SetAside
        `captions_malformed` if it is not a finite, non-negative number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SetAside(
            Reason.CAPTIONS_MALFORMED, f"{where}: {name} must be a number of seconds, found {_kind(value)}"
        )
    try:
        time = float(value)
    except OverflowError:
        time = math.inf
    if not math.isfinite(time) or time < 0:
        raise SetAside(Reason.CAPTIONS_MALFORMED, f"{where}: {name} must be 0 or more seconds, found {time}")
    return time


def parse_time(value: Any) -> float | None:
    """Return seconds from a number, its text, or a time code ``[HH:]MM:SS[.mmm]``; else ``None``."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            time = float(value)
        except OverflowError:  # JSON integers are unbounded
            return None
        return time if math.isfinite(time) else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    code = _TIME_CODE.fullmatch(text)
    if code is not None:
        hours, minutes, rest = code.groups()
        return round(int(hours or 0) * 3600 + int(minutes) * 60 + float(rest.replace(",", ".")), 6)
    return float(text) if _DECIMAL.fullmatch(text) else None


def clips_from_lines(lines: Iterable[CaptionLine], where: str) -> tuple[Clip, ...]:
    """Validate captioned intervals and return them as clips, numbered from 0.

    Raises
    ------
    SetAside
        `captions_malformed`, `clips_out_of_order` or `captions_empty`; see the module docstring.
    """
    before: CaptionLine | None = None
    captioned: list[tuple[CaptionLine, str]] = []
    for line in lines:
        if line.end_s <= line.start_s:
            raise SetAside(
                Reason.CAPTIONS_MALFORMED,
                f"{line.where}: the clip ends at {line.end_s} s, not after its start at {line.start_s} s",
            )
        if before is not None and line.start_s < before.start_s:
            raise SetAside(
                Reason.CLIPS_OUT_OF_ORDER,
                f"{line.where}: the clip starts at {line.start_s} s, before the one above it "
                f"({before.start_s} s): sort the clips by time",
            )
        before = line
        caption = clean_caption(line.caption)
        if caption:
            captioned.append((line, caption))
    if not captioned:
        hint = FILLED if where.lower().endswith(".jsonl") else ""
        raise SetAside(Reason.CAPTIONS_EMPTY, f"{where} has no captions: write one line for each clip{hint}")
    if len(captioned) > MAX_CLIPS:
        raise SetAside(
            Reason.CAPTIONS_MALFORMED,
            f"{where} has {len(captioned):,} captioned clips, more than {MAX_CLIPS:,}: split the video",
        )
    clips = []
    for index, (line, caption) in enumerate(captioned):
        end_s = line.end_s
        if index + 1 < len(captioned):
            following = captioned[index + 1][0]
            if following.start_s == line.start_s:
                raise SetAside(
                    Reason.CAPTIONS_MALFORMED,
                    f"{following.where}: the clip starts at {line.start_s} s, as the one before it does",
                )
            end_s = min(end_s, following.start_s)
        clips.append(Clip(index=index, start_s=line.start_s, end_s=end_s, caption=caption))
    return tuple(clips)


#: Containers and captioners round: a clip may end so much later than the video, seconds.
TOLERANCE_S = 1.0
#: Frame rates of videos lie between these: times that are this number of times too large may count frames.
_MIN_RATE, _MAX_RATE = 4, 240


def clips_before(clips: Sequence[Clip], end_s: float) -> tuple[Clip, ...]:
    """Return the clips up to the first that ends after a video which was cut off at `end_s` seconds."""
    return tuple(takewhile(lambda clip: clip.end_s <= end_s + TOLERANCE_S, clips))


def check_clips_against_duration(
    clips: Sequence[Clip], duration_s: float, tolerance_s: float = TOLERANCE_S
) -> None:
    """Check that no clip ends after the video.

    Parameters
    ----------
    clips
        The clips in order.
    duration_s
        Duration of the video in seconds, from the probe.
    tolerance_s
        Tolerance in seconds, since containers and captioners round.

    Raises
    ------
    SetAside
        `clip_past_end`, naming the first such clip.
    """
    for clip in clips:
        if clip.end_s > duration_s + tolerance_s:
            raise SetAside(
                Reason.CLIP_PAST_END,
                f"clip from {clip.start_s:g} to {clip.end_s:g} s ends after the video's {duration_s:g} s: "
                f"{_other_unit(clips, duration_s) or 'do these captions belong to this video?'}",
            )


def _other_unit(clips: Sequence[Clip], duration_s: float) -> str:
    """Return what to do about times that look like frames or milliseconds, if they do."""
    ratio = clips[-1].end_s / max(duration_s, TOLERANCE_S)
    times = (time for clip in clips for time in (clip.start_s, clip.end_s))
    if ratio < _MIN_RATE or not all(time.is_integer() for time in times):
        return ""
    unit, divisor = ("frames", "the frame rate") if ratio <= _MAX_RATE else ("milliseconds", "1000")
    return f"times are in seconds; yours look like {unit}: divide them by {divisor}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object")
