"""How many tokens of a request the stand-in has read before, by the providers' cache rules.

OpenAI, Gemini and vLLM cache the beginning of every request, in whole blocks. Anthropic caches it up to the
positions that the request marks.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import threading
from collections.abc import Iterable, Iterator, Sequence

from PIL import Image

#: Minimum length in tokens of a cached beginning (OpenAI, and most models of Anthropic).
MIN_TOKENS = 1024
#: Tokens per block of OpenAI's cache.
BLOCK_TOKENS = 128
#: Characters per token, and side in pixels of the square of an image that counts as a token.
_LETTERS, _SQUARE_PX = 4, 32

#: A part of a request that is compared only as a whole: its content, and its tokens.
Piece = tuple[str, int]


def text_pieces(text: str) -> Iterator[Piece]:
    """Yield the tokens of a text."""
    for start in range(0, len(text), _LETTERS):
        yield text[start : start + _LETTERS], 1


def image_piece(data: str) -> Piece:
    """Return a base64 image, of either alphabet, as a piece: one token per 32-pixel square.

    A damaged image is one token.
    """
    try:
        plain = data.replace("-", "+").replace("_", "/")
        with Image.open(io.BytesIO(base64.b64decode(plain))) as image:
            width, height = image.size
    except OSError:
        return digest(data), 1
    return digest(data), math.ceil(width / _SQUARE_PX) * math.ceil(height / _SQUARE_PX)


def digest(text: str) -> str:
    """Return the checksum of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class PrefixCache:
    """The beginnings of requests read so far; thread-safe."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def read(self, pieces: Iterable[Piece]) -> tuple[int, int]:
        """Return the tokens of a request, and how many of them are in whole blocks read before."""
        blocks, total = [], 0
        beginning = hashlib.sha256()
        for content, count in pieces:
            for end in range(-(-total // BLOCK_TOKENS) * BLOCK_TOKENS, total + count, BLOCK_TOKENS):
                if end >= MIN_TOKENS:
                    at = beginning.copy()
                    at.update(f"{content}\n{end - total}".encode("utf-8", "surrogatepass"))
                    blocks.append((end, at.hexdigest()))
            beginning.update(f"{content}\n{count}\n".encode("utf-8", "surrogatepass"))
            total += count
        with self._lock:
            cached = 0
            for end, key in blocks:
                if key not in self._known:
                    break
                cached = end
            self._known.update(key for _, key in blocks)
        return total, cached

    def read_marked(self, pieces: Sequence[Piece], marks: Iterable[int]) -> tuple[int, int, int]:
        """Return the tokens of a request, those read before, and those newly cached.

        Parameters
        ----------
        marks
            Numbers of the pieces after which the request marks the end of a beginning to cache.
        """
        ends, total = [], 0
        beginning, wanted = hashlib.sha256(), set(marks)
        for number, (content, count) in enumerate(pieces, 1):
            beginning.update(f"{content}\n{count}\n".encode("utf-8", "surrogatepass"))
            total += count
            if number in wanted and total >= MIN_TOKENS:
                ends.append((total, beginning.hexdigest()))
        with self._lock:
            cached = max((end for end, key in ends if key in self._known), default=0)
            self._known.update(key for _, key in ends)
        return total, cached, max((end for end, _ in ends), default=0) - cached
