"""Reports on sources are used again, and only while nothing that they came from has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flows.build import run
from flows.build.options import BuildOptions
from infra.progress import BuildProgress
from storage_schemas.analysis import CaptionAnalysis
from tasks.captions.rules import RulesAnalyser
from tasks.pairs import known_reports
from tests.inline import build_inline
from tests.resealed import reseal

AddFilm = Callable[[Path, int], Path]


@pytest.fixture
def inspected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the titles of the sources that were inspected while a build was prepared."""
    titles: list[str] = []
    inspect = run.inspect_stage

    def inspect_and_note(work, source, aspects):  # type: ignore[no-untyped-def]
        titles.append(source.title)
        return inspect(work, source, aspects)

    monkeypatch.setattr(run, "inspect_stage", inspect_and_note)
    return titles


def prepared(options: BuildOptions) -> run.Build:
    with BuildProgress(quiet=True) as progress:
        build = run.Build(options, progress)
        build.prepare()
    return build


@pytest.fixture
def one_aspect(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> BuildOptions:
    """Two built sources and one aspect; only one source is drawn."""
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    aspects = {"temporal_flow": options.recipe.aspects["temporal_flow"]}
    recipe = options.recipe.model_copy(update={"aspects": aspects, "pairs_per_bin": 1})
    options = options.model_copy(update={"recipe": recipe})
    build_inline(options)
    return options


def test_known_sources_are_not_inspected_again(one_aspect: BuildOptions, inspected: list[str]) -> None:
    build = prepared(one_aspect)
    assert len(build.reports) == 2
    assert inspected == []
    # neither is the source that was not drawn, so no workers are started
    assert build.idle()


def test_what_left_the_store_is_missed(one_aspect: BuildOptions, inspected: list[str]) -> None:
    release = build_inline(one_aspect).release
    release.store.remove("pair", release.pairs()[0].pair_id)
    build = prepared(one_aspect)
    assert inspected == []
    assert not build.idle()


def test_changed_sources_are_inspected_again(
    one_aspect: BuildOptions, inspected: list[str], tmp_path: Path
) -> None:
    release = build_inline(one_aspect).release
    drawn = Path(release.sources()[0].video)
    captions = drawn.with_suffix(".jsonl")
    lines = [json.loads(line) for line in captions.read_text().splitlines()]
    lines[0]["caption"] = "Nothing moves."
    captions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    build = prepared(one_aspect)
    assert not build.idle()
    assert [source.title for source in build._unknown()] == [drawn.stem]


def test_a_changed_video_of_equal_size_and_name_is_another_source(
    one_aspect: BuildOptions, tmp_path: Path
) -> None:
    drawn = Path(build_inline(one_aspect).release.sources()[0].video)
    before = set(prepared(one_aspect).sources)
    data = bytearray(drawn.read_bytes())
    data[-1] ^= 1
    state = drawn.stat()
    drawn.write_bytes(data)
    os.utime(drawn, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    build = prepared(one_aspect)
    assert set(build.sources) != before
    assert len(build._unknown()) == 1


def test_a_changed_analysis_or_program_is_noticed(
    one_aspect: BuildOptions, inspected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for path in (tmp_path / "store" / "artifacts" / "analysis").rglob("analyses.parquet"):
        os.utime(path, (1, 1))
    build = prepared(one_aspect)
    assert len(inspected) == 1
    # the source that was not drawn has no timeline yet: it is inspected by a worker
    assert len(build._unknown()) == 1
    inspected.clear()
    monkeypatch.setattr(known_reports, "version", lambda _: "another")
    assert len(prepared(one_aspect)._unknown()) == 1
    assert len(inspected) == 1


def test_a_predicted_report_is_not_kept_for_frames_that_another_build_stored(
    one_aspect: BuildOptions, tmp_path: Path
) -> None:
    build = prepared(one_aspect)
    (predicted,) = [report for report in build.reports.values() if not report.exact]
    for file in (tmp_path / "store" / "cache" / "reports").iterdir():
        file.unlink()
    # this build has inspected the source; before it keeps its report, another one stores the frames
    both = one_aspect.recipe.model_copy(update={"pairs_per_bin": 2})
    build_inline(one_aspect.model_copy(update={"recipe": both, "release": "other"}))
    for file in (tmp_path / "store" / "cache" / "reports").iterdir():
        file.unlink()
    again = known_reports.KnownReports(build.store, build.recipe, build.work.open()[1])
    again.keep(build.sources.values(), build.reports)
    later = prepared(one_aspect)
    assert later.reports[predicted.source_id].exact


def test_a_pair_that_was_made_again_is_listed_as_it_is_now(one_aspect: BuildOptions) -> None:
    release = build_inline(one_aspect).release
    (pair,) = release.pairs()
    path = release.store.artifact_path("pair", pair.pair_id)
    record = pair.model_copy(update={"low_checksum": "made again"})
    reseal(path, content=record.model_dump(mode="json"))
    (listed,) = build_inline(one_aspect).release.pairs()
    assert listed.low_checksum == "made again"


def test_a_damaged_file_only_costs_time(one_aspect: BuildOptions, tmp_path: Path) -> None:
    (file,) = (tmp_path / "store" / "cache" / "reports").iterdir()
    file.write_text("{")
    again = build_inline(one_aspect)
    assert not again.new
    assert json.loads(file.read_text())


def test_captions_of_clips_without_a_frame_are_not_analysed(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand captions within a second of video cost one analysis."""
    captions = add_film(tmp_path / "videos", 1).with_suffix(".jsonl")
    lines = [json.loads(line) for line in captions.read_text().splitlines()]
    begin = lines.pop()["start_s"]
    for number in range(1000):
        start_s = begin + number / 1000
        lines.append({"start_s": start_s, "end_s": start_s + 0.001, "caption": f"A dog runs, {number}."})
    captions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked: list[str] = []
    analyse = RulesAnalyser.analyse

    def noted(self: RulesAnalyser, captions: Sequence[str], *more: Any) -> list[CaptionAnalysis]:
        asked.extend(caption for caption in captions if caption)
        return analyse(self, captions, *more)

    monkeypatch.setattr(RulesAnalyser, "analyse", noted)
    aspects = {"temporal_flow": options.recipe.aspects["temporal_flow"]}
    options = options.model_copy(
        update={"recipe": options.recipe.model_copy(update={"aspects": aspects, "pairs_per_bin": 1})}
    )
    release = build_inline(options).release
    assert len(release.pairs()) == 1
    owned = [clip for clip in release.clips(release.sources()[0].source_id) if clip.frame_count]
    assert len(asked) == len(owned) == len(lines) - 999
    # and nothing of it again
    assert prepared(options).idle()
    assert len(asked) == len(owned)
