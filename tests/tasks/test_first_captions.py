"""Films become clips at their scenes."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import Reason, SetAside
from tasks.first_captions import (
    CaptionParameters,
    Film,
    clip_bounds,
    count_blank,
    cut,
    find_films,
    write_captions,
)
from tasks.sources.clips import CaptionLine


@given(
    st.lists(st.integers(1, 60_000), min_size=1, max_size=30, unique=True),
    st.floats(0.5, 5),
    st.floats(0.5, 20),
)
def test_clips_cover_a_film_with_their_lengths(ends: list[int], shortest_s: float, longest_s: float) -> None:
    times = [0.0, *(end / 1000 for end in sorted(ends))]
    bounds = clip_bounds(times, shortest_s, longest_s)
    assert (bounds[0][0], bounds[-1][1]) == (0.0, times[-1])
    assert all(before[1] == after[0] for before, after in pairwise(bounds))
    lengths = [end - start for start, end in bounds]
    # times are rounded down to a thousandth
    assert min(lengths) >= min(shortest_s, times[-1]) - 0.0011
    assert max(lengths) <= max(longest_s, 2 * shortest_s) + 0.0011


def test_a_cut_begins_a_clip(ffmpeg: str, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    colours = [f"color={name}:size=64x48:rate=12:duration={s}" for name, s in (("white", 3.25), ("black", 5))]
    inputs = [word for one in colours for word in ("-f", "lavfi", "-i", one)]
    command = [ffmpeg, "-v", "error", *inputs, "-filter_complex", "[0][1]concat", "-pix_fmt", "yuv420p"]
    subprocess.run([*command, "-threads", "1", str(path)], check=True, timeout=60)
    film = Film("film.mp4", path, path.with_suffix(".jsonl"))
    clips = cut(film, CaptionParameters(longest_s=60)).clips
    assert [clip.start_s for clip in clips] == pytest.approx([0.0, 3.25, 5.75], abs=0.001)
    assert clips[-1].end_s == pytest.approx(8.25)


def test_write_captions_leaves_a_file_that_an_editor_has_just_emptied(tmp_path: Path) -> None:
    clip = CaptionLine(0.0, 4.0, "", "")
    film = Film("a.mp4", tmp_path / "a.mp4", tmp_path / "a.jsonl", (clip,))
    film.captions.write_text("")
    with pytest.raises(SetAside, match=r"a\.jsonl is empty, and had clips"):
        write_captions(film, {clip: "A ball."})
    assert film.captions.read_text() == ""


@pytest.mark.parametrize("content", [b"", b"\n", b"[]", b"\xef\xbb\xbf"])
def test_write_captions_replaces_a_file_without_clips(content: bytes, tmp_path: Path) -> None:
    clip = CaptionLine(0.0, 4.0, "", "")
    film = Film("a.mp4", tmp_path / "a.mp4", tmp_path / "a.jsonl", (clip,))
    film.captions.write_bytes(content)
    write_captions(film, {})
    assert count_blank(film) == 1
    write_captions(film, {clip: "A ball."}, "tiny")
    assert (count_blank(film), "A ball." in film.captions.read_text()) == (0, True)


def test_find_films_names_a_table_without_captions(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"film")
    (tmp_path / "a.csv").write_text("start_s,end_s,caption\n0,4,\n")
    ((location, problem),) = find_films(tmp_path)
    assert isinstance(problem, SetAside)
    assert (location, problem.reason) == ("a.mp4", Reason.CAPTIONS_EMPTY)


def test_find_films_refuses_captions_behind_a_link_that_leads_out(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("")
    videos = tmp_path / "videos"
    videos.mkdir()
    (videos / "a.mp4").write_bytes(b"film")
    (videos / "a.jsonl").symlink_to(tmp_path / "out.jsonl")
    ((location, problem),) = find_films(videos)
    assert (location, problem.reason) == ("a.mp4", Reason.UNSAFE_PATH)
