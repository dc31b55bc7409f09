"""The pages of docs/papers: constants are the code's, and every difference is listed with its reason."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

FOLDER = Path(__file__).parents[2] / "docs" / "papers"
#: Pages, with the least number of constants that their tables hold.
PAGES = {"slvmeval": 130, "video-bench": 40, "locot2v-bench": 60}
HEAD = ["section", "statement", "value", "in code", "implemented in", "state", "run on"]
RUNS = ("CPU", "tiny checkpoint", "test server", "not run", "–")
_QUOTED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Constant:
    """A value as a page has it, and where the code has it."""

    page: str
    value: str
    reference: str


def rows_of(page: str) -> list[dict[str, str]]:
    """Return the rows of a page's tables of statements, by column."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == len(HEAD) and cells != HEAD and set(cells) != {"---"}:
            rows.append(dict(zip(HEAD, cells, strict=True)))
    return rows


def constants_of(page: str) -> list[Constant]:
    """Return the constants of a page; a row may have several."""
    found = []
    for row in rows_of(page):
        values, references = _QUOTED.findall(row["value"]), _QUOTED.findall(row["in code"])
        assert len(values) == len(references), f"{page}: {row['statement']}"
        found += [Constant(page, *one) for one in zip(values, references, strict=True)]
    return found


def resolved(reference: str) -> Any:
    """Return what ``module:expression`` names; a class of settings stands for its defaults.

    The expression has names, attributes, keys, and ``function(parameter)`` for a parameter's default.
    """
    module, _, expression = reference.partition(":")
    return _value(importlib.import_module(module), ast.parse(expression, mode="eval").body)


def _value(module: Any, node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name):
            return getattr(module, name)
        case ast.Attribute(value=below, attr=name):
            return _field(_value(module, below), name)
        case ast.Subscript(value=below, slice=ast.Constant(value=key)):
            return _value(module, below)[key]
        case ast.Call(func=function, args=[ast.Name(id=name)]):
            return inspect.signature(_value(module, function)).parameters[name].default
    raise ValueError(ast.unparse(node))


def _field(owner: Any, name: str) -> Any:
    if isinstance(owner, type) and issubclass(owner, BaseModel) and name in owner.model_fields:
        return owner.model_fields[name].get_default(call_default_factory=True)
    return getattr(owner, name)


def fits(text: str, value: Any) -> bool:
    """Return whether a page's text is this value; for a function, whether it calls with this constant."""
    if inspect.isfunction(value):
        return text in literals_of(value)
    if isinstance(value, int | float | Fraction) and not isinstance(value, bool):
        try:
            return float(text.replace(",", "")) == float(value)
        except ValueError:
            return False
    return text == shown(value)


def shown(value: Any) -> str:
    """Return a value as the pages write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | tuple | list):
        return ", ".join(map(shown, value))
    return "none" if value is None else str(value)


def literals_of(function: Any) -> set[str]:
    """Return the constants in a function's calls: ``name=1`` by keyword, ``call(1)`` by place."""
    found = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if not isinstance(node, ast.Call):
            continue
        found |= {
            f"{word.arg}={ast.unparse(word.value)}"
            for word in node.keywords
            if isinstance(word.value, ast.Constant)
        }
        places = [ast.unparse(one) for one in node.args if isinstance(one, ast.Constant)]
        if places and isinstance(node.func, ast.Attribute):
            found.add(f"{node.func.attr}({', '.join(places)})")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_constants_are_those_of_the_code(page: str) -> None:
    constants = constants_of(page)
    assert len(constants) >= PAGES[page]
    values = [(one, resolved(one.reference)) for one in constants]
    assert [(one, shown(value)) for one, value in values if not fits(one.value, value)] == []
    # nor would any value fit
    others = [f"{one.value}1" if re.search(r"\.\d*$", one.value) else "other" for one in constants]
    assert not any(fits(other, value) for other, (_, value) in zip(others, values, strict=True))


@pytest.mark.parametrize("page", PAGES)
def test_rows_have_a_state_a_place_and_where_they_ran(page: str) -> None:
    for row in rows_of(page):
        says = f"{page}: {row['statement']}: {row['state']}, {row['run on']}"
        assert re.fullmatch(r"same|differs|ours|missing|approximated as `[^`]+`", row["state"]), says
        assert row["statement"], says
        assert (row["state"] == "missing") <= (row["run on"] in ("–", "not run")), says
        assert row["run on"].startswith(RUNS), says
        assert row["implemented in"] or row["state"] == "missing" or row["run on"].startswith("not run"), says


@pytest.mark.parametrize("page", PAGES)
def test_differences_are_listed_with_their_reasons(page: str) -> None:
    """Rows that differ or are missing begin with the name under which the top of the page explains them."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    section = text.partition("## Known differences")[2].partition("\n## ")[0]
    listed = re.findall(r"^- \*\*([^*]+)\*\*: (.+)", section, re.MULTILINE)
    names = []
    for row in rows_of(page):
        name = re.match(r"\*\*([^*]+)\*\*", row["statement"])
        if row["state"] in ("differs", "missing"):
            assert name, f"{page}: {row['statement']} has no name"
        assert not (name and row["state"] in ("same", "ours")), f"{page}: {row['statement']}"
        names += [name[1]] if name else []
    assert {name for name, _ in listed} == set(names)
    assert len(listed) == len({name for name, _ in listed})
    assert all(len(reason) > 20 for _, reason in listed)
