"""Deployments on a real Prefect server, and runs that a real worker takes; PostgreSQL: test_site_services."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient

from flows.deployed import annotate_slvmeval, build_slvmeval, suite_slvmeval
from infra.prefect_server import RUN_SETTINGS
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.annotation.installation import media_folder
from tests.flows.deployed_site import RECIPE, AddFilm, logged, run, settled, shows_first_build
from tests.flows.prefect_servers import PREFECT, ROOT, PrefectServer
from tests.flows.small_builds import make_video
from tests.tasks.publish.conftest import Small, build_small  # noqa: F401 - a fixture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect-server")]


@pytest.fixture(scope="module")
def server(shared_server: PrefectServer) -> Iterator[PrefectServer]:
    """The shared server, which alone has deployments here, and their worker while this file runs."""
    with shared_server.workers():
        yield shared_server


#: The flows beside the build, each with a deployment of its name.
IN_THE_FILE = ("evaluate", "suite", "annotate")
FURTHER = (*IN_THE_FILE, "prompts")


@pytest.fixture(scope="module")
def site(server: PrefectServer, add_film: AddFilm) -> Path:
    """A folder with a profile, a recipe and one film; deployments are made from it."""
    folder = server.processes.folder
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    (folder / "site.toml").write_text(
        'name = "lab"\nstore = "store"\nsources = ["folder:videos"]\nworkers = 1\ngallery = "gallery"\n'
        f'gallery_url = "http://pages/g"\nprefect_api_url = "{server.api}"\ndashboard_port = 0\n',
        encoding="utf-8",
    )
    settled(add_film(folder / "videos", 1))
    output = server.slvmeval_here("deploy", "--profile", "site.toml", "--recipe", "recipe.toml")
    assert output.count("(created)") == 9
    assert f"PREFECT_API_URL={server.api} prefect worker start" in output
    server.start_worker()
    return folder


def started(server: PrefectServer) -> int:
    """Return how many runs somebody started; others wait for their night."""
    return sum(not result["auto_scheduled"] for result in server.runs())


def flow_of(name: str) -> str:
    return "build-slvmeval" if name == "nightly" else name


def deployed(server: PrefectServer, name: str) -> dict[str, Any]:
    result: dict[str, Any] = server.ask(f"/deployments/name/{flow_of(name)}/{name}")
    return result


@pytest.fixture
def run_here(
    server: PrefectServer, client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """Run a deployed flow in this process, which has its modules, and return its run."""
    monkeypatch.setenv("PREFECT_API_URL", server.api)

    def ran(flow: Any, **given: object) -> dict[str, Any]:
        state = flow(**given, return_state=True)
        result: dict[str, Any] = server.ask(f"/flow_runs/{state.state_details.flow_run_id}")
        return result

    return ran


@pytest.fixture(scope="module")
def by_hand(server: PrefectServer, site: Path) -> dict[str, Any]:
    """The first run, which makes version 1 of the release."""
    return run(server, "build-slvmeval")


def test_a_run_by_hand(server: PrefectServer, site: Path, by_hand: dict[str, Any]) -> None:
    shown = shows_first_build(server, by_hand, "lab", site / "store")
    assert shown["gallery"] == "[Gallery](http://pages/g/index.html)"
    assert (site / "gallery" / "index.html").is_file()
    assert re.search(r"http://127\.0\.0\.1:\d+/(status|info)", shown["dask"])


@pytest.mark.usefixtures("by_hand")
def test_three_nights(server: PrefectServer, site: Path, add_film: AddFilm) -> None:
    # a night in which nothing is new, though a film is being copied
    add_film(site / "videos", 2)
    quiet = run(server, "nightly")
    assert quiet["state"]["type"] == "COMPLETED"
    assert quiet["state"]["message"] == (
        "Nothing new: release main stays at version 1, 3 pairs of 1 source; 1 file still being written, "
        "left to the next run."
    )
    shown = server.artifacts(quiet["id"])
    assert shown["result-main"] == quiet["state"]["message"]
    assert "dask" not in shown
    logged(server, quiet, quiet["state"]["message"])
    # the next night it is complete
    settled(site / "videos" / "film2.mp4")
    new = run(server, "nightly")
    assert new["state"]["message"] == "Version 2 of release main is written: 6 pairs of 2 sources."
    release = Release.open(Store.open(site / "store"), "main")
    assert (release.version, release.info["extends"]) == (2, 1)
    first = Release.open(release.store, "main", 1)
    assert {pair.pair_id for pair in first.pairs()} < {pair.pair_id for pair in release.pairs()}
    # judged by two that need no model
    judged = run(server, "evaluate-slvmeval", "--set", 'evaluators=["duration","coin"]')
    says = "12 of 12 requests on 6 pairs are answered, 12 made in this run."
    assert (judged["state"]["type"], judged["state"]["message"]) == ("COMPLETED", says)
    assert judged["name"] == "main · 6 pairs · duration, coin"
    shown = server.artifacts(judged["id"])
    assert shown["judged-main"] == says
    assert "coin" in shown["judgements-main"]


def test_a_release_is_put_before_people(
    server: PrefectServer,
    site: Path,
    run_here: Callable[..., dict[str, Any]],
    build_small: Callable[[Path], Small],  # noqa: F811
) -> None:
    store = build_small(site / "small").store
    given = {"store": str(store.root), "release": "small", "private_audience": True, "filter_when": "now"}
    asked = run_here(annotate_slvmeval, profile=str(site / "site.toml"), **given)
    says = asked["state"]["message"]
    assert asked["state"]["type"] == "COMPLETED", says
    assert says.startswith("Campaign small-1 shows 8 pairs of release small version 1, 8 of them new.")
    assert says.endswith("Campaign small-1 has no votes yet, so nothing is filtered.")
    assert asked["name"] == "small-1 · 8 pairs"
    assert sorted(asked["tags"]) == ["campaign:small-1", "release:small", "site:lab"]
    shown = server.artifacts(asked["id"])
    assert shown["annotated-small-1"] == says
    assert "pairs shown" in shown["votes-small-1"]
    assert "progress-videos" in shown
    # two of each pair, and two equal ones of each check task that shows equal videos
    assert len(list(media_folder(store.root).glob("*.mp4"))) == 16 + 2 * 4


def test_a_suite_scores_videos(
    server: PrefectServer, site: Path, run_here: Callable[..., dict[str, Any]], ffmpeg: str
) -> None:
    noise = "testsrc2=s=64x48:r=8:d=3,noise=alls=100:allf=t"
    make_video(ffmpeg, site / "clips" / "film1.mp4", "-f", "lavfi", "-i", noise, "-pix_fmt", "yuv420p")
    (site / "manifest.csv").write_text("model,prompt_id,file\nanna,p1,film1.mp4\nbert,p1,film9.mp4\n")
    (site / "prompts.csv").write_text("prompt_id,text\np1,A film\n")
    scored = run_here(
        suite_slvmeval,
        suite="locot2v-bench",
        videos=str(site / "clips"),
        prompt_suite=str(site / "prompts.csv"),
        manifest=str(site / "manifest.csv"),
        dimensions=["dynamic_degree", "temporal_flickering"],
        settings=["visual=cpu-approx"],
        store=str(site / "suites"),
        profile=str(site / "site.toml"),
    )
    # nothing of the film rests, which flickering is measured on
    says = (
        "1 of 2 scores of 1 videos are stored, 2 made in this run; 1 without a score; 1 left "
        "out of the files."
    )
    assert (scored["state"]["type"], scored["state"]["message"]) == ("COMPLETED", says)
    assert scored["name"] == "locot2v-bench · 1 videos · 2 dimensions"
    assert sorted(scored["tags"]) == ["site:lab", "suite:locot2v-bench"]
    shown = server.artifacts(scored["id"])
    assert shown["scored-locot2v-bench"] == says
    assert "anna" in shown["leaderboard-locot2v-bench"]
    assert "film9.mp4" in shown["left-out-locot2v-bench"]
    assert "progress-dynamic-degree" in shown
    rows = {row["dimension"]: row for row in json.loads(shown["dimensions-locot2v-bench"])}
    assert (rows["dynamic_degree"]["scored"], rows["dynamic_degree"]["reasons"]) == (1, "")
    assert rows["temporal_flickering"]["reasons"] == "no_answer 1"


def test_the_message_of_a_run_says_what_is_wrong_and_that_there_is_nothing_to_do(
    run_here: Callable[..., dict[str, Any]], site: Path, add_film: AddFilm, tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    given = {"store": str(tmp_path / "store"), "settle_s": 3600.0, "recipe": str(site / "recipe.toml")}
    wrong = run_here(build_slvmeval, sources=["folder:/nowhere/videos"], **given)["state"]
    assert wrong["type"] == "FAILED"
    assert wrong["message"].startswith("/nowhere/videos does not exist: give the folder")
    waiting = run_here(build_slvmeval, sources=[f"folder:{tmp_path}/videos"], **given)["state"]
    says = "Nothing to build yet: 1 file still being written, left to the next run."
    assert (waiting["type"], waiting["message"]) == ("COMPLETED", says)
    assert not (tmp_path / "store" / "releases" / "main" / "versions").exists()


def test_log_lines_of_workers_reach_the_run(server: PrefectServer, site: Path) -> None:
    store = Store.create(site / "broken")
    (store.root / "artifacts").mkdir(exist_ok=True)
    (store.root / "artifacts" / "frames").write_text("a file where a folder has to be")
    ran = run(server, "build-slvmeval", "--set", f"store={store.root}")
    assert ran["state"]["type"] == "COMPLETED"
    logged(server, ran, "ingest of film1 failed:\nTraceback")


def test_deploying_again_changes_what_is_given_and_nothing_else(server: PrefectServer, site: Path) -> None:
    words = ("deploy", "--profile", "site.toml")
    at = ("--cron", "30 1 * * *", "--set", "timezone=Asia/Tokyo")
    server.slvmeval_here(*words, *at, "--release", "nights")
    nightly = deployed(server, "nightly")
    (schedule,) = nightly["schedules"]
    assert (schedule["schedule"]["cron"], schedule["schedule"]["timezone"]) == ("30 1 * * *", "Asia/Tokyo")
    assert nightly["parameters"] == {
        "profile": str(site / "site.toml"),
        "recipe": str(site / "recipe.toml"),
        "release": "nights",
        "settle_s": 600,
    }
    id_ = f"/deployments/{nightly['id']}/schedules/{schedule['id']}"
    server.processes.run(PREFECT, "deployment", "schedule", "pause", "build-slvmeval/nightly", schedule["id"])
    output = server.slvmeval_here(*words)
    assert output.count("(up to date)") == 9, id_
    assert "30 1 * * * (Asia/Tokyo, switched off)" in output, id_
    again = deployed(server, "nightly")
    assert again["id"] == nightly["id"]
    assert again["parameters"] == nightly["parameters"]
    (kept,) = again["schedules"]
    assert kept["schedule"] == schedule["schedule"]
    assert not kept["active"]
    named = server.ask("/automations/filter", {})
    assert [result["name"] for result in named] == ["slvmeval: a silent run has crashed"]
    server.slvmeval_here(*words, "--cron", "0 2 * * *", "--set", "timezone=UTC", "--release", "main")


@pytest.mark.usefixtures("by_hand")
def test_the_file_by_hand_makes_the_same_deployments(server: PrefectServer, site: Path) -> None:
    facts = (
        "entrypoint",
        "description",
        "work_pool_name",
        "work_queue_name",
        "job_variables",
        "parameter_openapi_schema",
    )
    names = ("build-slvmeval", "nightly", *(f"{what}-slvmeval" for what in IN_THE_FILE))
    ours = {name: deployed(server, name) for name in names}
    for before in ours.values():
        server.delete(f"/deployments/{before['id']}")
    file = str(ROOT / "infra" / "prefect.yaml")
    server.processes.run(PREFECT, "--no-prompt", "deploy", "--all", "--prefect-file", file)
    for name, before in ours.items():
        made = deployed(server, name)
        assert {fact: made[fact] for fact in facts} == {fact: before[fact] for fact in facts}
        assert not made["pull_steps"]
    nightly = deployed(server, "nightly")
    assert [entry["schedule"]["cron"] for entry in nightly["schedules"]] == ["0 2 * * *"]
    for name in ("evaluate-slvmeval", "annotate-slvmeval"):
        assert [entry["active"] for entry in deployed(server, name)["schedules"]] == [False]
    server.slvmeval_here("deploy", "--profile", "site.toml", "--recipe", "recipe.toml")


def test_the_form_says_what_each_parameter_is(server: PrefectServer, site: Path) -> None:
    schema = deployed(server, "build-slvmeval")["parameter_openapi_schema"]["properties"]
    assert list(schema)[:6] == ["sources", "recipe", "changes", "release", "fresh", "retry"]
    fields = list(schema.items())
    for what in FURTHER:
        further = deployed(server, f"{what}-slvmeval")["parameter_openapi_schema"]["properties"]
        fields += further.items()
    for name, field in fields:
        assert field["description"], name
        assert "default" in field, name
        # no choice of types: the form has one plain field for each
        assert field["type"] in ("array", "string", "boolean", "number", "integer"), name


def test_what_cannot_be_meant_is_reported(server: PrefectServer, site: Path) -> None:
    wrong = {
        ("run", "nightl"): "Did you mean 'nightly'?",
        ("run", "nightly", "--set", "sorces=1"): "Did you mean 'sources'?",
        ("run", "nightly", "--set", "sources"): "write KEY=VALUE",
        ("run", "nightly", "--set", "fresh=maybe"): "--set: ",
        ("deploy", "--cron", "a b"): '--cron: Invalid cron string: "a b"',
        ("deploy", "--set", "timezone=Asia/Tokio"): "--set timezone=…: Invalid timezone",
        ("deploy", "--cron", "evaluate=a b", "--evaluator", "coin"): '--cron: Invalid cron string: "a b"',
        ("deploy", "--evaluator", "coyn"): "did you mean coin",
    }
    runs = started(server)
    for words, output in wrong.items():
        message = server.slvmeval_here(*words, "--profile", "site.toml", fails=True)
        # wrong usage is in a box, which breaks lines
        text = " ".join(message.replace("│", " ").split())
        assert (message.startswith(("error: ", "Usage: ")), output in text) == (True, True), message
    assert started(server) == runs


def test_a_pool_of_another_type_is_refused(server: PrefectServer, site: Path) -> None:
    server.delete("/work_pools/slvmeval")
    server.ask("/work_pools/", {"name": "slvmeval", "type": "docker"})
    assert "has the type 'docker'" in server.slvmeval_here("deploy", "--profile", "site.toml", fails=True)
    server.delete("/work_pools/slvmeval")
    # for the tests that follow; a worker may end with its pool
    server.slvmeval_here("deploy", "--profile", "site.toml", "--recipe", "recipe.toml")
    server.start_worker()


def test_the_file_sets_what_a_run_needs() -> None:
    for entry in yaml.safe_load((ROOT / "infra" / "prefect.yaml").read_text())["deployments"]:
        environment = entry["work_pool"]["job_variables"]["env"]
        assert environment == {**RUN_SETTINGS, "PYTHONSAFEPATH": "1"}
