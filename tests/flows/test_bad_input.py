"""Each kind of bad input has its own reason, and costs no other source anything."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from flows.build.options import BuildOptions, SourceRoot
from storage_schemas.errors import Reason, SetAside, StoreError
from storage_schemas.store import Store
from tests.inline import build_inline
from tests.vript_layout import write_vript_layout

AddFilm = Callable[[Path, int], Path]
Lines = list[dict[str, object]]


def break_captions(change: Callable[[Lines], Lines]) -> Callable[[Path], None]:
    def apply(video: Path) -> None:
        path = video.with_suffix(".jsonl")
        lines = change([json.loads(line) for line in path.read_text().splitlines()])
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return apply


def cut_in_the_middle(video: Path) -> None:
    data = video.read_bytes()
    video.write_bytes(data[: len(data) * 2 // 3])


def past_the_end(lines: Lines) -> Lines:
    return [*lines[:-1], {**lines[-1], "end_s": 4200.0}]


CASES: dict[str, tuple[Reason, Callable[[Path], object]]] = {
    "not a video": (Reason.NOT_A_VIDEO, lambda video: video.write_text("no film at all\n" * 50)),
    "zero bytes": (Reason.EMPTY_FILE, lambda video: video.write_bytes(b"")),
    "cut off": (Reason.TRUNCATED_VIDEO, cut_in_the_middle),
    "captions past the end": (Reason.CLIP_PAST_END, break_captions(past_the_end)),
    "captions out of order": (Reason.CLIPS_OUT_OF_ORDER, break_captions(lambda lines: lines[::-1])),
    "captions empty": (Reason.CAPTIONS_EMPTY, lambda video: video.with_suffix(".jsonl").write_text("")),
    "captions not UTF-8": (
        Reason.CAPTIONS_NOT_UTF8,
        lambda video: video.with_suffix(".jsonl").write_bytes(b'{"caption": "\xff\xfe"}\n'),
    ),
    "captions missing": (Reason.CAPTIONS_MISSING, lambda video: video.with_suffix(".jsonl").unlink()),
    "captions no JSON": (
        Reason.CAPTIONS_MALFORMED,
        lambda video: video.with_suffix(".jsonl").write_text("0:00 a red ball\n"),
    ),
}


@pytest.fixture
def one_aspect(options: BuildOptions) -> BuildOptions:
    aspects = {"aesthetics": options.recipe.aspects["aesthetics"]}
    return options.model_copy(update={"recipe": options.recipe.model_copy(update={"aspects": aspects})})


@pytest.mark.parametrize("case", CASES)
def test_a_bad_source_is_set_aside_and_harms_no_other(
    case: str, one_aspect: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    reason, spoil = CASES[case]
    add_film(tmp_path / "videos", 1)
    spoil(add_film(tmp_path / "videos", 2))
    result = build_inline(one_aspect)
    assert result.exit_code == 3
    assert [row.reason for row in result.set_aside] == [reason]
    assert "film2" in result.set_aside[0].message
    assert len(result.release.pairs("aesthetics")) == 1
    again = build_inline(one_aspect)
    assert again.exit_code == 3
    assert not again.new


def faststart(ffmpeg: str, video: Path) -> None:
    moved = video.with_name("moved.mp4")
    make_video(ffmpeg, moved, "-i", str(video), "-c", "copy", "-movflags", "+faststart")
    moved.rename(video)


@pytest.mark.parametrize(("rule", "damage"), [("truncate", "truncated"), ("conceal", "concealed")])
def test_a_cut_source_is_used_up_to_the_cut_and_says_so(
    rule: str, damage: str, one_aspect: BuildOptions, add_film: AddFilm, ffmpeg: str, tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    film = add_film(tmp_path / "videos", 2)
    faststart(ffmpeg, film)
    whole = len(film.with_suffix(".jsonl").read_text().splitlines())
    cut_in_the_middle(film)
    recipe = one_aspect.recipe.model_copy(update={"least_duration_s": 5.0, "clips_per_pair": 2})
    strict = build_inline(one_aspect.model_copy(update={"recipe": recipe}))
    assert [row.reason for row in strict.set_aside] == [Reason.TRUNCATED_VIDEO]
    assert "--damaged truncate" in strict.set_aside[0].message
    tolerant = one_aspect.model_copy(update={"recipe": recipe.model_copy(update={"damaged": rule})})
    result = build_inline(tolerant)
    assert result.exit_code == 0
    assert [row.reason for row in result.set_aside] == [Reason.CLIP_PAST_END]
    rows = {row.title: row for row in result.release.sources()}
    assert [rows[name].damage for name in ("film1", "film2")] == ["", damage]
    assert rows["film2"].duration_s < 0.8 * rows["film1"].duration_s
    clips = result.release.clips(rows["film2"].source_id)
    assert 0 < len(clips) < whole
    assert clips[-1].end_s <= rows["film2"].duration_s + 1
    assert result.release.prompt(rows["film2"].source_id) == "\n".join(clip.caption for clip in clips)
    before, after = (
        {row.source_id: row.frames_id for row in made.release.sources()} for made in (strict, result)
    )
    assert not set(before.values()) & set(after.values())
    again = build_inline(tolerant)
    assert not again.new


def make_video(ffmpeg: str, path: Path, *arguments: str) -> None:
    subprocess.run([ffmpeg, "-v", "error", *arguments, str(path)], check=True)


def test_audio_only(one_aspect: BuildOptions, add_film: AddFilm, ffmpeg: str, tmp_path: Path) -> None:
    video = add_film(tmp_path / "videos", 1)
    video.unlink()
    make_video(ffmpeg, video, "-f", "lavfi", "-i", "sine=duration=42", "-c:a", "aac")
    assert [row.reason for row in build_inline(one_aspect).set_aside] == [Reason.NO_VIDEO_STREAM]


def test_ten_seconds(one_aspect: BuildOptions, add_film: AddFilm, ffmpeg: str, tmp_path: Path) -> None:
    video = add_film(tmp_path / "videos", 1)
    video.unlink()
    make_video(ffmpeg, video, "-f", "lavfi", "-i", "testsrc2=size=160x90:rate=5:duration=10")
    assert [row.reason for row in build_inline(one_aspect).set_aside] == [Reason.TOO_SHORT]


def test_overlapping_captions_are_cut_at_the_later_start(
    one_aspect: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    video = add_film(tmp_path / "videos", 1)
    break_captions(lambda lines: [{**line, "end_s": float(str(line["end_s"])) + 0.9} for line in lines])(
        video
    )
    result = build_inline(one_aspect)
    assert result.exit_code == 0
    clips = result.release.clips(result.release.sources()[0].source_id)
    assert all(now.end_s == later.start_s for now, later in pairwise(clips))


def test_same_content_twice(one_aspect: BuildOptions, add_film: AddFilm, tmp_path: Path) -> None:
    video = add_film(tmp_path / "videos", 1)
    for suffix in (".mp4", ".jsonl"):
        (video.parent / f"twin{suffix}").write_bytes(video.with_suffix(suffix).read_bytes())
    result = build_inline(one_aspect)
    assert [row.reason for row in result.set_aside] == [Reason.DUPLICATE_CONTENT]
    assert len(result.release.pairs()) == 1


@pytest.mark.parametrize("name", ['two words "quoted"', "it's <b>bold & more", "film 🎬 naïve", "%d-file:x"])
def test_odd_names_are_only_names(
    name: str, one_aspect: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    video = add_film(tmp_path / "videos", 1)
    for suffix in (".mp4", ".jsonl"):
        video.with_suffix(suffix).rename(video.parent / f"{name}{suffix}")
    result = build_inline(one_aspect)
    assert result.exit_code == 0
    assert result.release.sources()[0].title == name
    assert all(path.is_relative_to(tmp_path) for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("source_id", "reason"),
    [("../outside", Reason.UNSAFE_ID), ("x" * 300, Reason.ID_TOO_LONG), ("", Reason.UNSAFE_ID)],
)
def test_ids_of_a_data_set_cannot_leave_the_store(
    source_id: str, reason: Reason, one_aspect: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    """Vript's layout with an id that an attacker chose: the other video is built."""
    film = add_film(tmp_path / "films", 1)
    root = tmp_path / "vript"
    write_vript_layout(film, film.with_suffix(".jsonl"), root, video_id="good one")
    other = json.loads(next(root.rglob("good one_caption.json")).read_text())
    other["meta"]["video_id"] = source_id
    for row in other["data"].values():
        row["video_id"] = source_id
    (next(root.rglob("good one_caption.json")).parent / "bad_caption.json").write_text(json.dumps(other))
    options = one_aspect.model_copy(update={"sources": (SourceRoot(kind="vript", path=str(root)),)})
    result = build_inline(options)
    assert [row.reason for row in result.set_aside] == [reason]
    assert [row.source_id for row in result.release.sources()] == ["good one"]
    assert not (tmp_path / "outside").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB of its own."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root and the permission to mount")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk_is_a_reason_and_the_next_build_goes_on(
    one_aspect: BuildOptions, add_film: AddFilm, small_disk: Path, tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    options = one_aspect.model_copy(update={"store": str(small_disk / "store")})
    Store.create(small_disk / "store")
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * (2 * 1024 * 1024 - 200 * 1024))
    with pytest.raises(SetAside) as refused:
        build_inline(options)
    assert refused.value.reason is Reason.OUT_OF_SPACE
    filler.unlink()
    assert build_inline(options).exit_code == 0


def test_a_disk_that_fills_up_in_the_middle(
    one_aspect: BuildOptions,
    add_film: AddFilm,
    small_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The estimate may be wrong: then the source is set aside for now, and tried again by itself."""
    monkeypatch.setattr("flows.build.run.check_space", lambda *_: None)
    add_film(tmp_path / "videos", 1)
    options = one_aspect.model_copy(update={"store": str(small_disk / "store")})
    Store.create(small_disk / "store")
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * (2 * 1024 * 1024 - 260 * 1024))
    result = build_inline(options)
    assert [row.reason for row in result.set_aside] == [Reason.OUT_OF_SPACE]
    assert not list((small_disk / "store" / "staging").iterdir())
    filler.unlink()
    assert build_inline(options).exit_code == 0


def test_a_read_only_store(
    one_aspect: BuildOptions, add_film: AddFilm, small_disk: Path, tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    options = one_aspect.model_copy(update={"store": str(small_disk / "store"), "store_wait_s": 0.0})
    Store.create(small_disk / "store")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(SetAside) as refused:
        build_inline(options)
    assert refused.value.reason is Reason.READ_ONLY_STORE


def test_a_store_of_another_schema_version(
    one_aspect: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "store.json").write_text('{"schema_version": 99}')
    with pytest.raises(StoreError, match="schema version 99"):
        build_inline(one_aspect)
