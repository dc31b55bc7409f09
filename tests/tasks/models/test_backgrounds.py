"""Background images: drawn ones and folders of files or Parquet, always the same for one id."""

from __future__ import annotations

import io
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from storage_schemas.errors import PrerequisiteError
from storage_schemas.rng import keyed_rng
from tasks.models.backgrounds import DrawnLandscapes, ImageFiles


def png(level: int, size: tuple[int, int] = (60, 40)) -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", size, (level, level, level)).save(sink, "PNG")
    return sink.getvalue()


def test_drawn_landscapes_are_various_and_repeatable_and_come_in_any_shape() -> None:
    images = DrawnLandscapes()
    ids = [images.draw(keyed_rng("t", place)) for place in range(6)]
    drawn = [images.image(id_, 36, 64) for id_ in ids]
    assert len(set(ids)) == 6
    for one, other in pairwise(drawn):
        assert (one.shape, one.dtype) == ((36, 64, 3), np.uint8)
        assert np.abs(one.astype(int) - other).mean() > 8
    assert (images.image(ids[0], 36, 64) == drawn[0]).all()
    for height, width in ((16, 16), (36, 100), (100, 36), (72, 128), (288, 512)):
        for place in range(8 if width < 512 else 1):
            assert images.image(f"{place:012x}", height, width).shape == (height, width, 3)


def test_image_files_are_cut_to_shape_and_drawn_evenly(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.png").write_bytes(png(10))
    (tmp_path / "deep" / "b.PNG").write_bytes(png(200, (40, 90)))
    (tmp_path / "notes.txt").write_text("no image")
    images = ImageFiles(tmp_path)
    assert len(images) == 2
    assert {images.draw(keyed_rng(place)) for place in range(30)} == {"a.png", "deep/b.PNG"}
    result = images.image("deep/b.PNG", 36, 64)
    assert result.shape == (36, 64, 3)
    assert (result == 200).all()


def test_parquet_files_hold_images_as_hugging_face_or_plain_bytes(tmp_path: Path) -> None:
    rows = [{"bytes": png(level), "path": f"{level}.png"} for level in (10, 20, 30)]
    pq.write_table(
        pa.table({"image": rows, "caption": ["", "", ""]}), tmp_path / "a.parquet", row_group_size=2
    )
    pq.write_table(pa.table({"image": [png(40)]}), tmp_path / "b.parquet")
    images = ImageFiles(tmp_path)
    assert len(images) == 4
    for id_, level in (("a.parquet#0", 10), ("a.parquet#2", 30), ("b.parquet#0", 40)):
        assert (images.image(id_, 20, 20) == level).all()


def test_a_row_of_a_large_group_is_found_in_little_memory(tmp_path: Path) -> None:
    picture, rng = png(0), np.random.default_rng(0)
    rows = [{"bytes": picture + rng.bytes(100_000), "path": None} for _ in range(300)]
    rows[203]["bytes"] = png(77) + rng.bytes(100_000)
    pq.write_table(pa.table({"image": rows}), tmp_path / "a.parquet", row_group_size=300, write_batch_size=8)
    del rows
    images = ImageFiles(tmp_path)
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    try:
        assert (images.image("a.parquet#203", 20, 20) == 77).all()
    finally:
        pa.set_memory_pool(usual)
    assert 0 < counted.max_memory() < 10e6  # of 30 MB


@pytest.mark.parametrize("row", [{"bytes": None, "path": "elsewhere.png"}, None])
def test_a_row_without_an_image_is_named(tmp_path: Path, row: object) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"image": pa.array([row], kind)}), tmp_path / "a.parquet")
    with pytest.raises(PrerequisiteError, match=r"a\.parquet#0 cannot be used"):
        ImageFiles(tmp_path).image("a.parquet#0", 20, 20)


def test_the_checksum_follows_the_files(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(10) + b"\0")
    state, seen = path.stat(), [ImageFiles(tmp_path).checksum]
    assert ImageFiles(tmp_path).checksum == seen[0]
    # another image of the same name, size and time
    other = png(200)
    (tmp_path / "new").write_bytes(other + bytes(state.st_size - len(other)))
    os.utime(tmp_path / "new", ns=(state.st_mtime_ns, state.st_mtime_ns))
    (tmp_path / "new").replace(path)
    assert path.stat().st_size == state.st_size
    seen.append(ImageFiles(tmp_path).checksum)
    (tmp_path / "b.png").write_bytes(png(20))
    seen.append(ImageFiles(tmp_path).checksum)
    (tmp_path / "b.png").rename(tmp_path / "c.png")
    seen.append(ImageFiles(tmp_path).checksum)
    assert len(set(seen)) == 4


def test_files_are_hashed_once_and_when_it_matters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def digest(path: Path) -> str:
        hashed.append(path.name)
        return path.name

    monkeypatch.setattr("storage_schemas.checksum_cache.digest_file", digest)
    (tmp_path / "a.png").write_bytes(png(10))
    pq.write_table(pa.table({"image": [png(40), png(50)]}), tmp_path / "b.parquet")
    images = ImageFiles(tmp_path)
    images.image(images.draw(keyed_rng(0)), 20, 20)
    assert hashed == []
    assert images.checksum == images.checksum == ImageFiles(tmp_path).checksum
    assert hashed == ["a.png", "b.parquet"]


def test_an_empty_folder_says_what_to_put_there(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="contains no image"):
        ImageFiles(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        # its pair is not made with another image, and no other pair either: without it the set is another one
        ("a.png", b"no image", r"a\.png cannot be used \(it is not a whole picture\): replace"),
        ("a.parquet", b"PAR1 and no more", r"a\.parquet cannot be used \(it is not a whole Parquet file"),
        ("a.jpg", None, r"a\.jpg cannot be used \(it is a named pipe"),
        ("a.parquet", None, r"a\.parquet cannot be used \(it is a named pipe"),
    ],
)
def test_what_is_not_an_image_is_named(name: str, content: bytes | None, said: str, tmp_path: Path) -> None:
    if content is None:
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(PrerequisiteError, match=said):
        images = ImageFiles(tmp_path)
        assert name == "a.png", "all else is named before an image is wanted"
        images.image(name, 20, 20)
