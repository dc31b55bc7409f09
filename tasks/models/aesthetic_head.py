"""The head of Aesthetic Predictor V2.5: from SigLIP's features of a picture to a score from 1 to 10.

The published predictor (github.com/discus0434/aesthetic-predictor-v2-5, ``siglip_v2_5.py``) normalises
SigLIP's pooled features to length 1 and applies five linear layers, with dropout between them during
training only. So the head is computed here on features shared with other dimensions. Its weights are a file
of the repository, not of a hub: ``scoring_head.N.weight`` and ``.bias`` for N of 0, 2, 4, 6 and 8.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.models.torch_model import loading, weights_in

Layer = tuple[NDArray[np.float64], NDArray[np.float64]]

#: Prefix of the published weights' names, before the layer's number.
PREFIX = "scoring_head."


def load(path: Path, device: str, **_options: Any) -> AestheticHead:
    """Load the head's weights; the head always runs on the CPU.

    `path` is the file, or a folder with it: ``.safetensors``, or ``.pth`` as published, from which only
    tensors are read; see also :func:`~tasks.models.loaders.load_model`.
    """
    what = "the head of the aesthetic predictor"
    weights = weights_in(path, what)
    with loading(path, what):
        return AestheticHead(layers_of({name: part.double().numpy() for name, part in weights.items()}))


def layers_of(weights: Mapping[str, NDArray[np.float64]]) -> list[Layer]:
    """Return the layers in order, each a matrix ``(out, in)`` and its bias.

    Raises
    ------
    ValueError
        If the weights are not a chain of linear layers that ends in one number.
    """
    names = {name.removeprefix("layers.").removeprefix(PREFIX): name for name in weights}
    numbers = sorted({int(name.split(".")[0]) for name in names if name.split(".")[0].isdigit()})
    try:
        layers = [(weights[names[f"{n}.weight"]], weights[names[f"{n}.bias"]]) for n in numbers]
    except KeyError as lacking:
        raise ValueError(f"it lacks {PREFIX}{lacking.args[0]}") from lacking
    widths = [matrix.shape for matrix, _ in layers]
    fits = all(after[1] == before[0] for before, after in itertools.pairwise(widths))
    if not layers or not fits or widths[-1][0] != 1:
        raise ValueError(f"its layers are {widths}: expected a chain that ends in one number")
    return layers


class AestheticHead:
    """The loaded head.

    Attributes
    ----------
    width
        Length of a feature row.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = tuple(layers)
        self.width = int(self._layers[0][0].shape[1])

    def scores(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Return the score of each row of features, from about 1 to about 10, shape (n,).

        Parameters
        ----------
        features
            SigLIP's pooled features, shape (n, width); they are normalised to length 1.

        Raises
        ------
        ValueError
            If their width differs from the head's.
        """
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"features have shape {rows.shape[1:]}: this head expects {self.width}")
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        for matrix, bias in self._layers:
            rows = rows @ matrix.T + bias
        result: NDArray[np.float64] = rows[:, 0]
        return result
