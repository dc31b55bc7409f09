"""``slvmeval evaluators``: those that there are, and the package of a new one."""

from __future__ import annotations

import importlib.util
import keyword
import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from slvmeval.cli import terminal

#: A name that can be a distribution, an entry point and, with underscores, a module.
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

evaluators = typer.Typer(
    no_args_is_help=True, help="The evaluators that there are, and the package of a new one."
)


class Shape(StrEnum):
    """What a new evaluator does."""

    judge = "judge"
    scorer = "scorer"


@evaluators.command(name="list")
def list_evaluators(as_json: terminal.JsonOption = False) -> None:
    """List the built-in evaluators and those of installed packages. None of them is imported.

    Example: `slvmeval evaluators list`
    """
    from tasks.scoring.registry import BUILT_IN, added_evaluators

    terminal.print_factories(BUILT_IN, added_evaluators(), as_json)


@evaluators.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, such as my-judge.")],
    shape: Annotated[
        Shape, typer.Option("--kind", help="A judge compares two videos; a scorer rates one.")
    ] = Shape.judge,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Where it is written; by default ./NAME.")
    ] = None,
) -> None:
    """Write the package of a new evaluator, which installs, passes its test and judges. Change it from there.

    Example: `slvmeval evaluators new my-judge`
    """
    place = folder or Path(name)
    write_package(name, shape, place)
    terminal.say(
        f"the package of the {shape} {name} is in {place}: {_module(name)}.py is all of it. Next:",
        f"  pip install -e {place}",
        f"  pytest {place}",
        f"  slvmeval evaluate -e {name} --store STORE",
    )


def write_package(name: str, shape: Shape, place: Path) -> None:
    """Write the package of a new evaluator as a new folder.

    Parameters
    ----------
    name
        Name of the evaluator and of its distribution.
    shape
        Whether it compares two videos or rates one.
    place
        The folder; it may exist if it is empty.

    Raises
    ------
    UserInputError
        If the name is unsuitable or taken, or something is in the folder.
    """
    from slvmeval.new_files import write_new_files
    from storage_schemas.errors import UserInputError
    from tasks.scoring.registry import BUILT_IN, added_evaluators

    module = _module(name)
    if not _NAME.fullmatch(name) or keyword.iskeyword(module):
        raise UserInputError(
            f"{name!r} cannot be the name of an evaluator's package: write small letters, digits and single "
            "hyphens, a letter first"
        )
    if name in BUILT_IN or name in added_evaluators():
        raise UserInputError(f"there is an evaluator {name} already: choose another name")
    if importlib.util.find_spec(module) is not None:
        raise UserInputError(f"there is a Python module {module} already: choose another name")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UserInputError(f"{place} exists and is not an empty folder: name another one with --folder")
    words = {"name": name, "module": module, "class_name": _class_name(name)}
    texts = files("slvmeval") / "evaluator_package"
    written = {
        f"{module}.py": f"{shape}.py.txt",
        f"test_{module}.py": "test.py.txt",
        "pyproject.toml": "pyproject.toml.txt",
        "README.md": "README.md.txt",
    }
    write_new_files(
        place,
        {
            target: Template((texts / source).read_text(encoding="utf-8")).substitute(words)
            for target, source in written.items()
        },
    )


def _module(name: str) -> str:
    return name.replace("-", "_")


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))
