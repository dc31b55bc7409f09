"""Which provider a server has."""

from __future__ import annotations

from tasks.llm.providers.base import Provider
from tasks.llm.servers import ChatServer, need_library, require_address


def open_provider(server: ChatServer) -> Provider:
    """Return the provider of a server; its library is imported now.

    Raises
    ------
    PrerequisiteError
        If the library is not installed, the key's variable is not set, or there is no server.
    """
    require_address(server)
    need_library(server.provider)
    if server.provider == "anthropic":
        from tasks.llm.providers.anthropic_messages import AnthropicMessages

        return AnthropicMessages(server)
    if server.provider == "google":
        from tasks.llm.providers.gemini import Gemini

        return Gemini(server)
    from tasks.llm.providers.openai_chat import OpenAIChat

    return OpenAIChat(server)
