"""The built-in suites, in a file of their own so that the command line can list them cheaply."""

from __future__ import annotations

from collections.abc import Mapping

#: Built-in suites: name to ``module:factory``.
BUILT_IN: Mapping[str, str] = {
    "video-bench": "tasks.extras.video_bench.suite:VideoBench",
    "locot2v-bench": "tasks.extras.locot2v.suite:Locot2vBench",
}
