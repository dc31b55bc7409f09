"""Films of a few seconds, and folders in the layouts that other people's sets publish."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


def short_film(ffmpeg: str, path: Path, seconds: float, hue: int = 0, size: str = "64x48") -> Path:
    """A test picture that moves, in a colour of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = f"testsrc2=s={size}:r=8:d={seconds},hue=h={hue}"
    coding = () if path.suffix == ".gif" else ("-c:v", "libx264", "-preset", "ultrafast", "-threads", "1")
    command = [ffmpeg, "-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", source, *coding, str(path)]
    subprocess.run(command, check=True)
    return path


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


#: Alignment of the real video and of two models by prompt, the same from all three annotators.
ALIGNMENT = {"ground-truth": (5, 5, 4, 5, 5), "cogvideo": (1, 2, 2, 3, 2), "damo-text2video": (5, 5, 4, 5, 3)}


def fetv_folder(ffmpeg: str, root: Path) -> Path:
    """FETV's evaluation repository: five prompts, two models, three annotators; real videos are longer."""
    prompts = [
        {"video_id": f"video{number}", "prompt": f"a thing number {number}", "source": "MSRVTT"}
        for number in range(5)
    ]
    prompts.append({"video_id": None, "prompt": "nobody filmed this", "source": "ours"})  # type: ignore[dict-item]
    write_lines(root / "datas/fetv_data.json", prompts)
    for human in range(3):
        same = {
            "static_quality": 3 + (human == 0),
            "temporal_quality": 3,
            "fine-grained_alignment": {"color": 3},
        }
        for model, given in ALIGNMENT.items():
            rows = [
                {str(number): {"video_id": f"video{number}", "alignment": score, **same}}
                for number, score in enumerate(given)
            ]
            write_lines(root / f"manual_eval_results/human{human}/manual_eval_results_{model}.json", rows)
    videos = root / "datas/videos"
    for number in range(5):
        short_film(ffmpeg, videos / f"real_videos/video{number}.mp4", 4, 30 * number, "64x36")
        short_film(ffmpeg, videos / f"cogvideo/videos/{number}.gif", 2, 30 * number, "48x48")
        name = "3_a thing" if number == 3 else str(number)
        short_film(ffmpeg, videos / f"modelscope-t2v/videos/{name}.mp4", 2, 15 + 30 * number, "48x48")
    return root
