"""What `evaluate --dry-run` says, against what servers that count tokens themselves then report."""

from __future__ import annotations

import math
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.judgements import JudgementsStore
from storage_schemas.store import Store
from tests.slvmeval.cli.running import Run, lacks
from tests.tiny_models.counted_server import CountingPlan, guide_patches, guide_tiles
from tests.tiny_models.faulty_server import FaultyServer

#: With what judges are told.
ASPECTS = {
    "aesthetics": "aesthetics",
    "comprehensiveness": "scene",
    "dynamics_degree": "dynamics_degree",
}
GPT_5, MINI, QWEN = "gpt-5-2025-08-07", "gpt-5-mini-2025-08-07", "Qwen/Qwen3-VL-235B-A22B-Thinking-FP8"
GUIDE = {GPT_5: guide_tiles, MINI: guide_patches}
PRICES = f"""
as_of = "2026-11-22"
source = "a list"
[models."{GPT_5}"]
input_per_million = 1.25
output_per_million = 10.0
[models."{MINI}"]
input_per_million = 0.25
output_per_million = 2.0
[models."{QWEN}"]
input_per_million = 0.5
output_per_million = 2.5
"""
pytestmark = pytest.mark.slow


class Judging:
    """Dry runs and runs of a store against one server."""

    def __init__(self, store: Path, plan: CountingPlan, url: str, run: Run) -> None:
        self.store, self.plan, self._run = store, plan, run
        profile, prices = store.parent / "site.toml", store.parent / "prices.toml"
        servers = (
            f'[model_servers.{name}]\nurl = "{url}"\npatience_s = 1\n' for name in ("openai", "qwen3-vl")
        )
        profile.write_text("".join(servers))
        prices.write_text(PRICES)
        site = ("--store", store, "--profile", profile, "--set", f"prices={prices}")
        self._words = (*site, "--format", "json", "--quiet")

    def dry(self, *words: str) -> dict[str, Any]:
        before = len(self.plan.counted)
        output: dict[str, Any] = self._run("evaluate", *words, *self._words, "--dry-run").json
        assert len(self.plan.counted) == before, "a dry run asks nobody"
        return output

    def real(self, *words: str) -> None:
        self._run("evaluate", *words, *self._words, "--direct", "--workers", "1")

    def check(self, judge: str, *words: str) -> str:
        """Compare what is reported with what then happens; return the basis of the estimate."""
        output = self.dry("-e", judge, *words)
        label = output["rows"][0]["evaluator"]
        served, judged = len(self.plan.counted), self._judged(label)
        self.real("-e", judge, *words)
        now = self._judged(label)
        happened = {aspect: [now[aspect][n] - judged[aspect][n] for n in range(4)] for aspect in now}
        counted = self.plan.counted[served:]
        assert {row["aspect"] for row in output["rows"]} == set(ASPECTS)
        for row in output["rows"]:
            mine = [one for one in counted if one.dimension == ASPECTS[row["aspect"]]]
            requests, tokens_in, tokens_out, usd = happened[row["aspect"]]
            # what the server reported is what the judgements have
            counts = (sum(one.tokens_in for one in mine), sum(one.tokens_out for one in mine))
            assert (tokens_in, tokens_out) == counts
            sent = (requests, len(mine), sum(one.images for one in mine))
            assert (row["requests"], row["calls"], row["images"]) == sent
            off = [row["tokens_in"] / tokens_in, row["tokens_out"] / tokens_out, row["usd"] / usd]
            assert off == pytest.approx([1, 1, 1], abs=0.1), (label, row, happened)
        return str(output["basis"][label])

    def _judged(self, label: str) -> dict[str, list[float]]:
        result: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0])
        for row in JudgementsStore(Store.open(self.store)).rows([label]):
            assert row.answered
            assert row.cost_usd is not None
            for place, value in enumerate((1, row.tokens_in, row.tokens_out, row.cost_usd)):
                result[row.aspect][place] += value
        return result


Against = Callable[[CountingPlan, FaultyServer], Judging]


@pytest.fixture
def against(three_aspects: Callable[[int], Path], tmp_path: Path, run: Run) -> Against:
    """Give runs on a store of four films at a server."""
    shutil.copytree(three_aspects(4), tmp_path / "store")
    return lambda plan, server: Judging(tmp_path / "store", plan, server.url, run)


def test_before_the_first_answer_only_lengths_of_answers_are_assumed(against: Against) -> None:
    plan = CountingPlan(GUIDE, description=200)
    with FaultyServer(plan, models=[GPT_5, MINI]) as server:
        run = against(plan, server)
        basis = run.check("gpt-5-video?thinking_tokens=0")
        assert not lacks(basis, "no answer", "0 reasoning tokens per answer")
        run.check("gpt-5-mini-video?thinking_tokens=0")
        basis = run.check("gpt-5-text?thinking_tokens=0&description_tokens=200")
        assert "200 tokens a description" in basis
        # the same captioner: its descriptions are there already
        basis = run.check("gpt-5-mini-text?thinking_tokens=0")
        assert not lacks(basis, "the store has no answer", "24 descriptions in the store")


def test_after_a_pilot_lengths_are_measured(against: Against) -> None:
    plan = CountingPlan(GUIDE, thoughts=700, description=300, spread=0.05)
    with FaultyServer(plan, models=[GPT_5, MINI]) as server:
        run = against(plan, server)
        for judge in ("gpt-5-video", "gpt-5-text"):
            run.real("-e", judge, "--max-per-aspect", "2")
            basis = run.check(judge)
            assert basis.startswith("by 12 answers in the store: ")
            assert "±" in basis


def test_descriptions_that_two_judges_share_are_estimated_once(against: Against) -> None:
    plan = CountingPlan(GUIDE)
    with FaultyServer(plan, models=[GPT_5, MINI]) as server:
        run = against(plan, server)
        both = ("-e", "gpt-5-text", "-e", "gpt-5-mini-text", "--repeats", "2")
        output = run.dry(*both)["rows"]
        run.real(*both)
    assert sum(row["calls"] for row in output) == len(plan.counted)
    assert sum(row["images"] for row in output) == sum(one.images for one in plan.counted)


@pytest.mark.models
def test_qwen3_vl_with_the_images_and_videos_of_its_own_processors(against: Against) -> None:
    from tasks.models.torch_model import prepare_torch

    prepare_torch()
    from PIL import Image
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

    processor = Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, size={"shortest_edge": 65_536, "longest_edge": 16_777_216}
    )
    known: dict[tuple[int, int], int] = {}

    def image_tokens(width: int, height: int) -> int:
        if (width, height) not in known:
            grid = processor(images=[Image.new("RGB", (width, height))], return_tensors="np")
            known[width, height] = int(grid["image_grid_thw"][0].prod()) // 4 + 2
        return known[width, height]

    videos = Qwen3VLVideoProcessor(size={"shortest_edge": 4096, "longest_edge": 402_653_184})

    def video_tokens(frames: int, width: int, height: int) -> int:
        video = np.zeros((frames, 3, height, width), np.uint8)
        made = videos(videos=[video], do_sample_frames=False, return_tensors="pt")
        groups, *squares = made["video_grid_thw"][0].tolist()
        # vLLM writes <12.5 seconds> and two marks around each; digits are tokens of their own
        times = sum(len(f"{(2 * group + 0.5):.1f}") + 3 + 2 for group in range(groups))
        return groups * math.prod(squares) // 4 + times

    # thoughts, descriptions, and how both vary
    plan = CountingPlan({QWEN: image_tokens}, 900, 300, 0.05, video_tokens, marks_of_gpt=False)
    with FaultyServer(plan, models=[QWEN]) as server:
        run = against(plan, server)
        for judge in ("qwen3-vl-video", "qwen3-vl-text", "qwen3-vl-video?frames_as=images&label=as-images"):
            run.real("-e", judge, "--max-per-aspect", "2")
            run.check(judge)


def test_the_user_s_prompts_are_sent_and_named(against: Against, tmp_path: Path) -> None:
    own = tmp_path / "my-words"
    for key, text in {
        "judges/video_judge_system": "Which one?",
        "descriptions/aesthetics": "How it looks.",
    }.items():
        (own / key).parent.mkdir(parents=True, exist_ok=True)
        (own / f"{key}.txt").write_text(text)
    plan = CountingPlan(GUIDE)
    with FaultyServer(plan, models=[GPT_5]) as server:
        run = against(plan, server)
        run.real("-e", "gpt-5-video", "-e", "duration")
        ours = len(server.seen)
        run.real("-e", "gpt-5-video", "--prompts", str(own))
        messages = [seen.body["messages"] for seen in server.seen[ours:]]
        # the same prompts again, from another folder: nothing is asked
        shutil.copytree(own, tmp_path / "copy")
        run.real("-e", "gpt-5-video", "--prompts", str(tmp_path / "copy"))
        assert len(server.seen) == 2 * ours
    assert {message[0]["content"] for message in messages} == {"Which one?"}
    texts = [message[1]["content"][0]["text"] for message in messages]
    assert sum("aesthetics: How it looks." in text for text in texts) == len(texts) // len(ASPECTS)
    rows = JudgementsStore(Store.open(run.store)).rows()
    by_prompts: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        by_prompts[row.prompts].add(row.settings)
    (mine,) = set(by_prompts) - {"", "built-in"}
    assert mine.startswith("my-words, ")
    assert {row.evaluator for row in rows if not row.prompts} == {"duration"}
    assert not by_prompts[mine] & by_prompts["built-in"]
