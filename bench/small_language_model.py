"""How well a small real language model analyses captions: ``python -m bench.small_language_model``.

SmolLM2-135M-Instruct (Q4_1) answers through the same client, prompt and schema as Qwen3-8B in the paper,
once with the answer constrained to the schema token by token, once free. The captions are those of the
rules' tests, which contain people's answers. Writes the page `build/results/small-language-model.md`. Needs
``make env-models``, the package `gguf`, and ``slvmeval models add smollm2-135m``; it takes an hour, and
stores its measurements in `build/bench/small_language_model`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.commit import write_atomic
from storage_schemas.model import ModelServer
from tasks.captions.llm import LlmAnalyser, LlmParameters
from tasks.captions.rules import RulesAnalyser
from tasks.llm.servers import Servers
from tasks.models.hub import ModelHub
from tasks.pairs.analyser_comparison import entries, overlap
from tests.tasks.captions.test_rules import CAPTIONS, plain
from tests.tiny_models.openai_server import ChatModel, ChatModelServer

ROOT = Path(__file__).resolve().parents[1]
NAME = "smollm2-135m"
#: Limits of a field: number of entries, and letters per entry.
ITEMS, LETTERS = 4, 40


def measure(server: ChatModelServer, captions: int, most_tokens: int) -> dict[str, Any]:
    """Analyse some of the captions; return the shares that fit the schema and agree with rules and people."""
    parameters = LlmParameters.model_validate(
        {"model": NAME, "thinking": False, "tries": 1, "most_tokens": most_tokens, "most_items": ITEMS}
        # greedy: the paper's sampling is Qwen3's, and derails a small model
        | {"most_letters": LETTERS, "temperature": 0.0, "repetition_penalty": 1.05}
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
        # without an analysis nothing can be right
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
        "most_tokens": most_tokens,
        "fit_the_schema": fits,
        "overlap_with_rules": {name: round(sum(all_) / len(all_), 3) for name, all_ in sorted(alike.items())},
        "fields_as_people_say": {who: f"{right} of {total}" for who, (right, total) in people.items()},
        "seconds_a_caption": round((time.monotonic() - began) / captions, 1),
    }


_PAGE = """# A language model of 135 million parameters reads captions

Caption analysis extracts what a caption names: `cpu-approx` uses rules, the paper Qwen3-8B. Here
SmolLM2-135M-Instruct (Q4_1, real weights, on a CPU) takes Qwen3-8B's place, with the same client, prompt,
schema and checks. `python -m bench.small_language_model` wrote this page from {captions} captions of our
tests, each with people's answers.

| | answers held to the schema | free answers |
|---|---|---|
{rows}

The rules were written with these captions as tests, so their row does not measure them. Answers held to the
schema have its form but rarely its sense: the path works, the model is too small, and a valid form says
nothing about an analysis. `slvmeval captions rules llm` compares analysers on your captions; use rules where
a model of the paper's size cannot be served.

Greedy decoding, at most {most_tokens} tokens, {items} entries of {letters} letters in a field, one attempt.
"Overlap": mean intersection over union of a field's entries where either names any.
"""


def page(held: dict[str, Any], free: dict[str, Any]) -> str:
    """Return the page."""
    rows = [
        ("fit the schema", *(f"{one['fit_the_schema']} of {one['captions']}" for one in (held, free))),
        ("fields as people say", *(one["fields_as_people_say"][NAME] for one in (held, free))),
        (
            "fields as people say, by the rules",
            *(one["fields_as_people_say"]["rules"] for one in (held, free)),
        ),
    ]
    for name in CaptionAnalysis.model_fields:
        shares = [one["overlap_with_rules"].get(name) for one in (held, free)]
        shown = ("–" if share is None else f"{share:.2f}" for share in shares)
        rows.append((f"overlap with the rules: `{name}`", *shown))
    return _PAGE.format(
        captions=held["captions"],
        rows="\n".join(f"| {' | '.join(row)} |" for row in rows),
        most_tokens=held["most_tokens"],
        items=ITEMS,
        letters=LETTERS,
    )


def main() -> None:
    """Measure constrained and free answers, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.small_language_model", description=__doc__)
    parser.add_argument("--models", type=Path, default=ROOT / "build/models")
    parser.add_argument("--kept", type=Path, default=ROOT / "build/bench/small_language_model")
    parser.add_argument("--captions", type=int, default=len(CAPTIONS))
    parser.add_argument("--most-tokens", type=int, default=900)
    parser.add_argument("--out", type=Path, default=ROOT / "build/results/small-language-model.md")
    chosen = parser.parse_args()
    results = []
    for held in (True, False):
        kept = chosen.kept / f"{'held' if held else 'free'}.json"
        if not kept.is_file():
            found = ModelHub([chosen.models]).find(NAME)
            model = ChatModel(found.path, NAME, held, found.weights.name)
            with ChatModelServer(model) as server:
                result = measure(server, chosen.captions, chosen.most_tokens)
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(kept, json.dumps(result, indent=1).encode())
        results.append(json.loads(kept.read_text(encoding="utf-8")))
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(chosen.out, page(*results).encode())
    print(chosen.out)


if __name__ == "__main__":
    main()
