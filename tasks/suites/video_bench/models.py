"""The two roles of Video-Bench: a multimodal model that sees frames, a language model that asks questions."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from storage_schemas.errors import UserInputError
from tasks.evaluators.vlm_models import VlmModel


class SuiteModel(VlmModel):
    """A model behind an OpenAI-compatible server, as the suite asks it.

    Parameters
    ----------
    detail
        In which detail the server is to look at images; None says nothing of it. The paper's is ``low``
        (public code of its authors; the paper itself says nothing).
    low_tokens, tile_tokens
        What an image counts in low detail, and what each tile of 512 px counts besides in high detail
        (OpenAI's guide on vision, GPT-4o). Only estimates and the check of the context use them.
    """

    detail: Literal["low", "high", "auto"] | None = None
    low_tokens: int = Field(default=85, ge=1)
    tile_tokens: int = Field(default=170, ge=1)

    def image_tokens(self, width: int, height: int) -> int:
        """Return what an image of this size counts, in tokens."""
        if self.detail == "low":
            return self.low_tokens
        if self.images != "tiles":
            return super().image_tokens(width, height)
        scale = min(1.0, 2048 / max(width, height))
        width, height = round(width * scale), round(height * scale)
        scale = min(1.0, 768 / min(width, height))
        across, down = -(-round(width * scale) // 512), -(-round(height * scale) // 512)
        return self.low_tokens + self.tile_tokens * across * down

    def request_tokens(self) -> int:
        """Return what is left for a request beside its longest answer."""
        return self.context_tokens - self.answer_tokens


def _gpt_4o(model: str, **fields: Any) -> SuiteModel:
    return SuiteModel(
        model=model,
        server="openai",
        context_tokens=128_000,
        answer_tokens=4096,
        most_images=500,
        images="tiles",
        detail="low",
        schema_tokens=100,
        temperature=0.0,
        **fields,
    )


#: The paper's models (section 5.3), at temperature 0.
READY: Mapping[str, SuiteModel] = {
    "gpt-4o-2024-08-06": _gpt_4o("gpt-4o-2024-08-06"),
    "gpt-4o-mini": _gpt_4o("gpt-4o-mini", low_tokens=2833, tile_tokens=5667),
}
#: Of a model that is not ready, what a user does not say.
_OTHER: Mapping[str, Any] = {
    "context_tokens": 32_768,
    "answer_tokens": 4096,
    "most_images": 128,
    "temperature": 0.0,
}


def suite_model(said: str | Mapping[str, Any], role: str) -> SuiteModel:
    """Return a model from its name, or from a table of its fields.

    Parameters
    ----------
    said
        Name of a ready model, or its fields: ``model`` (which may be a ready one's) and what is to differ;
        ``server`` for one that is not ready.
    role
        What a message calls it: the setting's name.

    Raises
    ------
    UserInputError
        If there is none of that name, and no server is given.
    """
    fields = {"model": said} if isinstance(said, str) else dict(said)
    name = fields.get("model")
    if not isinstance(name, str):
        raise UserInputError(f"{role}: give the model's name, or a table with model and server")
    unknown = [key for key in fields if key not in SuiteModel.model_fields]
    if unknown:
        near = difflib.get_close_matches(unknown[0], SuiteModel.model_fields, n=1)
        hint = f": did you mean {near[0]}?" if near else ""
        raise UserInputError(f"{role} has no field {unknown[0]!r}{hint}")
    if name in READY:
        return SuiteModel(**{**READY[name].model_dump(), **fields})
    if "server" not in fields:
        raise UserInputError(
            f"{role}: {name!r} is no ready model ({', '.join(READY)}): give a table with model and server, "
            "the server's name in model_servers of the profile"
        )
    return SuiteModel(**{**_OTHER, **fields})
