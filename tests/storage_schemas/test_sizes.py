from __future__ import annotations

from storage_schemas.sizes import size_text


def test_a_size_has_a_fitting_unit() -> None:
    texts = ["0 B", "999 B", "1.0 kB", "20.4 MB", "3.0 TB", "3000.0 TB"]
    assert [size_text(count) for count in (0, 999, 1000, 20_400_000, 3 * 10**12, 3 * 10**15)] == texts
