"""The prompt suite in its authors' published form, read from the user's copy.

The file ``locot2v_prompt_suite.json`` of github.com/XqZeppelinhead0702/LoCoT2V-Bench, commit
2840ae6dc41aa156cb90d3cdbefb325506e24d8a, is an object of themes, each an object of prompts by id. A prompt
has ``prompt``, ``main_content``, ``summary``, ``evaluation``, ``herd_questions``, ``events_info``,
``human_actions``, ``frame_num_ref`` and ``duration_ref``. We take ``main_content`` as the prompt without
evaluation information. Their later file ``data/prompt.json`` has the same structure and a reworded
``prompt``; its other fields belong to other measurements and are not read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage_schemas.errors import UserInputError
from tasks.extras.locot2v.events import FIELDS, read_events
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.user_files import read_text

#: Names of the seven attributes in that file.
ATTRIBUTES: Mapping[str, str] = {
    "Emotional Response": "emotional_response",
    "Narrative Structure and Pacing": "narrative_flow",
    "Characterization and Relationships": "character_development",
    "Visual Style": "visual_style",
    "Themes and Messages": "themes",
    "Openness and Interpretive Depth": "interpretive_depth",
    "Overall Evaluation": "overall_impression",
}
#: Parts that a prompt may lack, and the consequence.
LOST: Mapping[str, str] = {
    "base": "overall alignment is measured against the whole prompt",
    "events": "a language model is asked for them",
    "actions": "a language model is asked for them",
    **dict.fromkeys(
        (f"questions on {name}" for name in ATTRIBUTES.values()), "that attribute cannot be scored"
    ),
}
_MAX_EVENTS = 500


@dataclass
class PublishedPrompts:
    """The prompts of such a file, and the number of prompts without each part."""

    prompts: list[SuitePrompt] = field(default_factory=list)
    missing: Counter[str] = field(default_factory=Counter)

    def in_words(self) -> list[str]:
        """Return messages about the missing parts."""
        of = len(self.prompts)
        return [
            f"{count} of {of} prompts have no usable {what}: {LOST[what]}"
            for what, count in self.missing.items()
        ]


def read_published(path: Path) -> PublishedPrompts | None:
    """Read the published file; None for a file whose name does not end in ``.json``.

    Raises
    ------
    UserInputError
        If it cannot be read, or has another structure.
    """
    if path.suffix.lower() != ".json":
        return None
    try:
        whole = json.loads(read_text(path))
    except (ValueError, RecursionError) as problem:
        raise UserInputError(f"{path} is not JSON: {problem}") from problem
    if not isinstance(whole, dict) or not whole:
        raise UserInputError(
            f"{path} is not an object of themes; prompts of your own go into a .jsonl or .csv file"
        )
    published = PublishedPrompts()
    for theme, prompts in whole.items():
        if not isinstance(prompts, dict):
            raise UserInputError(f"{path}: {theme!r} is not an object of prompts by id")
        for prompt_id, entry in prompts.items():
            where = f"{path}: {theme}, {prompt_id}"
            text = entry.get("prompt") if isinstance(entry, dict) else None
            if not isinstance(text, str) or not text.strip():
                raise UserInputError(f"{where} has no text 'prompt'")
            details = _details(entry, published.missing)
            published.prompts.append(
                SuitePrompt(prompt_id=prompt_id, text=text.strip(), theme=theme, details=details)
            )
    if not published.prompts:
        raise UserInputError(f"{path} has no prompts")
    return published


def _details(entry: Mapping[str, Any], missing: Counter[str]) -> dict[str, Any]:
    details: dict[str, Any] = {}
    base, actions = entry.get("main_content"), entry.get("human_actions")
    if isinstance(base, str) and base.strip():
        details["base"] = base.strip()
    if isinstance(actions, list) and all(isinstance(one, str) for one in actions):
        details["actions"] = [one.strip() for one in actions if one.strip()]
    events = _events(entry.get("events_info"))
    if events:
        details["events"] = events
    missing.update(name for name in ("base", "events", "actions") if name not in details)
    given = entry.get("herd_questions")
    questions = {}
    for title, name in ATTRIBUTES.items():
        on_attribute = _questions(given.get(title) if isinstance(given, dict) else None)
        if on_attribute:
            questions[name] = on_attribute
        else:
            missing[f"questions on {name}"] += 1
    if questions:
        details["questions"] = questions
    evaluation = entry.get("evaluation")
    if isinstance(evaluation, dict):
        details["evaluation"] = {
            name: evaluation[title]
            for title, name in ATTRIBUTES.items()
            if isinstance(evaluation.get(title), str)
        }
    return details


def _events(given: Any) -> list[dict[str, str]]:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        return []
    renamed = [{**one, "camera": one.get("camera motion", one.get("camera", ""))} for one in given]
    try:
        events = read_events([{name: one.get(name, "") for name in FIELDS} for one in renamed], _MAX_EVENTS)
    except NotJudged:
        # counted as missing: incomplete events would shift all matches
        return []
    return [one.model_dump() for one in events]


def _questions(given: Any) -> list[dict[str, str]]:
    if not isinstance(given, list):
        return []
    questions = []
    for one in given:
        text, polarity = (one.get("question"), one.get("q_pos")) if isinstance(one, dict) else (None, None)
        if not isinstance(text, str) or not text.strip() or polarity not in ("positive", "negative"):
            return []
        questions.append({"question": text.strip(), "polarity": polarity})
    return questions
