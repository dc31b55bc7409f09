"""Each kind of bad input has its own reason, and costs no other source anything; all layouts are read."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.release.options import BuildOptions
from storage_schemas.errors import Reason, SetAside
from storage_schemas.store import Store
from tests.flows.small_builds import AddFilm, changed, make_video, with_captions, with_recipe
from tests.inline import build_inline
from tests.small_films import caption_lines, write_captions

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
