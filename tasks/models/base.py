"""What operations know of loaded models: how to get one, what each kind can do, and their errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes
from storage_schemas.model import Frozen


class OutOfMemory(RuntimeError):
    """The device's memory does not hold what was asked for; a smaller batch may fit."""


class Box(Frozen):
    """Where something was found, in pixels: left and top inclusive, right and bottom exclusive."""

    left: float
    top: float
    right: float
    bottom: float
    score: float
    label: str


class Detector(ABC):
    """Finds things by their names."""

    @abstractmethod
    def find(self, rgb: Planes, phrase: str, box_threshold: float, text_threshold: float) -> list[list[Box]]:
        """Return the boxes of what `phrase` names in each picture, the best first.

        Parameters
        ----------
        rgb
            Pictures ``(n, H, W, 3)`` uint8.
        phrase
            The thing's name, as a caption has it.
        box_threshold, text_threshold
            Least score of a box, and of a word of the phrase in it.

        Raises
        ------
        OutOfMemory
            If so many pictures do not fit into the device's memory at once.
        """


class Inpainter(ABC):
    """Paints regions of pictures anew."""

    def read(self, text: str) -> str:
        """Return as much of a prompt as the model reads; one with a limit says so here."""
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
        """Return the pictures with what lies under the masks painted anew.

        Parameters
        ----------
        rgb
            Pictures ``(n, H, W, 3)`` uint8.
        masks
            ``(n, H, W)`` bool, what is painted. The caller keeps all else as it was.
        prompt, negative
            What should be seen, and what should not.
        seeds
            One for each picture: its noise depends on nothing else.
        steps, guidance
            Number of denoising steps, and weight of the prompt.

        Returns
        -------
        ndarray
            ``(n, H, W, 3)`` uint8.

        Raises
        ------
        OutOfMemory
            If so many pictures do not fit into the device's memory at once.
        """


class ImageEditor(ABC):
    """Changes a picture by an instruction."""

    @abstractmethod
    def edit(
        self, rgb: Planes, instruction: str, negative: str, seed: int, steps: int, guidance: float
    ) -> Planes:
        """Return one picture ``(H, W, 3)`` uint8, changed, in the same size.

        Parameters
        ----------
        rgb
            The picture, ``(H, W, 3)`` uint8.
        instruction, negative
            What to do, and what should not be seen; an empty `negative` is a blank, never none.
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
    """Gives operations their loaded models, each loaded once a process.

    Attributes
    ----------
    device
        Where it loads them: ``cpu`` or ``cuda``.
    """

    device: str = "cpu"

    @abstractmethod
    def get(self, name: str, **options: str | float | bool) -> Any:
        """Return the loaded model.

        Parameters
        ----------
        name
            The model, as a recipe names it.
        options
            How to load it (``dtype="bfloat16"``); with other options it is another loaded model.

        Raises
        ------
        PrerequisiteError
            If its weights are missing, with the command that fetches them.
        """
