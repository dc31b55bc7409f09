"""A judge and captioner that counts every token itself, with GPT-5's own vocabulary, and reports them.

Nothing here is taken from our estimates: the text is tokenised, marks and the answer's JSON Schema stand as
in the published format of the messages, and images are counted by what a test gives (a processor, a guide).
"""

from __future__ import annotations

import base64
import io
import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from tests.tiny_models.faulty_server import Reply

#: People's English about what is seen in films.
_CAPTIONS = Path(__file__).parents[2] / "slvmeval/demo/captions/big_buck_bunny.jsonl"


@cache
def _vocabulary() -> Any:
    import warnings

    with warnings.catch_warnings():
        # it reads its files in an old way
        warnings.simplefilter("ignore", DeprecationWarning)
        import bpe_openai

    return bpe_openai.get_encoding("o200k_base")


def text_tokens(text: str) -> int:
    """Return the number of tokens of a text; the vocabulary of Qwen3 gives the same within 1 % in English."""
    return len(_vocabulary().encode(text))


@cache
def _sentences() -> tuple[str, ...]:
    lines = _CAPTIONS.read_text(encoding="utf-8").splitlines()
    return tuple(str(json.loads(line)["caption"]) for line in lines)


def english(tokens: float, drawn: random.Random) -> str:
    """Return sentences of that number of tokens, the last one cut off."""
    text = ""
    while text_tokens(text) < tokens:
        text = f"{text} {drawn.choice(_sentences())}".strip()
    return str(_vocabulary().decode(_vocabulary().encode(text)[: round(tokens)]))


def guide_tiles(width: int, height: int) -> int:
    """Return what an image counts for GPT-5, as OpenAI's guide words it, step by step (detail high)."""
    size = [float(width), float(height)]
    if max(size) > 2048:
        size = [side * 2048 / max(width, height) for side in size]
    if min(size) > 768:
        size = [side * 768 / min(size) for side in size]
    tiles = 0
    for _ in range(0, math.ceil(size[0]), 512):
        for _ in range(0, math.ceil(size[1]), 512):
            tiles += 1
    return 70 + 140 * tiles


def guide_patches(width: int, height: int) -> int:
    """Return what an image counts for GPT-5 mini: 1.62 for each patch of 32 px that it needs."""
    patches = len(range(0, width, 32)) * len(range(0, height, 32))
    return math.ceil(patches * 1.62)


@dataclass
class Counted:
    """One request as the server counted it."""

    dimension: str
    images: int
    tokens_in: int
    tokens_out: int


@dataclass
class CountingPlan:
    """What the server does: it describes or chooses, after thoughts of some length.

    Parameters
    ----------
    image_tokens
        By model, what an image of a size counts.
    thoughts, description
        Mean tokens of the thoughts and of a description.
    spread
        Standard deviation of a length's logarithm.
    video_tokens
        What a video of that number of frames of a size counts.
    marks_of_gpt
        Whether messages have GPT's marks and the prompt has the schema, or Qwen's marks and no schema.
    """

    image_tokens: dict[str, Callable[[int, int], int]]
    thoughts: int = 0
    description: int = 200
    spread: float = 0.0
    video_tokens: Callable[[int, int, int], int] | None = None
    marks_of_gpt: bool = True
    counted: list[Counted] = field(default_factory=list)

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        """Return the reply to a request."""
        # by the request, since threads send them in any order
        drawn = random.Random(json.dumps(body, sort_keys=True))
        schema = body["response_format"]["json_schema"]["schema"]
        if "description" in schema["properties"]:
            text = json.dumps({"description": english(self._length(self.description, drawn), drawn)})
        else:
            text = json.dumps({"better": drawn.choice(("first", "second"))})
        thoughts = english(self._length(self.thoughts, drawn), drawn) if self.thoughts else None
        # the mark of the end is an answer's token as well
        out = text_tokens(text) + text_tokens(thoughts or "") + 1
        sizes = _sizes(body)
        tokens_in = self._words(body) + sum(self.image_tokens[body["model"]](*size) for size in sizes)
        frames = len(sizes)
        for address in _addresses(body, "video_url"):
            sizes_of_video = [_size(frame) for frame in address.partition(",")[2].split(",")]
            assert self.video_tokens is not None
            assert len(set(sizes_of_video)) == 1
            frames += len(sizes_of_video)
            tokens_in += self.video_tokens(len(sizes_of_video), *sizes_of_video[0])
        system, user = (message["content"] for message in body["messages"])
        text_of_user = next(part["text"] for part in user if part["type"] == "text")
        # as a judge is told it, or a captioner
        told = re.search(r"^(?:- (\w+): |Viewpoint: (\w+)$)", f"{system}\n{text_of_user}", re.MULTILINE)
        dimension = (told[1] or told[2]) if told else ""
        self.counted.append(Counted(dimension, frames, tokens_in, out))
        return Reply(text, reasoning=thoughts, tokens=(tokens_in, out))

    def _length(self, mean: float, drawn: random.Random) -> float:
        return mean * drawn.lognormvariate(-(self.spread**2) / 2, self.spread)

    def _words(self, body: dict[str, Any]) -> int:
        texts = []
        for message in body["messages"]:
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            texts.append("".join(part["text"] for part in parts if part["type"] == "text"))
        if self.marks_of_gpt:
            # <|start|>ROLE<|message|>…<|end|> a message, <|start|>assistant; the schema in the system's
            texts[0] += f"\n\n# Response Formats\n\n## answer\n\n{json.dumps(_schema(body))}"
            return sum(4 + text_tokens(text) for text in texts) + 2
        # <|im_start|>ROLE\n…<|im_end|>\n a message, <|im_start|>assistant\n<think>\n
        return sum(5 + text_tokens(text) for text in texts) + 5


def _schema(body: dict[str, Any]) -> Any:
    return body["response_format"]["json_schema"]["schema"]


def _sizes(body: dict[str, Any]) -> list[tuple[int, int]]:
    return [_size(address.partition(",")[2]) for address in _addresses(body, "image_url")]


def _addresses(body: dict[str, Any], kind: str) -> list[str]:
    return [part[kind]["url"] for part in body["messages"][1]["content"] if part["type"] == kind]


def _size(data: str) -> tuple[int, int]:
    return Image.open(io.BytesIO(base64.b64decode(data))).size
