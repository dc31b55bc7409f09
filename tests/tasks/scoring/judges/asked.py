"""Judges that ask a server: a model, its clients, and two videos."""

from __future__ import annotations

import json
from typing import Any

from storage_schemas.model import ProviderName
from tasks.llm.chat import ChatClient
from tasks.llm.servers import ChatServer
from tasks.llm.vision_models import VlmModel
from tests.tasks.scoring.sides import FrameList, cut_video

MODEL = VlmModel(
    model="tiny", server="s", context_tokens=60_000, answer_tokens=100, most_images=40, temperature=1.0,
    extra_body={"top_k": 20},
)  # fmt: skip
FIRST, SECOND = json.dumps({"better": "first"}), json.dumps({"better": "second"})
Videos = tuple[FrameList, FrameList]
#: Those that are open.
clients: list[ChatClient] = []


def two_videos() -> Videos:
    return cut_video([4, 4, 4]), cut_video([5, 4], seed=9)


def client(url: str, provider: ProviderName = "openai") -> ChatClient:
    """Open a client that is closed at the end of the test."""
    key = None if provider == "openai" else "THE_KEY"
    server = ChatServer(name="s", url=url, provider=provider, model="tiny", key_variable=key, patience_s=0.1)
    clients.append(ChatClient(server))
    return clients[-1]


def parts(body: dict[str, Any], kind: str = "text") -> list[Any]:
    """Return the texts of the user's message, or its addresses of a kind."""
    of_kind = [part[kind] for part in body["messages"][1]["content"] if part["type"] == kind]
    return of_kind if kind == "text" else [part["url"] for part in of_kind]
