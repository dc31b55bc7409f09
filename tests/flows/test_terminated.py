"""What a terminated run says of itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from prefect.exceptions import TerminationSignal
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES
from pydantic import BaseModel, model_serializer
from pydantic_core import PydanticSerializationError

from flows.run_ends import _try_again, keep_termination
from storage_schemas.errors import PrerequisiteError


@pytest.fixture(autouse=True)
def terminations_raise() -> Iterator[None]:
    """Handle SIGTERM as Prefect does while a flow runs."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise TerminationSignal(number)

    before = signal.signal(signal.SIGTERM, end)
    yield
    assert signal.signal(signal.SIGTERM, before) is end
    # what else holds until the process ends
    _try_again.close()


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
    retries = PREFECT_CLIENT_MAX_RETRIES.value()
    with pytest.raises(TerminationSignal) as ended, keep_termination(), leaving_badly(wrapped):
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.signal == signal.SIGTERM
    # a terminated run does not wait for its server
    assert PREFECT_CLIENT_MAX_RETRIES.value() < retries


class Ended(BaseModel):
    """Is terminated while it is serialized."""

    how: int

    @model_serializer
    def words(self) -> dict[str, Any]:
        os.kill(os.getpid(), self.how)
        return {}


def test_compiled_code_does_not_hide_that_it_was_ended() -> None:
    with pytest.raises(PydanticSerializationError):
        Ended(how=signal.SIGTERM).model_dump()
    with pytest.raises(TerminationSignal) as ended, keep_termination():
        Ended(how=signal.SIGTERM).model_dump()
    assert ended.value.signal == signal.SIGTERM
    with pytest.raises(KeyboardInterrupt), keep_termination():
        Ended(how=signal.SIGINT).model_dump()


def test_prefect_s_handler_stays_in_place() -> None:
    """Prefect cancels a run only while its own handler is there, and says Crashed where it is not."""
    before = signal.getsignal(signal.SIGTERM)
    with keep_termination():
        assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(ValueError, match="of its own"), keep_termination():
        raise ValueError("of its own")
    assert signal.set_wakeup_fd(-1) == -1


def test_other_errors_are_what_they_are() -> None:
    with pytest.raises(TimeoutError), keep_termination(), leaving_badly(False):
        pass
    with pytest.raises(PrerequisiteError), keep_termination(), leaving_badly(True):
        raise ValueError("of its own")
