"""Answer the batches that wait in a folder, then end: ``python -m infra.offline_batches FOLDER -- COMMAND``.

The command is vLLM's ``run-batch`` with its model; it gets ``--input-file`` and ``--output-file`` as its last
arguments. All waiting batches form one input, because a model's weights take minutes to load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra.serving import ending, kill_group
from infra.vllm import VLLM_ENVIRONMENT
from storage_schemas.commit import write_atomic
from storage_schemas.errors import PrerequisiteError, SlvmevalError
from storage_schemas.locks import holder, only_one
from storage_schemas.offline_batches import answers_path, failure_path, requests_path, waiting_batches


def answer_batches(folder: Path, command: Sequence[str]) -> int:
    """Answer the waiting batches, and those that arrive meanwhile; return the number of batches.

    If the command fails, its batches are given up: their failure files say why.

    Raises
    ------
    PrerequisiteError
        If another process answers this folder's batches, or the command cannot be started or fails.
    """
    count = 0
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder), ending():
        while batches := waiting_batches(folder):
            print(f"answering {len(batches)} batches of {folder}", flush=True)
            _answer(folder, batches, command)
            count += len(batches)
    print(f"{count} batches answered, none waiting", flush=True)
    return count


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    lock = folder / ".lock"
    with only_one(lock) as is_ours:
        if not is_ours:
            raise PrerequisiteError(f"{holder(lock)} answers the batches in {folder}")
        yield


def _answer(folder: Path, batches: Sequence[str], command: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix=".answering-", dir=folder) as name:
        given, made = Path(name) / "requests.jsonl", Path(name) / "answers.jsonl"
        # a batch that was given up may still be waiting next to a new one with the same requests
        batches_of: dict[str, list[str]] = {}
        with given.open("wb") as file:
            for batch in batches:
                for line in requests_path(folder, batch).read_bytes().splitlines():
                    wanted_by = batches_of.setdefault(str(json.loads(line)["custom_id"]), [])
                    if not wanted_by:
                        file.write(line + b"\n")
                    wanted_by.append(batch)
        full = [*command, "--input-file", str(given), "--output-file", str(made)]
        print(" ".join(full), flush=True)
        try:
            process = subprocess.Popen(full, env={**VLLM_ENVIRONMENT, **os.environ}, start_new_session=True)
        except OSError as problem:
            raise PrerequisiteError(
                f"{command[0]} cannot be started ({problem.strerror}): name the program with "
                "--set command=…, or load its environment in the pool's `setup`"
            ) from problem
        try:
            code = process.wait()
        finally:
            kill_group(process)
        if code or not made.exists():
            why = f"{command[0]} ended with status {code}, without answers: see the job's log"
            for batch in batches:
                write_atomic(failure_path(folder, batch), why.encode())
            raise PrerequisiteError(why)
        answers: dict[str, list[bytes]] = {batch: [] for batch in batches}
        for number, line in enumerate(made.read_bytes().splitlines(), 1):
            answered = batches_of.get(_id_of(line), [])
            if not answered:
                # the others are kept; requests without an answer are submitted again
                print(f"line {number} answers no request: {line[:80]!r}", flush=True)
            for batch in answered:
                answers[batch].append(line + b"\n")
        for batch, lines in answers.items():
            write_atomic(answers_path(folder, batch), b"".join(lines))


def _id_of(line: bytes) -> str:
    """Return the id of the request that a line answers; empty if it answers none."""
    try:
        return str(json.loads(line)["custom_id"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, answer, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m infra.offline_batches", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    try:
        answer_batches(options.folder, options.command)
    except SlvmevalError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
