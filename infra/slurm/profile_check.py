"""Check a profile against the cluster: partitions, time limits, cores, memory, GPUs and features."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence

from infra.pool import Pool, seconds_of
from infra.profile import Profile
from infra.slurm.commands import Node, Partition, nodes, partitions
from storage_schemas.errors import UserInputError, did_you_mean

#: A node's GRES: ``gpu:h100:4(S:0-3)`` is name, type and count, then sockets.
_GRES = re.compile(r"(?P<name>\w+)(?::(?P<type>[^:,(]+))??(?::(?P<count>\d+))?(?:\([^)]*\))?(?:,|$)")
#: A feature in a constraint such as ``(icelake|sapphire)&nvme``; ``*2`` is a node count.
_FEATURE = re.compile(r"\*\d+|[\w.:+-]+")
#: Words in a node's state, as shown by sinfo, in which it accepts no jobs.
_AWAY = ("down", "drain", "fail", "error", "maint", "unk", "inval", "reserved", "no_respond")


def check_profile_fits(profile: Profile, partitions: Sequence[Partition], nodes: Sequence[Node]) -> list[str]:
    """Return the settings of a profile's pools that no node of the cluster satisfies.

    Parameters
    ----------
    profile
        The profile with its pools.
    partitions, nodes
        The cluster's partitions and nodes.

    Returns
    -------
    list of str
        Messages with the profile, the key and the possible values; empty if everything fits.
    """
    return [message for name in profile.pools for message in pool_misfits(profile, name, partitions, nodes)]


def pool_misfits(
    profile: Profile, name: str, partitions: Sequence[Partition], nodes: Sequence[Node]
) -> list[str]:
    """Return the settings of one pool that no node of the cluster satisfies, as messages."""
    return [
        f"{profile.label}: pools.{name}.{key}: {message}"
        for key, message in _misfits(profile.pools[name], partitions, nodes)
    ]


def require_fit(profile: Profile) -> None:
    """Query SLURM and raise if the profile's pools do not fit; call before submitting jobs.

    Raises
    ------
    UserInputError
        With all misfits.
    SlurmAway, PrerequisiteError
        If SLURM cannot be queried.
    """
    problems = check_profile_fits(profile, partitions(), nodes())
    if problems:
        raise UserInputError("\n".join(problems))


def _misfits(pool: Pool, partitions: Sequence[Partition], nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for each misfit of one pool."""
    known = {partition.name: partition for partition in partitions}
    missing = [name for name in pool.partitions if name not in known]
    for name in missing:
        yield (
            "partition",
            f"no partition {name!r}.{did_you_mean(name, known)} Partitions: {', '.join(known) or 'none'}",
        )
    if missing:
        return
    # SLURM uses any of several
    there = f"partition {pool.partition!r}"
    if not any(known[name].up for name in pool.partitions):
        yield "partition", f"{there} accepts no jobs now: `sinfo -s` shows which do"
    limit = max(math.inf if (most := known[name].max_time_s) is None else most for name in pool.partitions)
    if seconds_of(pool.walltime) > limit:
        yield "walltime", f"{pool.walltime} is more than {there} allows, {walltime_text(int(limit))}"
    members = [node for node in nodes if in_partition(pool, node)]
    if not members:
        yield "partition", f"{there} has no nodes"
        return
    alone = [*_too_large(pool, members, there), *_no_gpu(pool, members, there)]
    alone += _no_feature(pool, members, there)
    yield from alone
    if not alone and not fitting(pool, members):
        have = "; ".join(sorted({described(node) for node in members}))
        yield "partition", f"no node of {there} has everything the pool requests at once. Its nodes: {have}"


def fitting(pool: Pool, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of the pool's partition on which one of its jobs fits, busy or not."""
    has = _constraint(pool.constraint)
    return [
        node
        for node in nodes
        if in_partition(pool, node)
        and node.cpus >= pool.cores
        and node.memory_mib >= requested_mib(pool)
        and gres_count(node.gres, pool.gres) >= pool.gpus
        and has(node.features)
    ]


def in_partition(pool: Pool, node: Node) -> bool:
    """Return whether a node belongs to one of the pool's partitions."""
    return not set(pool.partitions).isdisjoint(node.partitions)


def takes_jobs(node: Node, pool: Pool | None = None) -> bool:
    """Return whether a node is neither down nor drained, so that jobs can start there.

    A pool with a reservation may use reserved nodes.
    """
    state = node.state.lower()
    if pool is not None and pool.reservation:
        state = state.replace("reserved", "")
    return not any(word in state for word in _AWAY) and not state.endswith("*")


def gres_count(has: str, wanted: str) -> int:
    """Return a node's count of a generic resource, ``gpu`` or ``gpu:h100``, from its GRES text."""
    name, _, kind = wanted.partition(":")
    count = 0
    for match in _GRES.finditer(has):
        if match["name"] == name and kind in ("", match["type"]):
            count += int(match["count"] or 1)
    return count


def requested_mib(pool: Pool) -> int:
    """Return the memory of one job in MiB."""
    return math.ceil(pool.memory_bytes / 2**20)


def walltime_text(seconds: int) -> str:
    """Return seconds as a time limit of SLURM, ``D-HH:MM:SS`` or ``HH:MM:SS``."""
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def _too_large(pool: Pool, members: Sequence[Node], there: str) -> Iterator[tuple[str, str]]:
    cores = max(node.cpus for node in members)
    if pool.cores > cores:
        yield "cores", f"no node of {there} has {pool.cores} cores; the maximum is {cores}"
    memory = max(node.memory_mib for node in members)
    if requested_mib(pool) > memory:
        yield (
            "memory",
            f"no node of {there} has {pool.memory} ({requested_mib(pool)} MiB); the maximum is '{memory}MiB'",
        )


def _no_gpu(pool: Pool, members: Sequence[Node], there: str) -> Iterator[tuple[str, str]]:
    most = max(gres_count(node.gres, pool.gres) for node in members)
    if not pool.gpus or most >= pool.gpus:
        return
    if most:
        yield "gpus", f"no node of {there} has {pool.gpus} of {pool.gres!r}; the maximum is {most}"
        return
    kinds = sorted({_kind(match) for node in members for match in _GRES.finditer(node.gres)})
    have = f"its nodes have: {', '.join(kinds)}" if kinds else "its nodes have none: choose another partition"
    yield "gres", f"no node of {there} has {pool.gres!r}.{did_you_mean(pool.gres, kinds)} {have}"


def _kind(match: re.Match[str]) -> str:
    return f"{match['name']}:{match['type']}" if match["type"] else match["name"]


def _no_feature(pool: Pool, members: Sequence[Node], there: str) -> Iterator[tuple[str, str]]:
    known = sorted({feature for node in members for feature in node.features})
    for word in _FEATURE.findall(pool.constraint or ""):
        if word not in known and not word.startswith("*"):
            have = f"Features there: {', '.join(known)}" if known else "Its nodes have no features"
            yield (
                "constraint",
                f"no node of {there} has the feature {word!r}.{did_you_mean(word, known)} {have}",
            )


def _constraint(text: str | None) -> Callable[[Sequence[str]], bool]:
    """Return a predicate on a node's features; always true if only SLURM understands the constraint."""
    if text is None or re.search(r"[^\w.:+&-]", text):
        return lambda _features: True
    wanted = set(text.split("&"))
    return lambda features: wanted <= set(features)


def described(node: Node) -> str:
    """Return the kind of a node: cores, memory, generic resources and features."""
    parts = [f"{node.cpus} cores", f"{node.memory_mib} MiB", node.gres, " ".join(node.features)]
    return ", ".join(part for part in parts if part)
