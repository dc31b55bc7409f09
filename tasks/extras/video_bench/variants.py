"""The ablations and comparisons of Video-Bench's tables 2 to 7, each as settings of the suite."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.scoring.suites.base import Variant

#: By name, in the order of the paper's tables.
VARIANTS: Mapping[str, Variant] = {
    "baselines": Variant(title="Metrics of other benchmarks", settings={"baselines": True}, source="table 2"),
    "single-request": Variant(
        title="One request: HU–GPT", settings={"single_request": True}, source="table 3"
    ),
    "without-few-shot": Variant(
        title="Without few-shot scoring: 1 shot", settings={"shots": 1}, source="tables 4 (a), 7"
    ),
    "without-chain-of-query": Variant(
        title="Without chain of query", settings={"chain_of_query": False}, source="table 4 (b)"
    ),
    "without-grid": Variant(title="Without grid view", settings={"grid": False}, source="table 3"),
    "gpt-4o-2024-05-13": Variant(
        title="Base model GPT-4o-0513", settings={"multimodal": "gpt-4o-2024-05-13"}, source="table 5"
    ),
    "gpt-4o-2024-11-20": Variant(
        title="Base model GPT-4o-1120", settings={"multimodal": "gpt-4o-2024-11-20"}, source="table 5"
    ),
    "3-shot": Variant(title="3 shots", settings={"shots": 3}, source="table 7"),
    "5-shot": Variant(title="5 shots", settings={"shots": 5}, source="table 7"),
}
