"""A model server as a job of the pool h100: announced when it answers, gone with its job."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.profile import Profile, load_profile
from infra.serving import read_server
from infra.slurm.server_job import batches_script, server_log, server_script, submit_server
from slvmeval.cli.main import main
from storage_schemas.errors import UserInputError
from storage_schemas.offline_batches import batches_folder
from tests.infra.test_offline_batches import COMMAND as RUN_BATCH
from tests.infra.test_offline_batches import hand_over, ids_answered
from tests.infra.test_serving import NAME, SERVER, asked
from tests.slurm.building import ROOT, profile_text
from tests.slurm.conftest import Slurm


@pytest.fixture
def site(tmp_path: Path) -> Profile:
    path = tmp_path / "site.toml"
    path.write_text(
        profile_text(tmp_path / "store", "http://127.0.0.1:1/api", h100_jobs=2)
        # the nodes are this machine
        + f'interface = "lo"\nsetup = ["export PYTHONPATH={ROOT}"]\n'
    )
    return load_profile(path, environment={})


def test_a_job_serves_until_it_is_cancelled(
    slurm: Slurm, site: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
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


def test_a_job_answers_what_waits_and_ends(
    slurm: Slurm, site: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    store = Path(site.store)
    folder = batches_folder(store, NAME)
    folder.mkdir(parents=True)
    hand_over(folder, "one", "a", "b")
    script = batches_script(site, RUN_BATCH, store=store, name=NAME)
    job = submit_server(site, script, store, NAME)
    slurm.wait(lambda: slurm.job(job)["JobState"] == "COMPLETED", 60)
    assert ids_answered(folder, "one") == ["a", "b"]
    assert slurm.job(job)["Partition"] == "h100"
    assert "1 batches answered, none waiting" in server_log(site, store, NAME, job).read_text()


def test_the_command_line_shows_the_script(
    tmp_path: Path, site: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    profile, folder = str(tmp_path / "site.toml"), str(tmp_path)
    assert main(["serve-llm", "--script", "--profile", profile, "--model-folder", folder]) == 0
    printed = capsys.readouterr()
    assert "#SBATCH --partition=h100" in printed.out
    assert "--gres=gpu:h100:1" in printed.out
    assert "vllm serve Qwen/Qwen3-8B" in printed.out
    assert "--reasoning-parser qwen3" in printed.out
    # without weights in the model folder it would ask the hub, and says so
    assert "not in" in printed.err
