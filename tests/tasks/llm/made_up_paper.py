"""The text of a paper that nobody wrote, with prompts where the papers print theirs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.llm.prompt_files import prompt_catalogue, prompt_text

ANALYSIS = "# Video Caption Analysis Prompt List what is mentioned. ```txt <<<|SCENE_CAPTION|>>> ```"
DIMENSIONS = (
    "aesthetics", "technical_quality", "appearance_style", "background_consistency", "object_removal",
    "color", "dynamics_degree", "scene", "spatial_relationship", "move_scene",
)  # fmt: skip
ROWS = "\n".join(f"| Name | {name} | It shows {name} as it should. |" for name in DIMENSIONS)

SLVMEVAL = f"""SLVMEval, a paper that is cited nowhere. See Video-Bench.
Video-based evaluation.
Section 5 mentions it.
E.1 Information Extraction from Captions
{ANALYSIS}
We insert what there is.
| aspect | dimension | description |
{ROWS}
Video-based evaluation.
[System prompt] {{internallinenumbers*}} Look at both.
[User prompt] On {{dimension}}, {{description}}: {{input_text}}
Algorithm 2 is not a prompt.
Text-based evaluation.
[System prompt] Read both.
[User prompt] {{dimension}} {{description}} {{input_text}} {{first_model_text}} {{second_model_text}}
Algorithm 3 is not one either.
Captioning.
[System prompt] Say what {{aspect}} is like: {{description}} [User prompt] Say it.
H.1 Mapping
"""

_STEPS = ("describe it.", "ask, first.", "ask, second.", "answer.", "score.")
VIDEO_BENCH = """# Video-Bench, another paper that nobody wrote
It names Video description and a Chain of query.
## F. Examples
**Video description** Words.
```
### Task: describe
→ it.
```

```

And more of it.
```
**Chain of query** Words.
```
ask, first.
```
The second evaluation assistant is told:
```
ask, second.
```
**Chain of answer** Words.
```
answer.
```
**Final scoring** Words.
```
score.
"""

CARD = '''# VideoScore
```python
REGRESSION_PROMPT = """
Rate the video of "{text_prompt}".
"""
```
'''


def mark(key: str) -> str:
    """Return what a made-up prompt begins with."""
    return f"[[{key}]]"


def write_marked(folder: Path, *areas: str) -> Path:
    """Write a folder of prompts in which each text is its name and its placeholders, and return it."""
    for key, prompt in prompt_catalogue().items():
        if prompt.area in areas:
            text = "\n".join([mark(key), *(f"{{{name}}}" for name in (*prompt.needs, *prompt.may))])
            if prompt.sections:
                text = "".join(f"# {name}\n{mark(key)} on {name}.\n" for name in prompt.sections)
            place = folder / f"{key}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    return folder


def check_only_marked_were_sent(bodies: Iterable[Any], *areas: str) -> None:
    """Check that requests have every prompt of some areas in its marked form, and no line of ours."""
    sent = "\n".join(json.dumps(body, ensure_ascii=False) for body in bodies)
    wanted = {key for key, prompt in prompt_catalogue().items() if prompt.area in areas}
    assert {key for key in wanted if mark(key) not in sent} == set()
    lines = {line for key in wanted for line in prompt_text(key).splitlines()}
    lines = {line for line in lines if len(line) > 20 and not line.startswith("#") and "{" not in line}
    assert {line for line in lines if json.dumps(line, ensure_ascii=False)[1:-1] in sent} == set()
