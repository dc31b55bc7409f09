"""Small real videos of pairs as workers see them, and tasks on them."""

from __future__ import annotations

import subprocess
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


def film(ffmpeg: str, path: Path, looks: str, *options: str) -> None:
    """Write a video of 512 × 288 with a frame per second, which shows the time."""
    source = f"testsrc2=size=512x288:rate=1:duration={looks}"
    command = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "libx264", "-preset", "ultrafast"]
    command += [*options, "-coder", "cabac", "-g", "10", "-threads", "1", "-pix_fmt", "yuv420p", str(path)]
    subprocess.run(command, check=True)


def films(ffmpeg: str, folder: Path) -> tuple[Path, Path]:
    """Write both sides of a pair, of a minute, into a folder."""
    high, low = folder / "a.mp4", folder / "b.mp4"
    drafts = folder / "a.draft.mp4", folder / "b.draft.mp4"
    negative = [f"negate=enable='between(t,{start},{end - 0.5})'" for start, end in DAMAGED]
    film(ffmpeg, drafts[0], f"{SECONDS}")
    film(ffmpeg, drafts[1], ",".join([f"{SECONDS}", *negative]))
    write_alike(drafts, (high, low), "films")
    return high, low


def filmed_pair(number: int, high: Path, low: Path, aspect: str = "aesthetics", **values: Any) -> PairTask:
    """Return a task on two videos; the first clip's caption is an attack, the others have a translation."""
    clips = [PromptClip(start_s=0, end_s=CLIP_S, caption=EVIL)]
    for at in range(CLIP_S, SECONDS, CLIP_S):
        caption = f"Clip {at // CLIP_S}: a red ball rolls over the floor at second {at}."
        translation = f"場面{at // CLIP_S}：赤いボールが床を転がる。"
        clips.append(PromptClip(start_s=at, end_s=at + CLIP_S, caption=caption, translation=translation))
    made: dict[str, Any] = {
        **{"pair_id": f"{number:064x}", "source_id": f"film-{number}", "aspect": aspect},
        **{"prompt_clips": tuple(clips), "first_look": DAMAGED},
        **{"high_s": float(SECONDS), "high_file": high.name, "high_bytes": high.stat().st_size},
        **{"low_s": float(SECONDS), "low_file": low.name, "low_bytes": low.stat().st_size},
        **{"high_index": byte_index(high), "low_index": byte_index(low)},
        "must_see": tuple(
            Stretch(video="low", start_s=start, end_s=end, kind="degraded", note=note)
            for (start, end), note in zip(DAMAGED, ("", "red → blue"), strict=True)
        ),
    }
    return PairTask.model_validate({**made, **values})
