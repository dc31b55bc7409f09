"""Each kind of bad input has its own reason, and costs no other source anything; all layouts are read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flows.release.options import BuildOptions, SourceRoot
from storage_schemas.errors import Reason, SetAside
from storage_schemas.store import Store
from tests.flows.small_builds import AddFilm, changed, make_video, only, with_captions, with_recipe
from tests.inline import build_inline
from tests.small_films import caption_lines, write_captions
from tests.vript_layout import write_vript_layout

LINES = caption_lines()


def lines_of(video: Path, lines: list[dict[str, object]]) -> None:
    write_captions(video.with_suffix(".jsonl"), lines)


def text_of(video: Path, text: bytes) -> None:
    video.with_suffix(".jsonl").write_bytes(text)


def cut_in_the_middle(video: Path) -> None:
    data = video.read_bytes()
    video.write_bytes(data[: len(data) * 2 // 3])


CASES: dict[Reason, Callable[[Path], object]] = {
    Reason.NOT_A_VIDEO: lambda video: video.write_text("no film at all\n" * 50),
    Reason.EMPTY_FILE: lambda video: video.write_bytes(b""),
    Reason.TRUNCATED_VIDEO: cut_in_the_middle,
    Reason.CLIP_PAST_END: lambda video: lines_of(video, [*LINES[:-1], {**LINES[-1], "end_s": 4200.0}]),
    Reason.CLIPS_OUT_OF_ORDER: lambda video: lines_of(video, LINES[::-1]),
    Reason.CAPTIONS_EMPTY: lambda video: text_of(video, b""),
    Reason.CAPTIONS_NOT_UTF8: lambda video: text_of(video, b'{"caption": "\xff\xfe"}\n'),
    Reason.CAPTIONS_MISSING: lambda video: video.with_suffix(".jsonl").unlink(),
    Reason.CAPTIONS_MALFORMED: lambda video: text_of(video, b"0:00 a red ball\n"),
}
GENERATED = {
    Reason.NO_VIDEO_STREAM: ("sine=duration=42", "-c:a", "aac"),
    Reason.TOO_SHORT: ("testsrc2=size=160x90:rate=5:duration=10",),
}


def test_build_sets_bad_sources_aside_each_for_its_reason(
    simple: BuildOptions, video: Path, ffmpeg: str
) -> None:
    """Files that differ, for each content counts once; the first is a twin of the good one."""
    paths = {}
    for reason in (Reason.DUPLICATE_CONTENT, *CASES, *GENERATED):
        paths[reason] = video.with_name(f"{reason.value}.mp4")
        for path in with_captions(video):
            shutil.copy(path, paths[reason].with_suffix(path.suffix))
        if reason in GENERATED:
            make_video(ffmpeg, paths[reason], "-f", "lavfi", "-i", *GENERATED[reason])
        elif reason in CASES:
            # a box that players pass over makes other contents of it
            with paths[reason].open("ab") as film:
                film.write(b"\0\0\0\x18free" + reason.value.encode().ljust(16)[:16])
            CASES[reason](paths[reason])
    # the twin's name stands after that of the good one
    for path in with_captions(paths[Reason.DUPLICATE_CONTENT]):
        path.rename(path.with_stem(f"twin-{path.stem}"))
    result = build_inline(simple)
    assert result.exit_code == 3
    assert {row.reason for row in result.set_aside} == paths.keys()
    for row in result.set_aside:
        assert row.reason.value in row.message
    assert [source.title for source in result.release.sources()] == ["film1"]
    again = build_inline(simple)
    assert (again.exit_code, again.new) == (3, False)


@pytest.mark.parametrize(("rule", "damage"), [("truncate", "truncated"), ("conceal", "concealed")])
def test_cut_source_is_used_up_to_the_cut_and_says_so(
    rule: str, damage: str, simple: BuildOptions, video: Path, add_film: AddFilm, ffmpeg: str
) -> None:
    film = add_film(video.parent, 2)
    moved = film.with_name("moved.mp4")
    make_video(ffmpeg, moved, "-i", str(film), "-c", "copy", "-movflags", "+faststart")
    moved.rename(film)
    cut_in_the_middle(film)
    short = with_recipe(simple, least_duration_s=5.0, clips_per_pair=2)
    strict = build_inline(short)
    assert [row.reason for row in strict.set_aside] == [Reason.TRUNCATED_VIDEO]
    assert "--set damaged=truncate" in strict.set_aside[0].message
    tolerant = with_recipe(short, damaged=rule)
    result = build_inline(tolerant)
    assert result.exit_code == 0
    assert [row.reason for row in result.set_aside] == [Reason.CLIP_PAST_END]
    rows = {row.title: row for row in result.release.sources()}
    cut = rows["film2"]
    assert (rows["film1"].damage, cut.damage) == ("", damage)
    assert cut.duration_s < 0.8 * rows["film1"].duration_s
    clips = result.release.clips(cut.source_id)
    assert 0 < len(clips) < len(LINES)
    assert clips[-1].end_s <= cut.duration_s + 1
    assert result.release.prompt(cut.source_id) == "\n".join(clip.caption for clip in clips)
    before = {row.frames_id for row in strict.release.sources()}
    assert before.isdisjoint(row.frames_id for row in rows.values())
    assert not build_inline(tolerant).new


def test_overlaps_end_at_the_later_start_and_odd_names_are_only_names(
    simple: BuildOptions, video: Path, add_film: AddFilm, tmp_path: Path
) -> None:
    lines_of(video, [{**line, "end_s": float(str(line["end_s"])) + 0.9} for line in LINES])
    names = ['two words "quoted"', "it's <b>bold & more", "film 🎬 naïve", "%d-file:x"]
    for number, name in enumerate(names, 1):
        for path in with_captions(add_film(video.parent, number) if number > 1 else video):
            path.rename(path.with_stem(name))
    result = build_inline(simple)
    assert result.exit_code == 0
    assert {source.title for source in result.release.sources()} == set(names)
    (overlapping,) = [one.source_id for one in result.release.sources() if one.title == names[0]]
    clips = result.release.clips(overlapping)
    assert all(now.end_s == later.start_s for now, later in pairwise(clips))


def test_ids_of_a_data_set_cannot_leave_the_store(simple: BuildOptions, video: Path, tmp_path: Path) -> None:
    """Vript's layout with ids that an attacker chose: the other video is built."""
    root = tmp_path / "vript"
    write_vript_layout(*with_captions(video), root, video_id="good one")
    write_vript_layout(*with_captions(video), root, video_id="bare", boundaries="none")
    captions = next(root.rglob("good one_caption.json"))
    for number, source_id in enumerate(("../outside", "x" * 300, "")):
        other = json.loads(captions.read_text())
        other["meta"]["video_id"] = source_id
        for row in other["data"].values():
            row["video_id"] = source_id
        (captions.parent / f"bad{number}_caption.json").write_text(json.dumps(other))
    result = build_inline(changed(simple, sources=(SourceRoot(kind="vript", path=str(root)),)))
    reasons = [Reason.UNSAFE_ID, Reason.ID_TOO_LONG, Reason.UNSAFE_ID, Reason.CLIP_BOUNDARIES_MISSING]
    assert sorted(row.reason for row in result.set_aside) == sorted(reasons)
    assert [row.source_id for row in result.release.sources()] == ["good one"]
    assert not (tmp_path / "outside").exists()


@pytest.fixture
def small_disk(tmp_path: Path, video: Path) -> Iterator[Path]:
    """A file system of 2 MB of its own, with an empty store."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root and the permission to mount")
    Store.create(mount / "store")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_full_disk_is_a_reason_and_the_next_build_continues(
    simple: BuildOptions, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = changed(simple, store=str(small_disk / "store"))
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * (2 * 1024 - 200) * 1024)
    with pytest.raises(SetAside) as refused:
        build_inline(options)
    assert refused.value.reason is Reason.OUT_OF_SPACE
    # the estimate may be wrong: then the source is set aside for now, and tried again by itself
    filler.write_bytes(b"\0" * (2 * 1024 - 260) * 1024)
    with monkeypatch.context() as patch:
        patch.setattr("flows.release.run.check_space", lambda *_: None)
        result = build_inline(options)
    assert [row.reason for row in result.set_aside] == [Reason.OUT_OF_SPACE]
    assert not list((small_disk / "store" / "staging").iterdir())
    filler.unlink()
    assert build_inline(options).exit_code == 0


def test_read_only_store_is_a_reason(simple: BuildOptions, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(SetAside) as refused:
        build_inline(changed(simple, store=str(small_disk / "store"), store_wait_s=0.0))
    assert refused.value.reason is Reason.READ_ONLY_STORE


VARIANTS: dict[str, dict[str, Any]] = {
    "cut metadata in seconds": {"boundaries": "cut_meta", "times": "seconds"},
    "cut metadata in time codes": {"boundaries": "cut_meta", "times": "timecode"},
    "durations of the transcript": {"boundaries": "transcript"},
    "zip archives": {"boundaries": "cut_meta", "zipped": True},
}


def test_variants_of_vript_give_the_clips_of_the_captions(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    sources = []
    for number, (name, variant) in enumerate(VARIANTS.items(), 1):
        films, root = tmp_path / "films", tmp_path / name
        write_vript_layout(*with_captions(add_film(films, number)), root, video_id=name, **variant)
        unpacked = {"unpack": True} if variant.get("zipped") else {}
        sources.append(SourceRoot(kind="vript", path=str(root), options=unpacked))
    result = build_inline(changed(only(options, "comprehensiveness"), sources=tuple(sources)))
    assert result.exit_code == 0
    rows = result.release.sources()
    assert {row.source_id for row in rows} == VARIANTS.keys()
    for row in rows:
        assert (row.adapter, row.redistributable) == ("vript", False)
        assert row.content_category == "Film & Animation"
        clips = result.release.clips(row.source_id)
        assert [(clip.start_s, clip.end_s) for clip in clips] == [(3.0 * n, 3.0 * n + 3) for n in range(14)]
    assert len(result.release.pairs()) == len(VARIANTS)
