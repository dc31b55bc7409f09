"""Interfaces of loaded models, as operations use them, and their errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes
from storage_schemas.model import Frozen


class OutOfMemory(RuntimeError):
    """The device ran out of memory; a smaller batch may fit."""


class Box(Frozen):
    """A detected object's position in pixels: left and top inclusive, right and bottom exclusive."""

    left: float
    top: float
    right: float
    bottom: float
    score: float
    label: str


class Detector(ABC):
    """Detects objects by name."""

    @abstractmethod
    def find(self, rgb: Planes, phrase: str, box_threshold: float, text_threshold: float) -> list[list[Box]]:
        """Return the boxes of the objects that `phrase` names in each picture, best first.

        Parameters
        ----------
        rgb
            Pictures ``(n, H, W, 3)`` uint8.
        phrase
            The object's name, as in a caption.
        box_threshold, text_threshold
            Minimum score of a box, and of a word of the phrase in it.

        Raises
        ------
        OutOfMemory
            If the pictures do not fit into the device's memory at once.
        """


class Segmenter(ABC):
    """Finds the pixels of objects."""

    @abstractmethod
    def masks(self, rgb: Planes, corners: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return the pixels of the object in each box, ``(k, H, W)`` bool; a mask may be empty.

        Parameters
        ----------
        rgb
            A picture ``(H, W, 3)`` uint8.
        corners
            Boxes ``(k, 4)``: left, top, right, bottom in pixels.

        Raises
        ------
        OutOfMemory
            If the picture does not fit into the device's memory.
        """


class FlowModel(ABC):
    """Finds the motion between two pictures."""

    @abstractmethod
    def flow(self, first: Planes, second: Planes, updates: int) -> NDArray[np.float32]:
        """Return where each pixel of the first picture lies in the second, ``(H, W, 2)``, x before y, pixels.

        Parameters
        ----------
        first, second
            Pictures ``(H, W, 3)`` uint8 of one size.
        updates
            Number of refinements.

        Raises
        ------
        OutOfMemory
            If the pictures do not fit into the device's memory.
        """


class Inpainter(ABC):
    """Repaints regions of pictures."""

    def read(self, text: str) -> str:
        """Return the part of a prompt that the model reads; a model with a limit overrides this."""
        return text

    @abstractmethod
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
        """Return the pictures with the masked regions repainted.

        Parameters
        ----------
        rgb
            Pictures ``(n, H, W, 3)`` uint8.
        masks
            ``(n, H, W)`` bool, the regions to repaint. The caller restores everything else.
        prompt, negative
            What the result should show, and what it should not.
        seeds
            One per picture, whose noise depends on nothing else.
        steps, guidance
            Number of denoising steps, and weight of the prompt.

        Returns
        -------
        ndarray
            ``(n, H, W, 3)`` uint8.

        Raises
        ------
        OutOfMemory
            If the pictures do not fit into the device's memory at once.
        """


class ImageEditor(ABC):
    """Edits a picture according to an instruction."""

    @abstractmethod
    def edit(
        self, rgb: Planes, instruction: str, negative: str, seed: int, steps: int, guidance: float
    ) -> Planes:
        """Return the edited picture, ``(H, W, 3)`` uint8, in the same size.

        Parameters
        ----------
        rgb
            The picture, ``(H, W, 3)`` uint8.
        instruction, negative
            What to do, and what the result should not show; an empty `negative` counts as a blank, so that
            guidance stays enabled.
        seed
            Seed of the picture's noise.
        steps, guidance
            Number of denoising steps, and weight of the instruction.

        Raises
        ------
        OutOfMemory
            If one picture does not fit into the device's memory.
        """


class Models(ABC):
    """Provides operations with loaded models, each loaded once per process.

    Attributes
    ----------
    device
        Device of the models: ``cpu`` or ``cuda``.
    """

    device: str = "cpu"

    @abstractmethod
    def get(self, name: str, **options: str | float | bool) -> Any:
        """Return the loaded model.

        Parameters
        ----------
        name
            The model's name in the model folders.
        options
            Load options (``dtype="bfloat16"``); a model is loaded once per set of options.

        Raises
        ------
        PrerequisiteError
            If its weights are missing; the message has the command that fetches them.
        """
