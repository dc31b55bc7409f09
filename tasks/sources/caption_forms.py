"""The forms in which captions are read: JSON Lines, a JSON array, a table, WebVTT and SubRip.

What each form means is in ``docs/sources.md``. Other forms are refused with the way to convert them.
"""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from storage_schemas.errors import Reason, SetAside, UserInputError
from tasks.sources.clips import (
    CaptionLine,
    caption_line,
    decode_utf8,
    load_json,
    parse_caption_lines,
    parse_time,
)
from tasks.tables import is_table, parse_table

#: Endings of caption files that are read; of several next to a video, the first of these counts.
CAPTION_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".vtt", ".srt")

_FORM = (
    "write one clip a line, with times in seconds: "
    '{"start_s": 0.0, "end_s": 7.5, "caption": "A red boat lies on the beach."}'
)
_COLUMNS = ("start_s", "end_s", "caption")
_TABLE_FORM = "the first line is start_s,end_s,caption, and the next 0,7.5,A red boat lies on the beach."
#: Names of a table's columns that other programs write, and ours.
_OTHER_NAMES = {
    **dict.fromkeys(("start", "start_time", "begin", "from", "start_sec"), "start_s"),
    **dict.fromkeys(("end", "end_time", "stop", "to", "end_sec"), "end_s"),
    **dict.fromkeys(("text", "description", "sentence", "caption_text"), "caption"),
}
_PLAIN_NAME = re.compile(r"[\w -]+")
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
#: Endings of compressed files, which follow the ending of what is compressed.
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
#: Endings of subtitles that FFmpeg converts.
_SUBTITLES = (".ass", ".ssa", ".lrc", ".smi", ".sub")
_LINE_END = re.compile(r"\r\n|\r|\n")
_CUE = re.compile(r"\s*(\S+)\s+-->\s+(\S+)(?:\s.*)?")
_SRT_MARKUP = re.compile(r"</?(?:b|i|u|s|font)\b[^>]*>|\{\\[^}]*\}", re.IGNORECASE)
_VTT_MARKUP = re.compile(r"<[^>]*>")
_VTT_NO_CUE = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)(?:\s|$)")


def parse_captions(data: bytes, where: str) -> list[CaptionLine]:
    """Parse a caption file; `where` is its path, whose ending says the form.

    Raises
    ------
    SetAside
        `captions_not_utf8` or `captions_malformed`, with the line and what to do.
    """
    for magic, tool in _COMPRESSED.items():
        if data.startswith(magic):
            raise _malformed(f"{where} is compressed: `{tool} -dc {quote(where)} > NEW`, and use NEW instead")
    text = decode_utf8(data, where)
    beginning = text.lstrip()
    if is_table(Path(where)):
        return _table_lines(text, where)
    if where.lower().endswith((".srt", ".vtt")):
        return list(_cues(text, where))
    if beginning.startswith("<"):
        raise _malformed(f"{where} is XML or HTML: {_FORM}")
    try:
        if beginning.startswith("["):
            return _array_lines(text, where)
        return parse_caption_lines(data, where)
    except SetAside as problem:
        raise SetAside(problem.reason, f"{problem.message}: {_command(text)}{_FORM}") from problem


def may_be_captions(name: str) -> bool:
    """Return whether a file's ending is of a form that :func:`to_convert` knows how to convert."""
    return name.lower().endswith((*_SUBTITLES, *COMPRESSED_SUFFIXES))


def to_convert(name: str, target: str) -> str:
    """Return what to do with a file of a form that is not read; `target` is the name of one that is."""
    if name.lower().endswith(_SUBTITLES):
        return f"`ffmpeg -i {quote(name)} {quote(Path(target).stem)}.srt`"
    if name.lower().endswith(COMPRESSED_SUFFIXES):
        return f"decompress it: `gzip -d {quote(name)}`, or bzip2, xz or zstd with the same option"
    return f"in {target}, {_FORM}"


def _malformed(message: str) -> SetAside:
    return SetAside(Reason.CAPTIONS_MALFORMED, message)


def _command(text: str) -> str:
    """Return the command that makes JSON Lines of other JSON, if it is known."""
    try:
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict):
        return ""
    lists = [key for key, inner in value.items() if isinstance(inner, list)]
    if len(lists) == 1 and lists[0].isidentifier():
        return f"`jq -c '.{lists[0]}[]' OLD > NEW`, or "
    return "`jq -c . OLD > NEW`, or " if "\n" in text.lstrip()[:end] else ""


def _array_lines(text: str, where: str) -> list[CaptionLine]:
    value = load_json(text, where)
    return [caption_line(row, f"{where}, clip {number}") for number, row in enumerate(value, start=1)]


def _table_lines(text: str, where: str) -> list[CaptionLine]:
    try:
        table = parse_table(Path(where), text, needed=_COLUMNS)
    except UserInputError as problem:
        raise _malformed(f"{problem}: {_header_command(text, where)}{_TABLE_FORM}") from problem
    lines = []
    for row in table.rows:
        here = f"{where}, line {row.line}"
        if row.surplus:
            raise _malformed(f"{here}: too many cells: put the whole caption into quotation marks")
        start_s, end_s, caption = (row.cells.get(name, "") for name in _COLUMNS)
        lines.append(CaptionLine(_seconds(start_s, here), _seconds(end_s, here), caption, here))
    return lines


def _header_command(text: str, where: str) -> str:
    """Return the command that gives a table our first line: where it has none, or known other names."""
    try:
        names = parse_table(Path(where), text).columns
    except UserInputError:
        return ""
    line = text.split("\n", 1)[0].rstrip("\r")
    # another first line, such as sep=; or a blank one, is left to the user
    found = [sign for sign in ",;\t" if _cells(line, sign) == list(names)]
    if len(found) != 1:
        return ""
    sign = "\\t" if found[0] == "\t" else found[0]
    if len(names) == len(_COLUMNS) and all(parse_time(name) is not None for name in names[:2]):
        return f"`{{ printf '{sign.join(_COLUMNS)}\\n'; cat OLD; }} > NEW`, or: "
    ours = [_OTHER_NAMES.get(name.lower(), name) for name in names]
    plain = all(map(_PLAIN_NAME.fullmatch, ours))
    if not plain or len({*ours}) < len(ours) or not set(_COLUMNS) <= set(ours):
        return ""
    return f"`{{ printf '{sign.join(ours)}\\n'; tail -n +2 OLD; }} > NEW`, or: "


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line of a table; none if its quotation marks are damaged."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, strict=True), [])]
    except csv.Error:
        return []


def _cues(text: str, where: str) -> Iterator[CaptionLine]:
    """Yield the cues of WebVTT or SubRip: the lines between blank ones, of which one has the times."""
    is_vtt = where.lower().endswith(".vtt")
    block: list[str] = []
    for number, line in enumerate([*_LINE_END.split(text), ""], start=1):
        if line.strip():
            block.append(line)
            continue
        if block and not (is_vtt and _VTT_NO_CUE.match(block[0])):
            yield _cue(block, number - len(block), where, is_vtt)
        block = []


def _cue(block: list[str], first: int, where: str, is_vtt: bool) -> CaptionLine:
    times = [(index, match) for index, line in enumerate(block) if (match := _CUE.fullmatch(line))]
    if not times or times[0][0] > 1:
        raise _malformed(
            f"{where}, line {first}: after a blank line, times such as 00:00:07,500 --> 00:00:15,000 must "
            "follow: add them, or remove the blank line"
        )
    if len(times) > 1:
        raise _malformed(f"{where}, line {first + times[1][0]}: add a blank line before these times")
    index, match = times[0]
    here, text = f"{where}, line {first + index}", "\n".join(block[index + 1 :])
    caption = html.unescape(_VTT_MARKUP.sub("", text)) if is_vtt else _SRT_MARKUP.sub("", text)
    return CaptionLine(_seconds(match[1], here), _seconds(match[2], here), caption, here)


def _seconds(text: str, where: str) -> float:
    time = parse_time(text)
    if time is None:
        raise _malformed(
            f"{where}: {text[:40]!r} is not a time: write seconds such as 7.5, or a time code such as "
            "00:00:07.500"
        )
    return time
