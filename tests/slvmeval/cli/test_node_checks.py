"""What `doctor` says of a node on which it ran a probe."""

from __future__ import annotations

from typing import Any

import pytest

from infra.profile import Profile
from infra.slurm.node_calls import NodeAnswer
from slvmeval.cli.doctor.finding import CheckVerdict, Finding
from slvmeval.cli.doctor.nodes import node_findings

POOL = {"partition": "p", "cores": 2, "memory": "2GiB", "walltime": "01:00:00"}
GPU = {**POOL, "gpus": 1}
GOOD: dict[str, Any] = {"node": "n1", "python": "3.12.9", "gpus": [], "problems": [], "gpu_problems": []}


def findings(pool: str, answer: NodeAnswer, allow_cpu_models: bool = False) -> list[Finding]:
    values = {"pools": {"cpu": POOL, "h100": GPU}, "allow_cpu_models": allow_cpu_models}
    return node_findings(Profile.model_validate(values), pool, "n1", answer)


@pytest.mark.parametrize(("gpus", "shown"), [([], ""), (["NVIDIA H100"], ", NVIDIA H100")])
def test_a_node_on_which_all_is_well(gpus: list[str], shown: str) -> None:
    words = f"n1: Python 3.12.9, the same store and versions{shown}, reaches this machine"
    answer = NodeAnswer({**GOOD, "gpus": gpus})
    assert findings("h100", answer) == [Finding("node of h100", CheckVerdict.OK, words)]


def test_all_that_is_wrong_is_reported() -> None:
    bad = NodeAnswer({**GOOD, "problems": ["no store", "no cv2"], "gpu_problems": ["no GPU"]})
    wrong = [Finding("node of h100", CheckVerdict.FAIL, f"n1: no {what}") for what in ("store", "cv2", "GPU")]
    assert findings("h100", bad) == wrong
    warning = Finding("node of h100", CheckVerdict.WARN, "n1: no GPU")
    assert findings("h100", bad, allow_cpu_models=True) == [*wrong[:2], warning]


def test_a_missing_gpu_is_a_warning_where_models_may_run_without() -> None:
    bad = NodeAnswer({**GOOD, "gpu_problems": ["no GPU"]})
    good, warning = findings("h100", bad, allow_cpu_models=True)
    assert good.verdict is CheckVerdict.OK
    assert warning == Finding("node of h100", CheckVerdict.WARN, "n1: no GPU")


@pytest.mark.parametrize(("waited", "verdict"), [(True, CheckVerdict.UNSEEN), (False, CheckVerdict.FAIL)])
def test_a_node_that_did_not_answer(waited: bool, verdict: CheckVerdict) -> None:
    (finding,) = findings("cpu", NodeAnswer(None, waited, "job 7 ended. Its log:\nno python"))
    assert finding == Finding("node of cpu", verdict, "n1 was not checked: job 7 ended. Its log:; no python")
