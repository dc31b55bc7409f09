"""No field of headers and boxes tells the two videos of a pair apart."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from tasks.annotation.alike import write_alike
from tests.tasks.annotation.adversary import written
from tests.tasks.annotation.shown_films import CHANGES, FPS, Film, film
from tests.tasks.media.trace import headers, idr_numbers, slices


@pytest.mark.parametrize("aspect", ["technical_quality", "comprehensiveness", "temporal_flow"])
def test_idr_pictures_are_numbered_by_their_order_on_both_sides(tmp_path: Path, aspect: str) -> None:
    made = film(tmp_path, aspect, 2)
    targets = tmp_path / "a.mp4", tmp_path / "b.mp4"
    joined = idr_numbers(made.low)
    assert any(first == second for first, second in pairwise(joined)), (
        "joined units repeat the encoder's numbers"
    )
    write_alike((made.high, made.low), targets, "key")
    for target in targets:
        numbers = idr_numbers(target)
        assert len(numbers) > 6
        assert numbers == [place % 2 for place in range(len(numbers))]


#: Fields that depend on the drawn quantiser.
DRAWN = {"slice_qp_delta", "cabac_alignment_one_bit"}


#: Other pixels, nearly empty slices, and moved clips; the other aspects are slow tests.
CHANGED = ("technical_quality", "dynamics_degree", "temporal_flow")
OTHERS = sorted(CHANGES.keys() - {"comprehensiveness", *CHANGED})


@pytest.mark.parametrize("aspect", [*CHANGED, *(pytest.param(one, marks=pytest.mark.slow) for one in OTHERS)])
def test_all_fields_of_headers_and_boxes_are_equal_on_both_sides(tmp_path: Path, aspect: str) -> None:
    targets = written(tmp_path, film(tmp_path, aspect, 2), "key")
    data = [target.read_bytes() for target in targets]
    # the index with all its boxes precedes the frames
    assert data[0][: data[0].index(b"mdat")] == data[1][: data[1].index(b"mdat")]
    assert len(data[0]) == len(data[1])
    fields = [headers(target) for target in targets]
    for unit in (unit for side in fields for picture in side for unit in picture):
        for name in DRAWN:
            unit.pop(name, None)
    assert fields[0] == fields[1]


def test_each_shown_clip_of_each_side_has_its_own_quality_and_other_frames_are_copied(tmp_path: Path) -> None:
    made = film(tmp_path, "color", 2)
    same = Film(made.high, made.high, made.shown)
    targets = written(tmp_path, same, "key")
    qualities, pictures = [], []
    for target in (made.high, *targets):
        with av.open(str(target)) as file:
            pictures.append([frame.to_ndarray().astype(int) for frame in file.decode(video=0)])
        qualities.append([units[-1]["slice_qp_delta"] for units in headers(target)])
    shown = {place for start, end in made.shown for place in range(round(start * FPS), round(end * FPS))}
    for place, (plain, *both) in enumerate(zip(*pictures, strict=True)):
        for one in both:
            assert np.array_equal(plain, one) == (place not in shown)
            # nobody sees it but in a corner
            difference = np.abs(plain - one)
            difference[:16, :16] = 0
            assert difference.mean() < 4
    for start, end in made.shown:
        drawn = [set(some[round(start * FPS) : round(end * FPS)]) for some in qualities[1:]]
        assert [len(some) for some in drawn] == [1, 1], "one quantiser for all frames of a clip"
        assert drawn[0] != drawn[1]
    # the same draws again, and others
    again, others = tmp_path / "again", tmp_path / "others"
    again.mkdir()
    others.mkdir()
    data = [target.read_bytes() for target in targets]
    assert [target.read_bytes() for target in written(again, same, "key")] == data
    assert [target.read_bytes() for target in written(others, same, "another")] != data


def test_shown_frames_in_which_nothing_moves_begin_otherwise(tmp_path: Path) -> None:
    """Such a slice is a few bytes that are known; equal ones would tell of a frozen clip."""
    made = film(tmp_path, "dynamics_degree", 2)
    shown = {place for start, end in made.shown for place in range(round(start * FPS), round(end * FPS))}
    plain, *both = (
        [one[8:14] for place, one in enumerate(slices(path)) if place in shown]
        for path in (made.low, *written(tmp_path, made, "key"))
    )
    assert len(set(plain)) < len(plain)
    for begun in both:
        assert len(set(begun)) == len(begun)
        # how the first macroblock begins says nothing of what moves: less than a sixth of first bytes recur
        most = np.bincount([one[0] for one in begun]).max()
        assert most < len(begun) / 6


def test_sizes_do_not_follow_the_drawn_quantisers(tmp_path: Path) -> None:
    """Otherwise they would go with those of the side that has more to code, and tell it."""
    made = film(tmp_path, "technical_quality", 2)
    first = [round(start * FPS) for start, _ in made.shown]
    sizes, quantisers = [], []
    for key in ("one", "two", "three"):
        target, _ = written(tmp_path, made, key)
        sizes.append([len(one) for place, one in enumerate(slices(target)) if place in first])
        quantisers.append([one[-1]["slice_qp_delta"] for one in headers(target)])
    # the noise in the corner, and a drawn byte, make little difference; a quantiser an eighth
    assert np.ptp(sizes, axis=0).max() < 0.03 * np.max(sizes)
    drawn = np.array(quantisers)[:, first]
    assert np.ptp(drawn, axis=0).max() >= 2
