"""List, download or upload a repository of a hub; a separate program, ``python hub_program.py``.

It runs in its own process because the hub's library reads its settings on import, and everywhere else they
forbid network access. It reads a request from standard input, JSON with ``what`` (``about``, ``list``,
``download`` or ``upload``), ``type`` (``model`` or ``dataset``) and ``repository``, and

- for ``about``: ``revision``, or null for the newest commit;
- for ``list`` and ``download``: ``revision``, ``allow``, ``ignore``, and for ``download`` its ``folder``;
- for ``upload``: ``folder``, ``into`` (a folder of the repository, or empty), ``message``, ``public``,
  ``files`` (what of the folder is uploaded), ``marks`` (patterns of files, one of which a repository of ours
  has) and ``keep`` (patterns of what is not removed although it is not uploaded).

It writes a report to standard output, also JSON: ``{"commit", "licence", "model_type", "own_code"}`` for
``about``, ``{"files": [{path, size, sha256, git_sha1}]}`` as the hub lists them for that commit, ``{}`` after
a download, ``{"commit"}`` after an upload, or ``{"problem", "detail"}``.
What was interrupted resumes. The program imports nothing of ours, and ends with its parent process.
"""

from __future__ import annotations

import ctypes
import fnmatch
import glob
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

#: ``prctl``: the signal sent to this process when its parent ends.
_PR_SET_PDEATHSIG = 1
#: Files that the hub creates itself, or that do not show whose repository it is.
_ANYBODYS = {".gitattributes", "README.md", ".gitignore"}


def main() -> None:
    """Process the request and write the report."""
    # what the library prints is not part of the report
    output = os.dup(1)
    os.dup2(2, 1)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        asked = json.load(sys.stdin)
        report = {"about": _about, "list": _listed, "download": _downloaded, "upload": _uploaded}[
            asked["what"]
        ](asked)
    # the caller turns any error of the library, its HTTP client or the operating system into a message
    except Exception as problem:  # noqa: BLE001
        report = {"problem": _kind(problem), "detail": f"{type(problem).__name__}: {problem}"}
    with os.fdopen(output, "w", encoding="utf-8") as file:
        json.dump(report, file)


def _about(request: dict[str, Any]) -> dict[str, Any]:
    from huggingface_hub import HfApi

    model = HfApi().model_info(request["repository"], revision=request["revision"])
    config = model.config or {}
    return {
        "commit": model.sha,
        "licence": None if model.card_data is None else model.card_data.get("license"),
        "model_type": config.get("model_type"),
        "own_code": "auto_map" in config,
    }


def _listed(request: dict[str, Any]) -> dict[str, Any]:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils import filter_repo_objects

    items = HfApi().list_repo_tree(
        request["repository"], repo_type=request["type"], revision=request["revision"], recursive=True
    )
    tree = [item for item in items if isinstance(item, RepoFile)]
    files = [
        {
            "path": file.path,
            "size": file.size,
            "sha256": None if file.lfs is None else file.lfs.sha256,
            "git_sha1": file.blob_id,
        }
        for file in filter_repo_objects(
            tree,
            allow_patterns=request["allow"],
            ignore_patterns=request["ignore"],
            key=lambda file: file.path,
        )
    ]
    return {"files": files}


def _downloaded(request: dict[str, Any]) -> dict[str, Any]:
    from huggingface_hub import snapshot_download

    snapshot_download(
        request["repository"],
        repo_type=request["type"],
        revision=request["revision"],
        allow_patterns=request["allow"],
        ignore_patterns=request["ignore"],
        local_dir=request["folder"],
    )
    return {}


def _uploaded(request: dict[str, Any]) -> dict[str, Any]:
    from huggingface_hub import HfApi

    api = HfApi()
    where = {"repo_id": request["repository"], "repo_type": request["type"]}
    api.create_repo(**where, private=not request["public"], exist_ok=True)
    there = set(api.list_repo_files(**where)) - _ANYBODYS
    if there and not any(_fits(path, request["marks"]) for path in there):
        return {"problem": "strange", "detail": min(there)}
    folder, into = Path(request["folder"]), request["into"]
    mine = set(request["files"])
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    gone = {path for path in there - mine if not _fits(path, request["keep"])}
    made = api.upload_folder(
        **where,
        folder_path=folder,
        path_in_repo=into,
        commit_message=request["message"],
        ignore_patterns=[glob.escape(path) for path in sorted(found - mine)] or None,
        delete_patterns=[glob.escape(path) for path in sorted(gone)] or None,
    )
    return {"commit": made.oid}


def _fits(path: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def _kind(problem: Exception) -> str:
    """Return ``denied``, ``missing``, ``disk`` or ``network``."""
    seen: BaseException | None = problem
    while seen is not None:
        status = getattr(getattr(seen, "response", None), "status_code", None)
        if type(seen).__name__ in ("GatedRepoError", "LocalTokenNotFoundError") or status in (401, 403):
            return "denied"
        if status == 404:
            return "missing"
        if isinstance(seen, OSError) and seen.errno in (28, 122, 30, 13):
            return "disk"
        seen = seen.__cause__ or seen.__context__
    return "network"


if __name__ == "__main__":
    main()
