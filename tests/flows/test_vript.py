"""A data set in Vript's layout is built like a folder of videos."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flows.build.options import BuildOptions, SourceRoot
from storage_schemas.errors import Reason
from tests.inline import build_inline
from tests.vript_layout import write_vript_layout

AddFilm = Callable[[Path, int], Path]

VARIANTS: dict[str, dict[str, object]] = {
    "cut metadata in seconds": {"boundaries": "cut_meta", "times": "seconds"},
    "cut metadata in time codes": {"boundaries": "cut_meta", "times": "timecode"},
    "durations of the transcript": {"boundaries": "transcript"},
    "zip archives": {"boundaries": "cut_meta", "zipped": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_gives_the_clips_of_the_captions(
    variant: str, options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    film = add_film(tmp_path / "films", 1)
    root = tmp_path / "vript"
    settings = VARIANTS[variant]
    write_vript_layout(film, film.with_suffix(".jsonl"), root, video_id="a film-01", **settings)  # type: ignore[arg-type]
    source = SourceRoot(
        kind="vript", path=str(root), options={"unpack": True} if settings.get("zipped") else {}
    )
    aspects = {"aesthetics": options.recipe.aspects["aesthetics"]}
    recipe = options.recipe.model_copy(update={"aspects": aspects})
    result = build_inline(options.model_copy(update={"sources": (source,), "recipe": recipe}))
    assert result.exit_code == 0
    (row,) = result.release.sources()
    assert (row.source_id, row.adapter, row.redistributable) == ("a film-01", "vript", False)
    assert row.content_category == "Film & Animation"
    clips = result.release.clips(row.source_id)
    assert [(clip.start_s, clip.end_s) for clip in clips] == [(3.0 * n, 3.0 * n + 3) for n in range(14)]
    assert len(result.release.pairs()) == 1


def test_without_boundaries_a_video_is_set_aside(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    film = add_film(tmp_path / "films", 1)
    root = tmp_path / "vript"
    write_vript_layout(film, film.with_suffix(".jsonl"), root, video_id="bare", boundaries="none")
    source = SourceRoot(kind="vript", path=str(root))
    result = build_inline(options.model_copy(update={"sources": (source,)}))
    assert [row.reason for row in result.set_aside] == [Reason.CLIP_BOUNDARIES_MISSING]
