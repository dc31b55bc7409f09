"""Batches for a model without a server: files of requests in the store, and files of their answers."""

from __future__ import annotations

from pathlib import Path

_REQUESTS, _ANSWERS, _FAILURE = ".requests.jsonl", ".answers.jsonl", ".failure"


def batches_folder(store: Path, server: str) -> Path:
    """Return the folder of a server's batches."""
    return store / "servers" / f"{server}.batches"


def requests_path(folder: Path, batch: str) -> Path:
    """Return the path of a batch's requests, one line of JSON each."""
    return folder / f"{batch}{_REQUESTS}"


def answers_path(folder: Path, batch: str) -> Path:
    """Return the path of a batch's answers, one line of JSON each; a batch with this file has ended."""
    return folder / f"{batch}{_ANSWERS}"


def failure_path(folder: Path, batch: str) -> Path:
    """Return the path of the file that says why a batch was given up."""
    return folder / f"{batch}{_FAILURE}"


def waiting_batches(folder: Path) -> list[str]:
    """Return the batches that have neither answers nor a failure."""
    names = sorted(path.name.removesuffix(_REQUESTS) for path in folder.glob(f"*{_REQUESTS}"))
    return [
        name
        for name in names
        if not (answers_path(folder, name).exists() or failure_path(folder, name).exists())
    ]
