"""Clients that a test opened are closed."""

from tests.tasks.llm.conftest import closed_clients

__all__ = ["closed_clients"]
