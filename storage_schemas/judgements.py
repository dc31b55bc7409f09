"""Table `judgements` and the folder of append-only files that stores it.

A row is one request: one evaluator's answer on one pair in one presentation order. Each file has one
writer.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, ValidationError, field_validator

from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.model import Frozen
from storage_schemas.parquet import dicts_of
from storage_schemas.row_store import RowStore, read_part, write_part
from storage_schemas.store import Store
from storage_schemas.value_problems import first_error

#: Presentation order of the two videos; none for scorers, which see one video at a time.
Order = Literal["high_first", "low_first", "apart"]
#: The evaluator's answer in terms of the request.
Choice = Literal["first", "second", "tie"]
#: The answer, independent of the order.
Preferred = Literal["high", "low", "tie"]


class Failure(StrEnum):
    """Why a request has no answer. Stored: never rename a value."""

    NO_ANSWER = "no_answer"
    NOT_UNDERSTOOD = "not_understood"
    CUT_OFF = "cut_off"
    #: The server rejected the request.
    REFUSED = "refused"
    #: The model, or its provider's filter, refused to answer.
    MODEL_REFUSED = "model_refused"
    CONTEXT_TOO_LONG = "context_too_long"
    #: The server failed on this request, or had no time for it, while it answered others.
    SERVER_ERROR = "server_error"
    SERVER_DOWN = "server_down"
    NOT_ALLOWED = "not_allowed"
    QUOTA_USED_UP = "quota_used_up"
    LIMIT_REACHED = "limit_reached"
    VIDEO_UNREADABLE = "video_unreadable"
    PREREQUISITE_MISSING = "prerequisite_missing"
    INTERNAL_ERROR = "internal_error"


#: Failures caused by the machine or the budget; the next run retries them. Others would fail again.
TRANSIENT_FAILURES = frozenset(
    {
        Failure.SERVER_ERROR,
        Failure.SERVER_DOWN,
        Failure.NOT_ALLOWED,
        Failure.QUOTA_USED_UP,
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
        ("prompts", pa.string()),
        ("use", pa.string()),
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


#: Key of a row's details that marks its pair as a control, in which neither side is better.
CONTROL_KEY = "control"
#: Key of a row's details with the wording in which its evaluator was asked, and its name without it.
WORDING_KEY = "wording"
#: Key of a row's details with its evaluator's probe, which changes what the evaluator is shown or told.
PROBE_KEY = "probe"


class EstimatedTokens(Frozen):
    """Estimated tokens and dollars; None for dollars if a model has no price."""

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None


def estimated_in(details: str) -> EstimatedTokens | None:
    """Return the estimate in a row's details; None if the cost is known."""
    found = json.loads(details).get("estimated") if '"estimated"' in details else None
    return None if found is None else EstimatedTokens.model_validate(found)


_Count = Annotated[int, Field(ge=0, lt=2**63)]


class Judgement(Frozen):
    """One row of the table.

    Parameters
    ----------
    key
        Checksum of the complete request; an identical request has the same key and is not repeated.
    evaluator, settings
        Name, and checksum of the settings; an evaluator with other settings counts as another evaluator.
    repeat
        Number of this request among equal ones, from 0; answers may differ above temperature 0.
    choice, preferred
        The answer; both None if there is none. `choice` is None for scorers.
    score_high, score_low
        The scores of the two videos, from a scorer.
    failure, message
        Why there is no answer: the kind of failure, and a readable message.
        raw, reasoning, finish_reason
        The model's text, its separate reasoning if any, and why it stopped.
    model, prompt_digest
        Name of the model according to the server, and checksum of the request's texts.
    prompts
        Which prompts the evaluator sends: `built-in`, or the name of the user's folder and its digest; empty
        if it sends none.
    use
        The evaluator's own name, whatever its label in `evaluator`; empty for imported answers.
    frames
        Number of frames shown, for both videos together.
    cost_usd
        Cost according to the price list; None if it has no price.
    details
        Further data as JSON (frames shown, scene settings, captions used).
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
    prompts: str = ""
    use: str = ""
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
        """Whether there is an answer; a failed request counts as neither right nor wrong."""
        return self.preferred is not None

    @property
    def lost(self) -> int:
        """Number of attempts that may have been charged without counted tokens, from the details."""
        return int(json.loads(self.details).get("lost", 0)) if self.failure is not None else 0

    @property
    def p_first(self) -> float | None:
        """Probability of "first" according to the model's tokens, from the details; None if it is unknown."""
        return json.loads(self.details).get("p_first") if '"p_first"' in self.details else None

    @property
    def control(self) -> bool:
        """Whether its pair is a control, from the details: `high` is then the untouched side."""
        return f'"{CONTROL_KEY}"' in self.details and bool(json.loads(self.details).get(CONTROL_KEY))

    @property
    def wording(self) -> tuple[str, str] | None:
        """Its evaluator's name without the wording, and the wording's name, from the details; else None."""
        found = json.loads(self.details).get(WORDING_KEY) if f'"{WORDING_KEY}"' in self.details else None
        return None if found is None else (str(found["of"]), str(found["name"]))

    @property
    def probe(self) -> str:
        """Name of the probe, from the details; empty without a probe."""
        return str(json.loads(self.details).get(PROBE_KEY, "")) if f'"{PROBE_KEY}"' in self.details else ""

    @property
    def estimated(self) -> EstimatedTokens | None:
        """Estimated usage of an answer whose tokens the server did not count, from the details."""
        return estimated_in(self.details)


_FIELDS = set(Judgement.model_fields)


def whole_characters(text: str) -> str:
    """Return a model's text with lone surrogates replaced: JSON may contain them, UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def preferred(choice: Choice, order: Order) -> Preferred:
    """Return an answer independent of the presentation order.

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
        The store; nothing is written before the first answer.
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
        """Return one row per request, sorted by evaluator, settings, pair, order and repeat.

        Parameters
        ----------
        evaluators, pair_ids, keys
            Restrict the result to these; empty means all.

        Raises
        ------
        IntegrityError
            If a file is damaged.
        """
        return _models(self.table(evaluators, pair_ids, keys))

    def table(
        self, evaluators: Collection[str] = (), pair_ids: Collection[str] = (), keys: Collection[str] = ()
    ) -> pa.Table:
        """Return the rows as an Arrow table with the schema `JUDGEMENTS`."""
        import pyarrow.compute as pc  # imported here because every worker imports this module

        wanted = {"evaluator": evaluators, "pair_id": pair_ids, "key": keys}
        table = self.all_rows()
        for name, some in wanted.items():
            if some:
                table = table.filter(pc.is_in(table[name], value_set=pa.array(list(some), pa.string())))
        return self.settled(table)

    def export(self, path: Path) -> int:
        """Write all rows to one Parquet file; return their number.

        Raises
        ------
        StoreError
            If there are none.
        """
        table = self.table()
        if not table.num_rows:
            raise StoreError(f"no judgements in {self.path}: run `slvmeval evaluate` first")
        write_part(path, table)
        return int(table.num_rows)

    def take(self, path: Path) -> int:
        """Add the rows of an exported file that are not stored yet; return their number.

        Raises
        ------
        UserInputError
            If the file or a row is not valid; nothing is added then.
        """
        given = read_export(path)
        failures = self.failures()
        return self.add(row for row in given if not is_settled(failures.get((row.key, row.pair_id))))


def read_export(path: Path) -> list[Judgement]:
    """Read an exported file of judgements.

    Raises
    ------
    UserInputError
        If the file is missing, is not Parquet, or has invalid rows.
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
        raise UserInputError(f"{path} does not exist") from problem
    except (pa.ArrowException, KeyError, ValueError, IntegrityError) as problem:
        raise UserInputError(
            f"{path} is not a file of judgements: {problem}. `slvmeval judgements export` writes such a file"
        ) from problem


def _models(table: pa.Table) -> list[Judgement]:
    # most texts are the same in many rows: ids, names, models
    texts: dict[str, str] = {}
    rows = []
    try:
        for values in dicts_of(table):
            interned = {
                name: texts.setdefault(v, v) if isinstance(v, str) else v for name, v in values.items()
            }
            # a set of field names for each row would take a third of its memory
            rows.append(Judgement.model_construct(_FIELDS, **vars(Judgement.model_validate(interned))))
    except ValidationError as problem:
        raise IntegrityError(f"a judgement is not valid: {first_error(problem)}") from problem
    for row in rows:
        if row.answered == (row.failure is not None):
            raise IntegrityError(f"judgement {row.key[:12]} must have either an answer or a failure")
    return rows


def is_settled(failure: str | None, retry: Collection[str] = ()) -> bool:
    """Return whether a request is settled, so that it need not be repeated.

    Parameters
    ----------
    failure
        Why there is no answer; empty if there is one, None if the request was never made.
    retry
        Kinds of failures to repeat in addition to the transient ones.
    """
    if failure is None:
        return False
    return not failure or (failure not in TRANSIENT_FAILURES and failure not in retry)
