"""The scheduler listens where the nodes reach it, and no wider than that."""

from __future__ import annotations

import socket

import psutil
import pytest

from infra.pool import Pool
from infra.profile import Profile
from infra.slurm.addresses import check_prefect_server, is_loopback, scheduler_options
from infra.slurm.commands import Node
from storage_schemas.errors import PrerequisiteError

CPU = Pool(partition="cpu", cores=1, memory="1GiB", walltime="01:00:00")


def profile(**fields: object) -> Profile:
    return Profile.model_validate({"pools": {"cpu": CPU}, **fields})


def node(name: str, address: str, host: str = "", partition: str = "cpu") -> Node:
    return Node(name, host or name, address, "idle", 4, 8000, "", (), (partition,))


def test_loopback_if_all_nodes_are_this_machine() -> None:
    here = socket.gethostname()
    nodes = [
        node("c1", "127.0.0.1"),
        node("c2", "192.0.2.7", here),
        node("x", "192.0.2.9", partition="other"),
    ]
    assert scheduler_options(profile(), nodes) == {"host": "127.0.0.1"}


def test_else_the_address_with_which_nodes_are_reached() -> None:
    ours = [
        a.address for group in psutil.net_if_addrs().values() for a in group if a.family == socket.AF_INET
    ]
    outside = [address for address in ours if not is_loopback(address)]
    if not outside:
        pytest.skip("this machine has no address but loopback")
    nodes = [node("c1", "127.0.0.1"), node("c2", outside[0])]
    assert scheduler_options(profile(), nodes) == {"host": outside[0]}


def test_a_node_that_nobody_knows_is_named() -> None:
    with pytest.raises(
        PrerequisiteError, match=r"no route to node no-such-node\.invalid .*scheduler_interface"
    ):
        scheduler_options(profile(), [node("c1", "no-such-node.invalid")])


def test_the_profiles_interface_or_what_there_is() -> None:
    assert scheduler_options(profile(scheduler_interface="lo"), []) == {"interface": "lo"}
    with pytest.raises(PrerequisiteError, match="no 'ib7' on this machine, only lo"):
        scheduler_options(profile(scheduler_interface="ib7"), [])


def test_a_prefect_server_that_only_we_reach_is_not_use_to_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    check_prefect_server(profile(), {"host": "127.0.0.1"})
    check_prefect_server(profile(scheduler_interface="lo"), {"interface": "lo"})
    check_prefect_server(profile(prefect_api_url="http://head:4200/api"), {"host": "192.0.2.7"})
    with pytest.raises(PrerequisiteError, match="prefect_api_url"):
        check_prefect_server(profile(), {"host": "192.0.2.7"})
    monkeypatch.delenv("PREFECT_API_URL")
    check_prefect_server(profile(), {"host": "192.0.2.7"})
