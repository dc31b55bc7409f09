"""List or download a repository of a model hub; a separate program, ``python hub_download.py REQUEST``.

It runs in its own process because the hub's library reads its settings on import, and everywhere else they
forbid network access. REQUEST is a JSON file ``{repository, revision, allow, ignore, folder}``, with `folder`
null to list only. Beside it the program writes ``report.json``: ``{"files": [{path, size, sha256,
git_sha1}]}`` as the hub lists them for that commit, or ``{"problem", "detail"}``. An interrupted download
resumes. The program imports nothing of ours, and ends with its parent process.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from pathlib import Path
from typing import Any

#: ``prctl``: the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


def main(request: Path) -> None:
    """Process the request in the file and write the report beside it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        report = _asked(json.loads(request.read_text(encoding="utf-8")))
    # the caller turns any error of the library, its HTTP client or the operating system into a message
    except Exception as problem:  # noqa: BLE001
        report = {"problem": _kind(problem), "detail": f"{type(problem).__name__}: {problem}"}
    request.with_name("report.json").write_text(json.dumps(report), encoding="utf-8")


def _asked(request: dict[str, Any]) -> dict[str, Any]:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils import filter_repo_objects

    where = {"repo_id": request["repository"], "revision": request["revision"]}
    patterns = {"allow_patterns": request["allow"], "ignore_patterns": request["ignore"]}
    if request["folder"] is not None:
        snapshot_download(**where, **patterns, local_dir=request["folder"])
        return {}
    tree = [item for item in HfApi().list_repo_tree(**where, recursive=True) if isinstance(item, RepoFile)]
    files = [
        {
            "path": file.path,
            "size": file.size,
            "sha256": None if file.lfs is None else file.lfs.sha256,
            "git_sha1": file.blob_id,
        }
        for file in filter_repo_objects(tree, **patterns, key=lambda file: file.path)
    ]
    return {"files": files}


def _kind(problem: Exception) -> str:
    """Return ``gated``, ``missing``, ``disk`` or ``network``."""
    seen: BaseException | None = problem
    while seen is not None:
        status = getattr(getattr(seen, "response", None), "status_code", None)
        if type(seen).__name__ == "GatedRepoError" or status in (401, 403):
            return "gated"
        if status == 404:
            return "missing"
        if isinstance(seen, OSError) and seen.errno in (28, 122, 30, 13):
            return "disk"
        seen = seen.__cause__ or seen.__context__
    return "network"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
