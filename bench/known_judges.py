"""Simulated judges of four known kinds, whose answers on a release's pairs are rows like any other's.

`sees` prefers the untouched side of damage, less often if it is weaker, and flips a coin if neither side is
better; `edits` prefers the untouched side of anything that was edited; `first` prefers the video shown
first; `length` prefers the longer video. The first two make mistakes, keyed by the pair and the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from scipy.special import ndtr

from storage_schemas.ids import canonical_json, digest_text
from storage_schemas.judgements import CONTROL_KEY, Choice, Judgement, Order, Preferred, preferred
from storage_schemas.pair import PairRecord
from storage_schemas.rng import keyed_rng
from tasks.pairs.strength_number import strength_number
from tasks.statistics.trials import BOTH_ORDERS

Prefers = Callable[[PairRecord, Order], Preferred]
#: Error rate of the judges that see something.
MISTAKES = 0.1
#: The strength that `sees` detects half of the time, and a standard deviation around it in doublings.
THRESHOLD, SPREAD = 0.2, 0.4


def _drawn(record: PairRecord, order: Order, share: float, purpose: str) -> bool:
    return bool(keyed_rng("known judge", purpose, record.pair_id, order).random() < share)


def _untouched(record: PairRecord, order: Order, share: float, purpose: str) -> Preferred:
    return "high" if _drawn(record, order, share, purpose) else "low"


def sees(record: PairRecord, order: Order) -> Preferred:
    """See damage, less often if it is weaker."""
    strength = strength_number(record) or 1.0
    seen = 0.0 if record.control else float(ndtr(math.log2(strength / THRESHOLD) / SPREAD))
    return _untouched(record, order, 0.5 + (0.5 - MISTAKES) * seen, "sees")


def notices_edits(record: PairRecord, order: Order) -> Preferred:
    """Notice that one side was edited, whatever the edit."""
    return _untouched(record, order, 1 - MISTAKES, "edits")


def prefers_first(record: PairRecord, order: Order) -> Preferred:
    """Prefer the video that is shown first."""
    return "high" if order == "high_first" else "low"


def reads_length(record: PairRecord, order: Order) -> Preferred:
    """Prefer the longer video; flip a coin if both are equally long."""
    if record.low_frames != record.high_frames:
        return "high" if record.low_frames < record.high_frames else "low"
    return _untouched(record, order, 0.5, "length")


def overlooks(record: PairRecord, order: Order) -> Preferred:
    """See damage less often the longer the video around it is."""
    damaged = sum(end - start for start, end in record.high_intervals) * record.fps / record.high_frames
    seen = _drawn(record, order, min(0.9, damaged**0.5), "overlooks")
    return "high" if seen else _untouched(record, order, 0.5, "overlooked")


JUDGES: Mapping[str, Prefers] = {
    "sees": sees,
    "edits": notices_edits,
    "first": prefers_first,
    "length": reads_length,
}


def known_rows(records: Iterable[PairRecord], judges: Mapping[str, Prefers] = JUDGES) -> Iterator[Judgement]:
    """Yield each judge's answers, in both orders."""
    for record in records:
        for name, prefers in judges.items():
            for order in BOTH_ORDERS:
                side = prefers(record, order)
                first = "high" if order == "high_first" else "low"
                choice: Choice = "first" if side == first else "second"
                yield Judgement(
                    key=digest_text(f"known judge {name} {record.pair_id} {order}"),
                    evaluator=name,
                    settings=digest_text(f"known judge {name}")[:16],
                    pair_id=record.pair_id,
                    source_id=record.source_id,
                    aspect=record.aspect,
                    order=order,
                    choice=choice,
                    preferred=preferred(choice, order),
                    cost_usd=0.0,
                    details=canonical_json({CONTROL_KEY: True} if record.control else {}),
                )
