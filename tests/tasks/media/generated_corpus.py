"""Recipes of some hundred tiny videos: codecs × containers × pixel formats × what makes videos awkward."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SIZE, ODD_SIZE = "64x48", "63x47"
RATE, SECONDS = 8, "3.4"
JITTER = "setpts='(N/8+0.03*mod(N*7,3)+if(gt(N,14),0.8,0))/TB'"

X265 = "-c:v libx265 -preset ultrafast -x265-params log-level=none:pools=1:keyint=12"
#: Encoder arguments by codec.
CODECS = {
    "x264": "-c:v libx264 -preset ultrafast -g 12 -bf 0",
    "x264-b": "-c:v libx264 -preset ultrafast -g 12 -bf 3 -x264-params b-adapt=0",
    "x265": f"{X265}:bframes=0",
    "x265-b": f"{X265}:bframes=3:b-adapt=0",
    "vp9": "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 12 -b:v 100k",
    "vp9-hidden": "-c:v libvpx-vp9 -cpu-used 8 -g 12 -b:v 100k -auto-alt-ref 1 -lag-in-frames 8",
    "svtav1": "-c:v libsvtav1 -preset 12 -g 12",
    "aom": "-c:v libaom-av1 -usage realtime -cpu-used 8 -g 12 -b:v 100k",
    "mpeg2": "-c:v mpeg2video -g 12 -bf 0 -b:v 1M",
    "mpeg2-b": "-c:v mpeg2video -g 12 -bf 2 -b:v 1M",
    "mpeg4": "-c:v mpeg4 -g 12 -bf 0 -b:v 500k",
    "mpeg4-b": "-c:v mpeg4 -g 12 -bf 2 -b:v 500k",
    "prores": "-c:v prores_ks",
    "ffv1": "-c:v ffv1",
    "mjpeg": "-c:v mjpeg -q:v 4",
}
#: Pixel formats and containers of each codec.
FORMS = {
    "x264": ("yuv420p yuvj420p yuv422p yuv444p gray yuv420p10le", "mp4 mov mkv ts avi flv"),
    "x264-b": ("yuv420p yuv420p10le", "mp4 mkv ts flv"),
    "x265": ("yuv420p yuv420p10le yuv422p10le yuv444p", "mp4 mkv ts"),
    "x265-b": ("yuv420p yuv420p10le", "mp4 mkv ts"),
    "vp9": ("yuv420p yuv444p yuv420p10le", "webm mkv mp4"),
    "vp9-hidden": ("yuv420p", "webm mp4"),
    "svtav1": ("yuv420p yuv420p10le", "mp4 mkv"),
    "aom": ("yuv420p yuv444p", "mp4 webm"),
    "mpeg2": ("yuv420p yuv422p", "mpg ts mkv avi"),
    "mpeg2-b": ("yuv420p", "mpg ts mkv"),
    "mpeg4": ("yuv420p", "avi mp4 mkv"),
    "mpeg4-b": ("yuv420p", "avi mp4 mkv"),
    "prores": ("yuv422p10le yuv444p10le", "mov mkv"),
    "ffv1": ("yuv420p yuv422p yuv444p yuv410p gray bgr0 yuv420p10le yuv444p16le", "mkv avi nut"),
    "mjpeg": ("yuvj420p yuvj422p yuvj444p", "avi mov mkv"),
}
#: What makes a video awkward, and which codecs and containers it is made for.
SHAPES = {
    "odd": ("ffv1 x264 vp9 mpeg4 mjpeg", "mp4 mkv webm avi"),
    "wide": ("x264-b x265 vp9 mpeg2 prores", "mp4 mkv webm mov mpg"),
    "turned": ("x264-b x265 mpeg4 svtav1 prores", "mp4 mov"),
    "vfr": ("x264-b x265-b vp9 vp9-hidden svtav1 mpeg4 ffv1 mjpeg", "mp4 mkv webm"),
    "cut": ("x264 x264-b x265-b vp9 svtav1 mpeg4 mpeg4-b prores", "mp4 mov"),
    "interlaced": ("x264 mpeg2 mpeg2-b prores ffv1", "mp4 mkv ts mov"),
    "full": ("x264 x265 vp9 svtav1 mpeg4 ffv1", "mp4 mkv"),
}
INTERLACED = {"x264": "-flags +ilme+ildct -x264-params tff=1", "ffv1": "-top 1", "prores": "-flags +ildct"}


@dataclass(frozen=True)
class Recipe:
    """How one video is made."""

    codec: str
    pixels: str
    container: str
    shape: str = "plain"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.codec}_{self.pixels}_{self.shape}.{self.container}"

    def make(self, ffmpeg: str, folder: Path) -> Path:
        """Make it."""
        path = folder / self.name
        # SVT-AV1 takes no smaller one
        size = "64x64" if self.codec == "svtav1" else ODD_SIZE if self.shape == "odd" else SIZE
        filters = {
            "vfr": JITTER,
            "wide": "setsar=4/3",
            "interlaced": "setfield=tff",
            "full": "scale=out_range=full",
        }.get(self.shape, "null")
        source = f"testsrc2=s={size}:r={25 if self.codec.startswith('mpeg2') else RATE}:d={SECONDS}"
        command = [ffmpeg, "-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", source, "-vf", filters]
        command += [*CODECS[self.codec].split(), "-threads", "1", "-pix_fmt", self.pixels]
        if self.shape == "vfr":
            command += ["-fps_mode", "vfr"]
        if self.shape == "full":
            command += ["-color_range", "pc"]
        if self.shape == "interlaced":
            command += INTERLACED.get(self.codec, "-flags +ilme+ildct -top 1").split()
        copied = {"cut": ["-ss", "0.7"], "turned": []}.get(self.shape)
        first = path if copied is None else folder / f"whole_{self.name}"
        subprocess.run([*command, str(first)], check=True, capture_output=True)
        if copied is not None:
            turn = ["-metadata:s:v", "rotate=90"] if self.shape == "turned" else []
            command = [ffmpeg, "-v", "error", "-nostdin", "-y", *copied, "-i", str(first), "-c", "copy"]
            subprocess.run([*command, *turn, str(path)], check=True, capture_output=True)
            first.unlink()
        return path


def recipes() -> Iterator[Recipe]:
    """All recipes, each once."""
    for codec, (pixels, containers) in FORMS.items():
        for format_ in pixels.split():
            for container in containers.split():
                if container == "flv" and format_ != "yuv420p":
                    continue
                yield Recipe(codec, format_, container)
    for shape, (codecs, containers) in SHAPES.items():
        for codec in codecs.split():
            formats, known = FORMS[codec]
            plain = formats.split()[0]
            if shape == "odd" and codec != "vp9":
                plain = {"x264": "yuv444p", "mpeg4": "yuv420p"}.get(codec, formats.split()[-1])
            for container in containers.split():
                if container in known.split():
                    yield Recipe(codec, plain, container, shape)
