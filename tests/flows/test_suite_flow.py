"""A suite as the flow `suite-slvmeval`, and what a site with worker pools changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.score.options import SuiteOptions
from flows.score.parameters import SuiteParameters
from flows.score.suite_run import SUITE
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from storage_schemas.placement import Placement
from tasks.models.device import visible_gpus
from tests.flows.conftest import RunRecorded
from tests.flows.test_suite_run import Scored, films, scored  # noqa: F401 - fixtures
from tests.tiny_models.faulty_server import FaultyServer


@pytest.mark.slow
@pytest.mark.xdist_group("prefect-server")
def test_the_flow_scores_the_same_and_shows_it(
    tmp_path: Path,
    scored: Scored,  # noqa: F811
    marker: FaultyServer,
    run_recorded: RunRecorded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("WEIGHTS", "there")
        recorded, result = run_recorded(SUITE, scored.options(marker, repeats=12))
    says = "168 of 168 scores of 4 videos are stored, 168 made in this run."
    assert (recorded["states"], recorded["messages"]) == (["Completed"], [says])
    assert recorded["names"] == ["planted · 4 videos · 4 dimensions"]
    assert recorded["tags"] == ["site:default", "suite:planted"]
    tables = recorded["artifacts"]
    dimensions = {row["dimension"]: row for row in json.loads(tables["dimensions-planted"])}
    counts = {"length": 48, "beauty": 48, "contest": 48, "heavy": 24}
    assert {name: row["scored"] for name, row in dimensions.items()} == counts
    board = json.loads(tables["leaderboard-planted"])
    assert [(row["model"], row["rank"]) for row in board] == [("bert", "1"), ("anna", "2")]
    assert "progress-heavy" in tables
    assert tables["scored-planted"] == says
    assert {one["dimension"]: one["scored"] for one in result["dimensions"]} == counts
    # models are loaded once, though there are two processes
    loaded = [json.loads(row.details)["process"] for row in scored.rows("heavy")]
    assert len(loaded) == 24
    assert len(set(loaded)) == 1
    tasks = [name.split(" ")[0] for name in recorded["tasks"]]
    assert {name: tasks.count(name) for name in ("length", "heavy")} == {"length": 6, "heavy": 3}
    flown = scored.scores()
    (tmp_path / "store").rename(tmp_path / "flown")
    scored.run(marker, dimensions=("length", "beauty", "contest"))
    assert {key: score for key, score in flown.items() if key[0] != "heavy"} == scored.scores()


def test_where_there_are_pools_their_workers_look_for_a_gpu_and_the_driver_needs_none(
    scored: Scored,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visible_gpus.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("WEIGHTS", "there")
    wanted: dict[str, Any] = {"dimensions": ("length", "heavy"), "allow_cpu_models": False}
    said = []
    both = Placement(pools={"cpu": "cpu", "h100": "gpu"})
    for placement in (Placement(), Placement(pools={"cpu": "cpu"}), both):
        outcome = scored.run(**wanted, placement=placement)
        assert (outcome["heavy"].scored, dict(outcome["heavy"].failures)) == (0, {"prerequisite_missing": 2})
        assert outcome["length"].scored == 4
        said.append(outcome["heavy"].stopped)
    here, without, worker = said
    assert "no GPU is visible" in here
    assert worker == here
    assert "heavy needs a pool with GPUs" in without
    assert "the profile has only cpu" in without
    # it is not a reason forever
    allowed = wanted | {"placement": both, "allow_cpu_models": True}
    assert scored.run(**allowed)["heavy"].scored == 2


def test_what_a_worker_lacks_becomes_rows_and_the_rest_continues(scored: Scored) -> None:  # noqa: F811
    began = "def score(self, prompt, videos, repeat=0):\n        (video,) = videos"
    missing = began.replace("(video,)", 'raise PrerequisiteError("ffmpeg is not there")\n        (video,)')
    scored.change(began, missing)
    outcome = scored.run(dimensions=("length",))["length"]
    assert (outcome.left, dict(outcome.failures)) == (0, {"prerequisite_missing": 4})
    assert {row.message for row in scored.rows()} == {"ffmpeg is not there"} == {outcome.stopped}


def on_worker(**given: object) -> tuple[SuiteOptions, Profile]:
    """Return options and settings of a run, as the shell makes them of a form."""
    parameters = SuiteParameters.of_form(given)
    site = parameters.site_on_worker()
    return SUITE.options(parameters, site), site


def test_a_run_on_a_worker_says_what_is_wrong_before_any_work(tmp_path: Path) -> None:
    fine = {"suite": "video-bench", "videos": "/v", "prompt_suite": "/p.json"}
    for more, said in (
        ({"suite": ""}, "suite is empty: give locot2v-bench or video-bench"),
        ({"suite": "video-benhc"}, "did you mean video-bench"),
        ({"videos": ""}, "videos is empty"),
        ({"prompt_suite": "p.json"}, "prompt_suite: 'p.json' is not an absolute path"),
        ({"manifest": "m.csv"}, "manifest: 'm.csv' is not an absolute path"),
        ({"settings": ["cap"]}, "write KEY=VALUE"),
        ({"mini": -1}, "mini: "),
        ({"store": "here"}, "store: 'here' is not an absolute path"),
    ):
        with pytest.raises(UserInputError, match=said):
            on_worker(**{"store": str(tmp_path), **fine, **more})
    asked, site = on_worker(store=str(tmp_path), workers=3, **fine, mini=5)
    assert (asked.mini, asked.placement, site.workers, asked.prices) == (5, Placement(), 3, None)
