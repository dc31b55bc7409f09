"""What a terminated run says of itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prefect.exceptions import TerminationSignal

from flows.run_ends import keep_termination
from storage_schemas.errors import PrerequisiteError


@contextmanager
def leaving_badly(wrapped: bool) -> Iterator[None]:
    try:
        yield
    finally:
        if wrapped:
            try:
                raise TimeoutError("the cluster did not close")
            except TimeoutError as problem:
                raise PrerequisiteError("no cluster") from problem
        raise TimeoutError("the cluster did not close")


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_error_while_leaving_does_not_hide_that_it_was_ended(wrapped: bool) -> None:
    with pytest.raises(TerminationSignal) as ended, keep_termination(), leaving_badly(wrapped):
        raise TerminationSignal(signal.SIGTERM)
    assert ended.value.signal == signal.SIGTERM


def test_other_errors_are_what_they_are() -> None:
    with pytest.raises(TimeoutError), keep_termination(), leaving_badly(False):
        pass
    with pytest.raises(PrerequisiteError), keep_termination(), leaving_badly(True):
        raise ValueError("of its own")
