"""The measured films: two real ones, and files derived from them that are kept between runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import av
import imageio_ffmpeg

from slvmeval.demo.fetch import fetch_demo, read_captions

BUNNY = "big_buck_bunny.mp4"
CITY = "cityCC0.mpg"

#: Alternative file names of the films in a given folder.
_NAMES = {BUNNY: (BUNNY, "bbb.mp4"), CITY: (CITY,)}

_X265 = ["-c:v", "libx265", "-preset", "superfast", "-x265-params", "log-level=none"]
_VPX = ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "1M"]
_OTHER_CODECS = {
    "hevc": ("film.hevc.mp4", _X265),
    "vp9": ("film.vp9.webm", _VPX),
    "av1": ("film.av1.mp4", ["-c:v", "libsvtav1", "-preset", "10"]),
}


#: The installed ffmpeg command, or else that of the development packages.
FFMPEG = shutil.which("ffmpeg") or imageio_ffmpeg.get_ffmpeg_exe()


def run_ffmpeg(*arguments: str | Path) -> None:
    """Run the ffmpeg command quietly."""
    command = [FFMPEG, "-nostdin", "-v", "error", "-y", *map(str, arguments)]
    subprocess.run(command, check=True)


@dataclass(frozen=True)
class Films:
    """The films, and a folder for derived files."""

    bunny: Path
    city: Path
    model_folder: Path
    work: Path

    @classmethod
    def find(cls, given: Path | None, work: Path, demo: Path) -> Films:
        """Return the films in the folder `given`, or those of the demonstration, fetched if necessary.

        Raises
        ------
        FileNotFoundError
            If the given folder does not have them.
        """
        work.mkdir(parents=True, exist_ok=True)
        if given is None:
            files = fetch_demo(demo)
            return cls(files.videos / BUNNY, files.videos / CITY, files.u2netp.parent, work)
        films = {}
        for film, names in _NAMES.items():
            paths = [given / name for name in names if (given / name).is_file()]
            if not paths:
                raise FileNotFoundError(f"{given} has no {' or '.join(names)}")
            films[film] = paths[0].resolve()
        return cls(films[BUNNY], films[CITY], given.resolve(), work)

    def _made(self, name: str, *arguments: str | Path) -> Path:
        """Return a file created by ffmpeg with these arguments, reusing an existing one."""
        path = self.work / name
        if not path.is_file():
            draft = path.with_name(f"draft-{name}")
            run_ffmpeg(*arguments, draft)
            draft.replace(path)
        return path

    def open_gop(self) -> Path:
        """Return the film re-encoded with open groups of pictures, for which no packet plan is safe."""
        x264 = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "23"]
        groups = ["-x264-params", "open-gop=1:bframes=3:keyint=96"]
        return self._made("open_gop.mp4", "-i", self.bunny, "-an", *x264, *groups)

    def coded_as(self, codec: str) -> Path:
        """Return three minutes of the film in another codec, by an encoder's quick settings."""
        name, encoder = _OTHER_CODECS[codec]
        return self._made(name, "-i", self.bunny, "-t", "180", "-an", *encoder)

    def minute(self, name: str, encoder: Sequence[str]) -> Path:
        """Return the first minute of the film by an encoder with these options."""
        return self._made(name, "-i", self.bunny, "-t", "60", "-an", *encoder)

    def small(self, codec: str, times: int) -> Path:
        """Return three minutes of the film at 320×180 in another codec, several times in a row."""
        name, encoder = _OTHER_CODECS[codec]
        once = self._made(
            f"small.{name}", "-i", self.bunny, "-t", "180", "-an", "-vf", "scale=320:180", *encoder
        )
        return self.in_a_row(once, times)

    def long_city(self) -> Path:
        """Return the city film repeated eighty times, ten minutes of MPEG-2: 8 s would measure the start-up.

        It is re-encoded, because its last group of pictures refers to a following one.
        """
        loop = ["-stream_loop", "79", "-i", self.city, "-map", "0:v", "-r", "25"]
        mpeg2 = ["-c:v", "mpeg2video", "-q:v", "4", "-g", "15", "-bf", "2"]
        return self._made("ten_minutes_of_city.mpg", *loop, *mpeg2)

    def three_hours(self) -> Path:
        """Return the film repeated eighteen times, without re-encoding."""
        return self.repeated(18)

    def repeated(self, times: int) -> Path:
        """Return the film several times in a row, without re-encoding."""
        return self.in_a_row(self.bunny, times)

    def in_a_row(self, video: Path, times: int) -> Path:
        """Return a video several times in a row, without re-encoding."""
        loop = ["-stream_loop", str(times - 1), "-i", video]
        return self._made(f"times_{times}.{video.name}", *loop, "-map", "0:v", "-c", "copy")

    def folder(self, name: str) -> Path:
        """Return an empty folder of sources."""
        path = self.work / "sources" / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def whole(self) -> Path:
        """Return a folder of sources with the whole film."""
        folder = self.folder("whole")
        _place(self.bunny, folder / BUNNY)
        (folder / BUNNY).with_suffix(".jsonl").write_bytes(read_captions("big_buck_bunny.jsonl"))
        return folder

    def parts(self, name: str, starts_s: Sequence[float], seconds: float) -> Path:
        """Return a folder of sources, each a part of the film that begins at a key frame.

        Parameters
        ----------
        starts_s
            Earliest start of each part; parts may overlap.
        seconds
            Length of each part.
        """
        folder = self.folder(name)
        keys = _key_frames(self.bunny)
        for start in starts_s:
            begin = next(key for key in keys if key >= start)
            part = f"part_{begin:.3f}_{seconds:g}.mp4"
            cut = ["-ss", f"{begin:.6f}", "-i", self.bunny, "-t", f"{seconds:g}"]
            _place(self._made(part, *cut, "-map", "0:v", "-c", "copy"), folder / part)
            captions = _shifted_captions(begin, seconds)
            (folder / part).with_suffix(".jsonl").write_text(captions, encoding="utf-8")
        return folder


def _place(film: Path, target: Path) -> None:
    """Put a film into a folder of sources, which must not have links to outside files."""
    try:
        os.link(film, target)
    except OSError:
        shutil.copyfile(film, target)


def _key_frames(film: Path) -> list[float]:
    with av.open(str(film)) as container:
        stream = container.streams.video[0]
        base = stream.time_base
        assert base is not None
        return [
            float(packet.pts * base)
            for packet in container.demux(stream)
            if packet.is_keyframe and packet.pts is not None
        ]


def _shifted_captions(begin: float, seconds: float) -> str:
    """Return the captions of the clips that are entirely within a part, in the part's time."""
    lines = [json.loads(line) for line in read_captions("big_buck_bunny.jsonl").splitlines()]
    inside = [line for line in lines if line["start_s"] >= begin and line["end_s"] <= begin + seconds - 0.5]
    for line in inside:
        line["start_s"] = round(line["start_s"] - begin, 3)
        line["end_s"] = round(line["end_s"] - begin, 3)
    assert all(first["end_s"] <= second["start_s"] + 1e-6 for first, second in pairwise(inside))
    return "".join(json.dumps(line) + "\n" for line in inside)
