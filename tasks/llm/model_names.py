"""Names of models: the requested one, and the one that answered."""

from __future__ import annotations

import logging
import re
from functools import cache

log = logging.getLogger(__name__)

#: What servers append to the requested name: a date, a build, or a mark that it may still change.
_SNAPSHOT = re.compile(r"([-@:](\d[\d-]*|preview|exp|latest))*")
_ASKED = re.compile(r"(?P<answered>.*) \(asked: (?P<asked>.*)\)")


def answered_by(asked: str, answered: str) -> str:
    """Return the name of the model that answered, with the requested one if they differ.

    A difference is logged once per process.

    Examples
    --------
    >>> answered_by("gpt-5", "gpt-5-2025-08-07"), answered_by("gpt-5", "gpt-5-mini")
    ('gpt-5-2025-08-07', 'gpt-5-mini (asked: gpt-5)')
    """
    if not answered or not asked or is_same_model(asked, answered):
        return answered
    _warn(asked, answered)
    return f"{answered} (asked: {asked})"


def is_same_model(asked: str, answered: str) -> bool:
    """Return whether two names can belong to one model: equal except for its owner's name and a date."""
    ours, theirs = (name.rpartition("/")[2].lower() for name in (asked, answered))
    ours = ours.removesuffix("-latest")
    return theirs.startswith(ours) and _SNAPSHOT.fullmatch(theirs, len(ours)) is not None


def names_of(model: str) -> tuple[str, ...]:
    """Return the names under which a model that answered may have a price, the best first."""
    both = _ASKED.fullmatch(model)
    return (model,) if both is None else (both["answered"], both["asked"])


@cache
def _warn(asked: str, answered: str) -> None:
    log.warning(
        "%s was asked, and %s answered: the rows name both; check the server, or a gateway before it",
        asked,
        answered,
    )
