"""What a worker checks before it accepts work, and what ``slvmeval doctor`` checks on a node by a job.

A worker imports this module and refuses work if a check fails. The doctor sends the text of this file to the
Python of a node, which may lack our packages, so the file uses only the standard library, and :func:`report`
returns all findings. Each check returns its problems as messages with the keys to change, or nothing.
"""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# set by the job script: the profile's name in messages, and the parent of the job's temporary folder
PROFILE = "SLVMEVAL_WORKER_PROFILE"
SCRATCH = "SLVMEVAL_SCRATCH"
#: Seconds until a shared file system shows a new file.
SEEN_AFTER_S = 15.0
_CALL_S = 20.0
_LIST_S = 60.0
_INTERFACE_ADDRESS = 0x8915  # SIOCGIFADDR
_OUR_PACKAGES = ("storage_schemas", "tasks", "infra", "flows", "slvmeval")


@dataclass(frozen=True)
class WorkerChecks:
    """The checks of a worker.

    Parameters
    ----------
    pool
        The worker's pool.
    profile
        The profile in messages, such as ``profile site.toml``.
    """

    pool: str
    profile: str

    def keys(self, *names: str) -> str:
        """Return keys of the pool for a message."""
        return f"{' and '.join(f'pools.{self.pool}.{name}' for name in names)} in {self.profile}"

    def store(self, store: str, run_file: str, scheduler: str, wait_s: float = SEEN_AFTER_S) -> list[str]:
        """Check that `store` is the store of this scheduler's driver, and that it is writable.

        Parameters
        ----------
        run_file
            A file below the store in which the driver has just written the scheduler's address.
        wait_s
            Maximum time to wait for that file, and until it is writable, in seconds.
        """
        put = f"put the store on a file system that all nodes see at the same path (store in {self.profile})"
        if not os.path.isdir(store):  # noqa: PTH112 # pathlib raises an error for a folder that may not be searched
            return [f"the store {store} is not visible here: {put}"]
        end = time.monotonic() + wait_s
        while _scheduler_in(run_file) != scheduler:
            if time.monotonic() >= end:
                return [
                    f"the folder {store} is not the driver's store but another one with that name: it has no "
                    f"{os.path.relpath(run_file, store)} of this run; {put}"
                ]
            time.sleep(0.2)
        while True:
            try:
                with tempfile.TemporaryFile(dir=Path(run_file).parent):
                    return []
            except OSError as problem:
                # during a failover a file system is read-only for a while
                if time.monotonic() >= end:
                    why = problem.strerror
                    return [f"the store {store} cannot be written here ({why}): mount it for writing"]
            time.sleep(0.2)

    def credentials(self, files: Iterable[str], wait_s: float = SEEN_AFTER_S) -> list[str]:
        """Check that this process can read the run's certificate and key, without which it cannot connect.

        Parameters
        ----------
        wait_s
            Maximum time to wait for the files, which the driver has just written, in seconds.
        """
        end = time.monotonic() + wait_s
        while True:
            try:
                for path in files:
                    Path(path).read_bytes()
                return []
            except OSError as problem:
                if time.monotonic() >= end:
                    return [
                        f"the run's certificate {problem.filename} cannot be read on this node "
                        f"({problem.strerror}): put the store on a file system that all nodes see at the "
                        f"same path, where jobs run as the user who submits them (store in {self.profile})"
                    ]
            time.sleep(0.2)

    def temporary_files(self, scratch: str, folder: str) -> list[str]:
        """Check that the job has a folder for temporary files that other users cannot touch.

        Parameters
        ----------
        scratch
            Where the job's script creates it.
        folder
            What the script has created; empty if it could not.
        """
        why: str | None
        try:
            os.makedirs(scratch, exist_ok=True)  # noqa: PTH103 # it may be empty
        except OSError as problem:
            why = f"{scratch}: {problem.strerror}"
        else:
            why = _why_not_private(folder) if folder else f"{scratch}: cannot be written"
        return [f"scratch {why}: set {self.keys('scratch')} to another folder of the node"] if why else []

    def packages(self, driver: Mapping[str, str]) -> list[str]:
        """Check that versions equal the driver's, and that our packages come from one place."""
        here = versions_of(driver)
        other = [
            f"{name} is {here[name]} here, but {wanted} in the driver"
            for name, wanted in driver.items()
            if here[name] != wanted
        ]
        problems = []
        if other:
            problems.append(
                f"{'; '.join(other)}: this Python is {sys.executable}; look at "
                f"{self.keys('python', 'setup')} for an environment like the driver's"
            )
        if not getattr(sys.flags, "safe_path", True):
            problems.append(f"PYTHONSAFEPATH is not 1: {self.keys('setup')} must not change it")
        homes = {name: _home(name) for name in _OUR_PACKAGES}
        if len(set(homes.values())) > 1:
            shown = ", ".join(f"{name} from {home}" for name, home in homes.items())
            problems.append(
                f"our packages come from several places ({shown}): check PYTHONPATH in {self.keys('setup')}"
            )
        return problems

    def imports(self, modules: Iterable[str]) -> list[str]:
        """Check that modules that the work needs can be imported."""
        failed = []
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception as problem:  # noqa: BLE001 # a broken package may raise anything
                failed.append(f"{name} cannot be imported ({type(problem).__name__}: {problem})")
        return [f"{'; '.join(failed)}: look at {self.keys('python', 'setup')}"] if failed else []

    def gpu(self, device: str | None, name: str | None, visible: str | None, index: int) -> list[str]:
        """Check that a worker process has its own GPU and can use it.

        Parameters
        ----------
        device
            Result of :func:`one_device`.
        name
            The GPU's name, or None if it does not answer.
        """
        allow = f"allow_cpu_models = true in {self.profile} lets it run without a GPU"
        if device is None:
            return [
                f"worker process {index} of the job has no GPU (CUDA_VISIBLE_DEVICES is {visible!r}): "
                f"look at {self.keys('gres', 'gpus')}; {allow}"
            ]
        if name is None:
            return [
                f"SLURM assigned the GPU {device}, which does not answer: check the node's driver with "
                f"nvidia-smi -L; {allow}"
            ]
        return []

    def folders(self, readable: Iterable[str], writable: Iterable[str]) -> list[str]:
        """Check folders that a build uses here."""
        problems = []
        for key, folders, mode, rejected in (
            ("model_folders", readable, os.R_OK, "may not be read"),
            ("job_logs", writable, os.R_OK | os.W_OK, "cannot be written"),
        ):
            for folder in folders:
                seen = os.path.isdir(folder)  # noqa: PTH112
                if not seen or not os.access(folder, mode):
                    problems.append(
                        f"{folder} {rejected if seen else 'is not there'}: put it on a file system that all "
                        f"nodes share ({key} in {self.profile})"
                    )
        return problems

    def network(self, driver: tuple[str, int], secret: str, interface: str | None) -> list[str]:
        """Connect to the driver, and let it connect back to the address where a worker would listen.

        A worker finds out by registering.

        Parameters
        ----------
        driver, secret
            Where it listens, and the secret that authenticates this node.
        interface
            On which workers listen, or None.
        """
        try:
            calling = socket.create_connection(driver, _CALL_S)
        except OSError as problem:
            return [
                f"cannot connect to the driver's machine ({problem}): name an interface that nodes "
                f"can reach as scheduler_interface in {self.profile}, or run builds on a machine that "
                "they can reach"
            ]
        with calling:
            try:
                address = _address_of(interface) if interface else calling.getsockname()[0]
            except OSError:
                reply = f"no interface {interface!r} with an address"
            else:
                reply = _called_back(calling, secret, address)
        if reply == "reached":
            return []
        known = ", ".join(name for _, name in socket.if_nameindex())
        return [
            f"the driver's machine cannot connect to a worker here ({reply}): change "
            f"{self.keys('interface')}. Interfaces here: {known}"
        ]


def _called_back(calling: socket.socket, secret: str, address: str) -> str:
    """Return the driver's report on connecting to this node's address; the error if it does not answer."""
    try:
        with socket.create_server((address, 0)) as listening, calling.makefile("rw") as lines:
            message = {"secret": secret, "address": list(listening.getsockname()[:2])}
            lines.write(json.dumps(message) + "\n")
            lines.flush()
            return lines.readline().strip() or "no answer"
    except OSError as problem:
        return str(problem)


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of distributions."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **{name: _version(name) for name in names if name != "python"}}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _scheduler_in(run_file: str) -> str | None:
    try:
        return str(json.loads(Path(run_file).read_bytes())["scheduler"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _why_not_private(folder: str) -> str | None:
    try:
        from infra.scratch import why_not_private
    except ImportError:
        # a Python without our packages, which is reported separately
        return None
    return why_not_private(folder)


def _home(name: str) -> str:
    spec = importlib.util.find_spec(name)
    return str(Path(spec.origin).resolve().parent.parent) if spec is not None and spec.origin else "nowhere"


def _address_of(interface: str) -> str:
    """Return the IPv4 address of a network interface; raises OSError if there is none."""
    packed = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        return socket.inet_ntoa(fcntl.ioctl(plain.fileno(), _INTERFACE_ADDRESS, packed)[20:24])


def one_device(visible: str | None, index: int, gpus: Sequence[str]) -> str | None:
    """Return the device for a worker process of a job, or None if there is none for it.

    Parameters
    ----------
    visible
        ``CUDA_VISIBLE_DEVICES`` of the job, as set by SLURM; None if SLURM did not set it.
    index
        Number of the worker process in its job, from 0.
    gpus
        GPUs listed by ``nvidia-smi``, used if `visible` is None.
    """
    devices = [str(number) for number in range(len(gpus))] if visible is None else visible.split(",")
    return devices[index].strip() or None if index < len(devices) else None


def listed_gpus() -> list[tuple[str, str, str]]:
    """Return index, id and name of each GPU listed by ``nvidia-smi``; empty without that tool."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_LIST_S)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ", 2) for line in answer.stdout.splitlines()]
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3]


def gpu_name(device: str, listed: Sequence[tuple[str, str, str]], ordinal: int = 0) -> str | None:
    """Return a device's name, or None if there is no such GPU.

    Parameters
    ----------
    ordinal
        Its number among those of `CUDA_VISIBLE_DEVICES`.
    """
    for index, uuid, name in listed:
        if device == index or uuid.startswith(device):
            return name
    if listed:
        # a MIG partition has its own id
        return listed[0][2] if device.startswith("MIG-") else None
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return str(torch.cuda.get_device_name(ordinal)) if ordinal < torch.cuda.device_count() else None


def report(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run all checks of a job's workers, and check everything else that a build uses.

    Parameters
    ----------
    request
        ``pool`` and ``profile``, see :class:`WorkerChecks`; ``gpus``: GPUs of the job, and the arguments of
        the checks.

    Returns
    -------
    dict
        ``node``, ``python``, ``gpus`` (names of the GPUs that answer), ``problems``, and, separately,
        ``gpu_problems``, because models may be allowed to run without a GPU.
    """
    checks = WorkerChecks(request["pool"], request["profile"])
    visible, listed = os.environ.get("CUDA_VISIBLE_DEVICES"), listed_gpus() if request["gpus"] else []
    names, gpu_problems = [], []
    for index in range(request["gpus"]):
        device = one_device(visible, index, [number for number, _, _ in listed])
        name = None if device is None else gpu_name(device, listed, index)
        gpu_problems += checks.gpu(device, name, visible, index)
        names += [] if name is None else [name]
    problems = checks.store(request["store"], request["run_file"], request["scheduler"])
    if not problems:
        problems += checks.credentials(request["credentials"])
        problems += checks.folders(request["readable"], request["writable"])
    return {
        "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "python": platform.python_version(),
        "gpus": names,
        "problems": [
            *problems,
            *checks.packages(request["versions"]),
            *checks.imports(request["modules"]),
            *checks.network(tuple(request["driver"]), request["secret"], request["interface"]),
            *checks.temporary_files(os.environ.get(SCRATCH, ""), os.environ.get("TMPDIR", "")),
        ],
        "gpu_problems": gpu_problems,
    }
