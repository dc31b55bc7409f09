"""Evicted frames: they are recreated when needed, and a source whose video is gone does not affect others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from storage_schemas.store import FRAMES
from tests.slvmeval.cli.running import Run
from tests.slvmeval.cli.test_build import RECIPE, Built, built_in, new_build

#: Frozen clips repeat frames of the source; the other aspects keep what they degraded.
MORE = '[aspects.dynamics_degree]\noperation = "middle-frame"\n'
#: dynamics_degree needs movement.
CAPTION = "A red ball rolls quickly across the floor, part"


@pytest.fixture(scope="module")
def two(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A release of two films, `kept` and `lost`."""
    folder = tmp_path_factory.mktemp("two")
    new_build(ffmpeg, CAPTION, RECIPE + MORE, {"kept": 12, "lost": 13}, folder)
    return built_in(folder)


@pytest.fixture
def evicted(two: Built, tmp_path: Path, run: Run) -> Iterator[Built]:
    """A copy of the store without frames; the second film is moved to tmp_path/lost.mp4."""
    built = two.copy(tmp_path)
    run("gc", "--store", built.store, "frames")
    content = (two.videos / "lost.mp4").read_bytes()
    (two.videos / "lost.mp4").rename(tmp_path / "lost.mp4")
    yield built
    (two.videos / "lost.mp4").write_bytes(content)


def words(built: Built, command: str, *more: object) -> list[object]:
    return [command, "small", "--store", built.store, "--quiet", *more]


def with_frames(built: Built) -> set[str]:
    release = built.release()
    return {row.title for row in release.sources() if release.store.has(FRAMES, row.frames_id)}


def test_the_gallery_continues_without_the_videos_of_a_source_that_is_gone(
    evicted: Built, tmp_path: Path, run: Run
) -> None:
    out = tmp_path / "gallery"
    # nor does it fail a build that ends with it
    assert evicted.build("--gallery", tmp_path / "built") == 0
    assert Path(evicted.result()["gallery"]).is_file()
    run("gc", "--store", evicted.store, "frames", "encoded")
    shown = run(*words(evicted, "gallery", "--out", out)).err
    assert "shown without its videos: the frames of lost were evicted" in shown
    assert len(list((out / "media").iterdir())) == 1
    pages = [path.read_text(encoding="utf-8") for path in (out / "sources").iterdir()]
    assert sorted("There are no videos" in page for page in pages) == [False, True]
    # it does not count as the whole gallery: once the video is back, it is written again
    (tmp_path / "lost.mp4").rename(evicted.videos / "lost.mp4")
    run(*words(evicted, "gallery", "--out", out))
    assert len(list((out / "media").iterdir())) == 2
    # frames do not come back where nothing is made of them
    run("gc", "--store", evicted.store, "frames")
    (evicted.videos / "lost.mp4").unlink()
    (out / "shows.json").unlink()
    # videos and images exist, as does the encoded video from which most of a pair is copied
    still = ("--aspect", "dynamics_degree", "--out", tmp_path / "still")
    for more in (
        words(evicted, "gallery", "--out", out),
        words(evicted, "materialise", "--aspect", "aesthetics", "--out", tmp_path / "mp4"),
        words(evicted, "materialise", "--side", "high", *still),
    ):
        assert not run(*more).err
    assert len(list((out / "media").iterdir())) == 2
    assert with_frames(evicted) == set()
    run(*words(evicted, "materialise", *still), code=3)
    assert with_frames(evicted) == {"kept"}
    for page in (out / "sources").iterdir():
        assert "There are no videos" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("content", "message"), [(None, "is not at"), (b"no video at all", "lost.mp4")])
def test_verify_reports_what_cannot_be_read_and_repair_goes_to_the_end(
    content: bytes | None, message: str, evicted: Built, run: Run
) -> None:
    if content is not None:
        (evicted.videos / "lost.mp4").write_bytes(content)
    ran = run(*words(evicted, "verify"), code=1)
    for said in ("frames of lost: ", message, "1 problems"):
        assert said in ran.out
    assert not ran.err
    run("gc", "--store", evicted.store, "frames")
    ran = run(*words(evicted, "verify", "--repair"), code=1)
    assert "not recreated: frames of lost" in ran.out
    assert not ran.err
    assert with_frames(evicted) == {"kept"}


def test_what_is_passed_on_leaves_out_the_pairs_of_a_source_that_is_gone(
    evicted: Built, tmp_path: Path, run: Run
) -> None:
    videos, out = tmp_path / "mp4", tmp_path / "dataset"
    ran = run(*words(evicted, "materialise", "--out", videos), code=3)
    for said in ("5 pairs in", "pairs left out: 5", "the frames of lost were evicted"):
        assert said in ran.out
    assert not ran.err
    assert len(list(videos.rglob("*.mp4"))) == 10
    run("gc", "--store", evicted.store, "frames", "encoded")
    assert "pairs left out: 5" in run(*words(evicted, "export", "--out", out, "--private"), code=3).out
    rows = pq.read_table(out / "data" / "pairs.parquet").to_pylist()
    assert [row["title"] for row in pq.read_table(out / "data" / "sources.parquet").to_pylist()] == ["kept"]
    assert all((out / row["low_video"]).is_file() for row in rows)
    assert len(rows) == 5
    assert len(json.loads((out / "recipe.json").read_text())["pins"]) == 10
