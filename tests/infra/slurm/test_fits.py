from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from infra.pool import Pool
from infra.profile import Profile
from infra.slurm.commands import Node, Partition
from infra.slurm.profile_check import check_profile_fits, fitting, gres_count, takes_jobs, walltime_text

HOUR = 3600
PARTITIONS = [
    Partition("cpu", True, 48 * HOUR),
    Partition("h100", True, 24 * HOUR),
    Partition("debug", False, HOUR),
    Partition("free", True, None),
    Partition("empty", True, None),
]


def node(name: str, partition: str, **changes: Any) -> Node:
    plain = Node(name, "host", "127.0.0.1", "idle", 4, 8000, "", (), (partition, "free"))
    return replace(plain, **changes)


NODES = [
    node("c1", "cpu", features=("icelake", "nvme")),
    node("c2", "cpu", cpus=8, memory_mib=4000, features=("sapphire",)),
    node("g1", "h100", gres="gpu:h100:2(S:0-1)"),
    node("g2", "h100", gres="gpu:a100:4"),
    node("d1", "debug"),
]
CPU = {"partition": "cpu", "cores": 2, "memory": "2GiB", "walltime": "01:00:00"}
GPU = {**CPU, "partition": "h100", "gpus": 1}


def problems(cpu: dict[str, Any], gpu: dict[str, Any] | None = None) -> list[str]:
    pools = {"cpu": CPU | cpu} if gpu is None else {"cpu": CPU | cpu, "h100": GPU | gpu}
    profile = Profile.model_validate({"pools": pools})
    profile._file = Path("site.toml")
    return check_profile_fits(profile, PARTITIONS, NODES)


def test_a_profile_that_fits() -> None:
    assert problems({}, {}) == []
    assert problems({"partition": "free", "walltime": "30-00:00:00", "constraint": "nvme"}, {"gpus": 2}) == []
    assert problems({"constraint": "icelake&nvme"}) == []
    # of several partitions any will do
    assert problems({"partition": ["debug", "cpu"], "walltime": "02:00:00", "constraint": "nvme"}) == []
    assert [node.name for node in fitting(Pool.model_validate(CPU | {"partition": "cpu,debug"}), NODES)] == [
        *("c1", "c2", "d1")
    ]
    # what SLURM alone understands is left to it
    assert problems({"constraint": "(icelake|sapphire)&nvme"}) == []
    assert problems({"constraint": "[icelake*1&sapphire*1]"}) == []


BOTH = (
    "partition: no node of partition 'cpu' has everything the pool requests at once. "
    "Its nodes: 4 cores, 8000 MiB, icelake nvme; 8 cores, 4000 MiB, sapphire"
)
OF_CPU: list[tuple[dict[str, Any], str]] = [
    (
        {"partition": "cpu,cpus"},
        "partition: no partition 'cpus'. Did you mean 'cpu'? Partitions: cpu, h100, debug, free, empty",
    ),
    (
        {"partition": "cpu,h100", "walltime": "3-00:00:00"},
        "walltime: 3-00:00:00 is more than partition 'cpu,h100' allows, 2-00:00:00",
    ),
    (
        {"partition": "cpus"},
        "partition: no partition 'cpus'. Did you mean 'cpu'? Partitions: cpu, h100, debug, free, empty",
    ),
    ({"partition": "empty"}, "partition: partition 'empty' has no nodes"),
    (
        {"partition": "debug"},
        "partition: partition 'debug' accepts no jobs now: `sinfo -s` shows which do",
    ),
    ({"walltime": "3-00:00:00"}, "walltime: 3-00:00:00 is more than partition 'cpu' allows, 2-00:00:00"),
    ({"cores": 9}, "cores: no node of partition 'cpu' has 9 cores; the maximum is 8"),
    (
        {"memory": "8GiB"},
        "memory: no node of partition 'cpu' has 8GiB (8192 MiB); the maximum is '8000MiB'",
    ),
    (
        {"constraint": "sapphir"},
        "constraint: no node of partition 'cpu' has the feature 'sapphir'. "
        "Did you mean 'sapphire'? Features there: icelake, nvme, sapphire",
    ),
    # each has a node, no node has both
    ({"cores": 8, "memory": "6GiB"}, BOTH),
    ({"constraint": "sapphire&nvme"}, BOTH),
]
OF_H100: list[tuple[dict[str, Any], str]] = [
    ({"gpus": 3, "cores": 3}, "gpus: no node of partition 'h100' has 3 of 'gpu:h100'; the maximum is 2"),
    (
        {"gres": "gpu:h1000"},
        "gres: no node of partition 'h100' has 'gpu:h1000'. Did you mean 'gpu:h100'? "
        "its nodes have: gpu:a100, gpu:h100",
    ),
    (
        {"partition": "cpu"},
        "gres: no node of partition 'cpu' has 'gpu:h100'. its nodes have none: choose another partition",
    ),
]


def test_what_does_not_fit_names_file_key_and_choices() -> None:
    for given, message in OF_CPU:
        assert problems(given) == [f"profile site.toml: pools.cpu.{message}"]
    for given, message in OF_H100:
        assert problems({}, given) == [f"profile site.toml: pools.h100.{message}"]


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    result = problems({"cores": 9, "walltime": "9-00:00:00"}, {"gres": "gpu:b200"})
    assert [line.split(": ")[1] for line in result] == [
        "pools.cpu.walltime",
        "pools.cpu.cores",
        "pools.h100.gres",
    ]


def test_nodes_on_which_a_job_fits() -> None:
    for asked, names in (
        (GPU | {"gres": "gpu:h100"}, ["g1"]),
        (GPU | {"gres": "gpu", "gpus": 2}, ["g1", "g2"]),
        (CPU | {"constraint": "nvme"}, ["c1"]),
    ):
        assert [one.name for one in fitting(Pool.model_validate(asked), NODES)] == names


def test_gpus_are_counted_in_each_spelling() -> None:
    for has, any_gpu, h100 in (
        ("", 0, 0),
        ("gpu:2", 2, 0),
        ("gpu", 1, 0),
        ("gpu:h100", 1, 1),
        ("gpu:h100:4(S:0,2),gpu:a100:2,nvme:1", 6, 4),
    ):
        assert (gres_count(has, "gpu"), gres_count(has, "gpu:h100")) == (any_gpu, h100)


def test_states_in_which_a_node_takes_jobs() -> None:
    def taking(state: str) -> bool:
        return takes_jobs(node("n", "cpu", state=state))

    assert all(taking(state) for state in ("idle", "mixed", "allocated", "completing", "idle~", "idle#"))
    assert not any(
        taking(state)
        for state in ("down", "down*", "idle*", "drained", "draining", "inval", "maint", "reserved")
    )
    ours = Pool.model_validate(CPU | {"reservation": "course"})
    assert takes_jobs(node("n", "cpu", state="reserved"), ours)
    assert not takes_jobs(node("n", "cpu", state="reserved*"), ours)


def test_times_are_shown_as_slurm_writes_them() -> None:
    assert (walltime_text(60), walltime_text(90061)) == ("00:01:00", "1-01:01:01")
