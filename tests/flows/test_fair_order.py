"""A source with very many captions holds up no other: its analysis is many small tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.build.options import BuildOptions
from flows.build.run import Build
from storage_schemas.errors import Reason
from storage_schemas.store import PAIR
from tasks.captions import stage as captions
from tasks.captions.rules import RulesAnalyser
from tasks.pairs.stages import StageResult
from tests.inline import build_inline
from tests.small_films import CLIP_S, CLIPS, write_captions

AddFilm = Callable[[Path, int], Path]


@pytest.fixture
def one_aspect(options: BuildOptions) -> BuildOptions:
    aspects = {"aesthetics": options.recipe.aspects["aesthetics"]}
    return options.model_copy(update={"recipe": options.recipe.model_copy(update={"aspects": aspects})})


def many_captions(video: Path) -> None:
    """Give a film a caption for each of its seconds."""
    line = {"caption": "A red ball rolls across the floor."}
    write_captions(
        video.with_suffix(".jsonl"),
        [{"start_s": n, "end_s": n + 1, **line, "n": n} for n in range(CLIPS * CLIP_S)],
    )


def test_pairs_of_small_sources_are_there_before_a_huge_one_is_analysed(
    one_aspect: BuildOptions, add_film: AddFilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 5):
        add_film(tmp_path / "videos", number)
    many_captions(add_film(tmp_path / "videos", 5))
    recipe = one_aspect.recipe.model_copy(update={"clips_per_pair": 2})
    options = one_aspect.model_copy(update={"recipe": recipe})
    monkeypatch.setattr(captions, "PART", CLIPS)
    sizes: list[int] = []
    analyse = RulesAnalyser.analyse

    def counted(self: RulesAnalyser, texts: list[str], journal: object = None) -> object:
        sizes.append(len(texts))
        return analyse(self, texts)

    monkeypatch.setattr(RulesAnalyser, "analyse", counted)
    order: list[str] = []
    take = Build._take

    def noted(build: Build, outcome: StageResult) -> bool:
        goes_on = take(build, outcome)
        title = build.sources[outcome.source_id].title
        huge = title == "film5"
        if huge and outcome.report is not None and outcome.stage == "inspect":
            order.append("huge")
            pairs = (build.store.root / "artifacts" / PAIR).glob("*/*")
            order.extend("pair there" for _ in pairs)
        return goes_on

    monkeypatch.setattr(Build, "_take", noted)
    result = build_inline(options)
    assert len(result.release.pairs()) == 5
    # the small ones have the same captions
    assert sizes == [CLIPS] * (1 + CLIP_S)
    assert order == ["huge", *["pair there"] * 4]
    assert not build_inline(options).new
    monkeypatch.undo()
    whole = build_inline(options.model_copy(update={"store": str(tmp_path / "other")}))
    assert whole.release.manifest.content_checksum == result.release.manifest.content_checksum


def test_far_too_many_captions_set_one_source_aside(
    one_aspect: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    film = add_film(tmp_path / "videos", 2)
    rows = ({"start_s": n / 2500, "end_s": (n + 1) / 2500, "caption": "A ball."} for n in range(100_000))
    film.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = build_inline(one_aspect)
    assert [row.reason for row in result.set_aside] == [Reason.CAPTIONS_MALFORMED]
    assert "100,000 captioned clips" in result.set_aside[0].message
    assert len(result.release.pairs()) == 1
