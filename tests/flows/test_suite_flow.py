"""A suite as the flow `suite-slvmeval`, and what a site with worker pools changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.score.options import SuiteOptions, SuiteParameters
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from tasks.models.device import visible_gpus
from tests.flows.prefect_servers import prefect_home
from tests.flows.test_suite_run import by_name, films, options, prompts, rows, scores  # noqa: F401 - fixtures
from tests.inline import suite_inline
from tests.tiny_models.faulty_server import FaultyServer

ROOT = Path(__file__).parents[2]


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    visible_gpus.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.slow
@pytest.mark.xdist_group("prefect-server")
def test_the_flow_scores_the_same_and_shows_it(
    tmp_path: Path,
    films: Path,  # noqa: F811
    prompts: Path,  # noqa: F811
    planted_suite: Path,
    marker: FaultyServer,
) -> None:
    given = options(tmp_path, films, prompts, marker, repeats=12)
    (tmp_path / "options.json").write_text(given.model_dump_json())
    environment = {
        **os.environ,
        "PYTHONPATH": f"{planted_suite}{os.pathsep}{ROOT}",
        "PREFECT_HOME": prefect_home(tmp_path),
        "WEIGHTS": "there",
    }
    environment.pop("PREFECT_API_URL", None)
    command = [sys.executable, str(ROOT / "tests/flows/suite_on_server.py"), str(tmp_path / "options.json")]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, timeout=400).stdout
    said = dict(line.split(" ", 1) for line in output.splitlines() if line.startswith(("RECORDED", "RESULT")))
    recorded, result = json.loads(said["RECORDED"]), json.loads(said["RESULT"])
    says = "168 of 168 scores of 4 videos are there, 168 made now."
    assert (recorded["states"], recorded["messages"]) == (["Completed"], [says])
    assert recorded["names"] == ["planted · 4 videos · 4 dimensions"]
    assert recorded["tags"] == ["site:default", "suite:planted"]
    tables = recorded["tables"]
    dimensions = {row["dimension"]: row for row in json.loads(tables["dimensions-planted"])}
    assert {name: row["scored"] for name, row in dimensions.items()} == {
        "length": 48,
        "beauty": 48,
        "contest": 48,
        "heavy": 24,
    }
    board = json.loads(tables["leaderboard-planted"])
    assert [(row["model"], row["rank"]) for row in board] == [("bert", "1"), ("anna", "2")]
    assert "progress-heavy" in tables
    assert tables["scored-planted"] == says
    assert {one["dimension"]: one["scored"] for one in result["dimensions"]} == {
        name: row["scored"] for name, row in dimensions.items()
    }
    # models are loaded once, though there are two processes
    loaded = [json.loads(row.details)["process"] for row in rows(tmp_path) if row.dimension == "heavy"]
    assert len(loaded) == 24
    assert len(set(loaded)) == 1
    tasks = [name.split(" ")[0] for name in recorded["tasks"]]
    assert {name: tasks.count(name) for name in ("length", "heavy")} == {"length": 6, "heavy": 3}
    flown = scores(tmp_path)
    (tmp_path / "store").rename(tmp_path / "flown")
    suite_inline(given.model_copy(update={"dimensions": ("length", "beauty", "contest"), "repeats": 1}))
    assert {key: score for key, score in flown.items() if key[0] != "heavy"} == scores(tmp_path)


@pytest.mark.usefixtures("no_gpu")
def test_where_there_are_pools_their_workers_look_for_a_gpu_and_the_driver_needs_none(
    tmp_path: Path,
    films: Path,  # noqa: F811
    prompts: Path,  # noqa: F811
    planted_suite: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEIGHTS", "there")
    wanted = {"dimensions": ("length", "heavy"), "allow_cpu_models": False}
    given = options(tmp_path, films, prompts, None, **wanted)
    said = []
    for pools in ((), ("cpu",), ("cpu", "h100")):
        outcome = by_name(suite_inline(given.model_copy(update={"pools": pools})))
        assert (outcome["heavy"].scored, dict(outcome["heavy"].failures)) == (0, {"prerequisite_missing": 2})
        assert outcome["length"].scored == 4
        said.append((outcome["heavy"].stopped, outcome["heavy"].asked))
    here, without, worker = (text for text, _ in said)
    assert "no GPU is visible" in here
    assert worker == here
    assert without == "the profile has no pool 'h100', in which it runs: add a table [pools.h100]"
    # it is no reason for ever
    allowed = given.model_copy(update={"pools": ("cpu", "h100"), "allow_cpu_models": True})
    assert by_name(suite_inline(allowed))["heavy"].scored == 2


def test_what_a_worker_lacks_becomes_rows_and_the_rest_goes_on(
    tmp_path: Path,
    films: Path,  # noqa: F811
    prompts: Path,  # noqa: F811
    planted_suite: Path,
) -> None:
    code = planted_suite / "planted_suite_code.py"
    began = "def score(self, prompt, videos, repeat=0):\n        (video,) = videos"
    missing = began.replace("(video,)", 'raise PrerequisiteError("ffmpeg is not there")\n        (video,)')
    assert code.read_text().count(began) == 1
    code.write_text(code.read_text().replace(began, missing))
    outcome = by_name(suite_inline(options(tmp_path, films, prompts, None, dimensions=("length",))))["length"]
    assert (outcome.left, dict(outcome.failures)) == (0, {"prerequisite_missing": 4})
    assert {row.message for row in rows(tmp_path)} == {"ffmpeg is not there"} == {outcome.stopped}


def test_a_dimension_that_a_suite_does_not_have_is_said(
    tmp_path: Path,
    films: Path,  # noqa: F811
    prompts: Path,  # noqa: F811
) -> None:
    given = options(tmp_path, films, prompts, None, suite="locot2v-bench", dimensions=("flicker",))
    with pytest.raises(UserInputError, match=r"^locot2v-bench has no dimension 'flicker': it has "):
        suite_inline(given)


def on_worker(**given: object) -> tuple[SuiteOptions, Profile]:
    """Return options and settings of a run, as the shell makes them of a form."""
    parameters = SuiteParameters.of_form(given)
    site = parameters.site()
    return parameters.options(site), site


def test_a_run_on_a_worker_says_what_is_wrong_before_any_work(tmp_path: Path) -> None:
    fine = {"suite": "video-bench", "videos": "/v", "prompt_suite": "/p.json"}
    for more, said in (
        ({"suite": ""}, "suite is empty: give video-bench or locot2v-bench"),
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
    assert (asked.mini, asked.pools, site.workers, asked.prices) == (5, (), 3, None)
