"""Table `judgements`.

One row a request, and the folder of append-only files that keeps it beside the releases.

A row is one evaluator's answer on one pair in one presentation order; each file has one writer.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, ValidationError, field_validator

from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.model import Frozen
from storage_schemas.row_store import RowStore, read_part, write_part
from storage_schemas.store import Store

#: In which order the two videos were shown; a scorer sees one at a time, so it has none.
Order = Literal["high_first", "low_first", "apart"]
#: What an evaluator answered, in the words of the request.
Choice = Literal["first", "second", "tie"]
#: The same, freed from the order.
Preferred = Literal["high", "low", "tie"]


class Failure(StrEnum):
    """Why a request has no answer. Stored: never rename a value."""

    NO_ANSWER = "no_answer"
    NOT_UNDERSTOOD = "not_understood"
    CUT_OFF = "cut_off"
    REFUSED = "refused"
    CONTEXT_TOO_LONG = "context_too_long"
    SERVER_DOWN = "server_down"
    NOT_ALLOWED = "not_allowed"
    LIMIT_REACHED = "limit_reached"
    VIDEO_UNREADABLE = "video_unreadable"
    PREREQUISITE_MISSING = "prerequisite_missing"
    INTERNAL_ERROR = "internal_error"


#: Failures that lie with the machine or the budget: asked again by the next run. The others would fail again.
TRANSIENT_FAILURES = frozenset(
    {
        Failure.SERVER_DOWN,
        Failure.NOT_ALLOWED,
        Failure.LIMIT_REACHED,
        Failure.PREREQUISITE_MISSING,
        Failure.INTERNAL_ERROR,
    }
)

JUDGEMENTS = pa.schema(
    [
        ("key", pa.string()),
        ("evaluator", pa.string()),
        ("settings", pa.string()),
        ("pair_id", pa.string()),
        ("source_id", pa.string()),
        ("aspect", pa.string()),
        ("order", pa.string()),
        ("repeat", pa.int32()),
        ("choice", pa.string()),
        ("preferred", pa.string()),
        ("score_high", pa.float64()),
        ("score_low", pa.float64()),
        ("failure", pa.string()),
        ("message", pa.string()),
        ("raw", pa.string()),
        ("reasoning", pa.string()),
        ("finish_reason", pa.string()),
        ("model", pa.string()),
        ("prompt_digest", pa.string()),
        ("frames", pa.int64()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("cost_usd", pa.float64()),
        ("seconds", pa.float64()),
        ("tries", pa.int32()),
        ("details", pa.string()),
        ("at", pa.string()),
    ]
)


_Count = Annotated[int, Field(ge=0, lt=2**63)]


class Judgement(Frozen):
    """One row of the table.

    Parameters
    ----------
    key
        Checksum of all that was asked: an identical request has the same key and is not asked again.
    evaluator, settings
        Its name, and the checksum of its settings; two settings of one evaluator are two evaluators.
    repeat
        Number of this request among equal ones, from 0; above temperature 0 they may differ.
    choice, preferred
        The answer; both None where there is none. A scorer sees no order, so it has no choice.
    score_high, score_low
        The scores of the two videos, from a scorer.
    failure, message
        Why there is no answer, and for a person.
    raw, reasoning, finish_reason
        The model's text, its thoughts where it gives them apart, and why it stopped.
    model, prompt_digest
        The model that answered, as the server names it, and the checksum of the request's texts.
    frames
        Frames that were looked at, of both videos.
    cost_usd
        What it cost by the price list; None where that has no price.
    details
        JSON of what else is worth knowing (which frames, scene settings, captions used).
    """

    key: str
    evaluator: str
    settings: str
    pair_id: str
    source_id: str
    aspect: str
    order: Order
    repeat: int = 0
    choice: Choice | None = None
    preferred: Preferred | None = None
    score_high: float | None = None
    score_low: float | None = None
    failure: Failure | None = None
    message: str = ""
    raw: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    model: str = ""
    prompt_digest: str = ""
    frames: _Count = 0
    tokens_in: _Count = 0
    tokens_out: _Count = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    tries: Annotated[int, Field(ge=0, lt=2**31)] = 1
    details: str = "{}"
    at: str = ""

    @field_validator("*")
    @classmethod
    def _can_be_written(cls, value: Any) -> Any:
        return whole_characters(value) if type(value) is str else value

    @property
    def answered(self) -> bool:
        """Whether there is an answer; a failed request is neither right nor wrong."""
        return self.preferred is not None


def whole_characters(text: str) -> str:
    """Return a model's text with halves of characters replaced: JSON may hold them, no file can."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def preferred(choice: Choice, order: Order) -> Preferred:
    """Return an answer freed from the order in which the videos were shown.

    Examples
    --------
    >>> preferred("first", "low_first")
    'low'
    """
    if choice == "tie":
        return "tie"
    return "high" if (choice == "first") == (order != "low_first") else "low"


class JudgementsStore(RowStore):
    """The judgements of one store.

    Parameters
    ----------
    store
        The store; nothing is written into it before the first answer.
    """

    schema = JUDGEMENTS
    ids = ("key", "pair_id")
    answer = "preferred"
    order = ("evaluator", "settings", "pair_id", "order", "repeat")
    transient = TRANSIENT_FAILURES

    def __init__(self, store: Store) -> None:
        super().__init__(store.root / "judgements")

    def rows(
        self, evaluators: Collection[str] = (), pair_ids: Collection[str] = (), keys: Collection[str] = ()
    ) -> list[Judgement]:
        """Return one row a request, by evaluator, settings, pair, order and repeat.

        Parameters
        ----------
        evaluators, pair_ids, keys
            Only of these; where there are none, of all.

        Raises
        ------
        IntegrityError
            If a file is damaged.
        """
        return _models(self.table(evaluators, pair_ids, keys))

    def table(
        self, evaluators: Collection[str] = (), pair_ids: Collection[str] = (), keys: Collection[str] = ()
    ) -> pa.Table:
        """Return the same as an Arrow table of the schema `JUDGEMENTS`."""
        wanted = {"evaluator": evaluators, "pair_id": pair_ids, "key": keys}
        table = self.all_rows()
        for name, some in wanted.items():
            if some:
                table = table.filter(pc.is_in(table[name], value_set=pa.array(list(some), pa.string())))
        return self.settled(table)

    def export(self, path: Path) -> int:
        """Write all rows as one Parquet file, for others; return how many.

        Raises
        ------
        StoreError
            If there are none.
        """
        found = self.table()
        if not found.num_rows:
            raise StoreError(f"there are no judgements in {self.path}: `slvmeval evaluate` makes them")
        write_part(path, found)
        return int(found.num_rows)

    def take(self, path: Path) -> int:
        """Add the rows of an exported file that are not here yet; return how many.

        Raises
        ------
        UserInputError
            If it is no such file, or a row does not fit; nothing is added then.
        """
        given = read_export(path)
        known = self.known()
        return self.add(row for row in given if not is_settled(known.get((row.key, row.pair_id))))


def read_export(path: Path) -> list[Judgement]:
    """Read a file of judgements that somebody exported.

    Raises
    ------
    UserInputError
        If it is missing, no Parquet file, or its rows do not fit.
    """
    try:
        rows = _models(read_part(path).select(JUDGEMENTS.names).cast(JUDGEMENTS))
        for row in rows:
            if row.choice is not None and row.preferred != preferred(row.choice, row.order):
                raise ValueError(
                    f"judgement {row.key[:12]} says {row.choice} in the order {row.order}, which is not "
                    f"{row.preferred}"
                )
        return rows
    except FileNotFoundError as problem:
        raise UserInputError(f"there is no file {path}") from problem
    except (pa.ArrowException, KeyError, ValueError, IntegrityError) as problem:
        raise UserInputError(
            f"{path} is no file of judgements: {problem}. `slvmeval judgements export` writes one"
        ) from problem


def _models(table: pa.Table) -> list[Judgement]:
    try:
        rows = [Judgement.model_validate(row) for row in table.to_pylist()]
    except ValidationError as problem:
        raise IntegrityError(f"a judgement does not fit: {problem}") from problem
    for row in rows:
        if row.answered == (row.failure is not None):
            raise IntegrityError(f"judgement {row.key[:12]} has to have either an answer or a failure")
    return rows


def is_settled(failure: str | None, retry: bool = False) -> bool:
    """Return whether a request need not be made again.

    Parameters
    ----------
    failure
        Why it has no answer; empty where it has one, None where it was never made.
    retry
        Make those again too that failed for a reason that lies with the evaluator.
    """
    if failure is None:
        return False
    return not failure or (failure not in TRANSIENT_FAILURES and not retry)
