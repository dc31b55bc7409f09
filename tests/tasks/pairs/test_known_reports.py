"""Reports on sources are used again, and only while nothing that they came from has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flows.release import run
from flows.release.missing import unknown_sources
from flows.release.options import BuildOptions
from infra.progress import BuildProgress
from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.captions.rules import RulesAnalyser
from tasks.pairs import known_reports
from tasks.recipe import Recipe
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


def of_one_aspect(recipe: Recipe) -> Recipe:
    aspects = {"temporal_flow": recipe.aspects["temporal_flow"]}
    return recipe.model_copy(update={"aspects": aspects, "pairs_per_bin": 1})


@pytest.fixture
def one_aspect(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> BuildOptions:
    """Two built sources and one aspect; only one source is drawn."""
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    options = options.model_copy(update={"recipe": of_one_aspect(options.recipe)})
    build_inline(options)
    return options


def release_of(options: BuildOptions) -> Release:
    return Release.open(Store.open(Path(options.store)), options.release)


def reports_of(options: BuildOptions) -> list[Path]:
    return list((Path(options.store) / "cache" / "reports").iterdir())


def change_captions(video: Path, change: Callable[[list[dict[str, Any]]], None]) -> int:
    """Change a video's captions, and return how many there are now."""
    path = video.with_suffix(".jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return len(lines)


def test_known_sources_are_not_inspected_again(one_aspect: BuildOptions, inspected: list[str]) -> None:
    build = prepared(one_aspect)
    assert len(build.state.reports) == 2
    # neither is the source that was not drawn, so no workers are started
    assert build.idle()
    # what left the store is missed
    release = release_of(one_aspect)
    release.store.remove("pair", release.pairs()[0].pair_id)
    assert not prepared(one_aspect).idle()
    assert inspected == []


def test_changed_sources_are_inspected_again(one_aspect: BuildOptions) -> None:
    drawn = Path(release_of(one_aspect).sources()[0].video)
    change_captions(drawn, lambda lines: lines[0].update(caption="Nothing moves."))
    build = prepared(one_aspect)
    assert not build.idle()
    assert [source.title for source in unknown_sources(build.state)] == [drawn.stem]


def test_changed_video_of_equal_size_and_name_is_another_source(one_aspect: BuildOptions) -> None:
    drawn = Path(release_of(one_aspect).sources()[0].video)
    before = set(prepared(one_aspect).state.sources)
    data = bytearray(drawn.read_bytes())
    data[-1] ^= 1
    state = drawn.stat()
    drawn.write_bytes(data)
    os.utime(drawn, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    build = prepared(one_aspect)
    assert set(build.state.sources) != before
    assert len(unknown_sources(build.state)) == 1


def test_a_changed_analysis_or_program_is_noticed(
    one_aspect: BuildOptions, inspected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (Path(one_aspect.store) / "artifacts" / "analysis").rglob("analyses.parquet"):
        os.utime(path, (1, 1))
    build = prepared(one_aspect)
    assert len(inspected) == 1
    # the source that was not drawn has no timeline yet: it is inspected by a worker
    assert len(unknown_sources(build.state)) == 1
    inspected.clear()
    monkeypatch.setattr(known_reports, "version", lambda _: "another")
    assert len(unknown_sources(prepared(one_aspect).state)) == 1
    assert len(inspected) == 1


def test_predicted_report_is_not_kept_for_frames_of_another_build(one_aspect: BuildOptions) -> None:
    build = prepared(one_aspect)
    (predicted,) = [report for report in build.state.reports.values() if not report.exact]
    for file in reports_of(one_aspect):
        file.unlink()
    # this build has inspected the source; before it keeps its report, another one stores the frames
    both = one_aspect.recipe.model_copy(update={"pairs_per_bin": 2})
    build_inline(one_aspect.model_copy(update={"recipe": both, "release": "other"}))
    for file in reports_of(one_aspect):
        file.unlink()
    again = known_reports.KnownReports(build.store, build.recipe, build.work.open()[1])
    again.keep(build.state.sources.values(), build.state.reports)
    later = prepared(one_aspect)
    assert later.state.reports[predicted.source_id].exact


def test_a_pair_that_was_made_again_is_listed_as_it_is_now(one_aspect: BuildOptions) -> None:
    release = release_of(one_aspect)
    (pair,) = release.pairs()
    record = pair.model_copy(update={"low_checksum": "made again"})
    reseal(release.store.artifact_path("pair", pair.pair_id), content=record.model_dump(mode="json"))
    (listed,) = build_inline(one_aspect).release.pairs()
    assert listed.low_checksum == "made again"


def test_a_damaged_report_only_costs_time(one_aspect: BuildOptions) -> None:
    (file,) = reports_of(one_aspect)
    file.write_text("{")
    assert not build_inline(one_aspect).new
    assert json.loads(file.read_text())


def test_captions_of_clips_without_a_frame_are_not_analysed(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand captions within a second of video cost one analysis."""

    def crowd(lines: list[dict[str, Any]]) -> None:
        begin = lines.pop()["start_s"]
        for number in range(1000):
            start_s = begin + number / 1000
            caption = f"A dog runs, {number}."
            lines.append({"start_s": start_s, "end_s": start_s + 0.001, "caption": caption})

    count = change_captions(add_film(tmp_path / "videos", 1), crowd)
    asked: list[str] = []
    analyse = RulesAnalyser.analyse

    def noted(self: RulesAnalyser, captions: Sequence[str], *more: Any) -> list[CaptionAnalysis]:
        asked.extend(caption for caption in captions if caption)
        return analyse(self, captions, *more)

    monkeypatch.setattr(RulesAnalyser, "analyse", noted)
    options = options.model_copy(update={"recipe": of_one_aspect(options.recipe)})
    release = build_inline(options).release
    assert len(release.pairs()) == 1
    owned = [clip for clip in release.clips(release.sources()[0].source_id) if clip.frame_count]
    assert len(asked) == len(owned) == count - 999
    # and nothing of it again
    assert prepared(options).idle()
    assert len(asked) == len(owned)
