"""Captions in each form that is read give the same clips; other forms are refused with what to do."""

from __future__ import annotations

import bz2
import gzip
import json
import re
import subprocess
from pathlib import Path

import pytest

from storage_schemas.errors import Reason, SetAside
from storage_schemas.source import Clip, Source
from tasks.sources.caption_forms import parse_captions
from tasks.sources.clips import check_clips_against_duration, clips_from_lines
from tasks.sources.registry import open_sources

ROWS = [
    {"start_s": 0, "end_s": 7.5, "caption": "A red boat, on <the> beach."},
    {"start_s": 61.25, "end_s": 70, "caption": "It sails & turns."},
]
EXPECTED = [(row["start_s"], row["end_s"], row["caption"]) for row in ROWS]

FORMS = {
    "array.json": json.dumps(ROWS, indent=2),
    "array.jsonl": json.dumps(ROWS),
    "lines.json": "\n".join(map(json.dumps, ROWS)),
    "seconds.csv": (
        'caption,start_s,end_s,note\n"A red boat, on <the> beach.",0,7.5,\nIt sails & turns.,61.25,70,x\n'
    ),
    "codes.csv": (
        "sep=;\nstart_s;end_s;caption\n00:00;00:07.5;A red boat, on <the> beach.\n"
        "0:01:01.25;1:10;It sails & turns.\n"
    ),
    "tabs.tsv": (
        "start_s\tend_s\tcaption\n0\t7.5\tA red boat, on <the> beach.\n61.25\t70\tIt sails & turns.\n"
    ),
    "subrip.srt": (
        "1\r\n00:00:00,000 --> 00:00:07,500\r\n{\\an8}<i>A red boat,</i>\r\non <the> beach.\r\n\r\n\r\n"
        "2\r\n00:01:01,250 --> 00:01:10,000 X1:40 X2:600\r\n<font color=red>It sails</font> & turns.\r\n"
    ),
    "web.vtt": (
        "\ufeffWEBVTT - title\n\nSTYLE\n::cue {}\n\nNOTE a --> b\n\nfirst\n00:00.000 --> 00:07.500 line:0%\n"
        "<v Ann>A <c.red>red</c> boat,\non &lt;the&gt; beach.\n\n"
        "00:01:01.250 --> 00:01:10.000\nIt sails &amp; turns."
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_gives_the_same_clips(name: str) -> None:
    clips = clips_from_lines(parse_captions(FORMS[name].encode(), name), name)
    assert [(clip.start_s, clip.end_s, clip.caption) for clip in clips] == EXPECTED


@pytest.mark.parametrize("name", FORMS)
def test_each_form_alone_beside_a_video_is_found(name: str, tmp_path: Path) -> None:
    captions = tmp_path / name
    captions.write_text(FORMS[name], encoding="utf-8")
    captions.with_suffix(".mp4").write_bytes(b"film")
    (source,) = open_sources("folder", tmp_path).scan()
    assert isinstance(source, Source)
    assert [(clip.start_s, clip.end_s, clip.caption) for clip in source.clips] == EXPECTED


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", json.dumps(ROWS[0], indent=1), "line 1 is not JSON .* `jq -c . OLD > NEW`, or write"),
        ("a.jsonl", json.dumps({"v": 1, "clips": ROWS}), r"`jq -c '\.clips\[\]' OLD > NEW`, or write"),
        ("a.json", "[\n1]", "clip 1: expected an object, found a number: write one clip a line"),
        ("a.json", '[\n{"start_s": 0 1}]', "not JSON at line 2, character 15"),
        ("a.jsonl", '{"start": 0, "end": 1, "text": "c"}', 'not given: write one clip.*"start_s": 0.0'),
        ("a.jsonl", "<captions/>", 'is XML or HTML: write one clip a line.*"start_s": 0.0'),
        ("a.jsonl", gzip.compress(b"{}", mtime=0), "is compressed: `gzip -dc a.jsonl > NEW`"),
        ("a b.srt", bz2.compress(b"{}"), "is compressed: `bzip2 -dc 'a b.srt' > NEW`"),
        ("a.csv", "start,end,caption\n0,1,c", "no column end_s, start_s.*line is start_s,end_s,caption"),
        ("a.csv", "start_s,end_s,caption\n0,1,a boat, red", "line 2: too many cells: .*quotation marks"),
        ("a.csv", 'start_s,end_s,caption\n0,"7,5",c', "line 2: '7,5' is not a time: write seconds such"),
        ("a.csv", "start_s,end_s,caption\n0,,c", "line 2: '' is not a time"),
        ("a.srt", "1\n00:00:00,0 --> 00:00:01,0\na\n\nb", "line 5: after a blank line, times"),
        ("a.srt", "1\n00:00:00,0 --> 00:00:01,0\na\n2\n00:00:01,0 --> 00:00:02,0\nb", "line 5: add a blank"),
        ("a.srt", "1\n00:00:00:12 --> 00:00:01:12\na", "line 2: '00:00:00:12' is not a time"),
    ],
)  # fmt: skip
def test_another_form_is_refused_with_what_to_do(name: str, content: str | bytes, says: str) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    with pytest.raises(SetAside, match=says) as caught:
        parse_captions(data, name)
    assert caught.value.reason is Reason.CAPTIONS_MALFORMED


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("other.csv", 'Start,end_time,text,note\r\n0,7.5,"A red boat, on <the> beach.",x\r\n'),
        ("other.csv", "caption;from;to\nA red boat, on <the> beach.;00:00;00:07.5\n"),
        ("none.csv", '0,7.5,"A red boat, on <the> beach."\n'),
        ("none.tsv", "0\t7.5\tA red boat, on <the> beach.\n"),
    ],
)
def test_table_with_another_head_names_the_converter(name: str, content: str, tmp_path: Path) -> None:
    with pytest.raises(SetAside) as caught:
        parse_captions(content.encode(), name)
    command = re.search("`(.*)`", caught.value.message)
    assert command is not None
    (tmp_path / "OLD").write_bytes(content.encode())
    subprocess.run(["/bin/sh", "-c", command[1]], cwd=tmp_path, check=True)
    clips = clips_from_lines(parse_captions((tmp_path / "NEW").read_bytes(), name), name)
    assert [(clip.start_s, clip.end_s, clip.caption) for clip in clips] == EXPECTED[:1]


def test_a_table_whose_columns_are_not_known_is_shown_the_form_alone() -> None:
    twice, quoted = "start,begin,end,text\n0,0,1,x", "start,end,text,it's\n0,1,x,y"
    for content in ("a,b,c\n0,1,x", twice, quoted, "\nstart,end,text\n0,1,x", '"start'):
        with pytest.raises(SetAside, match="the first line is start_s,end_s,caption") as caught:
            parse_captions(content.encode(), "a.csv")
        assert "printf" not in caught.value.message


def found(root: Path, video: str, *captions: str) -> str:
    """Return the first caption of a video beside these files, or why it has none."""
    (root / video).write_bytes(b"film")
    for name in captions:
        (root / name).write_text(f'{{"start_s": 0, "end_s": 1, "caption": "{name}"}}')
    (item,) = open_sources("folder", root).scan()
    return item.clips[0].caption if isinstance(item, Source) else item.message


@pytest.mark.parametrize(
    ("video", "captions"),
    [
        ("UP.MP4", ["UP.JSONL"]),
        ("up.mp4", ["up.jsonl", "UP.JSONL", "up.json", "up.srt"]),
        ("up.v2.mp4", ["up.v2.json", "up.v2.vtt"]),
        ("caf\u00e9.mp4", ["cafe\u0301.jsonl"]),
        ("cafe\u0301.mp4", ["cafe\u0301.jsonl", "caf\u00e9.jsonl"]),
    ],
)
def test_captions_are_found_in_any_form_of_a_name(tmp_path: Path, video: str, captions: list[str]) -> None:
    assert found(tmp_path, video, *captions) == captions[0]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a.ass", "a.ass is not read: `ffmpeg -i a.ass a.srt`"),
        ("a.jsonl.gz", "a.jsonl.gz is not read: decompress it: `gzip -d a.jsonl.gz`"),
        (
            "a.xml",
            'a.xml is not read: in a.jsonl, write one clip a line, with times in seconds: {"start_s": 0.0',
        ),
        ("b.jsonl", "next to it (.jsonl, .json, .csv, .tsv, .vtt, .srt): in a.jsonl, write one clip a line"),
    ],
)
def test_a_video_without_captions_names_what_is_beside_it(tmp_path: Path, name: str, says: str) -> None:
    assert says in found(tmp_path, "a.mp4", name)


def test_a_licence_line_finds_its_video_in_either_form_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "licences.jsonl").write_text(json.dumps({"video": "caf\u00e9.mp4", "title": "Café"}))
    found(tmp_path, "cafe\u0301.mp4", "cafe\u0301.jsonl")
    (source,) = open_sources("folder", tmp_path).scan()
    assert isinstance(source, Source)
    assert source.title == "Café"


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ((30_000, 60_000), "times are in seconds; yours look like milliseconds: divide them by 1000"),
        ((750, 1_500), "times are in seconds; yours look like frames: divide them by the frame rate"),
        ((30, 90), "do these captions belong to this video"),
        ((750.5, 1_500), "do these captions belong to this video"),
    ],
)
def test_times_that_are_not_seconds_are_named(ends: tuple[float, float], says: str) -> None:
    clips = [Clip(index=n, start_s=n * ends[0], end_s=end, caption="c") for n, end in enumerate(ends)]
    with pytest.raises(SetAside, match=says) as caught:
        check_clips_against_duration(clips, 60.0)
    assert caught.value.reason is Reason.CLIP_PAST_END
