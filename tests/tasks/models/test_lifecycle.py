"""Checkpoint folders, the hub, the residence and batches together, on a small card without torch."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from tasks.models.add import add_model
from tasks.models.base import Box, Detector, Inpainter, OutOfMemory
from tasks.models.hub import ModelHub
from tasks.models.residence import Batches, Residence

MEGABYTE = 1_000_000


class Card:
    """A device's memory: what lives models take, and what a picture takes while it is worked on."""

    def __init__(self, megabytes: int, a_picture: int) -> None:
        self.size, self.a_picture = megabytes, a_picture
        self.loaded: list[str] = []
        self._alive: list[weakref.ref[object]] = []

    def free(self, device: str) -> int | None:
        gc.collect()
        assert device == "cuda"
        taken = sum(40 for ref in self._alive if ref() is not None)
        return (self.size - taken) * MEGABYTE

    def place(self, name: str, model: object) -> None:
        if (self.free("cuda") or 0) < 40 * MEGABYTE:
            raise OutOfMemory(f"no room for {name}")
        self._alive.append(weakref.ref(model))
        self.loaded.append(name)

    def work(self, pictures: int) -> None:
        if (self.free("cuda") or 0) < pictures * self.a_picture * MEGABYTE:
            raise OutOfMemory(f"no room for {pictures} pictures")


class Everywhere(Detector):
    """Finds everything in the whole picture."""

    def __init__(self, card: Card) -> None:
        card.place("detector", self)
        self.card = card

    def find(self, rgb: Planes, phrase: str, box_threshold: float, text_threshold: float) -> list[list[Box]]:
        self.card.work(len(rgb))
        height, width = rgb.shape[1:3]
        return [[Box(left=0, top=0, right=width, bottom=height, score=1, label=phrase)] for _ in rgb]


class Inverter(Inpainter):
    """Paints the inverse."""

    def __init__(self, card: Card) -> None:
        card.place("inpainter", self)
        self.card = card
        self.batches = Batches(8, owner=self)

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
            self.card.work(len(rgb[part]))
            return np.asarray(255 - rgb[part])

        return np.stack(self.batches.run(len(rgb), work))


@pytest.fixture
def hub_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Card], ModelHub]:
    """Makes a hub of two checkpoint folders that load onto a card."""
    for name, kind in (("finder", "detector"), ("painter", "inpainter")):
        checkpoint = tmp_path / name
        checkpoint.mkdir()
        (checkpoint / "config.json").write_text("{}")
        add_model(name, checkpoint, tmp_path / "models", kind=kind, memory_bytes=40 * MEGABYTE)

    def on(card: Card) -> ModelHub:
        held = Residence(card.free)
        kinds = {"detector": Everywhere, "inpainter": Inverter}
        monkeypatch.setattr("tasks.models.hub.residence", lambda: held)
        monkeypatch.setattr("tasks.models.residence.residence", lambda: held)
        monkeypatch.setattr(
            "tasks.models.hub.load_model", lambda kind, path, device, **options: kinds[kind](card)
        )
        return ModelHub([tmp_path / "models"], device="cuda")

    return on


def edit(hub: ModelHub, pictures: int) -> None:
    """Find and paint, as an operation does: each model is asked for when it works."""
    rgb = np.arange(pictures * 48, dtype=np.uint8).reshape(pictures, 4, 4, 3)
    for picture in rgb:
        assert len(hub.get("finder").find(picture[None], "ball", 0.4, 0.3)) == 1
    masks = np.ones((pictures, 4, 4), bool)
    after = hub.get("painter").inpaint(rgb, masks, "grass", "ball", range(pictures), 50, 7.5)
    np.testing.assert_array_equal(after, 255 - rgb)


def test_both_models_stay_where_they_fit(hub_on: Callable[[Card], ModelHub]) -> None:
    card = Card(200, 10)
    hub = hub_on(card)
    for _ in range(3):
        edit(hub, 8)
    assert card.loaded == ["detector", "inpainter"]
    assert hub.get("painter").batches.sizes_ran == (8,)


def test_models_take_turns_where_only_one_fits(hub_on: Callable[[Card], ModelHub]) -> None:
    card = Card(70, 10)
    hub = hub_on(card)
    for _ in range(2):
        edit(hub, 8)
    assert card.loaded == ["detector", "inpainter"] * 2
    # 30 MB are left for pictures
    assert hub.get("painter").batches.sizes_ran == (2,)


def test_the_batch_is_halved_before_another_model_goes(hub_on: Callable[[Card], ModelHub]) -> None:
    card = Card(120, 30)
    hub = hub_on(card)
    edit(hub, 4)
    assert hub.get("painter").batches.sizes_ran == (1,)
    assert card.loaded == ["detector", "inpainter"]


def test_another_model_goes_where_not_even_one_picture_fits_beside_it(
    hub_on: Callable[[Card], ModelHub],
) -> None:
    card = Card(100, 30)
    hub = hub_on(card)
    hub.get("finder")
    rgb = np.zeros((2, 4, 4, 3), np.uint8)
    # one picture takes 30 MB, and 20 are left beside the detector
    hub.get("painter").inpaint(rgb, np.ones((2, 4, 4), bool), "", "", range(2), 50, 7.5)
    assert hub.get("painter").batches.sizes_ran == (1,)
    assert card.loaded == ["detector", "inpainter"]
    hub.get("finder")
    assert card.loaded == ["detector", "inpainter", "detector"]


def test_a_card_that_is_too_small_is_named_with_figures(hub_on: Callable[[Card], ModelHub]) -> None:
    with pytest.raises(
        PrerequisiteError, match=r"model finder does not fit .*4\d\.\d MB needed, 3\d\.\d MB free"
    ):
        hub_on(Card(30, 1)).get("finder")
