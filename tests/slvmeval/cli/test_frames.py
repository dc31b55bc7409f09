"""Evicted frames: they are recreated when needed, and a source whose video is gone does not affect others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from slvmeval.cli.main import main
from storage_schemas.release import Release
from storage_schemas.store import FRAMES, Store
from tests.slvmeval.cli.test_build import RECIPE, Built, film

#: Frozen clips repeat frames of the source; the other aspects keep what they degraded.
MORE = '[aspects.dynamics_degree]\noperation = "middle-frame"\n'


@pytest.fixture(scope="module")
def two(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A release of two films, `kept` and `lost`."""
    folder = tmp_path_factory.mktemp("two")
    videos = folder / "videos"
    videos.mkdir()
    for name, clips in (("kept", 12), ("lost", 13)):
        film(ffmpeg, videos / f"{name}.mp4", clips)
        captions = videos / f"{name}.jsonl"
        # dynamics_degree needs movement
        moving = captions.read_text().replace("Coloured bars", "A red ball rolls quickly across the floor")
        captions.write_text(moving)
    recipe = folder / "small.toml"
    recipe.write_text(RECIPE + MORE, encoding="utf-8")
    built = Built(videos, folder / "store", recipe, folder / "summary.json", 0)
    assert built.build() == 0
    return built


@pytest.fixture
def evicted(two: Built, tmp_path: Path) -> Iterator[Built]:
    """A copy of the store without frames; the second film is moved to tmp_path/lost.mp4."""
    built = Built(two.videos, tmp_path / "store", two.recipe, tmp_path / "summary.json", 0)
    shutil.copytree(two.store, built.store)
    drop_frames(built)
    content = (two.videos / "lost.mp4").read_bytes()
    (two.videos / "lost.mp4").rename(tmp_path / "lost.mp4")
    yield built
    (two.videos / "lost.mp4").write_bytes(content)


def drop_frames(built: Built) -> None:
    assert main(["gc", "--store", str(built.store), "--frames"]) == 0


def words(built: Built, command: str, *more: str) -> list[str]:
    return [command, "small", "--store", str(built.store), "--quiet", *more]


def with_frames(built: Built) -> set[str]:
    store = Store.open(built.store)
    rows = Release.open(store, "small").sources()
    return {row.title for row in rows if store.has(FRAMES, row.frames_id)}


def test_the_gallery_goes_on_without_the_videos_of_a_source_that_is_gone(
    evicted: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "gallery"
    assert main(words(evicted, "gallery", "--out", str(out))) == 0
    assert "shown without its videos: the frames of lost were evicted" in capsys.readouterr().err
    assert len(list((out / "media").iterdir())) == 1
    pages = [path.read_text(encoding="utf-8") for path in (out / "sources").iterdir()]
    assert sorted("There are no videos" in page for page in pages) == [False, True]
    # it does not count as the whole gallery: once the video is back, it is written again
    (tmp_path / "lost.mp4").rename(evicted.videos / "lost.mp4")
    assert main(words(evicted, "gallery", "--out", str(out))) == 0
    assert len(list((out / "media").iterdir())) == 2


def test_a_build_that_ends_with_a_gallery_is_not_failed_by_it(evicted: Built, tmp_path: Path) -> None:
    assert evicted.build("--gallery", str(tmp_path / "gallery")) == 0
    assert Path(evicted.result()["gallery"]).is_file()


@pytest.mark.parametrize("content", [None, b"no video at all"])
def test_verify_reports_what_cannot_be_read_and_repair_goes_to_the_end(
    content: bytes | None, evicted: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (evicted.videos / "lost.mp4").write_bytes(content)
    message = "is not at" if content is None else "lost.mp4"
    capsys.readouterr()
    assert main(words(evicted, "verify")) == 1
    ran = capsys.readouterr()
    assert "frames of lost: " in ran.out
    assert message in ran.out
    assert "1 problems" in ran.out
    assert not ran.err
    drop_frames(evicted)
    capsys.readouterr()
    assert main(words(evicted, "verify", "--repair")) == 1
    ran = capsys.readouterr()
    assert "not recreated: frames of lost" in ran.out
    assert not ran.err
    assert with_frames(evicted) == {"kept"}


def test_materialise_leaves_out_the_pairs_of_a_source_that_is_gone(
    evicted: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mp4"
    assert main(words(evicted, "materialise", "--out", str(out))) == 3
    ran = capsys.readouterr()
    assert "5 pairs in" in ran.out
    assert "pairs left out: 5" in ran.out
    assert "the frames of lost were evicted" in ran.out
    assert not ran.err
    assert len(list(out.rglob("*.mp4"))) == 10


def test_export_leaves_out_the_pairs_of_a_source_that_is_gone(
    evicted: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "dataset"
    assert main(words(evicted, "export", "--out", str(out), "--private")) == 3
    assert "pairs left out: 5" in capsys.readouterr().out
    rows = pq.read_table(out / "data" / "pairs.parquet").to_pylist()
    assert [row["title"] for row in pq.read_table(out / "data" / "sources.parquet").to_pylist()] == ["kept"]
    assert all((out / row["low_video"]).is_file() for row in rows)
    assert len(rows) == 5
    assert len(json.loads((out / "recipe.json").read_text())["pins"]) == 10


def test_frames_do_not_come_back_where_nothing_is_made_of_them(
    evicted: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lost.mp4").rename(evicted.videos / "lost.mp4")
    out = tmp_path / "gallery"
    assert main(words(evicted, "gallery", "--out", str(out))) == 0
    drop_frames(evicted)
    (evicted.videos / "lost.mp4").unlink()
    (out / "shows.json").unlink()
    capsys.readouterr()
    # videos and images exist, as does the encoded video from which most of a pair is copied
    assert main(words(evicted, "gallery", "--out", str(out))) == 0
    assert len(list((out / "media").iterdir())) == 2
    assert main(words(evicted, "materialise", "--aspect", "aesthetics", "--out", str(tmp_path / "mp4"))) == 0
    still = ["--aspect", "dynamics_degree", "--out", str(tmp_path / "still")]
    assert main(words(evicted, "materialise", "--side", "high", *still)) == 0
    assert with_frames(evicted) == set()
    assert not capsys.readouterr().err
    assert main(words(evicted, "materialise", *still)) == 3
    assert with_frames(evicted) == {"kept"}
    for page in (out / "sources").iterdir():
        assert "There are no videos" not in page.read_text(encoding="utf-8")
