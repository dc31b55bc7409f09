"""The conformance test accepts the documentation's example and finds each kind of violation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from pydantic import ConfigDict

from slvmeval.testing import ConformanceError, check_aspect, synthetic_clip
from storage_schemas.frames import Planes
from tasks.aspects.base import (
    Arrangement,
    Aspect,
    ClipContext,
    ClipSpan,
    Control,
    FrameMapOperation,
    Operation,
    OrderOperation,
    Parameters,
    PixelOperation,
    Scale,
    any_clip,
)
from tasks.models.base import Models
from tests.slvmeval.cli.running import lacks

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-aspect.md"
SMALL = synthetic_clip(3, 32, 48)


class Nothing(Parameters):
    pass


class Invert(PixelOperation[Nothing]):
    name = "invert"
    parameters_type = Nothing
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 1.0

    def apply(self, frames: Planes, *_: Any) -> Planes:
        return 255 - frames


class Shows(FrameMapOperation[Nothing]):
    name = "shows"
    parameters_type = Nothing
    threshold = 0.5


class Arranges(OrderOperation[Nothing]):
    name = "arranges"
    parameters_type = Nothing

    def most(self, clips: int, parameters: Nothing) -> int:
        return clips // 2


def made(base: type[Any], **body: Any) -> Any:
    """An operation like `base`, with other attributes."""
    return type("Made", (base,), body)()


def with_operation(operation: Operation[Any]) -> Aspect:
    return Aspect("grain", "grain", "quality", "nothing", any_clip, {operation.name: operation})


def check_breaches(aspect: Aspect, *words: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_aspect(aspect, clip=SMALL)
    assert not lacks("\n".join(caught.value.breaches), *words)


def test_the_documentations_example_conforms() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module = SimpleNamespace()
    exec(compile(blocks[0], str(PAGE), "exec"), module.__dict__)
    check_aspect(module.ASPECT)
    assert "check_aspect(ASPECT)" in blocks[1]


def test_a_good_aspect_passes() -> None:
    check_aspect(with_operation(Invert()), clip=SMALL)


def test_an_aspects_own_fields() -> None:
    wrong = replace(
        with_operation(Invert()),
        **{"name": "Not A Name", "dimension": "", "category": "other", "needs": "", "least_clips": 0},
        takes=lambda analysis, clip: 0,
        operations={"another-name": Invert()},
    )
    fields = ("'Not A Name'", "dimension", "category", "needs", "least_clips")
    check_breaches(wrong, *fields, "return a bool", "listed as")
    check_breaches(replace(wrong, operations={}), "no operation")


def test_parameters_and_presets() -> None:
    class Loose(Parameters):
        model_config = ConfigDict(frozen=True, extra="ignore")
        level: int = 1

    strengths = {"paper": {"level": 2}, "same": {"level": 2}, "custom-weak": {}}
    wrong = made(Invert, name="Wrong Name", version=0, parameters_type=Loose, strengths=strengths)
    presets = ("own defaults", "are the same", "names that begin with 'custom'")
    fields = ("'Wrong Name'", "version", "unknown fields", "does not raise UserInputError")
    check_breaches(with_operation(wrong), *fields, *presets)


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (Scale("depth", float, float), "no field 'depth'"),
        (Scale("level", lambda strength: 1 - strength, lambda level: 1 - level), "'paper' is not 1"),
        (Scale("level", lambda strength: 1.0, float), "do not rise"),
        (Scale("level", lambda strength: strength / 2, float), "at 1 have the strength 0.5"),
    ],
)
def test_scale_of_strengths(scale: Scale, words: str) -> None:
    class Graded(Parameters):
        level: float = 1.0

    check_breaches(with_operation(made(Invert, parameters_type=Graded, scale=scale)), words)


def writes(frames: Planes) -> Planes:
    frames[:] = 0
    return frames


def breaks(_: Planes) -> Planes:
    raise RuntimeError("out of film")


def drawn() -> np.random.Generator:
    return np.random.default_rng()


@pytest.mark.parametrize(
    ("apply", "words"),
    [
        (writes, ["read-only"]),
        (lambda frames: frames[:, ::2].astype(np.float32), ["float32"]),
        (
            lambda frames: drawn().integers(0, 256, frames.shape, dtype=np.uint8),
            ["pixels the second time", "makes a different choice", "not JSON"],
        ),
        (lambda frames: np.broadcast_to(255 - frames[:1], frames.shape).copy(), ["batches of two"]),
        (lambda frames: frames.copy(), ["less than the threshold"]),
        (breaks, ["raised RuntimeError: out of film"]),
    ],
)
def test_what_pixel_operations_do_wrong(apply: Callable[[Any], Any], words: list[str]) -> None:
    def choose(*_: Any) -> dict[str, Any]:
        return {"place": drawn().integers(1 << 40), "set": {1}} if len(words) > 1 else {}

    operation = made(Invert, apply=lambda _self, frames, *_: apply(frames), choose=choose)
    check_breaches(with_operation(operation), *words)


class Lamp:
    """A model of the author's own."""

    checksum = "0123"


class Lamps(Models):
    def get(self, name: str, **options: str | float | bool) -> Any:
        return Lamp()


class Lit(Invert):
    def apply(self, frames: Planes, first: int, clip: ClipContext, *_: Any) -> Planes:
        assert isinstance(clip.models.get("lamp"), Lamp)
        return 255 - frames


def test_a_model_that_is_used_is_consumed() -> None:
    with pytest.raises(ConformanceError, match="uses model 'lamp', which consumed_models does not name"):
        check_aspect(with_operation(Lit()), clip=SMALL, models=Lamps())
    declared = made(Lit, models=("lamp",))
    check_aspect(with_operation(declared), clip=SMALL, models=Lamps())
    assert declared.consumed_models(Nothing(), Lamps()) == {"lamp": "0123"}


def test_an_operation_is_given_nothing_that_is_in_no_id() -> None:
    # `read` gives the clip's own frames, which are part of its id; `log` returns nothing
    given = {"span", "color", "analysis", "seed", "models", "read", "log"}
    assert {field.name for field in fields(ClipContext)} == given


def frame_map(mapping: Callable[[int], list[int]]) -> Aspect:
    return with_operation(made(Shows, frame_map=lambda _self, count, _parameters: mapping(count)))


def test_what_frame_maps_do_wrong() -> None:
    check_aspect(frame_map(lambda count: [count // 2] * count), clip=SMALL)
    check_breaches(frame_map(lambda count: [count] * count), "does not have")
    check_breaches(frame_map(lambda count: [0]), "maps 1 positions")
    check_breaches(frame_map(lambda count: list(range(count))), "own position")


def order(arrange: Any, least: int = 2) -> Aspect:
    def rearrange(_self: Any, clips: Sequence[ClipSpan], count: int, *_: Any) -> Arrangement:
        order, drawn = arrange([clip.index for clip in clips], count)
        return Arrangement(tuple(order), tuple(drawn))

    return with_operation(made(Arranges, rearrange=rearrange, most=lambda _self, clips, _: clips // least))


@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (lambda clips, n: (clips, clips[:n]), "nothing is removed"),
        (lambda clips, n: (clips + clips[:1], clips[:n]), "at most once"),
        (lambda clips, n: (clips[n:], []), "are not 1 of"),
        (lambda clips, n: (clips[n:], clips[-n:]), "not drawn"),
        (lambda clips, n: (clips[::-1], clips[:n]), "change order"),
        (lambda clips, n: (clips[:n] + clips[2 * n :], clips[n : 2 * n]), "is not a subset of"),
    ],
)
def test_what_orders_do_wrong(arrange: Any, words: str) -> None:
    check_breaches(order(arrange), words)


def test_an_order_removes_less_than_half() -> None:
    check_aspect(order(lambda clips, n: (clips[n:], clips[:n])), clip=SMALL)
    check_breaches(order(lambda clips, n: (clips[n:], clips[:n]), least=1), "at least half")


def trims(lost: int) -> Any:
    """Return an operation that cuts this number of frames from each drawn clip."""

    def rearrange(_self: Any, clips: Sequence[ClipSpan], count: int, *_: Any) -> Arrangement:
        some = {clip.index: clip.frame_count - lost for clip in clips[:count]}
        return Arrangement(tuple(clip.index for clip in clips), tuple(some), some)

    return made(Arranges, name="trims", rearrange=rearrange)


MOVED = made(Invert, name="moved")
STILL = made(Invert, name="still", apply=lambda _self, frames, *_: frames)


def with_control(**fields: Any) -> Aspect:
    fixed = {"operation": MOVED, "takes": any_clip, "needs": "nothing", "reason": "both are grey"}
    return replace(with_operation(Invert()), control=Control(**{**fixed, **fields}))


@pytest.mark.parametrize("operation", [MOVED, trims(1)])
def test_an_aspect_with_a_control_conforms(operation: Operation[Any]) -> None:
    check_aspect(with_control(operation=operation), clip=SMALL)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"operation": STILL}, "operation still: preset 'paper': changes 0.000 steps"),
        ({"operation": trims(0)}, "keeps 10 of 10 frames"),
        ({"copies": ("model",)}, "control: copies 'model', which its operation lacks"),
        ({"reason": ""}, "control: needs or reason is empty"),
        ({"max_difference": 0.0}, "control: max_difference is 0.0"),
        ({"takes": lambda analysis, clip: None}, "control: takes does not return a bool"),
    ],
)
def test_what_is_wrong_with_a_control(fields: dict[str, Any], found: str) -> None:
    check_breaches(with_control(**fields), found)
