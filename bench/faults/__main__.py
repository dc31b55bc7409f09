"""Disturb builds on a real Slurm on this machine with random faults: ``python -m bench.faults``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bench.faults.campaign import BUILDS, FILMS, Campaign, read_records, say, table
from bench.faults.kinds import KINDS

#: Set if the process has its own namespaces.
OWN = "SLVMEVAL_FAULTS_NAMESPACES"
#: Names are not resolved if loopback's own is the only address.
_ENTER = 'mount -t tmpfs tmpfs /dev/shm && ip link set lo up && ip addr add 10.99.0.1 dev lo && exec "$@"'


def _enter_own_namespaces(arguments: Sequence[str]) -> NoReturn:
    """Restart with mounts, shared memory, ports and a firewall private to this campaign."""
    command = ["unshare", "--mount", "--net", "--", "sh", "-c", _ENTER, "sh"]
    command += [sys.executable, "-m", "bench.faults", *arguments]
    os.execvpe("unshare", command, os.environ | {OWN: "1"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign, print its table, and return 1 if a build lost, changed or left something."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--count", type=int, default=15, help="total number of faults (default 15)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draws (default 1)")
    parser.add_argument("--films", type=int, default=FILMS, help=f"films per build (default {FILMS})")
    parser.add_argument(
        "--kinds",
        nargs="+",
        default=(),
        choices=KINDS,
        help="kinds of faults, applied in turn; drawn by default",
    )
    parser.add_argument("--resume", action="store_true", help="continue with the folder's next numbers")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/faults"), help="records (default build/faults)"
    )
    parser.add_argument("--table", action="store_true", help="only print the table of the folder")
    chosen = parser.parse_args(arguments)
    if not chosen.table and OWN not in os.environ:
        _enter_own_namespaces(sys.argv[1:] if arguments is None else arguments)
    if not chosen.table:
        if read_records(chosen.folder) and not chosen.resume:
            parser.error(f"{chosen.folder} has records: continue with --resume, or choose another folder")
        # a shell makes background processes ignore Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            Campaign(chosen.folder, chosen.count, chosen.seed, chosen.films, chosen.kinds).run()
        except KeyboardInterrupt:
            say("stopped; --resume continues, repeating the interrupted build")
            return 130
    print(table(chosen.folder))
    wrong = ("lost", "differing", "made_twice", "stuck", "left_over")
    return int(any(build[name] for build in read_records(chosen.folder, BUILDS) for name in wrong))


if __name__ == "__main__":
    sys.exit(main())
