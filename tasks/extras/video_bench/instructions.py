"""The instructions of a step: a template, filled with the criteria of a dimension, our own or the user's."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.llm.prompt_files import filled, own_text, prompt_text, sections_in


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


def whole_step(step: str, dimension: str, prompts: str) -> str | None:
    """Return the user's whole text of a step for one dimension; None where our template is filled.

    The paper prints the steps of one dimension, each assistant with a text of its own (appendix F).
    """
    return own_text(f"video-bench-steps/{dimension}_{step.replace(' ', '_')}", prompts)


def instruction(step: str, sections: Mapping[str, str], prompts: str = "", **words: str) -> str:
    """Return what a model is told at a step.

    The paper has notes on some dimensions only (appendix A): without a section ``notes`` their paragraph is
    left out.

    Parameters
    ----------
    step
        Name of the template in the area ``video-bench``.
    sections, prompts
        The dimension's criteria, and the user's folder of prompts; empty for ours.
    words
        What else is put in.

    Raises
    ------
    UserInputError
        As :func:`~tasks.llm.prompt_files.prompt_text`.
    """
    template = prompt_text(f"video-bench/{step}", prompts)
    if not sections.get("notes"):
        template = template.replace("{notes}\n\n", "").replace("{notes}", "")
    return filled(template, **{name.replace(" ", "_"): text for name, text in sections.items()}, **words)
