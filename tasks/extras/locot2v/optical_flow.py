"""The optical flow of the suite: RAFT as in the paper, or OpenCV's DIS on a CPU, under its own name."""

from __future__ import annotations

from typing import Any, ClassVar

from storage_schemas.extras import lazy_package
from storage_schemas.placement import Hardware
from tasks.extras.locot2v.flow import Bytes, Floats, FlowSettings, dis_flow
from tasks.extras.locot2v.picture_models import VisualModel
from tasks.models.base import FlowModel, Models

cv2 = lazy_package("cv2")


class DisFlow:
    """OpenCV's DIS; called with two RGB frames.

    Class attributes
    ----------------
    hardware
        Hardware that its workers must have.
    """

    hardware: ClassVar[Hardware] = "cpu"

    def __init__(self, settings: FlowSettings) -> None:
        self._given = settings

    def __call__(self, first: Bytes, second: Bytes) -> Floats:
        """Return the position of each pixel of the first frame in the second, ``(H, W, 2)`` float32."""
        return dis_flow(first, second, self._given.preset)

    def details(self) -> dict[str, Any]:
        """Return the method and its settings, for a score's details."""
        return {"method": "dis", "preset": self._given.preset}

    def settings(self) -> dict[str, Any]:
        """Return what keys contain."""
        return self.details()

    def libraries(self) -> dict[str, str]:
        """Return the versions that affect the last digits."""
        return {"opencv": cv2.__version__}

    def check(self) -> None:
        """Check that what it needs is present: DIS needs nothing."""


class RaftFlow(DisFlow):
    """RAFT, loaded when it is first called."""

    hardware: ClassVar[Hardware] = "gpu"

    def __init__(self, settings: FlowSettings, models: Models) -> None:
        super().__init__(settings)
        self._model = VisualModel(
            models,
            settings.model,
            ("optical-flow",),
            libraries=("torch", "torchvision"),
            dtype=settings.dtype,
            instead="OpenCV's DIS",
        )

    def __call__(self, first: Bytes, second: Bytes) -> Floats:
        """Return the position of each pixel of the first frame in the second, ``(H, W, 2)`` float32."""
        model: FlowModel = self._model.loaded()
        return model.flow(first, second, self._given.updates)

    def details(self) -> dict[str, Any]:
        """Return the method, its model and the number of updates."""
        return {"method": "raft", "model": self._model.name, "updates": self._given.updates}

    def settings(self) -> dict[str, Any]:
        """Return what keys contain, with the identity of the weights.

        Raises
        ------
        PrerequisiteError
            If they are missing.
        """
        return {**self.details(), **self._model.settings()}

    def libraries(self) -> dict[str, str]:
        """Return the versions that affect the last digits."""
        return self._model.libraries()

    def check(self) -> None:
        """Check that the weights are present.

        Raises
        ------
        PrerequisiteError
            If not, with the remedy.
        """
        self._model.check()


def optical_flow(settings: FlowSettings, models: Models) -> DisFlow:
    """Return the flow that the settings name; nothing is loaded yet."""
    return RaftFlow(settings, models) if settings.method == "raft" else DisFlow(settings)
