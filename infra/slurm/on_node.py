"""Inspect a compute node, using the standard library only, since nothing else may be installed there.

The probe of :mod:`infra.slurm.probe` sends this file's text to the node's Python, on its standard input.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

#: Prefix of the line with the answer in a job's log.
MARK = "SLVMEVAL-NODE "
PATIENCE_S = 20.0
_INTERFACE_ADDRESS = 0x8915  # SIOCGIFADDR


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Inspect this node.

    Parameters
    ----------
    request
        ``token_file``: a file to read; ``readable`` and ``writable``: folders; ``distributions`` and
        ``modules``: names; ``interface``: on which workers listen, or None; ``driver``: host and port of the
        probing machine; ``secret``: authenticates this node to it.

    Returns
    -------
    dict
        ``node``, ``python``, ``executable``, ``versions`` and ``import_errors`` by name, ``token`` (None if
        the file is missing), ``folder_errors`` by folder, ``scratch_error``, ``interfaces``, ``gpus``,
        and ``driver_error`` and ``worker_error`` (None if the connections work in both directions).
    """
    driver_error, worker_error = _connect(request)
    return {
        "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "versions": {name: _version(name) for name in request["distributions"]},
        "import_errors": _import_errors(request["modules"]),
        "token": _text(request["token_file"]),
        "folder_errors": {
            **{folder: _problem(folder, os.R_OK) for folder in request["readable"]},
            **{folder: _problem(folder, os.R_OK | os.W_OK) for folder in request["writable"]},
        },
        "scratch_error": _scratch_problem(os.environ.get("SLVMEVAL_SCRATCH", "")),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "gpus": gpus(os.environ),
        "driver_error": driver_error,
        "worker_error": worker_error,
    }


def gpus(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the GPUs assigned to this job by SLURM and those visible to the driver (None if unknown)."""
    given = [word for word in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    return {"given": given, "seen": _seen_gpus()}


def _seen_gpus() -> list[str] | None:
    if shutil.which("nvidia-smi") is None:
        return _gpus_of_torch()
    try:
        ran = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.split(" (UUID")[0] for line in ran.stdout.splitlines() if line.startswith("GPU ")]


def _gpus_of_torch() -> list[str] | None:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _import_errors(names: Sequence[str]) -> dict[str, str]:
    errors = {}
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as problem:  # noqa: BLE001 # a broken package may raise anything
            errors[name] = f"{type(problem).__name__}: {problem}"
    return errors


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return None


def _problem(folder: str, mode: int) -> str | None:
    """Return why a folder cannot be used, or None."""
    if not os.path.isdir(folder):  # noqa: PTH112
        return "is not there"
    return None if os.access(folder, mode) else "may not be read" if mode == os.R_OK else "cannot be written"


def _scratch_problem(folder: str) -> str | None:
    """Return why the job's script cannot keep temporary files there, or None."""
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    except OSError as problem:
        return f"{folder}: {problem.strerror}"
    return None if os.access(folder, os.W_OK) else f"{folder}: cannot be written"


def _connect(request: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Call the driver, and have it call back at the address where a worker would listen."""
    try:
        calling = socket.create_connection(tuple(request["driver"]), PATIENCE_S)
    except OSError as problem:
        return str(problem), None
    with calling:
        interface = request["interface"]
        try:
            address = address_of(interface) if interface else calling.getsockname()[0]
        except OSError:
            return None, f"no interface {interface!r} with an address"
        with socket.create_server((address, 0)) as listening, calling.makefile("rw") as lines:
            word = {"secret": request["secret"], "address": list(listening.getsockname()[:2])}
            lines.write(json.dumps(word) + "\n")
            lines.flush()
            reply = lines.readline().strip()
    return None, None if reply == "reached" else reply or "no answer"


def address_of(interface: str) -> str:
    """Return the IPv4 address of a network interface; raises OSError if there is none."""
    packed = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        return socket.inet_ntoa(fcntl.ioctl(plain.fileno(), _INTERFACE_ADDRESS, packed)[20:24])


if __name__ == "__main__":
    print(MARK + json.dumps(answer(json.loads(os.environ["SLVMEVAL_PROBE_REQUEST"]))), flush=True)
