"""BRISQUE: how far a picture's statistics are from those of natural photographs (Mittal et al., 2012).

OpenCV computes the 36 features. The regression that LIVE fitted to people's ratings of distorted photographs
is a support vector machine in libsvm's text format, evaluated here: its prediction is one sum.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import IntegrityError
from storage_schemas.extras import lazy_package

cv2 = lazy_package("cv2")

#: Number of features of a picture: 18 at each of two sizes.
FEATURES = 36
#: The files of the model's folder.
MACHINE, RANGES = "svm.txt", "normalize.pickle"


def load(path: Path, device: str, **_options: Any) -> Brisque:
    """Load the fitted regression; it runs on the CPU.

    Parameters
    ----------
    path
        The folder with ``svm.txt`` and ``normalize.pickle``.

    Raises
    ------
    IntegrityError
        If the files do not hold a regression of 36 features.
    """
    try:
        header, _, support = (path / MACHINE).read_text(encoding="ascii").partition("\nSV\n")
        values = dict(line.split(maxsplit=1) for line in header.splitlines())
        if (values["svm_type"], values["kernel_type"]) != ("epsilon_svr", "rbf"):
            raise ValueError(f"it is a {values['svm_type']} with the kernel {values['kernel_type']}")
        rows = [_numbers(line) for line in support.splitlines()]
        ranges = _PlainValues(io.BytesIO((path / RANGES).read_bytes())).load()
        least, most = np.array(ranges["min_"], float), np.array(ranges["max_"], float)
        table = np.array(rows, float)
        if table.shape[1:] != (1 + FEATURES,) or least.shape != (FEATURES,) or most.shape != (FEATURES,):
            raise ValueError(f"{table.shape} and {least.shape} numbers: expected {FEATURES} features")
        gamma, rho = float(values["gamma"]), float(values["rho"])
    # for a damaged file, the pickle reader raises either
    except (
        *(OSError, ValueError, KeyError, pickle.UnpicklingError),
        *(EOFError, IndexError, AttributeError, TypeError, MemoryError),
    ) as problem:
        raise IntegrityError(
            f"{path} does not hold BRISQUE's regression: {problem}; fetch it again"
        ) from problem
    return Brisque(table[:, 1:], table[:, 0], gamma, rho, least, most)


def _numbers(line: str) -> list[float]:
    """Return a support vector's weight and its features, which libsvm writes as ``number:value``."""
    weight, *pairs = line.split()
    given = {int(number): float(value) for number, _, value in (pair.partition(":") for pair in pairs)}
    return [float(weight), *(given.get(number, 0.0) for number in range(1, FEATURES + 1))]


class _PlainValues(pickle.Unpickler):
    """Reads lists and numbers; rejects every class and function, so that no code runs."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}: only numbers are read")


class Brisque:
    """The loaded regression.

    Parameters
    ----------
    vectors, weights
        Support vectors ``(n, 36)`` and their weights ``(n,)``.
    gamma, rho
        Width of the kernel, and the offset that is subtracted.
    least, most
        Range of each feature ``(36,)``, which is mapped to -1 to 1.
    """

    def __init__(
        self,
        vectors: NDArray[np.float64],
        weights: NDArray[np.float64],
        gamma: float,
        rho: float,
        least: NDArray[np.float64],
        most: NDArray[np.float64],
    ) -> None:
        self._vectors, self._weights, self._gamma, self._rho = vectors, weights, gamma, rho
        self._least, self._span = least, most - least

    def score(self, luma: NDArray[np.uint8]) -> float:
        """Return a picture's score: about 0 for a good photograph, about 100 for a bad one.

        Parameters
        ----------
        luma
            ``(H, W)`` uint8. A single-colour picture has no statistics: its score is NaN.
        """
        quality: Any = cv2.quality  # the function is missing in OpenCV's stubs
        return self.predict(quality.QualityBRISQUE_computeFeatures(luma).ravel().astype(np.float64))

    def predict(self, features: NDArray[np.float64]) -> float:
        """Return the score of 36 features, as libsvm would predict it."""
        scaled = -1.0 + 2.0 * (features - self._least) / self._span
        distances = ((self._vectors - scaled) ** 2).sum(axis=1)
        return float(self._weights @ np.exp(-self._gamma * distances) - self._rho)
