"""The built-in suites; apart from the registry, so that the command line lists them without importing it."""

from __future__ import annotations

from collections.abc import Mapping

#: Built-in suites: name to ``module:factory``.
BUILT_IN: Mapping[str, str] = {
    "video-bench": "tasks.scoring.suites.video_bench.suite:VideoBench",
    "locot2v-bench": "tasks.scoring.suites.locot2v.suite:Locot2vBench",
}
