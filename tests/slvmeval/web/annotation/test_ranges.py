"""Byte ranges compared with a plain slice and with Starlette's FileResponse."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import FileResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from slvmeval.web.annotation.files import ByteRange, Unsatisfiable, parse_range, range_counts, unchanged

SIZE = 1000


@pytest.mark.parametrize(
    ("header", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=0-", 0, 999),
        ("bytes=0-1", 0, 1),
        ("bytes=10-19", 10, 19),
        ("bytes=999-", 999, 999),
        ("bytes=990-5000", 990, 999),
        ("bytes=-1", 999, 999),
        ("bytes=-200", 800, 999),
        ("bytes=-5000", 0, 999),
        ("BYTES=5-6", 5, 6),
        ("bytes= 5-6 ", 5, 6),
        ("bytes=5-99999999999999999999999999999999", 5, 999),
        ("bytes=000000000000000000000000005-06", 5, 6),
    ],
)
def test_ranges_that_are_met(header: str, first: int, last: int) -> None:
    assert parse_range(header, SIZE) == ByteRange(first, last)


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", "bytes", "bytes=", "bytes=-", "lines=0-1", "bytes=1-2,5-6", "bytes=6-5", "bytes=a-b"),
        *("bytes=--5", "bytes=1-2-3", "bytes=+1-2", "bytes=１-２", "bytes=0x1-2", "bytes 1-2", "=1-2"),
    ],
)
def test_what_is_not_understood_gives_the_whole_file(header: str | None) -> None:
    assert parse_range(header, SIZE) is None


@pytest.mark.parametrize(
    "header", ["bytes=1000-", "bytes=1000-2000", "bytes=-0", "bytes=99999999999999999999999999-"]
)
def test_ranges_outside_the_file_cannot_be_met(header: str) -> None:
    with pytest.raises(Unsatisfiable):
        parse_range(header, SIZE)


@pytest.mark.parametrize("header", ["bytes=0-", "bytes=-5", "bytes=0-0"])
def test_an_empty_file_has_no_range(header: str) -> None:
    with pytest.raises(Unsatisfiable):
        parse_range(header, 0)


def test_any_range_is_the_slice_that_another_implementation_gives(tmp_path: Path) -> None:
    draw = random.Random(6)
    data = draw.randbytes(SIZE)
    path = tmp_path / "file"
    path.write_bytes(data)
    other = TestClient(Starlette(routes=[Route("/", lambda _: FileResponse(path))]))
    for _ in range(200):
        first, last = draw.randrange(1200), draw.randrange(1200)
        header = draw.choice((f"bytes={first}-{max(first, last)}", f"bytes={first}-", f"bytes=-{first}"))
        given = other.get("/", headers={"Range": header})
        try:
            ours = parse_range(header, SIZE)
        except Unsatisfiable:
            assert given.status_code == 416, header
            continue
        assert ours is not None
        assert data[ours.first : ours.last + 1] == given.content, header
        if given.status_code == 206:
            assert given.headers["content-range"] == f"bytes {ours.first}-{ours.last}/{SIZE}"
        else:
            # a suffix longer than the file: the whole file, as a range or not
            assert ours == ByteRange(0, SIZE - 1), header


def test_tags_compare_as_the_rfc_says() -> None:
    tag = '"abc"'
    assert range_counts(None, tag)
    assert range_counts(tag, tag)
    assert not range_counts('W/"abc"', tag)
    assert not range_counts('"abd"', tag)
    assert not range_counts("Wed, 21 Oct 2026 07:28:00 GMT", tag)
    assert unchanged(tag, tag)
    assert unchanged('W/"abc"', tag)
    assert unchanged('"x", "abc"', tag)
    assert unchanged("*", tag)
    assert not unchanged(None, tag)
    assert not unchanged('"x"', tag)
    assert not unchanged("", tag)
