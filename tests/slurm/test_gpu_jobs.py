"""Jobs of the pool h100: ``slvmeval gpu-check`` on tiny checkpoints, and model servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.profile import Profile, load_profile
from infra.serving import read_server
from infra.slurm.server_job import batches_script, server_log, server_script, submit_server
from storage_schemas.errors import UserInputError
from storage_schemas.offline_batches import batches_folder
from tests.infra.test_offline_batches import COMMAND as RUN_BATCH
from tests.infra.test_offline_batches import hand_over, ids_answered
from tests.infra.test_serving import NAME, SERVER, asked
from tests.slurm.building import ROOT, run_slvmeval, write_profile
from tests.slurm.conftest import Slurm
from tests.tiny_models.paper_site import tiny_models, tiny_paper

#: Nobody listens there.
API = "http://127.0.0.1:1/api"
SETUP = f"export PYTHONPATH={ROOT}"


@pytest.mark.models
def test_the_models_are_measured_where_a_build_would_run_them(slurm: Slurm, tmp_path: Path) -> None:
    recipe = tiny_paper()
    only = {"aspects": {"object_integrity": recipe.aspects["object_integrity"]}}
    (tmp_path / "recipe.json").write_text(recipe.model_copy(update=only).model_dump_json())
    models = tiny_models(tmp_path / "weights", tmp_path / "checkpoints")
    lines = f'model_folders = ["{models}"]'
    write_profile(tmp_path, API, site=lines, h100=f'setup = ["{SETUP}"]', h100_memory="3GiB")
    ran = run_slvmeval(slurm, tmp_path, "gpu-check", "--recipe", str(tmp_path / "recipe.json"), "--json")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["job"]
    assert slurm.job(report["job"])["Partition"] == "h100"
    (made,) = report["aspects"]
    assert made["frame_s"] > 0
    assert {model["name"] for model in report["models"]} == {"tiny-detector", "tiny-inpainter"}
    (row,) = json.loads(Path(report["speeds_file"]).read_text())
    assert row["only"]["detector"] == "tiny-detector"
    assert f"job {report['job']}: running" in ran.stderr
    # nothing is left but the log and the speeds; Slurm may still be ending the job
    assert {job["state"] for job in slurm.squeue()} <= {"COMPLETING"}
    slurm.wait(lambda: not slurm.squeue())
    assert not list((tmp_path / "store" / "cache").glob("slvmeval-gpu-check-*"))


def test_what_is_missing_on_the_node_is_said_here(slurm: Slurm, tmp_path: Path) -> None:
    write_profile(tmp_path, API, site=f'model_folders = ["{tmp_path}"]', h100=f'setup = ["{SETUP}"]')
    ran = run_slvmeval(slurm, tmp_path, "gpu-check")
    assert ran.returncode == 1
    assert "slvmeval models fetch qwen-image-edit-2509" in ran.stderr


def test_a_job_that_ends_without_an_answer_shows_its_log(slurm: Slurm, tmp_path: Path) -> None:
    setup = 'setup = ["echo broken node >&2; exit 4"]'
    write_profile(tmp_path, API, site=f'model_folders = ["{tmp_path}"]', h100=setup)
    ran = run_slvmeval(slurm, tmp_path, "gpu-check")
    assert ran.returncode == 1
    assert "ended as failed without a result" in ran.stderr
    assert "broken node" in ran.stderr


@pytest.fixture
def site(tmp_path: Path) -> Profile:
    # the nodes are this machine
    more = f'interface = "lo"\nsetup = ["export PYTHONPATH={ROOT}"]'
    path = write_profile(tmp_path, "http://127.0.0.1:1/api", h100=more)
    return load_profile(path, environment={})


def test_a_job_serves_until_it_is_cancelled(slurm: Slurm, site: Profile) -> None:
    store = Path(site.store)
    script = server_script(site, SERVER, store=store, name=NAME, model="small")
    job = submit_server(site, script, store, NAME)
    with pytest.raises(UserInputError, match=f"job {job} already serves {NAME}"):
        submit_server(site, script, store, NAME)
    slurm.wait(lambda: read_server(store, NAME), 60)
    server = read_server(store, NAME)
    log = server_log(site, store, NAME, job)
    assert server is not None, log.read_text()
    assert server.job == job, log.read_text()
    assert asked(server, server.key) == 200
    assert asked(server, "another") == 401
    assert slurm.job(job)["Partition"] == "h100"
    assert slurm.job(job)["TresPerNode"] == "gres:gpu:h100:1"
    slurm.cancel(job)
    slurm.wait(lambda: not slurm.squeue(), 60)
    assert read_server(store, NAME) is None
    with pytest.raises(OSError, match="refused"):
        asked(server, server.key)


def test_a_job_answers_what_waits_and_ends(slurm: Slurm, site: Profile) -> None:
    store = Path(site.store)
    folder = batches_folder(store, NAME)
    folder.mkdir(parents=True)
    hand_over(folder, "one", "a", "b")
    script = batches_script(site, RUN_BATCH, store=store, name=NAME)
    job = submit_server(site, script, store, NAME)
    slurm.wait(lambda: slurm.job(job)["JobState"] == "COMPLETED", 60)
    assert ids_answered(folder, "one") == ["a", "b"]
    assert slurm.job(job)["Partition"] == "h100"
    assert "1 batches answered, none waits" in server_log(site, store, NAME, job).read_text()


def test_the_command_line_shows_the_script(slurm: Slurm, site: Profile, tmp_path: Path) -> None:
    output = run_slvmeval(slurm, tmp_path, "serve-llm", "--script", "--models", str(tmp_path))
    assert output.returncode == 0
    for words in ("#SBATCH --partition=h100", "--gres=gpu:h100:1", "vllm serve Qwen/Qwen3-8B"):
        assert words in output.stdout
    assert "--reasoning-parser qwen3" in output.stdout
    # without weights in the model folder it would ask the hub, and says so
    assert "not in" in output.stderr
