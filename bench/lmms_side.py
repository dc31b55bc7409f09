"""Run by `bench.beside_harnesses` in lmms-eval's environment: ``PYTHON lmms_side.py FILE URL N``."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import Instance
from lmms_eval.models.chat.openai import OpenAICompatible
from PIL import Image


def message(line: str) -> list[dict[str, Any]]:
    """Return a line's texts and images in lmms-eval's format."""
    content: list[dict[str, Any]] = []
    for part in json.loads(line):
        if part["type"] == "text":
            content.append(part)
        else:
            coded = part["image_url"]["url"].partition(",")[2]
            content.append({"type": "image", "url": Image.open(io.BytesIO(base64.b64decode(coded)))})
    return [{"role": "user", "content": content}]


def main(file: Path, url: str, connections: int) -> None:
    """Send each line's texts and images to the server."""
    # it takes pictures and encodes them itself, in the format that the other sides send
    os.environ |= {"LMMS_IMAGE_ENCODE_FORMAT": "JPEG", "LMMS_IMAGE_JPEG_QUALITY": "90"}
    lines = file.read_text(encoding="utf-8").splitlines()
    model = OpenAICompatible(
        model="tiny",
        base_url=f"{url}/v1",
        api_key="none",
        num_concurrent=connections,
        adaptive_max_concurrency=connections,
        timeout=60,
    )
    model.task_dict = {"requests": {"test": lines}}
    requests = [
        Instance(
            "generate_until",
            ("", message, {"max_new_tokens": 256}, number, "requests", "test"),
            number,
            {"task": "requests", "doc_id": number, "repeats": 1},
        )
        for number in range(len(lines))
    ]
    answers = model.generate_until(requests)
    assert len(answers) == len(lines)
    assert all("better" in answer.text for answer in answers), answers[0].text


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
