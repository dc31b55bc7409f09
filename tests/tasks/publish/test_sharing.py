"""Releases and submissions go to a hub and come back, by the real client of the Hugging Face hub."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.build.options import BuildOptions, SourceRoot
from slvmeval.cli.main import main
from storage_schemas.commit import MANIFEST_NAME, payload_files
from storage_schemas.errors import IntegrityError, PrerequisiteError, UserInputError
from storage_schemas.ids import digest_file
from storage_schemas.json_checksum import read_checked_json, with_checksum
from storage_schemas.release import Release
from storage_schemas.store import ENCODED, FRAMES, KINDS, Store
from tasks.publish.export import export_release
from tasks.publish.hub_sharing import pull_release, pull_submissions, push_release, push_submission
from tasks.publish.packed_release import PACKED_LIST, unpack_folder
from tests.hub.dataset_hub import DatasetHub, dataset_hub
from tests.inline import build_inline
from tests.small_films import caption_lines, make_film, recipe_without_weights, write_captions

DEMO, TABLES = "lab/demo", "store/release.tar"
FREE = {"title": "A free film", "licence": "CC BY 4.0", "redistributable": True, "credit": "A. Person"}


@pytest.fixture(scope="module")
def built(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> BuildOptions:
    """A release of one free film, with three aspects."""
    folder = tmp_path_factory.mktemp("shared")
    add_film(ffmpeg, folder / "videos", 1, FREE)
    recipe = recipe_without_weights()
    kept = ("aesthetics", "comprehensiveness", "dynamics_degree")
    recipe = recipe.model_copy(update={"aspects": {name: recipe.aspects[name] for name in kept}})
    options = BuildOptions(
        store=str(folder / "store"),
        sources=(SourceRoot(path=str(folder / "videos")),),
        recipe=recipe,
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
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatasetHub]:
    with dataset_hub(monkeypatch, str(tmp_path / "home")) as hub:
        yield hub


def add_film(ffmpeg: str, folder: Path, number: int, facts: dict[str, object] | None) -> None:
    folder.mkdir(exist_ok=True)
    make_film(ffmpeg, folder / f"film{number}.mp4", number)
    write_captions(folder / f"film{number}.jsonl", caption_lines())
    if facts is not None:
        with (folder / "licences.jsonl").open("a") as file:
            file.write(json.dumps({"video": f"film{number}.mp4", **facts}) + "\n")


def contents(store: Store) -> dict[str, tuple[str, dict[str, str]]]:
    """What each artifact that travels is: its content's checksum, and that of each file."""
    return {
        f"{kind} {manifest.id}": (
            manifest.content_checksum,
            {name: file.sha256 for name, file in manifest.files.items()},
        )
        for kind in KINDS
        if kind not in (ENCODED, "analysis")
        for manifest in store.manifests(kind)
    }


def pulled(store: Path, revision: str = "main") -> Release:
    return pull_release(Store.create(store), DEMO, revision, lambda _: None, lambda *_: None)


def test_a_release_comes_back_with_equal_checksums(
    release: Release, exported: Path, hub: DatasetHub, tmp_path: Path
) -> None:
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


def test_nothing_tells_of_the_machine(
    release: Release, built: BuildOptions, exported: Path, tmp_path: Path
) -> None:
    store = unpack_folder(exported, Store.create(tmp_path / "store")).store
    host = release.manifest.provenance["host"]
    assert "host" not in Release.open(store, "demo").manifest.provenance
    for path in store.root.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert str(Path(built.store).parent).encode() not in content, path
            assert json.dumps({"host": host})[1:-1].encode() not in content, path


def test_a_pulled_release_is_extended_and_judged_like_ones_own(
    release: Release, built: BuildOptions, exported: Path, ffmpeg: str, tmp_path: Path
) -> None:
    store = unpack_folder(exported, Store.create(tmp_path / "store")).store
    add_film(ffmpeg, tmp_path / "more", 2, None)
    more = built.model_copy(
        update={"store": str(store.root), "sources": (SourceRoot(path=str(tmp_path / "more")),)}
    )
    extended = build_inline(more).release
    assert extended.version == release.version + 1
    assert len(extended.sources()) == 2
    kept = {record.pair_id for record in release.pairs()}
    assert kept < {record.pair_id for record in extended.pairs()}
    evaluate = ["evaluate", "demo", "--version", "1", "-e", "coin", "--direct", "--quiet"]
    assert main([*evaluate, "--store", str(store.root)]) == 0
    # and the source's frames can be made again where its film is
    assert unpack_folder(exported, store).version == release.version


def test_evicted_frames_come_back_by_pulling_again(release: Release, exported: Path, tmp_path: Path) -> None:
    store = unpack_folder(exported, Store.create(tmp_path / "store")).store
    for manifest in list(store.manifests(FRAMES)):
        store.remove(FRAMES, manifest.id)
    unpack_folder(exported, store)
    assert contents(store) == contents(release.store)


def test_packing_again_gives_the_same_files(release: Release, exported: Path, tmp_path: Path) -> None:
    export_release(release.store, release, tmp_path / "again", packed=True)
    for path in (exported / "store").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / "store" / path.name).read_bytes()


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


def test_a_killed_pull_goes_on(release: Release, exported: Path, hub: DatasetHub, tmp_path: Path) -> None:
    push_release(exported, DEMO, True, "Release demo")
    command = [sys.executable, "-c", "from slvmeval.cli.main import main; main()"]
    process = subprocess.Popen(
        [*command, "pull", DEMO, "--quiet", "--store", str(tmp_path / "store")], env=os.environ
    )
    while not any(path.endswith(".tar") for path in hub.downloaded) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = tmp_path / "store"
    assert not list(store.glob("releases/*/versions/*/manifest.json"))
    assert contents(pulled(store).store) == contents(release.store)


def test_what_may_not_be_redistributed_stays(
    built: BuildOptions, ffmpeg: str, hub: DatasetHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_film(ffmpeg, tmp_path / "videos", 3, {"title": "Kept at home", "licence": "all rights reserved"})
    store = str(tmp_path / "store")
    more = built.model_copy(update={"store": store, "sources": (SourceRoot(path=str(tmp_path / "videos")),)})
    build_inline(more)
    assert main(["export", "demo", "--push", DEMO, "--public", "--store", store]) == 1
    assert "Kept at home (all rights reserved)" in capsys.readouterr().err
    assert main(["export", "demo", "--push", DEMO, "--private", "--store", store]) == 1
    assert "leave out --private" in capsys.readouterr().err
    assert not hub.repositories


@pytest.mark.parametrize(
    ("changed", "says"),
    [("tar", "its list says"), ("list", "is damaged"), ("tables", "its list says demo/1 and")],
)
def test_what_was_changed_is_named(
    exported: Path, hub: DatasetHub, tmp_path: Path, changed: str, says: str
) -> None:
    push_release(exported, DEMO, True, "Release demo")
    files = hub.dataset(DEMO).files
    tar = next(path for path in files if path.endswith(".tar") and "release" not in path)
    if changed == "tar":
        files[tar] = files[tar][:-2000] + b"x" + files[tar][-1999:]
    elif changed == "list":
        files[PACKED_LIST] = files[PACKED_LIST].replace(b"demo", b"Demo", 1)
    else:
        packed = json.loads(read_checked_json(exported / PACKED_LIST))
        files[PACKED_LIST] = with_checksum(json.dumps({**packed, "content_checksum": "0" * 64}))
    with pytest.raises(IntegrityError, match=says) as refused:
        pulled(tmp_path / "store")
    if changed == "tar":
        assert tar in str(refused.value)
    assert not list((tmp_path / "store").glob("releases/*/versions/*/manifest.json"))


def test_a_tar_that_leads_out_of_the_store_is_refused(exported: Path, tmp_path: Path) -> None:
    folder = tmp_path / "evil"
    shutil.copytree(exported, folder)
    packed = json.loads(read_checked_json(folder / PACKED_LIST))
    entry = next(file for file in packed["files"] if file["artifacts"])
    with tarfile.open(folder / entry["path"], "w") as tar:
        kind, id_ = entry["artifacts"][0]
        tar.add(__file__, f"artifacts/{kind}/{id_[:2]}/{id_}/../../../../../owned")
    relist(folder, entry["path"])
    with pytest.raises(IntegrityError, match="strange name"):
        unpack_folder(folder, Store.create(tmp_path / "inner" / "store"))
    assert not list(tmp_path.rglob("owned"))


def test_tables_of_other_pairs_are_refused(exported: Path, tmp_path: Path) -> None:
    """Although the tar files, the list and the manifest fit each other."""
    folder = tmp_path / "changed"
    shutil.copytree(exported, folder)
    with tarfile.open(folder / TABLES) as tar:
        # Python has it from 3.11.4 on, and warns without it from 3.12 on
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(tmp_path / "tables", **safely)  # type: ignore[arg-type]
    version = tmp_path / "tables" / "release"
    pairs = pq.read_table(version / "pairs.parquet").slice(1)
    pq.write_table(pairs, version / "pairs.parquet")
    manifest = json.loads(read_checked_json(version / MANIFEST_NAME))
    manifest["files"] = {name: file.model_dump() for name, file in payload_files(version).items()}
    (version / MANIFEST_NAME).write_bytes(with_checksum(json.dumps(manifest)))
    with tarfile.open(folder / TABLES, "w") as tar:
        for path in version.iterdir():
            tar.add(path, f"release/{path.name}")
    relist(folder, TABLES)
    with pytest.raises(IntegrityError, match=r"the pairs of .* have checksum"):
        unpack_folder(folder, Store.create(tmp_path / "store"))
    assert not list((tmp_path / "store").glob("releases/*/versions/*"))


def test_a_list_that_leaves_artifacts_out_makes_no_release(exported: Path, tmp_path: Path) -> None:
    folder = tmp_path / "less"
    shutil.copytree(exported, folder)
    packed = json.loads(read_checked_json(folder / PACKED_LIST))
    packed["files"] = [file for file in packed["files"] if file["path"] == TABLES]
    (folder / PACKED_LIST).write_bytes(with_checksum(json.dumps(packed)))
    with pytest.raises(IntegrityError, match=r"lacks frames [0-9a-f]{64}, which a pair of A free film needs"):
        unpack_folder(folder, Store.create(tmp_path / "store"))


def test_a_pipe_in_place_of_the_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    os.mkfifo(tmp_path / PACKED_LIST)
    with pytest.raises(UserInputError, match="there is no packed release"):
        unpack_folder(tmp_path, Store.create(tmp_path / "mine"))


def test_what_else_lies_in_the_folder_is_not_sent(
    release: Release, exported: Path, hub: DatasetHub, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(exported, folder)
    (folder / "notes.txt").write_text("for me")
    (folder / "store" / f".release.tar.{'0' * 32}").write_bytes(b"half")
    push_release(folder, DEMO, True, "Release demo")
    assert hub.dataset(DEMO).files.keys() - {".gitattributes"} == {
        path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()
    }
    # the next export removes what a killed one left, and nothing of the user's
    export_release(release.store, release, folder, packed=True)
    assert not list((folder / "store").glob(".*"))
    assert (folder / "notes.txt").exists()


def test_a_push_without_a_folder_leaves_none(
    built: BuildOptions, release: Release, hub: DatasetHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "demo", "--push", DEMO, "--quiet", "--store", built.store]) == 0
    assert release.manifest.content_checksum in capsys.readouterr().out
    table = pq.read_table(BytesIO(hub.dataset(DEMO).files["data/pairs.parquet"]))
    assert table["high"][0].as_py()["path"].startswith(f"hf://datasets/{DEMO}@main/videos/")
    assert not list(release.store.exports.iterdir())


def relist(folder: Path, name: str) -> None:
    """State the checksum that a changed file has now."""
    packed = json.loads(read_checked_json(folder / PACKED_LIST))
    for file in packed["files"]:
        if file["path"] == name:
            file["sha256"] = digest_file(folder / name)
    (folder / PACKED_LIST).write_bytes(with_checksum(json.dumps(packed)))


def test_another_release_of_the_name_is_not_mixed_up(
    built: BuildOptions, exported: Path, ffmpeg: str, tmp_path: Path
) -> None:
    add_film(ffmpeg, tmp_path / "videos", 4, FREE)
    store = tmp_path / "store"
    build_inline(
        built.model_copy(
            update={"store": str(store), "sources": (SourceRoot(path=str(tmp_path / "videos")),)}
        )
    )
    with pytest.raises(UserInputError, match="has another version 1 of release demo"):
        unpack_folder(exported, Store.open(store))


def test_what_a_user_does_wrong(
    exported: Path, hub: DatasetHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserInputError, match="ORGANISATION/NAME"):
        push_release(exported, "demo", True, "")
    with pytest.raises(PrerequisiteError, match="does not let this user write to others/demo"):
        push_release(exported, "others/demo", True, "")
    push_release(exported, DEMO, False, "Release demo")
    with pytest.raises(PrerequisiteError, match="does not show lab/demo @ v9"):
        pulled(tmp_path / "store", "v9")
    monkeypatch.setenv("HF_TOKEN", "hf_anotherOne")
    with pytest.raises(PrerequisiteError, match="log in") as refused:
        pulled(tmp_path / "store")
    assert "hf_anotherOne" not in str(refused.value)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PrerequisiteError, match="run the same command again"):
        pulled(tmp_path / "store")


def test_somebody_elses_dataset_is_not_overwritten(exported: Path, hub: DatasetHub) -> None:
    push_release(exported, DEMO, True, "Release demo")
    files = hub.dataset(DEMO).files
    files.clear()
    files["years_of_work.csv"] = b"1,2"
    with pytest.raises(UserInputError, match=r"has other files \(years_of_work.csv\)"):
        push_release(exported, DEMO, True, "Release demo")
    assert list(files) == ["years_of_work.csv"]


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
