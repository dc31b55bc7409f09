"""Excerpts through a build: verified, rebuilt equal, judged and exported; nothing changes without."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from flows.release.options import BuildOptions, SourceRoot
from flows.release.result import BuildResult
from flows.score.options import EvaluateOptions
from storage_schemas.parquet import read_dicts
from storage_schemas.release import Release
from storage_schemas.store import DEGRADED_CLIP, FRAMES
from tasks.pairs.verify import verify_deep
from tasks.pairs.view import open_pair
from tasks.publish.export import export_recipe, export_release
from tasks.publish.gallery.data import whole_pairs
from tasks.recipe import Lengths, Recipe, load_recipe
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import report_of
from tasks.scoring.registry import choice_from_text
from tests.flows.small_builds import AddFilm, changed, only
from tests.inline import build_inline, evaluate_inline

ASPECTS = ("aesthetics", "comprehensiveness", "dynamics_degree", "temporal_flow")
LENGTHS = Lengths(shares=(0.5, 0.75), positions=("early", "late"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, add_film: AddFilm, small_recipe: Recipe) -> BuildOptions:
    folder = tmp_path_factory.mktemp("lengths")
    for number in (1, 2):
        add_film(folder / "videos", number)
    sources = (SourceRoot(path=str(folder / "videos")),)
    options = BuildOptions(store=str(folder / "store"), sources=sources, recipe=small_recipe)
    return only(options, *ASPECTS, lengths=LENGTHS, name="with-lengths")


@pytest.fixture(scope="module")
def built(site: BuildOptions) -> BuildResult:
    return build_inline(site)


@pytest.mark.slow
def test_excerpts_show_the_same_damage_and_are_verified(built: BuildResult) -> None:
    assert built.exit_code == 0
    store, release = built.release.store, built.release
    excerpts = [record for record in release.pairs() if record.excerpt is not None]
    assert {record.aspect for record in excerpts} == set(ASPECTS)
    for record in excerpts:
        assert verify_deep(store, record) == []
    for aspect in ASPECTS:
        for source in release.sources():
            some = [r for r in excerpts if (r.aspect, r.source_id) == (aspect, source.source_id)]
            assert len({r.drawn_clips for r in some}) == 1
            clips = {s.degraded_clip for r in some for s in r.segments if s.degraded_clip}
            assert len(clips) == (1 if aspect == "aesthetics" else 0)
            shares = {r.excerpt.share: r for r in some if r.excerpt and r.excerpt.position == "own"}
            whole = shares[1.0]
            assert whole.high_frames == source.frame_count
            for share, record in shares.items():
                if share < 1:
                    assert record.high_frames < whole.high_frames
                    prompt = open_pair(store, release, record.pair_id).prompt
                    assert prompt in release.prompt(source.source_id)
                    assert 0 < len(prompt) < len(release.prompt(source.source_id))


def test_excerpts_copy_no_video_and_are_rebuilt_equal(
    site: BuildOptions, built: BuildResult, tmp_path: Path
) -> None:
    without = only(site, *ASPECTS, lengths=Lengths(), name="plain")
    plain = build_inline(changed(without, store=str(tmp_path / "plain"))).release
    counts = {
        kind: [len(list(one.store.manifests(kind))) for one in (built.release, plain)]
        for kind in (FRAMES, DEGRADED_CLIP)
    }
    # the clip of the excerpts is one of the main pair's
    assert all(one == other for one, other in counts.values())
    pinned = load_recipe(str(export_recipe(built.release, tmp_path / "pinned.json")))
    other = build_inline(changed(site, store=str(tmp_path / "other"), recipe=pinned))
    assert other.release.manifest.content_checksum == built.release.manifest.content_checksum
    # without excerpts a release is what it was before there were any
    whole = [record for record in built.release.pairs() if record.excerpt is None]
    assert plain.pairs() == whole == whole_pairs(built.release)
    assert "lengths" not in plain.recipe
    assert "excerpt" not in next(iter(read_dicts(plain.path / "pairs.parquet")))
    assert not build_inline(site).new


def test_judges_are_asked_with_the_excerpts_prompt_and_reported_by_length(built: BuildResult) -> None:
    store = built.release.store
    chosen = tuple(choice_from_text(name) for name in ("duration", "contrast"))
    assert (
        evaluate_inline(
            EvaluateOptions.model_validate({"store": str(store.root), "evaluators": chosen})
        ).exit_code
        == 0
    )
    gathered = load_judged_release(Release.open(store))
    assert not any(trial.pair.length for trial in gathered.all_trials)
    report = report_of(gathered)
    rows = [
        row
        for row in report.tables["length"].rows
        if (row["aspect"], row["evaluator"], row["position"]) == ("comprehensiveness", "duration", "own")
    ]
    # what has lost a clip is shorter, however long the excerpt
    assert [row["accuracy"] for row in rows] == [1.0] * len(rows)
    assert rows[-1]["share"] == 1.0
    assert rows[-1]["sources"] == 2
    changes = [row for row in report.tables["length-change"].rows if row["evaluator"] == "duration"]
    assert changes
    assert all(row["difference"] == 0 for row in changes)
    assert "length" in report.figures


def test_exported_excerpts_have_both_videos(built: BuildResult, tmp_path: Path) -> None:
    export_release(built.release.store, built.release, tmp_path / "export", private=True)
    rows = list(read_dicts(tmp_path / "export" / "data" / "pairs.parquet"))
    short = [row for row in rows if row["length_share"] < 1]
    assert short
    for row in short:
        for side in ("high", "low"):
            with av.open(str(tmp_path / "export" / row[f"{side}_video"])) as video:
                assert video.streams.video[0].frames == row[f"{side}_frames"]
