from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import Source
from tasks.sources.registry import open_sources
from tasks.sources.vript_times import (
    TimeKeys,
    parse_time,
    times_from_cut_meta,
    times_from_durations,
)

VID = "-_MRAAhEKio"


def captions(vid: str, texts: list[Any], **meta: Any) -> dict[str, Any]:
    """Content of a caption file; a text of None is a scene without caption."""
    data = {
        f"{vid}-Scene-{number:03d}": {
            "video_id": vid,
            "caption": {"shot_type": "Close-up", "content": text, "scene_title": "T"},
            "voiceover": [""],
        }
        for number, text in enumerate(texts, start=1)
    }
    return {"meta": {"video_id": vid, "video_title": "A film", "integrity": True, **meta}, "data": data}


def cut_meta(vid: str, *times: dict[str, Any]) -> dict[str, Any]:
    clips = [{"clip_id": f"{vid}-Scene-{n:03d}.mp4", **time} for n, time in enumerate(times, start=1)]
    return {"clips": clips}


def asr(vid: str, *durations: float) -> bytes:
    rows = [
        {"clip_id": f"{vid}-Scene-{n:03d}", "duration": duration, "lang": "en"}
        for n, duration in enumerate(durations, start=1)
    ]
    return "\n".join(json.dumps(row) for row in reversed(rows)).encode()


class Layout:
    """A data set in Vript's layout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("vript_captions", "vript_long_videos", "vript_long_videos_clips"):
            (root / folder).mkdir(parents=True)

    def write(self, path: str, content: Any) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())

    def pack(self, path: str, members: dict[str, Any]) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(self.root / path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content if isinstance(content, bytes) else json.dumps(content))

    def add(self, vid: str, texts: list[Any] | None = None, times: Any = None, **meta: Any) -> None:
        """Write one whole video of two scenes."""
        self.captions(vid, captions(vid, texts or ["A cat.", "A dog."], **meta))
        self.video(vid)
        edges = times or [{"start": 0.0, "end": 4.0}, {"start": 4.0, "end": 9.0}]
        self.times(vid, cut_meta(vid, *edges))

    def captions(self, vid: str, content: Any) -> None:
        self.write(f"vript_captions/vript_long_videos_captions/{vid}_caption.json", content)

    def video(self, vid: str) -> None:
        self.write(f"vript_long_videos/{vid}.mp4", f"video {vid}".encode())

    def times(self, vid: str, content: Any) -> None:
        self.write(f"vript_long_videos_clips/{vid}/{vid}_cut_meta.json", content)

    def scan(self, **options: Any) -> tuple[list[Source], list[SetAsideRow]]:
        adapter = open_sources("vript", self.root, **options)
        items = list(adapter.scan())
        if not options.get("only_present"):
            assert adapter.count() == len(items)
        sources = [item for item in items if isinstance(item, Source)]
        return sources, [item for item in items if isinstance(item, SetAsideRow)]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "Vript")


def edges(source: Source) -> list[tuple[float, float, str]]:
    return [(clip.start_s, clip.end_s, clip.caption) for clip in source.clips]


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


def test_other_containers_than_mp4(layout: Layout) -> None:
    layout.add(VID)
    (layout.root / f"vript_long_videos/{VID}.mp4").rename(layout.root / f"vript_long_videos/{VID}.webm")
    (source,), aside = layout.scan()
    assert (source.id, aside) == (VID, [])


def test_a_scene_without_caption_is_a_gap(layout: Layout) -> None:
    times = [{"start": 0, "end": 4}, {"start": 4, "end": 9}, {"start": 9, "end": 12}]
    layout.add(VID, ["A cat.", None, "A dog."], times, integrity=False)
    (source,), _ = layout.scan()
    assert edges(source) == [(0, 4, "A cat."), (9, 12, "A dog.")]


def test_scenes_stand_in_the_order_of_their_numbers(layout: Layout) -> None:
    layout.add(VID)
    content = captions(VID, ["A cat.", "A dog."])
    content["data"] = dict(reversed(content["data"].items()))
    layout.captions(VID, content)
    (source,), _ = layout.scan()
    assert edges(source) == [(0, 4, "A cat."), (4, 9, "A dog.")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"start": 0, "end": 4}, {"start": 4, "end": 9.5}),
        ({"start_time": "00:00:00.000", "end_time": "00:00:04.000"}, {"start_time": "4", "end_time": "9.5"}),
        ({"start_time": "00:00", "end_time": "00:04"}, {"start_time": "0:04", "end_time": "00:00:09,5"}),
        ({"span": [0, 4]}, {"timestamp": ["00:00:04", "00:00:09.5"]}),
        ({"start_sec": 0.0, "duration": 4}, {"start_sec": 4.0, "end_sec": 9.5, "duration": 5.5}),
    ],
)
def test_known_spellings_of_times(first: dict[str, Any], second: dict[str, Any]) -> None:
    data = json.dumps(cut_meta(VID, first, second)).encode()
    assert times_from_cut_meta(data, "x") == {1: (0, 4), 2: (4, 9.5)}


def test_a_spelling_of_ones_own() -> None:
    data = json.dumps(cut_meta(VID, {"von": 1, "bis": 2})).encode()
    assert times_from_cut_meta(data, "x", TimeKeys(start=("von",), end=("bis",))) == {1: (1, 2)}


@pytest.mark.parametrize(
    "time",
    [{}, {"von": 0, "bis": 1}, {"start": 0}, {"start": "soon", "end": "later"}, {"start": 5, "end": 4},
     {"start": -1, "end": 4}, {"start": 0, "end": 4000, "duration": 4.0}, {"start": True, "end": 2},
     {"start": None, "end": None}, {"span": [1]}, {"span": "ab"}],
)  # fmt: skip
def test_times_that_are_not_understood(time: dict[str, Any]) -> None:
    with pytest.raises(SetAside) as caught:
        times_from_cut_meta(json.dumps(cut_meta(VID, time)).encode(), "x")
    assert caught.value.reason is Reason.CLIP_BOUNDARIES_MISSING


def test_time_codes() -> None:
    assert parse_time("01:02:03.5") == 3723.5
    assert parse_time("90:00") == 5400
    assert parse_time("00:04:52.208") == parse_time(292.208)
    assert parse_time("nan") is None
    assert parse_time(float("nan")) is None


def test_durations_are_added_up_where_there_is_no_cut_meta(layout: Layout) -> None:
    layout.captions(VID, captions(VID, ["A cat.", "A dog."]))
    layout.video(VID)
    layout.pack("vript_long_videos_clips/clips_1_of_9.zip", {f"{VID}/{VID}_asr.jsonl": asr(VID, 3.5, 2.0)})
    (source,), _ = layout.scan()
    assert edges(source) == [(0, 3.5, "A cat."), (3.5, 5.5, "A dog.")]


def test_durations_are_added_up_where_cut_meta_is_not_understood(layout: Layout) -> None:
    layout.add(VID, times=[{"von": 0}, {"von": 4}])
    layout.write(f"vript_long_videos_clips/{VID}/{VID}_asr.jsonl", asr(VID, 3.5, 2.0))
    (source,), _ = layout.scan()
    assert source.clips[1].start_s == 3.5


def test_a_missing_scene_makes_the_later_starts_unknown() -> None:
    data = asr(VID, 1, 2, 3).split(b"\n")
    assert times_from_durations(b"\n".join(data), "x") == {1: (0, 1), 2: (1, 3), 3: (3, 6)}
    with pytest.raises(SetAside, match="lacks scene 2") as caught:
        times_from_durations(b"\n".join([data[0], data[2]]), "x")
    assert caught.value.reason is Reason.CLIP_BOUNDARIES_MISSING
    with pytest.raises(SetAside):
        times_from_durations(b"", "x")


def test_everything_still_packed(layout: Layout, tmp_path: Path) -> None:
    layout.pack(
        "vript_captions/vript_long_videos_captions.zip",
        {
            f"vript_long_videos_captions/{VID}_caption.json": captions(VID, ["A cat.", "A dog."]),
            "__MACOSX/x": b"",
        },
    )
    layout.pack(
        "vript_captions/vript_short_videos_captions.zip", {"tiny_caption.json": captions("tiny", ["x"])}
    )
    layout.pack("vript_long_videos/video_1_of_9.zip", {f"{VID}.mp4": b"packed video"})
    times = cut_meta(VID, {"start": 0, "end": 4}, {"start": 4, "end": 9})
    layout.pack("vript_long_videos_clips/clips_1_of_9.zip", {f"{VID}/{VID}_cut_meta.json": times})

    sources, (row,) = layout.scan()
    assert sources == []
    assert (row.source_id, row.reason) == (VID, Reason.VIDEO_MISSING)
    assert "video_1_of_9.zip" in row.message and "vript:PATH?unpack=true" in row.message

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


def test_an_unpacked_file_stands_before_its_archive(layout: Layout) -> None:
    layout.add(VID)
    layout.pack("vript_captions/long.zip", {f"{VID}_caption.json": b"broken"})
    layout.pack("vript_long_videos/video_1_of_9.zip", {f"{VID}.mp4": b"packed"})
    sources, aside = layout.scan()
    assert len(sources) == 1
    assert aside == []


def test_reasons(layout: Layout) -> None:
    layout.add("good")
    layout.add("not_utf8")
    layout.captions("not_utf8", json.dumps(captions("not_utf8", ["é"]), ensure_ascii=False).encode("latin-1"))
    layout.add("not_json")
    layout.captions("not_json", b"{")
    layout.add("no_data")
    layout.captions("no_data", {"meta": {}})
    layout.add("bad_content")
    layout.captions("bad_content", captions("bad_content", [3]))
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
    layout.add("disorder", times=[{"start": 4, "end": 9}, {"start": 0, "end": 4}])
    layout.add("empty")
    layout.write("vript_long_videos/empty.mp4", b"")
    layout.add("twin")
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
    sources, aside = layout.scan(only_present=True)
    assert len(sources) == 1
    assert aside == []
    assert "1 captioned" in caplog.text


def test_archives_cannot_write_outside_the_cache(layout: Layout, tmp_path: Path) -> None:
    layout.add(VID)
    (layout.root / f"vript_long_videos/{VID}.mp4").unlink()
    layout.pack("vript_long_videos/video_1_of_9.zip", {f"../../../{VID}.mp4": b"evil"})
    layout.pack("vript_captions/bad.zip", {"../evil_caption.json": captions("evil", ["x"])})
    before = sorted(tmp_path.iterdir())
    sources, aside = layout.scan(cache=tmp_path / "cache", unpack=True)
    assert sources == []
    assert {row.reason for row in aside} == {Reason.UNSAFE_PATH}
    assert sorted(tmp_path.iterdir()) == before


def test_a_damaged_member_is_a_bad_archive(layout: Layout, tmp_path: Path) -> None:
    layout.add(VID)
    (layout.root / f"vript_long_videos/{VID}.mp4").unlink()
    layout.pack("vript_long_videos/video_1_of_9.zip", {f"{VID}.mp4": b"0123456789" * 100})
    archive = layout.root / "vript_long_videos/video_1_of_9.zip"
    archive.write_bytes(archive.read_bytes().replace(b"0123456789", b"0123456780", 1))
    sources, (row,) = layout.scan(cache=tmp_path / "cache", unpack=True)
    assert sources == []
    assert row.reason is Reason.BAD_ARCHIVE
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
def test_whatever_a_source_makes_go_wrong_stays_with_it(
    layout: Layout, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout.add("bad")
    layout.add("good")
    monkeypatch.setattr("tasks.sources.vript.times_from_cut_meta", failing_for("bad", problem))
    (source,), (row,) = layout.scan()
    assert (source.id, row.source_id, row.reason) == ("good", "bad", Reason.CAPTIONS_MALFORMED)


def failing_for(vid: str, problem: Exception) -> Any:
    def read(data: bytes, where: str, keys: TimeKeys | None = None) -> Any:
        if vid in where:
            raise problem
        return times_from_cut_meta(data, where, keys)

    return read


def test_a_damaged_packing_is_a_bad_archive(layout: Layout, tmp_path: Path) -> None:
    layout.add("good")
    layout.captions(VID, captions(VID, ["A cat.", "A dog."]))
    layout.times(VID, cut_meta(VID, {"start": 0, "end": 4}, {"start": 4, "end": 9}))
    archive = layout.root / "vript_long_videos/video_1_of_9.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(f"{VID}.mp4", bytes(range(256)) * 40)
    start = 30 + len(f"{VID}.mp4")
    data = bytearray(archive.read_bytes())
    data[start : start + 40] = b"\xff" * 40
    archive.write_bytes(data)
    (source,), (row,) = layout.scan(cache=tmp_path / "cache", unpack=True)
    assert (source.id, row.reason) == ("good", Reason.BAD_ARCHIVE)


def test_links_that_leave_the_root_are_refused(layout: Layout, tmp_path: Path) -> None:
    layout.add(VID)
    video = layout.root / f"vript_long_videos/{VID}.mp4"
    video.rename(tmp_path / "outside.mp4")
    video.symlink_to(tmp_path / "outside.mp4")
    _, (row,) = layout.scan()
    assert row.reason is Reason.UNSAFE_PATH


def test_another_layout_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="vript_captions"):
        open_sources("vript", tmp_path)
    empty = Layout(tmp_path / "Vript")
    with pytest.raises(UserInputError, match="no sources"):
        empty.scan()


def test_an_archive_that_is_a_link_out_of_the_root_is_not_unpacked(layout: Layout, tmp_path: Path) -> None:
    layout.add(VID)
    (layout.root / f"vript_long_videos/{VID}.mp4").unlink()
    layout.pack("../elsewhere.zip", {f"{VID}.mp4": b"a video of others"})
    (layout.root / "vript_long_videos/video_1_of_9.zip").symlink_to(tmp_path / "elsewhere.zip")
    sources, (row,) = layout.scan(cache=tmp_path / "cache", unpack=True)
    assert sources == []
    assert row.reason is Reason.UNSAFE_PATH
    assert not (tmp_path / "cache" / "vript_videos").exists()
