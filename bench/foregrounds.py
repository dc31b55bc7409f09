"""Foregrounds that the two sizes of U²-Net find in real film: ``python -m bench.foregrounds``.

Uses a frame every ten seconds of the demonstration's film (``make demo``), and writes the page
`docs/results/foregrounds.md` with its picture. Both networks run on the CPU, one after the other.
"""

from __future__ import annotations

import argparse
import io
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import slvmeval
from storage_schemas.commit import write_atomic
from tasks.models.fetch import fetch_model
from tasks.models.hub import ModelHub

ROOT = Path(__file__).resolve().parents[1]
SMALL, LARGE = "u2netp", "u2net"
EVERY_S = 10
#: Minimum value at which a pixel counts as foreground here; the operation blends by all values.
MIN_MASK = 128
ROWS, WIDTH = 3, 240


@dataclass(frozen=True)
class Compared:
    """Both masks of a frame, (H, W) uint8, and the seconds for each."""

    second: int
    frame: NDArray[np.uint8]
    small: NDArray[np.uint8]
    large: NDArray[np.uint8]
    small_s: float
    large_s: float

    @property
    def overlap(self) -> float:
        """Intersection over union of the foregrounds; 1 where neither finds any."""
        small, large = self.small >= MIN_MASK, self.large >= MIN_MASK
        union = np.count_nonzero(small | large)
        return float(np.count_nonzero(small & large) / union) if union else 1.0

    @property
    def differing(self) -> float:
        """Share of pixels that are foreground in only one of them."""
        return float(np.mean((self.small >= MIN_MASK) != (self.large >= MIN_MASK)))


def compare(store: Path, models: Path) -> list[Compared]:
    """Return the masks of the demonstration's film."""
    for name in (SMALL, LARGE):
        fetch_model(name, models)
    hub = ModelHub([models])
    small, large = hub.get(SMALL), hub.get(LARGE)
    pair = next(iter(slvmeval.iter_pairs(slvmeval.open_release(str(store)))))
    compared = []
    for index in range(EVERY_S // 2, len(pair.high), EVERY_S):
        frame = pair.high.rgb(index)
        began = time.process_time()
        first = small.mask(frame)
        between = time.process_time()
        second = large.mask(frame)
        ended = time.process_time()
        compared.append(Compared(index, frame, first, second, between - began, ended - between))
    return compared


def picture(compared: list[Compared]) -> bytes:
    """Return a JPEG of frame, small and large mask: those that differ most, then those that differ least."""
    some = sorted((one for one in compared if one.overlap < 1), key=lambda one: one.overlap)
    shown = [*some[:ROWS], *some[-ROWS:]]
    height = WIDTH * shown[0].frame.shape[0] // shown[0].frame.shape[1]
    sheet = Image.new("RGB", (3 * WIDTH, height * len(shown)))
    for row, one in enumerate(shown):
        for column, pixels in enumerate((one.frame, one.small, one.large)):
            tile = Image.fromarray(pixels).convert("RGB").resize((WIDTH, height))
            sheet.paste(tile, (column * WIDTH, row * height))
    file = io.BytesIO()
    sheet.save(file, "JPEG", quality=80)
    return file.getvalue()


def page(compared: list[Compared]) -> str:
    """Return the page."""
    overlaps = np.array([one.overlap for one in compared])
    rows = [
        ("frames", str(len(compared)), str(len(compared))),
        *(
            (words, *(f"{value(name):.2f}" for name in ("small", "large")))
            for words, value in {
                "mean share of foreground": lambda name: np.mean(
                    [np.mean(getattr(one, name) >= MIN_MASK) for one in compared]
                ),
                "share of frames without foreground (under 1 % of the pixels)": lambda name: np.mean(
                    [np.mean(getattr(one, name) >= MIN_MASK) < 0.01 for one in compared]
                ),
                "CPU seconds per frame": lambda name: np.median(
                    [getattr(one, f"{name}_s") for one in compared]
                ),
            }.items()
        ),
    ]
    low, middle, high = np.quantile(overlaps, (0.25, 0.5, 0.75))
    clear = [
        one.overlap
        for one in compared
        if min(np.mean(one.small >= MIN_MASK), np.mean(one.large >= MIN_MASK)) > 0.1
    ]
    differing = 100 * np.mean([one.differing for one in compared])
    return _PAGE.format(
        every=EVERY_S,
        table="\n".join(f"| {' | '.join(row)} |" for row in rows),
        middle=middle,
        low=low,
        high=high,
        most=100 * np.mean(overlaps >= 0.9),
        least=100 * np.mean(overlaps < 0.5),
        differing=differing,
        clear=len(clear),
        clear_middle=np.median(clear),
        rows=ROWS,
    )


_PAGE = """# What is foreground? U²-Net, small and large

The recipe `cpu-approx` cuts out subjects with the small U²-Net (`u2netp`, 4.6 MB), the paper's with the
large one (`u2net`, 176 MB). Both ran with real weights. `python -m bench.foregrounds` wrote this page from
*Big Buck Bunny*, a frame every {every} s, 512×288.

| | `u2netp` | `u2net` |
|---|---|---|
{table}

The median overlap of the foregrounds (intersection over union) is {middle:.2f}, the quartiles are {low:.2f}
and {high:.2f}; it is at least 0.9 in
{most:.0f} % of the frames, below 0.5 in {least:.0f} %. On average {differing:.1f} % of the pixels are
foreground to only one network. In the {clear} frames in which both
mark more than a tenth, the median is {clear_middle:.2f}: they agree where a subject fills the picture.

![Frame, small and large](foregrounds.jpg)

Each row: frame, small network's mask, large one's; the {rows} most different frames, then the {rows} most
similar that are not equal.

So `background_consistency` under `cpu-approx` is not the paper's with coarser edges: in some clips something
else stays in front. Recipes and ids keep them apart.

The film is (c) copyright 2008, Blender Foundation / www.bigbuckbunny.org, CC BY 3.0.
"""


def main() -> None:
    """Compare, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--store", type=Path, default=ROOT / "build/demo/store")
    parser.add_argument("--models", type=Path, default=ROOT / "build/models")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    chosen = parser.parse_args()
    compared = compare(chosen.store, chosen.models)
    write_atomic(chosen.out / "foregrounds.jpg", picture(compared))
    write_atomic(chosen.out / "foregrounds.md", page(compared).encode())
    print(chosen.out / "foregrounds.md")


if __name__ == "__main__":
    main()
