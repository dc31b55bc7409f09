from __future__ import annotations

import pytest

from storage_schemas.sizes import size_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (20_400_000, "20.4 MB"),
        (3e12, "3.0 TB"),
        (3e15, "3000.0 TB"),
    ],
)
def test_a_size_has_a_fitting_unit(count: float, text: str) -> None:
    assert size_text(int(count)) == text
