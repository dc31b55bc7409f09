"""What a worker sees: templates, styles, scripts, and the texts in English and Japanese."""

from slvmeval.annotation.pages.render import ASSETS, ASSETS_URL, render
from slvmeval.annotation.pages.texts import Texts, check_texts, texts

__all__ = ["ASSETS", "ASSETS_URL", "Texts", "check_texts", "render", "texts"]
