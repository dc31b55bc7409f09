"""Releases and submissions go to a hub and come back, by the real client of the Hugging Face hub."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flows.release.options import BuildOptions, SourceRoot
from flows.score.options import EvaluateOptions
from slvmeval.cli.main import main
from storage_schemas.commit import MANIFEST_NAME, Manifest, StoredFile, payload_files
from storage_schemas.errors import IntegrityError, PrerequisiteError, UserInputError
from storage_schemas.ids import digest_file
from storage_schemas.json_checksum import read_checked_json, with_checksum
from storage_schemas.release import Release
from storage_schemas.store import ENCODED, FRAMES, KINDS, Store
from tasks.models import hub_program
from tasks.models.hub_access import HubProblem, ask_hub, hub_address
from tasks.publish import hub_sharing
from tasks.publish.export import export_release
from tasks.publish.hub_sharing import pull_release, pull_submissions, push_release, push_submission
from tasks.publish.packed_release import PACKED_LIST, unpack_folder
from tasks.scoring.registry import choice_from_text
from tests.hub.dataset_hub import DatasetHub, dataset_hub
from tests.inline import build_inline, evaluate_inline
from tests.resealed import reseal
from tests.small_films import recipe_without_weights
from tests.tasks.publish.conftest import Small

# the hub's library gives its HTTP client what that calls old
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

DEMO, TABLES = "lab/demo", "store/release.tar"
FREE = {"title": "A free film", "licence": "CC BY 4.0", "redistributable": True, "credit": "A. Person"}
AddFilm = Callable[[Path, int], Path]


@pytest.fixture(scope="module")
def built(add_film: AddFilm, tmp_path_factory: pytest.TempPathFactory) -> BuildOptions:
    """A release of one free film, with three aspects."""
    folder = tmp_path_factory.mktemp("shared")
    video = add_film(folder / "videos", 1)
    (folder / "videos" / "licences.jsonl").write_text(json.dumps({"video": video.name, **FREE}))
    recipe = recipe_without_weights()
    kept = ("aesthetics", "comprehensiveness", "dynamics_degree")
    aspects = {name: recipe.aspects[name] for name in kept}
    options = BuildOptions(
        store=str(folder / "store"),
        sources=(SourceRoot(path=str(folder / "videos")),),
        recipe=recipe.model_copy(update={"aspects": aspects}),
        release="demo",
    )
    build_inline(options)
    return options


@pytest.fixture(scope="module")
def release(built: BuildOptions) -> Release:
    return Release.open(Store.open(Path(built.store)), "demo")


@pytest.fixture(scope="module")
def exported(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packed export of the release; read only."""
    folder = tmp_path_factory.mktemp("exported")
    export_release(release.store, release, folder, packed=True)
    return folder


@pytest.fixture
def changed(exported: Path, tmp_path: Path) -> Path:
    """A packed export that may be changed."""
    return Path(shutil.copytree(exported, tmp_path / "changed"))


@pytest.fixture(scope="module")
def the_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetHub]:
    with (
        pytest.MonkeyPatch.context() as patch,
        dataset_hub(patch, str(tmp_path_factory.mktemp("home"))) as hub,
    ):
        yield hub


@pytest.fixture
def hub(the_hub: DatasetHub, monkeypatch: pytest.MonkeyPatch) -> DatasetHub:
    """An empty hub, which is asked by this process: each program of its own would load the library again."""
    for kept in (the_hub.repositories, the_hub.objects, the_hub.uploaded, the_hub.downloaded):
        kept.clear()
    the_hub.breaks_after = None
    monkeypatch.setattr(hub_sharing, "ask_hub", ask_here)
    return the_hub


def ask_here(what: str, **request: Any) -> dict[str, Any]:
    from huggingface_hub import constants
    from huggingface_hub.utils import close_session

    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("ENDPOINT", hub_address()),
            ("HF_HUB_OFFLINE", False),
            ("HF_HUB_DISABLE_XET", True),
        ):
            patch.setattr(constants, name, value)
        try:
            answer = {"download": hub_program._downloaded, "upload": hub_program._uploaded}[what](request)
        except Exception as problem:
            raise HubProblem(hub_program._kind(problem), str(problem)) from problem
        finally:
            close_session()
    if "problem" in answer:
        raise HubProblem(answer["problem"], answer["detail"])
    return answer


def contents(store: Store) -> dict[str, tuple[str, dict[str, str]]]:
    """What each artifact that travels is: its content's checksum, and that of each file."""
    return {
        f"{kind} {one.id}": (one.content_checksum, {name: file.sha256 for name, file in one.files.items()})
        for kind in KINDS
        if kind not in (ENCODED, "analysis")
        for one in store.manifests(kind)
    }


def pulled(store: Path, revision: str = "main") -> Release:
    return pull_release(Store.create(store), DEMO, revision, lambda _: None, lambda *_: None)


def relist(folder: Path, name: str) -> None:
    """State the checksum that a changed file has now."""
    packed = json.loads(read_checked_json(folder / PACKED_LIST))
    for file in packed["files"]:
        if file["path"] == name:
            file["sha256"] = digest_file(folder / name)
    (folder / PACKED_LIST).write_bytes(with_checksum(json.dumps(packed)))


def test_pull_gives_the_same_back(release: Release, exported: Path, hub: DatasetHub, tmp_path: Path) -> None:
    page = push_release(exported, DEMO, False, "Release demo")
    assert page == f"{hub.address}/datasets/{DEMO}"
    assert hub.dataset(DEMO).private
    there = pulled(tmp_path / "store")
    assert (there.name, there.version) == (release.name, release.version)
    assert there.manifest.content_checksum == release.manifest.content_checksum
    assert contents(there.store) == contents(release.store)
    assert [record.model_dump() for record in there.pairs()] == [
        record.model_dump() for record in release.pairs()
    ]
    assert main(["verify", "demo", "--deep", "--quiet", "--store", str(there.store.root)]) == 0
    assert not list((there.store.cache / "pulled").iterdir())
    downloaded = len(hub.downloaded)
    assert pulled(tmp_path / "store").version == release.version
    assert hub.downloaded[downloaded:] == [PACKED_LIST], "all else is there"


def test_unpacked_release_is_extended_and_judged(
    release: Release, built: BuildOptions, exported: Path, add_film: AddFilm, tmp_path: Path
) -> None:
    store = unpack_folder(exported, Store.create(tmp_path / "store")).store
    # nothing tells of the machine
    host = release.manifest.provenance["host"]
    assert "host" not in Release.open(store, "demo").manifest.provenance
    for path in store.root.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert str(Path(built.store).parent).encode() not in content, path
            assert json.dumps({"host": host})[1:-1].encode() not in content, path
    # evicted frames come back by pulling again
    for manifest in list(store.manifests(FRAMES)):
        store.remove(FRAMES, manifest.id)
    unpack_folder(exported, store)
    assert contents(store) == contents(release.store)
    add_film(tmp_path / "more", 2)
    more = {"store": str(store.root), "sources": (SourceRoot(path=str(tmp_path / "more")),)}
    extended = build_inline(built.model_copy(update=more)).release
    assert extended.version == release.version + 1
    assert len(extended.sources()) == 2
    assert {one.pair_id for one in release.pairs()} < {one.pair_id for one in extended.pairs()}
    asked = {"store": str(store.root), "release": "demo", "version": 1}
    assert evaluate_inline(EvaluateOptions(**asked, evaluators=(choice_from_text("coin"),))).exit_code == 0
    # and the source's frames can be made again where its film is
    assert unpack_folder(exported, store).version == release.version


def test_an_upload_that_broke_off_sends_the_rest(exported: Path, hub: DatasetHub, tmp_path: Path) -> None:
    hub.breaks_after = 3
    with pytest.raises(PrerequisiteError):
        push_release(exported, DEMO, True, "Release demo")
    assert len(hub.uploaded) == 3
    with pytest.raises(UserInputError, match=r"has no store/packed\.json"):
        pulled(tmp_path / "early")
    hub.breaks_after = None
    push_release(exported, DEMO, True, "Release demo")
    assert len(hub.uploaded) == len(set(hub.uploaded)), "nothing was sent twice"
    assert not hub.dataset(DEMO).private
    sent, commits = len(hub.uploaded), hub.dataset(DEMO).commits
    push_release(exported, DEMO, True, "Release demo")
    assert (len(hub.uploaded), hub.dataset(DEMO).commits) == (sent, commits)


@pytest.mark.slow
def test_a_killed_pull_continues(
    release: Release, exported: Path, hub: DatasetHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the hub's client in a program of its own, as users have it."""
    monkeypatch.setattr(hub_sharing, "ask_hub", ask_hub)
    push_release(exported, DEMO, True, "Release demo")
    store, running = tmp_path / "store", []

    class Downloads(list[str]):
        def append(self, path: str) -> None:
            super().append(path)
            if path.endswith(".tar"):
                running[0].kill()

    monkeypatch.setattr(hub, "downloaded", Downloads())
    program = "import sys; from slvmeval.cli.main import main; sys.stdin.readline(); main()"
    command = [sys.executable, "-c", program, "pull", DEMO, "--quiet", "--store", str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        running.append(process)
        process.communicate(b"\n", timeout=300)
    assert process.returncode == -signal.SIGKILL
    monkeypatch.setattr(hub, "downloaded", [])
    assert not list(store.glob("releases/*/versions/*/manifest.json"))
    assert contents(pulled(store).store) == contents(release.store)


def test_push_keeps_what_must_stay(small: Small, hub: DatasetHub, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["export", "small", "--push", DEMO, "--store", str(small.store.root)]
    assert main([*command, "--public"]) == 1
    assert "Film secret two (academic use only)" in capsys.readouterr().err
    assert main([*command, "--private"]) == 2
    assert "not with --push" in capsys.readouterr().err
    assert not hub.repositories


def test_pull_names_what_was_changed(exported: Path, hub: DatasetHub, tmp_path: Path) -> None:
    push_release(exported, DEMO, True, "Release demo")
    files = hub.dataset(DEMO).files
    whole, packed = dict(files), json.loads(read_checked_json(exported / PACKED_LIST))
    tar = next(path for path in files if path.endswith(".tar") and "release" not in path)
    other = with_checksum(json.dumps({**packed, "content_checksum": "0" * 64}))
    for place, (name, content, says) in enumerate(
        (
            (tar, files[tar][:-2000] + b"x" + files[tar][-1999:], f"{tar} .*its list says"),
            (PACKED_LIST, files[PACKED_LIST].replace(b"demo", b"Demo", 1), "is damaged"),
            (PACKED_LIST, other, "its list says demo/1 and"),
        )
    ):
        files.update(whole | {name: content})
        store = tmp_path / str(place)
        with pytest.raises(IntegrityError, match=says):
            pulled(store)
        assert not list(store.glob("releases/*/versions/*/manifest.json"))


def test_a_tar_that_leads_out_of_the_store_is_refused(changed: Path, tmp_path: Path) -> None:
    packed = json.loads(read_checked_json(changed / PACKED_LIST))
    entry = next(file for file in packed["files"] if file["artifacts"])
    with tarfile.open(changed / entry["path"], "w") as tar:
        kind, id_ = entry["artifacts"][0]
        tar.add(__file__, f"artifacts/{kind}/{id_[:2]}/{id_}/../../../../../owned")
    relist(changed, entry["path"])
    with pytest.raises(IntegrityError, match="has no valid manifest"):
        unpack_folder(changed, Store.create(tmp_path / "inner" / "store"))
    # with a manifest that lists it
    content = Path(__file__).read_bytes()
    listed = StoredFile(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    manifest = Manifest(
        kind=kind, id=id_, consumes={}, content_checksum="", files={"../../../../../owned": listed}
    )
    _add_member(changed, entry["path"], f"artifacts/{kind}/{id_[:2]}/{id_}/manifest.json", _sealed(manifest))
    with pytest.raises(IntegrityError, match="strange name"):
        unpack_folder(changed, Store.create(tmp_path / "inner" / "store"))
    assert not list(tmp_path.rglob("owned"))


def _sealed(manifest: Manifest) -> bytes:
    return with_checksum(manifest.model_dump_json())


def _add_member(folder: Path, name: str, member: str, content: bytes) -> None:
    with tarfile.open(folder / name, "a") as tar:
        info = tarfile.TarInfo(member)
        info.size = len(content)
        tar.addfile(info, BytesIO(content))
    relist(folder, name)


@pytest.mark.parametrize("what", ["sparse", "unlisted", "longer", "many"])
def test_unpack_writes_only_what_the_manifest_announces(changed: Path, tmp_path: Path, what: str) -> None:
    packed = json.loads(read_checked_json(changed / PACKED_LIST))
    entry = next(file for file in packed["files"] if file["artifacts"])
    path = changed / entry["path"]
    with tarfile.open(path) as tar:
        name = next(member.name for member in tar if member.name.endswith(".zip"))
        folder = str(Path(name).parent)
    if what == "sparse":
        _add_member(changed, entry["path"], f"{folder}/hole", b"")
        raw = bytearray(path.read_bytes())
        place = raw.rindex(f"{folder}/hole".encode())
        # GNU's old sparse file of 8 GiB without data
        raw[place + 156 : place + 157] = b"S"
        raw[place + 483 : place + 495] = b"100000000000"
        raw[place + 148 : place + 156] = b" " * 8
        raw[place + 148 : place + 156] = b"%06o\0 " % sum(raw[place : place + 512])
        path.write_bytes(raw)
        relist(changed, entry["path"])
    elif what == "unlisted":
        _add_member(changed, entry["path"], f"{folder}/more", b"x")
    elif what == "longer":
        _add_member(changed, entry["path"], name, bytes(1 << 20))
    else:
        with tarfile.open(path, "a") as tar:
            for number in range(3000):
                tar.addfile(tarfile.TarInfo(f"{folder}/{number}"))
        relist(changed, entry["path"])
    store = Store.create(tmp_path / "store")
    with pytest.raises(
        IntegrityError, match="something else than files" if what == "sparse" else "do not match its manifest"
    ):
        unpack_folder(changed, store)
    assert not store.staging.exists() or not list(store.staging.iterdir())


def test_tables_of_other_pairs_are_refused(changed: Path, tmp_path: Path) -> None:
    """Although the tar files, the list and the manifest fit each other."""
    with tarfile.open(changed / TABLES) as tar:
        # Python has it from 3.11.4 on, and warns without it from 3.12 on
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(tmp_path / "tables", **safely)  # type: ignore[arg-type]
    version = tmp_path / "tables" / "release"
    pairs = pq.read_table(version / "pairs.parquet").slice(1)
    pq.write_table(pairs, version / "pairs.parquet")
    manifest = json.loads(read_checked_json(version / MANIFEST_NAME))
    manifest["files"] = {name: file.model_dump() for name, file in payload_files(version).items()}
    (version / MANIFEST_NAME).write_bytes(with_checksum(json.dumps(manifest)))
    with tarfile.open(changed / TABLES, "w") as tar:
        for path in version.iterdir():
            tar.add(path, f"release/{path.name}")
    relist(changed, TABLES)
    with pytest.raises(IntegrityError, match=r"the pairs of .* have checksum"):
        unpack_folder(changed, Store.create(tmp_path / "store"))
    assert not list((tmp_path / "store").glob("releases/*/versions/*"))


def test_a_list_that_leaves_artifacts_out_makes_no_release(changed: Path, tmp_path: Path) -> None:
    packed = json.loads(read_checked_json(changed / PACKED_LIST))
    packed["files"] = [file for file in packed["files"] if file["path"] == TABLES]
    (changed / PACKED_LIST).write_bytes(with_checksum(json.dumps(packed)))
    with pytest.raises(IntegrityError, match=r"lacks frames [0-9a-f]{64}, which a pair of A free film needs"):
        unpack_folder(changed, Store.create(tmp_path / "store"))


def test_a_pipe_in_place_of_the_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    os.mkfifo(tmp_path / PACKED_LIST)
    with pytest.raises(UserInputError, match="no packed release"):
        unpack_folder(tmp_path, Store.create(tmp_path / "mine"))


def test_push_leaves_other_files(release: Release, exported: Path, changed: Path, hub: DatasetHub) -> None:
    (changed / "notes.txt").write_text("for me")
    (changed / "store" / f".release.tar.{'0' * 32}").write_bytes(b"half")
    push_release(changed, DEMO, True, "Release demo")
    sent = {path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()}
    assert hub.dataset(DEMO).files.keys() - {".gitattributes"} == sent
    # the next export removes what a killed one left, and nothing of the user's; packing gives the same again
    for path in (changed / "store").glob("*.tar"):
        path.unlink()
    export_release(release.store, release, changed, packed=True)
    assert (changed / "notes.txt").exists()
    mine, theirs = (
        {path.name: path.read_bytes() for path in (folder / "store").iterdir()}
        for folder in (changed, exported)
    )
    assert mine == theirs


def test_a_push_without_a_folder_leaves_none(
    built: BuildOptions, release: Release, hub: DatasetHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "demo", "--push", DEMO, "--quiet", "--store", built.store]) == 0
    assert release.manifest.content_checksum in capsys.readouterr().out
    table = pq.read_table(BytesIO(hub.dataset(DEMO).files["data/pairs.parquet"]))
    assert table["high"][0].as_py()["path"].startswith(f"hf://datasets/{DEMO}@main/videos/")
    assert not list(release.store.exports.iterdir())


def test_another_release_of_the_name_is_not_mixed_up(exported: Path, tmp_path: Path) -> None:
    mine = unpack_folder(exported, Store.create(tmp_path / "store"))
    reseal(mine.path, content_checksum="0" * 64)
    with pytest.raises(UserInputError, match="has another version 1 of release demo"):
        unpack_folder(exported, mine.store)


def test_push_and_pull_report_mistakes(
    exported: Path, hub: DatasetHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserInputError, match="ORGANISATION/NAME"):
        push_release(exported, "demo", True, "")
    with pytest.raises(PrerequisiteError, match="does not let this user write to others/demo"):
        push_release(exported, "others/demo", True, "")
    push_release(exported, DEMO, False, "Release demo")
    with pytest.raises(PrerequisiteError, match="does not show lab/demo @ v9"):
        pulled(tmp_path / "store", "v9")
    # somebody else's dataset is not overwritten
    files = hub.dataset(DEMO).files
    files.clear()
    files["years_of_work.csv"] = b"1,2"
    with pytest.raises(UserInputError, match=r"has other files \(years_of_work.csv\)"):
        push_release(exported, DEMO, True, "Release demo")
    assert list(files) == ["years_of_work.csv"]
    monkeypatch.setenv("HF_TOKEN", "hf_anotherOne")
    with pytest.raises(PrerequisiteError, match="log in") as refused:
        pulled(tmp_path / "store")
    assert "hf_anotherOne" not in str(refused.value)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PrerequisiteError, match="run the same command again"):
        pulled(tmp_path / "store")


def test_submissions_go_the_same_way(exported: Path, hub: DatasetHub, tmp_path: Path) -> None:
    file, work = tmp_path / "coin.json", tmp_path / "work"
    file.write_text('{"a": 1}')
    work.mkdir()
    push_submission(file, DEMO, True, work)
    # a release beside them leaves them, and goes where they are
    push_release(exported, DEMO, True, "Release demo")
    assert hub.dataset(DEMO).files["submissions/coin.json"] == b'{"a": 1}'
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    target = tmp_path / "answers"
    assert pull_submissions(DEMO, "main", target, tmp_path / "first") == [target / "coin.json"]
    (target / "coin.json").write_text("mine")
    with pytest.raises(UserInputError, match="exists with other content"):
        pull_submissions(DEMO, "main", target, tmp_path / "second")
    assert (target / "coin.json").read_text() == "mine"
