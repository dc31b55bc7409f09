"""Why a job waits, in SLURM's words: does the wait end on its own, and if not, what must change?"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class LastingWait:
    """A reason for waiting that does not resolve on its own.

    Parameters
    ----------
    keys
        Keys of the pool that the reason concerns.
    remedy
        What to do, besides changing these keys.
    ours
        Whether the job itself has to change; otherwise the site may end the wait, as after maintenance.
    """

    keys: tuple[str, ...]
    remedy: str
    ours: bool = True


_LIMIT = "ask for less, or ask the site for another QOS or a higher limit (`sacctmgr show qos`)"
#: By SLURM's reason codes (squeue's manual, "Job reason codes") and by the sentences that it writes instead
#: (``part_policy_valid_*`` in its source); the first that matches counts.
_LASTING = (
    (
        r"Account(NotAllowed)?$|InvalidAccount|.*\baccount not permitted",
        LastingWait(("account", "partition"), "name an account that may use it"),
    ),
    (
        r".*\bgroup not permitted",
        LastingWait(("partition",), "name a partition that your groups may use (`scontrol show partition`)"),
    ),
    (
        r"QOSNotAllowed|InvalidQOS|QOS$|.*\bQOS not permitted",
        LastingWait(("qos",), "name a QOS that the account may use"),
    ),
    (
        r"(QOS|Assoc)Max(Wall|.*WallDuration)|PartitionTimeLimit|TimeLimit$",
        LastingWait(("walltime", "qos"), "ask for a shorter time"),
    ),
    (r"(QOS|Assoc)M(ax|in)Mem.*Per(Job|Node)|MaxMemPerLimit", LastingWait(("memory", "qos"), _LIMIT)),
    (r"(QOS|Assoc)M(ax|in)GRES.*Per(Job|Node)|QOSMinGRES", LastingWait(("gpus", "qos"), _LIMIT)),
    (r"(QOS|Assoc)M(ax|in)(Cpu|CPU).*Per(Job|Node)|QOSMinCpu", LastingWait(("cores", "qos"), _LIMIT)),
    (r"(QOS|Assoc)M(ax|in).*PerJob|QOSUsageThreshold", LastingWait(("qos", "cores", "memory"), _LIMIT)),
    (
        # not run minutes, which are freed when jobs end
        r"(QOS|Assoc)Grp(?!.*RunM).*Minutes",
        LastingWait(("account", "qos"), "the account's budget is used up", ours=False),
    ),
    (r"PartitionNodeLimit", LastingWait(("partition",), "too few of its nodes are up", ours=False)),
    (
        r"BadConstraints",
        LastingWait(("constraint", "gres", "directives"), "no node has everything requested"),
    ),
    (r"Partition(Down|Inactive)", LastingWait(("partition",), "`sinfo -s` shows which are up", ours=False)),
    (r"DependencyNeverSatisfied", LastingWait(("directives",), "remove the dependency")),
    (
        r"Reservation(Deleted|Invalid)",
        LastingWait(("reservation",), "`scontrol show reservation` lists them"),
    ),
    (
        r"JobHeld|JobHoldMaxRequeue|.*requeued (held|in held state)",
        LastingWait((), "the job is held: `scontrol release` releases it", ours=False),
    ),
)

#: These end when other jobs end, at a certain time, or when nodes are back.
_PASSING = re.compile(
    r"$|None$|Priority|Resources|Dependency$|BeginTime|Licenses|Reservation$|Cleaning|Prolog|JobArrayTaskLimit"
    r"|(QOS|Assoc)(Grp|Max)|QOSResourceLimit|ReqNodeNotAvail|Nodes? required for job|NodeDown|FrontEndDown"
    r"|BurstBuffer|OutOfMemory|SchedDefer|Power|Maint",
    re.IGNORECASE,
)


def lasting_wait(reason: str) -> LastingWait | None:
    """Return why a job waits indefinitely; None if the wait ends on its own, or :func:`is_unknown`.

    Parameters
    ----------
    reason
        As squeue shows it.

    Examples
    --------
    >>> lasting_wait("Priority") is None
    True
    >>> lasting_wait("QOSMaxWallDurationPerJobLimit").keys
    ('walltime', 'qos')
    """
    for pattern, wait in _LASTING:
        if re.match(pattern, reason, re.IGNORECASE):
            return wait
    return None


def is_unknown(reason: str) -> bool:
    """Return whether a reason is neither a known lasting nor a known temporary one: a person must read it.

    Examples
    --------
    >>> is_unknown("Priority"), is_unknown("PartitionDown"), is_unknown("The moon is not full")
    (False, False, True)
    """
    return lasting_wait(reason) is None and not _PASSING.match(reason)
