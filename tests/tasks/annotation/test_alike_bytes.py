"""No field of headers and boxes tells the two videos of a pair apart."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from storage_schemas.frames import ColorSpec
from tasks.annotation.alike import write_alike
from tasks.annotation.shown_quality import encode_shown
from tests.tasks.annotation.shown_films import CHANGES, FPS, Film, film
from tests.tasks.media.trace import headers, idr_numbers


@pytest.mark.parametrize("aspect", ["technical_quality", "comprehensiveness", "temporal_flow"])
def test_idr_pictures_are_numbered_by_their_order_on_both_sides(tmp_path: Path, aspect: str) -> None:
    made = film(tmp_path, aspect, 2)
    targets = tmp_path / "a.mp4", tmp_path / "b.mp4"
    joined = idr_numbers(made.low)
    assert any(first == second for first, second in pairwise(joined)), (
        "joined units repeat the encoder's numbers"
    )
    write_alike((made.high, made.low), targets)
    for target in targets:
        numbers = idr_numbers(target)
        assert len(numbers) > 6
        assert numbers == [place % 2 for place in range(len(numbers))]


NAMES = "one.mp4", "two.mp4"


def shown_alike(folder: Path, made: Film, names: tuple[str, str] = NAMES) -> tuple[Path, Path]:
    """Write both sides as workers get them."""
    drafts = folder / "x.mp4", folder / "y.mp4"
    targets = folder / names[0], folder / names[1]
    encode_shown((made.high, made.low), drafts, made.shown, names, ColorSpec())
    write_alike(drafts, targets)
    return targets


#: Fields that depend on the pictures' quality and complexity.
PICTURES = {"slice_qp_delta", "bytes", "cabac_alignment_one_bit"}


@pytest.mark.parametrize("aspect", sorted(CHANGES.keys() - {"comprehensiveness"}))
def test_all_fields_of_headers_and_boxes_are_equal_on_both_sides(tmp_path: Path, aspect: str) -> None:
    targets = shown_alike(tmp_path, film(tmp_path, aspect, 2))
    data = [target.read_bytes() for target in targets]
    # the index with all its boxes precedes the frames
    assert data[0][: data[0].index(b"mdat")] == data[1][: data[1].index(b"mdat")]
    assert len(data[0]) == len(data[1])
    fields = [headers(target) for target in targets]
    for unit in (unit for side in fields for picture in side for unit in picture):
        for name in PICTURES:
            unit.pop(name, None)
    assert fields[0] == fields[1]


def test_each_shown_clip_of_each_side_has_its_own_quality_and_other_frames_are_copied(tmp_path: Path) -> None:
    made = film(tmp_path, "color", 2)
    same = Film(made.high, made.high, made.shown)
    targets = shown_alike(tmp_path, same)
    qualities, pictures = [], []
    for target in (made.high, *targets):
        with av.open(str(target)) as file:
            pictures.append([frame.to_ndarray().astype(int) for frame in file.decode(video=0)])
        qualities.append([units[-1]["slice_qp_delta"] for units in headers(target)])
    shown = {place for start, end in made.shown for place in range(round(start * FPS), round(end * FPS))}
    for place, (plain, *both) in enumerate(zip(*pictures, strict=True)):
        for one in both:
            assert np.array_equal(plain, one) == (place not in shown)
            # nobody sees it
            assert np.abs(plain - one).mean() < 4
    first = [round(start * FPS) for start, _ in made.shown]
    assert all(qualities[1][place] != qualities[2][place] for place in first)
    # the same draws again, and the other way round for swapped names
    again, swapped = tmp_path / "again", tmp_path / "swapped"
    again.mkdir()
    swapped.mkdir()
    data = [target.read_bytes() for target in targets]
    assert [target.read_bytes() for target in shown_alike(again, same)] == data
    assert [target.read_bytes() for target in shown_alike(swapped, same, NAMES[::-1])] == data[::-1]
