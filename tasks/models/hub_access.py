"""Requests to a model hub, each made by a separate program (:mod:`tasks.models.hub_program`)."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from storage_schemas.errors import PrerequisiteError


class HubProblem(PrerequisiteError):
    """A request failed at the hub or on the way to it.

    Attributes
    ----------
    kind
        ``denied``, ``missing``, ``disk``, ``network``, ``strange`` (the repository holds something else; the
        message is a file of it) or ``ended`` (the program was ended; the message is its exit code).
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(" ".join(detail.split())[:300])
        self.kind = kind


def hub_address() -> str:
    """Return the hub's address: ``HF_ENDPOINT``, or Hugging Face's."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def ask_hub(**request: Any) -> dict[str, Any]:
    """Make one request, as :mod:`tasks.models.hub_program` describes it, and return the report.

    Raises
    ------
    PrerequisiteError
        If the hub's library is missing.
    HubProblem
        If the request failed.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        raise PrerequisiteError("huggingface_hub is missing: pip install huggingface-hub")
    settings = {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}
    if not sys.stderr.isatty():
        settings["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    program = Path(__file__).with_name("hub_program.py")
    # -P: a folder of ours in front of the path would hide packages of the same names
    command = [sys.executable, "-P", str(program)]
    # through pipes, since files would remain where this process is killed
    ended = subprocess.run(
        command,
        env={**os.environ, **settings},
        input=json.dumps(request).encode(),
        stdout=subprocess.PIPE,
        check=False,
    )
    if ended.returncode != 0 or not ended.stdout:
        raise HubProblem("ended", str(ended.returncode))
    answer: dict[str, Any] = json.loads(ended.stdout)
    if "problem" in answer:
        raise HubProblem(answer["problem"], answer["detail"])
    return answer
