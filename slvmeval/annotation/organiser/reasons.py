"""What happened to workers, in words for the organiser."""

from __future__ import annotations

from tasks.annotation.desk_types import RefusedReason as R

#: For each reason: what was refused, and what it mostly means.
REFUSED = {
    R.UNKNOWN_CAMPAIGN: ("No such campaign", "a mistyped address"),
    R.UNKNOWN_WORKER: ("Nobody entered with this session", "a cookie of another installation"),
    R.BAD_LINK: ("A link that was never given out", "it was cut off or changed on its way"),
    R.LINK_USED: ("A link that belongs to somebody else", "a link was passed on"),
    R.NO_CONSENT: ("A task before the consent", "a page opened out of order"),
    R.EXCLUDED: ("An excluded worker came back", "nothing to do"),
    R.DONE: ("No task is left for the worker", "nothing to do"),
    R.NO_TASKS: ("All that is left is open with others", "they are told to come back later"),
    R.LIMIT: ("The worker has done as many tasks as one may", "nothing to do"),
    R.UNKNOWN_ASSIGNMENT: ("An answer to a task that is not the worker's", "a second browser, or a cheat"),
    R.EXPIRED: ("An answer too late", "the lease ran out and others answered; a longer lease may help"),
    R.NOT_LOOKED: ("A preference without having played both videos", "haste, or a cheat"),
    R.NO_PREFERENCE: ("A rating before the preference", "a cheat"),
    R.NOT_SEEN: ("A stretch that was not played", "haste, or a cheat"),
    R.NOT_CONFIRMED: ("A rating with a stretch that was not confirmed", "haste, or a cheat"),
    R.OTHER_ANSWER: ("Another answer after the first was stored", "two tabs"),
    R.BAD_VALUE: ("A value that no page of ours sends", "a cheat"),
    R.NOTHING_DONE: ("A completion code without any answer", "the worker left at once"),
}
OTHER = {
    "claim_cut": ("A claim to have watched more than can be", "a slow clock, or a cheat; it was cut"),
    "expired": ("A task that was left open until its lease ran out", "the worker closed the page"),
}


def described(kind: str) -> tuple[str, str]:
    """Return what happened and what it mostly means, for a kind of event or ``refused: REASON``."""
    if kind in OTHER:
        return OTHER[kind]
    reason = kind.removeprefix("refused: ")
    try:
        return REFUSED[R(reason)]
    except ValueError:
        return reason.replace("_", " ").capitalize(), ""
