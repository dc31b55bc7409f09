"""Disturb builds on a real Slurm of this machine with random faults: ``python -m bench.faults``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.faults.campaign import BUILDS, Campaign, read_records, say, table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign, print its table, and return 1 if a build lost, changed or left something."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--count", type=int, default=15, help="number of faults in all (default 15)")
    parser.add_argument("--seed", type=int, default=1, help="key of the draws (default 1)")
    parser.add_argument("--resume", action="store_true", help="go on with the next numbers of the folder")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/faults"), help="records (default build/faults)"
    )
    parser.add_argument("--table", action="store_true", help="only print the table of the folder")
    chosen = parser.parse_args(arguments)
    if not chosen.table:
        if read_records(chosen.folder) and not chosen.resume:
            parser.error(f"{chosen.folder} has records: continue with --resume, or choose another folder")
        # in the background a shell has us ignore Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            Campaign(chosen.folder, chosen.count, chosen.seed).run()
        except KeyboardInterrupt:
            say("ended; --resume goes on, and repeats the build that was under way")
            return 130
    print(table(chosen.folder))
    wrong = ("lost", "differing", "made_twice", "stuck", "left_over")
    return int(any(build[name] for build in read_records(chosen.folder, BUILDS) for name in wrong))


if __name__ == "__main__":
    sys.exit(main())
