"""``slvmeval list evaluators``, and ``slvmeval init --kind``, which writes a package for a new one."""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from slvmeval.cli import terminal
from slvmeval.cli.listing import ListOptions

if TYPE_CHECKING:
    from tasks.scoring.declared import Declared

#: A name valid for a distribution, an entry point and, with underscores, a module.
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Shape(StrEnum):
    """Kind of a new evaluator."""

    judge = "judge"
    scorer = "scorer"
    model_judge = "model-judge"


#: How a new evaluator is named in commands.
_USE = {Shape.judge: "{}", Shape.scorer: "{}", Shape.model_judge: "'{}?model=MODEL&server=NAME'"}


def list_evaluators(options: ListOptions) -> None:
    """Print the evaluators; those of installed packages are imported only if named."""
    from tasks.scoring.declared import declared
    from tasks.scoring.registry import BUILT_IN, added_evaluators, factory

    told = {name: declared(factory(name)) for name in dict.fromkeys(options.names or BUILT_IN)}
    others = {} if options.names else {name: point.value for name, point in added_evaluators().items()}
    from_packages = {name: {"from": where} for name, where in others.items()}
    columns = ("evaluator", "sees", "needs", "paid", "settings")
    rows = [
        (name, *_facts(one), str(len(one.settings)) if not options.names else "below")
        for name, one in told.items()
    ]
    rows += [(name, "", f"its package, {where}", "", "") for name, where in others.items()]
    grids = [terminal.Grid("evaluators", columns, rows)]
    for name in options.names or ():
        settings = [
            (one.name, one.type, "required" if one.required else json.dumps(one.default), one.description)
            for one in told[name].settings
        ]
        columns_of = ("setting", "type", "default", "meaning")
        grids.append(terminal.Grid(f"settings of {name}", columns_of, settings))
    hint = () if options.names else ("`slvmeval list evaluators NAME` shows an evaluator's settings",)
    values = {name: one.as_json() for name, one in told.items()}
    terminal.show(options.output, {**values, **from_packages}, *grids, *hint)


def _facts(one: Declared) -> tuple[str, str, str]:
    return ", ".join(one.sees) or "nothing", ", ".join(one.needs) or "nothing", "yes" if one.paid else "no"


def new(folder: Path, shape: Shape) -> None:
    """Write a working package for a new evaluator, with a test.

    Parameters
    ----------
    folder
        Its folder, whose name becomes the evaluator's.
    """
    name = folder.resolve().name
    write_package(name, shape, folder)
    terminal.say(
        f"the package of the {shape.value} {name} is in {folder}: {_module(name)}.py contains "
        "all of it. Next:",
        f"  pip install -e {folder} pytest",
        f"  python -m pytest {folder}",
        f"  slvmeval evaluate -e {_USE[shape].format(name)} --store STORE",
    )


def write_package(name: str, shape: Shape, folder: Path) -> None:
    """Write a package for a new evaluator into a new folder.

    Parameters
    ----------
    name
        Name of the evaluator and of its distribution.
    shape
        Whether it compares two videos or rates one.
    folder
        The folder; it may exist if it is empty.

    Raises
    ------
    UserInputError
        If the name is unsuitable or taken, or the folder is not empty.
    """
    from slvmeval.new_files import write_new_files
    from storage_schemas.errors import UserInputError
    from tasks.scoring.registry import BUILT_IN, added_evaluators

    module = _module(name)
    if not _NAME.fullmatch(name) or keyword.iskeyword(module):
        raise UserInputError(
            f"{name!r} cannot be the name of an evaluator's package: use lower-case letters, "
            "digits and single hyphens, starting with a letter"
        )
    if name in BUILT_IN or name in added_evaluators():
        raise UserInputError(f"evaluator {name} already exists: choose another name")
    if importlib.util.find_spec(module) is not None:
        raise UserInputError(f"there is a Python module {module} already: choose another name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserInputError(f"{folder} exists and is not an empty folder: name another one")
    words = {"name": name, "module": module, "class_name": _class_name(name), "use": _USE[shape].format(name)}
    texts = files("slvmeval") / "evaluator_package"
    written = {
        f"{module}.py": f"{shape}.py.txt",
        f"test_{module}.py": "model-judge-test.py.txt" if shape is Shape.model_judge else "test.py.txt",
        "pyproject.toml": "pyproject.toml.txt",
        "README.md": "README.md.txt",
    }
    write_new_files(
        folder,
        {
            target: Template((texts / source).read_text(encoding="utf-8")).substitute(words)
            for target, source in written.items()
        },
    )


def _module(name: str) -> str:
    return name.replace("-", "_")


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))
