#!/usr/bin/env python3
"""A real Slurm on this machine: virtual nodes in the partitions `cpu` and `h100`, the latter with GPUs.

For tests and experiments. All its files are in one folder; its daemons listen on loopback only. It uses
Debian's packages slurmctld slurmd slurm-client munge, and needs root.

    eval "$(python slurm/one_machine.py start build/slurm)"     start it and set SLURM_CONF in this shell
    sbatch -p h100 --gres=gpu:h100:1 --mem=500 --wrap 'echo $CUDA_VISIBLE_DEVICES'
    python slurm/one_machine.py status build/slurm        show its daemons, nodes and jobs
    python slurm/one_machine.py restart build/slurm slurmctld   kill a daemon, or slurmd-c1, and restart it
    python slurm/one_machine.py stop build/slurm                end all jobs and daemons

The GPUs are fake: each is a clone of the null device, which suffices for Slurm. The shortest time limit of a
job is one minute, checked about every 30 seconds. The folder log/ has the daemons' logs; log/jobs.txt has a
line per ended job.

Exit code 0: done. 1: failed, with the reason. 2: wrong usage. 3: this machine cannot run it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PACKAGES = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sinfo": "slurm-client"}
#: Below the ports that the system assigns to outgoing connections.
PORTS = range(20_000, 32_000)
LOOPBACK = "127.0.0.1"
MAX_FOLDER_LENGTH = 80  # a socket's path is at most 107 bytes long
START_S, JOBS_END_S, PROCESSES_END_S, COMMAND_S = 60.0, 20.0, 10.0, 30.0
CANNOT = 3


class SlurmTrouble(Exception):
    """A problem, as a message for the user; `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = _parser().parse_args(arguments)
    folder = Path(given.folder).resolve()
    try:
        if given.command == "start":
            start(folder, given.cpu_nodes, given.gpu_nodes, given.cores, given.gpus, given.memory)
            print(f"export SLURM_CONF={folder / 'slurm.conf'}")
        elif given.command == "stop":
            stop(folder)
        elif given.command == "restart":
            restart(folder, given.daemon, given.away)
        else:
            return status(folder)
    except SlurmTrouble as trouble:
        print(f"one_machine: {trouble}", file=sys.stderr)
        return trouble.code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="one_machine.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    begin = commands.add_parser("start", help="start it; prints the export of SLURM_CONF")
    for flag, default, text in (
        ("--cpu-nodes", 2, "nodes of the partition cpu, c1, c2 …"),
        ("--gpu-nodes", 2, "nodes of the partition h100, g1, g2 …"),
        ("--cores", 4, "cores that each node reports"),
        ("--gpus", 2, "GPUs that each node of h100 reports"),
        ("--memory", 8000, "memory that each node reports, in MiB"),
    ):
        begin.add_argument(flag, type=_positive, default=default, help=f"{text} (default {default})")
    end = commands.add_parser("stop", help="end all jobs and daemons; the logs remain")
    tell = commands.add_parser("status", help="show daemons, nodes and jobs")
    again = commands.add_parser("restart", help="kill a daemon with SIGKILL and start it again")
    for command in (begin, end, tell, again):
        command.add_argument("folder", metavar="DIR", help="folder of this Slurm")
    again.add_argument("daemon", metavar="DAEMON", help="slurmctld, or slurmd-NODE such as slurmd-c1")
    again.add_argument("--away", type=float, default=0.0, metavar="S", help="seconds between the two")
    return parser


def _positive(text: str) -> int:
    if text.isdigit() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"give a number of 1 or more, not {text!r}")


def start(folder: Path, cpu_nodes: int, gpu_nodes: int, cores: int, gpus: int, memory: int) -> None:
    """Start all daemons and wait until every node is idle; after a failure nothing is left running."""
    _check_machine()
    _check_folder(folder)
    for name in ("state", "log", "run", "spool", "dev"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    _make_devices(folder / "dev", gpus)
    nodes = [f"c{n}" for n in range(1, cpu_nodes + 1)] + [f"g{n}" for n in range(1, gpu_nodes + 1)]
    ports = dict(zip(["slurmctld", *nodes], _free_ports(1 + len(nodes)), strict=True))
    _write_configuration(folder, ports, cores, gpus, memory)
    run, log = folder / "run", folder / "log"
    munged = f"munged --foreground --force --key-file={folder}/munge.key --socket={run}/munge.socket"
    munged += f" --pid-file={run}/munged.pid --log-file={log}/munged.log --seed-file={run}/munged.seed"
    try:
        _launch(folder, "munged", munged)
        _wait(lambda: (run / "munge.socket").exists() or _dead(folder), PROCESSES_END_S)
        _launch(folder, "slurmctld", f"slurmctld -D -c -f {folder}/slurm.conf")
        for node in nodes:
            _launch(folder, f"slurmd-{node}", f"slurmd -D -c -N {node} -f {folder}/slurm.conf")
        _wait(lambda: _idle_nodes(folder) >= set(nodes) or _dead(folder), START_S)
        if _dead(folder) or not _idle_nodes(folder) >= set(nodes):
            raise SlurmTrouble(f"it did not come up; ended: {_dead(folder) or 'none'}\n{_log_tails(log)}")
    except BaseException:
        if _daemons(folder):
            stop(folder)
        raise


def _launch(folder: Path, name: str, command: str) -> None:
    """Start a daemon that outlives this command, and record its process id."""
    with (folder / "log" / f"{name}.out").open("wb") as out:
        process = subprocess.Popen(
            command.split(), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    pids = _daemons(folder) | {name: process.pid}
    (folder / "daemons.json").write_text(json.dumps(pids), encoding="utf-8")


def _daemons(folder: Path) -> dict[str, int]:
    """Return the process ids of the daemons that were started here, by name."""
    path = folder / "daemons.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def stop(folder: Path) -> None:
    """Cancel all jobs, end every daemon by its id, and check that no process remains."""
    if not _daemons(folder):
        raise SlurmTrouble(f"{folder} is not a folder of this script's Slurm")
    if "slurmctld" in _living(folder):
        if jobs := _run(folder, "squeue", "-h", "-o", "%A").split():
            _run(folder, "scancel", *set(jobs))
        _wait(lambda: not _run(folder, "squeue", "-h"), JOBS_END_S)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _processes(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if _wait(lambda: not _processes(folder), PROCESSES_END_S):
            break
    else:
        raise SlurmTrouble(f"these processes did not end: {_processes(folder)}")
    (folder / "daemons.json").unlink()


def restart(folder: Path, daemon: str, away_s: float) -> None:
    """Kill a daemon as a crash does, and start it again after `away_s` seconds; jobs are kept."""
    pid = _living(folder).get(daemon)
    if pid is None or not daemon.startswith("slurm"):
        raise SlurmTrouble(f"no daemon {daemon!r} runs in {folder}: see status")
    os.kill(pid, signal.SIGKILL)
    _wait(lambda: daemon not in _living(folder), PROCESSES_END_S)
    time.sleep(away_s)
    # -c, used for the first start, would discard the jobs
    node = daemon.removeprefix("slurmd-")
    command = "slurmctld -D" if daemon == "slurmctld" else f"slurmd -D -N {node}"
    _launch(folder, daemon, f"{command} -f {folder}/slurm.conf")


def status(folder: Path) -> int:
    """Show daemons, nodes and jobs; return 0 if all daemons run, else 1."""
    if not _daemons(folder):
        raise SlurmTrouble(f"no Slurm runs in {folder}")
    living = _living(folder)
    for name, pid in _daemons(folder).items():
        print(f"{name:<12} {f'process {pid}' if name in living else 'ended'}")
    if "slurmctld" in living:
        print(_run(folder, "sinfo", "-N", "-o", "%8N %8P %8T %5c %8m %14G %E"))
        print(_run(folder, "squeue", "-o", "%8i %9P %30j %2t %10M %10l %R"))
    return 1 if _dead(folder) else 0


def _check_machine() -> None:
    """Say what this machine lacks."""
    missing = " ".join(package for command, package in PACKAGES.items() if not shutil.which(command))
    if missing:
        raise SlurmTrouble(f"Debian's packages {missing} are missing: apt-get install -y {missing}", CANNOT)
    if os.geteuid() != 0:
        raise SlurmTrouble("the daemons and device files need root: run it as root", CANNOT)


def _check_folder(folder: Path) -> None:
    if len(str(folder)) > MAX_FOLDER_LENGTH or any(c.isspace() or c in ",#[]" for c in str(folder)):
        raise SlurmTrouble(f"{folder}: choose a path of at most {MAX_FOLDER_LENGTH} plain characters")
    if _living(folder):
        raise SlurmTrouble(f"a Slurm already runs in {folder}: stop it first")
    if folder.exists() and (folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022):
        raise SlurmTrouble(f"{folder} can be written by other users: choose a new folder")
    if folder.exists() and any(folder.iterdir()) and not (folder / "slurm.conf").exists():
        raise SlurmTrouble(f"{folder} contains other files: choose a new folder")
    (folder / "daemons.json").unlink(missing_ok=True)
    # the job state of an earlier Slurm here is meaningless to a new one
    for name in ("state", "spool", "run"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _make_devices(folder: Path, gpus: int) -> None:
    for index in range(gpus):
        path = folder / f"nvidia{index}"
        path.unlink(missing_ok=True)
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except OSError as problem:
            raise SlurmTrouble(
                f"cannot create a device file in {folder} ({problem.strerror})", CANNOT
            ) from problem


def _free_ports(count: int) -> list[int]:
    """Return free ports, drawn at random so that simultaneous starts rarely collide."""
    ports: list[int] = []
    for port in random.sample(PORTS, 20 * count):
        with socket.socket() as probe:
            if len(ports) < count and probe.connect_ex((LOOPBACK, port)) != 0:
                ports.append(port)
    return ports


def _write_configuration(folder: Path, ports: dict[str, int], cores: int, gpus: int, memory: int) -> None:
    host = socket.gethostname().split(".")[0]
    gpu_nodes, cpu_nodes = (",".join(node for node in ports if node[0] == kind) for kind in "gc")
    template = Path(__file__).with_name("one_machine.conf").read_text(encoding="utf-8")
    text = template.format(folder=folder, host=host, port=ports["slurmctld"], loopback=LOOPBACK)
    for node, port in ports.items():
        if node != "slurmctld":
            gres = f"Feature=h100 Gres=gpu:h100:{gpus}" if node[0] == "g" else "Feature=cpu"
            text += (
                f"NodeName={node} NodeHostname={host} NodeAddr={LOOPBACK} Port={port} CPUs={cores} "
                f"RealMemory={memory} {gres} State=UNKNOWN\n"
            )
    text += f"PartitionName=cpu Nodes={cpu_nodes} Default=YES MaxTime=2-00:00:00 State=UP\n"
    text += f"PartitionName=h100 Nodes={gpu_nodes} MaxTime=1-00:00:00 State=UP\n"
    (folder / "slurm.conf").write_text(text, encoding="utf-8")
    devices = f"{folder}/dev/nvidia[0-{gpus - 1}]"
    gres = f"NodeName={gpu_nodes} Name=gpu Type=h100 File={devices}\n"
    (folder / "gres.conf").write_text(gres, encoding="utf-8")
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="utf-8")


def _run(folder: Path, *command: str) -> str:
    """Return the output of a Slurm command; empty if the daemon does not answer."""
    environment = os.environ | {"SLURM_CONF": f"{folder}/slurm.conf"}
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=COMMAND_S)
    except subprocess.TimeoutExpired:
        return ""
    return ran.stdout.strip()


def _idle_nodes(folder: Path) -> set[str]:
    lines = _run(folder, "sinfo", "-h", "-N", "-o", "%N %t").splitlines()
    return {line.split()[0] for line in lines if line.endswith(" idle")}


def _living(folder: Path) -> dict[str, int]:
    """Return the daemons of this folder that run, by name."""
    # an id may have been reused: our daemons have the folder in their command line
    mark = f"{folder}/".encode()
    return {name: pid for name, pid in _daemons(folder).items() if mark in _of(pid, "cmdline")}


def _dead(folder: Path) -> list[str]:
    return sorted(set(_daemons(folder)) - set(_living(folder)))


def _processes(folder: Path) -> list[int]:
    """Return the ids of the daemons and of processes left by jobs."""
    mark = f"SLURM_CONF={folder}/slurm.conf".encode()
    jobs = []
    for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
        variables = _of(pid, "environ").split(b"\0")
        if mark in variables and any(variable.startswith(b"SLURM_JOB_ID=") for variable in variables):
            jobs.append(pid)
    return [*_living(folder).values(), *jobs]


def _of(pid: int, name: str) -> bytes:
    """Return a file of a process in /proc; empty if it has ended or is a zombie."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _wait(reached: Callable[[], object], limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while not reached():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def _log_tails(log: Path) -> str:
    texts = {path.name: path.read_text(errors="replace") for path in sorted(log.iterdir())}
    return "\n".join(f"{name}: {line}" for name, text in texts.items() for line in text.splitlines()[-5:])


if __name__ == "__main__":
    sys.exit(main())
