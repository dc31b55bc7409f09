"""Progress of an evaluation: besides its tasks, requests a second, failures and cost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.progress import BuildProgress
from tasks.evaluators.spending import Spending

#: How often the rate is said, in seconds.
SAY_EVERY_S = 10.0


class RequestProgress(BuildProgress):
    """Says now and then how many requests were made, how fast and at what cost."""

    def __init__(self, cache: Path | None = None, quiet: bool = False) -> None:
        super().__init__(cache, quiet)
        self._forget()

    def _forget(self) -> None:
        self._spending: Spending | None = None
        self._requests = 0
        self._began = self._said = time.monotonic()

    def __enter__(self) -> RequestProgress:
        """Say that something runs, and start drawing."""
        super().__enter__()
        return self

    @property
    def seconds(self) -> float:
        """Seconds since asking began; 0 where nothing was asked."""
        return 0.0 if self._spending is None else time.monotonic() - self._began

    def watch(self, spending: Spending, requests: int) -> None:
        """Begin to say what a run spends that has so many requests to make."""
        self._spending, self._requests = spending, requests
        self._began = self._said = time.monotonic()

    def note_pools(self, pools: Mapping[str, Mapping[str, Any]]) -> None:
        """Note the worker pools; the driver does so about once a second, so this says the rate as well."""
        super().note_pools(pools)
        if self._spending is not None and time.monotonic() - self._said >= SAY_EVERY_S:
            self._said = time.monotonic()
            self.say(self.in_words())

    def in_words(self) -> str:
        """Return how many requests were made, how fast and at what cost."""
        counts = list(self._spending.counts().values()) if self._spending is not None else []
        asked = sum(one["asked"] for one in counts)
        rate = asked / max(self.seconds, 1e-6)
        words = [f"{asked} of {self._requests} requests, {rate:.1f} a second"]
        failed = sum(one["failed"] for one in counts)
        if failed:
            words.append(f"{failed} without an answer")
        if tokens := sum(one["tokens"] for one in counts):
            priced = "" if not any(one["unpriced"] for one in counts) else " and what has no price"
            words.append(f"{tokens} tokens, ${sum(one['usd'] for one in counts):.2f}{priced}")
        return "; ".join(words)
