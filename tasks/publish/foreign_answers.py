"""Answers that this program did not request: logs of other harnesses, and tables of answers.

Inspect AI's ``.eval`` and ``.json`` logs and lmms-eval's ``samples`` files are of the tasks that
:mod:`tasks.publish.harness` writes. A CSV or JSON Lines file has the columns `pair`, `order`, `choice` and
perhaps `repeat`.
"""

from __future__ import annotations

import csv
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from storage_schemas.errors import UserInputError
from storage_schemas.first_of_many import first_lines
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice, Failure, Judgement, Order, preferred
from storage_schemas.pair import PairRecord
from storage_schemas.regular_files import read_regular_text
from storage_schemas.release import Release
from tasks.publish.harness import row_id, target
from tasks.publish.submission import MAX_LISTED, MAX_REPEATS
from tasks.statistics.trials import BOTH_ORDERS

#: Maximum bytes that are read of one part of a log; without pictures, 8,000 rows have about 10 million.
MAX_PART_BYTES = 256_000_000
_ZSTANDARD = 93
#: Errors raised by files of another kind, or by damaged ones.
_NOT_SUCH_A_FILE = (ValueError, TypeError, KeyError, AttributeError, csv.Error, zipfile.BadZipFile)
_TOKENS_IN = ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
_CHOICES: tuple[str, ...] = get_args(Choice)


@dataclass(frozen=True)
class ForeignRow:
    """One answer.

    Parameters
    ----------
    choice
        None if there is no answer.
    location
        Where it is in the file, for messages.
    """

    pair: str
    order: Order
    repeat: int
    choice: Choice | None
    location: str
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0


@dataclass
class ForeignAnswers:
    """Content of a file; `model` is named as in the file, `problems` are rows that cannot be used."""

    kind: str
    model: str = ""
    rows: list[ForeignRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def judgements_from(
    path: Path, release: Release, evaluator: str, partial: bool = False
) -> tuple[list[Judgement], str]:
    """Return the answers in a file as judgements on a release, and how much of it they cover, in words.

    Parameters
    ----------
    evaluator
        Name of the evaluator; empty for the model in the file.
    partial
        Whether a missing answer counts as a failure; otherwise it is an error.

    Raises
    ------
    UserInputError
        If the file cannot be read, or naming the rows that are unknown, missing, double or contradictory.
    """
    records = {record.pair_id: record for record in release.pairs()}
    found = _read(path, records)
    rows, problems = _single(found.rows)
    wanted = _wanted(records, rows)
    missing = [key for key in wanted if key not in rows]
    problems = [*found.problems, *problems]
    if missing and not partial:
        problems += [f"pair {pair[:16]}, {order}: missing" for pair, order, _ in missing]
    answered = sum(row.choice is not None for row in rows.values())
    coverage = f"{answered} answers to {len(wanted)} requests, {len(rows) - answered} without a choice"
    coverage += f", {len(missing)} missing" if missing else ""
    if problems:
        listed = first_lines(problems, MAX_LISTED)
        hint = ["--partial counts what is missing as failures"] if missing and not partial else []
        raise UserInputError("\n  ".join([f"{path}: {coverage}", *listed, *hint]))
    name = evaluator or found.model
    if not name:
        raise UserInputError(f"{path} does not name a model: give the evaluator's name, --evaluator NAME")
    settings = digest_value({"from": found.kind, "model": found.model, "evaluator": name})[:16]
    return [
        _judgement(name, settings, records[pair], order, repeat, rows.get((pair, order, repeat)))
        for pair, order, repeat in wanted
    ], coverage


_Key = tuple[str, Order, int]


def _single(given: Iterable[ForeignRow]) -> tuple[dict[_Key, ForeignRow], list[str]]:
    """Return rows by request, and the duplicates."""
    rows: dict[_Key, ForeignRow] = {}
    problems = []
    for row in given:
        held = rows.setdefault((row.pair, row.order, row.repeat), row)
        if held is not row:
            how = "there twice" if held.choice == row.choice else f"{held.choice} and {row.choice}"
            problems.append(f"{row.location}: pair {row.pair[:16]}, {row.order}: {how}, see {held.location}")
    return rows, problems


def _wanted(records: Mapping[str, PairRecord], rows: Iterable[_Key]) -> list[_Key]:
    """Return all requests: both orders unless every judged pair has one, and as many repeats as there are."""
    given = set(rows)
    orders: dict[str, list[Order]] = defaultdict(list)
    for pair, order, _ in sorted(given):
        if order not in orders[pair]:
            orders[pair].append(order)
    one = bool(orders) and all(len(some) == 1 for some in orders.values())
    repeats = 1 + max((repeat for _, _, repeat in given), default=0)
    return [
        (pair, order, repeat)
        for pair in records
        for order in (orders.get(pair, ["high_first"]) if one else BOTH_ORDERS)
        for repeat in range(repeats)
    ]


def _judgement(
    name: str, settings: str, record: PairRecord, order: Order, repeat: int, row: ForeignRow | None
) -> Judgement:
    choice = None if row is None else row.choice
    failure = None if choice else Failure.NO_ANSWER if row is None else Failure.NOT_UNDERSTOOD
    return Judgement(
        key=digest_value([settings, record.pair_id, order, repeat]),
        evaluator=name,
        settings=settings,
        pair_id=record.pair_id,
        source_id=record.source_id,
        aspect=record.aspect,
        order=order,
        repeat=repeat,
        choice=choice,
        preferred=None if choice is None else preferred(choice, order),
        failure=failure,
        tokens_in=row.tokens_in if row else 0,
        tokens_out=row.tokens_out if row else 0,
        seconds=row.seconds if row else 0.0,
    )


def _read(path: Path, records: Mapping[str, PairRecord]) -> ForeignAnswers:
    try:
        if path.suffix == ".eval":
            return _inspect(*_eval_parts(path), _by_row(records))
        if path.suffix == ".csv":
            reader = csv.DictReader(StringIO(read_regular_text(path)), strict=True)
            return _table(((f"line {reader.line_num}", row) for row in reader), records)
        if path.suffix == ".json":
            log = json.loads(read_regular_text(path))
            if not isinstance(log, dict) or "eval" not in log:
                raise ValueError("it has no `eval`, as a log of Inspect AI has")
            return _inspect(log, log.get("samples") or [], _by_row(records))
        lines = _lines(read_regular_text(path))
        if lines and "mean_of_aspects" in lines[0][1]:
            return _lmms_eval(lines, _by_row(records))
        return _table(lines, records)
    except OSError as problem:
        raise UserInputError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    except (*_NOT_SUCH_A_FILE, pa.ArrowException) as problem:
        raise UserInputError(
            f"{path} is neither a log of Inspect AI (.eval, .json), nor one of lmms-eval (.jsonl), nor a "
            f"table with pair, order and choice (.csv, .jsonl): {problem}"
        ) from problem


def _lines(text: str) -> list[tuple[str, dict[str, Any]]]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError(f"line {number} is not an object")
            rows.append((f"line {number}", value))
    return rows


def _by_row(records: Mapping[str, PairRecord]) -> dict[str, tuple[str, Order]]:
    return {row_id(pair, order): (pair, order) for pair in records for order in BOTH_ORDERS}


def _table(
    lines: Iterable[tuple[str, Mapping[str, Any]]], records: Mapping[str, PairRecord]
) -> ForeignAnswers:
    found = ForeignAnswers("table")
    for location, row in lines:
        pair, order, choice = (row[name] for name in ("pair", "order", "choice"))
        repeat = _whole(row.get("repeat") or 0)
        if pair not in records:
            found.problems.append(f"{location}: pair {str(pair)[:64]!r} is not in the release")
        elif order not in BOTH_ORDERS:
            found.problems.append(f"{location}: the order {order!r} is neither high_first nor low_first")
        elif choice not in (*_CHOICES, "", None):
            found.problems.append(f"{location}: the choice {choice!r} is not first, second, tie or empty")
        elif repeat is None:
            found.problems.append(f"{location}: the repeat {row['repeat']!r} is not below {MAX_REPEATS}")
        else:
            found.rows.append(ForeignRow(pair, order, repeat, choice or None, location))
    return found


def _whole(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and text.isascii() and int(text) < MAX_REPEATS else None


def _harness_row(
    found: ForeignAnswers,
    by_row: Mapping[str, tuple[str, Order]],
    location: str,
    id_: object,
    said: tuple[object, object, object],
    **more: Any,
) -> None:
    """Add an answer of a harness: what it took for the target, its choice, and whether that was right."""
    expected, choice, right = said
    if str(id_) not in by_row:
        found.problems.append(f"{location}: row {str(id_)[:64]!r} is not of this release")
        return
    pair, order = by_row[str(id_)]
    if expected != target(order):
        found.problems.append(
            f"{location}: the target {expected!r} contradicts the release, {target(order)!r}"
        )
    elif choice not in ("first", "second", "", None):
        found.problems.append(f"{location}: the choice {choice!r} is neither first nor second")
    elif (choice == expected if choice else None) != right:
        found.problems.append(f"{location}: the choice {choice!r} contradicts the score {right!r}")
    else:
        repeat = more.pop("repeat", 0)
        answer: Any = choice or None
        found.rows.append(ForeignRow(pair, order, repeat, answer, location, **more))


def _lmms_eval(
    lines: Iterable[tuple[str, Mapping[str, Any]]], by_row: Mapping[str, tuple[str, Order]]
) -> ForeignAnswers:
    found = ForeignAnswers("lmms-eval")
    for location, row in lines:
        one = row["mean_of_aspects"]
        _harness_row(found, by_row, location, one["id"], (row["target"], one["choice"], one["right"]))
    return found


def _inspect(
    header: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], by_row: Mapping[str, tuple[str, Order]]
) -> ForeignAnswers:
    found = ForeignAnswers("inspect-ai", str(header["eval"]["model"]))
    for sample in samples:
        if sample.get("error"):
            # the harness or the server failed, not the judge: it is missing until `eval-retry` has it
            continue
        location = f"sample {sample['id']}, epoch {sample['epoch']}"
        score = (sample.get("scores") or {}).get("choice") or {"value": None, "answer": None}
        # NaN is the only value that differs from itself
        value = None if score["value"] != score["value"] else score["value"]
        usage = list((sample.get("model_usage") or {}).values())
        _harness_row(
            found,
            by_row,
            location,
            sample["id"],
            (sample["target"], score.get("answer"), None if value is None else value == 1),
            repeat=int(sample["epoch"]) - 1,
            # tokens from a provider's cache are counted separately
            tokens_in=sum(int(one.get(name) or 0) for one in usage for name in _TOKENS_IN),
            tokens_out=sum(int(one["output_tokens"]) for one in usage),
            seconds=float(sample.get("working_time") or 0),
        )
    return found


def _eval_parts(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the summaries of the samples, which have no pictures, of an ``.eval`` log."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        if not {"header.json", "summaries.json"} <= names:
            raise ValueError("the run did not end: `inspect eval-retry` completes it")
        parts = ("header.json", "summaries.json")
        header, samples = (json.loads(_member(path, archive, name)) for name in parts)
    return header, samples


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if info.file_size > MAX_PART_BYTES:
        raise ValueError(f"{name} has more than {MAX_PART_BYTES:,} bytes")
    if info.compress_type != _ZSTANDARD:
        return archive.read(name)
    # zipfile cannot decompress Zstandard before Python 3.14
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
        file.seek(sum(int.from_bytes(local[at : at + 2], "little") for at in (26, 28)), 1)
        packed = file.read(info.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return bytes(stream.read(info.file_size))
