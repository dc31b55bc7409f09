from __future__ import annotations

import pytest

from tasks.llm.vision_models import VLM_MODELS


def test_gpts_texts_are_counted_by_its_vocabulary() -> None:
    assert VLM_MODELS["gpt-5"].text_tokens("hello world") == 2


def test_a_text_of_a_million_characters_is_counted() -> None:
    model = VLM_MODELS["gpt-5"]
    sentence = "A red boat lies on the beach. "
    assert model.text_tokens(sentence * 40_000) == pytest.approx(40_000 * 8, rel=0.05)
