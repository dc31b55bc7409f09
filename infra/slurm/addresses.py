"""Select an address of the driver's scheduler that workers on the nodes can reach."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from distributed.utils import get_ip_interface

from infra.dask_cluster import LOOPBACK
from infra.profile import Profile
from infra.slurm.commands import Node
from storage_schemas.errors import PrerequisiteError


def scheduler_options(profile: Profile, nodes: Sequence[Node]) -> dict[str, str]:
    """Return the scheduler's address option: ``interface`` or ``host``.

    The profile's interface, if set. Otherwise loopback if all nodes of the pools are this machine, or else
    the address from which this machine reaches the first node.

    Parameters
    ----------
    nodes
        SLURM's nodes.

    Raises
    ------
    PrerequisiteError
        If the profile's interface does not exist, or the nodes are unreachable.
    """
    if profile.scheduler_interface:
        interfaces = [name for _, name in socket.if_nameindex()]
        if profile.scheduler_interface not in interfaces:
            raise PrerequisiteError(
                f"scheduler_interface: no {profile.scheduler_interface!r} on this machine, only "
                f"{', '.join(interfaces)}"
            )
        return {"interface": profile.scheduler_interface}
    partitions = {name for pool in profile.pools.values() for name in pool.partitions}
    ours = [node for node in nodes if partitions & set(node.partitions)]
    if not ours or all(is_this_machine(node) for node in ours):
        return {"host": LOOPBACK}
    return {"host": _address_towards(next(node.address for node in ours if not is_this_machine(node)))}


def address_of(options: Mapping[str, str]) -> str:
    """Return the address of a scheduler with these options.

    Raises
    ------
    ValueError
        If the interface has no IPv4 address.
    """
    return options.get("host") or str(get_ip_interface(options["interface"]))  # type: ignore[no-untyped-call]


def is_this_machine(node: Node) -> bool:
    """Return whether a SLURM node is this machine."""
    return node.host.split(".")[0] == socket.gethostname().split(".")[0] or is_loopback(node.address)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_prefect_server(profile: Profile, options: Mapping[str, str]) -> None:
    """Raise PrerequisiteError if workers can reach the scheduler but not the Prefect server.

    Parameters
    ----------
    options
        Result of :func:`scheduler_options`.
    """
    url = profile.prefect_api_url or os.environ.get("PREFECT_API_URL")
    server = urlsplit(url).hostname if url else None
    scheduler = address_of(options)
    if server is not None and is_loopback(server) and not is_loopback(scheduler):
        raise PrerequisiteError(
            f"the Prefect server at {url} listens on this machine only, so the nodes cannot reach "
            "it: start one that listens on the network and set prefect_api_url in the profile"
        )


def _address_towards(node: str) -> str:
    """Return this machine's address on the route to a node; nothing is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((node, 9))
            return str(probe.getsockname()[0])
    except OSError as problem:
        raise PrerequisiteError(
            f"this machine has no route to node {node} ({problem.strerror}): set scheduler_interface in the "
            "profile to a network interface that the nodes can reach"
        ) from problem
