"""A server for tests of evaluators that ask a model: its answers are valid but meaningless."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.stand_in_server import MODEL, standing_in
from storage_schemas.model import ModelServer
from storage_schemas.store import Store
from tasks.scoring.setup import Setup


@contextmanager
def stand_in_setup(folder: Path) -> Iterator[Setup]:
    """Give an evaluator's `setup`: a new store, and a model server on the loopback interface.

    The server is called ``stand-in``, and so is its model. Its answers are the smallest that a question's
    schema allows: the first word of an `enum`, the minimum of a number.

    Parameters
    ----------
    folder
        An empty or new folder for the store.
    """
    store = Store.create(folder / "store")
    with standing_in() as server:
        servers = {MODEL: ModelServer(url=server.url, model=MODEL)}
        yield Setup(store_path=str(store.root), model_servers=servers)
