"""Fetching from a model hub: the real code and the hub's own library, against a hub on this machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import IntegrityError, PrerequisiteError
from storage_schemas.ids import digest_text
from tasks.models import fetch, hub_access
from tasks.models.fetch import fetch_model
from tasks.models.hub import ModelHub
from tasks.models.mirror import placing, read_manifest
from tests.tasks.models.checkpoints import FILES, REVISION, WEIGHTS, know, toy_spec
from tests.tasks.models.fake_hub import FakeHub, fake_hub, other_sum

#: What the hub's library reads at once, and a text of more than two such pieces.
PIECE = 10 * 1024 * 1024
LONG = "weights " * 3_000_000


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub that has the model toy, for a user without a login, where nothing is to be looked for outside."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    know(monkeypatch, toy_spec())
    with fake_hub(monkeypatch) as running:
        yield running


def weights_asked(hub: FakeHub) -> list[str | None]:
    return [asked for method, path, asked in hub.asked if method == "GET" and path.endswith(".safetensors")]


def test_what_is_needed_is_fetched_compared_and_placed_whole(hub: FakeHub, tmp_path: Path) -> None:
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
    hub.asked.clear()
    assert fetch_model("toy", models) == models / "toy"
    assert hub.asked == []


def test_a_download_that_breaks_off_goes_on_where_it_was(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, toy_spec(text=LONG))
    hub.files["unet/model.safetensors"] = LONG
    hub.cut_after, hub.cuts = len(LONG) - 100, 1
    fetch_model("toy", tmp_path)
    assert weights_asked(hub) == [None, f"bytes={2 * PIECE}-"]
    assert (tmp_path / "toy/unet/model.safetensors").read_text() == LONG


def test_a_fetch_that_was_killed_goes_on_with_the_files_that_it_did_not_have(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subprocess.run
    staging = tmp_path / ".fetch-toy"

    def killed(command: list[str], *, input: bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
        if b'"folder": null' in input:
            return run(command, input=input, **options)
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

    hub.cut_after, hub.cuts = 1000, 1
    hub.stalls.set()
    with monkeypatch.context() as patch:
        patch.setattr(hub_access.subprocess, "run", killed)
        with pytest.raises(PrerequisiteError, match=r"was ended \(-9\): run the same command again"):
            fetch_model("toy", tmp_path)
    hub.stalls.clear()
    with pytest.raises(PrerequisiteError, match="slvmeval models fetch toy"):
        ModelHub([tmp_path]).path("toy")
    assert list(staging.rglob("*.incomplete"))
    hub.asked.clear()
    fetch_model("toy", tmp_path)
    fetched = [
        path.rpartition("/")[2] for method, path, _ in hub.asked if method == "GET" and "resolve" in path
    ]
    assert fetched == ["model.safetensors"]
    assert (tmp_path / "toy/unet/model.safetensors").read_text() == WEIGHTS
    assert not staging.exists()


def test_a_file_that_comes_as_another_is_refused_and_fetched_anew(hub: FakeHub, tmp_path: Path) -> None:
    hub.sent["unet/model.safetensors"] = WEIGHTS.upper()
    with pytest.raises(
        IntegrityError, match=r"unet/model\.safetensors .* differs from the file that the hub"
    ):
        fetch_model("toy", tmp_path)
    assert not (tmp_path / "toy").exists()
    hub.sent.clear()
    fetch_model("toy", tmp_path)
    assert len(weights_asked(hub)) == 2


def test_a_small_file_is_compared_by_gits_checksum(hub: FakeHub, tmp_path: Path) -> None:
    hub.sent["config.json"] = "[]"
    with pytest.raises(IntegrityError, match=r"config\.json .* differs from the file"):
        fetch_model("toy", tmp_path)


def test_a_hub_that_states_other_weights_than_are_known_is_not_downloaded_from(
    hub: FakeHub, tmp_path: Path
) -> None:
    hub.stated_sha256["unet/model.safetensors"] = other_sum(WEIGHTS)
    with pytest.raises(
        IntegrityError, match=f"of someone/toy of the hub at {hub.address} .*is not that of toy"
    ):
        fetch_model("toy", tmp_path)
    del hub.files["unet/model.safetensors"]
    with pytest.raises(IntegrityError, match=r"has no unet/model\.safetensors, which toy has"):
        fetch_model("toy", tmp_path)
    assert not weights_asked(hub)


def test_where_no_checksum_is_known_the_hubs_own_counts(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, toy_spec(sha256=None))
    fetch_model("toy", tmp_path)
    assert {file.path: file.sha256 for file in read_manifest(tmp_path / "toy").files}[
        "unet/model.safetensors"
    ] == digest_text(WEIGHTS)


def test_pickled_weights_are_not_fetched(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, toy_spec(allow=("*",), ignore=("*.py",)))
    with pytest.raises(IntegrityError, match=r"pickled weights .*\(toy\.ckpt\)"):
        fetch_model("toy", tmp_path)
    assert not weights_asked(hub)


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
def test_what_the_hub_refuses_is_said_with_what_to_do(
    status: int, reason: str, said: str, hub: FakeHub, tmp_path: Path
) -> None:
    hub.status = (status, reason)
    with pytest.raises(PrerequisiteError, match=said):
        fetch_model("toy", tmp_path)


@pytest.mark.slow  # the hub's library tries for 20 s
def test_a_hub_that_is_not_there_is_said_with_the_way_by_hand(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PrerequisiteError) as caught:
        fetch_model("toy", tmp_path)
    message = str(caught.value)
    assert "could not be fetched from http://127.0.0.1:1" in message
    assert f"hf download someone/toy --revision {REVISION} --include '*.json'" in message
    assert "slvmeval models add toy FOLDER" in message


def test_what_is_no_hub_is_said(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHub, "tree", lambda self: {"hello": "world"})
    with pytest.raises(PrerequisiteError, match=r"127\.0\.0\.1"):
        fetch_model("toy", tmp_path)


def test_too_little_space_is_said_before_the_download(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(PrerequisiteError, match=r"toy needs .* more .* free some space"):
        fetch_model("toy", tmp_path)
    assert not weights_asked(hub)


def test_without_the_hubs_library_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "huggingface_hub" else find(name)
    )
    with pytest.raises(PrerequisiteError, match=r"make env-models(.|\n)*slvmeval models add qwen3-8b FOLDER"):
        fetch_model("qwen3-8b", tmp_path)


def test_two_fetches_of_one_model_do_not_mix(hub: FakeHub, tmp_path: Path) -> None:
    with placing("toy", tmp_path, "add"), pytest.raises(PrerequisiteError, match="another process"):
        fetch_model("toy", tmp_path)


def test_a_folder_in_the_way_is_not_overwritten(hub: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    with pytest.raises(PrerequisiteError, match="already exists: remove it first"):
        fetch_model("toy", tmp_path)
    assert not weights_asked(hub)


def test_a_killed_request_leaves_no_file_in_the_temporary_folder(hub: FakeHub, tmp_path: Path) -> None:
    hub.cut_after, hub.cuts = 1000, 1
    hub.stalls.set()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    request = {"what": "download", "type": "model", "repository": "someone/toy", "revision": REVISION}
    request |= {"folder": str(tmp_path / "to"), "allow": None, "ignore": None}
    command = [sys.executable, "-c", f"from tasks.models.hub_access import ask_hub; ask_hub(**{request!r})"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}) as process:
        try:
            assert hub.stalled.wait(60)
        finally:
            process.kill()
    hub.stalls.clear()
    assert list(temporary.iterdir()) == []
