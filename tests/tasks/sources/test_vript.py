"""The adapter for Vript: what it reads, and what is set aside with which reason."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import Reason, UserInputError
from tasks.sources.registry import open_sources
from tasks.sources.vript_times import TimeKeys, times_from_cut_meta
from tests.tasks.sources.vript_layout import VID, Layout, captions, cut_meta, edges


def test_reads_an_unpacked_video(layout: Layout) -> None:
    layout.add(VID)
    layout.write(f"vript_long_videos_clips/{VID}/{VID}-Scene-001.mp4", b"a clip")
    (source,), aside = layout.scan()
    assert aside == []
    assert (source.id, source.title, source.adapter) == (VID, "A film", "vript")
    assert edges(source) == [(0, 4, "A cat."), (4, 9, "A dog.")]
    assert "academic" in source.licence
    assert not source.redistributable
    assert VID in source.credit
    assert Path(source.video).read_bytes() == f"video {VID}".encode()
    Path(source.video).rename(Path(source.video).with_suffix(".webm"))
    (source,), aside = layout.scan()
    assert (source.id, aside) == (VID, [])


@pytest.mark.timeout(60)
def test_the_category_is_the_metadata_s(layout: Layout) -> None:
    layout.add(VID)
    meta = "vript_meta/vript_long_videos_meta.json"
    abouts: list[tuple[Any, str]] = [
        ({VID: {"video_id": VID, "category": "Pets & Animals"}}, "Pets & Animals"),
        ({VID: {"categories": ["Pets & Animals", "Sports"]}}, "Pets & Animals"),
        ([{"video_id": VID, "category": "Sports"}, {"category": "Music"}, 7], "Sports"),
        ({VID: {"video_title": "A film"}}, ""),
    ]
    for about, category in abouts:
        layout.write(meta, about)
        (source,), aside = layout.scan()
        assert (source.content_category, aside) == (category, [])
    layout.write(meta, {VID: {"category": 17}})
    sources, (row,) = layout.scan()
    assert (sources, row.source_id, row.reason) == ([], VID, Reason.BAD_CONTENT_CATEGORY)
    assert "must be text, found 17" in row.message
    layout.write(meta, b"{")
    with pytest.raises(UserInputError, match="is not JSON"):
        layout.scan()
    (layout.root / meta).unlink()
    os.mkfifo(layout.root / meta)
    with pytest.raises(UserInputError, match="it is a named pipe, not a file"):
        layout.scan()


def test_a_scene_without_caption_is_a_gap_and_scenes_stand_in_their_order(layout: Layout) -> None:
    times = [{"start": 0, "end": 4}, {"start": 4, "end": 9}, {"start": 9, "end": 12}]
    layout.add(VID, times=times)
    content = captions(VID, ["A cat.", None, "A dog."], integrity=False)
    content["data"] = dict(reversed(content["data"].items()))
    layout.captions(VID, content)
    (source,), _ = layout.scan()
    assert edges(source) == [(0, 4, "A cat."), (9, 12, "A dog.")]


def test_everything_still_packed(layout: Layout, tmp_path: Path) -> None:
    long, short = captions(VID, ["A cat.", "A dog."]), captions("tiny", ["x"])
    members = {f"vript_long_videos_captions/{VID}_caption.json": long, "__MACOSX/x": b""}
    layout.pack("vript_captions/vript_long_videos_captions.zip", members)
    layout.pack("vript_captions/vript_short_videos_captions.zip", {"tiny_caption.json": short})
    layout.pack("vript_long_videos/video_1_of_9.zip", {f"{VID}.mp4": b"packed video"})
    times = cut_meta(VID, {"start": 0, "end": 4}, {"start": 4, "end": 9})
    layout.pack("vript_long_videos_clips/clips_1_of_9.zip", {f"{VID}/{VID}_cut_meta.json": times})

    sources, (row,) = layout.scan()
    assert sources == []
    assert (row.source_id, row.reason) == (VID, Reason.VIDEO_MISSING)
    assert "video_1_of_9.zip" in row.message
    assert "vript:PATH?unpack=true" in row.message

    cache = tmp_path / "cache"
    (source,), aside = layout.scan(cache=cache, unpack=True)
    assert aside == []
    assert Path(source.video).read_bytes() == b"packed video"
    before = Path(source.video).stat().st_mtime_ns
    assert layout.scan(cache=cache, unpack=True)[0] == [source]
    assert Path(source.video).stat().st_mtime_ns == before
    archive = layout.root / "vript_long_videos/video_1_of_9.zip"
    os.utime(archive, (1_600_000_000, 1_600_000_000))
    # A copy made this moment is as old as its archive, so it counts as complete.
    assert layout.scan(cache=cache, unpack=True, settle_s=60)[1] == []
    with pytest.raises(UserInputError, match="cache"):
        layout.scan(unpack=True)
    # an unpacked file stands before its archive
    layout.add(VID)
    layout.pack("vript_captions/long.zip", {f"{VID}_caption.json": b"broken"})
    (source,), aside = layout.scan()
    assert (Path(source.video).read_bytes(), aside) == (f"video {VID}".encode(), [])


def test_reasons(layout: Layout) -> None:
    bad = {
        "not_utf8": json.dumps(captions("not_utf8", ["é"]), ensure_ascii=False).encode("latin-1"),
        "not_json": b"{",
        "no_data": {"meta": {}},
        "bad_content": captions("bad_content", [3]),
    }
    for vid in ("good", "disorder", "empty", "twin", *bad):
        layout.add(vid)
    for vid, content in bad.items():
        layout.captions(vid, content)
    layout.add("blank", [None, " "])
    layout.add("other_id", video_id="good")
    layout.add("no_id", video_id=7)
    layout.add("escaping", video_id="../../etc/passwd")
    layout.add("too_long", video_id="x" * 300)
    layout.add("more_captions", ["a", "b", "c"])
    layout.captions("no_video", captions("no_video", ["x"]))
    layout.video("no_captions")
    layout.captions("no_times", captions("no_times", ["x"]))
    layout.video("no_times")
    layout.times("disorder", cut_meta("disorder", {"start": 4, "end": 9}, {"start": 0, "end": 4}))
    layout.write("vript_long_videos/empty.mp4", b"")
    layout.write("vript_long_videos/twin.mp4", b"video good")
    layout.write("vript_captions/again/good_caption.json", captions("good", ["x"]))
    layout.write("vript_long_videos/video_7_of_9.zip", b"PK no archive")
    sources, aside = layout.scan()
    assert [source.id for source in sources] == ["good"]
    assert {(row.source_id, row.reason) for row in aside} == {
        ("not_utf8", Reason.CAPTIONS_NOT_UTF8),
        ("not_json", Reason.CAPTIONS_MALFORMED),
        ("no_data", Reason.CAPTIONS_MALFORMED),
        ("bad_content", Reason.CAPTIONS_MALFORMED),
        ("blank", Reason.CAPTIONS_EMPTY),
        ("other_id", Reason.CAPTIONS_MALFORMED),
        ("no_id", Reason.CAPTIONS_MALFORMED),
        ("escaping", Reason.UNSAFE_ID),
        ("too_long", Reason.ID_TOO_LONG),
        ("more_captions", Reason.CLIP_BOUNDARIES_MISSING),
        ("no_video", Reason.VIDEO_MISSING),
        ("no_captions", Reason.CAPTIONS_MISSING),
        ("no_times", Reason.CLIP_BOUNDARIES_MISSING),
        ("disorder", Reason.CLIPS_OUT_OF_ORDER),
        ("empty", Reason.EMPTY_FILE),
        ("twin", Reason.DUPLICATE_CONTENT),
        ("good", Reason.DUPLICATE_ID),
        ("", Reason.BAD_ARCHIVE),
    }


def test_only_what_is_here(layout: Layout, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    layout.add(VID)
    layout.captions("elsewhere", captions("elsewhere", ["x"]))
    (_,), aside = layout.scan(only_present=True)
    assert aside == []
    assert "1 captioned" in caplog.text


def test_archives_cannot_write_outside_the_cache(layout: Layout, tmp_path: Path) -> None:
    layout.add(VID, video=False)
    layout.pack("vript_long_videos/video_1_of_9.zip", {f"../../../{VID}.mp4": b"evil"})
    layout.pack("vript_captions/bad.zip", {"../evil_caption.json": captions("evil", ["x"])})
    before = sorted(tmp_path.iterdir())
    sources, aside = layout.scan(cache=tmp_path / "cache", unpack=True)
    assert sources == []
    assert {row.reason for row in aside} == {Reason.UNSAFE_PATH}
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_member_is_a_bad_archive(method: int, layout: Layout, tmp_path: Path) -> None:
    layout.add("good")
    layout.add(VID, video=False)
    archive = layout.root / "vript_long_videos/video_1_of_9.zip"
    with zipfile.ZipFile(archive, "w", method) as packed:
        packed.writestr(f"{VID}.mp4", bytes(range(256)) * 40)
    data, start = bytearray(archive.read_bytes()), 30 + len(f"{VID}.mp4")
    data[start : start + 40] = b"\xff" * 40
    archive.write_bytes(data)
    (source,), (row,) = layout.scan(cache=tmp_path / "cache", unpack=True)
    assert (source.id, row.reason) == ("good", Reason.BAD_ARCHIVE)
    assert row.message.endswith("cannot be unpacked; it is damaged: fetch it again")
    assert list((tmp_path / "cache" / "vript_videos").iterdir()) == []


@pytest.mark.parametrize(
    "times",
    [
        {"start": 10**400, "end": 10**401},
        {"start": "9" * 5000, "end": "9" * 5001},
        {"start": "9" * 5000 + ":00", "end": "9" * 5000 + ":01"},
        {"start": "00:" + "9" * 5000, "end": "01:00"},
        {"clip_id": f"{VID}-Scene-" + "9" * 5000, "start": 0, "end": 4},
    ],
    ids=["number", "digits", "minutes", "seconds", "scene"],
)
def test_times_that_no_number_holds_cost_their_own_source_only(layout: Layout, times: dict[str, Any]) -> None:
    layout.add("good")
    layout.add(VID, times=[times, {"start": 4, "end": 9}])
    (source,), (row,) = layout.scan()
    assert (source.id, row.source_id) == ("good", VID)
    assert row.reason in (Reason.CLIP_BOUNDARIES_MISSING, Reason.CAPTIONS_MALFORMED)


@pytest.mark.parametrize("problem", [ValueError("x"), OverflowError("x"), RecursionError("x")])
def test_scan_sets_aside_only_the_source_with_the_error(
    layout: Layout, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout.add("bad")
    layout.add("good")

    def read(data: bytes, where: str, keys: TimeKeys | None = None) -> Any:
        if "bad" in where:
            raise problem
        return times_from_cut_meta(data, where, keys)

    monkeypatch.setattr("tasks.sources.vript.times_from_cut_meta", read)
    (source,), (row,) = layout.scan()
    assert (source.id, row.source_id, row.reason) == ("good", "bad", Reason.CAPTIONS_MALFORMED)


def test_links_that_leave_the_root_are_refused(layout: Layout, tmp_path: Path) -> None:
    layout.add(VID, video=False)
    video = layout.root / f"vript_long_videos/{VID}.mp4"
    (tmp_path / "outside.mp4").write_bytes(b"a video of others")
    video.symlink_to(tmp_path / "outside.mp4")
    _, (row,) = layout.scan()
    assert row.reason is Reason.UNSAFE_PATH
    # nor is an archive unpacked that is one
    video.unlink()
    layout.pack("../elsewhere.zip", {f"{VID}.mp4": b"a video of others"})
    (layout.root / "vript_long_videos/video_1_of_9.zip").symlink_to(tmp_path / "elsewhere.zip")
    sources, (row,) = layout.scan(cache=tmp_path / "cache", unpack=True)
    assert (sources, row.reason) == ([], Reason.UNSAFE_PATH)
    assert not (tmp_path / "cache" / "vript_videos").exists()


def test_another_layout_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="vript_captions"):
        open_sources("vript", tmp_path)
    empty = Layout(tmp_path / "Vript")
    with pytest.raises(UserInputError, match="no sources"):
        empty.scan()
