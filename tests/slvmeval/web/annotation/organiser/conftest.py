from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.organising import ASPECTS, Organiser, desk, votes_of_a_week
from tests.slvmeval.web.annotation.pieces import NAME, pair


@pytest.fixture
def organiser(study: Study) -> Iterator[Organiser]:
    """An organiser who is not logged in yet, and a running campaign of 20 workers."""
    pairs = [pair(number, aspect=ASPECTS[number % 5]) for number in range(40)]
    study.begin(pairs=pairs, pay_per_task=0.5, currency="EUR", rule="paper")
    with desk(study) as opened:
        opened.votes.add(NAME, votes_of_a_week(study, pairs))
    with Organiser(study) as somebody:
        yield somebody
