"""Planes and RGB: FFmpeg's conversion, exact round trips, views, the masked merge."""

from __future__ import annotations

import subprocess
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from storage_schemas.frames import ColorSpec
from tasks.media.planes import empty_planes, merge_masked, planes_to_rgb, rgb_to_planes, split_planes

SPECS = [ColorSpec(matrix, full) for matrix, full in product(("bt601", "bt709", "bt2020"), (False, True))]
SIDE = 16 * 16


@pytest.mark.parametrize("color", SPECS, ids=str)
def test_planes_to_rgb_is_ffmpegs_on_flat_patches(color: ColorSpec, ffmpeg: str) -> None:
    levels = np.zeros((16, 16, 3), np.uint8)
    levels.reshape(-1, 3)[: 6**3] = list(product(range(0, 256, 51), repeat=3))
    planes = rgb_to_planes(levels.repeat(16, 0).repeat(16, 1)[None], color)
    scale = (
        f"scale=in_color_matrix={color.matrix}:in_range={'pc' if color.full_range else 'tv'}"
        ":out_range=pc:flags=accurate_rnd+full_chroma_int+neighbor,format=gbrp"
    )
    raw_video = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{SIDE}x{SIDE}"]
    command = [ffmpeg, "-v", "error", *raw_video, "-i", "-", "-vf", scale, "-f", "rawvideo", "-"]
    raw = subprocess.run(command, input=planes.tobytes(), capture_output=True, check=True).stdout
    expected = np.frombuffer(raw, np.uint8).reshape(3, SIDE, SIDE)[[2, 0, 1]].transpose(1, 2, 0)
    middles = np.s_[8::16, 8::16]
    result = planes_to_rgb(planes, color)[0].astype(int)
    assert np.abs(result[middles] - expected[middles]).max() <= 2

    grey = np.broadcast_to(np.arange(256, dtype=np.uint8)[None, None, :, None], (1, 4, 256, 3))
    planes = rgb_to_planes(grey, color)
    views = split_planes(planes)
    assert (views.u == 128).all() and (views.v == 128).all()
    assert (views.y.min(), views.y.max()) == ((0, 255) if color.full_range else (16, 235))
    assert (planes_to_rgb(planes, color)[..., :] == grey).mean() > (0.99 if color.full_range else 0.85)
    assert np.abs(planes_to_rgb(planes, color).astype(int) - grey).max() <= 1


@pytest.mark.parametrize("color", SPECS, ids=str)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_colours_inside_rgb_come_back(color: ColorSpec, data: st.DataObject) -> None:
    # luma is free from pixel to pixel; chroma near grey, so that no pixel leaves RGB
    luma = data.draw(arrays(np.uint8, (1, 8, 12), elements=st.integers(90, 160)))
    chroma = data.draw(arrays(np.uint8, (1, 4, 12), elements=st.integers(108, 148)))
    planes = np.concatenate([luma, chroma], axis=1)
    back = rgb_to_planes(planes_to_rgb(planes, color), color)
    difference = np.abs(back.astype(int) - planes).max()
    assert difference <= (1 if color.full_range else 0)


@settings(max_examples=30, deadline=None)
@given(rgb=arrays(np.uint8, (2, 8, 8, 3)))
def test_chroma_is_the_mean_of_its_pixels(rgb: np.ndarray) -> None:
    color = ColorSpec("bt601", full_range=True)
    mean = rgb.reshape(2, 4, 2, 4, 2, 3).astype(float).mean(axis=(2, 4))
    expected = mean @ np.array([-0.168736, -0.331264, 0.5]) + 128
    assert np.abs(split_planes(rgb_to_planes(rgb, color)).u - expected).max() <= 0.51


def test_chroma_goes_up_by_replication() -> None:
    planes = empty_planes(1, 16, 16)
    planes[:] = 128
    split_planes(planes).u[:] = np.random.default_rng(0).integers(60, 200, (1, 8, 8))
    blocks = planes_to_rgb(planes, ColorSpec()).reshape(8, 2, 8, 2, 3)
    assert (blocks == blocks[:, :1, :, :1]).all()


def test_views_write_through_and_follow_i420() -> None:
    planes = np.arange(2 * 12 * 4, dtype=np.uint8).reshape(2, 12, 4)
    views = split_planes(planes)
    assert (views.y.shape, views.u.shape, views.v.shape) == ((2, 8, 4), (2, 4, 2), (2, 4, 2))
    assert views.u[0].ravel().tolist() == list(range(32, 40))
    assert views.v[0].ravel().tolist() == list(range(40, 48))
    views.v[1, 3, 1] = 7
    assert planes[1, -1, -1] == 7
    assert split_planes(planes[1]).v[3, 1] == 7
    for shape in ((10, 4), (12, 3), (1, 9, 4)):
        with pytest.raises(ValueError, match="multiple of 6"):
            split_planes(np.zeros(shape, np.uint8))
    with pytest.raises(ValueError, match="contiguous"):
        split_planes(np.zeros((12, 8), np.uint8)[:, :4])


@settings(max_examples=40, deadline=None)
@given(
    original=arrays(np.uint8, (1, 12, 8)),
    changed=arrays(np.uint8, (1, 12, 8)),
    mask=arrays(np.bool_, (1, 8, 8)),
)
def test_merge_masked_changes_the_mask(original: np.ndarray, changed: np.ndarray, mask: np.ndarray) -> None:
    kept = original.copy()
    merged = merge_masked(original, changed, mask)
    assert (original == kept).all()
    color = ColorSpec()
    before, after = planes_to_rgb(original, color), planes_to_rgb(merged, color)
    assert (before[~mask] == after[~mask]).all()
    old, new, out = split_planes(original), split_planes(changed), split_planes(merged)
    assert (out.y == np.where(mask, new.y, old.y)).all()
    whole = mask.reshape(1, 4, 2, 4, 2).all(axis=(2, 4))
    assert (out.u == np.where(whole, new.u, old.u)).all()
    assert (out.v == np.where(whole, new.v, old.v)).all()
    # one mask for all frames
    assert (merge_masked(original, changed, np.ones((8, 8), np.bool_)) == changed).all()
