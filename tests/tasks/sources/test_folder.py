from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from storage_schemas.errors import Reason, UserInputError
from storage_schemas.ids import digest_file
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import Source
from tasks.sources.content_categories import CATEGORIES_NAME, CategoryLine, append_content_category
from tasks.sources.content_hash import CACHE_NAME
from tasks.sources.registry import open_sources

CLIPS = [
    {"start_s": 0, "end_s": 4.5, "caption": "A red boat lies on the beach."},
    {"start_s": 4.5, "end_s": 9, "caption": "The boat sails to the left."},
]


def write_video(root: Path, name: str, content: bytes | None = None, clips: Any = CLIPS) -> Path:
    video = root / name
    video.parent.mkdir(parents=True, exist_ok=True)
    video.write_bytes(name.encode() if content is None else content)
    if clips is not None:
        text = clips if isinstance(clips, bytes) else "\n".join(map(json.dumps, clips)).encode()
        video.with_suffix(".jsonl").write_bytes(text)
    # An old time stamp: a file written this moment is read again by the next scan, to be safe.
    os.utime(video, (1_600_000_000, 1_600_000_000))
    return video


def scan(root: Path, **options: Any) -> tuple[list[Source], list[SetAsideRow]]:
    items = list(open_sources("folder", root, **options).scan())
    sources = [item for item in items if isinstance(item, Source)]
    return sources, [item for item in items if isinstance(item, SetAsideRow)]


def test_reads_videos_with_their_captions(tmp_path: Path) -> None:
    write_video(tmp_path, "a.mp4")
    write_video(tmp_path, "below/Other Film.MKV")
    sources, aside = scan(tmp_path)
    assert aside == []
    assert [source.title for source in sources] == ["a", "Other Film"]
    first = sources[0]
    assert first.id == "v" + first.content_sha256[:20]
    assert first.prompt == "A red boat lies on the beach.\nThe boat sails to the left."
    assert [(clip.index, clip.start_s, clip.end_s) for clip in first.clips] == [(0, 0, 4.5), (1, 4.5, 9)]
    assert (first.licence, first.redistributable, first.adapter) == ("unknown", False, "folder")
    assert Path(first.video).is_file()
    assert open_sources("folder", tmp_path).count() == 2
    # a moved and renamed file stays the same source
    write_video(tmp_path / "moved", "sub/b.mov", b"a.mp4")
    assert scan(tmp_path / "moved")[0][0].id == first.id


def test_odd_names_are_fine_and_hidden_ones_are_not_read(tmp_path: Path) -> None:
    names = ["two words.mp4", 'quote\'s "x".mp4', "🐰 bunny.mp4", "-dash.mp4", "ä.mp4"]
    for name in (*names, ".b.mp4", ".trash/c.mp4"):
        write_video(tmp_path, name)
    sources, aside = scan(tmp_path)
    assert aside == []
    assert {Path(source.video).name for source in sources} == set(names)


def test_one_bad_source_never_costs_another(tmp_path: Path) -> None:
    bad: list[tuple[dict[str, Any], Reason]] = [
        ({"clips": b"{not json"}, Reason.CAPTIONS_MALFORMED),
        ({"content": b""}, Reason.EMPTY_FILE),
        ({"clips": None}, Reason.CAPTIONS_MISSING),
        ({"clips": b'{"start_s":0,"end_s":1,"caption":"\xff"}'}, Reason.CAPTIONS_NOT_UTF8),
        ({"clips": b"\n\n"}, Reason.CAPTIONS_EMPTY),
    ]
    for number, (content, _) in enumerate(bad):
        write_video(tmp_path, f"{number}.mp4", **content)
    write_video(tmp_path, "good.mp4")
    sources, aside = scan(tmp_path)
    assert [source.title for source in sources] == ["good"]
    assert {row.location: row.reason for row in aside} == {f"{n}.mp4": bad[n][1] for n in range(5)}
    assert all(row.stage == "scan" and row.message for row in aside)


def test_of_two_files_with_the_same_content_the_first_usable_stays(tmp_path: Path) -> None:
    write_video(tmp_path, "a.mp4", b"same", clips=b"broken")
    write_video(tmp_path, "b.mp4", b"same")
    write_video(tmp_path, "c.mp4", b"same")
    sources, aside = scan(tmp_path)
    assert [source.title for source in sources] == ["b"]
    assert [(row.location, row.reason) for row in aside] == [
        ("a.mp4", Reason.CAPTIONS_MALFORMED),
        ("c.mp4", Reason.DUPLICATE_CONTENT),
    ]
    assert "b.mp4" in aside[1].message


def test_links_that_leave_the_root_are_refused(tmp_path: Path) -> None:
    outside = write_video(tmp_path / "outside", "x.mp4")
    write_video(tmp_path / "in", "a.mp4", b"a")
    root = tmp_path / "in"
    (root / "link.mp4").symlink_to(outside)
    (root / "lost.mp4").symlink_to(tmp_path / "nowhere.mp4")
    (root / "folder").symlink_to(tmp_path / "outside")
    write_video(root, "captions.mp4", b"c", clips=None)
    (root / "captions.jsonl").symlink_to(outside.with_suffix(".jsonl"))
    # within the root it is the same content
    (root / "b.mp4").symlink_to("a.mp4")
    (root / "b.jsonl").symlink_to("a.jsonl")
    sources, aside = scan(root)
    assert [source.title for source in sources] == ["a"]
    assert {row.location: row.reason for row in aside} == {
        "b.mp4": Reason.DUPLICATE_CONTENT,
        "captions.mp4": Reason.UNSAFE_PATH,
        "folder": Reason.UNSAFE_PATH,
        "link.mp4": Reason.UNSAFE_PATH,
        "lost.mp4": Reason.VIDEO_MISSING,
    }


def test_a_loop_of_links_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    write_video(tmp_path, "good.mp4")
    write_video(tmp_path, "captions.mp4", clips=None)
    (tmp_path / "sub").mkdir()
    for name in ("loop.mp4", "captions.jsonl", "folder", "sub/up"):
        (tmp_path / name).symlink_to(".." if name == "sub/up" else name)
    sources, aside = scan(tmp_path)
    assert [source.title for source in sources] == ["good"]
    assert {row.location: row.message for row in aside} == {
        "loop.mp4": "loop.mp4 is a loop of links: repair or remove it",
        "captions.mp4": "captions.jsonl is a loop of links: repair or remove it",
    }


@pytest.mark.parametrize("name", ["licences.jsonl", CATEGORIES_NAME])
def test_a_link_to_nothing_is_not_a_missing_file(tmp_path: Path, name: str) -> None:
    write_video(tmp_path, "good.mp4")
    (tmp_path / name).symlink_to("elsewhere")
    with pytest.raises(UserInputError, match=rf"{name} cannot be read"):
        scan(tmp_path)


def test_what_is_not_a_file_is_refused_and_holds_nothing_up(tmp_path: Path) -> None:
    write_video(tmp_path, "good.mp4")
    write_video(tmp_path, "piped.mp4", clips=None)
    os.mkfifo(tmp_path / "piped.jsonl")
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "pipe.jsonl").write_text("")
    (tmp_path / "zero.mp4").symlink_to("/dev/zero")
    sources, aside = scan(tmp_path)
    assert [source.title for source in sources] == ["good"]
    assert {row.location: row.reason for row in aside} == {
        "piped.mp4": Reason.CAPTIONS_MISSING,
        "pipe.mp4": Reason.NOT_A_VIDEO,
        "zero.mp4": Reason.UNSAFE_PATH,
    }
    piped = next(row for row in aside if row.location == "piped.mp4")
    assert piped.message == "piped.jsonl cannot be read (it is a named pipe, not a file): check the file"


def test_odd_characters_of_a_name_are_shown_escaped(tmp_path: Path) -> None:
    write_video(tmp_path, "good.mp4")
    write_video(tmp_path, "a\x1b[31mred\u202e.mp4", clips=None)
    _, (row,) = scan(tmp_path)
    assert row.location == "a\\x1b[31mred\\u202e.mp4"
    assert row.message.isprintable()
    bad = os.fsencode(tmp_path) + b"/bad\xff.mp4"
    try:
        Path(os.fsdecode(bad)).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    sources, aside = scan(tmp_path)
    assert len(sources) == 1
    assert {row.reason for row in aside} == {Reason.CAPTIONS_MISSING, Reason.UNSAFE_PATH}
    for row in aside:
        row.message.encode()


def test_unknown_root_kind_or_option_and_no_videos_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="does not exist"):
        scan(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserInputError, match="not a folder"):
        scan(tmp_path / "file")
    with pytest.raises(UserInputError, match=r"no videos.*\.mp4"):
        scan(tmp_path)
    with pytest.raises(UserInputError, match="Did you mean 'folder'"):
        open_sources("foldr", tmp_path)
    with pytest.raises(UserInputError, match="unpak"):
        open_sources("folder", tmp_path, unpak=True)


def test_licences(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_video(tmp_path, "sub/a.mp4")
    write_video(tmp_path, "b.mp4")
    line = {"video": "sub/a.mp4", "title": "A film", "licence": "CC BY 3.0", "redistributable": True}
    (tmp_path / "licences.jsonl").write_text(
        "\ufeff" + json.dumps({**line, "credit": "Somebody"}) + "\n\n" + '{"video": "c.mp4"}\n'
    )
    sources, aside = scan(tmp_path)
    assert aside == []
    by_title = {source.title: source for source in sources}
    assert by_title["A film"].redistributable
    assert (by_title["A film"].licence, by_title["A film"].credit) == ("CC BY 3.0", "Somebody")
    assert (by_title["b"].licence, by_title["b"].redistributable) == ("unknown", False)
    assert "c.mp4" in caplog.text


LICENCES = "licences.jsonl"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (LICENCES, "{", "line 1"),
        (LICENCES, "[]", "line 1"),
        (LICENCES, '{"video": "a.mp4", "redistributable": "yes"}', "line 1"),
        (LICENCES, '{"video": "a.mp4", "license": "x"}', "line 1"),
        (LICENCES, '{"video": "a.mp4"}\n{"video": "a.mp4"}', "line 2"),
        (LICENCES, '{"video": "a.mp4", "licence": "CC0", "licence": "none"}', "line 1"),
        (LICENCES, b"\xff", r"licences\.jsonl cannot be read: it is not UTF-8 at byte 0$"),
        (LICENCES, None, "cannot be read: it is a folder, not a file$"),
        (CATEGORIES_NAME, '{"source_id": "v1"}', "line 1: content_category: is missing"),
        (CATEGORIES_NAME, "\n{", "line 2 is not JSON at character 2"),
        (
            CATEGORIES_NAME,
            '{"source_id": "v1", "content_category": 3}',
            "line 1: content_category: must be text, not 3",
        ),
        (
            CATEGORIES_NAME,
            '{"source_id": "v1", "content_category": "A", "source_id": "v2"}',
            "the key 'source_id' occurs twice",
        ),
        (
            CATEGORIES_NAME,
            '{"source_id": "v1", "content_category": "A"}\n' * 2,
            "line 2: a second line for v1",
        ),
    ],
)
def test_scan_reports_a_mistake_in_licences(
    tmp_path: Path, name: str, content: str | bytes | None, message: str
) -> None:
    write_video(tmp_path, "a.mp4")
    if content is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserInputError, match=message) as caught:
        scan(tmp_path)
    assert "Errno" not in str(caught.value)


def test_content_categories_come_from_the_licences_or_from_their_own_file(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        write_video(tmp_path, name)
    (tmp_path / "licences.jsonl").write_text('{"video": "a.mp4", "content_category": " Travel &\\tEvents "}')
    ids = {source.title: source.id for source in scan(tmp_path)[0]}
    for name in ("a", "b"):
        append_content_category(tmp_path, CategoryLine(source_id=ids[name], content_category="スポーツ"))
    path = tmp_path / CATEGORIES_NAME
    # as an editor may leave it
    path.write_text(path.read_text().rstrip("\n"))
    append_content_category(tmp_path, CategoryLine(source_id="elsewhere", content_category="Music"))
    sources, aside = scan(tmp_path)
    assert aside == []
    categories = {source.title: source.content_category for source in sources}
    assert categories == {"a": "Travel & Events", "b": "スポーツ", "c": ""}


def test_a_category_with_markup_or_too_long_sets_its_source_aside(tmp_path: Path) -> None:
    mistakes = {
        "<b>Sports</b>": "has '<' in it",
        "Sports | Music": "has '|' in it",
        "&lt;b": "has ';' in it",
        "$x_1$": "has '$' in it",
        "Sports " * 10: "has 69 characters; at most 60 are allowed",
    }
    write_video(tmp_path, "good.mp4")
    with (tmp_path / "licences.jsonl").open("w") as file:
        for number, category in enumerate(mistakes):
            write_video(tmp_path, f"{number}.mp4")
            file.write(json.dumps({"video": f"{number}.mp4", "content_category": category}) + "\n")
    (source,), aside = scan(tmp_path)
    assert source.title == "good"
    for row, (number, mistake) in zip(aside, enumerate(mistakes.values()), strict=True):
        assert (row.reason, row.location) == (Reason.BAD_CONTENT_CATEGORY, f"{number}.mp4")
        assert mistake in row.message


def test_a_known_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(side_effect=digest_file)
    monkeypatch.setattr("tasks.sources.content_hash.digest_file", counted)
    root, cache = tmp_path / "in", tmp_path / "cache"
    write_video(root, "a.mp4")
    write_video(root, "b.mp4")
    first = scan(root, cache=cache)
    assert scan(root, cache=cache) == first
    os.utime(write_video(root, "b.mp4", b"changed"), (1_600_000_001, 1_600_000_001))
    assert scan(root, cache=cache) != first
    write_video(root, "c.mp4")
    scan(root, cache=cache)
    assert [call.args[0].name for call in counted.call_args_list] == ["a.mp4", "b.mp4", "b.mp4", "c.mp4"]


def test_cache_damaged_or_read_only_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root, cache = tmp_path / "in", tmp_path / "cache"
    write_video(root, "a.mp4")
    first = scan(root, cache=cache)
    assert (len(first[0]), first[1]) == (1, [])
    for damage in (b"", b"{", b"[]", b'{"x": 3}', b"\xff"):
        (cache / CACHE_NAME).write_bytes(damage)
        assert scan(root, cache=cache) == first
    (tmp_path / "file").write_text("a file where the folder should be")
    assert scan(root, cache=tmp_path / "file") == first
    assert "cannot cache" in caplog.text


def test_a_video_still_being_copied_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_video(tmp_path, "old.mp4")
    new = write_video(tmp_path, "new.mp4")
    os.utime(new)
    sources, aside = scan(tmp_path, settle_s=60)
    assert [source.title for source in sources] == ["old"]
    assert [(row.location, row.reason) for row in aside] == [("new.mp4", Reason.STILL_BEING_WRITTEN)]

    def growing(path: Path) -> str:
        digest = digest_file(path)
        if path.name == "old.mp4":
            with path.open("ab") as file:
                file.write(b"more")
        return digest

    monkeypatch.setattr("tasks.sources.content_hash.digest_file", growing)
    sources, aside = scan(tmp_path)
    assert [source.title for source in sources] == ["new"]
    assert [(row.location, row.reason) for row in aside] == [("old.mp4", Reason.STILL_BEING_WRITTEN)]
