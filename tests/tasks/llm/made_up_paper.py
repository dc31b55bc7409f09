"""The text of a paper that nobody wrote, with prompts where the papers print theirs."""

from __future__ import annotations

ANALYSIS = "# Video Caption Analysis Prompt List what is said. ```txt <<<|SCENE_CAPTION|>>> ```"
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
