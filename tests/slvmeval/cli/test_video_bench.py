"""``suite video-bench`` as a person types it, with the authors' form of a prompt file, and ``evaluate``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slvmeval.cli.main import main
from storage_schemas.store import Store
from tasks.scoring.suites.score_store import ScoresStore
from tasks.scoring.suites.video_bench.dimensions import BY_NAME, QUALITY
from tasks.scoring.suites.video_bench.judge import aspect_dimensions
from tests.tasks.scoring.judges.short_films import short_film
from tests.tasks.scoring.suites.video_bench.talking import MODELS, Talk, step
from tests.tiny_models.faulty_server import FaultyServer, Reply

Capture = pytest.CaptureFixture[str]

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


def test_from_a_folder_to_a_leaderboard(tmp_path: Path, ffmpeg: str, capsys: Capture) -> None:
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
    words = ["suite", "video-bench", "--videos", str(videos), "--prompt-suite", str(prompts), "--quiet"]
    words += ["--store", str(store), "--profile", str(profile), "--direct", "--workers", "1"]
    talk = Failing()
    with FaultyServer(talk, MODELS) as server:
        profile.write_text(f'[model_servers]\nopenai = "{server.url}"\n')
        assert main([*words, "--dry-run", "--json"]) == 0
        planned = {row["dimension"]: row["calls"] for row in json.loads(capsys.readouterr().out)["rows"]}
        assert main([*words, "--dry-run", "--json", "--repeats", "2"]) == 0
        doubled = {row["dimension"]: row["calls"] for row in json.loads(capsys.readouterr().out)["rows"]}
        assert doubled == {name: 2 * calls if calls else calls for name, calls in planned.items()}
        assert not server.seen
        # five for each of two videos, and one for both together
        assert {name: calls for name, calls in planned.items() if calls} == {
            "imaging_quality": 1,
            "aesthetic_quality": 1,
            "video_text_consistency": 10,
            "color_consistency": 10,
        }
        assert main(words) == 3
        scores = ScoresStore(Store.open(store)).rows("video-bench")
        failed = {(row.dimension, row.failure) for row in scores if row.score is None}
        assert failed == {
            ("color_consistency", "not_understood"),
            ("video_text_consistency", "not_understood"),
        }
        assert len(scores) == 8
        assert all("outside the scale" in row.message for row in scores if row.failure)
        # what failed was paid for as well
        requests = sum("response_format" in seen.body for seen in server.seen)
        assert sum(row.calls for row in scores) == requests
        talk.well = True
        before = len(server.seen)
        assert main([*words, "--retry"]) == 0
        # the four odd answers alone are asked for again
        assert [step(seen.body) for seen in server.seen[before:]] == ["score"] * 4
        assert main(words) == 0
        assert len(server.seen) == before + 4
    scores = ScoresStore(Store.open(store)).rows("video-bench")
    assert all(row.score is not None for row in scores)
    assert len(scores) == 8
    repeats = Counter(row.dimension for row in scores)
    assert set(repeats.values()) == {2}
    for row in scores:
        details = json.loads(row.details)
        steps = [part["step"] for part in details["conversation"]]
        assert len(steps) == (1 if row.dimension.endswith("quality") else 5)
    assert all(row.cost_usd is not None for row in scores)


def test_as_a_judge_of_a_release_each_aspect_is_asked_as_it_should(
    judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    profile, talk = tmp_path / "site.toml", Talk()
    words = ["evaluate", "-e", "video-bench", "--store", str(judged_store), "--json", "--quiet"]
    words += ["--profile", str(profile)]
    with FaultyServer(talk, MODELS) as server:
        profile.write_text(f'[model_servers]\nopenai = "{server.url}"\n')
        assert main([*words, "--dry-run"]) == 0
        planned = {row["aspect"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
        assert not server.seen
        assert main([*words, "--direct", "--workers", "1"]) == 0
        output = json.loads(capsys.readouterr().out)["evaluators"]["video-bench"]
        requests = len(server.seen)
        assert main([*words, "--direct", "--workers", "1"]) == 0
        assert len(server.seen) == requests
    quality = {aspect for aspect in planned if BY_NAME[aspect_dimensions()[aspect]].group == QUALITY}
    assert quality
    assert quality < set(planned)
    for aspect, row in planned.items():
        # two pairs of each aspect; quality in both orders, a chain once
        assert row["requests"] == (4 if aspect in quality else 2)
        assert output["aspects"][aspect]["answered"] == row["requests"]


def test_a_dry_run_says_what_cannot_be_scored(tmp_path: Path, ffmpeg: str, capsys: Capture) -> None:
    videos, prompts, profile = tmp_path / "videos", tmp_path / "full.json", tmp_path / "site.toml"
    short_film(ffmpeg, videos / "anna" / "0.mp4", 1.0, 40)
    (videos / "manifest.csv").write_text(
        "model,prompt_id,sample,file\nanna,color-001,0,anna/0.mp4\nanna,color-009,0,anna/0.mp4\n"
    )
    prompts.write_text(json.dumps(ENTRIES))
    profile.write_text("")
    words = ["suite", "video-bench", "--videos", str(videos), "--prompt-suite", str(prompts), "--dry-run"]
    words += ["--store", str(tmp_path / "store"), "--profile", str(profile), "--quiet"]
    words += ["--set", 'multimodal={"model": "eyes", "server": "mine"}']
    assert main(words) == 0
    printed = " ".join(" ".join(capsys.readouterr()).split())
    # every dimension looks at frames
    assert "nothing is left" not in printed
    assert "model_servers" in printed
    # the others have nothing to score
    assert "without color_consistency: model server" in printed
    assert "left out" in printed
    assert "color-009" in printed
    assert main([*words, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["rows"] == []
    assert set(output["refused"]) == {"color_consistency"}
