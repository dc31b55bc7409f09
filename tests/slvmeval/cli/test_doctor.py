"""`doctor` on this environment, and what it finds wrong in others."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distributions
from pathlib import Path

import pytest

from infra.profile import Profile
from slvmeval.cli.doctor.checks import (
    check_loopback,
    check_our_packages,
    check_placement,
    check_store,
    check_versions,
    check_weights,
    check_worker_processes,
    recipe_in_use,
)
from slvmeval.cli.doctor.finding import CheckVerdict
from storage_schemas.store import Store
from tests.slvmeval.cli.running import Run


@pytest.fixture
def our_packages(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Give a function after which all files of all packages are not looked through: it takes a second."""
    return lambda: monkeypatch.setattr("slvmeval.cli.doctor.checks.check_our_packages", list)


@pytest.fixture
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the folder of the test be the one more with packages that is looked through."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        "slvmeval.cli.doctor.checks.distributions", lambda: distributions(path=[str(tmp_path)])
    )


def test_this_environment_is_good(tmp_path: Path, run: Run, our_packages: Callable[[], None]) -> None:
    words = ("doctor", "--store", tmp_path / "store", "--model-folder", tmp_path)
    findings = {finding["what"]: finding for finding in run(*words, "--format", "json").json}
    our_packages()
    warned = {name for name, finding in findings.items() if finding["verdict"] == "warn"}
    assert all(name == "free space" or name.startswith(("model ", "recipe ")) for name in warned)
    assert "slvmeval models add u2netp" in findings["model u2netp"]["message"]
    assert findings["recipe cpu-approx"]["message"] == "lacks u2netp"
    # what another recipe needs is shown only if it is asked for
    others = {"recipe paper", "model qwen-image-edit-2509", "browser"}
    assert not others & set(findings)
    every = {finding["what"] for finding in run(*words, "--all", "--format", "json").json}
    assert others < every
    paper = run(*words, "--recipe", "paper", "--format", "json").json
    told = {finding["what"]: finding["message"] for finding in paper}
    assert "caption-analysis" in told["captions of paper"]
    assert ("model qwen-image-edit-2509" in told, "model u2netp" in told) == (True, False)
    assert findings["opencv"]["message"].endswith("with xphoto")
    assert run(*words).out.splitlines()[-1] == "all good"
    assert not (tmp_path / "store").exists()


def test_what_keeps_processes_from_starting_or_connecting_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("resource.getrlimit", lambda _: (3_000_000_000, -1))
    found = [*check_worker_processes(), *check_loopback()]
    assert [finding.verdict for finding in found] == [CheckVerdict.FAIL] * 2
    assert "ulimit -v unlimited" in found[0].message
    assert "ip link set lo up" in found[1].message


@pytest.mark.usefixtures("only_here")
def test_a_stray_package_is_found(tmp_path: Path) -> None:
    (tmp_path / "stray_tasks.py").write_text("", encoding="utf-8")
    (finding,) = check_our_packages(["stray_tasks"])
    assert finding.verdict is CheckVerdict.FAIL
    assert str(tmp_path) in finding.message
    assert "PYTHONSAFEPATH=1" in finding.message


@pytest.mark.usefixtures("only_here")
def test_a_strangers_files_among_ours_are_found(tmp_path: Path) -> None:
    about = tmp_path / "worker_kit-1.0.dist-info"
    about.mkdir()
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "queue.py").touch()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: worker-kit\nVersion: 1.0\n")
    (about / "RECORD").write_text("tasks/queue.py,,\nworker_kit/__init__.py,,\n")
    (finding,) = check_our_packages()
    assert finding.verdict is CheckVerdict.FAIL
    assert "worker-kit has files in tasks/" in finding.message


def test_versions_outside_of_what_works_fail() -> None:
    known = {"prefect": "3.9.1", "zarr": "3.1.10", "sqlalchemy": "2.0.58"}

    def installed(name: str) -> str:
        if name not in known:
            raise PackageNotFoundError(name)
        return known[name]

    wanted = [
        ("prefect", "3.8", "3.9", "why"),
        ("zarr", "3.1.3", "4", "why"),
        ("sqlalchemy", "1", "2.1", "why"),
        ("absent", "1", "2", "why"),
    ]
    findings = {finding.what: finding for finding in check_versions(wanted, installed)}
    assert findings["prefect"].verdict is CheckVerdict.FAIL
    assert "3.9.1" in findings["prefect"].message
    assert findings["absent"].verdict is CheckVerdict.FAIL
    # 3.1.10 is newer than 3.1.3
    assert findings["versions"].message == "zarr 3.1.10, sqlalchemy 2.0.58"


def test_a_folder_of_something_else_and_a_store_of_another_version_fail(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("x", encoding="utf-8")
    (finding,) = check_store(other)
    assert finding.verdict is CheckVerdict.FAIL
    assert "is neither a store" in finding.message
    store = Store.create(tmp_path / "store")
    (store.root / "store.json").write_text('{"schema_version": 99}', encoding="utf-8")
    (finding,) = check_store(store.root)
    assert finding.verdict is CheckVerdict.FAIL
    assert "use the slvmeval version that created it" in finding.message


def test_wrong_weights_fail(tmp_path: Path) -> None:
    (tmp_path / "u2netp.onnx").write_bytes(b"no weights")
    findings = {f.what: f for f in check_weights(Profile(model_folders=(str(tmp_path),)))}
    assert findings["model u2netp"].verdict is CheckVerdict.FAIL
    assert findings["model u2net"].verdict is CheckVerdict.WARN


def test_the_recipe_in_use_is_that_of_the_newest_release(judged_store: Path, tmp_path: Path) -> None:
    site = Profile(store=str(judged_store))
    assert recipe_in_use(site, None).name == "small"
    assert recipe_in_use(site, "paper").name == "paper"
    assert recipe_in_use(site, None, ["clips_per_pair=3"]).name == "cpu-approx-changed"
    assert recipe_in_use(Profile(store=str(tmp_path)), None).name == "cpu-approx"


def test_a_bad_profile_exits_1(tmp_path: Path, run: Run, our_packages: Callable[[], None]) -> None:
    our_packages()
    file = tmp_path / "site.toml"
    file.write_text("stor = 1", encoding="utf-8")
    assert "Did you mean 'store'?" in run("doctor", "--profile", file, code=1).out


def test_placed_work_that_does_not_exist_is_found() -> None:
    good = {"color": "gpu", "coin": "cpu", "video-bench:action": "cpu"}
    site = Profile(placement={**good, "colour": "gpu", "no-bench:x": "cpu"})
    messages = [finding.message for finding in check_placement(site)]
    colour, bench = messages
    assert colour == "colour in profile places nothing: did you mean color?"
    assert bench.startswith("no-bench:x in profile places nothing: did you mean video-bench")
