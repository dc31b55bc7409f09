"""People judge controls at the desk, over real HTTP: an unequal one leaves the release, with a reason."""

from __future__ import annotations

import csv
import io
from contextlib import ExitStack
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from flows.release.options import BuildOptions, SourceRoot
from storage_schemas.parquet import read_dicts
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.recipe import Lengths, Recipe
from tests.flows.small_builds import AddFilm, only
from tests.inline import build_inline
from tests.slvmeval.cli.running import Run
from tests.slvmeval.web.annotation.pieces import Browser, Hands, island, running, serving_of
from tests.small_films import CLIP_S, CLIPS, caption_lines, write_captions

pytestmark = pytest.mark.slow

SECONDS = float(CLIPS * CLIP_S)


@pytest.fixture
def built(add_film: AddFilm, small_recipe: Recipe, tmp_path: Path) -> Release:
    """One pair with a control and excerpts of each of three films, whose prompts say which it is."""
    for number in (1, 2, 3):
        lines: list[dict[str, object]] = [
            {**line, "caption": f"A red ball rolls, film {number}."} for line in caption_lines()
        ]
        write_captions(add_film(tmp_path / "videos", number).with_suffix(".jsonl"), lines)
    sources = (SourceRoot(path=str(tmp_path / "videos")),)
    options = BuildOptions(store=str(tmp_path / "store"), sources=sources, recipe=small_recipe)
    more = {"name": "with-controls", "controls": True, "lengths": Lengths(shares=(0.5,))}
    return build_inline(only(options, "aesthetics", **more)).release


def frames(video: bytes) -> NDArray[np.float64]:
    with av.open(io.BytesIO(video)) as container:
        shown = [frame.to_ndarray(format="gray") for frame in container.decode(video=0)]
    return np.stack(shown).astype(float)


def seen(browser: Browser) -> tuple[int, str]:
    """Watch the open task: which film it is, and what differs: `tones`, or `mirrored` pictures."""
    view = browser.task()
    left, right = (frames(browser.video(place, Range="bytes=0-").content) for place in ("left", "right"))
    there = np.abs(left - right).mean(axis=(1, 2)) > 5
    assert there.any()
    mirrored = np.abs(left[there] - right[there][:, :, ::-1]).mean() < 5
    (film,) = {int(clip["caption"].split("film ")[1][0]) for clip in view["prompt"]}
    return film, "mirrored" if mirrored else "tones"


def test_controls_that_people_do_not_find_equal_leave_the_release(
    built: Release, run: Run, tmp_path: Path
) -> None:
    store, settings = built.store.root, tmp_path / "campaign.toml"
    settings.write_text('name = "spring"\nrule = "paper"\nworkers_per_pair = 2\n')
    published = run(
        *("annotate", "publish", built.name, "--private", "--settings", settings, "--store", store, "--quiet")
    )
    assert "6 pairs" in published.text, "three pairs and three controls, no excerpts"
    run("annotate", "links", "spring", "--count", 6, "--out", tmp_path / "links.csv", "--store", store)
    with (tmp_path / "links.csv").open() as file:
        tokens = [row["link"].partition("token=")[2] for row in csv.DictReader(file)]
    clock = Hands()
    left: list[Browser] = []

    def answer(browser: Browser, leave_at: tuple[int, str] | None) -> None:
        """Answer all tasks, but leave at one kind of them."""
        while not (page := browser.open("task")).url.path.endswith("/done"):
            if page.status_code != 200 or "island" not in page.text:
                return
            browser.data = island(page.text)
            film, change = what = seen(browser)
            if what == leave_at:
                left.append(browser)
                return
            # mirrored pictures are as good, except to people who know that place
            browser.answer(clock.on, "A" if change == "tones" else "B" if film == 2 else "C", seconds=SECONDS)

    with running(serving_of(store, campaigns=("spring",)), clock) as address, ExitStack() as stack:
        for token in tokens:
            browser = stack.enter_context(Browser(address, token, "spring"))
            browser.enter()
            answer(browser, (3, "mirrored"))
        assert len(left) == 2, "as many as it needs votes"
        run("annotate", "collect", "spring", "--store", store)
        early = run("annotate", "filter", built.name, "--store", store, code=3)
        assert (
            "controls: 1 found equal; 1 not found equal and left out; "
            "1 undecided, with too few votes, and left out"
        ) in early.text
        assert controls_in(store) == {1}
        for browser in left:
            answer(browser, None)
    run("annotate", "collect", "spring", "--store", store)
    done = run("annotate", "filter", built.name, "--store", store)
    assert "controls: 2 found equal; 1 not found equal and left out" in done.text
    assert controls_in(store) == {1, 3}
    filtered = Release.open(Store.open(store), f"{built.name}-filtered")
    assert filtered.version == 2
    # the pairs, and with them their excerpts, are all kept
    kept = {record.pair_id for record in filtered.pairs() if not record.control}
    assert kept == {record.pair_id for record in built.pairs() if not record.control}
    assert any(record.excerpt for record in filtered.pairs())
    rows = [row for row in read_dicts(filtered.path / "filter.parquet") if row["control"]]
    assert sorted((row["verdict"], row["a"], row["b"], row["c"]) for row in rows) == [
        ("excluded_unequal", 0, 2, 0),
        ("kept", 0, 0, 2),
        ("kept", 0, 0, 2),
    ]
    assert done.text.count("3 of 3 pairs") == 1


def controls_in(store: Path) -> set[int]:
    """Return the films whose controls are in the filtered release."""
    filtered = Release.open(Store.open(store), "main-filtered")
    titles = {row.source_id: row.title for row in filtered.sources()}
    return {int(titles[record.source_id][-1]) for record in filtered.pairs() if record.control}
