"""The checks of ``slvmeval doctor`` for a profile with worker pools against this machine's SLURM."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from infra.profile import Profile
from slvmeval.cli.doctor.finding import CheckVerdict, Finding, existing, one_line, store_path
from storage_schemas.errors import PrerequisiteError, SlvmevalError, UserInputError

if TYPE_CHECKING:
    from infra.slurm.commands import Node, Partition

#: Other job systems, by their submit command.
OTHER_SYSTEMS = {
    "pjsub": "Fujitsu's job manager (pjsub)",
    "qsub": "PBS or Grid Engine (qsub)",
    "bsub": "LSF (bsub)",
}
#: Parts of sbatch's error messages, and the pool keys they concern.
_KEYS_OF = (
    ("account", ("account", "partition")),
    ("qos", ("qos",)),
    ("time limit", ("walltime",)),
    ("feature", ("constraint",)),
    ("gres", ("gres", "gpus")),
    ("partition", ("partition", "account")),
    ("node configuration", ("cores", "memory", "gres", "constraint", "directives")),
    ("limit", ("qos", "maximum")),
)
#: Placeholder in scripts for values known only to a build.
RUN, ADDRESS, PORT = "RUN", "ADDRESS", "PORT"


def check_cluster(
    site: Profile, *, probe: bool = True, wait_s: float = 120.0, per_kind: int = 1
) -> list[Finding]:
    """Check the pools of a profile, if it has any.

    Parameters
    ----------
    probe
        Run a short job on nodes of each pool.
    wait_s
        Seconds that these jobs may wait for a node.
    per_kind
        Number of nodes of each kind on which one runs.
    """
    if not site.pools:
        return []
    slurm = ask_slurm(site)
    if isinstance(slurm, Finding):
        return [slurm, *check_job_logs(site)]
    partitions, nodes = slurm
    names = ", ".join(partition.name for partition in partitions)
    findings = [Finding("slurm", CheckVerdict.OK, f"answers: {len(nodes)} nodes, partitions {names}")]
    fit = {}
    for name in site.pools:
        pool_findings = check_pool(site, name, partitions, nodes)
        findings += pool_findings
        fit[str(name)] = pool_findings[0].verdict
    findings += check_job_logs(site)
    address, address_finding = scheduler_address(site, nodes)
    accepted, script_findings = check_scripts(site, address or ADDRESS, fit)
    findings += [address_finding, *script_findings]
    if probe and address is not None and accepted:
        from slvmeval.cli.doctor.nodes import check_nodes

        return [*findings, *check_nodes(site, accepted, nodes, address, wait_s, per_kind)]
    why = "after fixing the rest" if probe else "without --set probe_nodes=0"
    return [
        *findings,
        Finding("nodes", CheckVerdict.UNSEEN, f"the nodes were not checked: run this again {why}"),
    ]


def ask_slurm(site: Profile) -> tuple[list[Partition], list[Node]] | Finding:
    """Return what SLURM offers, or why it does not respond."""
    from infra.slurm import commands

    if shutil.which("sbatch") is None:
        return Finding("slurm", CheckVerdict.FAIL, _no_sbatch(site))
    try:
        return commands.partitions(), commands.nodes()
    except SlvmevalError as problem:
        message = one_line(str(problem))
        return Finding(
            "slurm", CheckVerdict.FAIL, f"{message}: is its controller up, and is SLURM_CONF right?"
        )


def check_pool(
    site: Profile, name: str, partitions: Sequence[Partition], nodes: Sequence[Node]
) -> list[Finding]:
    """Check that SLURM can serve a pool's jobs."""
    from infra.slurm.profile_check import fitting, pool_misfits, takes_jobs

    what, pool = f"pool {name}", site.pools[name]
    problems = pool_misfits(site, name, partitions, nodes)
    if problems:
        return [Finding(what, CheckVerdict.FAIL, problem) for problem in problems]
    matching = fitting(pool, nodes)
    gpus = f", gpus {pool.gpus} x {pool.gres}" if pool.gpus else ""
    fit = (
        f"up to {pool.maximum} jobs (cores {pool.cores}, memory {pool.memory}{gpus}, time {pool.walltime}); "
        f"each fits {len(matching)} nodes of partition {pool.partition}"
    )
    if any(takes_jobs(node, pool) for node in matching):
        return [Finding(what, CheckVerdict.OK, fit)]
    states = ", ".join(sorted({node.state for node in matching}))
    return [
        Finding(
            what, CheckVerdict.WARN, f"{fit}, but none of them accepts jobs now ({states}): jobs will wait"
        )
    ]


def _no_sbatch(site: Profile) -> str:
    others = [name for command, name in OTHER_SYSTEMS.items() if shutil.which(command)]
    other = f" This site seems to use {others[0]}, which slvmeval does not support." if others else ""
    return (
        "there is no sbatch here: run this on a machine where jobs are submitted to SLURM, or remove the "
        f"tables [pools] from {site.label} to build on this machine.{other}"
    )


def check_job_logs(site: Profile) -> Iterator[Finding]:
    """Check that the folder of the job logs is writable."""
    from infra.slurm.run_folder import log_folder

    folder = log_folder(site, store_path(site))
    parent = existing(folder)
    try:
        with tempfile.TemporaryFile(dir=parent):
            yield Finding("job logs", CheckVerdict.OK, str(folder))
    except OSError as problem:
        yield Finding(
            "job logs",
            CheckVerdict.FAIL,
            f"{parent} cannot be written ({problem.strerror}): choose another folder as job_logs in "
            f"{site.label}",
        )


def scheduler_address(site: Profile, nodes: Sequence[Node]) -> tuple[str | None, Finding]:
    """Return the address at which workers reach this machine, with a finding about it."""
    from infra.slurm.addresses import address_of, check_prefect_server, scheduler_options

    try:
        options = scheduler_options(site, nodes)
        address = address_of(options)
        check_prefect_server(site, options)
    except PrerequisiteError as problem:
        return None, Finding("scheduler", CheckVerdict.FAIL, f"{site.label}: {problem}")
    except ValueError:
        message = f"{site.label}: scheduler_interface: {site.scheduler_interface!r} has no IPv4 address here"
        return None, Finding("scheduler", CheckVerdict.FAIL, message)
    how = (
        f"interface {site.scheduler_interface}"
        if site.scheduler_interface
        else "scheduler_interface names another"
    )
    return address, Finding(
        "scheduler", CheckVerdict.OK, f"workers connect to this machine at {address} ({how})"
    )


def check_scripts(
    site: Profile, address: str, fit: Mapping[str, CheckVerdict]
) -> tuple[list[str], list[Finding]]:
    """Return the pools that fit and whose job scripts SLURM accepts, with findings.

    Parameters
    ----------
    fit
        For each pool, whether it fits; WARN if it fits only nodes that accept no jobs now.
    """
    from infra.slurm import commands

    accepted: list[str] = []
    findings = []
    for name in site.pools:
        try:
            script = script_of(site, name, address)
            if fit[name] is CheckVerdict.OK:
                commands.check(script)
        except UserInputError as problem:
            findings.append(Finding(f"script {name}", CheckVerdict.FAIL, f"{site.label}: {problem}"))
        except SlvmevalError as problem:
            message = one_line(str(problem))
            findings.append(
                Finding(f"script {name}", CheckVerdict.FAIL, f"{message}: {_keys(message, site, name)}")
            )
        else:
            if fit[name] is CheckVerdict.OK:
                findings.append(Finding(f"script {name}", CheckVerdict.OK, "sbatch --test-only accepts it"))
            if fit[name] is not CheckVerdict.FAIL:
                # --test-only rejects jobs that fit but have to wait for a node to come back
                accepted.append(name)
    return accepted, findings


def script_of(site: Profile, pool: str, address: str) -> str:
    """Return a pool's job script as a build writes it, except for the run's name and port."""
    from flows.prefect_executor import PRELOAD
    from infra.slurm.job_script import job_script

    return job_script(
        site,
        pool,
        run=RUN,
        index=0,
        scheduler=f"tls://{address}:{PORT}",
        store=store_path(site),
        preload=PRELOAD,
    )


def _keys(refusal: str, site: Profile, pool: str) -> str:
    """Return the pool keys that an sbatch error refers to."""
    keys = next((keys for word, keys in _KEYS_OF if word in refusal.lower()), ("directives",))
    return f"look at {', '.join(f'pools.{pool}.{key}' for key in keys)} in {site.label}"
