"""The checks of ``slvmeval doctor`` that run on the compute nodes: a short job on each kind of node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infra.pool import Pool
from infra.profile import Profile
from infra.slurm.commands import Node
from infra.slurm.node_calls import NodeAnswer
from infra.slurm.probe import probe_nodes
from infra.slurm.profile_check import described, fitting, takes_jobs
from infra.slurm.run_folder import log_folder
from slvmeval.cli.doctor.finding import CheckVerdict, Finding, existing, one_line, store_path
from storage_schemas.first_of_many import first_names

#: Number of nodes that a message names.
_NAMED = 3
#: Modules needed by the work; broken ones are found on a node before anything is queued.
MODULES = ("numpy", "av", "cv2", "zarr", "onnxruntime", "prefect", "tasks.pairs.stages", "infra.slurm.worker")


def check_nodes(
    site: Profile, pools: Sequence[str], nodes: Sequence[Node], address: str, wait_s: float, per_kind: int = 1
) -> list[Finding]:
    """Have a job on each kind of node of some pools do the checks of a worker, and report what it finds.

    Parameters
    ----------
    nodes
        All nodes of the cluster.
    address
        Address at which workers would reach this machine.
    wait_s
        Seconds that the jobs may wait for a node.
    per_kind
        Number of nodes of each kind on which one runs.
    """
    chosen = {name: _chosen(site.pools[name], nodes, per_kind) for name in pools}
    probes = [(name, node.name) for name, (some, _) in chosen.items() for node in some]
    store = store_path(site)
    weights = [path for folder in site.model_folders if (path := Path(folder).expanduser()).is_dir()]
    try:
        answers = probe_nodes(
            site,
            probes,
            store,
            existing(store),
            address,
            modules=MODULES,
            readable=[path.resolve() for path in weights],
            writable=[existing(log_folder(site, store))],
            wait_s=wait_s,
            poll_s=max(1.0, min(site.poll_s, 5.0)),
        )
    except OSError as problem:
        return [Finding("nodes", CheckVerdict.FAIL, f"probe jobs could not be submitted: {problem}")]
    findings = []
    for (name, node), answer in zip(probes, answers, strict=True):
        findings += node_findings(site, name, node, answer)
    for name, (_, unseen) in chosen.items():
        findings += [Finding(f"node of {name}", CheckVerdict.UNSEEN, message) for message in unseen]
    return findings


def _chosen(pool: Pool, nodes: Sequence[Node], per_kind: int) -> tuple[list[Node], list[str]]:
    """Return the nodes to probe, and a message for each kind of node that none can be probed of."""
    kinds: dict[str, list[Node]] = {}
    for node in fitting(pool, nodes):
        kinds.setdefault(described(node), []).append(node)
    chosen, unseen = [], []
    for kind, some in kinds.items():
        ready = [node for node in some if takes_jobs(node, pool)]
        chosen += ready[:per_kind]
        if not ready:
            states = first_names([f"{node.name} {node.state}" for node in some], _NAMED)
            unseen.append(f"no node with {kind} takes jobs now ({states}): none was checked")
    return chosen, unseen


def node_findings(site: Profile, pool: str, node: str, came: NodeAnswer) -> list[Finding]:
    """Return the findings of the checks on a node of a pool."""
    what = f"node of {pool}"
    found = came.answer
    if found is None:
        verdict = CheckVerdict.UNSEEN if came.waited else CheckVerdict.FAIL
        return [Finding(what, verdict, f"{node} was not checked: {one_line(came.problem)}")]
    node, no_gpu = found["node"], found["gpu_problems"]
    problems = [*found["problems"], *(() if site.allow_cpu_models else no_gpu)]
    if problems:
        return [Finding(what, CheckVerdict.FAIL, f"{node}: {problem}") for problem in problems]
    device = f", {found['gpus'][0]}" if found["gpus"] else ""
    good = f"{node}: Python {found['python']}, the same store and versions{device}, reaches this machine"
    return [
        Finding(what, CheckVerdict.OK, good),
        *(Finding(what, CheckVerdict.WARN, f"{node}: {problem}") for problem in no_gpu),
    ]
