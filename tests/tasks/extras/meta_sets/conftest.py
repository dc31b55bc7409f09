"""Clients that a test opened are closed."""

from tests.tasks.scoring.judges.conftest import closed_clients, videos

__all__ = ["closed_clients", "videos"]
