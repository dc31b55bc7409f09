"""Models of a process: loaded once, freed when another needs the memory."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

from storage_schemas.errors import PrerequisiteError
from tasks.models.base import OutOfMemory
from tasks.models.device import free_bytes
from tasks.models.residence import Residence, residence


class Card:
    """A device of a fixed size that counts the models which are really alive."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.alive: list[weakref.ref[Model]] = []

    def free(self, device: str) -> int | None:
        gc.collect()
        if device == "cpu":
            return None
        models = [model for model in (ref() for ref in self.alive) if model is not None]
        return self.size - sum(model.bytes for model in models)


class Model:
    """Takes memory of a card as long as somebody refers to it."""

    def __init__(self, card: Card, needed: int) -> None:
        if (card.free("cuda") or 0) < needed:
            raise OutOfMemory(f"tried to allocate {needed} bytes")
        self.bytes = needed
        self.cycle = self  # as modules with hooks have them: only the collector frees it
        card.alive.append(weakref.ref(self))


def test_a_model_is_loaded_once() -> None:
    card, loads = Card(100), []
    held = Residence(card.free)

    def load() -> Model:
        loads.append(1)
        return Model(card, 10)

    first = held.get(("detector", "float32"), 10, load)
    assert held.get(("detector", "float32"), 10, load) is first
    assert held.get(("detector", "bfloat16"), 10, load) is not first
    assert len(loads) == 2


def test_the_least_recently_used_make_room(caplog: pytest.LogCaptureFixture) -> None:
    card = Card(100)
    held = Residence(card.free)
    for name in ("a", "b", "c"):
        held.get(name, 30, lambda: Model(card, 30))
    held.get("a", 30, lambda: pytest.fail("it is loaded"))
    with caplog.at_level("INFO"):
        held.get("d", 60, lambda: Model(card, 60))
    assert held.names() == ["a", "d"]
    assert card.free("cuda") == 10
    assert "model b freed: d does not fit beside it" in caplog.text
    assert "model a freed" not in caplog.text


def test_a_model_releases_what_no_reference_holds() -> None:
    released: list[str] = []

    class Session:
        def release(self) -> None:
            released.append("session")

    held = Residence(lambda device: 0 if "session" not in released else 100)
    held.get("session", 0, Session)
    held.get("other", 50, object)
    assert released == ["session"]


def test_on_the_cpu_nothing_makes_room() -> None:
    card = Card(10)
    held = Residence(card.free)
    held.get("small", 10, lambda: Model(card, 10))
    held.get("on the cpu", 1 << 40, object, device="cpu")
    assert held.names() == ["small", "on the cpu"]


def test_out_of_memory_while_loading_frees_all_others_and_tries_once_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    card = Card(100)
    held = Residence(card.free)
    for name in ("a", "b"):
        held.get(name, 30, lambda: Model(card, 30))
    # the estimate is too low, so that nothing is freed before
    with caplog.at_level("INFO"):
        held.get("large", 1, lambda: Model(card, 90))
    assert held.names() == ["large"]
    assert "model a freed: large ran out of memory while loading" in caplog.text


def test_a_model_that_never_fits_is_an_error_with_figures() -> None:
    card = Card(2_000_000_000)
    held = Residence(card.free)
    held.get("a", 1_000_000_000, lambda: Model(card, 1_000_000_000))
    with pytest.raises(PrerequisiteError) as problem:
        held.get(("huge", "file"), 5_000_000_000, lambda: Model(card, 5_000_000_000))
    assert "model huge does not fit" in str(problem.value)
    assert "5.0 GB needed, 2.0 GB free" in str(problem.value)
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

    def load() -> object:
        loads.append(1)
        time.sleep(0.05)
        return object()

    threads = [threading.Thread(target=lambda: result.append(held.get("a", 1, load))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert len(set(map(id, result))) == 1


def test_a_process_has_one_residence_and_the_cpu_no_limit() -> None:
    assert residence() is residence()
    assert free_bytes("cpu") is None


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
    held.get("a", size, lambda: torch.empty(size, dtype=torch.uint8, device="cuda"))
    held.get("b", size, lambda: torch.empty(size, dtype=torch.uint8, device="cuda"))
    assert held.names() == ["b"]
