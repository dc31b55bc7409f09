"""Make three films of a minute with captions in the folder `films`: drawn scenes, which need no download."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
from PIL import Image, ImageDraw

WIDTH, HEIGHT, FPS, SCENE_S, SCENES = 512, 288, 8, 5, 12
COLOURS = {
    "red": (205, 45, 40), "blue": (40, 80, 200), "yellow": (235, 200, 50), "orange": (235, 130, 35),
    "purple": (130, 60, 160), "white": (240, 240, 235),
}  # fmt: skip


class Place(NamedTuple):
    """Where a film is set: words for its captions, and the colours of its upper and lower half."""

    name: str
    behind: str
    upper: tuple[int, int, int]
    lower: tuple[int, int, int]
    things: tuple[tuple[str, str], ...]


PLACES = (
    Place(
        "harbour", "a pale blue sky", (150, 190, 225), (45, 95, 120),
        (("boat", "drifts slowly"), ("buoy", "floats"), ("ship", "sails"), ("gull", "flies quickly")),
    ),
    Place(
        "meadow", "a row of dark hills", (120, 140, 160), (90, 150, 60),
        (("ball", "rolls quickly"), ("kite", "flies"), ("dog", "runs"), ("balloon", "floats slowly")),
    ),
    Place(
        "street", "a grey wall", (140, 140, 145), (85, 85, 90),
        (("car", "drives quickly"), ("bus", "drives slowly"), ("bird", "flies"), ("ball", "rolls")),
    ),
)  # fmt: skip


class Scene(NamedTuple):
    """What is seen in some seconds of a film."""

    place: Place
    thing: str
    moves: str
    colour: str
    standing: str
    side: str

    @property
    def caption(self) -> str:
        """Say for each aspect what its damage needs: a moving thing, one colour, a side, what is behind."""
        return (
            f"A {self.colour} {self.thing} {self.moves} across the {self.place.name}. "
            f"A grey {self.standing} stands on the {self.side} of the frame. "
            f"In the background there is {self.place.behind}."
        )


def scenes(place: Place) -> list[Scene]:
    """Return the scenes of a film: things, colours and sides take turns."""
    made = []
    for number in range(SCENES):
        thing, moves = place.things[number % len(place.things)]
        colour = list(COLOURS)[number % len(COLOURS)]
        standing = ("tower", "tree", "house")[number % 3]
        made.append(Scene(place, thing, moves, colour, standing, ("left", "right")[number % 2]))
    return made


def frames(scene: Scene, number: int) -> Iterator[Image.Image]:
    """Yield the pictures of a scene: a shape moves before a grained background."""
    draws = np.random.default_rng(number)
    grain = draws.normal(0, 9, (HEIGHT, WIDTH, 1))
    half = HEIGHT * 5 // 9
    background = np.empty((HEIGHT, WIDTH, 3))
    background[:half], background[half:] = scene.place.upper, scene.place.lower
    background += grain + np.linspace(25, -25, HEIGHT)[:, None, None]
    still = Image.fromarray(np.clip(background, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(still)
    at = WIDTH // 8 if scene.side == "left" else WIDTH * 7 // 8
    if scene.standing == "tree":
        draw.rectangle((at - 5, half - 40, at + 5, half + 20), fill=(95, 80, 70))
        draw.ellipse((at - 30, half - 100, at + 30, half - 30), fill=(110, 115, 110))
    else:
        tall, wide = (110, 16) if scene.standing == "tower" else (60, 36)
        draw.rectangle((at - wide, half - tall, at + wide, half + 20), fill=(120, 120, 118))
        draw.polygon(
            [(at - wide, half - tall), (at + wide, half - tall), (at, half - tall - 30)], fill=(90, 90, 92)
        )
    count = FPS * SCENE_S
    for step in range(count):
        picture = still.copy()
        draw = ImageDraw.Draw(picture)
        speed = 1.6 if "quickly" in scene.moves else 0.7 if "slowly" in scene.moves else 1.0
        x = WIDTH * (0.5 + speed * 0.5 * (step / (count - 1) - 0.5))
        y = half + 30 + 6 * np.sin(step / 3) - (90 if "flies" in scene.moves else 0)
        size = 34 + number % 3 * 6
        fill = COLOURS[scene.colour]
        if scene.thing in ("ball", "balloon", "buoy"):
            draw.ellipse((x - size, y - size, x + size, y + size), fill=fill, outline=(30, 30, 30), width=2)
        elif scene.thing in ("kite", "gull", "bird"):
            wing = size * (0.4 + 0.3 * np.sin(step))
            draw.polygon([(x - size, y - wing), (x, y), (x + size, y - wing), (x, y + size / 2)], fill=fill)
        else:
            draw.rounded_rectangle(
                (x - size * 1.5, y - size / 2, x + size * 1.5, y + size / 2), 10, fill=fill
            )
            draw.rectangle((x - size / 2, y - size, x + size / 2, y - size / 2), fill=fill)
        yield picture


def write_film(folder: Path, place: Place) -> None:
    """Write a film and its captions."""
    with (
        av.open(str(folder / f"{place.name}.mp4"), "w") as container,
        (folder / f"{place.name}.jsonl").open("w", encoding="utf-8") as captions,
    ):
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "23", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number, scene in enumerate(scenes(place)):
            times = {"start_s": number * SCENE_S, "end_s": (number + 1) * SCENE_S}
            captions.write(json.dumps({**times, "caption": scene.caption}) + "\n")
            for picture in frames(scene, number):
                container.mux(stream.encode(av.VideoFrame.from_image(picture)))
        container.mux(stream.encode())


if __name__ == "__main__":
    films = Path(sys.argv[1] if len(sys.argv) > 1 else "films")
    films.mkdir(exist_ok=True)
    for one in PLACES:
        write_film(films, one)
        print(films / f"{one.name}.mp4")
