"""Settings that do not fit."""

from __future__ import annotations

import pytest

from storage_schemas.errors import UserInputError
from tasks.prompt_suite.settings import prompt_suite_settings
from tasks.scoring.suites.locot2v.settings import READY


def test_the_papers_models_are_the_defaults() -> None:
    settings = prompt_suite_settings({})
    names = {name: READY[getattr(settings, name)].model for name in ("multimodal", "language")}
    assert names == {"multimodal": "Qwen/Qwen2.5-VL-72B-Instruct", "language": "deepseek-ai/DeepSeek-V3.1"}


def test_settings_that_do_not_fit_are_said() -> None:
    with pytest.raises(UserInputError, match="did you mean rounds"):
        prompt_suite_settings({"round": 2})
    with pytest.raises(UserInputError, match="least_words 9 is above most_words 8"):
        prompt_suite_settings({"least_words": 9, "most_words": 8})
    with pytest.raises(UserInputError, match=r"^tries"):
        prompt_suite_settings({"tries": 0})
