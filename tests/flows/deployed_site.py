"""Deployed builds of tests: a recipe, films that nobody is copying any more, runs and what they show."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.flows.prefect_servers import PrefectServer, wait_for

AddFilm = Callable[[Path, int], Path]

RECIPE = """
name = "three"
long_side = 160
clips_per_pair = 2
least_duration_s = 10
[aspects.aesthetics]
operation = "ffmpeg-eq"
[aspects.comprehensiveness]
operation = "remove-clips"
[aspects.temporal_flow]
operation = "reinsert-window"
"""


def settled(film: Path) -> None:
    """Let a film and its captions look as if they had been there for long."""
    for path in (film, film.with_suffix(".jsonl")):
        os.utime(path, (time.time() - 3600, time.time() - 3600))


def run(server: PrefectServer, *words: str, profile: str = "site.toml", here: bool = True) -> dict[str, Any]:
    """Start a run by its bare name, watch it, and return it when it is over."""
    command = server.slvmeval_here if here else server.slvmeval
    output = command("run", *words, "--profile", profile, "--watch", fails=None)
    id_ = re.search(r"flow-run/([0-9a-f-]{36})", output)
    assert id_ is not None, output
    result: dict[str, Any] = server.ask(f"/flow_runs/{id_[1]}")
    # --watch ends with the message of the run
    assert result["state"]["message"] in output.splitlines()[-1]
    return result


def logged(server: PrefectServer, ran: dict[str, Any], begin: str) -> None:
    """Wait for a log line of a run that begins so: the server keeps them when it has time."""
    wait_for(
        lambda: any(line.startswith(begin) for line in server.logs(ran["id"])), 30, f"line {begin!r}", 0.5
    )


def shows_first_build(server: PrefectServer, ran: dict[str, Any], site: str, store: Path) -> dict[str, Any]:
    """Check what the server has of a run that built `RECIPE` of one film, and return its artifacts."""
    assert ran["state"]["type"] == "COMPLETED"
    assert ran["state"]["message"] == "Version 1 of release main is written: 3 pairs of 1 source."
    assert ran["name"] == "main · 1 source · three"
    assert sorted(ran["tags"]) == ["recipe:three", "release:main", f"site:{site}"]
    shown = server.artifacts(ran["id"])
    assert {f"progress-{stage}" for stage in ("inspect", "ingest", "degrade", "verify")} <= set(shown)
    assert shown["result-main"] == ran["state"]["message"]
    assert str(store / "releases" / "main" / "versions" / "1") in shown["release-main"]
    rows = {row["aspect"]: row for row in json.loads(shown["summary-main"])}
    assert rows["aesthetics"] == {
        "aspect": "aesthetics",
        "planned": 1,
        "built": 1,
        "set aside": 0,
        "reasons": "",
    }
    assert all("data:image/jpeg;base64," in shown[f"sheet-main-{name.replace('_', '-')}"] for name in rows)
    asked = {"flow_runs": {"id": {"any_": [ran["id"]]}}}
    names = sorted(task["name"] for task in server.ask("/task_runs/filter", asked))
    assert names == [f"{stage} film1" for stage in ("degrade", "ingest", "inspect", "verify")]
    logged(server, ran, "ingest 1/1: film1")
    return shown
