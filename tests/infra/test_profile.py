from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from infra.profile import Profile, default_workers, load_profile, profile_schema
from storage_schemas.errors import UserInputError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_command_line_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = write(tmp_path / "site.toml", 'store = "/file"\nworkers = 3\nsettle_s = 1.5\n')
    variables = {"SLVMEVAL_STORE": "/env", "SLVMEVAL_WORKERS": "5"}
    site = load_profile(file, {"store": "/line", "workers": None}, variables)
    assert (site.store, site.workers, site.settle_s, site.release) == ("/line", 5, 1.5, "main")
    assert load_profile(file, {}, variables).store == "/env"
    assert load_profile(file, {}, {}).store == "/file"
    assert load_profile(None, {}, {}) == Profile()


def test_the_environment_names_the_file_and_lists_folders(tmp_path: Path) -> None:
    text = 'name = "lab"\nmodel_folders = ["weights", "/abs"]\nstore = "kept"\n'
    file = write(tmp_path / "site.toml", text)
    site = load_profile(None, {}, {"SLVMEVAL_PROFILE": str(file)})
    assert site.name == "lab"
    # relative paths count from the file, not from where the command was typed
    assert site.model_folders == (str(tmp_path / "weights"), "/abs")
    assert site.store == str(tmp_path / "kept")
    given = {"SLVMEVAL_MODEL_FOLDERS": f"/a{os.pathsep}/b"}
    assert load_profile(file, {}, given).model_folders == ("/a", "/b")


def test_sources_of_a_file_count_from_its_folder(tmp_path: Path) -> None:
    texts = ["films", "vript:data/v?unpack=true", "folder:/else", "/a:b/c", "folder:"]
    (tmp_path / "site.toml").write_text(f"sources = {texts}", encoding="utf-8")
    assert load_profile(tmp_path / "site.toml", environment={}).sources == (
        f"{tmp_path}/films",
        f"vript:{tmp_path}/data/v?unpack=true",
        "folder:/else",
        "/a:b/c",
        "folder:",
    )


MODEL_SERVER = "[model_servers]\na = "
NO_FIT: list[tuple[str, dict[str, str], dict[str, object], tuple[str, ...]]] = [
    ("worker = 3", {}, {}, ("site.toml", "'worker'", "Did you mean 'workers'?", "quota_bytes")),
    ("workers = 0", {}, {}, ("site.toml", "workers", "must be at least 1")),
    ("model_folders = []", {}, {}, ("site.toml", "model_folders", "name at least one folder")),
    ("", {"SLVMEVAL_WORKERS": "many"}, {}, ("SLVMEVAL_WORKERS", "workers", "'many'")),
    ("", {}, {"settle_s": -1}, ("command line", "settle_s", "-1")),
    ("workers = ", {}, {}, ("site.toml", "not valid TOML")),
    (
        f'{MODEL_SERVER}"h:1"',
        {},
        {},
        ("model_servers.a.url: an address must begin with http:// or https://, or be 'offline' (got 'h:1')",),
    ),
    (
        f'{MODEL_SERVER}{{ url = "http://h", modell = "m" }}',
        {},
        {},
        ("model_servers.a.modell: unknown key. Did you mean 'model'?",),
    ),
    (f'{MODEL_SERVER}{{ url = "http://h", concurrency = 0 }}', {}, {}, ("model_servers.a.concurrency",)),
    (f"{MODEL_SERVER}{{ }}", {}, {}, ("model_servers.a.url",)),
    (f"{MODEL_SERVER}3", {}, {}, ("model_servers.a",)),
]


@pytest.mark.parametrize(("text", "variables", "line", "said"), NO_FIT)
def test_what_does_not_fit_says_where_it_stands(
    tmp_path: Path, text: str, variables: dict[str, str], line: dict[str, object], said: tuple[str, ...]
) -> None:
    file = write(tmp_path / "site.toml", text)
    with pytest.raises(UserInputError) as problem:
        load_profile(file, line, variables)
    for part in (str(file) if part == "site.toml" else part for part in said):
        assert part in str(problem.value)


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(UserInputError, match=r"profile /nowhere/site\.toml: No such file"):
        load_profile(Path("/nowhere/site.toml"), {}, {})


def test_it_is_frozen_and_strict_and_has_a_schema() -> None:
    with pytest.raises(ValidationError):
        Profile(store="a", stores="b")  # type: ignore[call-arg]
    site = Profile()
    with pytest.raises(ValidationError):
        site.store = "b"
    schema = profile_schema()
    assert set(schema["properties"]) == set(Profile.model_fields)
    assert schema["additionalProperties"] is False


def test_a_model_server_is_an_address_or_a_table(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(
        '[model_servers]\na = "http://h:1/v1"\nb = { url = "http://h:2/v1", model = "m", concurrency = 4 }\n'
    )
    servers = load_profile(path, {}, {}).model_servers
    assert (servers["a"].url, servers["a"].model, servers["a"].concurrency) == ("http://h:1/v1", None, 32)
    assert (servers["b"].url, servers["b"].model, servers["b"].concurrency) == ("http://h:2/v1", "m", 4)


def test_a_system_without_affinity_has_workers_for_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= default_workers() <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity")
    assert default_workers() == os.cpu_count()
