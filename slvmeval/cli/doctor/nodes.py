"""The checks of ``slvmeval doctor`` that run on the compute nodes: a short job on each kind of node."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.pool import Pool
from infra.profile import Profile
from infra.slurm.commands import Node
from infra.slurm.node_calls import NodeAnswer, NodeProgram, run_on_nodes
from infra.slurm.probe import RUN_S, listening, report_program
from infra.slurm.profile_check import described, fitting, takes_jobs
from infra.slurm.run_folder import RunFile, log_folder, versions
from infra.tls import Credentials, credential_files
from slvmeval.cli.doctor.finding import CheckVerdict, Finding, existing, one_line, store_path
from storage_schemas.commit import write_atomic
from storage_schemas.first_of_many import first_names

#: Number of nodes that a message names.
_NAMED = 3
#: Modules that the work needs, tested on a node before anything is queued.
MODULES = ("numpy", "av", "cv2", "zarr", "onnxruntime", "prefect", "tasks.pairs.stages", "infra.slurm.worker")


def check_nodes(
    site: Profile, pools: Sequence[str], nodes: Sequence[Node], address: str, wait_s: float, per_kind: int = 1
) -> list[Finding]:
    """Run a worker's checks as a job on each kind of node of some pools, and report the results.

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
    try:
        answers = _probe(site, probes, address, wait_s)
    except OSError as problem:
        return [Finding("nodes", CheckVerdict.FAIL, f"probe jobs could not be submitted: {problem}")]
    findings = []
    for (name, node), answer in zip(probes, answers, strict=True):
        findings += node_findings(site, name, node, answer)
    for name, (_, unseen) in chosen.items():
        findings += [Finding(f"node of {name}", CheckVerdict.UNSEEN, message) for message in unseen]
    return findings


def _probe(site: Profile, probes: Sequence[tuple[str, str]], address: str, wait_s: float) -> list[NodeAnswer]:
    """Check nodes of pools as workers do, with everything else that a build uses; nothing is left behind.

    Raises
    ------
    OSError
        If the store cannot be written, or this machine does not have that address.
    """
    store, mark = store_path(site), secrets.token_hex(4)
    weights = [path for folder in site.model_folders if (path := Path(folder).expanduser()).is_dir()]
    with (
        tempfile.TemporaryDirectory(prefix=".slvmeval-doctor-", dir=existing(store)) as name,
        listening(address) as (port, secret),
    ):
        run = Path(name)
        files = credential_files(run)
        # as in a run: files that only this user can read, and the mark that identifies its store
        Credentials("", "").write(run)
        run_file = RunFile(scheduler=mark, versions=versions())
        write_atomic(run / "run.json", run_file.model_dump_json().encode())
        # detects nodes that run jobs under another identity on the file system
        run.chmod(0o755)
        request = {
            "profile": site.label,
            "store": str(existing(store)),
            "run_file": str(run / "run.json"),
            "scheduler": mark,
            "credentials": [files.certificate, files.key],
            "readable": [str(path.resolve()) for path in weights],
            "writable": [str(existing(log_folder(site, store)))],
            "versions": versions(),
            "modules": MODULES,
            "driver": [address, port],
            "secret": secret,
        }
        programs = [
            NodeProgram(
                pool,
                f"doctor-{mark}-{number}",
                ("-",),
                report_program({**request, **_of_pool(site, pool)}),
                run / f"{number}.log",
                node,
                needs_temporary_folder=False,
            )
            for number, (pool, node) in enumerate(probes)
        ]
        poll_s = max(1.0, min(site.poll_s, 5.0))
        return run_on_nodes(site, programs, store, wait_s=wait_s, run_s=RUN_S, poll_s=poll_s)


def _of_pool(site: Profile, name: str) -> dict[str, Any]:
    pool = site.pools[name]
    return {"pool": name, "gpus": pool.gpus, "interface": pool.interface}


def _chosen(pool: Pool, nodes: Sequence[Node], per_kind: int) -> tuple[list[Node], list[str]]:
    """Return the nodes to probe, and a message for each kind of node without one that can be probed."""
    kinds: dict[str, list[Node]] = {}
    for node in fitting(pool, nodes):
        kinds.setdefault(described(node), []).append(node)
    chosen, unseen = [], []
    for kind, some in kinds.items():
        ready = [node for node in some if takes_jobs(node, pool)]
        chosen += ready[:per_kind]
        if not ready:
            states = first_names([f"{node.name} {node.state}" for node in some], _NAMED)
            unseen.append(f"no node with {kind} accepts jobs now ({states}): none was checked")
    return chosen, unseen


def node_findings(site: Profile, pool: str, node: str, came: NodeAnswer) -> list[Finding]:
    """Return the findings of the checks on a node of a pool."""
    what = f"node of {pool}"
    found = came.answer
    if found is None:
        verdict = CheckVerdict.UNSEEN if came.waited else CheckVerdict.FAIL
        return [Finding(what, verdict, f"{node} was not checked: {one_line(came.problem)}")]
    node, no_gpu = found["node"], found["gpu_problems"]
    gpu_verdict = CheckVerdict.WARN if site.allow_cpu_models else CheckVerdict.FAIL
    without_gpu = [Finding(what, gpu_verdict, f"{node}: {problem}") for problem in no_gpu]
    problems = [Finding(what, CheckVerdict.FAIL, f"{node}: {problem}") for problem in found["problems"]]
    if problems or (no_gpu and not site.allow_cpu_models):
        return [*problems, *without_gpu]
    device = f", {found['gpus'][0]}" if found["gpus"] else ""
    good = f"{node}: Python {found['python']}, the same store and versions{device}, reaches this machine"
    return [Finding(what, CheckVerdict.OK, good), *without_gpu]
