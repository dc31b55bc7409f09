"""The three roles of LoCoT2V-Bench: who sees frames, who reads texts, who says when events take place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from storage_schemas.errors import UserInputError
from tasks.suites.video_bench.models import SuiteModel

#: Qwen2.5-VL counts one token for a square of so many pixels: patches of 14, merged two by two.
QWEN25_SQUARE = 28


class RoleModel(SuiteModel):
    """A model behind an OpenAI-compatible server, as the suite asks it.

    Parameters
    ----------
    square_px
        Side of the square of an image that counts one token, where images count in merged patches; None for
        what the house knows of Qwen3-VL.
    """

    square_px: int | None = Field(default=None, ge=1)

    def image_tokens(self, width: int, height: int) -> int:
        """Return what an image of this size counts, in tokens."""
        if self.square_px is None or self.images != "merged-patches" or self.detail is not None:
            return super().image_tokens(width, height)
        across, down = (max(1, round(side / self.square_px)) for side in (width, height))
        return across * down + 2


def _ready(model: str, server: str, context_tokens: int, most_images: int, **fields: Any) -> RoleModel:
    return RoleModel(
        model=model,
        server=server,
        context_tokens=context_tokens,
        answer_tokens=4096,
        most_images=most_images,
        temperature=0.0,
        **fields,
    )


#: The paper's models. It states no sampling: temperature 0 and the limits are ours. The names at a hub are to
#: be compared with what the server says: `model` in the profile's entry overrides them.
READY: Mapping[str, RoleModel] = {
    "qwen2.5-vl-7b": _ready(
        "Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl", 128_000, 768, square_px=QWEN25_SQUARE, image_side=448
    ),
    "time-r1-7b": _ready(
        "Boshenxx/Time-R1-7B", "time-r1", 128_000, 768, square_px=QWEN25_SQUARE, image_side=448
    ),
    "deepseek-v3.1": _ready("deepseek-ai/DeepSeek-V3.1", "deepseek", 128_000, 2),
}
#: Of a model that is not ready, what a user does not say.
_OTHER: Mapping[str, Any] = {
    "context_tokens": 32_768,
    "answer_tokens": 4096,
    "most_images": 128,
    "image_side": 448,
    "temperature": 0.0,
}


def role_model(said: str | Mapping[str, Any], role: str) -> RoleModel:
    """Return a model from its name, or from a table of its fields.

    Parameters
    ----------
    said
        Name of a ready model, or its fields: ``model`` (which may be a ready one's name) and what is to
        differ; ``server`` for one that is not ready.
    role
        What a message calls it: the setting's name.

    Raises
    ------
    UserInputError
        If there is none of that name and no server is given, or for a field that there is not.
    """
    fields = {"model": said} if isinstance(said, str) else dict(said)
    name = fields.pop("model", None)
    if not isinstance(name, str) or not name:
        raise UserInputError(f"{role}: give the model's name, or a table with model and server")
    unknown = [key for key in fields if key not in RoleModel.model_fields]
    if unknown:
        raise UserInputError(
            f"{role} has no field {unknown[0]!r}: it has {', '.join(RoleModel.model_fields)}"
        )
    if name in READY:
        return RoleModel(**{**READY[name].model_dump(), **fields})
    if "server" not in fields:
        raise UserInputError(
            f"{role}: {name!r} is no ready model ({', '.join(READY)}): give a table with model and server, "
            "the server's name in model_servers of the profile"
        )
    return RoleModel(**{**_OTHER, **fields, "model": name})
