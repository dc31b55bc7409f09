"""Published values of a benchmark, and a report compared with them: on a release, or on other pairs.

A file has one TOML table for each printed table; ``published.toml`` has those of SLVMEval. What does not fit,
and what the release lacks, does not stop a comparison: it is listed, a line each, and left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.regular_files import read_regular_text
from tasks.report.accuracy import MEAN, POOLED, Matrix, MatrixCell
from tasks.report.conditions import Condition, conditions_of, conditions_table, protocol_of
from tasks.report.judged_pairs import JudgedPairs
from tasks.report.judged_release import JudgedRelease
from tasks.report.systems import ASPECT_ORDER, systems_of
from tasks.report.table import ALL, Column, Table
from tasks.statistics.equivalence import MARGIN, Equivalence, equivalence
from tasks.statistics.intervals import paper_half_width
from tasks.votes.release_votes import PEOPLE

#: The name for SLVMEval's own values.
PAPER = "paper"
_FILE = "published.toml"

#: Purpose of a table; docs/report.md lists its rows and columns.
Quantity = Literal["release", "accuracy", "retention", "duration_rho", "duration_p", "filter_r", "other_sets"]
_RETENTION = ("initial", "excluded_c", "excluded_a", "final", "rate")
_RELEASE = ("aspects", "pairs", "videos", "prompts", "longest_s", "mean_s", "prompt_characters")
_VALUE = re.compile(
    r"(?P<bound>>\s*)?(?P<value>[-−+]?\d[\d,]*(?:\.\d+)?)(?:\s*±\s*(?P<half>\d+(?:\.\d+)?))?", re.ASCII
)
#: Words in place of numbers.
_WORDS = {"yes": 1.0, "no": 0.0}
_KEYS = ("table", "section", "gives", "columns", "rows")


@dataclass(frozen=True)
class PublishedValue:
    """One printed value.

    Parameters
    ----------
    row, column
        Its row and column, as named in the file.
    text
        As printed; empty if it is not legible.
    value, half
        The number, and what follows ± it, in the unit of the print.
    bound
        Whether only this is printed, that the number is greater.
    """

    gives: Quantity
    table: str
    section: str
    row: str
    column: str
    text: str
    value: float
    half: float | None = None
    bound: bool = False


@dataclass(frozen=True)
class Published:
    """The values of one file, and what in it cannot be read, a line each."""

    title: str
    values: tuple[PublishedValue, ...]
    problems: tuple[str, ...] = ()
    of_paper: bool = False


def read_published(where: str) -> Published:
    """Return the values of a file, or SLVMEval's for ``paper``.

    Raises
    ------
    UserInputError
        If the file cannot be read, or has no tables.
    """
    name = "the paper's values" if where == PAPER else where
    try:
        text = (
            files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
            if where == PAPER
            else read_regular_text(Path(where))
        )
        content = tomllib.loads(text)
    except OSError as problem:
        raise UserInputError(
            f"--against {where}: {problem.strerror}; write {PAPER}, or the path of a file of published values"
        ) from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{name} is not valid TOML: {problem}") from problem
    tables = content.get("tables")
    if not isinstance(tables, list) or not tables:
        raise UserInputError(f"{name} has no [[tables]]: docs/report.md shows the form of published values")
    values: list[PublishedValue] = []
    problems: list[str] = []
    for number, table in enumerate(tables, 1):
        _read_table(table, number, values, problems)
    title = content.get("title")
    shown = title if isinstance(title, str) and title else name
    return Published(shown, tuple(values), tuple(problems), where == PAPER)


def _read_table(table: Any, number: int, values: list[PublishedValue], problems: list[str]) -> None:
    name = (
        f"table {table['table']}"
        if isinstance(table, dict) and "table" in table
        else f"[[tables]] number {number}"
    )
    if reason := _misshapen(table):
        problems.append(f"{name}: {reason}")
        return
    seen = {(value.gives, value.row, value.column) for value in values}
    columns, gives = table["columns"], table["gives"]
    for row, cells in table["rows"].items():
        if not isinstance(cells, list) or len(cells) != len(columns):
            count = len(cells) if isinstance(cells, list) else "no"
            problems.append(f"{name}, {row}: {count} values for {len(columns)} columns: not compared")
            continue
        for column, cell in zip(columns, cells, strict=True):
            if cell == "":
                continue
            try:
                value = _value(gives, column, cell)
            except ValueError as problem:
                problems.append(f"{name}, {row}, {column}: {problem}: not compared")
                continue
            if (gives, row, column) in seen:
                problems.append(
                    f"{name}, {row}, {column}: this value stands in the file twice: the first is compared"
                )
                continue
            seen.add((gives, row, column))
            values.append(
                PublishedValue(gives, table["table"], table["section"], row, column, str(cell), *value)
            )


def _misshapen(table: Any) -> str:
    """Return why a table cannot be read at all, or an empty text."""
    if not isinstance(table, dict):
        return "not a table"
    if missing := [key for key in _KEYS if key not in table]:
        return f"without {', '.join(missing)}"
    if unknown := [key for key in table if key not in _KEYS]:
        return f"unknown key {unknown[0]!r} ({suggestion(unknown[0], _KEYS)})"
    if table["gives"] not in get_args(Quantity):
        return f"gives {table['gives']!r}: choose {', '.join(get_args(Quantity))}"
    if not all(isinstance(table[key], str) for key in ("table", "section")):
        return "table and section have to be texts"
    columns = table["columns"]
    if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        return "columns have to be a list of names"
    return "" if isinstance(table["rows"], dict) else "rows have to be a table"


def _value(gives: Quantity, column: str, cell: Any) -> tuple[float, float | None, bool]:
    """Return a cell's number, what follows ±, and whether it is a lower bound only.

    Raises
    ------
    ValueError
        If it is not a number, or one that cannot be.
    """
    if gives == "other_sets" and cell in _WORDS:
        return _WORDS[cell], None, False
    text = str(cell) if isinstance(cell, (str, int, float)) and not isinstance(cell, bool) else ""
    match = _VALUE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{cell!r} is not a number")
    value = float(match["value"].replace(",", "").replace("−", "-"))
    low, high = _limits(gives, column)
    if not low <= value <= high:
        raise ValueError(f"{text} lies outside {low:g} to {high:g}")
    return value, float(match["half"]) if match["half"] else None, bool(match["bound"])


def _limits(gives: Quantity, column: str) -> tuple[float, float]:
    if gives == "accuracy" or column == "rate":
        return 0, 100
    if gives in ("duration_rho", "filter_r"):
        return -1, 1
    return 0, 1 if gives == "duration_p" else 1e12


@dataclass(frozen=True)
class Against:
    """A report compared with published values.

    Parameters
    ----------
    tables
        A table for each quantity that both have.
    beside
        For a cell of the accuracy matrix, by evaluator and aspect: published value, difference.
    problems
        Entries of the file that do not match, a line each.
    absent
        Entries missing from the release, a line each.
    """

    title: str
    tables: tuple[Table, ...]
    beside: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def hold_against(
    published: Published,
    gathered: JudgedPairs,
    matrix: Matrix,
    tables: Mapping[str, Table],
    margin: float = MARGIN,
) -> Against:
    """Return published values next to a report's own.

    Parameters
    ----------
    tables
        The report's, by name.
    margin
        Of the tests of accuracies, a share; see :func:`~tasks.statistics.equivalence.equivalence`.
    """
    fit = _Fit(published, gathered)
    words = tables["wordings"].rows if "wordings" in tables else ()
    accuracy = list(_accuracies(fit, gathered, matrix, margin, words))
    compared = dict.fromkeys(row["evaluator"] for row in accuracy)
    conditions = {name: fit.conditions[name] for name in compared if fit.conditions.get(name)}
    made = [
        _table(
            "accuracy",
            published,
            (*_ACCURACY, *_WORDS_ALONE) if words else _ACCURACY,
            accuracy,
            _accuracy_note(margin) + (_WORDS_NOTE if words else ""),
        ),
        conditions_table(published.title, conditions),
    ]
    if isinstance(gathered, JudgedRelease):
        made += [
            _table("duration", published, _DURATION, _durations(fit, tables["duration-correlation"])),
            _table("retention", published, _RETAINED, _retained(fit, tables["retention"])),
            _table("filter", published, _FILTER, _filters(fit, tables["filter-correlation"])),
            _table("release", published, _FACTS, _facts(fit, tables["release"])),
        ]
    else:
        for one in published.values:
            if one.gives != "accuracy":
                fit.lacks(one, one.gives, "only a release has it")
    half, points = Column("", "", "percent"), Column("", "", "points")
    beside = {}
    for row in accuracy:
        value = half.text(row["published"])
        if row["published_half"] is not None:
            value += f"±{half.text(row['published_half'])}"
        difference = points.text(row["difference"])
        if row["verdict"]:
            difference += f" ({row['verdict']})"
        beside[row["evaluator"], row["aspect"]] = value, difference
    return Against(
        published.title,
        tuple(table for table in made if table.rows),
        beside,
        (*published.problems, *fit.problems),
        tuple(fit.absent_lines()),
    )


class _Fit:
    """Which published values a report has too, and lines on the others."""

    def __init__(self, published: Published, gathered: JudgedPairs) -> None:
        self._published = published
        self._names: dict[str, list[str]] = {}
        self._refused: dict[str, str] = {}
        #: Conditions of the paper's values, by evaluator; none for values of a file of the user's.
        self.conditions: dict[str, list[Condition]] = {}
        release = gathered if isinstance(gathered, JudgedRelease) else None
        of_paper = release if published.of_paper else None
        refused = "" if of_paper is None else self._refuses_people(of_paper)
        for system in systems_of(gathered):
            shown = gathered.names[system.who]
            if system.who == PEOPLE and refused:
                self._refused[system.published_name] = refused
                continue
            # a file of the user's may use the evaluator's label too
            label = (system.who[0],) if of_paper is None else ()
            for name in dict.fromkeys((system.published_name, *label)):
                self._names.setdefault(name, []).append(shown)
            if of_paper is not None:
                self.conditions[shown] = conditions_of(of_paper, system.who, system.published_name)
        recipe = {} if release is None else release.release.recipe.get("aspects", {})
        self._aspects = list(dict.fromkeys((*ASPECT_ORDER, *recipe, *gathered.aspects)))
        self._problems: dict[str, None] = {}
        self._absent: dict[tuple[str, str], dict[str, None]] = {}

    @property
    def problems(self) -> list[str]:
        """Entries of the file that cannot match any release."""
        return list(self._problems)

    def absent_lines(self) -> Iterator[str]:
        """Yield what the release lacks, with the tables that have it."""
        for (what, reason), locations in self._absent.items():
            where = f" ({', '.join(locations)})" if locations else ""
            yield f"{what}{where}: {reason}: not compared"

    def values(self, *gives: Quantity) -> list[PublishedValue]:
        """Return the values of some quantities."""
        return [value for value in self._published.values if value.gives in gives]

    def evaluators(self, value: PublishedValue) -> list[str]:
        """Return the display names of the evaluators that a value's row names."""
        names = self._names.get(value.row, [])
        if not names:
            reason = self._refused.get(value.row, "it has no answers here")
            self.lacks(value, f"evaluator {value.row}", reason)
        return names

    @staticmethod
    def _refuses_people(gathered: JudgedRelease) -> str:
        """Return why people's answers are not compared: they were asked otherwise than in the paper."""
        protocol = protocol_of(gathered)
        if gathered.people is None or protocol.same:
            return ""
        return f"people answered under another protocol than the paper's ({protocol.here})"

    def is_named(self, value: PublishedValue, what: str, name: str, names: Collection[str]) -> bool:
        """Tell whether a name is one of those that such a table may have; else note the problem."""
        if name in names:
            return True
        hint = suggestion(name, names, "there are")
        line = f"{_table_name(value)}: unknown {what} {name!r} in {value.gives} ({hint}): not compared"
        self._problems[line] = None
        return False

    def is_aspect(
        self,
        value: PublishedValue,
        name: str,
        aspects: Collection[str],
        more: Collection[str] = (),
        empty: str = "",
    ) -> bool:
        """Tell whether a name is one of the report's aspects; else note why not.

        Parameters
        ----------
        more
            What may stand in place of an aspect, such as ``all pairs``.
        empty
            Why the report's table has no rows at all, if so.
        """
        if name in aspects:
            return True
        if self.is_named(value, "aspect", name, [*self._aspects, *more]):
            if empty:
                self._absent.setdefault((_table_name(value), empty.rstrip(".")), {})
            else:
                what = f"aspect {name}" if name in self._aspects else name
                self.lacks(value, what, "the report has no such row")
        return False

    def covers(self, value: PublishedValue, aspects: Collection[str]) -> bool:
        """Tell whether a mean is over aspects that the report has too; else note that it is not."""
        if value.column not in (POOLED, MEAN):
            return True
        over = {other.column for other in self.values("accuracy")} - {POOLED, MEAN}
        if over <= set(aspects):
            return True
        self.lacks(value, value.column, "the published one is over more aspects than the report has")
        return False

    def lacks(self, value: PublishedValue, what: str, reason: str) -> None:
        """Note that a value has no counterpart."""
        self._absent.setdefault((what, reason), {})[_table_name(value)] = None


def _table_name(value: PublishedValue) -> str:
    return f"table {value.table}" if value.table[:1].isdigit() else value.table


_TABLE = (Column("table", "table"), Column("section", "section", shown=False))
_ASPECT, _EVALUATOR = Column("aspect", "aspect", "aspect"), Column("evaluator", "evaluator")
_ACCURACY = (
    _ASPECT,
    _EVALUATOR,
    *_TABLE,
    Column("accuracy", "accuracy", "percent"),
    Column("half", "±", "percent", shown=False),
    Column("published", "published", "percent"),
    Column("published_half", "published ±", "percent", shown=False),
    Column("difference", "difference", "points"),
    Column("low", "from", "points"),
    Column("high", "to", "points"),
    Column("verdict", "verdict"),
    Column("pairs", "pairs", "count", shown=False),
    Column("pairs_needed", "pairs needed"),
    Column("conditions", "conditions that differ", shown=False),
)


#: Of our tables' names of all pairs.
_ALL: Mapping[str, str] = {POOLED: ALL}
_WORDS_ALONE = (Column("words", "words alone"),)
_WORDS_NOTE = (
    " Words alone: whether the published accuracy lies where this judge's would lie with one more wording, "
    "at 95 %, so that the words may be all that differs."
)


def _accuracy_note(margin: float) -> str:
    return (
        "Accuracy less what is published, in points, and its 90 % interval, clustered by source, which takes "
        "the two as independent. Two one-sided tests at 5 %: reproduced if the interval lies within ± "
        f"{100 * margin:g} points, not reproduced if it lies beyond them, inconclusive otherwise. Then the "
        "number of pairs that would decide if the accuracy stays; none if the published interval is too wide."
    )


def _accuracies(
    fit: _Fit,
    gathered: JudgedPairs,
    matrix: Matrix,
    margin: float,
    wordings: Sequence[Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    others = {
        (row["evaluator"], row["aspect"]): (row["low"], row["high"])
        for row in wordings
        if row["low"] is not None
    }
    rows = {row.aspect: row for row in (*matrix.rows, *matrix.summary)}
    columns = {name: index for index, name in enumerate(matrix.evaluators)}
    cells = [
        (value, name)
        for value in fit.values("accuracy")
        if fit.is_aspect(value, value.column, rows, (POOLED, MEAN)) and fit.covers(value, rows)
        for name in fit.evaluators(value)
    ]
    for value, name in cells:
        shown = rows[value.column].cells[columns[name]] if name in columns else MatrixCell(None)
        accuracy, cell = shown.accuracy, shown.cell
        half = None if value.half is None else value.half / 100
        ours = None
        if accuracy is not None and cell is not None:
            ours = paper_half_width(accuracy, cell.n)
        found = None
        if accuracy is not None and cell is not None and cell.clustered is not None and half is not None:
            pairs = cell.counted_pairs
            found = equivalence(accuracy, cell.clustered, pairs, value.value / 100, half, margin)
        yield {
            **_head(value),
            "aspect": value.column,
            "evaluator": name,
            "accuracy": accuracy,
            "half": ours,
            "published": value.value / 100,
            "published_half": half,
            "difference": None if accuracy is None else accuracy - value.value / 100,
            "low": None if found is None else found.interval.low,
            "high": None if found is None else found.interval.high,
            "verdict": "" if found is None else found.verdict,
            "pairs": None if cell is None else cell.counted_pairs,
            "pairs_needed": "" if found is None else _needed(found),
            "words": _within(others.get((name, _ALL.get(value.column, value.column))), value.value / 100),
            "conditions": ", ".join(one.what for one in fit.conditions.get(name, ()) if one.same is False),
        }


def _within(ends: tuple[float, float] | None, published: float) -> str:
    if ends is None:
        return ""
    return "may be enough" if ends[0] <= published <= ends[1] else "are not enough"


def _needed(found: Equivalence) -> str:
    if found.verdict != "inconclusive":
        return ""
    return "none would" if found.pairs is None else f"{found.pairs:,}"


_DURATION = (
    _ASPECT,
    _EVALUATOR,
    *_TABLE,
    Column("what", "of"),
    Column("ours", "here", "correlation"),
    Column("published", "published", "correlation"),
    Column("difference", "difference", "correlation"),
)


def _durations(fit: _Fit, table: Table) -> Iterator[dict[str, Any]]:
    rows_by_name = {(row["evaluator"], row["aspect"]): row for row in table.rows}
    aspects = {aspect for _, aspect in rows_by_name}
    cells = [
        (value, name)
        for value in fit.values("duration_rho", "duration_p")
        if fit.is_aspect(value, value.column, aspects, empty=table.empty)
        for name in fit.evaluators(value)
    ]
    for value, name in cells:
        key = "rho_bins" if value.gives == "duration_rho" else "p_bins"
        ours = rows_by_name.get((name, value.column), {}).get(key)
        yield {
            **_head(value),
            **_difference(ours, value),
            "aspect": value.column,
            "evaluator": name,
            "what": "ρ" if key == "rho_bins" else "p",
        }


_RETAINED = (
    _ASPECT,
    *_TABLE,
    Column("what", "column"),
    Column("ours", "here", "tenths"),
    Column("published", "published", "tenths"),
    Column("difference", "difference", "tenths"),
)


def _retained(fit: _Fit, table: Table) -> Iterator[dict[str, Any]]:
    rows_by_aspect = {row["aspect"]: row for row in table.rows}
    for value in fit.values("retention"):
        if not fit.is_named(value, "column", value.column, _RETENTION) or not fit.is_aspect(
            value, value.row, rows_by_aspect, (ALL,), table.empty
        ):
            continue
        # of weighed votes none is counted
        ours = rows_by_aspect[value.row].get(value.column)
        if ours is not None:
            scale = 100 if value.column == "rate" else 1
            yield {
                **_head(value),
                **_difference(scale * ours, value),
                "aspect": value.row,
                "what": value.column.replace("_", " "),
            }


_FILTER = (
    _ASPECT,
    *_TABLE,
    Column("ours", "Pearson's r", "correlation"),
    Column("text", "published"),
    Column("difference", "difference", "correlation"),
    Column("differs", "differs"),
)


def _filters(fit: _Fit, table: Table) -> Iterator[dict[str, Any]]:
    r_by_aspect = {row["aspect"]: row["r"] for row in table.rows}
    for value in fit.values("filter_r"):
        if not fit.is_named(value, "row", value.row, ("pearson",)) or not fit.is_aspect(
            value, value.column, r_by_aspect, empty=table.empty
        ):
            continue
        ours = r_by_aspect[value.column]
        if ours is not None:
            yield {
                **_head(value),
                **_difference(ours, value),
                "aspect": value.column,
                "text": value.text,
                "differs": "" if not value.bound else "no" if ours > value.value else "yes",
            }


_FACTS = (
    Column("what", "of the release"),
    *_TABLE,
    Column("ours", "here", "tenths"),
    Column("published", "published", "tenths"),
    Column("difference", "difference", "tenths"),
)


def _facts(fit: _Fit, table: Table) -> Iterator[dict[str, Any]]:
    titles = {column.key: column.title for column in table.columns}
    for value in fit.values("release"):
        named = fit.is_named(value, "row", value.row, ("release",))
        if named and fit.is_named(value, "column", value.column, _RELEASE):
            ours = float(table.rows[0][value.column])
            yield {**_head(value), **_difference(ours, value), "what": titles[value.column]}


def _head(value: PublishedValue) -> dict[str, str]:
    return {"table": value.table, "section": value.section}


def _difference(ours: float | None, value: PublishedValue) -> dict[str, Any]:
    return {
        "ours": ours,
        "published": value.value,
        "difference": None if value.bound or ours is None else ours - value.value,
    }


def _table(
    what: str,
    published: Published,
    columns: tuple[Column, ...],
    rows: Iterable[dict[str, Any]],
    note: str = "",
) -> Table:
    titles = {
        "accuracy": "Accuracy",
        "duration": "Duration and accuracy",
        "retention": "Pairs kept by the human filter",
        "filter": "With and without the human filter",
        "release": "The release",
    }
    return Table(
        f"against-{what}",
        f"{titles[what]}, against {published.title}",
        columns,
        tuple(rows),
        note or "Value here minus the published one. A dash: not defined here.",
    )
