"""GPU hours from the table of seconds a frame."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from storage_schemas.errors import IntegrityError
from tasks.aspects import speeds as speeds_module
from tasks.aspects.base import Parameters
from tasks.aspects.registry import BUILT_IN, aspect
from tasks.aspects.speeds import (
    SPEED_KINDS,
    GpuWork,
    Speed,
    gpu_hours,
    measured_speeds,
    speeds,
    time_fields,
    write_speeds,
)


class Steps(Parameters):
    steps: int = 40
    step_cache: float = 0.0


class Swapped(Steps):
    editor: str = "mine"


class NoSteps(Parameters):
    pass


SURE = Speed(operation="cut", device="h100", least_s=3.6, most_s=3.6, kind="measured", source="on a node")
ROW = SURE.model_copy(
    update={"operation": "edit", "least_s": 18, "most_s": 36, "steps": 40, "step_cache_share": 0.5}
    | {"kind": "estimate", "source": "estimated"}
)


def edits(parameters: Parameters, frames: int = 100, **more: int) -> GpuWork:
    return GpuWork("color", "edit", parameters, frames, **more)


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {(row.operation, row.device): row for row in (ROW, SURE)}
    monkeypatch.setattr(speeds_module, "speeds", lambda: rows)


def test_seconds_follow_the_steps_and_the_step_cache() -> None:
    assert ROW.seconds(Steps()) == (18, 36)
    assert ROW.seconds(Steps(steps=10)) == (4.5, 9)
    assert ROW.seconds(Steps(step_cache=0.2)) == (9, 18)
    assert ROW.seconds(NoSteps()) == (18, 36)
    assert SURE.seconds(Steps(steps=10)) == (3.6, 3.6)


def test_hours_are_summed_by_aspect_and_as_sure_as_the_least_sure() -> None:
    work = [
        edits(Steps()),
        edits(Steps(steps=20), 200),
        GpuWork("background_consistency", "cut", NoSteps(), 1000),
    ]
    color = {"hours": 1.5, "least": 1.0, "most": 2.0, "kind": "estimate"}
    cut = {"hours": 1.0, "least": 1.0, "most": 1.0, "kind": "measured"}
    assert gpu_hours(work) == {
        "hours": 2.5,
        "least": 2.0,
        "most": 3.0,
        "kind": "estimate",
        "by_aspect": {"color": color, "background_consistency": cut},
        "sources": {"edit": "estimate: estimated", "cut": "measured: on a node"},
        "not_known": {},
    }


def test_an_operation_without_a_row_is_not_counted_as_nothing() -> None:
    other = GpuWork("glare", "my-glare", NoSteps(), 7)
    nothing = {"hours": None, "least": None, "most": None, "kind": None}
    alone = gpu_hours([other, other])
    glare = {"by_aspect": {"glare": nothing}, "sources": {}, "not_known": {"my-glare": 14}}
    assert alone == {**nothing, **glare}
    both = gpu_hours([other, edits(Steps())])
    assert (both["hours"], both["not_known"]) == (0.75, {"my-glare": 7})
    assert gpu_hours([edits(Steps())], device="a100")["hours"] is None


def test_a_row_says_nothing_of_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROW.model_copy(update={"only": {"editor": "theirs"}})
    monkeypatch.setattr(speeds_module, "speeds", lambda: {("edit", "h100"): row})
    assert gpu_hours([edits(Swapped(editor="theirs"))])["hours"] == 0.75
    assert gpu_hours([edits(Swapped())])["not_known"] == {"edit": 100}


def test_a_measured_speed_of_the_same_work_counts_first_and_the_newest_of_them(tmp_path: Path) -> None:
    parameters = Swapped(editor="mine")
    only = time_fields(parameters, ["mine", "backgrounds:procedural"])
    assert only == {"editor": "mine", "step_cache": 0.0}
    old = ROW.model_copy(update={"least_s": 9, "most_s": 9, "kind": "measured", "source": "x", "only": only})
    new = old.model_copy(update={"least_s": 7.2, "most_s": 7.2, "source": "by a check"})
    write_speeds(tmp_path, "20261123T100000-n1-7", [new])
    write_speeds(tmp_path, "20261122T100000-n1-9", [old])
    measured = measured_speeds(tmp_path)
    assert measured == [new, old]
    hours = gpu_hours([edits(parameters, 1000)], measured=measured)
    assert (hours["hours"], hours["kind"]) == (2.0, "measured")
    assert hours["sources"] == {"edit": "measured: by a check"}
    # half the steps take half the time; another step cache, model or size of frames was not measured
    assert gpu_hours([edits(Swapped(steps=20), 1000)], measured=measured)["hours"] == 1.0
    for other in (
        edits(Swapped(step_cache=0.1), 1000),
        edits(Swapped(editor="theirs"), 1000),
        edits(parameters, 1000, long_side=256),
    ):
        assert gpu_hours([other], measured=measured)["sources"] == {"edit": "estimate: estimated"}


@pytest.mark.parametrize("content", ["{", '[{"operation": "x"}]'])
def test_a_damaged_file_of_speeds_is_named(tmp_path: Path, content: str) -> None:
    assert measured_speeds(tmp_path) == [], "a site that was never checked has measured nothing"
    write_speeds(tmp_path, "one", []).write_text(content)
    with pytest.raises(IntegrityError, match=r"one\.json does not hold speeds.*doctor --gpu"):
        measured_speeds(tmp_path)


def test_work_without_a_gpu_takes_no_hours_and_a_range_upside_down_is_refused() -> None:
    result = gpu_hours([])
    assert (result["hours"], result["by_aspect"], result["not_known"]) == (0, {}, {})
    with pytest.raises(ValidationError, match="least_s is above most_s"):
        Speed(operation="x", device="h100", least_s=2, most_s=1, kind="measured", source="s")


def test_each_operation_of_the_gpus_pool_has_a_row_with_its_default_steps() -> None:
    wanted = {
        operation.name: operation
        for name in BUILT_IN
        for operation in aspect(name).operations.values()
        if operation.hardware == "gpu"
    }
    rows = speeds()
    assert {operation for operation, _ in rows} >= set(wanted)
    for (name, _), row in rows.items():
        assert row.kind in SPEED_KINDS
        if name in wanted:
            assert row.holds(wanted[name].parameters())
            assert wanted[name].parameters().model_dump().get("steps") == row.steps
