"""Batches that are halved where the memory runs out, through the interface of a planted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from tasks.models import residence as batches_module
from tasks.models.base import Inpainter, OutOfMemory
from tasks.models.device import is_out_of_memory
from tasks.models.residence import Batches, Residence


class SmallCard(Inpainter):
    """Inverts pictures; more than `fits` at once do not fit."""

    def __init__(self, fits: Callable[[], int], requested: int, error: Callable[[], Exception]) -> None:
        self.batches = Batches(requested, owner=self)
        self.asked: list[int] = []
        self._fits, self._error = fits, error

    def inpaint(
        self,
        rgb: Planes,
        masks: NDArray[np.bool_],
        prompt: str,
        negative: str,
        seeds: Sequence[int],
        steps: int,
        guidance: float,
    ) -> Planes:
        def work(part: slice) -> Planes:
            self.asked.append(len(rgb[part]))
            if len(rgb[part]) > self._fits():
                raise self._error()
            return np.asarray(255 - rgb[part])

        return np.stack(self.batches.run(len(rgb), work))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Residence]:
    own = Residence(lambda device: None)
    monkeypatch.setattr(batches_module, "residence", lambda: own)
    yield own


def _inpaint(model: Inpainter, count: int) -> None:
    rgb = np.arange(count * 12, dtype=np.uint8).reshape(count, 2, 2, 3)
    masks = np.ones((count, 2, 2), bool)
    after = model.inpaint(rgb, masks, "grass", "dog", list(range(count)), 50, 7.5)
    np.testing.assert_array_equal(after, 255 - rgb)


def test_what_fits_runs_in_the_size_asked_for(held: Residence) -> None:
    model = SmallCard(lambda: 100, 4, OutOfMemory)
    _inpaint(model, 10)
    assert model.asked == [4, 4, 2]
    assert model.batches.sizes_ran == (4, 2)


def test_out_of_memory_halves_the_batch_and_goes_on(
    held: Residence, caplog: pytest.LogCaptureFixture
) -> None:
    model = SmallCard(lambda: 3, 16, OutOfMemory)
    _inpaint(model, 20)
    assert model.asked == [16, 8, 4, *[2] * 10]
    assert model.batches.sizes_ran == (2,)
    assert model.batches.requested == 16
    assert "out of memory with 16 pictures at once: continuing with 8" in caplog.text
    # the learned size stays for the next clip
    model.asked.clear()
    _inpaint(model, 4)
    assert model.asked == [2, 2]


def test_pictures_done_before_the_memory_ran_out_are_not_made_again(held: Residence) -> None:
    room = iter([4, 4, 2, 2, 2])
    model = SmallCard(lambda: next(room), 4, OutOfMemory)
    _inpaint(model, 10)
    assert model.asked == [4, 4, 2]
    room = iter([4, 1, 1, 1, 1, 1, 1])
    model = SmallCard(lambda: next(room), 4, OutOfMemory)
    _inpaint(model, 7)
    assert model.asked == [4, 3, 1, 1, 1]
    assert model.batches.sizes_ran == (4, 1)


def test_one_picture_gets_the_memory_of_the_other_models(held: Residence) -> None:
    model = held.get(
        "inpainter", 1, lambda: SmallCard(lambda: 0 if "detector" in held.names() else 1, 2, OutOfMemory)
    )
    held.get("detector", 1, object)
    _inpaint(model, 3)
    assert held.names() == ["inpainter"]
    assert model.asked == [2, 1, 1, 1, 1]


def test_one_picture_that_never_fits_ends_the_work(held: Residence) -> None:
    model = SmallCard(lambda: 0, 4, lambda: OutOfMemory("tried to allocate 9 GB"))
    with pytest.raises(PrerequisiteError, match=r"a single picture does not fit.*tried to allocate 9 GB"):
        _inpaint(model, 4)
    assert model.asked == [4, 2, 1, 1]


def test_other_errors_pass(held: Residence) -> None:
    model = SmallCard(lambda: 0, 4, lambda: RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        _inpaint(model, 4)
    assert model.asked == [4]


def test_a_wrong_number_of_results_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 results for a batch of 3 pictures"):
        Batches(4).run(3, lambda part: [1, 2])


def test_a_batch_has_at_least_one_picture() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Batches(0)


def test_the_tensors_of_a_batch_that_failed_are_gone_before_the_next(held: Residence) -> None:
    import weakref

    class Tensor:
        pass

    kept: list[weakref.ref[Tensor]] = []

    def work(part: slice) -> list[int]:
        assert all(ref() is None for ref in kept)
        tensor = Tensor()
        kept.append(weakref.ref(tensor))
        if part.stop - part.start > 1:
            raise OutOfMemory
        return [1]

    assert Batches(4).run(2, work) == [1, 1]


@pytest.mark.models
@pytest.mark.parametrize(
    "saying", ["CUDA out of memory. Tried to allocate 2.00 GiB", "CUBLAS_STATUS_ALLOC_FAILED"]
)
def test_torch_running_out_of_memory_halves_the_batch(held: Residence, saying: str) -> None:
    import torch

    kind = torch.cuda.OutOfMemoryError if "CUDA" in saying else RuntimeError
    model = SmallCard(lambda: 2, 8, lambda: kind(saying))
    _inpaint(model, 4)
    assert model.asked == [4, 2, 2]


def test_onnxruntime_running_out_of_memory_is_recognised() -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, RuntimeException

    output = "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 4096"
    assert is_out_of_memory(RuntimeException(output))
    assert is_out_of_memory(Fail(output))
    assert not is_out_of_memory(Fail("Invalid input name: x"))
    # anybody else's words are no proof
    assert not is_out_of_memory(ValueError(output))


@pytest.mark.gpu
def test_a_real_gpu_halves_the_batch() -> None:
    import torch

    free = torch.cuda.mem_get_info()[0]
    batches = Batches(8)

    def work(part: slice) -> list[int]:
        count = part.stop - part.start
        torch.empty(int(free * 0.3) * count, dtype=torch.uint8, device="cuda")
        return [1] * count

    assert batches.run(8, work) == [1] * 8
    assert batches.size == 2
