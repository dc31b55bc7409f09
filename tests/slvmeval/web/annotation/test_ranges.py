"""Which ranges are met; test_media compares what is sent for them with Starlette's FileResponse."""

from __future__ import annotations

import pytest

from slvmeval.web.annotation.files import ByteRange, Unsatisfiable, parse_range, range_counts, unchanged

SIZE = 1000


@pytest.mark.parametrize(
    ("header", "first", "last"),
    [
        *(("bytes=0-0", 0, 0), ("bytes=0-", 0, 999), ("bytes=0-1", 0, 1), ("bytes=10-19", 10, 19)),
        *(("bytes=999-", 999, 999), ("bytes=990-5000", 990, 999), ("bytes=-1", 999, 999)),
        *(("bytes=-200", 800, 999), ("bytes=-5000", 0, 999), ("BYTES=5-6", 5, 6), ("bytes= 5-6 ", 5, 6)),
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
    ("header", "size"),
    [
        *((f"bytes={text}", SIZE) for text in ("1000-", "1000-2000", "-0", "99999999999999999999999999-")),
        # an empty file has no range
        *((f"bytes={text}", 0) for text in ("0-", "-5", "0-0")),
    ],
)
def test_ranges_outside_the_file_cannot_be_met(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        parse_range(header, size)


def test_tags_compare_as_the_rfc_says() -> None:
    tag = '"abc"'
    assert [range_counts(one, tag) for one in (None, tag)] == [True] * 2
    for other in ('W/"abc"', '"abd"', "Wed, 21 Oct 2026 07:28:00 GMT"):
        assert not range_counts(other, tag)
    assert [unchanged(one, tag) for one in (tag, 'W/"abc"', '"x", "abc"', "*")] == [True] * 4
    assert [unchanged(one, tag) for one in (None, '"x"', "")] == [False] * 3
