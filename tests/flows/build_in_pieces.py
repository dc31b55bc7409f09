"""Run a build in this process and die at a named commit point: ``build_in_pieces.py OPTIONS POINT NTH``.

Without POINT the build runs to its end and prints the release's checksum. Every commit point that is
passed is printed, so that a test can see which there are.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from flows.build.options import BuildOptions
from storage_schemas.commit import set_commit_hook
from tests.inline import build_inline


def main(options_file: str, point: str = "", nth: str = "1") -> None:
    left = int(nth)

    def hook(passed: str) -> None:
        nonlocal left
        print(f"point {passed}", flush=True)
        if passed == point:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    set_commit_hook(hook)
    result = build_inline(BuildOptions.model_validate_json(Path(options_file).read_text()))
    print(f"checksum {result.release.manifest.content_checksum}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
