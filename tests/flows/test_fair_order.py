"""A source with very many captions holds up no other: its analysis is many small tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.release.options import BuildOptions
from flows.release.run import Build
from storage_schemas.errors import Reason
from storage_schemas.store import PAIR
from tasks.captions import stage as captions
from tasks.captions.rules import RulesAnalyser
from tasks.pairs.stages import StageResult
from tests.flows.small_builds import AddFilm, changed, with_recipe
from tests.inline import build_inline
from tests.small_films import CLIP_S, CLIPS, write_captions


def test_small_sources_have_their_pairs_before_a_huge_one_is_analysed(
    simple: BuildOptions, video: Path, add_film: AddFilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_film(video.parent, 2)
    huge = add_film(video.parent, 3).with_suffix(".jsonl")
    # a caption for each second
    line = {"caption": "A red ball rolls across the floor."}
    lines = [{"start_s": n, "end_s": n + 1, **line, "n": n} for n in range(CLIPS * CLIP_S)]
    write_captions(huge, lines)
    options = with_recipe(simple, clips_per_pair=2)
    order: list[str] = []
    sizes: list[int] = []
    analyse, take = RulesAnalyser.analyse, Build._take

    def counted(self: RulesAnalyser, texts: list[str], journal: object = None) -> object:
        sizes.append(len(texts))
        return analyse(self, texts)

    def noted(build: Build, outcome: StageResult) -> bool:
        resumes = take(build, outcome)
        title = build.state.sources[outcome.source_id].title
        if title == "film3" and outcome.report is not None and outcome.stage == "inspect":
            order.append("huge")
            order.extend("pair there" for _ in (build.store.root / "artifacts" / PAIR).glob("*/*"))
        return resumes

    with monkeypatch.context() as patch:
        patch.setattr(captions, "PART", CLIPS)
        patch.setattr(RulesAnalyser, "analyse", counted)
        patch.setattr(Build, "_take", noted)
        result = build_inline(options)
        assert not build_inline(options).new
    assert len(result.release.pairs()) == 3
    # the small ones have the same captions
    assert sizes == [CLIPS] * (1 + CLIP_S)
    assert order == ["huge", *["pair there"] * 2]
    whole = build_inline(changed(options, store=str(tmp_path / "other")))
    assert whole.release.manifest.content_checksum == result.release.manifest.content_checksum


def test_captions_that_are_far_too_many_set_one_source_aside(
    simple: BuildOptions, video: Path, add_film: AddFilm
) -> None:
    film = add_film(video.parent, 2)
    rows = ({"start_s": n / 600, "end_s": (n + 1) / 600, "caption": "A ball."} for n in range(25_000))
    film.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = build_inline(simple)
    assert [row.reason for row in result.set_aside] == [Reason.CAPTIONS_MALFORMED]
    assert "25,000 captioned clips" in result.set_aside[0].message
    assert len(result.release.pairs()) == 1
