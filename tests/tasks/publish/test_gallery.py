from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.store import ENCODED, FRAMES
from tasks.publish.gallery.data import script_json
from tasks.publish.gallery.write import write_gallery
from tasks.report.pictures import GUTTER, TILE_WIDTH, contact_sheet
from tests.tasks.publish.pages import Elements

FREE, SECRET = "film/<b>one</b>", "secret two"


def data_of(page: Path) -> Any:
    return json.loads(Elements(page).texts["data"])


def page_of(folder: Path, source_id: str) -> tuple[Path, Any]:
    for path in sorted((folder / "sources").iterdir()):
        data = data_of(path)
        if data["source"]["id"] == source_id:
            return path, data
    raise AssertionError(f"no page shows {source_id}")


@pytest.fixture(scope="module")
def gallery(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gallery(small.store, small.release, tmp_path_factory.mktemp("gallery") / "pages").parent


def test_pages_load_nothing_from_outside_and_allow_nothing_else(gallery: Path) -> None:
    pages = [gallery / "index.html", *(gallery / "sources").iterdir()]
    assert len(pages) == 3
    for path in pages:
        result = Elements(path).found
        (policy,) = (given["content"] for _, given in result if "http-equiv" in given)
        assert (policy or "").startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        for link in (given.get(name) or "#" for _, given in result for name in ("src", "href")):
            if not link.startswith(("#", "data:,")):
                assert (path.parent / link.split("#")[0]).resolve().is_relative_to(gallery.resolve())
                assert (path.parent / link.split("#")[0]).is_file()
    for path in (gallery / "assets").iterdir():
        hosts = set(re.findall(r"https?://[^\"'\s]+", path.read_text(encoding="utf-8")))
        assert hosts <= {"http://www.w3.org/2000/svg"}, "the SVG name space only"
    # captions cannot leave the data
    path, data = page_of(gallery, FREE)
    assert data["source"]["clips"][0]["caption"].startswith("</script><script>")
    # scripts of ours and the data: a caption that ended the data would have made another
    assert [tag for tag, _ in Elements(path).found].count("script") == 6
    assert "<script>document" not in path.read_text(encoding="utf-8")


def test_json_survives_a_script_element() -> None:
    texts = ["</script>", "<!--<script>", "]]>", "&lt;", "\u2028\u2029", "\ud800", "日本語"]
    written = script_json({"a": texts})
    assert json.loads(written) == {"a": texts}
    assert not set(written) & set("<>&\u2028\u2029")
    assert written.isascii()


def test_the_data_say_what_the_release_says(gallery: Path, small: Any) -> None:
    data = data_of(gallery / "index.html")
    assert data["release"]["private"] is True
    assert len(data["pairs"]) == len(small.release.pairs()) == 8
    assert {row["reason"] for row in data["set_aside"]} == {"not_a_video", "too_few_eligible_clips"}
    assert data["aspects"]["color"]["set_aside"] == 1
    assert data["aspects"]["aesthetics"]["built"] == 2
    statistics = data["statistics"]
    assert [(row["from_s"], row["sources"]) for row in statistics["bins"]] == [(0, 1), (100, 0), (200, 1)]
    assert 0 < statistics["degraded_bytes"] < statistics["full_copies_bytes"]
    categories = [{"category": name, "sources": 1, "pairs": 4} for name in ("Sports", "Travel & Events")]
    assert statistics["content_categories"] == categories
    assert dict(statistics["facts"])["Longest"] == "4:00"
    assert dict(statistics["facts"])["Unique prompts"] == "2"
    _, page = page_of(gallery, FREE)
    for pair, record in zip(page["pairs"], small.release.pairs(source_id=FREE), strict=True):
        assert [tuple(interval) for interval in pair["low_intervals"]] == list(record.low_intervals)
        assert sum(segment["count"] for segment in pair["segments"]) == record.low_frames
    # no path of the machine is shown
    everything = "".join(path.read_text(encoding="utf-8") for path in gallery.rglob("*.html"))
    for words in (str(small.store.root), "films/one", "x/y.mp4"):
        assert words not in everything


def test_writing_again_makes_nothing_again(gallery: Path, small: Any) -> None:
    media = {path: path.stat().st_mtime_ns for path in (gallery / "media").rglob("*.*")}
    assert len(media) == 2 * (2 + 4 * 2)
    seen: list[tuple[int, int, str]] = []
    write_gallery(small.store, small.release, gallery, progress=lambda *told: seen.append(told))
    assert {path: path.stat().st_mtime_ns for path in (gallery / "media").rglob("*.*")} == media
    assert [(done, total) for done, total, _ in seen] == [(place, 8) for place in range(1, 9)]


def test_public_pages_keep_what_may_not_be_passed_on(small: Any, tmp_path: Path) -> None:
    write_gallery(small.store, small.release, tmp_path)
    write_gallery(small.store, small.release, tmp_path, private=False)
    everything = "\n".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html"))
    for words in ("secret", "Caption 3 of secret", "a caption says"):
        assert words not in everything
    assert script_json(f"Caption 3 of {FREE}")[1:-1] in everything
    # the private form was there before: its videos are gone
    assert [folder.name[:4] for folder in (tmp_path / "media").iterdir()] == ["film"]
    assert not [path for path in tmp_path.rglob("*") if "secret" in path.name]
    data = data_of(tmp_path / "index.html")
    hidden = [source for source in data["sources"] if source["hidden"]]
    assert [(one["media"], one["licence"]) for one in hidden] == [("", "academic use only")]
    assert all(row["message"] == "" for row in data["set_aside"])


def test_pages_are_marked_private_only_if_a_source_may_not_be_passed_on(
    gallery: Path, small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [row.model_copy(update={"redistributable": True}) for row in small.release.sources()]
    monkeypatch.setattr(small.release, "sources", lambda: free)
    write_gallery(small.store, small.release, tmp_path)
    for folder, private in ((gallery, True), (tmp_path, False)):
        for path in (folder / "index.html", *(folder / "sources").iterdir()):
            text = path.read_text(encoding="utf-8")
            assert ('class="badge"' in text) == private
            assert private or "Private pages." not in text
        assert ("Private pages." in (folder / "index.html").read_text(encoding="utf-8")) == private


def test_files_of_others_are_left_alone(small: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserInputError, match="other content"):
        write_gallery(small.store, small.release, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    target = tmp_path / "pages"
    write_gallery(small.store, small.release, target)
    (target / "notes.txt").write_text("mine")
    listed = json.loads((target / "gallery.json").read_text())
    (target / "gallery.json").write_text(
        json.dumps({"files": [*listed["files"], "../thesis.txt", "old.html"]})
    )
    (target / "old.html").write_text("from an earlier release")
    write_gallery(small.store, small.release, target)
    assert (target / "notes.txt").exists()
    assert (tmp_path / "thesis.txt").exists()
    assert not (target / "old.html").exists()
    (target / "gallery.json").write_text("{")
    with pytest.raises(UserInputError, match="damaged"):
        write_gallery(small.store, small.release, target)


def test_a_source_without_frames_costs_no_other(build_small: Callable[[Path], Any], tmp_path: Path) -> None:
    small = build_small(tmp_path)
    store, release = small.store, small.release
    store.remove(FRAMES, release.source(SECRET).frames_id)
    write_gallery(store, release, tmp_path / "pages")
    _, data = page_of(tmp_path / "pages", SECRET)
    assert "run the build again" in data["source"]["hidden"]
    assert data["source"]["media"] == ""
    assert data["source"]["clips"][3]["caption"] == "Caption 3 of secret two"
    _, data = page_of(tmp_path / "pages", FREE)
    assert not data["source"]["hidden"]
    assert len(list(store.manifests(ENCODED))) == 1


def test_the_contact_sheet_shows_both_sides_and_what_is_gone_as_a_striped_tile(small: Any) -> None:
    def sheet(aspect: str) -> Any:
        record = next(pair for pair in small.release.pairs(aspect) if pair.source_id == FREE)
        return contact_sheet(small.store, record, small.release.clips(FREE))

    height = TILE_WIDTH * 72 // 128
    both = np.asarray(sheet("aesthetics").convert("L"), dtype=int)
    assert both.shape == (2 * height + GUTTER, 2 * TILE_WIDTH + GUTTER)
    # inverted below: what is bright above is dark there
    assert both[:height, :TILE_WIDTH].mean() < 100 < 150 < both[height + GUTTER :, :TILE_WIDTH].mean()
    gone = np.asarray(sheet("comprehensiveness"))
    assert gone[gone.shape[0] // 2 + GUTTER :].max() < 90
