"""Run by `bench.beside_harnesses` in inspect_ai's environment: ``PYTHON inspect_side.py FILE URL N``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, get_model
from inspect_ai.solver import generate


def main(file: Path, url: str, connections: int) -> None:
    """Send each line's texts and images to the server, and store the answers as inspect_ai does."""
    samples = []
    for line in file.read_text(encoding="utf-8").splitlines():
        parts = [
            ContentText(text=part["text"])
            if part["type"] == "text"
            else ContentImage(image=part["image_url"]["url"], detail="auto")
            for part in json.loads(line)
        ]
        samples.append(Sample(input=[ChatMessageUser(content=parts)]))
    model = get_model("openai-api/local/tiny", base_url=f"{url}/v1", api_key="none")
    with tempfile.TemporaryDirectory() as logs:
        (log,) = run_eval(
            Task(dataset=MemoryDataset(samples), solver=generate()),
            model=model,
            max_connections=connections,
            max_samples=2 * connections,
            log_dir=logs,
            display="none",
        )
        assert log.status == "success", log.error and log.error.message
        assert log.samples is not None
        assert len(log.samples) == len(samples)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
