"""``suite run video-bench`` as typed, with the authors' form of a prompt file, and ``evaluate``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from storage_schemas.store import Store
from tasks.scoring.suites.score_store import ScoresStore
from tests.slvmeval.cli.running import Run
from tests.tasks.extras.video_bench.talking import MODELS, Talk, step
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer, Reply

ENTRIES = [
    {"prompt": "A teal kettle", "dimension": "color"},
    {"prompt": "A kettle on the moon", "dimension": "overall_consistency"},
]


class Failing(Talk):
    """Gives the first request for a score of a video an odd answer, until it is well."""

    well = False

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        if step(body) == "score" and not self.well:
            return Reply(json.dumps({"description": "-", "reason": "-", "score": 7}))
        return super().__call__(number, body)


def test_from_a_folder_to_a_leaderboard(tmp_path: Path, ffmpeg: str, run: Run) -> None:
    videos = tmp_path / "videos"
    rows = ["model,prompt_id,sample,file"]
    for number, model in enumerate(("anna", "bert")):
        for at, prompt in enumerate(("color-001", "overall_consistency-001")):
            short_film(ffmpeg, videos / model / f"{at}.mp4", 1.0 + at, 40 * (2 * number + at))
            rows.append(f"{model},{prompt},0,{model}/{at}.mp4")
    (videos / "manifest.csv").write_text("\n".join(rows))
    prompts = tmp_path / "full.json"
    prompts.write_text(json.dumps(ENTRIES))
    store, profile = tmp_path / "store", tmp_path / "site.toml"
    words = ["suite", "run", "video-bench", "--videos", videos, "--prompt-suite", prompts, "--quiet"]
    words += ["--store", store, "--profile", profile, "--direct", "--workers", "1"]

    def planned(*more: str) -> dict[str, Any]:
        rows = run(*words, "--dry-run", "--format", "json", *more).json["rows"]
        return {row["dimension"]: row["calls"] for row in rows}

    talk = Failing()
    with FaultyServer(talk, MODELS) as server:
        profile.write_text(f'[model_servers]\nopenai = "{server.url}"\n')
        # five for each of two videos, and one for both together
        calls = {
            "imaging_quality": 1,
            "aesthetic_quality": 1,
            "video_text_consistency": 10,
            "color_consistency": 10,
        }
        once = planned()
        assert {name: count for name, count in once.items() if count} == calls
        assert planned("--repeats", "2") == {
            name: 2 * count if count else count for name, count in once.items()
        }
        assert not server.seen
        run(*words, code=3)
        scores = ScoresStore(Store.open(store)).rows("video-bench")
        failed = {(row.dimension, row.failure) for row in scores if row.score is None}
        chains = ("color_consistency", "video_text_consistency")
        assert failed == {(name, "not_understood") for name in chains}
        assert len(scores) == 8
        assert all("outside the scale" in row.message for row in scores if row.failure)
        # what failed was paid for as well
        requests = sum("response_format" in seen.body for seen in server.seen)
        assert sum(row.calls for row in scores) == requests
        talk.well = True
        before = len(server.seen)
        run(*words, "--retry", "all")
        # the four odd answers alone are asked for again
        assert [step(seen.body) for seen in server.seen[before:]] == ["score"] * 4
        run(*words)
        assert len(server.seen) == before + 4
    scores = ScoresStore(Store.open(store)).rows("video-bench")
    assert all(row.score is not None and row.cost_usd is not None for row in scores)
    assert Counter(row.dimension for row in scores) == dict.fromkeys(calls, 2)
    for row in scores:
        steps = [part["step"] for part in json.loads(row.details)["conversation"]]
        assert len(steps) == (1 if row.dimension.endswith("quality") else 5)


def test_a_dry_run_says_what_cannot_be_scored(tmp_path: Path, ffmpeg: str, run: Run) -> None:
    videos, prompts, profile = tmp_path / "videos", tmp_path / "full.json", tmp_path / "site.toml"
    short_film(ffmpeg, videos / "anna" / "0.mp4", 1.0, 40)
    (videos / "manifest.csv").write_text(
        "model,prompt_id,sample,file\nanna,color-001,0,anna/0.mp4\nanna,color-009,0,anna/0.mp4\n"
    )
    prompts.write_text(json.dumps(ENTRIES))
    profile.write_text("")
    words = ["suite", "run", "video-bench", "--videos", videos, "--prompt-suite", prompts, "--dry-run"]
    words += ["--store", tmp_path / "store", "--profile", profile, "--quiet"]
    words += ["--set", 'multimodal={"model": "eyes", "server": "mine"}']
    ran = run(*words)
    printed = f"{ran.text} {ran.error}"
    # every dimension looks at frames, and the others have nothing to score
    assert "nothing is left" not in printed
    for said in ("model_servers", "without color_consistency: model server", "left out", "color-009"):
        assert said in printed
    output = run(*words, "--format", "json").json
    assert output["rows"] == []
    assert set(output["refused"]) == {"color_consistency"}
    # what is not known of such a model is not silently another's
    profile.write_text('[model_servers]\nmine = "http://127.0.0.1:1/v1"\n')
    assert "not known of eyes and assumed as for other models of suites: context_tokens" in run(*words).text
    assert len(run(*words, "--format", "json").json["assumed"]) == 1
