"""The VLM judges of the paper (SLVMEval, section 5.1), and anybody's: from a name or a model's fields."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from tasks.evaluators.features import FeatureCache
from tasks.evaluators.kept_captions import KeptCaptions
from tasks.evaluators.vlm_models import VLM_MODELS, VlmModel
from tasks.evaluators.vlm_text import TextJudge
from tasks.evaluators.vlm_video import VideoJudge
from tasks.models.chat_client import ChatClient, client_of
from tasks.models.servers import Servers

#: Who captions for whom: GPT-5 mini for both GPT judges, Qwen3-VL for itself (SLVMEval, section 5.1).
CAPTIONERS: Mapping[str, str] = {"gpt-5": "gpt-5-mini", "gpt-5-mini": "gpt-5-mini", "qwen3-vl": "qwen3-vl"}


def vlm_model(name: str, changes: Mapping[str, Any] | None = None) -> VlmModel:
    """Return a ready model with single fields changed; with `model` among them the name may be new.

    Raises
    ------
    UserInputError
        If there is none of that name and the changes do not describe one.
    """
    fields = dict(changes or {})
    if name in VLM_MODELS:
        return VlmModel(**{**VLM_MODELS[name].model_dump(), **fields})
    if "model" in fields and "server" in fields:
        like = VLM_MODELS["qwen3-vl"].model_dump(
            exclude={"model", "server", "extra_body", "top_p", "thinking_tokens"}
        )
        return VlmModel(**{**like, **fields})
    near = difflib.get_close_matches(name, VLM_MODELS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UserInputError(
        f"there is no ready VLM {name!r} ({', '.join(VLM_MODELS)}){hint} For another one give its settings "
        "model (its id) and server (its name in model_servers)"
    )


def _with_client(model: VlmModel, servers: Servers) -> tuple[VlmModel, ChatClient]:
    return model, client_of(servers.find(model.server, model.model))


def video_judge(cache: FeatureCache, servers: Servers, vlm: str = "gpt-5", **changes: Any) -> VideoJudge:
    """Make a video-based judge.

    Parameters
    ----------
    vlm
        ``gpt-5``, ``gpt-5-mini``, ``qwen3-vl``, or a name of your own with `changes`.
    changes
        Fields of :class:`~tasks.evaluators.vlm_models.VlmModel`.
    """
    model, client = _with_client(vlm_model(vlm, changes), servers)
    return VideoJudge(f"{vlm}-video", model, client, cache)


def text_judge(
    cache: FeatureCache,
    servers: Servers,
    store: Store,
    vlm: str = "gpt-5",
    captioner: str | None = None,
    **changes: Any,
) -> TextJudge:
    """Make a text-based judge.

    Parameters
    ----------
    vlm, changes
        As for :func:`video_judge`; of another captioner only `thinking_tokens` is changed as well.
    captioner
        Who describes the videos; the paper's by default, else the judge itself.
    """
    model = vlm_model(vlm, changes)
    by = captioner or CAPTIONERS.get(vlm)
    thoughts = {name: value for name, value in changes.items() if name == "thinking_tokens"}
    describing = model if by in (None, vlm) else vlm_model(str(by), thoughts)
    captions = KeptCaptions(store.root / "judgements" / "captions")
    return TextJudge(
        f"{vlm}-text", _with_client(model, servers), _with_client(describing, servers), cache, captions
    )


def gpt_5_video(cache: FeatureCache, servers: Servers, **changes: Any) -> VideoJudge:
    """Make the video-based judge with GPT-5."""
    return video_judge(cache, servers, "gpt-5", **changes)


def gpt_5_mini_video(cache: FeatureCache, servers: Servers, **changes: Any) -> VideoJudge:
    """Make the video-based judge with GPT-5 mini."""
    return video_judge(cache, servers, "gpt-5-mini", **changes)


def qwen3_vl_video(cache: FeatureCache, servers: Servers, **changes: Any) -> VideoJudge:
    """Make the video-based judge with Qwen3-VL."""
    return video_judge(cache, servers, "qwen3-vl", **changes)


def gpt_5_text(cache: FeatureCache, servers: Servers, store: Store, **changes: Any) -> TextJudge:
    """Make the text-based judge with GPT-5; GPT-5 mini describes."""
    return text_judge(cache, servers, store, "gpt-5", **changes)


def gpt_5_mini_text(cache: FeatureCache, servers: Servers, store: Store, **changes: Any) -> TextJudge:
    """Make the text-based judge with GPT-5 mini, which describes too."""
    return text_judge(cache, servers, store, "gpt-5-mini", **changes)


def qwen3_vl_text(cache: FeatureCache, servers: Servers, store: Store, **changes: Any) -> TextJudge:
    """Make the text-based judge with Qwen3-VL, which describes too."""
    return text_judge(cache, servers, store, "qwen3-vl", **changes)
