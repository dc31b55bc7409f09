"""Small real videos of pairs as workers see them, and tasks on them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.annotation.alike import write_alike
from tasks.annotation.media import byte_index
from tasks.annotation.pair_task import PairTask, PromptClip, Stretch

SECONDS = 60
#: The low side is a negative here.
DAMAGED = ((12.0, 15.0), (40.0, 43.0))
CLIP_S = 6
#: A caption that tries to leave its page.
EVIL = '</script><script>document.title = "owned"</script><img src=x onerror=alert(1)> & “quotes” \u2028'


def film(ffmpeg: str, path: Path, hue: int = 0, negative: Sequence[tuple[float, float]] = ()) -> None:
    """Write a video of a minute: 512 × 288, one frame per second, showing the time."""
    looks = [f"testsrc2=size=512x288:rate=1:duration={SECONDS},hue=h={hue}"]
    looks += [f"negate=enable='between(t,{start},{end - 0.5})'" for start, end in negative]
    command = [
        ffmpeg,
        "-v",
        "error",
        "-y",
        "-f",
        "lavfi",
        "-i",
        ",".join(looks),
        "-c:v",
        "libx264",
        "-g",
        "10",
    ]
    subprocess.run([*command, "-pix_fmt", "yuv420p", str(path)], check=True)


def films(ffmpeg: str, folder: Path) -> tuple[Path, Path]:
    """Write both sides of a pair into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    high, low = folder / "a.mp4", folder / "b.mp4"
    drafts = folder / "a.draft.mp4", folder / "b.draft.mp4"
    film(ffmpeg, drafts[0])
    film(ffmpeg, drafts[1], negative=DAMAGED)
    write_alike(drafts, (high, low))
    for draft in drafts:
        draft.unlink()
    return high, low


def filmed_pair(number: int, high: Path, low: Path, aspect: str = "aesthetics", **values: Any) -> PairTask:
    """Return a task on two videos; the first clip's caption is an attack, the second has a translation."""
    clips = tuple(
        PromptClip(
            start_s=at,
            end_s=at + CLIP_S,
            caption=EVIL
            if at == 0
            else f"Clip {at // CLIP_S}: a red ball rolls over the floor at second {at}.",
            translation=f"場面{at // CLIP_S}：赤いボールが床を転がる。" if at else "",
        )
        for at in range(0, SECONDS, CLIP_S)
    )
    stretches = tuple(
        Stretch(
            video="low", start_s=start, end_s=end, kind="degraded", note="red → blue" if start > 20 else ""
        )
        for start, end in DAMAGED
    )
    made: dict[str, Any] = {
        "pair_id": f"{number:064x}",
        "source_id": f"film-{number}",
        "aspect": aspect,
        "prompt_clips": clips,
        "high_s": float(SECONDS),
        "low_s": float(SECONDS),
        "high_file": high.name,
        "low_file": low.name,
        "high_bytes": high.stat().st_size,
        "low_bytes": low.stat().st_size,
        "high_index": byte_index(high),
        "low_index": byte_index(low),
        "must_see": stretches,
        "first_look": DAMAGED,
    }
    return PairTask.model_validate({**made, **values})
