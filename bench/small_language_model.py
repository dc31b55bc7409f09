"""How well a small real language model analyses captions: ``python -m bench.small_language_model``.

SmolLM2-135M-Instruct (Q4_1) answers through the same client, prompt and schema as Qwen3-8B in the paper, once
with an answer held to the schema token by token, once free. The captions are those of the rules' tests, which
say what people find in them. Needs ``make env-models``, the package `gguf`, and ``slvmeval models fetch
smollm2-135m``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.model import ModelServer
from tasks.captions.llm import LlmAnalyser, LlmParameters
from tasks.captions.rules import RulesAnalyser
from tasks.llm.servers import Servers
from tasks.models.hub import ModelHub
from tasks.pairs.analyser_comparison import entries, overlap
from tests.tasks.captions.test_rules import CAPTIONS, plain
from tests.tiny_models.openai_server import ChatModel, ChatModelServer

NAME = "smollm2-135m"


def measure(server: ChatModelServer, captions: int, most_tokens: int) -> dict[str, Any]:
    """Analyse some of the captions; return what fits the schema and what agrees with rules and people."""
    parameters = LlmParameters.model_validate(
        {"model": NAME, "thinking": False, "tries": 1, "most_tokens": most_tokens, "most_items": 4}
        # greedy: the paper's sampling is Qwen3's, and a small model loses itself with it
        | {"most_letters": 40, "temperature": 0.0, "repetition_penalty": 1.05}
    )
    servers = Servers({"caption-analysis": ModelServer(url=server.url, timeout_s=600.0)})
    analyser, rules = LlmAnalyser(parameters, servers), RulesAnalyser()
    step = max(1, len(CAPTIONS) // captions)
    fits, began = 0, time.monotonic()
    alike: dict[str, list[float]] = defaultdict(list)
    people = {"rules": [0, 0], NAME: [0, 0]}
    for caption, expected in CAPTIONS[::step][:captions]:
        (ruled,), (found,) = rules.analyse([caption]), analyser.analyse([caption])
        fits += isinstance(found, CaptionAnalysis)
        # without an analysis there is nothing that could be right
        sets = {"rules": plain(ruled), NAME: plain(found) if isinstance(found, CaptionAnalysis) else {}}
        for who, given in sets.items():
            people[who][0] += sum(given.get(name) == value for name, value in expected.items())
            people[who][1] += len(expected)
        if isinstance(found, CaptionAnalysis):
            for name in CaptionAnalysis.model_fields:
                one, other = entries(ruled, name), entries(found, name)
                if one or other:
                    alike[name].append(overlap(one, other))
        print(json.dumps({"caption": caption, "fits": isinstance(found, CaptionAnalysis)}), flush=True)
    return {
        "captions": captions,
        "fit_the_schema": fits,
        "overlap_with_rules": {name: round(sum(all_) / len(all_), 3) for name, all_ in sorted(alike.items())},
        "fields_as_people_say": {who: f"{right} of {total}" for who, (right, total) in people.items()},
        "seconds_a_caption": round((time.monotonic() - began) / captions, 1),
    }


def main() -> None:
    """Measure held and free answers."""
    parser = argparse.ArgumentParser(prog="python -m bench.small_language_model", description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("build/models"))
    parser.add_argument("--captions", type=int, default=len(CAPTIONS))
    parser.add_argument("--most-tokens", type=int, default=900)
    chosen = parser.parse_args()
    found = ModelHub([chosen.models]).find(NAME)
    for held in (True, False):
        model = ChatModel(found.path, NAME, held, found.weights.name)
        with ChatModelServer(model) as server:
            result = measure(server, chosen.captions, chosen.most_tokens)
        print(json.dumps({"held_to_the_schema": held, **result}, indent=1), flush=True)


if __name__ == "__main__":
    main()
