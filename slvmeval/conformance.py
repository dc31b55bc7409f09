"""What a conformance test raises."""

from __future__ import annotations

from collections.abc import Sequence


class ConformanceError(AssertionError):
    """Something does not fit; `breaches` lists everything that was found."""

    def __init__(self, what: str, breaches: Sequence[str]) -> None:
        super().__init__(f"{what} does not conform:\n" + "\n".join(f"- {line}" for line in breaches))
        self.breaches = tuple(breaches)
