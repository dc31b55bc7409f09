"""What the paper prints, as judgements and their matrix, made once a run."""

from __future__ import annotations

import pytest

from tasks.report.accuracy import Matrix, matrix_of
from tasks.report.judged_release import JudgedRelease
from tests.tasks.report.printed_release import printed_release


@pytest.fixture(scope="session")
def judgements() -> JudgedRelease:
    return printed_release()


@pytest.fixture(scope="session")
def matrix(judgements: JudgedRelease) -> Matrix:
    return matrix_of(judgements)
