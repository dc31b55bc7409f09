"""DOVER and DOVER++ as an ONNX file: aesthetic and technical quality of a short video.

DOVER's authors (github.com/VQAssessment/DOVER) publish pickled weights and a script,
``convert_to_onnx.py``, which converts them to an ONNX file with the inputs ``aes_view`` and ``tech_view``
and two outputs, the aesthetic one first. This module loads such a file; none of their code runs. Not tested
with DOVER++'s weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from tasks.models.onnx_session import open_session
from tasks.models.torch_model import loading

Views = NDArray[np.float32]
#: Frames of a clip, and its sides in pixels (DOVER's options file).
FRAMES, SIDE = 32, 224
_AESTHETIC, _TECHNICAL = "aes_view", "tech_view"


def load(path: Path, device: str, **_options: Any) -> Dover:
    """Load the ONNX file in a folder, or the file.

    Raises
    ------
    PrerequisiteError
        If the file does not exist, has other inputs, or would run on another device.
    """
    files = [path] if path.is_file() else sorted(path.glob("*.onnx"))
    if len(files) != 1:
        raise PrerequisiteError(f"{path} has {len(files)} ONNX files: DOVER needs one, see docs/locot2v.md")
    with loading(files[0], "DOVER"):
        return Dover(open_session(files[0], device), files[0])


class Dover:
    """The loaded networks.

    Attributes
    ----------
    clips
        Number of clips of the technical view; None if the file accepts any number.
    """

    def __init__(self, session: Any, path: Path) -> None:
        self._session = session
        shapes = {given.name: given.shape for given in session.get_inputs()}
        if set(shapes) != {_AESTHETIC, _TECHNICAL} or len(session.get_outputs()) != 2:
            raise PrerequisiteError(
                f"{path} has the inputs {', '.join(sorted(shapes)) or '(none)'} and "
                f"{len(session.get_outputs())} outputs; DOVER as exported by its authors' script has "
                f"{_AESTHETIC} and {_TECHNICAL}, and two outputs"
            )
        count = shapes[_TECHNICAL][0]
        self.clips: int | None = count if isinstance(count, int) else None

    def scores(self, aesthetic: Views, technical: Views) -> tuple[float, float]:
        """Return the raw aesthetic and technical scores of a piece of video, not yet scaled.

        Parameters
        ----------
        aesthetic
            The downscaled piece, ``(1, 3, 32, 224, 224)`` float32, normalised.
        technical
            Clips of fragments, ``(clips, 3, 32, 224, 224)`` float32, normalised.
        """
        outputs = self._session.run(None, {_AESTHETIC: aesthetic, _TECHNICAL: technical})
        beauty, technique = (float(np.mean(one, dtype=np.float64)) for one in outputs)
        return beauty, technique
