"""The names of our flows and of those that installed packages add.

A package adds a flow by an entry point in the group ``slvmeval.flows``. Its name is the flow's and its
deployment's; its value is ``module:flow``, the result of :func:`flows.shell.deployed`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint

from infra.prefect_server import FLOW_NAMES
from tasks.plugins import added_points

#: Entry-point group of the flows.
GROUP = "slvmeval.flows"


def added_flows() -> dict[str, EntryPoint]:
    """Return the flows of installed packages by name; nothing is imported."""
    return added_points(GROUP, FLOW_NAMES, "flow")


def flow_names() -> tuple[str, ...]:
    """Return the names of all flows; nothing is imported."""
    return (*FLOW_NAMES, *added_flows())
