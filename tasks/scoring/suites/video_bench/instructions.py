"""The criteria of a dimension: sections of one text file, our own or the user's."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.llm.prompt_files import prompt_text, sections_in


def sections_of(dimension: str, prompts: str = "") -> Mapping[str, str]:
    """Return the sections of a dimension's criteria by name.

    Parameters
    ----------
    prompts
        The user's folder of prompts; empty for ours.

    Raises
    ------
    UserInputError
        As :func:`~tasks.llm.prompt_files.prompt_text`, such as for a missing section.
    """
    return sections_in(prompt_text(f"video-bench-criteria/{dimension}", prompts))
