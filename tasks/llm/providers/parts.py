"""The parts of a message as they reach a provider."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any


def parts_of(content: str | list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a message as kind (``text``, ``image_url``, ``video_url``) and text or address.

    Raises
    ------
    ValueError
        For a part of another kind.
    """
    if isinstance(content, str):
        yield "text", content
        return
    for part in content:
        kind = part["type"]
        if kind == "text":
            yield kind, part["text"]
        elif kind in ("image_url", "video_url"):
            yield kind, part[kind]["url"]
        else:
            raise ValueError(f"a message has a part of the unknown kind {kind!r}")


def data_of(address: str) -> tuple[str, str] | None:
    """Return the media type and the base64 text of a ``data:`` address; None for another address.

    Examples
    --------
    >>> data_of("data:image/jpeg;base64,QUJD"), data_of("https://example.org/a.jpg")
    (('image/jpeg', 'QUJD'), None)
    """
    head, _, data = address.partition(",")
    if not (head.startswith("data:") and head.endswith(";base64")):
        return None
    return head.removeprefix("data:").removesuffix(";base64"), data


def bytes_of(data: str) -> bytes:
    """Return the bytes of a base64 text."""
    return base64.b64decode(data)


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
