"""Fetching from a model hub: the real code and the hub's own library, against a hub on this machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storage_schemas.errors import IntegrityError, PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text
from tasks.models import fetch, hub_access
from tasks.models.fetch import fetch_model, fetch_repository
from tasks.models.hub import ModelHub
from tasks.models.mirror import placing, read_manifest
from tests.tasks.models.checkpoints import FILES, REVISION, WEIGHTS, know, toy_spec
from tests.tasks.models.fake_hub import FakeHub, Run, fake_hub, loaded_program

NAME = "unet/model.safetensors"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    program = Path(hub_access.__file__).with_name("hub_program.py")
    with loaded_program(program, tmp_path_factory.mktemp("hf")) as run:
        yield run


@pytest.fixture
def toy_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub that has the model toy, for a user without a login, where nothing is to be looked for outside."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    know(monkeypatch, toy_spec())
    with fake_hub(monkeypatch) as running:
        yield running


@pytest.fixture
def hub(toy_hub: FakeHub, loaded: Run, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """The same, asked by a program that has its library already."""
    monkeypatch.setattr(hub_access, "subprocess", SimpleNamespace(run=loaded, PIPE=subprocess.PIPE))
    return toy_hub


def weights_asked(hub: FakeHub) -> list[str | None]:
    return [asked for method, path, asked in hub.asked if method == "GET" and path.endswith(".safetensors")]


def test_what_is_needed_is_fetched_compared_and_placed_whole(toy_hub: FakeHub, tmp_path: Path) -> None:
    models = tmp_path / "models"
    told: list[str] = []
    assert fetch_model("toy", models, progress=lambda done, total, path: told.append(path)) == models / "toy"
    manifest = read_manifest(models / "toy")
    assert {file.path: file.sha256 for file in manifest.files} == {
        p: digest_text(t) for p, t in FILES.items()
    }
    assert (manifest.repository, manifest.revision, manifest.kind) == ("someone/toy", REVISION, "detector")
    assert told == list(FILES)
    below = {path.relative_to(models).as_posix() for path in models.rglob("*") if path.is_file()}
    assert below == {f"toy/{path}" for path in (*FILES, "slvmeval-model.json")} | {".toy.lock"}
    assert ModelHub([models]).path("toy") == models / "toy"
    toy_hub.asked.clear()
    assert fetch_model("toy", models) == models / "toy"
    assert toy_hub.asked == []


def test_a_download_that_breaks_off_resumes(hub: FakeHub, tmp_path: Path) -> None:
    hub.cut_after, hub.cuts = len(WEIGHTS) - 100, 1
    fetch_model("toy", tmp_path)
    assert weights_asked(hub) == [None, "bytes=300000-"]
    assert (tmp_path / "toy" / NAME).read_text() == WEIGHTS


def test_a_fetch_that_was_killed_resumes_with_the_files_that_it_did_not_have(
    hub: FakeHub, loaded: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = tmp_path / ".fetch-toy"

    def killed(command: list[str], *, input: bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
        if b'"what": "list"' in input:
            return loaded(command, input=input, **options)
        child = subprocess.Popen(command, stdin=subprocess.PIPE, env=options["env"])
        assert child.stdin is not None
        with child.stdin as pipe:
            pipe.write(input)
        assert hub.stalled.wait(60)
        # a file is there for the next try once the hub's library has noted it
        while {"README.md.metadata", "config.json.metadata"} - {
            result.name for result in staging.rglob("*.metadata") if result.stat().st_size
        }:
            assert child.poll() is None
            time.sleep(0.01)
        child.kill()
        return subprocess.CompletedProcess(command, child.wait())

    hub.cut_after, hub.cuts, hub.stalls = 1000, 1, True
    with monkeypatch.context() as patch:
        patch.setattr(hub_access.subprocess, "run", killed)
        with pytest.raises(PrerequisiteError, match=r"was ended \(-9\): run the same command again"):
            fetch_model("toy", tmp_path)
    hub.released.set()
    with pytest.raises(PrerequisiteError, match="slvmeval models add toy"):
        ModelHub([tmp_path]).path("toy")
    assert list(staging.rglob("*.incomplete"))
    hub.asked.clear()
    fetch_model("toy", tmp_path)
    fetched = [path for method, path, _ in hub.asked if method == "GET" and "resolve" in path]
    assert [path.rpartition("/")[2] for path in fetched] == ["model.safetensors"]
    assert (tmp_path / "toy" / NAME).read_text() == WEIGHTS
    assert not staging.exists()


@pytest.mark.parametrize("path", [NAME, "config.json"])
def test_fetch_refuses_another_file_and_fetches_it_again(path: str, hub: FakeHub, tmp_path: Path) -> None:
    hub.sent[path] = hub.files[path][::-1]
    with pytest.raises(IntegrityError, match=rf"{path} .* differs from the file that the hub"):
        fetch_model("toy", tmp_path)
    assert not (tmp_path / "toy").exists()
    hub.sent.clear()
    fetch_model("toy", tmp_path)
    assert len(weights_asked(hub)) == (2 if path == NAME else 1)


def test_fetch_downloads_nothing_where_the_hub_states_other_weights(hub: FakeHub, tmp_path: Path) -> None:
    hub.stated_sha256[NAME] = digest_text("other weights")
    said = f"of someone/toy of the hub at {hub.base} .*is not that of toy"
    with pytest.raises(IntegrityError, match=said):
        fetch_model("toy", tmp_path)
    del hub.files[NAME]
    with pytest.raises(IntegrityError, match=rf"has no {NAME}, which toy has"):
        fetch_model("toy", tmp_path)
    assert not weights_asked(hub)


def test_fetch_may_trust_the_hubs_sums(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, toy_spec(sha256=None))
    fetch_model("toy", tmp_path)
    sums = {file.path: file.sha256 for file in read_manifest(tmp_path / "toy").files}
    assert sums[NAME] == digest_text(WEIGHTS)


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        (401, "GatedRepo", r"accept its terms at http://127.*/someone/toy, and log in \(`hf auth login`"),
        (403, "GatedRepo", "accept its terms"),
        (401, "", "accept its terms"),
        (404, "RepoNotFound", "does not have someone/toy @ 0123.*HF_ENDPOINT"),
        (404, "RevisionNotFound", "does not have someone/toy @ 0123"),
    ],
)
def test_fetch_says_why_it_refuses(status: int, reason: str, said: str, hub: FakeHub, tmp_path: Path) -> None:
    hub.status = (status, reason)
    with pytest.raises(PrerequisiteError, match=said):
        fetch_model("toy", tmp_path)


def test_fetch_says_the_way_by_hand(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHub, "tree", lambda self: {"hello": "world"})
    with pytest.raises(PrerequisiteError, match=r"127\.0\.0\.1"):
        fetch_model("toy", tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PrerequisiteError) as caught:
        fetch_model("toy", tmp_path)
    message = str(caught.value)
    assert "could not be fetched from http://127.0.0.1:1" in message
    assert f"hf download someone/toy --revision {REVISION} --include '*.json'" in message
    assert "slvmeval models add toy FOLDER" in message


def test_fetch_refuses_pickled_files(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(fetch.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
        with pytest.raises(PrerequisiteError, match=r"toy needs .* more .* free some space"):
            fetch_model("toy", tmp_path)
    know(monkeypatch, toy_spec(allow=("*",), ignore=("*.py",)))
    with pytest.raises(IntegrityError, match=r"pickled weights .*\(toy\.ckpt\)"):
        fetch_model("toy", tmp_path)
    assert not weights_asked(hub)


def test_fetch_without_the_library_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "huggingface_hub" else find(name)
    )
    with pytest.raises(PrerequisiteError, match="huggingface_hub is missing: pip install huggingface-hub"):
        fetch_model("qwen3-8b", tmp_path)


def test_fetch_waits_for_no_other_and_overwrites_no_folder(hub: FakeHub, tmp_path: Path) -> None:
    with placing("toy", tmp_path, "add"), pytest.raises(PrerequisiteError, match="another process"):
        fetch_model("toy", tmp_path)
    (tmp_path / "toy").mkdir()
    with pytest.raises(PrerequisiteError, match="already exists: remove it first"):
        fetch_model("toy", tmp_path)
    assert not weights_asked(hub)


def test_a_killed_request_leaves_no_file_in_the_temporary_folder(toy_hub: FakeHub, tmp_path: Path) -> None:
    toy_hub.cut_after, toy_hub.cuts, toy_hub.stalls = 1000, 1, True
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    request = {"what": "download", "type": "model", "repository": "someone/toy", "revision": REVISION}
    request |= {"folder": str(tmp_path / "to"), "allow": None, "ignore": None}
    command = [sys.executable, "-c", f"from tasks.models.hub_access import ask_hub; ask_hub(**{request!r})"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}) as process:
        try:
            assert toy_hub.stalled.wait(60)
        finally:
            process.kill()
    toy_hub.released.set()
    assert list(temporary.iterdir()) == []


def test_any_model_of_the_hub_is_pinned_to_the_commit_that_was_fetched(hub: FakeHub, tmp_path: Path) -> None:
    hub.files = {"config.json": "{}", "model.safetensors": WEIGHTS, "original/model.safetensors": WEIGHTS}
    hub.about = {"cardData": {"license": "mit"}}
    place = fetch_repository("someone/toy", None, tmp_path)
    manifest = read_manifest(place)
    assert place == tmp_path / "someone--toy" == ModelHub([tmp_path]).path("someone--toy")
    assert (manifest.repository, manifest.revision) == ("someone/toy", REVISION)
    assert (manifest.kind, manifest.licence) == ("image-text-to-text", "mit")
    assert [file.path for file in manifest.files] == ["config.json", "model.safetensors"]
    assert manifest.memory_bytes > manifest.size
    hub.asked.clear()
    assert fetch_repository("someone/toy", REVISION[:7], tmp_path) == place
    with pytest.raises(PrerequisiteError, match=f"has someone/toy at revision {REVISION}, not abc"):
        fetch_repository("someone/toy", "abc", tmp_path)
    assert not hub.asked
    (place / "model.safetensors").write_text("other")
    with pytest.raises(IntegrityError, match=r"slvmeval models add someone/toy\)"):
        ModelHub([tmp_path]).path("someone--toy")
    with pytest.raises(
        PrerequisiteError, match=r"(?s)hub at .* does not have someone/other.*--kind image-text"
    ):
        fetch_repository("someone/other", None, tmp_path)
    hub.files = {"config.json": "{}", "model.bin": WEIGHTS}
    with pytest.raises(PrerequisiteError, match="has no weights in safetensors"):
        fetch_repository("someone/toy", REVISION, tmp_path / "another")


@pytest.mark.models
def test_a_model_of_another_type_is_not_downloaded(hub: FakeHub, tmp_path: Path) -> None:
    hub.about = {"config": {"model_type": "bert"}}
    with pytest.raises(UserInputError, match=r"someone/toy is not an image-text-to-text model.*'bert'"):
        fetch_repository("someone/toy", None, tmp_path)
    assert not weights_asked(hub)
