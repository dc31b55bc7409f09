"""Where judgements are kept: a folder of append-only files beside the releases, one writer a file.

::

    judgements/running/<host>.<pid>.<task>.<n>.jsonl   what a process is asking now, a line an answer
    judgements/parts/<time>-<n>.parquet                finished batches

An answer that was paid for is on the disk before the next request is made. A row is known by its request's
key and its pair; where there are several, the latest answer counts.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.judgement import JUDGEMENTS, TRANSIENT_FAILURES, Judgement, preferred
from storage_schemas.lines_file import rows_of_lines
from storage_schemas.parts import anew, one_each, read_part, write_part
from storage_schemas.row_store import RowStore
from storage_schemas.store import Store

#: Key of a request, and id of the pair that it was made for.
RowId = tuple[str, str]


class JudgementsStore(RowStore):
    """The judgements of one store.

    Parameters
    ----------
    store
        The store; nothing is written into it before the first answer.
    """

    schema = JUDGEMENTS

    def __init__(self, store: Store) -> None:
        super().__init__(store.root / "judgements")
        self._keys: dict[str, dict[RowId, str]] = {}

    @staticmethod
    def settled(table: pa.Table) -> pa.Table:
        """Return one row for each key and pair, by evaluator, settings, pair, order and repeat."""
        by = ("evaluator", "settings", "pair_id", "order", "repeat")
        return one_each(table, ("key", "pair_id"), "preferred", by)

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

    def known(self) -> dict[RowId, str]:
        """Return of every row why there is no answer, empty where there is one; see :func:`is_settled`."""

        def read() -> dict[RowId, str]:
            found: dict[RowId, str] = {}
            for path in self.lines_files():
                for row in rows_of_lines(path):
                    _note(found, (row["key"], row["pair_id"]), row["failure"])
            for path in self.part_files():
                for id_, failure in self._keys_of(path).items():
                    _note(found, id_, failure)
            return found

        return anew(read)

    def _keys_of(self, path: Path) -> dict[RowId, str]:
        """Return the keys of a part; a part never changes, so they are read once."""
        if path.name not in self._keys:
            columns = read_part(path, ["key", "pair_id", "failure"]).to_pydict()
            keys: dict[RowId, str] = {}
            for key, pair_id, failure in zip(*columns.values(), strict=True):
                _note(keys, (key, pair_id), failure)
            self._keys[path.name] = keys
        return self._keys[path.name]

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


def _note(found: dict[RowId, str], id_: RowId, failure: str | None) -> None:
    """Note a row; an answer counts more than a failure, and one that would come again more than another."""
    before = found.get(id_)
    if before is None or not failure or (before and not is_settled(before)):
        found[id_] = failure or ""
