"""Excerpts through a build: verified, rebuilt equal, judged and exported; nothing changes without."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import pytest

from flows.release.options import BuildOptions
from flows.release.result import BuildResult
from flows.score.evaluate_run import Evaluation, estimate
from flows.score.options import EvaluateOptions, evaluate_options
from flows.score.parameters import EvaluateParameters
from flows.score.results import RequestProgress
from slvmeval.cli.main import main
from storage_schemas.errors import UserInputError
from storage_schemas.pair import Excerpt
from storage_schemas.parquet import read_dicts
from storage_schemas.release import Release
from storage_schemas.store import DEGRADED_CLIP, FRAMES
from tasks.pairs.verify import verify_deep
from tasks.pairs.view import open_pair
from tasks.publish.export import export_recipe, export_release
from tasks.publish.gallery.data import with_videos
from tasks.publish.gallery.write import write_gallery
from tasks.publish.pair_videos import materialise_pair
from tasks.recipe import Lengths, load_recipe
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import report_of
from tasks.report.write import write_report
from tasks.scoring.registry import choice_from_text
from tests.flows.small_builds import changed, only
from tests.inline import build_inline, evaluate_inline
from tests.small_films import FilmsOfModule
from tests.tasks.publish.pages import Elements

ASPECTS = ("aesthetics", "comprehensiveness", "dynamics_degree", "temporal_flow")
LENGTHS = Lengths(shares=(0.5, 0.75), positions=("early", "late"))


@pytest.fixture(scope="module")
def site(films_of_module: FilmsOfModule) -> BuildOptions:
    return only(films_of_module(1), *ASPECTS, lengths=LENGTHS, name="with-lengths")


@pytest.fixture(scope="module")
def built(site: BuildOptions) -> BuildResult:
    return build_inline(site)


@pytest.mark.slow
def test_excerpt_shows_the_same_damage_and_is_verified(built: BuildResult) -> None:
    assert built.exit_code == 0
    store, release = built.release.store, built.release
    excerpts = [record for record in release.pairs() if record.excerpt is not None]
    assert {record.aspect for record in excerpts} == set(ASPECTS)
    for record in excerpts:
        assert verify_deep(store, record) == []
    (source,) = release.sources()
    for aspect in ASPECTS:
        some = [record for record in excerpts if record.aspect == aspect]
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
    assert plain.pairs() == whole
    assert "lengths" not in plain.recipe
    assert "excerpt" not in next(iter(read_dicts(plain.path / "pairs.parquet")))
    assert not build_inline(site).new


@pytest.mark.parametrize(
    ("selection", "is_wanted"),
    [
        ({}, lambda _: True),
        ({"lengths": ["excerpts"]}, lambda excerpt: excerpt is not None),
        ({"lengths": ["none"]}, lambda excerpt: excerpt is None),
        ({"lengths": ["0.50", "1"]}, lambda excerpt: excerpt and excerpt.share in (0.5, 1)),
        ({"positions": ["early"]}, lambda excerpt: excerpt and excerpt.position == "early"),
        (
            {"lengths": ["0.5"], "positions": ["own", "late"]},
            lambda excerpt: excerpt and excerpt.share == 0.5 and excerpt.position in ("own", "late"),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_evaluation_and_its_estimate_follow_the_selected_excerpts(
    selection: dict[str, Any], is_wanted: Callable[[Excerpt | None], object], built: BuildResult
) -> None:
    store, records = built.release.store, built.release.pairs()
    wanted = {record.pair_id for record in records if is_wanted(record.excerpt)}
    assert wanted
    given = EvaluateParameters(store=str(store.root), evaluators=("coin",), repeats=2, **selection)
    evaluation = Evaluation(evaluate_options(given, given.site()), RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    (judge,) = evaluation.judges
    assert {pair.pair_id for pair in evaluation.wanted} == wanted
    assert {request.pair.pair_id for request in judge.units} == wanted
    assert sum(row.requests for row in estimate(evaluation)) == len({request.key for request in judge.units})


def test_prepare_refuses_lengths_that_do_not_occur_and_searches_without_pairs(built: BuildResult) -> None:
    def prepare(**given: Any) -> None:
        parameters = EvaluateParameters(store=str(built.release.store.root), evaluators=("coin",), **given)
        options = evaluate_options(parameters, parameters.site())
        Evaluation(options, RequestProgress(quiet=True)).prepare()

    with pytest.raises(UserInputError, match=r"the length '0.3': there are 0.5, 0.75, 1, excerpts, none"):
        prepare(lengths=("0.3",))
    with pytest.raises(UserInputError, match=r"the position 'middle': there are early, late, own"):
        prepare(positions=("middle",))
    with pytest.raises(UserInputError, match="uses neither controls nor excerpts"):
        prepare(lengths=("excerpts",), adaptive=True)


def test_report_has_accuracies_by_length(built: BuildResult, tmp_path: Path) -> None:
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
    assert rows[-1]["sources"] == 1
    changes = [row for row in report.tables["length-change"].rows if row["evaluator"] == "duration"]
    assert changes
    assert all(row["difference"] == 0 for row in changes)
    assert "length" in report.figures
    only = report_of(replace(gathered, trials=(), all_trials=()))
    page = write_report(only, tmp_path / "report").read_text(encoding="utf-8")
    assert "Only excerpts were judged, which no accuracy contains." in page
    assert not re.search("of 0 sources|<dt>Aspects|aspects-by-evaluators|Per cent of answers", page)


def decoded(path: Path) -> list[bytes]:
    with av.open(str(path)) as video:
        return [frame.to_ndarray().tobytes() for frame in video.decode(video=0)]


def test_gallery_shows_excerpts_as_parts_of_videos_that_are_there(built: BuildResult, tmp_path: Path) -> None:
    store, release = built.release.store, built.release
    root = write_gallery(store, release, tmp_path / "gallery").parent
    records = {record.pair_id: record for record in release.pairs()}
    seen = 0
    for page in (root / "sources").iterdir():
        data = json.loads(Elements(page).texts["data"])
        source = data["source"]
        high = decoded(root / source["media"] / "high.mp4")
        for pair in (one for one in data["pairs"] if one["excerpt"]):
            record = records[pair["id"]]
            assert record.excerpt is not None
            assert pair["excerpt"] == {"share": record.excerpt.share, "position": record.excerpt.position}
            # what the page plays is what judges see
            sides = materialise_pair(store, record, release.clips(record.source_id), tmp_path / pair["slug"])
            low = decoded(root / source["media"] / f"{pair['video']}.mp4")
            assert high[pair["first"] :][: record.high_frames] == decoded(sides["high"])
            assert low[pair["video_first"] :][: record.low_frames] == decoded(sides["low"])
            assert (root / pair["sheet"]).is_file()
            # one video for all excerpts around a damage
            assert (pair["video"] == pair["slug"]) == (record.excerpt.share == 1)
            seen += 1
    assert seen == sum(record.excerpt is not None for record in records.values())


def test_excerpt_without_the_whole_film_has_a_video_of_its_own(built: BuildResult) -> None:
    records = [r for r in built.release.pairs() if r.excerpt is None or r.excerpt.share < 1]
    assert with_videos(records) == records


def test_pairs_command_says_which_are_excerpts(
    built: BuildResult, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    store = str(built.release.store.root)
    assert main(["pairs", "--store", store]) == 0
    some = [record for record in built.release.pairs() if record.excerpt]
    assert capsys.readouterr().out.count(", excerpt of ") == len(some)
    record = next(one for one in some if one.excerpt and one.excerpt.position == "early")
    assert main(["pairs", "--pair", record.pair_id, "--store", store]) == 0
    last = record.first_frame + record.high_frames - 1
    assert record.excerpt is not None
    line = f"excerpt    {record.excerpt.share:g}, damage early: frames {record.first_frame} to {last} of 42"
    assert line in capsys.readouterr().out


def test_export_has_both_videos_of_excerpts(built: BuildResult, tmp_path: Path) -> None:
    export_release(built.release.store, built.release, tmp_path / "export", private=True)
    rows = list(read_dicts(tmp_path / "export" / "data" / "pairs.parquet"))
    short = [row for row in rows if row["length_share"] < 1]
    assert short
    for row in short:
        for side in ("high", "low"):
            with av.open(str(tmp_path / "export" / row[f"{side}_video"])) as video:
                assert video.streams.video[0].frames == row[f"{side}_frames"]
