"""People as an evaluator: five answers on a pair are one unit."""

from __future__ import annotations

from storage_schemas.votes import Vote
from tasks.statistics.cells import cell_of
from tasks.statistics.trials import TrialPair, trials_of
from tasks.votes.release_votes import HUMAN, human_judgements
from tests.tasks.votes.voting import vote


def some_votes() -> list[Vote]:
    """Ten pairs with five workers each; on pair n, n of them are wrong, at most five."""
    return [
        vote(f"film{n}/a", f"w{'x' * place}", preferred="low" if place < min(n, 5) else "high")
        for n in range(10)
        for place in range(5)
    ]


def test_five_answers_are_one_unit_and_n_is_pairs() -> None:
    pairs = [TrialPair(f"film{n}/a", f"film{n}", "color", 100.0 + n) for n in range(10)]
    trials = trials_of(human_judgements(some_votes()), pairs)
    cell = cell_of(trials)
    assert (cell.pairs, cell.n, cell.requests, cell.failed) == (10, 10, 50, 0)
    assert cell.accuracy == (5 + 4 + 3 + 2 + 1) / 50
    assert cell.paper is not None
    half = (cell.paper.high - cell.paper.low) / 2
    assert round(half, 4) == round(1.96 * (0.3 * 0.7 / 10) ** 0.5, 4)


def test_rows_say_what_was_seen_first_and_chosen() -> None:
    (row,) = human_judgements([vote("p", "ann", first="low", preferred="low", comment="my phone is 0123")])
    assert (row.evaluator, row.order, row.choice, row.preferred) == (HUMAN, "low_first", "first", "low")
    (row,) = human_judgements([vote("p", "ann", first="high", preferred="low")])
    assert (row.order, row.choice, row.preferred) == ("high_first", "second", "low")
    assert row.answered
    assert row.seconds == 40.0
    assert row.cost_usd is None
    assert "phone" not in row.model_dump_json()
    assert "ann" not in row.model_dump_json()


def test_rows_do_not_depend_on_the_order_of_votes() -> None:
    some = some_votes()
    assert human_judgements(reversed(some)) == human_judgements(some)
    rows = human_judgements(some)
    assert len({row.key for row in rows}) == len(rows)
    assert sorted({row.repeat for row in rows}) == [0, 1, 2, 3, 4]
