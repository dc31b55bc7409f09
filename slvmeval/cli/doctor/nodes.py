"""The checks of ``slvmeval doctor`` that run on the compute nodes: a short job on each kind of node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.pool import Pool
from infra.profile import Profile
from infra.slurm.commands import Node
from infra.slurm.probe import Probe, Probed, probe_pools
from infra.slurm.profile_check import described, fitting, takes_jobs
from infra.slurm.run_folder import SAME_VERSIONS, log_folder, versions
from infra.slurm.waiting import is_unknown, lasting_wait
from slvmeval.cli.doctor.finding import CheckVerdict, Finding, existing, one_line, store_path
from storage_schemas.first_of_many import first_names

#: Number of nodes that a message names.
_NAMED = 3
#: Modules needed by the work; broken ones are found on a node before anything is queued.
MODULES = ("numpy", "av", "cv2", "zarr", "onnxruntime", "prefect", "tasks.pairs.stages", "infra.slurm.worker")


def check_nodes(
    site: Profile,
    where: str,
    scripts: Mapping[str, str],
    nodes: Sequence[Node],
    address: str,
    wait_s: float,
    per_kind: int = 1,
) -> list[Finding]:
    """Run a probe job on each kind of node of each pool, and report what the nodes see.

    Parameters
    ----------
    scripts
        The workers' job scripts by pool.
    nodes
        All nodes of the cluster.
    address
        Address at which workers would reach this machine.
    wait_s
        Seconds that the jobs may wait for a node.
    per_kind
        Number of nodes of each kind to probe.
    """
    chosen = {name: _chosen(site.pools[name], nodes, per_kind) for name in scripts}
    probes = [Probe(name, scripts[name], node.name) for name, (some, _) in chosen.items() for node in some]
    store = existing(store_path(site))
    weights = [path for folder in site.model_folders if (path := Path(folder).expanduser()).is_dir()]
    try:
        probed = probe_pools(
            site,
            probes,
            store,
            address,
            distributions=SAME_VERSIONS,
            modules=MODULES,
            readable=[path.resolve() for path in weights],
            writable=[store, existing(log_folder(site, store_path(site)))],
            wait_s=wait_s,
            poll_s=max(1.0, min(site.poll_s, 5.0)),
        )
    except OSError as problem:
        return [Finding("nodes", CheckVerdict.FAIL, f"probe jobs could not be submitted: {problem}")]
    findings = []
    for probe, result in zip(probes, probed, strict=True):
        findings += node_findings(site, where, probe.pool, result, store)
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


def node_findings(site: Profile, where: str, name: str, probed: Probed, store: Path) -> list[Finding]:
    """Return the findings of a pool's probe.

    Parameters
    ----------
    where
        The profile's name in messages.
    name
        The pool.
    probed
        The result of the probe.
    store
        The folder that node and driver should share.
    """
    what = f"node of {name}"
    answer = probed.answer
    if answer is None:
        return [Finding(what, *_no_answer(probed, name, where, store))]
    pool = site.pools[name]
    node, keys = answer["node"], f"pools.{name}"
    problems = [
        *_folder_problems(answer, probed.token, where, store),
        *_software_problems(answer, f"look at {keys}.python and {keys}.setup in {where}"),
        *_network_problems(answer, keys, where),
    ]
    if answer["scratch_error"]:
        problems.append(f"scratch {answer['scratch_error']}: change {keys}.scratch in {where}")
    gpu = _gpu_problem(pool, answer, f"look at {keys}.gres and {keys}.gpus in {where}")
    if gpu and not site.allow_cpu_models:
        problems.append(gpu)
    if problems:
        return [Finding(what, CheckVerdict.FAIL, f"{node}: {problem}") for problem in problems]
    devices = answer["gpus"]["seen"] or [f"GPU {number}" for number in answer["gpus"]["given"]]
    device = f", {devices[0]}" if pool.gpus and devices else ""
    good = f"{node}: Python {answer['python']}, the same store and versions{device}, reaches this machine"
    allowed = f"{node}: {gpu}; workers run without it, as allow_cpu_models is set"
    return [
        Finding(what, CheckVerdict.OK, good),
        *([Finding(what, CheckVerdict.WARN, allowed)] if gpu else []),
    ]


def _no_answer(probed: Probed, name: str, where: str, store: Path) -> tuple[CheckVerdict, str]:
    job = probed.job
    if job is not None and job.pending:
        lasting = lasting_wait(job.reason)
        if lasting is not None:
            keys = ", ".join(f"pools.{name}.{key}" for key in lasting.keys)
            look = f"; look at {keys} in {where}" if keys else ""
            return CheckVerdict.FAIL, (
                f"{probed.node}: the probe job would never start by itself ({job.reason}): "
                f"{lasting.remedy}{look}"
            )
        if is_unknown(job.reason):
            return CheckVerdict.UNSEEN, (
                f"{probed.node} was not checked: the probe job waits, and SLURM says: {job.reason}. If that "
                f"does not end by itself, change pools.{name} in {where}"
            )
        why = f" ({job.reason})" if job.reason else ""
        return CheckVerdict.UNSEEN, (
            f"{probed.node} was not checked: the probe job was still waiting{why} and was cancelled; try "
            "again later or with a longer --set max_wait=…"
        )
    if job is not None and job.there:
        return (
            CheckVerdict.FAIL,
            f"the probe job ran on {job.node} and did not report in time: check that node",
        )
    if probed.log:
        return CheckVerdict.FAIL, (
            f"the probe job reported: {one_line(probed.log)}: look at python and setup of "
            f"pools.{name} in {where}"
        )
    ended = f" ({job.state} on {job.node or 'no node'})" if job is not None else ""
    return CheckVerdict.FAIL, (
        f"the probe job ended{ended}, and its report did not reach {store}: nodes do not see that "
        "folder; put "
        f"the store on a file system that they share (store in {where})"
    )


def _folder_problems(answer: Mapping[str, Any], token: str, where: str, store: Path) -> Iterator[str]:
    if answer["token"] != token:
        yield (
            f"{store} does not exist there, or is a different folder: put the store on a file "
            "system that all "
            f"nodes share (store in {where})"
        )
        return
    for folder, problem in answer["folder_errors"].items():
        if problem:
            yield (
                f"{folder} {problem}: put it on a file system that all nodes share "
                f"(store, model_folders, job_logs in {where})"
            )


def _software_problems(answer: Mapping[str, Any], advice: str) -> Iterator[str]:
    node_versions = {"python": ".".join(answer["python"].split(".")[:2]), **answer["versions"]}
    other = [
        f"{name} {node_versions.get(name) or 'missing'} (here {wanted})"
        for name, wanted in versions().items()
        if node_versions.get(name) != wanted
    ]
    if other:
        yield f"different versions: {', '.join(other)}; its Python is {answer['executable']}: {advice}"
    if answer["import_errors"]:
        problems = "; ".join(f"{name}: {problem}" for name, problem in answer["import_errors"].items())
        yield f"cannot import {problems}: {advice}"


def _network_problems(answer: Mapping[str, Any], keys: str, where: str) -> Iterator[str]:
    if answer["driver_error"]:
        yield (
            f"cannot connect to this machine ({answer['driver_error']}): name an interface that "
            "nodes reach as "
            f"scheduler_interface in {where}, or run builds on a machine that they reach"
        )
    if answer["worker_error"]:
        yield (
            f"this machine cannot connect to a worker there ({answer['worker_error']}): change "
            f"{keys}.interface in "
            f"{where}. Its interfaces: {', '.join(answer['interfaces'])}"
        )


def _gpu_problem(pool: Pool, answer: Mapping[str, Any], advice: str) -> str | None:
    given, seen = answer["gpus"]["given"], answer["gpus"]["seen"]
    if not pool.gpus or len(seen or ()) >= pool.gpus:
        return None
    if len(given) < pool.gpus:
        return f"SLURM gave the job {len(given)} GPUs of {pool.gpus}: {advice}"
    why = (
        "neither nvidia-smi nor torch is available to list it" if seen is None else "its driver shows no GPU"
    )
    return f"SLURM gave the job GPU {','.join(given)}, but {why}"
