"""Models of a process and their batches: loaded once, freed when others need the memory, halved to fit."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from tasks.models.add import add_model
from tasks.models.base import Box, Detector, Inpainter, OutOfMemory
from tasks.models.device import free_bytes, is_out_of_memory
from tasks.models.hub import ModelHub
from tasks.models.residence import Batches, Residence, residence

MEGABYTE = 1_000_000


class Card:
    """A device of a number of megabytes that counts what really lives on it."""

    def __init__(self, megabytes: float, a_picture: int = 0) -> None:
        self.size, self.a_picture = megabytes * MEGABYTE, a_picture * MEGABYTE
        self.loaded: list[str] = []
        self._alive: list[tuple[weakref.ref[object], float]] = []

    def free(self, device: str) -> int | None:
        gc.collect()
        taken = sum(size for ref, size in self._alive if ref() is not None)
        return None if device == "cpu" else int(self.size - taken)

    def take(self, needed: float, what: str, model: object | None = None) -> None:
        if (self.free("cuda") or 0) < needed:
            raise OutOfMemory(f"no room for {what}")
        if model is not None:
            self._alive.append((weakref.ref(model), needed))
            self.loaded.append(what)


class Model:
    """Takes memory of a card as long as somebody refers to it."""

    def __init__(self, card: Card, megabytes: float) -> None:
        card.take(megabytes * MEGABYTE, "a model", self)
        self.cycle = self  # as modules with hooks have them: only the collector frees it


def test_a_model_is_loaded_once_by_a_process() -> None:
    card = Card(100)
    held = Residence(card.free)
    first = held.get(("detector", "float32"), 10, lambda: Model(card, 10))
    assert held.get(("detector", "float32"), 10, lambda: Model(card, 10)) is first
    assert held.get(("detector", "bfloat16"), 10, lambda: Model(card, 10)) is not first
    assert len(card.loaded) == 2
    assert residence() is residence()
    assert free_bytes("cpu") is None


def test_the_least_recently_used_make_room(caplog: pytest.LogCaptureFixture) -> None:
    card = Card(100)
    held = Residence(card.free)
    for name in ("a", "b", "c"):
        held.get(name, 30 * MEGABYTE, lambda: Model(card, 30))
    held.get("a", 30 * MEGABYTE, lambda: pytest.fail("it is loaded"))
    with caplog.at_level("INFO"):
        held.get("d", 60 * MEGABYTE, lambda: Model(card, 60))
    assert held.names() == ["a", "d"]
    assert card.free("cuda") == 10 * MEGABYTE
    assert "model b freed: d does not fit beside it" in caplog.text
    assert "model a freed" not in caplog.text
    # the estimate is too low, so that nothing is freed before
    with caplog.at_level("INFO"):
        held.get("large", 1, lambda: Model(card, 90))
    assert held.names() == ["large"]
    assert "model a freed: large ran out of memory while loading" in caplog.text
    held.get("on the cpu", 1 << 40, object, device="cpu")
    assert held.names() == ["large", "on the cpu"]


def test_a_model_releases_what_no_reference_holds() -> None:
    released: list[str] = []

    class Session:
        def release(self) -> None:
            released.append("session")

    held = Residence(lambda device: 0 if "session" not in released else 100)
    held.get("session", 0, Session)
    held.get("other", 50, object)
    assert released == ["session"]


def test_a_model_that_never_fits_is_an_error_with_figures() -> None:
    card = Card(2000)
    held = Residence(card.free)
    held.get("a", 1_000_000_000, lambda: Model(card, 1000))
    with pytest.raises(PrerequisiteError, match=r"model huge does not fit.*5\.0 GB needed, 2\.0 GB free"):
        held.get(("huge", "file"), 5_000_000_000, lambda: Model(card, 5000))
    assert held.names() == []


def test_other_errors_of_a_load_pass_and_free_nothing() -> None:
    held = Residence(lambda device: 100)
    held.get("a", 1, object)

    def broken() -> object:
        raise RuntimeError("no such layer")

    with pytest.raises(RuntimeError, match="no such layer"):
        held.get("b", 1, broken)
    assert held.names() == ["a"]


def test_free_others_keeps_one() -> None:
    held = Residence(lambda device: 100)
    models = {name: held.get(name, 1, object) for name in ("a", "b", "c")}
    assert held.free_others("b") == ["a", "c"]
    assert held.names() == ["b"]
    held.get("a", 1, object)
    assert held.free_others(owner=models["b"]) == ["a"]
    held.get("a", 1, object)
    assert held.free_others() == ["b"]  # the last used stays


def test_threads_that_ask_at_once_load_one_model() -> None:
    held, loads, result = Residence(lambda device: None), [], []
    begun, asked = threading.Event(), threading.Event()

    def load() -> object:
        loads.append(1)
        begun.set()
        asked.wait(10)
        return object()

    threads = [threading.Thread(target=lambda: result.append(held.get("a", 1, load))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    asked.set()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert len(set(map(id, result))) == 1


@pytest.mark.models
def test_torch_running_out_of_memory_is_seen() -> None:
    import torch

    held, tries = Residence(lambda device: None), []
    held.get("a", 1, object)

    def load() -> object:
        tries.append(held.names())
        if len(tries) == 1:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return object()

    held.get("b", 1, load)
    assert tries == [["a"], []]


@pytest.mark.gpu
def test_a_gpu_has_room_again_after_a_model_was_freed() -> None:
    import torch

    free = torch.cuda.mem_get_info()[0]
    size = int(free * 0.6)
    held = Residence()
    for name in ("a", "b"):
        held.get(name, size, lambda: torch.empty(size, dtype=torch.uint8, device="cuda"))
    assert held.names() == ["b"]


# batches


Room = Callable[[int], None]


class Inverter(Inpainter):
    """Inverts pictures where `room` lets it work on that number at once."""

    def __init__(self, room: Room, requested: int = 8) -> None:
        self.batches = Batches(requested, owner=self)
        self.asked: list[int] = []
        self.room = room

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
            self.room(len(rgb[part]))
            return np.asarray(255 - rgb[part])

        return np.stack(self.batches.run(len(rgb), work))


def for_at_most(
    fits: Callable[[], int], error: Callable[[], Exception] = OutOfMemory
) -> Callable[[int], None]:
    """Return a room for that number of pictures at once."""

    def room(pictures: int) -> None:
        if pictures > fits():
            raise error()

    return room


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Residence:
    own = Residence(lambda device: None)
    monkeypatch.setattr("tasks.models.residence.residence", lambda: own)
    return own


def invert(model: Inpainter, count: int) -> None:
    rgb = np.arange(count * 12, dtype=np.uint8).reshape(count, 2, 2, 3)
    after = model.inpaint(rgb, np.ones((count, 2, 2), bool), "grass", "dog", range(count), 50, 7.5)
    np.testing.assert_array_equal(after, 255 - rgb)


def test_what_fits_runs_in_the_size_asked_for(held: Residence) -> None:
    model = Inverter(for_at_most(lambda: 100), 4)
    invert(model, 10)
    assert model.asked == [4, 4, 2]
    assert model.batches.sizes_ran == (4, 2)


def test_batches_are_halved_where_memory_runs_out(held: Residence, caplog: pytest.LogCaptureFixture) -> None:
    model = Inverter(for_at_most(lambda: 3), 16)
    invert(model, 20)
    assert model.asked == [16, 8, 4, *[2] * 10]
    assert (model.batches.sizes_ran, model.batches.requested) == ((2,), 16)
    assert "out of memory with 16 pictures at once: continuing with 8" in caplog.text
    # the learned size stays for the next clip
    model.asked.clear()
    invert(model, 4)
    assert model.asked == [2, 2]


def test_pictures_done_before_the_memory_ran_out_are_not_made_again(held: Residence) -> None:
    room = iter([4, 1, 1, 1, 1, 1, 1])
    model = Inverter(for_at_most(lambda: next(room)), 4)
    invert(model, 7)
    assert model.asked == [4, 3, 1, 1, 1]
    assert model.batches.sizes_ran == (4, 1)


def test_one_picture_gets_the_memory_of_the_other_models(held: Residence) -> None:
    room = for_at_most(lambda: 0 if "detector" in held.names() else 1)
    model = held.get("inpainter", 1, lambda: Inverter(room, 2))
    held.get("detector", 1, object)
    invert(model, 3)
    assert held.names() == ["inpainter"]
    assert model.asked == [2, 1, 1, 1, 1]


def test_one_picture_that_never_fits_ends_the_work_and_other_errors_pass(held: Residence) -> None:
    model = Inverter(for_at_most(lambda: 0, lambda: OutOfMemory("tried to allocate 9 GB")), 4)
    with pytest.raises(PrerequisiteError, match=r"a single picture does not fit.*tried to allocate 9 GB"):
        invert(model, 4)
    assert model.asked == [4, 2, 1, 1]
    model = Inverter(for_at_most(lambda: 0, lambda: RuntimeError("shapes do not match")), 4)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        invert(model, 4)
    assert model.asked == [4]


def test_batches_of_no_picture_and_of_other_results_are_errors() -> None:
    with pytest.raises(ValueError, match="2 results for a batch of 3 pictures"):
        Batches(4).run(3, lambda part: [1, 2])
    with pytest.raises(ValueError, match="at least 1"):
        Batches(0)


def test_the_tensors_of_a_batch_that_failed_are_gone_before_the_next(held: Residence) -> None:
    kept: list[weakref.ref[Any]] = []

    def work(part: slice) -> list[int]:
        assert all(ref() is None for ref in kept)
        tensor = np.zeros(1)
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
    model = Inverter(for_at_most(lambda: 2, lambda: kind(saying)))
    invert(model, 4)
    assert model.asked == [4, 2, 2]


def test_onnxruntime_running_out_of_memory_is_recognised() -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, RuntimeException

    output = "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 4096"
    assert is_out_of_memory(RuntimeException(output))
    assert is_out_of_memory(Fail(output))
    assert not is_out_of_memory(Fail("Invalid input name: x"))
    # anybody else's words are not proof
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


# both, with checkpoint folders and the hub


class Everywhere(Detector):
    """Finds everything in the whole picture."""

    def __init__(self, card: Card) -> None:
        card.take(40 * MEGABYTE, "detector", self)
        self.card = card

    def find(self, rgb: Planes, phrase: str, box_threshold: float, text_threshold: float) -> list[list[Box]]:
        self.card.take(len(rgb) * self.card.a_picture, "pictures")
        height, width = rgb.shape[1:3]
        return [[Box(left=0, top=0, right=width, bottom=height, score=1, label=phrase)] for _ in rgb]


def inverter_on(card: Card) -> Inverter:
    model = Inverter(lambda pictures: card.take(pictures * card.a_picture, "pictures"))
    card.take(40 * MEGABYTE, "inpainter", model)
    return model


@pytest.fixture
def hub_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Card], ModelHub]:
    """Makes a hub of two checkpoint folders that load onto a card."""
    for name, kind in (("finder", "detector"), ("painter", "inpainter")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        add_model(name, tmp_path / name, tmp_path / "models", kind=kind, memory_bytes=40 * MEGABYTE)

    def on(card: Card) -> ModelHub:
        own = Residence(card.free)
        kinds: dict[str, Callable[[Card], Any]] = {"detector": Everywhere, "inpainter": inverter_on}
        monkeypatch.setattr("tasks.models.hub.residence", lambda: own)
        monkeypatch.setattr("tasks.models.residence.residence", lambda: own)
        monkeypatch.setattr("tasks.models.hub.load_model", lambda kind, path, device: kinds[kind](card))
        return ModelHub([tmp_path / "models"], device="cuda")

    return on


@pytest.mark.parametrize(
    ("card", "pictures", "ran", "loaded"),
    [
        (Card(200, 10), 8, 8, ["detector", "inpainter"]),
        # only one model fits at a time, and 30 MB are left for pictures
        (Card(70, 10), 8, 2, ["detector", "inpainter"] * 2),
        # the batch is halved before another model goes
        (Card(120, 30), 4, 1, ["detector", "inpainter"]),
    ],
)
def test_models_stay_where_they_fit_and_take_turns_elsewhere(
    card: Card, pictures: int, ran: int, loaded: list[str], hub_on: Callable[[Card], ModelHub]
) -> None:
    hub = hub_on(card)
    rgb = np.zeros((pictures, 2, 2, 3), np.uint8)
    for _ in range(2):
        # each model is asked for when it works, as an operation does
        for picture in rgb:
            assert len(hub.get("finder").find(picture[None], "ball", 0.4, 0.3)) == 1
        invert(hub.get("painter"), pictures)
    assert card.loaded == loaded
    assert hub.get("painter").batches.sizes_ran == (ran,)


def test_another_model_goes_where_one_picture_does_not_fit(hub_on: Callable[[Card], ModelHub]) -> None:
    card = Card(100, 30)
    hub = hub_on(card)
    hub.get("finder")
    # one picture takes 30 MB, and 20 are left beside the detector
    invert(hub.get("painter"), 2)
    assert hub.get("painter").batches.sizes_ran == (1,)
    assert card.loaded == ["detector", "inpainter"]
    hub.get("finder")
    assert card.loaded == ["detector", "inpainter", "detector"]


def test_a_card_that_is_too_small_is_named_with_figures(hub_on: Callable[[Card], ModelHub]) -> None:
    said = r"model finder does not fit .*4\d\.\d MB needed, 3\d\.\d MB free"
    with pytest.raises(PrerequisiteError, match=said):
        hub_on(Card(30, 1)).get("finder")
