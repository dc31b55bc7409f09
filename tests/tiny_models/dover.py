"""An ONNX file with DOVER's inputs and outputs that takes means, written byte by byte.

The numbers that it gives are known: the mean of each input.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_FLOAT = 1


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _tensor(name: str, shape: Sequence[int | str]) -> bytes:
    """ValueInfoProto of a float tensor; a name in place of a size is one that is open."""
    sizes = b"".join(
        _bytes(1, _number(1, size) if isinstance(size, int) else _bytes(2, size)) for size in shape
    )
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, _FLOAT) + _bytes(2, sizes)))


def _mean(given: str, gives: str) -> bytes:
    """NodeProto that takes the mean over all of a tensor."""
    keep = _bytes(1, "keepdims") + _number(3, 0) + _number(20, 2)
    return _bytes(1, given) + _bytes(2, gives) + _bytes(4, "ReduceMean") + _bytes(5, keep)


def tiny_dover(
    folder: Path, clips: int | str = "clips", inputs: tuple[str, str] = ("aes_view", "tech_view")
) -> Path:
    """Save it; return `folder`.

    Parameters
    ----------
    clips
        How many clips the technical view has; a name leaves it open.
    inputs
        Names of both inputs.
    """
    first, second = inputs
    graph = b"".join(
        [
            _bytes(1, _mean(first, "beauty")),
            _bytes(1, _mean(second, "technique")),
            _bytes(2, "means"),
            _bytes(11, _tensor(first, (1, 3, 32, 224, 224))),
            _bytes(11, _tensor(second, (clips, 3, 32, 224, 224))),
            _bytes(12, _tensor("beauty", ())),
            _bytes(12, _tensor("technique", ())),
        ]
    )
    model = _number(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _number(2, 13))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dover.onnx").write_bytes(model)
    return folder
